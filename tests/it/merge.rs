//! Tests of `osjitter merge`: it loses nothing, and rejects reports that cannot be merged.

use std::path::Path;

use serde_json::{Value, json};

use crate::fixtures::recorded_json;
use crate::osjitter::{Osjitter, Ran};

const COUNTS: [&str; 6] = ["ticks", "delivered", "coalesced", "skipped", "missed", "early"];

fn measure(more: &[&str]) -> Ran {
    let run = Osjitter::new([
        "run", "--subject", "nanosleep", "--subject", "tokio-interval-skip", "--ticks", "200",
    ]);
    run.args(more).out("").run().exits(0)
}

/// Merges the runs by their directories.
fn merge(runs: [&Ran; 2], more: &[&str]) -> Ran {
    Osjitter::new(["merge"]).args(more).args(runs.map(Ran::directory)).run()
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn all_lateness(subject: &Value) -> Vec<i64> {
    let rounds = subject["rounds"].as_array().unwrap().iter();
    rounds.flat_map(|r| r["lateness_ns"].as_array().unwrap()).map(|v| v.as_i64().unwrap()).collect()
}

/// Finds a subject by its id. Two reports may list subjects in different orders.
fn subject<'a>(report: &'a Value, id: &Value) -> &'a Value {
    report["subjects"]
        .as_array()
        .unwrap()
        .iter()
        .find(|s| s["id"] == *id)
        .expect("a subject of both")
}

fn assert_lossless(merged: &Value, parts: [&Value; 2]) {
    for merged_subject in merged["subjects"].as_array().unwrap() {
        let parts = parts.map(|part| subject(part, &merged_subject["id"]));
        let both: Vec<i64> = parts.into_iter().flat_map(all_lateness).collect();
        assert_eq!(all_lateness(merged_subject), both);
        assert_eq!(merged_subject["histogram"]["count"], both.len());
        assert_eq!(merged_subject["summary"]["lateness_ns"]["max"], *both.iter().max().unwrap());
        for count in COUNTS {
            let sum: u64 = parts.iter().map(|p| p["summary"][count].as_u64().unwrap()).sum();
            assert_eq!(
                merged_subject["summary"][count], sum,
                "{count} of {}",
                merged_subject["id"]
            );
        }
    }
}

#[test]
fn merged_report_contains_all_ticks() {
    let runs = [measure(&[]), measure(&[])];
    let merged = merge([&runs[0], &runs[1]], &[]).exits(0).stdout;
    let parts = runs.each_ref().map(|run| run.json("report.json"));
    assert_lossless(&parse(&merged), [&parts[0], &parts[1]]);
    let table = runs[0].path("merged.json");
    std::fs::write(&table, merged).unwrap();
    Osjitter::new([Path::new("report"), &table]).run().exits(0);
}

/// A stalled machine can skip every tick of a round, which then has no summary to count them.
#[test]
fn round_without_ticks_is_counted() {
    let whole = recorded_json();
    let mut stalled = whole.clone();
    let skipping = &mut stalled["subjects"][1];
    let round = &mut skipping["rounds"][3];
    let [ticks, delivered, missed] =
        ["ticks", "delivered", "missed"].map(|n| round["summary"][n].as_u64().unwrap());
    assert_eq!((skipping["name"].as_str(), ticks), (Some("tokio-interval-skip"), delivered));
    let round = &mut skipping["rounds"][3];
    round["lateness_ns"] = Value::Array(vec![]);
    round["until_unpark_ns"] = Value::Null;
    round["summary"] = Value::Null;
    skipping["histogram"] = Value::Null;
    let mut add = |name: &str, more: i64| {
        let count = &mut skipping["summary"][name];
        *count = (count.as_i64().unwrap() + more).into();
    };
    let (ticks, missed) = (i64::try_from(ticks).unwrap(), i64::try_from(missed).unwrap());
    add("delivered", -ticks);
    add("skipped", ticks);
    add("missed", ticks - missed);
    let home = tempfile::tempdir().unwrap();
    let mut other = whole.clone();
    shift_phases(&mut other);
    let files = ["stalled.json", "other.json"].map(|name| home.path().join(name));
    std::fs::write(&files[0], stalled.to_string()).unwrap();
    std::fs::write(&files[1], other.to_string()).unwrap();
    let merged = Osjitter::new(["merge"]).args(&files).run().exits(0);
    assert_lossless(&parse(&merged.stdout), [&stalled, &other]);
}

