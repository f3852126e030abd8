//! Injects faults at the start, in the middle and at the end of a command: failing system calls,
//! signals, limits, and clocks that jump.
//!
//! `table.rs` contains a table of the faults with the expected results, and `judge.rs` checks the
//! results. `commands.rs` contains every command, which `denied.rs` and `clocks.rs` run with faults
//! that last. `OSJITTER_FAULTS=timerfd cargo test --test it faults` runs the rows whose name
//! contains `timerfd`, and prints each.
#![cfg(target_os = "linux")]

mod clocks;
mod commands;
mod denied;
mod judge;
mod scene;
mod table;
mod tools;

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use scene::Scene;
use table::{FAULT_LINES, Fault, FaultLine, FaultRow, Moment};
use tools::Tools;

/// Number of rows that run concurrently; they mostly wait for ticks.
const WORKERS: usize = 6;

/// Calls a function for each item, on several threads.
pub fn for_each_in_parallel<T: Sync>(workers: usize, items: &[T], function: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            function(item);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(work);
        }
    });
}

/// Returns the rows whose name contains the word in `OSJITTER_FAULTS`, if that is set.
fn rows_with_word() -> Option<Vec<FaultRow>> {
    let word = std::env::var("OSJITTER_FAULTS").ok()?;
    let mut rows = all_rows();
    rows.retain(|row| row.name().contains(word.as_str()));
    assert!(!rows.is_empty(), "no row has the word {word:?}");
    Some(rows)
}

fn all_rows() -> Vec<FaultRow> {
    FAULT_LINES.iter().flat_map(FaultLine::rows).collect()
}

#[test]
fn every_line_ends_as_expected() {
    let rows = rows_with_word().unwrap_or_else(|| {
        let rows: Vec<FaultRow> =
            FAULT_LINES.iter().enumerate().map(|(index, line)| line.row(index)).collect();
        for moment in [Moment::Start, Moment::Middle, Moment::End, Moment::Always, Moment::Half] {
            let lines = rows.iter().filter(|row| row.at == moment).count();
            assert!(lines >= 4, "only {lines} lines have the moment {moment:?}");
        }
        rows
    });
    assert_rows_end_as_expected(&rows);
}

#[test]
fn signals_end_commands_without_thread() {
    let Some(tools) = Tools::build() else { return };
    let home = tempfile::tempdir().expect("a temporary directory");
    // The first thread waits for signals, and the first sleep is that of the measured second.
    let faults = ["thread=EAGAIN:1:1", "sleep=SIGTERM:1:1", "--", env!("CARGO_BIN_EXE_osjitter")];
    let clock = ["bench", "clock", "--quiet", "--threads", "1", "--order-reads", "1000"];
    let mut command = Command::new(tools.path("inject"));
    command.arg(home.path().join("tally")).args(faults).args(clock).args(["--drift", "1s"]);
    let output = command.output().expect("the injection");
    assert_eq!(output.status.code(), Some(128 + 15), "{output:?}");
    let tally = std::fs::read_to_string(home.path().join("tally")).expect("a tally");
    assert!(tally.lines().all(|line| line.ends_with(" 1")), "{tally}");
}

mod nightly {
    use super::*;

    #[test]
    #[ignore = "nightly: every moment of every line"]
    fn every_row_ends_as_expected() {
        let rows = rows_with_word().unwrap_or_else(all_rows);
        assert_rows_end_as_expected(&rows);
    }
}

#[track_caller]
#[allow(clippy::print_stderr, reason = "shows the rows with OSJITTER_FAULTS")]
fn assert_rows_end_as_expected(rows: &[FaultRow]) {
    let Some(tools) = Tools::build() else { return };
    let is_verbose = std::env::var_os("OSJITTER_FAULTS").is_some();
    let counts = count_calls(&tools, rows);
    let failures = Mutex::new(Vec::new());
    for_each_in_parallel(WORKERS, rows, |row| {
        let failure = run_row(&tools, row, &counts);
        if is_verbose {
            eprintln!("{}: {}", row.name(), if failure.is_none() { "ok" } else { "FAILED" });
        }
        failures.lock().unwrap().extend(failure);
    });
    let failures = failures.into_inner().unwrap();
    let (count, total) = (failures.len(), rows.len());
    assert!(failures.is_empty(), "{count} of {total} rows failed:\n{}", failures.join("\n"));
}

/// Numbers of system calls by the index of the scene and the name of the call.
type CallCounts = BTreeMap<(usize, &'static str), u64>;

/// Counts the calls of scenes without a fault. The middle and the end of the calls of a row depend
/// on their number.
fn count_calls(tools: &Tools, rows: &[FaultRow]) -> CallCounts {
    let mut keys: Vec<(usize, &str)> = Vec::new();
    for row in rows {
        if let (Fault::Call { call, .. }, Moment::Middle | Moment::End) = (row.fault, row.at) {
            keys.push((row.scene.index(), call));
        }
    }
    keys.sort_unstable();
    keys.dedup();
    let counts: Mutex<CallCounts> = Mutex::default();
    for_each_in_parallel(WORKERS, &keys, |&(scene, call)| {
        let count = Scene::ALL[scene].count_calls(tools, call);
        counts.lock().unwrap().insert((scene, call), count);
    });
    counts.into_inner().unwrap()
}

/// Runs a row, and describes its failure if it has one.
fn run_row(tools: &Tools, row: &FaultRow, counts: &CallCounts) -> Option<String> {
    let run = || row.scene.run(tools, row, &|call| counts[&(row.scene.index(), call)]);
    // On a busy machine there may be fewer calls than were counted, so the fault may not occur.
    let mut outcome = run();
    for _ in 0..2 {
        if outcome.faulted_calls == Some(0) {
            outcome = run();
        }
    }
    let violations = judge::find_violations(row, &outcome);
    let (stdout, stderr) = (&outcome.stdout, &outcome.stderr);
    let text = violations.join("\n  ");
    (!violations.is_empty())
        .then(|| format!("{}:\n  {text}\nstdout: {stdout}\nstderr: {stderr}\n", row.name()))
}
