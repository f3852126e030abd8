//! `osjitter merge` from outside: nothing is lost, and what cannot be joined is refused.

use std::path::Path;

use serde_json::Value;

use crate::osjitter::{Osjitter, Ran};

const COUNTS: [&str; 6] = ["ticks", "delivered", "coalesced", "skipped", "missed", "early"];

fn a_run(more: &[&str]) -> Ran {
    let run = Osjitter::new([
        "run",
        "--subject",
        "nanosleep",
        "--subject",
        "tokio-interval-skip",
        "--ticks",
        "200",
    ]);
    run.args(more).out("").run().exits(0)
}

/// Merges the runs by their directories.
fn merge(runs: [&Ran; 2], more: &[&str]) -> Ran {
    Osjitter::new(["merge"]).args(more).args(runs.map(Ran::directory)).run()
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn all_lateness(subject: &Value) -> Vec<i64> {
    let rounds = subject["rounds"].as_array().unwrap().iter();
    rounds.flat_map(|r| r["lateness_ns"].as_array().unwrap()).map(|v| v.as_i64().unwrap()).collect()
}

/// The subject of that id: a report need not have them in the order of another.
fn subject<'a>(report: &'a Value, id: &Value) -> &'a Value {
    report["subjects"].as_array().unwrap().iter().find(|s| s["id"] == *id).expect("it is in both")
}

fn nothing_is_lost(merged: &Value, parts: [&Value; 2]) {
    for of_both in merged["subjects"].as_array().unwrap() {
        let parts = parts.map(|part| subject(part, &of_both["id"]));
        let both: Vec<i64> = parts.into_iter().flat_map(all_lateness).collect();
        assert_eq!(all_lateness(of_both), both);
        assert_eq!(of_both["histogram"]["count"], both.len());
        assert_eq!(of_both["summary"]["lateness_ns"]["max"], *both.iter().max().unwrap());
        for count in COUNTS {
            let sum: u64 = parts.iter().map(|p| p["summary"][count].as_u64().unwrap()).sum();
            assert_eq!(of_both["summary"][count], sum, "{count} of {}", of_both["id"]);
        }
    }
}

#[test]
fn every_tick_and_every_count_of_both_is_in_the_sum() {
    let runs = [a_run(&[]), a_run(&[])];
    let merged = merge([&runs[0], &runs[1]], &[]).exits(0).stdout;
    let parts = runs.each_ref().map(|run| parsed(&run.file("report.json")));
    nothing_is_lost(&parsed(&merged), [&parts[0], &parts[1]]);
    let table = runs[0].path("merged.json");
    std::fs::write(&table, merged).unwrap();
    Osjitter::new([Path::new("report"), &table]).run().exits(0);
}

/// A stalled machine can skip every tick of a round, which then has no summary to count them.
#[test]
fn a_round_in_which_no_tick_came_counts() {
    let whole = recorded();
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
    // The other is another run.
    let mut other = whole.clone();
    for round in other["subjects"]
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .flat_map(|s| s["rounds"].as_array_mut().unwrap())
    {
        round["phase_ns"] = (round["phase_ns"].as_u64().unwrap() + 1).into();
    }
    let files = ["stalled.json", "other.json"].map(|name| home.path().join(name));
    std::fs::write(&files[0], stalled.to_string()).unwrap();
    std::fs::write(&files[1], other.to_string()).unwrap();
    let merged = Osjitter::new(["merge"]).args(&files).run().exits(0);
    nothing_is_lost(&parsed(&merged.stdout), [&stalled, &other]);
}

/// A report of which every round has ticks, as none that is measured here has for certain.
fn recorded() -> Value {
    parsed(
        &std::fs::read_to_string(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/fixtures/report.json"
        ))
        .unwrap(),
    )
}

/// One part of a report: these rounds of each subject, with the sums that its summary has.
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
fn the_halves_of_a_report_make_the_whole_again() {
    let whole = recorded();
    let rounds = whole["subjects"][0]["rounds"].as_array().unwrap().len();
    assert!(rounds > 5);
    let halves = [0..4, 4..rounds].map(|rounds| part(&whole, rounds));
    let home = tempfile::tempdir().unwrap();
    let files = ["one.json", "other.json"].map(|name| home.path().join(name));
    files
        .iter()
        .zip(&halves)
        .for_each(|(file, half)| std::fs::write(file, half.to_string()).unwrap());
    let merged = parsed(&Osjitter::new(["merge"]).args(&files).run().exits(0).stdout);
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
fn a_run_that_is_there_twice_is_refused() {
    let runs = [a_run(&[]), a_run(&[])];
    let [one, other] = runs.each_ref().map(Ran::directory);
    let both = one.join("both.json");
    let merged =
        Osjitter::new([Path::new("merge"), one, other, Path::new("--out"), &both]).run().exits(0);
    assert!(merged.stdout.is_empty());
    for files in [[one, one], [one, &both], [&both, other]] {
        let refused = Osjitter::new(["merge", "--force"]).args(files).run().exits(2);
        assert!(
            refused.stderr.contains("the same run") && refused.stdout.is_empty(),
            "{}",
            refused.stderr
        );
    }
}

#[test]
fn what_differs_or_has_no_samples_is_refused() {
    let one = a_run(&[]);
    let other = a_run(&["--period", "1ms"]);
    let bare = a_run(&["--no-samples"]);
    for (runs, says) in [([&one, &other], "the plans differ"), ([&one, &bare], "without loss")] {
        let refused = merge(runs, &[]).exits(2);
        assert!(refused.stderr.contains(says) && refused.stdout.is_empty(), "{}", refused.stderr);
    }
    let forced = merge([&one, &other], &["--force"]).exits(0);
    let warnings = parsed(&forced.stdout)["warnings"].to_string();
    assert!(warnings.contains("merged-plans-differ"), "{warnings}");
}

#[test]
fn many_instances_of_a_ticker_are_merged_with_what_they_coalesced() {
    // So short a period that ticks share wake-ups, with rounds of few ticks: more of them than one
    // instance has.
    let run = || {
        let args = ["run", "--subject", "periodic-interval", "--instances", "8", "--period", "2us"];
        Osjitter::new(args).args(["--round-ticks", "20", "--ticks", "100"]).out("").run().exits(0)
    };
    let runs = [run(), run()];
    let merged = parsed(&merge([&runs[0], &runs[1]], &[]).exits(0).stdout);
    let parts = runs.each_ref().map(|run| parsed(&run.file("report.json")));
    for count in COUNTS {
        let sum: u64 =
            parts.iter().map(|p| p["subjects"][0]["summary"][count].as_u64().unwrap()).sum();
        assert_eq!(merged["subjects"][0]["summary"][count], sum, "{count}");
    }
}