/// Changes the phases of a report, which makes it another run.
fn shift_phases(report: &mut Value) {
    let subjects = report["subjects"].as_array_mut().unwrap().iter_mut();
    for round in subjects.flat_map(|subject| subject["rounds"].as_array_mut().unwrap()) {
        round["phase_ns"] = (round["phase_ns"].as_u64().unwrap() + 1).into();
    }
}

/// Returns a part of a report: some rounds of each subject, with the sums of its summary.
fn part(report: &Value, rounds: std::ops::Range<usize>) -> Value {
    let mut part = report.clone();
    for subject in part["subjects"].as_array_mut().unwrap() {
        let kept = subject["rounds"].as_array().unwrap()[rounds.clone()].to_vec();
        let summaries: Vec<&Value> = kept.iter().map(|r| &r["summary"]).collect();
        for count in COUNTS {
            let sum: u64 = summaries.iter().map(|s| s[count].as_u64().unwrap()).sum();
            subject["summary"][count] = sum.into();
        }
        let ticks = subject["summary"]["ticks"].as_f64().unwrap();
        for cost in ["cpu_ns_per_tick", "wakeups_per_tick"] {
            let all =
                summaries.iter().map(|s| s[cost].as_f64().unwrap() * s["ticks"].as_f64().unwrap());
            subject["summary"][cost] = (all.sum::<f64>() / ticks).into();
        }
        subject["histogram"] = Value::Null;
        subject["rounds"] = kept.into();
    }
    part
}

