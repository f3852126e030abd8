//! What reaches the recorder of the `metrics` facade.
#![cfg(all(feature = "metrics", not(loom)))]
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "deadlines of a program's own")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use metrics::{
    Counter, CounterFn, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use tickmeter::{Exporter, Meter};

#[derive(Default)]
struct Heard(Arc<Mutex<BTreeMap<String, Vec<f64>>>>);

struct Of(Arc<Mutex<BTreeMap<String, Vec<f64>>>>, String);

impl CounterFn for Of {
    fn increment(&self, value: u64) {
        self.0.lock().unwrap().entry(self.1.clone()).or_default().push(value as f64);
    }
    fn absolute(&self, _value: u64) {
        unreachable!("the meter counts on");
    }
}

impl HistogramFn for Of {
    fn record(&self, value: f64) {
        self.0.lock().unwrap().entry(self.1.clone()).or_default().push(value);
    }
}

impl Heard {
    fn of(&self, key: &Key) -> Arc<Of> {
        let labels: Vec<String> =
            key.labels().map(|l| format!("{}={}", l.key(), l.value())).collect();
        Arc::new(Of(Arc::clone(&self.0), format!("{}{{{}}}", key.name(), labels.join(","))))
    }
}

impl Recorder for Heard {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.of(key))
    }
    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        unreachable!("none is used")
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.of(key))
    }
}

#[test]
fn each_tick_is_passed_on_once() {
    let mut meter = Meter::register("exported", Duration::from_millis(1)).unwrap();
    let mut exporter = Exporter::new(meter.reader());
    let heard = Heard::default();
    metrics::with_local_recorder(&heard, || {
        meter.tick(Instant::now() - Duration::from_millis(20));
        meter.work_done();
        meter.tick(Instant::now());
        exporter.publish();
        meter.tick(Instant::now());
        exporter.publish();
    });
    let heard = heard.0.lock().unwrap();
    let of = |name: &str| &heard[&format!("{name}{{meter=exported}}")];
    assert_eq!(of("osjitter_ticks_total"), &[2.0, 1.0]);
    assert_eq!(of("osjitter_lateness_seconds").len(), 3);
    assert!(of("osjitter_lateness_seconds").iter().any(|&seconds| (0.019..1.0).contains(&seconds)));
    assert_eq!(of("osjitter_work_seconds").len(), 1);
    assert!(of("osjitter_missed_ticks_total")[0] >= 1.0);
}
