//! Tests of the line with anchors that are not exact.

use super::*;
use proptest::prelude::*;
use std::cell::Cell;

/// A counter of 3 counts per nanosecond, whose anchors have an error of up to 20 ns in either
/// direction.
struct FakeClock {
    ns: Cell<u64>,
    /// The time for which the OS clock has stopped.
    suspended_ns: Cell<u64>,
    suspend_error_ns: Cell<u64>,
    noise: Cell<u64>,
    base: crate::os::OsInstant,
}

impl FakeClock {
    fn new() -> Self {
        let (ns, suspended_ns, suspend_error_ns) = (Cell::new(0), Cell::new(0), Cell::new(0));
        let (noise, base) = (Cell::new(1), crate::os::now());
        Self { ns, suspended_ns, suspend_error_ns, noise, base }
    }

    fn advance(&self, ns: u64) {
        self.ns.set(self.ns.get() + ns);
    }

    /// Suspends the machine. The reported time is too long by an error.
    fn suspend(&self, ns: u64, error_ns: u64) {
        self.advance(ns);
        self.suspended_ns.set(self.suspended_ns.get() + ns);
        self.suspend_error_ns.set(self.suspend_error_ns.get() + error_ns);
    }

    fn now(&self) -> u64 {
        1_000 + self.ns.get() * 3
    }

    /// Advances the clock by itself, unlike `now`.
    fn advancing_now(&self) -> u64 {
        self.advance(30);
        self.now()
    }

    fn take_anchor(&self) -> Anchor {
        self.advance(2_000);
        let noise = self.noise.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.noise.set(noise);
        let error = noise >> 59;
        let suspended_ns = self.suspended_ns.get();
        let std = self.base + Duration::from_nanos(self.ns.get() + 20 - error - suspended_ns);
        let reported_ns = suspended_ns + self.suspend_error_ns.get();
        Anchor::new(self.now(), std, 120).with_suspended_ns(reported_ns as i64)
    }

    fn new_timeline<'p>(&self, pieces: &'p Pieces) -> Timeline<'p> {
        let timeline = Timeline::new(pieces, || None);
        timeline.begin(|| self.take_anchor());
        timeline
    }

    fn convert(&self, timeline: &Timeline<'_>, count: u64) -> i64 {
        timeline.ns_at(count, || self.now(), || self.take_anchor())
    }

    fn recalibrate(&self, timeline: &Timeline<'_>) -> bool {
        timeline.recalibrate(|| self.advancing_now(), || self.take_anchor())
    }
}

/// The exact conversion of a count. The first anchor was taken at 2,000 ns.
fn exact_ns(count: u64) -> i64 {
    (count as i64 - 1_000) / 3 - 2_000
}

fn pause_ns() -> impl Strategy<Value = u64> {
    prop_oneof![1_u64..1_000, 1_000_u64..10_000_000, 1_000_000_u64..10_000_000_000]
}

proptest! {
    #[test]
    fn spans_keep_their_length(
        steps in proptest::collection::vec((pause_ns(), any::<bool>()), 1..60),
    ) {
        let clock = FakeClock::new();
        let pieces = empty_pieces();
        let timeline = clock.new_timeline(&pieces);
        let mut converted: Vec<(u64, i64)> = Vec::new();
        for (pause_ns, recalibrate) in steps {
            clock.advance(pause_ns);
            if recalibrate {
                clock.recalibrate(&timeline);
            }
            let count = clock.now();
            let ns = clock.convert(&timeline, count);
            // The line follows the clock.
            let exact = exact_ns(count);
            prop_assert!((ns - exact).abs() <= 200, "{ns}, expected {exact}");
            for &(count, before) in &converted {
                prop_assert_eq!(clock.convert(&timeline, count), before);
                prop_assert!(before <= ns);
            }
            converted.push((count, ns));
        }
    }

    /// Each way to find the piece of a count finds the same piece as a search of all pieces.
    #[test]
    fn counts_use_their_covering_piece(
        steps in proptest::collection::vec((1_u64..10_000_000_000_000, any::<bool>()), 1..80),
        shares in proptest::collection::vec(0.0..1.0_f64, 50),
    ) {
        let clock = FakeClock::new();
        let pieces = empty_pieces();
        let timeline = clock.new_timeline(&pieces);
        for (pause_ns, recalibrate) in steps {
            clock.advance(pause_ns);
            if recalibrate {
                clock.recalibrate(&timeline);
            }
            clock.convert(&timeline, clock.now());
            let used = &timeline.pieces[..=timeline.newest.load(Ordering::Relaxed)];
            let starts = used.iter().map(Piece::start);
            let edges = starts.flat_map(|start| (start - 1)..=(start + 1));
            let within = shares.iter().map(|share| (clock.now() as f64 * share) as u64);
            for count in edges.chain(within).filter(|&count| count <= clock.now()) {
                let ns = clock.convert(&timeline, count);
                prop_assert_eq!(ns, timeline.ns_on_line(count));
                if let Some(newest_ns) = timeline.newest().checked_ns_at(count) {
                    prop_assert_eq!(ns, newest_ns);
                }
            }
        }
    }

    #[test]
    fn counts_come_back_from_nanoseconds(
        pause_ns in 1_u64..10_000_000_000,
        ns in 0_i64..10_000_000_000,
    ) {
        let clock = FakeClock::new();
        let pieces = empty_pieces();
        let timeline = clock.new_timeline(&pieces);
        clock.ns.set(pause_ns);
        clock.convert(&timeline, clock.now());
        let again = timeline.ns_on_line(timeline.count_at(ns));
        prop_assert!((again - ns).abs() <= 1, "{again}, expected {ns}");
    }
}

