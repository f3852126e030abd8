//! Tests what the exporter passes to the recorder of the `metrics` facade.
#![cfg(all(feature = "metrics", not(loom)))]
#![allow(clippy::disallowed_methods, reason = "the test makes its own deadlines")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use metrics::{
    Counter, CounterFn, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use tickmeter::{Exporter, Meter};

/// Recorded values by metric name and labels.
type Values = Arc<Mutex<BTreeMap<String, Vec<f64>>>>;

/// A recorder that keeps all values.
#[derive(Default)]
struct ValueRecorder(Values);

/// One metric of a [`ValueRecorder`].
struct Metric {
    values: Values,
    name: String,
}

impl Metric {
    fn push(&self, value: f64) {
        self.values.lock().unwrap().entry(self.name.clone()).or_default().push(value);
    }
}

impl CounterFn for Metric {
    fn increment(&self, value: u64) {
        self.push(value as f64);
    }
    fn absolute(&self, _value: u64) {
        unreachable!("the exporter only increments");
    }
}

impl HistogramFn for Metric {
    fn record(&self, value: f64) {
        self.push(value);
    }
}

impl ValueRecorder {
    fn metric(&self, key: &Key) -> Arc<Metric> {
        let labels: Vec<String> =
            key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let name = format!("{}{{{}}}", key.name(), labels.join(","));
        Arc::new(Metric { values: Arc::clone(&self.0), name })
    }
}

impl Recorder for ValueRecorder {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.metric(key))
    }
    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        unreachable!("the exporter has no gauges")
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.metric(key))
    }
}

#[test]
fn ticks_are_exported_once() {
    let mut meter = Meter::register("exported", Duration::from_millis(1)).unwrap();
    let mut exporter = Exporter::new(meter.reader());
    let recorder = ValueRecorder::default();
    metrics::with_local_recorder(&recorder, || {
        meter.tick(Instant::now() - Duration::from_millis(20));
        meter.work_done();
        meter.tick(Instant::now());
        exporter.publish();
        meter.tick(Instant::now());
        exporter.publish();
    });
    let values = recorder.0.lock().unwrap();
    let metric = |name: &str| &values[&format!("{name}{{meter=exported}}")];
    assert_eq!(metric("osjitter_ticks_total"), &[2.0, 1.0]);
    let lateness = metric("osjitter_lateness_seconds");
    assert_eq!(lateness.len(), 3);
    // Milliseconds would be above this range.
    assert!(lateness.iter().any(|&seconds| (0.019..15.0).contains(&seconds)));
    assert_eq!(metric("osjitter_work_seconds").len(), 1);
    assert!(metric("osjitter_missed_ticks_total")[0] >= 1.0);
}
