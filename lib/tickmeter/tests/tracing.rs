//! Tests the events for late ticks, with the feature `tracing`.
#![cfg(all(feature = "tracing", not(loom)))]
#![allow(clippy::disallowed_methods, reason = "the test makes its own deadlines")]

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tickmeter::Meter;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};

/// The fields of an event in their text form.
#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

/// A subscriber that keeps the fields of all events.
#[derive(Clone, Default)]
struct EventRecorder(Arc<Mutex<Vec<Fields>>>);

impl Subscriber for EventRecorder {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        unreachable!("a meter has no spans")
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &Event<'_>) {
        assert_eq!(
            (event.metadata().target(), *event.metadata().level()),
            ("tickmeter", Level::WARN)
        );
        let mut fields = Fields::default();
        event.record(&mut fields);
        self.0.lock().unwrap().push(fields);
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[test]
fn late_ticks_have_events() {
    const PERIOD: Duration = Duration::from_millis(1);
    let recorder = EventRecorder::default();
    let mut meter = Meter::register("traced", PERIOD).unwrap();
    let first = Instant::now() - PERIOD * 20;
    tracing::subscriber::with_default(recorder.clone(), || {
        (0..5).for_each(|tick| meter.tick(first + PERIOD * tick));
        meter.tick(Instant::now() + PERIOD * 3_600_000); // on time
    });
    let events = recorder.0.lock().unwrap();
    let number = |fields: &Fields, name: &str| fields.0[name].parse::<u64>().unwrap();
    let event = &events[0];
    assert_eq!(event.0["meter"], "\"traced\"");
    assert_eq!(event.0["message"], "late tick");
    assert_eq!((number(event, "number"), number(event, "suppressed")), (1, 0));
    assert!(number(event, "lateness_ns") >= 19_000_000 && !event.0.contains_key("work_ns"));
    // Ticks a second apart have events of their own, on a very busy machine.
    let counted = events.iter().map(|event| 1 + number(event, "suppressed")).sum::<u64>();
    assert!(counted <= 5 && events.len() <= 5, "{counted}");
    assert_eq!(meter.snapshot().late.len(), 5);
}

#[test]
#[cfg(all(
    feature = "stacks",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
fn overdue_ticks_have_events() {
    use std::sync::mpsc::{Receiver, channel};
    use tickmeter::stacks::OverdueWatch;

    /// Returns the time from which it held the loop, and the number of frames of the report.
    #[inline(never)]
    fn hold_loop(reports: &Receiver<usize>) -> (Instant, usize) {
        let since = Instant::now();
        std::hint::black_box((since, reports.recv().unwrap()))
    }

    const PERIOD: Duration = Duration::from_millis(1);
    let recorder = EventRecorder::default();
    // The watcher's thread has no subscriber of its own.
    tracing::subscriber::set_global_default(recorder.clone()).unwrap();
    let (report, reports) = channel();
    // The watcher also reports the meters of other tests.
    let watch = OverdueWatch::start(PERIOD, move |tick| {
        if tick.meter == "held" {
            report.send(tick.frames.len()).unwrap();
        }
    });
    let _watch = watch.unwrap();
    let mut meter = Meter::register_with("held", PERIOD, Duration::from_secs(3_600)).unwrap();
    // A busy machine may not let this thread answer in time, or not reach the hold before the tick
    // is overdue.
    loop {
        let tick = Instant::now();
        meter.tick(tick);
        let (since, frames) = hold_loop(&reports);
        if frames > 0 && since < tick + PERIOD {
            break;
        }
    }
    let events = recorder.0.lock().unwrap();
    let is_held = |event: &&Fields| event.0["meter"] == "\"held\"";
    let event = &events.iter().rfind(is_held).unwrap().0;
    assert_eq!(event["message"], "overdue tick");
    assert!(event["overdue_ns"].parse::<u64>().unwrap() >= 1_000_000);
    assert_eq!(event["is_working"], "true");
    assert!(event["thread_id"].parse::<u32>().is_ok() && event.contains_key("thread_name"));
    assert!(event["stack"].contains("hold_loop ← "), "{}", event["stack"]);
}
