//! `osjitter bench timeout` from outside: what it writes, that it adds up, and what it refuses.

use std::process::{Command, Output};

use jitterstat::bench::cost::Verdict;
use jitterstat::bench::timeout::Report;
use jitterstat::file::File as _;

use super::{again, same_pictures, text};

fn bench(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_osjitter"))
        .args(["bench", "timeout"])
        .args(args)
        .output()
        .expect("the binary runs")
}

#[test]
fn every_variant_is_measured_in_every_workload_and_the_report_is_valid() {
    let out = tempfile::tempdir().unwrap();
    let path = out.path().to_str().unwrap();
    let output = bench(&[
        "--rounds",
        "6",
        "--round-time",
        "1ms",
        "--timers",
        "3",
        "--timers",
        "500",
        "--out",
        path,
        "--seed",
        "7",
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("6 rounds: about"), "{}", text(&output.stderr));
    let json = std::fs::read_to_string(out.path().join("timeout.json")).unwrap();
    let schema = Report::json_schema();
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator.iter_errors(&value).map(|e| e.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");

    let report = Report::from_json(&json).unwrap();
    assert!(!report.partial && report.plan.seed == 7);
    assert!(report.clocks.iter().all(|c| c.ns_per_read > 0.0));
    let table = text(&output.stdout);
    let file = out.path().join("timeout.json");
    assert_eq!(again(&file, &[]), table);
    assert_eq!(again(&file, &["--format", "json"]), json);
    let markdown = again(&file, &["--format", "markdown"]);
    assert_eq!(markdown.matches("| baseline |").count(), report.workloads.len(), "{markdown}");
    assert!(again(&file, &["--reference"]).contains("bench-tokio-timeout (AMD"));
    same_pictures(&file);
    for workload in &report.workloads {
        assert!(table.contains(&workload.name), "{table}");
        assert_eq!(workload.results.len(), 10, "{}", workload.id);
        let all_fire = workload.name == "fire:100%";
        for (i, result) in workload.results.iter().enumerate() {
            let id = format!("{} {} {}", workload.id, result.variant, result.clock);
            assert_eq!(result.rounds.len(), if all_fire { 0 } else { 6 }, "{id}");
            assert_eq!(result.ns_per_message.as_ref().map(|c| c.batches), (!all_fire).then_some(60), "{id}");
            assert_eq!(result.overhead.is_some(), i > 0 && !all_fire, "{id}");
            assert!(result.overhead.as_ref().is_none_or(|o| o.verdict != Verdict::TooFewRounds), "{id}");
            assert_eq!(result.early, 0, "{id}");
            if workload.name.starts_with("fire") && i > 0 {
                // One in each timed batch of each round, at least: a slow machine may time others out as well.
                assert!(result.fired >= 60 && result.lateness_ns.is_some(), "{id}: {}", result.fired);
            }
        }
        let of =
            |variant: &str| workload.results.iter().find(|r| r.variant == variant).unwrap().counts.clone().unwrap();
        let (baseline, timeout, idle) = (of("baseline"), of("timeout"), of("idle-timeout"));
        assert_eq!((baseline.timers_made, baseline.timer_registrations), (0.0, 0.0), "{}", workload.id);
        assert!(timeout.timers_made >= 0.99 && idle.timers_made == 0.0, "{}", workload.id);
        if workload.name == "ready" {
            assert_eq!(timeout.timer_registrations, 0.0, "a message that is there registers no timer");
        }
        if workload.name == "pending" && workload.length_ns == 10_000_000_000 {
            assert!(timeout.timer_registrations >= 0.99 && idle.timer_registrations < 0.01);
        }
        if workload.name.starts_with("timers") {
            assert_eq!((idle.allocations, idle.bytes_kept), (0.0, 0), "{}", workload.id);
        }
        let picture = format!("timeout-{}.svg", workload.id.replace([':', '%', '@'], "_"));
        assert_eq!(out.path().join(&picture).exists(), !all_fire, "{picture}");
    }
}

#[test]
fn the_reference_stands_beside_ours_where_the_workload_is_the_same() {
    let args = ["--workload", "channel-multi-thread", "--rounds", "1", "--round-time", "1ms", "--reference", "--quiet"];
    let output = bench(&args);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    // Ratios are to the baseline of their own column.
    assert!(table.contains("1769 ± 325 (4.96x)") && table.contains("470 ± 146 (1.29x)"), "{table}");
    assert!(table.contains("Why they differ"), "{table}");
}

#[test]
fn json_on_standard_output_is_the_report() {
    let args =
        ["--workload", "rearm", "--variant", "idle-*", "--rounds", "1", "--round-time", "1ms", "--format", "json"];
    let output = bench(&args);
    let report = Report::from_json(&text(&output.stdout)).unwrap();
    let variants: Vec<&str> = report.workloads[0].results.iter().map(|r| r.variant.as_str()).collect();
    assert_eq!(variants, ["baseline", "idle-timeout", "idle-timeout"]);
    // Where readings can be counted at all: one for each touch.
    let reads = |i: usize| report.workloads[0].results[i].counts.as_ref().unwrap().clock_reads;
    assert!(reads(2).is_none_or(|n| (0.99..1.2).contains(&n)), "{:?}", reads(2));
}

#[test]
fn what_cannot_be_exits_2_and_says_why() {
    for (args, says) in [
        (&["--variant", "timeout", "--clock", "tach"][..], "timeout cannot take the clock tach"),
        (&["--variant", "idle-timeout", "--clock", "quanta"], "no error bound"),
        (&["--variant", "nap"], "there are baseline"),
        (&["--workload", "nothing"], "there are channel"),
        (&["--length", "1us"], "outside 10us to 10s"),
        (&["--length", "11s"], "outside 10us to 10s"),
        (&["--timers", "100001"], "100000"),
        (&["--timers", "0"], "0 timers"),
        (&["--fire", "200%"], "no share"),
        (&["--rounds", "0"], "0 rounds"),
        (&["--rounds", "1000000"], "10000"),
        (&["--rounds", "10000", "--round-time", "10s"], "hours"),
        (&["--capacity", "0"], "capacity"),
        (&["--round-time", "1us"], "round time"),
        (&["--workload", "rearm", "--reference"], "channel-multi-thread"),
        (&["--out", "/dev/null/there"], "cannot write"),
    ] {
        let output = bench(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty(), "{args:?}");
        assert!(text(&output.stderr).contains(says), "{args:?}: {}", text(&output.stderr));
    }
}

#[test]
fn the_list_names_what_there_is_and_what_cannot_be() {
    let list = text(&bench(&["--list"]).stdout);
    for says in
        ["baseline", "idle-timeout", "not with the clock tach: tokio::time::timeout reads", "channel-multi-thread"]
    {
        assert!(list.contains(says), "{list}");
    }
}

#[cfg(unix)]
#[test]
fn an_interrupt_leaves_a_partial_report() {
    let out = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_osjitter"))
        .args(["bench", "timeout", "--workload", "rearm", "--rounds", "10000", "--quiet", "--out"])
        .arg(out.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    #[allow(clippy::disallowed_methods, reason = "some rounds should be over before the interrupt")]
    std::thread::sleep(std::time::Duration::from_secs(3));
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    assert_eq!(child.wait().unwrap().code(), Some(4));
    let json = std::fs::read_to_string(out.path().join("timeout.json")).unwrap();
    let report = jitterstat::bench::timeout::Report::from_json(&json).unwrap();
    assert!(report.partial);
    let rounds: Vec<usize> = report.workloads[0].results.iter().map(|r| r.rounds.len()).collect();
    assert!(rounds.iter().all(|&n| n == rounds[0] && n < 10_000), "a round is kept whole or not at all: {rounds:?}");
}
