//! Snapshots in JSON, with the feature `serde`.
#![cfg(all(feature = "serde", not(loom)))]
#![allow(clippy::disallowed_methods, reason = "the test makes its own deadlines")]

use std::time::{Duration, Instant};

use serde_json::{Value, from_value, json, to_value};
use tickmeter::{Histogram, LateTick, Meter, Snapshot};

/// Returns a snapshot with late ticks, work and an overrun.
fn take_snapshot() -> Snapshot {
    let mut meter = Meter::register("stored", Duration::from_millis(1)).unwrap();
    meter.tick(Instant::now() - Duration::from_millis(20));
    meter.work_done();
    meter.tick(Instant::now() - Duration::from_millis(5));
    meter.snapshot()
}

#[test]
fn snapshot_survives_json() {
    let snapshot = take_snapshot();
    let text = serde_json::to_string(&snapshot).unwrap();
    let stored: Snapshot = serde_json::from_str(&text).unwrap();
    assert_eq!(stored, snapshot);
    assert_eq!(stored.lateness.quantile(0.5), snapshot.lateness.quantile(0.5));
    let late: Vec<LateTick> = from_value(to_value(&snapshot.late).unwrap()).unwrap();
    assert_eq!(late, snapshot.late);
}

#[test]
fn snapshots_without_stacks_are_read() {
    let snapshot = take_snapshot();
    let mut stored = to_value(&snapshot).unwrap();
    assert_eq!(stored.as_object_mut().unwrap().remove("stacks"), Some(json!(0)));
    assert_eq!(from_value::<Snapshot>(stored).unwrap(), snapshot);
}

#[test]
fn empty_histogram_survives_json() {
    let empty = Histogram::default();
    assert_eq!(from_value::<Histogram>(to_value(&empty).unwrap()).unwrap(), empty);
}

/// Returns the error for a histogram in which one value is replaced.
fn replace_value(key: &str, value: Value) -> String {
    let mut stored = to_value(&take_snapshot().lateness).unwrap();
    stored[key] = value;
    from_value::<Histogram>(stored).unwrap_err().to_string()
}

#[test]
fn impossible_histograms_are_refused() {
    for (key, value) in [("bits", json!(17)), ("bits", json!(200)), ("last", json!(u32::MAX))] {
        let error = replace_value(key, value);
        assert!(error.contains("invalid layout"), "{key}: {error}");
    }
    for bins in
        [json!([[2, 1], [1, 1]]), json!([[1, 1], [1, 1]]), json!([[1, 0]]), json!([[3_968, 1]])]
    {
        let error = replace_value("bins", bins.clone());
        assert!(error.contains("invalid bins"), "{bins}: {error}");
    }
}
