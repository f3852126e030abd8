//! `osjitter bench timeout` from outside: what it writes, that it adds up, and what it refuses.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{again, list, refused, same_pictures, text, valid};
use crate::osjitter::Osjitter;

fn bench(args: &[&str]) -> Osjitter {
    Osjitter::new(["bench", "timeout"]).args(args)
}

#[test]
fn every_variant_is_measured_in_every_workload_and_the_report_is_valid() {
    assert_every_variant_is_measured(2);
}

mod nightly {
    #[test]
    #[ignore = "nightly: six rounds, from which overheads have a verdict"]
    fn every_variant_has_a_verdict() {
        super::assert_every_variant_is_measured(super::MIN_VERDICT_ROUNDS);
    }
}

/// Rounds from which an overhead has an interval.
const MIN_VERDICT_ROUNDS: usize = 6;
/// Timed batches of a round.
const BATCHES: usize = 10;

#[track_caller]
fn assert_every_variant_is_measured(rounds: usize) {
    let args = ["--round-time", "1ms", "--timers", "3", "--timers", "500", "--seed", "7"];
    let ran = bench(&args).args(["--rounds", &rounds.to_string()]).out("").run().exits(0);
    assert!(ran.stderr.contains(&format!("{rounds} rounds: about")), "{}", ran.stderr);
    let (table, file, json) = (&ran.stdout, ran.path("timeout.json"), ran.file("timeout.json"));
    let report = valid(&json);
    assert!(report["partial"] == false && report["plan"]["seed"] == 7);
    assert!(list(&report["clocks"]).iter().all(|c| c["ns_per_read"].as_f64().unwrap() > 0.0));
    assert!(
        list(&report["warnings"]).iter().all(|w| w["code"] != "no-counts"),
        "{}",
        report["warnings"]
    );
    assert_eq!(again(&file, &[]), *table);
    assert_eq!(again(&file, &["--format", "json"]), json);
    let (markdown, workloads) =
        (again(&file, &["--format", "markdown"]), list(&report["workloads"]));
    assert_eq!(markdown.matches("| control |").count(), workloads.len(), "{markdown}");
    assert!(again(&file, &["--reference"]).contains("bench-tokio-timeout (AMD"));
    same_pictures(&file);
    for workload in workloads {
        let (id, name, results) =
            (text(&workload["id"]), text(&workload["name"]), list(&workload["results"]));
        assert!(table.contains(name), "{table}");
        assert_eq!(results.len(), 12, "{id}");
        let all_fire = name == "fire:100%";
        for (i, result) in results.iter().enumerate() {
            let id = format!("{id} {} {}", result["variant"], result["clock"]);
            assert_eq!(list(&result["rounds"]).len(), if all_fire { 0 } else { rounds }, "{id}");
            let batches = result["ns_per_message"]["batches"].as_u64();
            assert_eq!(batches, (!all_fire).then_some((rounds * BATCHES) as u64), "{id}");
            assert_eq!(result["overhead"].is_object(), i > 0 && !all_fire, "{id}");
            if result["overhead"].is_object() {
                let is_undecided = result["overhead"]["verdict"] == "too-few-rounds";
                assert_eq!(is_undecided, rounds < MIN_VERDICT_ROUNDS, "{id}");
            }
            assert_eq!(result["early"], 0, "{id}");
            if name.starts_with("fire") && i > 0 {
                // One in each timed batch of each round, at least: a slow machine may time others
                // out as well.
                let fired = result["fired"].as_u64().unwrap();
                assert!(
                    fired >= (rounds * BATCHES) as u64 && result["lateness_ns"].is_object(),
                    "{id}: {fired}"
                );
            }
        }
        let count = |variant: &str, key: &str| {
            let result = results.iter().find(|r| r["variant"] == variant).unwrap();
            result["counts"][key].as_f64().unwrap()
        };
        let (made, registered) = ("timers_made", "timer_registrations");
        assert_eq!((count("control", made), count("control", registered)), (0.0, 0.0), "{id}");
        assert!(count("timeout", made) >= 0.99 && count("idle-timeout", made) == 0.0, "{id}");
        if name == "ready" {
            assert_eq!(
                count("timeout", registered),
                0.0,
                "a message that is there registers no timer"
            );
        }
        if id == "pending@10s" {
            assert!(
                count("timeout", registered) >= 0.99 && count("idle-timeout", registered) < 0.01
            );
        }
        if name.starts_with("timers") {
            assert_eq!(
                (count("idle-timeout", "allocations"), count("idle-timeout", "bytes_kept")),
                (0.0, 0.0),
                "{id}"
            );
        }
        let picture = format!("timeout-{}.svg", id.replace([':', '%', '@'], "_"));
        assert_eq!(ran.path(&picture).exists(), !all_fire, "{picture}");
    }
}

/// As short as a round can be.
const SHORT: [&str; 5] = ["--rounds", "1", "--round-time", "1ms", "--quiet"];