#[test]
fn merged_halves_equal_whole() {
    let whole = recorded_json();
    let rounds = whole["subjects"][0]["rounds"].as_array().unwrap().len();
    assert!(rounds > 5);
    let halves = [0..4, 4..rounds].map(|rounds| part(&whole, rounds));
    let home = tempfile::tempdir().unwrap();
    let files = ["one.json", "other.json"].map(|name| home.path().join(name));
    files
        .iter()
        .zip(&halves)
        .for_each(|(file, half)| std::fs::write(file, half.to_string()).unwrap());
    let merged = parse(&Osjitter::new(["merge"]).args(&files).run().exits(0).stdout);
    for subject in whole["subjects"].as_array().unwrap() {
        let again = &self::subject(&merged, &subject["id"])["summary"];
        for (name, value) in subject["summary"].as_object().unwrap() {
            // Costs are kept as fractions, and drift is a sum of products: neither is exact.
            match (value.as_f64().filter(|_| !value.is_i64()), again[name].as_f64()) {
                (Some(value), Some(again)) if value != 0.0 => {
                    assert!((again / value - 1.0).abs() < 1e-3, "{name}")
                }
                _ => assert_eq!(again[name], *value, "{name}"),
            }
        }
        assert!(subject["summary"]["cpu_ns_per_tick"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn duplicate_run_is_rejected() {
    let runs = [measure(&[]), measure(&[])];
    let [first, second] = runs.each_ref().map(Ran::directory);
    let both = first.join("both.json");
    let merged = Osjitter::new([Path::new("merge"), first, second, Path::new("--out"), &both])
        .run()
        .exits(0);
    assert!(merged.stdout.is_empty());
    for files in [[first, first], [first, &both], [&both, second]] {
        Osjitter::new(["merge", "--force"]).args(files).run().refuses("the same run");
    }
}

#[test]
fn different_plans_are_rejected() {
    let base = measure(&[]);
    let other = measure(&["--period", "1ms"]);
    let bare = measure(&["--no-samples"]);
    for (runs, expected) in
        [([&base, &other], "the plans differ"), ([&base, &bare], "without loss")]
    {
        merge(runs, &[]).refuses(expected);
    }
    let forced = merge([&base, &other], &["--force"]).exits(0);
    let warnings = parse(&forced.stdout)["warnings"].to_string();
    assert!(warnings.contains("merged-plans-differ"), "{warnings}");
}

#[test]
fn instances_merge_with_coalesced_ticks() {
    // With such a short period ticks share wake-ups, and rounds of few ticks make more rounds than
    // one instance has.
    let run = || {
        let args = ["run", "--subject", "periodic-interval", "--instances", "8", "--period", "2us"];
        Osjitter::new(args).args(["--round-ticks", "20", "--ticks", "100"]).out("").run().exits(0)
    };
    let runs = [run(), run()];
    let merged = parse(&merge([&runs[0], &runs[1]], &[]).exits(0).stdout);
    let parts = runs.each_ref().map(|run| run.json("report.json"));
    for count in COUNTS {
        let sum: u64 =
            parts.iter().map(|p| p["subjects"][0]["summary"][count].as_u64().unwrap()).sum();
        assert_eq!(merged["subjects"][0]["summary"][count], sum, "{count}");
    }
}

/// Replaces the first subject of a report by one that failed before its first round.
fn fail_first_subject(report: &mut Value) {
    let subject = &mut report["subjects"][0];
    subject["status"] = serde_json::json!({"state": "failed", "reason": "it rained"});
    subject["summary"] = Value::Null;
    subject["histogram"] = Value::Null;
    subject["rounds"] = Value::Array(vec![]);
}

#[test]
fn failure_is_named_in_any_order() {
    let home = tempfile::tempdir().unwrap();
    let files = ["failed.json", "measured.json"].map(|name| home.path().join(name));
    let measured = recorded_json();
    let mut failed = measured.clone();
    fail_first_subject(&mut failed);
    shift_phases(&mut failed);
    std::fs::write(&files[0], failed.to_string()).unwrap();
    std::fs::write(&files[1], measured.to_string()).unwrap();
    let both = home.path().join("both.json");
    for inputs in [[&files[0], &files[1]], [&files[1], &files[0]]] {
        let merged =
            Osjitter::new(["merge", "--force"]).args(inputs).args([Path::new("--out"), &both]);
        let _ = merged.run().exits(0);
        let report = |format: &str| {
            Osjitter::new([Path::new("report"), &both]).args(["--format", format]).run().exits(0)
        };
        let json = parse(&report("json").stdout);
        assert_eq!(json["subjects"][0]["status"]["state"], "partial");
        let table = report("table").stdout.replace('\n', " ");
        assert!(!table.contains("not measured"), "{table}");
        for text in [table, report("csv").stderr] {
            assert!(text.contains("failed in 1 of 2 reports: it rained"), "{text}");
        }
    }
}

#[test]
fn unnamed_outliers_are_counted() {
    const SUBJECTS: usize = 13;
    let measure = |seed: &str, lateness_ns: u64| {
        let periods = (1..=SUBJECTS).flat_map(|n| ["--period".to_owned(), format!("{n}ms")]);
        let script = json!({ "scripted": { "lateness_ns": [lateness_ns], "cpu_ns_per_tick": 1 } });
        let run = Osjitter::new(["run", "--subject", "scripted", "--ticks", "20", "--seed", seed]);
        run.args(periods.collect::<Vec<_>>()).script(&script).out("").run().exits(0)
    };
    let runs = [measure("1", 10_000), measure("2", 10_000), measure("3", 50_000)];
    let directories = runs.iter().map(Ran::directory).collect::<Vec<_>>();
    let ran = Osjitter::new(["merge"]).args(directories).run().exits(0);
    let named = ran.stderr.lines().filter(|line| line.starts_with("outlier: ")).count();
    assert_eq!(named, 10, "{}", ran.stderr);
    assert!(ran.stderr.ends_with("\nand 3 more outliers\n"), "{}", ran.stderr);
}
