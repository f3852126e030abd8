//! Tests of limits on a measured subject or a report.

use std::collections::BTreeSet;
use std::path::Path;

use files::file::File as _;
use files::report::Warning;
use jitterstat::gate::decision::{Outcome, Reason};

use super::Gate;
#[cfg(unix)]
use super::runs::ScriptPair;
use crate::fixtures::recorded_report;
use crate::osjitter::{Osjitter, one_line};
#[cfg(unix)]
use crate::osjitter::{Ran, interrupt_while_measuring};

/// Twenty rounds of twenty-five ticks at 1 ms: less than a second.
const SHORT: [&str; 8] =
    ["--subject", "nanosleep", "--period", "1ms", "--ticks", "500", "--round-ticks", "25"];

fn limits(max: &[&str], rest: &[&str]) -> Gate {
    let max: Vec<&str> = max.iter().flat_map(|m| ["--limit", m]).collect();
    Gate::run(&[&max, rest].concat())
}

#[test]
fn wide_limits_pass() {
    let gate = limits(
        &["p50=10s", "p99=1000s", "missed=100%", "early=0%", "jitter_spread.p90=1h"],
        &SHORT,
    );
    let verdict = gate.verdict();
    assert_eq!((gate.ran.code, verdict.verdict), (0, Outcome::Pass), "{}", gate.ran.stdout);
    let paths: Vec<&str> = verdict.limits.iter().map(|l| l.path.as_str()).collect();
    assert_eq!(
        paths,
        ["lateness_ns.p50", "lateness_ns.p99", "missed", "early", "jitter_spread_ns.p90"]
    );
    assert!(
        verdict.limits.iter().all(|l| l.rounds == 20 && l.ticks == 500 && l.interval.is_some())
    );
    let report = gate.ran.report();
    let summary = report.subjects[0].summary.as_ref().unwrap();
    assert_eq!(
        verdict.limits[1].value,
        summary.lateness_ns.p99.map(|ns| ns as f64),
        "the value over all rounds"
    );
}

#[test]
fn impossible_limit_is_broken() {
    let gate = limits(&["p50=0ns", "missed=100%"], &[&SHORT[..], &["--format", "junit"]].concat());
    let verdict = gate.verdict();
    assert_eq!((gate.ran.code, verdict.verdict), (1, Outcome::LimitBroken), "{}", gate.ran.stdout);
    let verdicts: Vec<Outcome> = verdict.limits.iter().map(|l| l.verdict).collect();
    assert_eq!(verdicts, [Outcome::LimitBroken, Outcome::Pass]);
    assert!(gate.ran.stdout.contains("tests=\"2\" failures=\"1\""), "{}", gate.ran.stdout);
}

/// Tools keep one result for each name.
#[test]
fn repeated_limits_have_different_names() {
    let limits_twice = ["missed=100%", "missed=100%", "missed=99%"];
    let gate = limits(&limits_twice, &[&SHORT[..], &["--format", "junit"]].concat());
    let names: Vec<&str> = gate.ran.stdout.split(" name=\"").skip(2).collect();
    let names: BTreeSet<&str> = names.iter().filter_map(|text| text.split('"').next()).collect();
    assert_eq!(names.len(), 3, "{}", gate.ran.stdout);
}

