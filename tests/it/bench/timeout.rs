//! `osjitter bench timeout`.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::{assert_same_pictures, assert_usage_errors, list, parse_valid, show, text};
use crate::osjitter::Osjitter;

fn bench(args: &[&str]) -> Osjitter {
    Osjitter::new(["bench", "timeout"]).args(args)
}

#[test]
fn report_contains_every_variant() {
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
    let report = parse_valid(&json);
    assert!(report["partial"] == false && report["plan"]["seed"] == 7);
    assert!(list(&report["clocks"]).iter().all(|c| c["ns_per_read"].as_f64().unwrap() > 0.0));
    assert!(
        list(&report["warnings"]).iter().all(|w| w["code"] != "no-counts"),
        "{}",
        report["warnings"]
    );
    assert_eq!(show(&file, &[]), *table);
    assert_eq!(show(&file, &["--format", "json"]), json);
    let (markdown, workloads) =
        (show(&file, &["--format", "markdown"]), list(&report["workloads"]));
    assert_eq!(markdown.matches("| control |").count(), workloads.len(), "{markdown}");
    assert!(show(&file, &["--reference"]).contains("bench-tokio-timeout (AMD"));
    assert_same_pictures(&file);
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
                // At least one timeout per timed batch fires; on a slow machine, others may fire
                // as well.
                let fired = result["fired"].as_u64().unwrap();
                assert!(fired >= (rounds * BATCHES) as u64, "{id}: {fired}");
                assert!(result["lateness_ns"].is_object(), "{id}: {fired}");
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
                "an available message registers no timer"
            );
        }
        if id == "pending@10s" {
            assert!(count("timeout", registered) >= 0.99);
            assert!(count("idle-timeout", registered) < 0.01);
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

/// Arguments for the shortest possible measurement.
const SHORT: [&str; 5] = ["--rounds", "1", "--round-time", "1ms", "--quiet"];

#[test]
fn reference_prints_published_figures() {
    let ran =
        bench(&["--workload", "channel-multi-thread", "--reference"]).args(SHORT).run().exits(0);
    assert!(ran.stderr.is_empty(), "{}", ran.stderr);
    let table = ran.stdout;
    // Ratios are relative to the control loop of the same column.
    assert!(table.contains("1769 ± 325 (4.96x)") && table.contains("470 ± 146 (1.29x)"), "{table}");
    assert!(table.contains("Why they differ"), "{table}");
}

#[test]
fn formats_are_printed_to_stdout() {
    let rearm = ["--workload", "rearm", "--variant", "idle-*", "--format"];
    let report = parse_valid(&bench(&rearm).args(["json"]).args(SHORT).run().exits(0).stdout);
    let results = list(&report["workloads"][0]["results"]);
    let variants: Vec<&str> = results.iter().map(|r| text(&r["variant"])).collect();
    let slack = "idle-timeout-slack";
    assert_eq!(variants, ["control", "idle-timeout", "idle-timeout", slack, slack]);
    // If readings can be counted at all: one per touch, and none if a touch only sets a flag.
    let reads = |i: usize| results[i]["counts"]["clock_reads"].as_f64();
    assert!(reads(2).is_none_or(|n| (0.99..1.2).contains(&n)), "{:?}", reads(2));
    assert!(reads(4).is_none_or(|n| n < 0.2), "{:?}", reads(4));
    for (format, start) in [
        ("markdown", "### Price of a timeout"),
        ("svg", "<svg"),
        ("table", "Price of a timeout\ntokio"),
    ] {
        let ran = bench(&rearm).args([format]).args(SHORT).run().exits(0);
        assert!(ran.stderr.is_empty() && ran.stdout.starts_with(start), "{format}: {}", ran.stdout);
    }
}

#[test]
fn invalid_arguments_exit_with_2() {
    assert_usage_errors(
        "timeout",
        &[
            (&["--variant", "timeout", "--clock", "tach"], "timeout cannot take the clock tach"),
            (&["--variant", "idle-timeout", "--clock", "quanta"], "no error bound"),
            (&["--variant", "nap"], "there are control"),
            (&["--workload", "nothing"], "there are channel"),
            (&["--length", "1us"], "outside 10us to 10s"),
            (&["--length", "11s"], "outside 10us to 10s"),
            (&["--timers", "100001"], "100000"),
            (&["--timers", "0"], "0 is outside 1 to 100000"),
            (&["--fire", "200%"], "invalid share"),
            (&["--fire", "70%"], "50.000% and 100.000%"),
            (&["--rounds", "0"], "0 is outside 1 to 10000"),
            (&["--rounds", "1000000"], "10000"),
            (&["--rounds", "10000", "--round-time", "10s"], "hours"),
            (&["--capacity", "0"], "capacity"),
            (&["--round-time", "1us"], "round time"),
            (&["--workload", "rearm", "--reference"], "channel-multi-thread"),
            (&["--reference", "--format", "json"], "table, markdown or html"),
            (&["--reference", "--format", "svg", "--out", "x"], "table, markdown or html"),
            (&["--list", "--format", "json"], "cannot be used with"),
            (&["--list", "--reference"], "cannot be used with"),
            (&["--format", "svg"], "--out"),
            (&["--out", "/dev/null/there"], "cannot write"),
        ],
    );
}

#[test]
fn list_names_variants_and_rejections() {
    let list = bench(&["--list"]).run().exits(0).stdout;
    for text in [
        "control",
        "idle-timeout",
        "not with the clock tach: tokio::time::timeout reads",
        "channel-multi-thread",
    ] {
        assert!(list.contains(text), "{list}");
    }
}

/// Returns the path of osjitter in a directory without other programs.
fn install(directory: &tempfile::TempDir) -> PathBuf {
    let installed = Path::new(env!("CARGO_BIN_EXE_osjitter"));
    let program = directory.path().join(installed.file_name().unwrap());
    std::fs::hard_link(installed, &program).unwrap();
    program
}

#[test]
fn missing_counts_program_gives_warning() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = install(&directory);
    let args =
        ["bench", "timeout", "--workload", "rearm", "--variant", "control", "--format", "json"];
    let output = Command::new(program).args(args).args(SHORT).output().unwrap();
    let report = parse_valid(std::str::from_utf8(&output.stdout).unwrap());
    assert_eq!(report["workloads"][0]["results"][0]["counts"], Value::Null);
    let warnings = list(&report["warnings"]);
    assert_eq!(warnings.iter().filter(|w| w["code"] == "no-counts").count(), 1, "{warnings:?}");
}

