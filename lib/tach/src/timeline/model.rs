//! A model of the line, in which loom tries every schedule and every value that a load may return.
//!
//! The counter is a word that each reading advances. Since it is advanced with `AcqRel`, readings
//! order memory like physical time. What is not part of the model is the delay of a CPU's stores and
//! loads, for which [`VISIBILITY_MARGIN`] allows.

use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use loom::sync::Arc;

use super::*;

/// A count and its conversion.
type Converted = (u64, i64);

struct Process {
    counter: AtomicU64,
    base: os::OsInstant,
    timeline: Timeline<'static>,
}

impl Process {
    /// Creates a process whose line has begun, and has no piece yet.
    fn new() -> Self {
        let timeline = Timeline::new(empty_pieces(), || None);
        let process = Self { counter: AtomicU64::new(0), base: os::now(), timeline };
        process.timeline.begin(|| process.take_anchor());
        process
    }

    /// Reads the counter, which has one count per microsecond.
    fn advance(&self, counts: u64) -> u64 {
        self.counter.fetch_add(counts, AcqRel) + counts
    }

    fn now(&self) -> u64 {
        self.advance(4)
    }

    /// Takes an anchor with an error, so that no two pieces have the same slope.
    fn take_anchor(&self) -> Anchor {
        let count = self.advance(10);
        let error_ns = count * count % 7 * 100;
        Anchor::new(count, self.base + Duration::from_nanos(1_000 * count + error_ns), 0)
    }

    fn convert(&self, count: u64) -> Converted {
        (count, self.timeline.ns_at(count, || self.now(), || self.take_anchor()))
    }

    fn recalibrate(&self) -> bool {
        self.timeline.recalibrate(|| self.now(), || self.take_anchor())
    }

    /// Checks that conversions have not changed, and that a later count is not converted to less.
    fn check(&self, mut converted: Vec<Converted>) {
        converted.sort_unstable();
        assert!(converted.is_sorted_by_key(|(_, ns)| *ns), "{converted:?}");
        for (count, ns) in converted {
            assert_eq!(self.timeline.ns_on_line(count), ns, "at {count}");
        }
    }
}

fn run(model: impl Fn(&Arc<Process>) -> Vec<Converted> + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let process = Arc::new(Process::new());
        let converted = model(&process);
        process.check(converted);
    });
}

#[test]
fn threads_add_pieces() {
    run(|process| {
        let first = process.now();
        let other = Arc::clone(process);
        let thread =
            loom::thread::spawn(move || [other.convert(first), other.convert(other.advance(30))]);
        let mut converted = vec![process.convert(first), process.convert(process.now())];
        converted.extend(thread.join().unwrap());
        assert!(process.timeline.newest.load(Relaxed) > 0);
        converted
    });
}

#[test]
fn recalibration_keeps_conversions() {
    run(|process| {
        process.convert(process.advance(150));
        assert!(process.recalibrate());
        let early = process.timeline.newest().start() - 1;
        let other = Arc::clone(process);
        let thread = loom::thread::spawn(move || other.recalibrate());
        let late = process.convert(process.advance(20));
        let converted = vec![late, process.convert(early), process.convert(process.now())];
        thread.join().unwrap();
        converted
    });
}