#[test]
fn sarif_contains_broken_and_open_limits() {
    let findings = |text: &str| -> Vec<(String, String, String)> {
        let document: serde_json::Value = serde_json::from_str(text).unwrap();
        let run = &document["runs"][0];
        let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
        let result = |r: &serde_json::Value| {
            assert_eq!(rules[r["ruleIndex"].as_u64().unwrap() as usize]["id"], r["ruleId"], "{r}");
            let [kind, level] = ["kind", "level"].map(|key| r[key].as_str().unwrap().to_owned());
            // Only failures have a level.
            assert_eq!(kind == "fail", level != "none", "{r}");
            let name = r["locations"][0]["logicalLocations"][0]["fullyQualifiedName"]
                .as_str()
                .unwrap()
                .to_owned();
            assert!(
                r["message"]["text"].as_str().unwrap().starts_with(&format!("{name}: ")),
                "{r}"
            );
            (r["ruleId"].as_str().unwrap().to_owned(), kind, name)
        };
        run["results"].as_array().unwrap().iter().map(result).collect()
    };
    let gate = limits(&["p50=0ns", "missed=100%"], &[&SHORT[..], &["--format", "sarif"]].concat());
    assert_eq!(gate.ran.code, 1);
    let found = findings(&gate.ran.stdout);
    let [(rule, kind, name)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((rule.as_str(), kind.as_str()), ("limit-broken", "fail"));
    assert!(name.contains("lateness_ns.p50 at most 0"), "{name}");
    let file = gate.ran.path("verdict.json");
    let again = Osjitter::new(["report", "--format", "sarif"]).args([&file]).run().exits(0).stdout;
    assert_eq!(again, gate.ran.stdout);

    let few = [
        "--subject", "nanosleep", "--period", "1ms", "--ticks", "900", "--round-ticks", "100",
        "--format", "sarif",
    ];
    let found = findings(&limits(&["p50=0ns"], &few).ran.stdout);
    assert!(
        matches!(&found[..], [(rule, kind, _)] if rule == "inconclusive" && kind == "open"),
        "{found:?}"
    );
    let improved = Osjitter::new(["report", "tests/fixtures/verdict.json", "--format", "sarif"])
        .run()
        .exits(0)
        .stdout;
    assert_eq!(findings(&improved), []);
}

#[test]
fn few_rounds_are_inconclusive() {
    let few =
        ["--subject", "nanosleep", "--period", "1ms", "--ticks", "900", "--round-ticks", "100"];
    for (extra, code) in [(&[][..], 0), (&["--on-inconclusive", "fail"], 3)] {
        let gate = limits(&["p50=0ns"], &[&few[..], extra, &["--format", "junit"]].concat());
        let verdict = gate.verdict();
        assert_eq!((gate.ran.code, verdict.verdict), (code, Outcome::Inconclusive));
        let reason = ": there are too few rounds for an interval\"/></testcase>";
        assert!(gate.ran.stdout.contains(reason), "{}", gate.ran.stdout);
        assert_eq!(
            (verdict.reason, verdict.limits[0].interval),
            (Some(Reason::TooFewRounds), None)
        );
    }
}

#[test]
fn report_is_checked_without_measuring() {
    let subjects =
        ["--subject", "nanosleep", "--subject", "tokio-sleep", "--period", "1ms", "--ticks", "200"];
    let run =
        |extra: &[&str]| Osjitter::new(["run"]).args(subjects).args(extra).out("").run().exits(0);
    let ran = run(&[]);
    let file = ran.path("report.json");
    let file = file.to_str().unwrap();
    let gate = limits(
        &["p50=10s", "max=1h", "cpu_ns_per_tick=1s"],
        &["--report", file, "--subject", "nanosleep"],
    );
    let verdict = gate.verdict();
    assert_eq!(
        (gate.ran.code, verdict.verdict, verdict.limits.len()),
        (0, Outcome::Pass, 3),
        "{}",
        gate.ran.stdout
    );
    assert_eq!(verdict.limits[1].interval, None, "the maximum has no interval");
    assert!(!gate.ran.path("report.json").exists(), "nothing was measured");
    let id = "tokio-sleep@1ms/current-thread";
    if cfg!(unix) {
        assert_eq!(
            limits(&["wakeups_per_tick=0/tick"], &["--report", file, "--subject", id]).ran.code,
            1
        );
    }

    for (max, rest, says) in [
        ("p50=1ms", &["--report", file][..], "choose with --subject one of"),
        ("p99.9=1ms", &["--report", file, "--subject", "nanosleep"], "too few ticks to support it"),
        (
            "after_unpark.p50=1ms",
            &["--report", file, "--subject", "nanosleep"],
            "after_unpark_ns.p50",
        ),
        ("p50=1ms", &["--report", file, "--subject", "nanosleep", "--ticks", "5"], "--ticks"),
        (
            "p50=1ms",
            &["--report", "no/such/file", "--subject", "nanosleep"],
            "cannot read no/such/file",
        ),
    ] {
        limits(&[max], rest).refuses(says);
    }

    let ran = run(&["--no-samples"]);
    let file = ran.path("report.json");
    limits(&["p50=1ms"], &["--report", file.to_str().unwrap(), "--subject", "nanosleep"])
        .refuses("samples");
}

#[test]
fn open_limit_suggests_ticks() {
    // Rounds alternate between 10 and 30 us.
    let script = serde_json::json!({"scripted": {"lateness_ns": [[10_000], [30_000]]}});
    let measured = [
        "--limit", "mean=21us", "--subject", "scripted", "--period", "1ms", "--ticks", "500",
        "--round-ticks", "25",
    ];
    let gate = Gate::from_ran(super::gate(&measured).script(&script).run()).exits(0);
    let limit = &gate.verdict().limits[0];
    let ticks = limit.ticks_to_decide.expect("an inconclusive limit");
    assert_eq!((limit.period_ns, limit.report.as_ref()), (Some(1_000_000), None));
    let seconds = (ticks as f64 / 1e3).ceil();
    let says = format!(
        "about {ticks} ticks ({seconds}s) would probably decide the limits: --ticks {ticks}"
    );
    assert!(one_line(&gate.ran.stdout).contains(&says), "{says}: {}", gate.ran.stdout);

    // A gate on a report measures nothing, so it cannot suggest --ticks.
    let report = gate.ran.path("report.json");
    let report = report.to_str().unwrap();
    let reported = limits(&["mean=21us"], &["--report", report]);
    assert_eq!(reported.verdict().limits[0].report.as_deref(), Some(report));
    let says =
        format!("a report of about {ticks} ticks ({seconds}s) would probably decide the limits");
    let stdout = one_line(&reported.ran.stdout);
    assert!(stdout.contains(&says) && !stdout.contains("--ticks"), "{says}: {stdout}");
}

#[test]
fn early_subjects_are_not_judged() {
    let script = serde_json::json!({"scripted": {"lateness_ns": [[-10_000]]}});
    let measured = "--limit p50=1ms --subject scripted --period 1ms --ticks 500 --round-ticks 25";
    let measured: Vec<&str> = measured.split(' ').collect();
    let gate = Gate::from_ran(super::gate(&measured).script(&script).run());
    let report = gate.ran.path("report.json");
    let reported = limits(&["p50=1ms"], &["--report", report.to_str().unwrap()]);
    // Early ticks do not lower the maximum.
    let maximum = limits(&["max=1ms"], &["--report", report.to_str().unwrap()]).exits(0);
    assert_eq!(maximum.verdict().verdict, Outcome::Pass);
    for gate in [&gate, &reported] {
        let found = (gate.verdict().verdict, gate.verdict().reason);
        assert_eq!(found, (Outcome::Inconclusive, Some(Reason::EarlyTicks)));
        let is_named = gate.verdict().warnings.iter().any(|warning| warning.code == "early-ticks");
        assert!(is_named, "{}", gate.ran.stdout);
    }
}

#[test]
fn unsupported_limits_are_rejected() {
    for (max, says) in [
        ("p99", "'--limit <PATH=VALUE>': invalid limit"),
        ("p98=1ms", "the nearest are lateness_ns.p9"),
        ("jiter_spread.p99=1ms", "jitter_spread_ns.p99"),
        ("cpu_per_tick=1us", "cpu_ns_per_tick"),
        ("colour=1ms", "expected p50, p90"),
        ("elapsed_ns=1s", "the length of a run"),
        ("p99=0.1%", "not a unit of time"),
        ("missed=3", "0.1%"),
        ("drift_ppb=1ms", "100ppb"),
        ("wakeups_per_tick=2", "1.5/tick"),
        ("cpu_ns_per_tick=2%", "not a unit of time"),
        ("p99.9=1ms", "--ticks 5000"),
        ("median_round.p99=1ms", "--round-ticks"),
        ("after_unpark.p50=1ms", "no runtime"),
    ] {
        limits(&[max], &SHORT).refuses(says);
    }
    for (args, says) in [
        (&["--limit", "p50=1ms"][..], "--subject or --report"),
        (&["--report", "r.json"], "--limit"),
        (&["--limit", "p50=1ms", "--subject", "tokio-*"], "several subjects"),
        (
            &["--limit", "p50=1ms", "--subject", "spin", "--period", "1ms", "--period", "2ms"],
            "once",
        ),
        (&["--ticks", "5", "--a", "spin", "--b", "spin"], "--limit"),
        (
            &[
                "--limit", "median_round.p50=1ms", "--subject", "spin", "--ticks", "255",
                "--round-ticks", "25",
            ],
            "the last one of --ticks 255 has 5 ticks; give --ticks 250",
        ),
    ] {
        Gate::run(args).refuses(says);
    }
}

/// The last number of the file is a tenth of the true one.
#[test]
fn cut_numbers_are_not_limited() {
    let text = std::fs::read("tests/fixtures/formats/cyclictest-1.5-quiet.txt").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("cut.txt");
    let args = ["--report", file.to_str().unwrap(), "--subject", "cyclictest@2500us/thread-1"];
    std::fs::write(&file, &text).unwrap();
    assert_eq!(limits(&["max=5ms"], &args).ran.code, 1);
    std::fs::write(&file, &text[..text.len() - 2]).unwrap();
    limits(&["max=5ms"], &args).refuses("no line break after its last line");
}

/// Rounds and files that are left out of the judged numbers are named.
#[test]
fn verdict_has_warnings_of_report() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("report.json");
    let mut report = recorded_report();
    let [judged, other] = ["nanosleep", "os-interval"].map(|name| {
        let subject = report.subjects.iter().find(|subject| subject.name == name);
        subject.unwrap().id.clone()
    });
    report.warnings = [
        format!("3 rounds of {judged} excluded: the CPU affinity was changed"),
        format!("4 rounds of {other} excluded: the nice value was changed"),
        "the machine was suspended".to_owned(),
    ]
    .map(|message| Warning::new("a-code", message, "measure again"))
    .into();
    std::fs::write(&file, report.to_json()).unwrap();
    let args = ["--report", file.to_str().unwrap(), "--subject", &judged];
    let gate = limits(&["max=1h"], &args);
    let copied: Vec<&str> =
        gate.verdict().warnings.iter().map(|warning| warning.message.as_str()).collect();
    let excluded = format!("3 rounds of {judged} excluded: the CPU affinity was changed.");
    assert_eq!(copied, [excluded.as_str(), "the machine was suspended."]);
    let stdout = gate.ran.stdout.replace('\n', " ");
    let sentences = format!("{excluded} Measure again.");
    assert!(stdout.contains(&sentences), "{stdout}");
    let verdict = gate.ran.path("verdict.json");
    for format in ["table", "json", "markdown", "html", "junit", "sarif"] {
        let shown = Osjitter::new([Path::new("report"), &verdict]).args(["--format", format]);
        let shown = shown.run().exits(0).stdout.replace('\n', " ");
        let expected = if format == "json" { &excluded } else { &sentences };
        assert!(shown.contains(expected), "{format}: {shown}");
    }
}

