//! Tests of rounds that programs share with other subjects.

use serde_json::{Value, json};

use super::{
    CORRECT_PROGRAM, Home, IS_ROUND, ROUNDS, SETTINGS_RUNS, STARTS, has_warning, list, report, run,
    texts, without_whitespace,
};
use crate::osjitter::{Osjitter, Ran, names_in, one_line};
use crate::test_programs::gated_loop;

/// Returns the id, the round and its slot for every round of every subject.
fn order(report: &Value) -> Vec<(String, u64, u64)> {
    let rounds = |s: &Value| {
        let entry = |r: &Value| {
            (
                s["id"].as_str().unwrap().to_owned(),
                r["index"].as_u64().unwrap(),
                r["slot"].as_u64().unwrap(),
            )
        };
        list(&s["rounds"]).iter().map(entry).collect::<Vec<_>>()
    };
    list(&report["subjects"]).iter().flat_map(rounds).collect()
}

#[test]
fn program_shares_rounds_with_subjects() {
    let program = gated_loop();
    let words = [program.to_str().unwrap(), "1ms"];
    let command = Osjitter::new(["run", "--seed", "7"]).args(ROUNDS).out("");
    let ran = command.args(["--"]).args(words).run().exits(0);
    let first = report(&ran);
    let names = ["gated-loop", "os-interval", "tokio-interval", "nanosleep", "spin"];
    assert_eq!(texts(&first, "name"), names);
    for index in 0..3 {
        let mut slots: Vec<u64> = order(&first)
            .iter()
            .filter(|(_, i, _)| *i == index)
            .map(|(_, _, slot)| *slot)
            .collect();
        slots.sort_unstable();
        assert_eq!(slots, [0, 1, 2, 3, 4], "round {index}");
    }
    let measured = &first["subjects"][0];
    let count = |key: &str| measured["summary"][key].as_u64().unwrap();
    let counted = count("delivered") + count("coalesced") + count("skipped");
    assert_eq!((count("ticks"), counted, count("early")), (60, 60, 0));
    assert!(measured["summary"]["wakeups_per_tick"].as_f64().unwrap() > 0.0, "{measured}");
    for key in ["backend", "runtime", "load"] {
        assert_eq!(measured[key], Value::Null, "{key}");
    }
    for key in ["no_park", "until_unpark_ns", "after_unpark_ns"] {
        assert_eq!(measured["summary"][key], Value::Null, "{key}");
    }
    for round in list(&measured["rounds"]) {
        let lateness = list(&round["lateness_ns"]);
        assert_eq!((lateness.len(), &round["first_tick"]), (20, &json!(3)));
        assert!(lateness.iter().all(|late| late.as_i64().unwrap() >= 0), "{round}");
        assert!(round["run_queue_ns"].is_null() && round["cpu_khz"].is_null());
        // The window covers all ticks.
        assert!(round["window_ns"].as_u64().unwrap() >= 22_000_000, "{round}");
    }
    assert_eq!(first["plan"]["scenarios"][0]["command"], json!(words));
    assert_eq!(first["plan"]["scenarios"][1].get("command"), None);
    let is = format!("gated-loop is {} 1ms", program.display());
    assert!(without_whitespace(&ran.stdout).contains(&is.replace(' ', "")), "{}", ran.stdout);
    assert!(ran.file("report.html").contains(&is), "{is}");

    let print = Osjitter::new(["run", "--print-plan", "--plan"]);
    let plan = print.args([ran.path("report.json")]).run().exits(0).stdout;
    assert!(plan.contains("command = [") && !plan.contains("subject = \"gated-loop\""), "{plan}");
    let file = ran.path("plan.toml");
    std::fs::write(&file, plan).unwrap();
    for plan in [file, ran.path("report.json")] {
        let command = Osjitter::new(["run", "--format", "json", "--plan"]).args([&plan]);
        let json = command.out("again").run().exits(0).stdout;
        let again: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(again["plan"], first["plan"]);
        assert_eq!(order(&again), order(&first));
    }
    assert_report_is_readable(&ran);
}