#[test]
fn wrong_stated_rate_is_rejected() {
    for (stated, is_right) in [(1.0 / 3.0, true), (1.0 / 3.00001, true), (0.5, false), (0.2, false)]
    {
        let clock = FakeClock::new();
        let origin = clock.take_anchor();
        let last = clock.take_anchor();
        assert_eq!(is_confirmed(stated, &origin, &last), is_right, "{stated}");
    }
}

#[test]
fn stated_rate_saves_first_wait() {
    let clock = FakeClock::new();
    let pieces = empty_pieces();
    let timeline = Timeline::new(&pieces, || Some(1.0 / 3.0));
    timeline.begin(|| clock.take_anchor());
    clock.convert(&timeline, clock.now());
    let passed_ns = clock.ns.get();
    assert!(passed_ns <= 4_000, "expected a single anchor after the first: {passed_ns} ns");
}

#[test]
fn constant_recalibration_keeps_spans_and_memory() {
    let clock = FakeClock::new();
    let pieces = empty_pieces();
    let timeline = clock.new_timeline(&pieces);
    let mut added = 0;
    let mut converted = Vec::new();
    for i in 0..200_000_u64 {
        // The age grows from microseconds to weeks.
        clock.advance(1 + clock.ns.get() / 8_192);
        added += u64::from(clock.recalibrate(&timeline));
        if i % 20_000 == 0 {
            let count = clock.now();
            converted.push((count, clock.convert(&timeline, count)));
        }
    }
    assert!(added > 1_000, "{added}");
    assert!(timeline.newest.load(Ordering::Relaxed) < MAX_PIECES - RESERVED_PIECES);
    for (count, before) in converted {
        assert_eq!(timeline.ns_on_line(count), before);
    }
}

/// Threads convert counts while pieces are added. Miri shows what a weakly ordered memory may
/// show.
#[test]
fn threads_agree_on_the_line() {
    const DOUBLINGS: u32 = if cfg!(miri) { 8 } else { 40 };
    let (clock, base) = (AtomicU64::new(0), crate::os::now());
    let advance = |ns: u64| clock.fetch_add(ns, Ordering::Relaxed) + ns;
    let now = || 3 * advance(30);
    let anchor = || {
        let ns = advance(2_000);
        Anchor::new(3 * ns, base + Duration::from_nanos(ns + ns % 17), 120)
    };
    let pieces = empty_pieces();
    let timeline = Timeline::new(&pieces, || None);
    timeline.begin(anchor);
    let convert = || {
        let mut converted = Vec::new();
        for doubling in 0..DOUBLINGS {
            advance(1_000 << doubling);
            for _ in 0..3 {
                let count = now();
                converted.push((count, timeline.ns_at(count, now, anchor)));
            }
        }
        converted
    };
    let mut converted: Vec<(u64, i64)> = std::thread::scope(|scope| {
        let threads = [(); 3].map(|()| scope.spawn(convert));
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    converted.sort_unstable();
    assert!(timeline.newest.load(Ordering::Relaxed) > 0);
    for pair in converted.windows(2) {
        assert!(pair[0].1 <= pair[1].1, "{pair:?}");
    }
    for (count, ns) in converted {
        assert_eq!(timeline.ns_on_line(count), ns);
    }
}

/// The OS clock stops during a suspend, and the counter does not.
#[test]
fn suspend_changes_no_later_span() {
    const MINUTE_NS: u64 = 60_000_000_000;
    let clock = FakeClock::new();
    let pieces = empty_pieces();
    let timeline = clock.new_timeline(&pieces);
    clock.advance(MINUTE_NS);
    for minute in 0..1_500 {
        if [0, 600, 610, 1_200].contains(&minute) {
            // Linux may know the time only from a clock of whole seconds.
            clock.suspend(8 * 60 * MINUTE_NS, 700_000_000);
        }
        let start = clock.now();
        let start_ns = clock.convert(&timeline, start);
        clock.advance(MINUTE_NS);
        let end = clock.now();
        let span_ns = clock.convert(&timeline, end) - start_ns;
        let exact_ns = (end - start) as i64 / 3;
        assert!((span_ns - exact_ns).abs() < 1_000, "{minute}: {span_ns}, not {exact_ns}");
    }
}

#[test]
fn line_lasts_for_years() {
    const DAY_NS: u64 = 24 * 3_600_000_000_000;
    let clock = FakeClock::new();
    let pieces = empty_pieces();
    let timeline = clock.new_timeline(&pieces);
    for _ in 0..20 * 365 {
        clock.advance(DAY_NS);
        let count = clock.now();
        let ns = clock.convert(&timeline, count);
        assert!((ns - exact_ns(count)).abs() < 1_000);
    }
    assert!(timeline.newest.load(Ordering::Relaxed) < MAX_PIECES);
}
