//! Tests of the instants through their public API.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use tach::{Instant, MonotonicInstant, OrderedInstant, Source, recalibrate};

fn pause(length: Duration) {
    #[allow(clippy::disallowed_methods, reason = "time must pass")]
    std::thread::sleep(length);
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the oracle is the OS clock")]
fn spans_match_os_clock_within_bound() {
    for length in [0, 1, 20, 120] {
        let outer = std::time::Instant::now();
        let start = Instant::now();
        let inner = std::time::Instant::now();
        pause(Duration::from_millis(length));
        let min = inner.elapsed();
        let span = start.elapsed();
        let max = outer.elapsed();
        let bound = Duration::from_nanos(tach::info().error_bound_ns);
        assert!(span + bound >= min && span <= max + bound, "{min:?} {span:?} {max:?} {bound:?}");
    }
}

#[test]
fn elapsed_never_goes_back() {
    let start = Instant::now();
    let mut last = Duration::ZERO;
    for i in 0..2_000_u32 {
        let elapsed = start.elapsed();
        assert!(elapsed >= last);
        last = elapsed;
        if i % 500 == 0 {
            pause(Duration::from_millis(3));
        }
    }
}

#[test]
fn converted_spans_never_change() {
    let start = Instant::now();
    let mut spans: Vec<(Instant, Duration)> = Vec::new();
    for i in 0..2_000_u32 {
        let now = Instant::now();
        spans.push((now, now - start));
        if i % 500 == 0 {
            pause(Duration::from_millis(3));
        }
    }
    for (instant, span) in spans {
        assert_eq!(instant - start, span);
    }
}

#[test]
fn arithmetic_matches_std() {
    let now = Instant::now();
    let second = Duration::from_secs(1);
    let later = now + second;
    assert_eq!(later - now, second);
    assert_eq!(now - later, Duration::ZERO);
    assert_eq!(now.checked_duration_since(later), None);
    assert_eq!(later.elapsed(), Duration::ZERO);
    assert_eq!((later - second).duration_since(now), Duration::ZERO);
    assert_eq!(now.duration_since(later - second), Duration::ZERO);
    assert_eq!(later + second - second, later);
    assert_eq!(now + Duration::ZERO, now);
    assert_eq!(now.checked_add(Duration::MAX), None);
    assert_eq!(now.checked_sub(Duration::MAX), None);
    let mut moved = later;
    moved += Duration::from_micros(5);
    moved -= Duration::from_micros(5);
    assert_eq!(moved, later);
}

/// The counter of a machine that has just been started has not reached an hour yet. On platforms
/// with signed instants, std does not have this limit.
#[test]
fn instants_may_precede_machine_start() {
    let century = Duration::from_secs(100 * 365 * 86_400);
    // No machine has been up for a century, whatever its counter started from.
    let now = Instant::now();
    let past = now - century;
    assert!(past < now);
    assert_eq!(now - past, century);
    assert!(past.elapsed() >= century);
    assert_eq!(past.checked_duration_since(now), None);
    assert_eq!((past + century + century) - now, century);
    assert_eq!(now.checked_sub(century * 2), None);
    assert_eq!(past.count(), 0, "expected no count before the start");
}

#[test]
fn sums_are_reached_exactly() {
    for i in 0..100 {
        let length = Duration::from_micros(i);
        let start = Instant::now();
        let deadline = start + length;
        let (mut before, mut after) = (start, Instant::now());
        while after < deadline {
            (before, after) = (after, Instant::now());
        }
        assert!(before - start < length || before == start);
        assert!(after - start >= length && start.elapsed() >= length);
        assert!(Instant::from_count(deadline.count()) >= deadline);
    }
}

#[test]
fn os_clock_round_trip() {
    let now = OrderedInstant::now();
    let returned = OrderedInstant::from_std(now.to_std());
    let difference = if returned > now { returned - now } else { now - returned };
    let bound = Duration::from_nanos(tach::info().error_bound_ns);
    assert!(difference <= bound * 2, "{difference:?}");
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the oracle is the OS clock")]
fn distant_os_times_saturate() {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 86_400);
    let os = std::time::Instant::now();
    let now = Instant::now();
    for centuries in [1, 2, 4, 20] {
        // Not every system has instants that distant.
        let later = os.checked_add(CENTURY * centuries).map(Instant::from_std);
        let earlier = os.checked_sub(CENTURY * centuries).map(Instant::from_std);
        assert!(later.is_none_or(|later| later > now + CENTURY / 2), "{centuries}");
        assert!(earlier.is_none_or(|earlier| earlier < now - CENTURY / 2), "{centuries}");
        assert!(later.is_none_or(|later| later.to_std() > os + CENTURY / 2), "{centuries}");
    }
}

#[test]
fn unordered_instants_keep_the_count() {
    let now = OrderedInstant::now();
    assert_eq!(now.as_unordered().count(), now.count());
    assert_eq!(Instant::from(now).count(), now.count());
}

#[test]
fn published_instants_are_never_absurdly_old() {
    let (published, stop) = (AtomicU64::new(Instant::now().count()), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                published.store(Instant::now().count(), Ordering::Release);
            }
        });
        for _ in 0..1_000_000 {
            let remote = Instant::from_count(published.load(Ordering::Acquire));
            assert!(remote.elapsed() < Duration::from_secs(3_600));
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// An instant by tach and by std, after the same sums and differences.
#[derive(Clone, Copy)]
#[cfg(unix)]
struct InstantPair {
    tach: Instant,
    std: std::time::Instant,
}

#[cfg(unix)]
impl InstantPair {
    fn moved(self, forward: bool, by: Duration) -> Self {
        if forward {
            Self { tach: self.tach + by, std: self.std + by }
        } else {
            Self { tach: self.tach - by, std: self.std - by }
        }
    }
}

/// A step of some nanoseconds, seconds, or years.
#[cfg(unix)]
fn step_ns() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..10, 0_u64..3_000_000_000, 0_u64..1 << 57]
}