/// Bins whose file is damaged or missing could hold the number that breaks the limit.
#[test]
fn damaged_bins_are_not_limited() {
    let bins = Osjitter::new(["report", "tests/fixtures/report.json", "--format", "bins"]);
    let bins = bins.out("good.bins.csv").run().exits(0);
    let directory = bins.directory().to_str().unwrap();
    let args = ["--report", directory, "--subject", "nanosleep"];
    let gate = limits(&["max=1h"], &args);
    assert_eq!((gate.ran.code, gate.verdict().verdict), (0, Outcome::Pass), "{}", gate.ran.stdout);
    std::fs::write(bins.path("bad.bins.csv"), "damaged").unwrap();
    limits(&["max=1h"], &args).refuses("bad.bins.csv");
    std::fs::remove_file(bins.path("bad.bins.csv")).unwrap();
    // Another recorder was killed between its two files.
    let intervals = bins.file("good.intervals.csv").replace("2026-", "2025-");
    std::fs::write(bins.path("cut.intervals.csv"), intervals).unwrap();
    limits(&["max=1h"], &args).refuses("there are ticks, but no bins");
}

#[test]
fn reports_without_a_period_or_subject() {
    let home = tempfile::tempdir().unwrap();
    let mut report = recorded_report();
    let file = home.path().join("report.json");
    let args = ["--report", file.to_str().unwrap(), "--subject", "nanosleep"];
    report.subjects.iter_mut().for_each(|subject| subject.period_ns = 0);
    std::fs::write(&file, report.to_json()).unwrap();
    for limit in ["missed=1%", "missed<1%"] {
        limits(&[limit], &args).refuses("its period is not known");
    }
    report.subjects.clear();
    std::fs::write(&file, report.to_json()).unwrap();
    limits(&["max=1h"], &args).refuses("the report has no subject");
}

