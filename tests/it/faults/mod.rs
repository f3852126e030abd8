//! Faults as a table: system calls that fail, signals, limits and clocks that jump, at the start,
//! in the middle and at the end of what osjitter does. The rows are in `table.rs`, what must hold
//! after one in `judge.rs`.
//!
//! `OSJITTER_FAULTS=timerfd cargo test --test it faults` runs the rows with that word, and shows
//! each.
#![cfg(target_os = "linux")]

mod judge;
mod scene;
mod table;
mod tools;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use scene::Scene;
use table::{Fault, Line, Moment, ROWS, Row};
use tools::Tools;

/// Rows at once: they wait for ticks most of the time.
const WORKERS: usize = 6;

/// Calls `each` for all of these, on several threads.
fn in_parallel<T: Sync>(all: &[T], each: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some(one) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    each(one);
                }
            });
        }
    });
}

/// All rows of the table that contain the word of `OSJITTER_FAULTS`; `None` without that word.
fn rows_with_word() -> Option<Vec<Row>> {
    let word = std::env::var("OSJITTER_FAULTS").ok()?;
    let mut rows = all_rows();
    rows.retain(|row| row.name().contains(word.as_str()));
    assert!(!rows.is_empty(), "no row has the word {word:?}");
    Some(rows)
}

fn all_rows() -> Vec<Row> {
    ROWS.iter().flat_map(Line::rows).collect()
}

#[test]
fn every_line_ends_as_stated() {
    let rows = rows_with_word().unwrap_or_else(|| {
        let rows: Vec<Row> = ROWS.iter().enumerate().map(|(index, line)| line.row(index)).collect();
        for moment in [Moment::Start, Moment::Middle, Moment::End, Moment::Always, Moment::Half] {
            let lines = rows.iter().filter(|row| row.at == moment).count();
            assert!(lines >= 4, "{moment:?} is the moment of {lines} lines");
        }
        rows
    });
    assert_rows_end_as_stated(&rows);
}

mod nightly {
    use super::*;

    #[test]
    #[ignore = "nightly: every moment of every line"]
    fn every_row_ends_as_stated() {
        let rows = rows_with_word().unwrap_or_else(all_rows);
        assert_rows_end_as_stated(&rows);
    }
}

#[track_caller]
#[allow(clippy::print_stderr, reason = "which row of many it is")]
fn assert_rows_end_as_stated(chosen: &[Row]) {
    let Some(tools) = Tools::built() else { return };
    let is_shown = std::env::var_os("OSJITTER_FAULTS").is_some();
    // The middle and the end of a call depend on how often it is made if nothing fails.
    let counts: Mutex<BTreeMap<(usize, &str), u64>> = Mutex::default();
    let mut counted: Vec<(usize, &str)> = Vec::new();
    for row in chosen {
        if let (Fault::Call { call, .. }, Moment::Middle | Moment::End) = (row.fault, row.at) {
            counted.push((row.scene.place(), call));
        }
    }
    counted.sort_unstable();
    counted.dedup();
    in_parallel(&counted, |&(scene, call)| {
        let count = Scene::ALL[scene].calls(&tools, call);
        counts.lock().unwrap().insert((scene, call), count);
    });
    let counts = counts.into_inner().unwrap();
    let wrong = Mutex::new(Vec::new());
    in_parallel(chosen, |row| {
        let run = || row.scene.run(&tools, row, &|call| counts[&(row.scene.place(), call)]);
        // A busy machine makes fewer calls of some kinds than were counted: then the fault does not
        // come about.
        let mut ended = run();
        for _ in 0..2 {
            if ended.met == Some(0) {
                ended = run();
            }
        }
        let found = judge::judge(row, &ended);
        if is_shown {
            eprintln!("{}: {}", row.name(), if found.is_empty() { "as it says" } else { "WRONG" });
        }
        if !found.is_empty() {
            let said = format!("stdout: {}\nstderr: {}", ended.stdout, ended.stderr);
            wrong.lock().unwrap().push(format!(
                "{}:\n  {}\n{said}\n",
                row.name(),
                found.join("\n  ")
            ));
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), chosen.len(), wrong.join("\n"));
}