#[test]
fn the_reference_stands_beside_ours_where_the_workload_is_the_same() {
    let ran =
        bench(&["--workload", "channel-multi-thread", "--reference"]).args(SHORT).run().exits(0);
    assert!(ran.stderr.is_empty(), "{}", ran.stderr);
    let table = ran.stdout;
    // Ratios are to the control loop of their own column.
    assert!(table.contains("1769 ± 325 (4.96x)") && table.contains("470 ± 146 (1.29x)"), "{table}");
    assert!(table.contains("Why they differ"), "{table}");
}

#[test]
fn each_format_goes_to_standard_output_alone() {
    let rearm = ["--workload", "rearm", "--variant", "idle-*", "--format"];
    let report = valid(&bench(&rearm).args(["json"]).args(SHORT).run().exits(0).stdout);
    let results = list(&report["workloads"][0]["results"]);
    let variants: Vec<&str> = results.iter().map(|r| text(&r["variant"])).collect();
    let slack = "idle-timeout-slack";
    assert_eq!(variants, ["control", "idle-timeout", "idle-timeout", slack, slack]);
    // Where readings can be counted at all: one for each touch, and none where that only sets a
    // flag.
    let reads = |i: usize| results[i]["counts"]["clock_reads"].as_f64();
    assert!(reads(2).is_none_or(|n| (0.99..1.2).contains(&n)), "{:?}", reads(2));
    assert!(reads(4).is_none_or(|n| n < 0.2), "{:?}", reads(4));
    for (format, starts) in
        [("markdown", "### Price of a timeout"), ("svg", "<svg"), ("table", "tokio")]
    {
        let ran = bench(&rearm).args([format]).args(SHORT).run().exits(0);
        assert!(
            ran.stderr.is_empty() && ran.stdout.starts_with(starts),
            "{format}: {}",
            ran.stdout
        );
    }
}

#[test]
fn what_cannot_be_exits_2_and_says_why() {
    refused(
        "timeout",
        &[
            (&["--variant", "timeout", "--clock", "tach"], "timeout cannot take the clock tach"),
            (&["--variant", "idle-timeout", "--clock", "quanta"], "no error bound"),
            (&["--variant", "nap"], "there are control"),
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
            (&["--format", "svg"], "--out"),
            (&["--out", "/dev/null/there"], "cannot write"),
        ],
    );
}

#[test]
fn the_list_names_what_there_is_and_what_cannot_be() {
    let list = bench(&["--list"]).run().exits(0).stdout;
    for says in [
        "control",
        "idle-timeout",
        "not with the clock tach: tokio::time::timeout reads",
        "channel-multi-thread",
    ] {
        assert!(list.contains(says), "{list}");
    }
}

#[test]
fn without_the_program_that_counts_there_are_no_counts_and_a_warning() {
    let alone = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let installed = Path::new(env!("CARGO_BIN_EXE_osjitter"));
    let program = alone.path().join(installed.file_name().unwrap());
    std::fs::hard_link(installed, &program).unwrap();
    let args =
        ["bench", "timeout", "--workload", "rearm", "--variant", "control", "--format", "json"];
    let output = Command::new(program).args(args).args(SHORT).output().unwrap();
    let report = valid(std::str::from_utf8(&output.stdout).unwrap());
    assert_eq!(report["workloads"][0]["results"][0]["counts"], Value::Null);
    let warnings = list(&report["warnings"]);
    assert_eq!(warnings.iter().filter(|w| w["code"] == "no-counts").count(), 1, "{warnings:?}");
}

#[test]
fn a_file_from_before_the_control_loop_had_its_name_is_read() {
    let ran =
        bench(&["--workload", "rearm", "--variant", "control"]).args(SHORT).out("").run().exits(0);
    let old = ran.file("timeout.json").replace("\"control\"", "\"baseline\"");
    std::fs::write(ran.path("old.json"), old).unwrap();
    let table = again(&ran.path("old.json"), &["--reference"]);
    assert!(
        table == again(&ran.path("timeout.json"), &["--reference"]) && table.contains("\ncontrol "),
        "{table}"
    );
}

#[cfg(unix)]
#[test]
fn an_interrupt_leaves_a_partial_report() {
    let args =
        ["--workload", "rearm", "--variant", "idle-*", "--rounds", "10000", "--round-time", "1ms"];
    let report =
        valid(&bench(&args).out("").interrupt_at("rounds: about").exits(4).file("timeout.json"));
    assert_eq!(report["partial"], true);
    let results = list(&report["workloads"][0]["results"]);
    let rounds: Vec<usize> = results.iter().map(|r| list(&r["rounds"]).len()).collect();
    assert!(
        rounds.iter().all(|&n| n == rounds[0] && n < 10_000),
        "a round is kept whole or not at all: {rounds:?}"
    );
}