#[test]
fn report_must_have_requested_settings() {
    let report = "--report tests/fixtures/report.json --subject os-interval";
    let check = |flags: &str| {
        limits(
            &["p50=1s"],
            &(report.split(' ').chain(flags.split_terminator(' '))).collect::<Vec<_>>(),
        )
    };
    for flags in ["", "--period 1ms --runtime current-thread", "--period 2ms --period 1ms"] {
        check(flags).exits(0);
    }
    let states = "has the period 1ms, and --period (or osjitter.toml) is";
    check("--period 2ms").refuses(&format!("{states} 2ms"));
    check("--period 2ms --period 5ms").refuses(&format!("{states} 2ms and 5ms"));
    // The period is that of what is measured as well.
    check("--period 2ms --a nanosleep --b nanosleep --max-pairs 24 --round-ticks 25 --tolerance 9999%")
        .exits(0);
    let commands = "--base-cmd no-such-file --candidate-cmd no-such-file";
    check(&format!("--period 2ms {commands}")).refuses("no-such-file");
    check("--runtime multi-thread").refuses(
        "has the runtime current-thread, and --runtime (or osjitter.toml) is multi-thread",
    );
}

#[test]
fn limits_and_comparison_share_a_verdict() {
    let pair = ["--a", "nanosleep", "--b", "nanosleep", "--max-pairs", "24", "--warmup", "3"];
    let wide = ["--tolerance", "p50=900%", "--tolerance", "p90=900%", "--floor", "200us"];
    let gate = limits(&["p50=0ns"], &[&SHORT[..], &pair, &wide].concat());
    let verdict = gate.verdict();
    assert_eq!((verdict.comparisons.len(), verdict.limits.len(), verdict.partial), (1, 1, false));
    assert_eq!((gate.ran.code, verdict.verdict), (1, Outcome::LimitBroken), "{}", gate.ran.stdout);
}

