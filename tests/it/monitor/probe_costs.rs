//! Tests of the CPU time of a monitor and its probes.

use rustix::process::Signal;
use tickmeter::ENV_DIRECTORY;

use super::interval_log::{Row, all_rows, read_intervals};
#[cfg(target_os = "linux")]
use super::interval_log::{files, number};
use super::{MonitorHome, start};
use crate::osjitter::Osjitter;
use crate::process_control::poll_until;

#[test]
fn exceeded_budget_lengthens_periods() {
    let home = MonitorHome::new();
    let args = ["monitor", "--budget", "0.001%", "--interval", "1s", "--no-meters", "--log"];
    let monitor = Osjitter::new(args).args([&home.log]).env(ENV_DIRECTORY, &home.meters);
    let mut running = start(monitor);
    let line = running.says("lengthened");
    assert!(line.starts_with("the monitor used "), "{line}");
    let expected = "lengthened the periods of its probes: os-interval 20ms, nanosleep 20ms";
    assert!(line.ends_with(expected), "{line}");
    let is_longer = |row: &Row| row["subject"] == "os-interval" && row["period_ns"] == "20000000";
    poll_until(|| all_rows(&home.log, ".intervals.csv").iter().any(is_longer).then_some(()));
    running.signal(Signal::TERM);
    running.ends().exits(0);
    let intervals = read_intervals(&home.log);
    assert!(intervals.iter().any(|row| row["period_ns"] == "10000000"));
    assert!(intervals.iter().any(is_longer));
}

/// Runs a monitor with a spinning probe for a few intervals.
#[cfg(target_os = "linux")]
fn monitor_spinning_probe() -> Vec<Row> {
    const INTERVALS: usize = 4;
    let home = MonitorHome::new();
    let args = ["--no-meters", "--subject", "spin", "--period", "10ms"];
    let running = start(home.logging_monitor(&args));
    poll_until(|| (files(&home.log, ".intervals.csv").len() >= INTERVALS).then_some(()));
    running.signal(Signal::TERM);
    running.ends().exits(0);
    read_intervals(&home.log)
}

/// A spinning thread has a CPU, waits for one, or the hypervisor has it: together that is the
/// length of each interval after the first, in which the thread starts.
#[cfg(target_os = "linux")]
#[test]
fn probe_costs_belong_to_their_interval() {
    const ATTEMPTS: usize = 20;
    let total = |rows: &[Row], column: &str| -> i64 {
        rows.iter().map(|row| if row[column].is_empty() { 0 } else { number(row, column) }).sum()
    };
    // The kernel may not have accounted for the last milliseconds of a running thread.
    let spun = |rows: &[Row]| total(rows, "cpu_ns") + total(rows, "run_queue_ns");
    let length = |rows: &[Row]| total(rows, "duration_ns") as f64;
    let is_complete = |intervals: &[Row]| {
        let full = &intervals[1..];
        let known = spun(full) + total(full, "steal_ns");
        spun(intervals) as f64 <= length(intervals) * 1.02 && known as f64 >= length(full) * 0.98
    };
    // A machine that pauses the monitor between its readings moves time to another interval.
    let mut disturbed = Vec::new();
    while disturbed.len() < ATTEMPTS {
        let intervals = monitor_spinning_probe();
        if is_complete(&intervals) {
            return;
        }
        disturbed.push(intervals);
    }
    panic!("{disturbed:?}");
}
