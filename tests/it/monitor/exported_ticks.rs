//! Tests of the ticks that a monitor exports and logs.

use std::collections::BTreeSet;

use rustix::process::Signal;

use super::interval_log::{Row, files, number, read_intervals};
use super::scraping::{Samples, metrics_address, sample, scrape, wait_for_ticks};
use super::{MonitorHome, start};
use crate::process_control::poll_until;
use crate::top::MeteredProgram;

#[test]
fn metered_ticks_are_exported_and_logged() {
    const TICKS: u64 = 700;
    let home = MonitorHome::new();
    let args = ["--listen", "127.0.0.1:0", "--label", "rack=r7", "--host", "a,b"];
    let mut running = start(home.logging_monitor(&args));
    let address = metrics_address(&mut running);
    let program = MeteredProgram::start_with_ticks(&home.meters, TICKS);
    std::fs::write(home.meters.join("1.tickmeter"), "not a meter").unwrap();
    let samples = wait_for_ticks(&address, TICKS as f64);
    running.says("1.tickmeter is not a meter's file");
    assert!(samples["osjitter_cpu_seconds_total"] > 0.0);
    assert_eq!(sample(&samples, "osjitter_info", "version"), 1.0);
    check_histograms(&samples);

    poll_until(|| (files(&home.log, ".bins.csv").len() >= 2).then_some(()));
    running.signal(Signal::TERM);
    let ran = running.ends().exits(0);
    assert_eq!(ran.stdout, "");
    let intervals = read_intervals(&home.log);
    intervals.iter().for_each(check_labels_and_cpu_time);
    let of_subject = |subject: &str| -> Vec<&Row> {
        intervals.iter().filter(|row| row["subject"] == subject).collect()
    };
    let control_loop = of_subject("control-loop");
    let logged_ticks: i64 = control_loop.iter().map(|row| number(row, "ticks")).sum();
    assert_eq!(logged_ticks, TICKS as i64);
    let is_idle = |row: &&Row| row["max_ns"].is_empty() && row["ticks"] == "0";
    assert!(of_subject("control-loop-2").iter().all(is_idle));
    let probe = of_subject("os-interval");
    assert!(probe.len() >= 2 && probe[0]["runtime"] == "current-thread");
    assert_eq!(intervals.iter().map(|row| &row["run_id"]).collect::<BTreeSet<_>>().len(), 1);
    drop(program);
}

/// Checks the histograms of two probes and two meters: ascending buckets, a count and a sum.
#[track_caller]
fn check_histograms(samples: &Samples) {
    let histograms: BTreeSet<&str> = samples
        .keys()
        .filter_map(|key| key.strip_prefix("osjitter_lateness_seconds_count{"))
        .collect();
    assert_eq!(histograms.len(), 4, "{histograms:?}");
    for labels in histograms {
        let labels = labels.trim_end_matches('}');
        let buckets = histogram_buckets(samples, labels);
        let counts_ascend = buckets.is_sorted_by(|a, b| a.1 <= b.1);
        assert!(buckets.len() > 10 && counts_ascend, "{labels}: {buckets:?}");
        let count = samples[&format!("osjitter_lateness_seconds_count{{{labels}}}")];
        assert_eq!(buckets.last(), Some(&(f64::INFINITY, count)), "{labels}");
        let sum = format!("osjitter_lateness_seconds_sum{{{labels}}}");
        assert!(samples.contains_key(&sum), "{labels}");
    }
}

/// Returns the upper ends and counts of a histogram's buckets, in ascending order.
fn histogram_buckets(samples: &Samples, labels: &str) -> Vec<(f64, f64)> {
    let prefix = format!("osjitter_lateness_seconds_bucket{{{labels},le=\"");
    let mut buckets: Vec<(f64, f64)> = Vec::new();
    for (key, count) in samples {
        if let Some(end) = key.strip_prefix(&prefix) {
            buckets.push((end.trim_end_matches("\"}").parse().unwrap(), *count));
        }
    }
    buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
    buckets
}

#[track_caller]
fn check_labels_and_cpu_time(row: &Row) {
    assert_eq!((row["host"].as_str(), row["schema_version"].as_str()), ("a_b", "1"));
    assert!(row["start"].ends_with('Z') && row["start"].len() == 27, "{row:?}");
    let labels = row["labels"].as_str();
    if matches!(row["subject"].as_str(), "os-interval" | "nanosleep") {
        assert_eq!(labels, "rack=r7", "{row:?}");
        if cfg!(target_os = "linux") {
            // On a busy machine, a probe may not run in an interval.
            let cpu_ns = number(row, "cpu_ns");
            assert!(cpu_ns > 0 || number(row, "ticks") == 0, "{row:?}");
        }
    } else {
        assert!(labels.starts_with("program=it-"), "{row:?}");
        assert!(row["cpu_ns"].is_empty(), "the CPU time of other programs is unknown: {row:?}");
    }
}

#[test]
fn hundreds_of_meters_are_watched() {
    const WORKERS: usize = 300;
    const TICKS: u64 = 20;
    let home = MonitorHome::new();
    let args = ["--no-probes", "--listen", "127.0.0.1:0", "--limit", "p99=24h", "--log"];
    let mut running = start(home.monitor(&args).args([&home.log]));
    let address = metrics_address(&mut running);
    let program = MeteredProgram::start_with_workers(&home.meters, TICKS, WORKERS);
    let samples = poll_until(|| {
        let samples = scrape(&address);
        let ticks: f64 = samples
            .iter()
            .filter(|(key, _)| key.starts_with("osjitter_ticks_total{"))
            .map(|(_, ticks)| ticks)
            .sum();
        (ticks >= TICKS as f64 * (WORKERS + 1) as f64).then_some(samples)
    });
    assert_eq!((samples["osjitter_meters"], samples["osjitter_meters_left_out"]), (302.0, 0.0));
    running.signal(Signal::TERM);
    let ran = running.ends().exits(4);
    assert!(ran.stderr.contains("p99=24h needs 500 ticks per interval"), "{}", ran.stderr);
    assert!(ran.stderr.contains("never checked, on no loop: p99=24h"), "{}", ran.stderr);
    let intervals = read_intervals(&home.log);
    let logged: i64 = intervals.iter().map(|row| number(row, "ticks")).sum();
    assert_eq!(logged, TICKS as i64 * (WORKERS as i64 + 1));
    drop(program);
}