/// A verdict on programs describes the machine on which they ran, and not that of a limited report.
#[cfg(unix)]
#[test]
fn verdict_names_the_measured_machine() {
    let file = "tests/fixtures/report.json";
    let report = recorded_report();
    let limit = ["--limit", "max=1h", "--report", file, "--subject", "nanosleep"];
    let reported = Gate::run(&limit).exits(0);
    assert_eq!(reported.verdict().host, report.host);
    let script = "printf 'osjitter.series/1\\nmetric x u lower\\nx 5\\n' >\"$OSJITTER_OUT\"\n";
    let scripts = ScriptPair::new(script, script);
    let gate = scripts.gate(&[&["--metric", "x"][..], &limit].concat()).exits(0);
    assert!(gate.verdict().runs.is_some() && gate.verdict().limits.len() == 1);
    assert_ne!(gate.verdict().host, report.host);
}

#[cfg(unix)]
#[test]
fn interrupted_measurement_is_kept() {
    let args =
        ["--limit", "p50=0ns", "--subject", "nanosleep", "--period", "1ms", "--ticks", "1000000"];
    let has_measured = |ran: &Ran| ran.report().subjects[0].summary.is_some();
    let gate =
        Gate::from_ran(interrupt_while_measuring(|| super::gate(&args), "gate: ", has_measured))
            .exits(4);
    let verdict = gate.verdict();
    assert_eq!(
        (verdict.partial, verdict.verdict, verdict.reason),
        (true, Outcome::Inconclusive, Some(Reason::Interrupted))
    );
    assert_eq!(verdict.limits[0].reason, Some(Reason::Interrupted));
    for (format, says) in [
        ("junit", "errors=\"1\""),
        ("junit", "name=\"measuring\"><error message=\"interrupted\"/>"),
        ("sarif", "\"executionSuccessful\": false"),
    ] {
        let file = gate.ran.path("verdict.json");
        let ran = Osjitter::new(["report", file.to_str().unwrap(), "--format", format]).run();
        assert!(ran.stdout.contains(says), "{says}: {}", ran.stdout);
    }
    assert!(gate.ran.report().partial, "the ticks so far are kept");
}