/// Checks that every command that reads reports accepts it.
fn assert_report_is_readable(ran: &Ran) {
    let file = ran.path("report.json");
    for format in ["table", "json", "markdown", "html", "csv", "openmetrics", "hlog"] {
        let report = Osjitter::new(["report", "--format", format]).args([&file]);
        let shown = report.run().exits(0).stdout;
        assert!(shown.contains("gated-loop"), "{format}: {shown}");
    }
    let svg = ran.path("pictures");
    Osjitter::new(["report", "--format", "svg", "--out"]).args([&svg, &file]).run().exits(0);
    assert!(!names_in(&svg).is_empty());
    let sides = ["nanosleep@1ms", "gated-loop@1ms"].map(|id| format!("{}#{id}", file.display()));
    let compared = Osjitter::new(["compare"]).args(sides).run().exits(0).stdout;
    assert!(compared.contains("gated-loop"), "{compared}");
    // Programs of the same name may differ.
    let mut other = report(ran);
    other["plan"]["scenarios"][0]["command"] = json!(["./other/gated-loop"]);
    for subject in other["subjects"].as_array_mut().unwrap() {
        let rounds = subject["rounds"].as_array_mut().unwrap();
        rounds.iter_mut().for_each(|round| round["phase_ns"] = json!(1));
    }
    std::fs::write(ran.path("other.json"), other.to_string()).unwrap();
    Osjitter::new(["merge"])
        .args([&file, &ran.path("other.json")])
        .run()
        .refuses("gated-loop@1ms has another command");
    let limit = ["gate", "--limit", "p50=10s", "--subject", "gated-loop", "--report"];
    let gated = Osjitter::new(limit).args([&file]).out("gate").run();
    assert!(gated.code != 2, "{}", gated.stderr);
    assert!(gated.stdout.contains("gated-loop"), "{}", gated.stdout);
    let runs = ran.directory().parent().unwrap();
    let history = Osjitter::new(["history"]).args([runs]).run().exits(0);
    let is_listed = history.stdout.contains("gated-loop");
    assert!(history.stderr.is_empty() || is_listed, "{}", history.stdout);
}

#[test]
fn program_cost_excludes_startup() {
    const WORK: &str = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    let home = Home::new();
    let program = format!("if {IS_ROUND}; then {WORK}; fi\n{CORRECT_PROGRAM}");
    let busy = report(&home.run(&program, &[]).exits(0));
    let measured = &busy["subjects"][0];
    // Three rounds of 22 ticks in addition to the one of the startup run. 20 of them are recorded.
    let cpu_ns = |round: &Value| round["cpu_ns"].as_u64().unwrap_or_else(|| panic!("{measured}"));
    let total: u64 = list(&measured["rounds"]).iter().map(|round| cpu_ns(round) * 20 / 22).sum();
    let per_tick = measured["summary"]["cpu_ns_per_tick"].as_f64().unwrap();
    assert!((per_tick - total as f64 / 60.0).abs() < 1.0 && per_tick > 10_000.0, "{measured}");
    assert!(!has_warning(&busy, "command-start"), "{}", busy["warnings"]);

    let ran = home.run(&format!("{WORK}\n{CORRECT_PROGRAM}"), &[]).exits(0);
    let slow = report(&ran);
    assert_eq!(slow["subjects"][0]["summary"]["cpu_ns_per_tick"], Value::Null);
    assert!(slow["subjects"][1]["summary"]["cpu_ns_per_tick"].is_f64());
    assert!(ran.stdout.contains("command-start: starting program@1ms takes "), "{}", ran.stdout);
}

/// The first sentence below the table is about the program, whether it is the most punctual or not.
#[test]
fn summary_answers_for_the_program() {
    for lateness_ns in ["1", "900000"] {
        let home = Home::new();
        let command = home.script(&CORRECT_PROGRAM.replace("20000", lateness_ns));
        let ran = run(&command, &["--subject", "os-interval"]).run().exits(0);
        let text = one_line(&ran.stdout);
        let at = text.find("program was").unwrap_or_else(|| panic!("{text}"));
        let other = text.find("os-interval was").unwrap_or(text.len());
        assert!(at < other, "{lateness_ns}: {text}");
    }
}

#[test]
fn program_without_times_is_profiled_once() {
    let home = Home::new();
    let script = format!("echo \"$OSJITTER_TIMES\" >>\"$HOME_OF_TEST/times\"\n{CORRECT_PROGRAM}");
    let ran = home.run(&script, &["--why", "--load", "none", "--load", "cpu:1"]).exits(0);
    let report = report(&ran);
    let profiled: Vec<(&str, usize)> = list(&report["subjects"])
        .iter()
        .map(|s| (s["id"].as_str().unwrap(), list(&s["why"]["rounds"]).len()))
        .collect();
    let expected = [
        ("program@1ms", 1),
        ("program@1ms+cpu:1", 1),
        ("nanosleep@1ms", 3),
        ("nanosleep@1ms+cpu:1", 3),
    ];
    assert_eq!(profiled, expected);
    let reason = report["subjects"][0]["why"]["missing"]["reason"].as_str().unwrap();
    if cfg!(target_os = "linux") {
        assert!(
            reason.contains("OSJITTER_TIMES=monotonic") || reason.contains("perf_event_open"),
            "{reason}"
        );
    }
    // The program has its startup runs, one that reads its settings, and in each of two scenarios
    // three rounds and a profiled one.
    let times = home.text("times");
    let monotonic = times.lines().filter(|line| *line == "monotonic").count();
    let starts = times.lines().count() - SETTINGS_RUNS - 2 * (3 + 1);
    assert!(STARTS.contains(&starts) && monotonic == 2, "{times}");
    assert!(list(&report["subjects"]).iter().all(|s| s["summary"]["ticks"] == 60), "{report}");
}
