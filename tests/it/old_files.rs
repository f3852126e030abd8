//! Tests of files that version 0.2.0 wrote: they do not state the windows of their costs, which
//! include the start of the ticker and the warm-up.

use std::path::PathBuf;

use serde_json::Value;

use crate::osjitter::Osjitter;

const REPORT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/report-0.2.0.json");
/// CPU time per tick of the first subject.
const CPU_NS_PER_TICK: f64 = 22_204.648;

fn report() -> Value {
    serde_json::from_str(&std::fs::read_to_string(REPORT).unwrap()).unwrap()
}

/// Returns a copy of the report that counts as another run, because its phases are different.
fn second_run() -> Value {
    let mut report = report();
    for subject in report["subjects"].as_array_mut().unwrap() {
        for round in subject["rounds"].as_array_mut().unwrap() {
            round["phase_ns"] = (round["phase_ns"].as_u64().unwrap() + 1).into();
        }
    }
    report
}

/// Adds the windows that later versions state: one tick less than the round has.
fn add_windows(report: &mut Value, window_ns: u64) {
    for subject in report["subjects"].as_array_mut().unwrap() {
        for round in subject["rounds"].as_array_mut().unwrap() {
            (round["cost_ticks"], round["cost_window_ns"]) = (249.into(), window_ns.into());
        }
    }
}

fn merge(reports: [&Value; 2]) -> Value {
    let home = tempfile::tempdir().unwrap();
    let files: [PathBuf; 2] = ["first.json", "second.json"].map(|name| home.path().join(name));
    for (file, report) in files.iter().zip(reports) {
        std::fs::write(file, report.to_string()).unwrap();
    }
    let merged = Osjitter::new(["merge"]).args(&files).run().exits(0);
    serde_json::from_str(&merged.stdout).unwrap()
}

fn has_warning(report: &Value, code: &str) -> bool {
    report["warnings"].as_array().unwrap().iter().any(|warning| warning["code"] == code)
}

#[test]
fn costs_have_no_window() {
    let report = report();
    for subject in report["subjects"].as_array().unwrap() {
        assert!(subject["summary"].get("cost_ticks").is_none());
        assert!(
            subject["rounds"].as_array().unwrap().iter().all(|r| r.get("cost_ticks").is_none())
        );
    }
}

#[test]
fn share_of_core_follows_from_period() {
    let table = Osjitter::new(["report", REPORT]).run().exits(0).stdout;
    assert!(table.contains("and used 4.4 % of one core"), "{table}");
    let mut rows = table.lines().filter(|line| line.starts_with("os-interval "));
    assert!(rows.any(|row| row.ends_with("22.2 us")), "{table}");
}

#[test]
fn limits_judge_stored_cost() {
    for (limit, code) in [("20us", 1), ("25us", 0)] {
        let limit = format!("cpu_ns_per_tick={limit}");
        let args = ["gate", "--report", REPORT, "--subject", "os-interval", "--limit", &limit];
        let ran = Osjitter::new(args).out("").run().exits(code);
        assert!(ran.stdout.contains("22.2 us"), "{}", ran.stdout);
    }
}

#[test]
fn merged_costs_keep_their_meaning() {
    let merged = merge([&report(), &second_run()]);
    let summary = &merged["subjects"][0]["summary"];
    let cost = summary["cpu_ns_per_tick"].as_f64().unwrap();
    assert!((cost / CPU_NS_PER_TICK - 1.0).abs() < 1e-9, "{cost}");
    assert_eq!((&summary["core_share"], &summary["cost_ticks"]), (&Value::Null, &Value::Null));
    assert!(!has_warning(&merged, "merged-costs-differ"));
    // The CPU time of the spinning control is that of its whole rounds.
    let spin = merged["fitness"]["facts"]["spin_core"].as_f64().unwrap();
    assert!((0.98..1.0).contains(&spin), "{spin}");
}

#[test]
fn different_costs_are_not_averaged() {
    let mut other = second_run();
    add_windows(&mut other, 124_500_000);
    let merged = merge([&report(), &other]);
    let summary = &merged["subjects"][0]["summary"];
    for cost in ["cpu_ns_per_tick", "wakeups_per_tick", "core_share", "cost_ticks"] {
        assert_eq!(summary[cost], Value::Null, "{cost}");
    }
    assert!(has_warning(&merged, "merged-costs-differ"));
}

#[test]
fn merged_costs_are_weighted_by_window() {
    let (mut first, mut second) = (report(), second_run());
    add_windows(&mut first, 124_500_000);
    add_windows(&mut second, 373_500_000);
    let merged = merge([&first, &second]);
    let rounds = first["subjects"][0]["rounds"].as_array().unwrap();
    let cpu_ns: u64 = rounds.iter().map(|round| round["cpu_ns"].as_u64().unwrap()).sum();
    let summary = &merged["subjects"][0]["summary"];
    let share = summary["core_share"].as_f64().unwrap();
    // Twice the CPU time in four times the window.
    let expected = 2.0 * cpu_ns as f64 / (4.0 * 124_500_000.0 * rounds.len() as f64);
    assert!((share / expected - 1.0).abs() < 1e-9, "{share} {expected}");
    assert_eq!(summary["cost_ticks"], 2 * 249 * rounds.len());
    let per_tick = cpu_ns as f64 / (249 * rounds.len()) as f64;
    let cost = summary["cpu_ns_per_tick"].as_f64().unwrap();
    assert!((cost / per_tick - 1.0).abs() < 1e-9, "{cost} {per_tick}");
    assert!(!has_warning(&merged, "merged-costs-differ"));
}

#[test]
fn differing_settings_are_removed() {
    let (mut first, mut second) = (report(), second_run());
    let settings = |slack_ns: u64| {
        let thread = serde_json::json!({
            "threads": 1, "timer_slack_ns": slack_ns, "sched": "other", "nice": 0,
            "affinity": [0], "quota_cpus": null, "has_quota": false
        });
        serde_json::json!({
            "threads": [thread], "initial_timer_slack_ns": null, "differences": []
        })
    };
    let slacks_ns = [(1, 50_000), (1, 1)];
    for (index, (first_ns, second_ns)) in slacks_ns.into_iter().enumerate() {
        first["subjects"][index]["settings"] = settings(first_ns);
        second["subjects"][index]["settings"] = settings(second_ns);
    }
    let merged = merge([&first, &second]);
    let warnings: Vec<&str> = merged["warnings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|warning| warning["code"] == "merged-settings-differ")
        .map(|warning| warning["message"].as_str().unwrap())
        .collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("os-interval@500us"), "{warnings:?}");
    assert!(merged["subjects"][0].get("settings").is_none());
    assert_eq!(merged["subjects"][1]["settings"], settings(1));
}