/// Writes a program next to osjitter that counts operations.
#[cfg(unix)]
fn write_counts_program(directory: &tempfile::TempDir, script: &str) {
    let file = directory.path().join("osjitter-counts");
    crate::test_programs::write_executable(&file, format!("#!/bin/sh\n{script}\n"));
}

/// The replies after an error may belong to earlier cases.
#[cfg(unix)]
#[test]
fn counts_end_at_first_error() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = install(&directory);
    let counts = r#"{"messages":1,"counter_reads":1,"timers_made":1,"timer_registrations":1,"allocations":1,"bytes_kept":1}"#;
    write_counts_program(
        &directory,
        &format!("echo late\nwhile read job; do echo '{counts}'; done"),
    );
    let args =
        ["bench", "timeout", "--workload", "rearm", "--variant", "timeout", "--format", "json"];
    let output = Command::new(program).args(args).args(SHORT).output().unwrap();
    let report = parse_valid(std::str::from_utf8(&output.stdout).unwrap());
    let results = list(&report["workloads"][0]["results"]);
    assert!(results.len() > 1 && results.iter().all(|r| r["counts"].is_null()), "{results:?}");
    let warning = list(&report["warnings"]).iter().find(|w| w["code"] == "no-counts").unwrap();
    assert!(text(&warning["message"]).ends_with("osjitter-counts returned no counts"), "{warning}");
    assert_eq!(warning["hint"], "measure again");
}

#[cfg(target_os = "linux")]
#[test]
fn interrupt_ends_wait_for_counts() {
    use crate::process_control::{poll_until, send_signal};
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = install(&directory);
    let begun = directory.path().join("begun");
    // The first job comes when interrupts are handled.
    let script = format!("read job; touch {}; exec sleep 1000", begun.display());
    write_counts_program(&directory, &script);
    let args =
        ["bench", "timeout", "--workload", "rearm", "--variant", "timeout", "--format", "json"];
    let mut command = Command::new(program);
    command.args(args).args(SHORT).current_dir(directory.path());
    let running = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    poll_until(|| begun.exists().then_some(()));
    send_signal(running.id(), rustix::process::Signal::INT);
    let output = running.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    let report = parse_valid(std::str::from_utf8(&output.stdout).unwrap());
    let warning = list(&report["warnings"]).iter().find(|w| w["code"] == "no-counts").unwrap();
    assert!(text(&warning["message"]).ends_with("the bench was interrupted"), "{warning}");
}

#[test]
fn baseline_in_old_files_is_control() {
    let ran =
        bench(&["--workload", "rearm", "--variant", "control"]).args(SHORT).out("").run().exits(0);
    let old = ran.file("timeout.json").replace("\"control\"", "\"baseline\"");
    std::fs::write(ran.path("old.json"), old).unwrap();
    let table = show(&ran.path("old.json"), &[]);
    assert_eq!(table, show(&ran.path("timeout.json"), &[]));
    assert!(table.contains("\ncontrol "), "{table}");
}

#[cfg(unix)]
#[test]
fn interrupt_leaves_partial_report() {
    let args =
        ["--workload", "rearm", "--variant", "idle-*", "--rounds", "10000", "--round-time", "1ms"];
    let report = parse_valid(
        &bench(&args).out("").interrupt_at("rounds: about").exits(4).file("timeout.json"),
    );
    assert_eq!(report["partial"], true);
    let results = list(&report["workloads"][0]["results"]);
    let rounds: Vec<usize> = results.iter().map(|r| list(&r["rounds"]).len()).collect();
    assert!(
        rounds.iter().all(|&n| n == rounds[0] && n < 10_000),
        "expected complete rounds: {rounds:?}"
    );
}