proptest! {
    /// Sums and differences have the same order, equality, failures and lengths as those of std, to
    /// the nanosecond. The steps reach decades, and times before the machine was started.
    #[test]
    #[allow(clippy::disallowed_methods, reason = "the oracle is the OS clock")]
    #[cfg(unix)] // on other platforms std has no instants before the start of the machine
    fn arithmetic_matches_std_exactly(
        steps in proptest::collection::vec((any::<bool>(), step_ns()), 1..12),
    ) {
        let start = InstantPair { tach: Instant::now(), std: std::time::Instant::now() };
        let mut pairs = vec![start];
        for (forward, ns) in steps {
            let last = *pairs.last().unwrap();
            let _ = recalibrate();
            pairs.push(last.moved(forward, Duration::from_nanos(ns)));
        }
        for a in &pairs {
            for b in &pairs {
                prop_assert_eq!(
                    a.tach.checked_duration_since(b.tach),
                    a.std.checked_duration_since(b.std)
                );
                prop_assert_eq!(a.tach.duration_since(b.tach), a.std.duration_since(b.std));
                prop_assert_eq!(a.tach - b.tach, a.std.saturating_duration_since(b.std));
                // A sum that is in the same nanosecond as the start is earlier than the start.
                let are_sums = a.std != start.std && b.std != start.std;
                let are_readings = a.tach == start.tach && b.tach == start.tach;
                if are_sums || are_readings {
                    prop_assert_eq!(a.tach.cmp(&b.tach), a.std.cmp(&b.std));
                    prop_assert_eq!(a.tach == b.tach, a.std == b.std);
                }
            }
        }
    }

    /// Readings, sums and counts that were never read have one total order, which equality agrees
    /// with.
    #[test]
    fn order_is_total(
        numbers in proptest::collection::vec((any::<bool>(), any::<u64>(), 0_u64..5), 2..8),
    ) {
        let now = Instant::now();
        let instants = numbers.into_iter().map(|(is_sum, number, by)| match (is_sum, by) {
            (true, _) => now + Duration::from_nanos(by),
            (false, 4) => Instant::from_count(number),
            (false, _) => Instant::from_count(now.count() + by),
        });
        let instants: Vec<Instant> = instants.collect();
        for a in &instants {
            for b in &instants {
                prop_assert_eq!(a.cmp(b), b.cmp(a).reverse());
                prop_assert_eq!(a == b, a.cmp(b).is_eq());
                for c in &instants {
                    prop_assert!(!(a <= b && b <= c) || a <= c, "{a:?} {b:?} {c:?}");
                }
            }
        }
    }
}

#[test]
fn steps_add_up_exactly() {
    let first = Instant::now() - Duration::from_secs(10);
    let mut sum = first;
    for _ in 0..10_000 {
        sum += Duration::from_micros(500);
    }
    assert_eq!(sum - first, Duration::from_secs(5));
}

/// Converts spans until `stop` is set, and returns whether the earlier ones kept their length.
fn convert_spans(stop: &AtomicBool) -> bool {
    const MAX_SPANS: usize = 100_000;
    let start = Instant::now();
    let (mut last, mut spans) = (Duration::ZERO, Vec::new());
    while !stop.load(Ordering::Relaxed) {
        let now = Instant::now();
        let span = now - start;
        assert!(span >= last, "{span:?} after {last:?}");
        last = span;
        if spans.len() < MAX_SPANS {
            spans.push((now, span));
        }
    }
    spans.iter().all(|&(now, span)| now - start == span)
}

#[test]
fn recalibration_changes_no_span() {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watchers = [(); 2].map(|()| scope.spawn(|| convert_spans(&stop)));
        let mut added = 0;
        // The older the first anchor is, the longer is the time in which one more is enough. The
        // other tests take anchors as well.
        for round in 0..50_000 {
            if round >= 40 && (added > 0 || tach::source() == Source::OsClock) {
                break;
            }
            pause(Duration::from_millis(2));
            added += u32::from(recalibrate());
        }
        stop.store(true, Ordering::Relaxed);
        assert!(watchers.into_iter().all(|watcher| watcher.join().unwrap()));
        assert!(added > 0 || tach::source() == Source::OsClock);
    });
}

#[test]
fn fenced_reads_are_ordered() {
    for _ in 0..1_000 {
        let start = OrderedInstant::now();
        let end = OrderedInstant::now_fenced();
        assert!(start <= end && end <= OrderedInstant::now());
        assert!(start.elapsed_unordered() < Duration::from_secs(3_600));
    }
}

#[test]
fn instants_are_plain_values() {
    fn assert_plain<T: Copy + Ord + std::hash::Hash + fmt::Debug + Unpin + 'static>() {}
    assert_plain::<Instant>();
    assert_plain::<OrderedInstant>();
    assert_plain::<MonotonicInstant>();
}

#[test]
fn all_types_are_send_and_sync() {
    fn assert_send_sync<T: Send + Sync>() {}
    assert_send_sync::<(Instant, OrderedInstant, MonotonicInstant, tach::Paired<u64>)>();
    assert_send_sync::<(tach::Anchor, tach::Conversion, tach::Info, tach::CounterUnavailable)>();
}

#[test]
fn time_advances_during_sleep() {
    let start = MonotonicInstant::now();
    pause(Duration::from_millis(20));
    let bound = Duration::from_nanos(tach::info().error_bound_ns);
    assert!(start.elapsed() + bound >= Duration::from_millis(20));
}
