//! Instants, by their public surface alone.

use std::fmt;
use std::time::Duration;

use proptest::prelude::*;
use tach::{Instant, MonotonicInstant, OrderedInstant, Source, recalibrate};

fn pause(length: Duration) {
    #[allow(clippy::disallowed_methods, reason = "time must pass")]
    std::thread::sleep(length);
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the oracle is the OS clock")]
fn spans_agree_with_the_os_clock_within_the_bound() {
    for length in [0, 1, 20, 120] {
        let outer = std::time::Instant::now();
        let start = Instant::now();
        let inner = std::time::Instant::now();
        pause(Duration::from_millis(length));
        let least = inner.elapsed();
        let span = start.elapsed();
        let most = outer.elapsed();
        let bound = Duration::from_nanos(tach::info().error_bound_ns);
        assert!(
            span + bound >= least && span <= most + bound,
            "{least:?} {span:?} {most:?} {bound:?}"
        );
    }
}

#[test]
fn a_span_once_converted_never_changes_and_elapsed_never_goes_back() {
    let start = Instant::now();
    let mut last = Duration::ZERO;
    let mut spans: Vec<(Instant, Duration)> = Vec::new();
    for i in 0..2_000_u32 {
        let elapsed = start.elapsed();
        assert!(elapsed >= last);
        last = elapsed;
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
fn arithmetic_is_that_of_std() {
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

/// The counter of a machine that has just been started has not counted an hour yet; std has no such
/// limit where its instants are signed.
#[test]
fn an_instant_may_lie_before_the_machine_was_started() {
    let century = Duration::from_secs(100 * 365 * 86_400);
    // No machine has been up for a century, whatever its counter counts from.
    let now = Instant::now();
    let then = now - century;
    assert!(then < now);
    assert_eq!(now - then, century);
    assert!(then.elapsed() >= century);
    assert_eq!(then.checked_duration_since(now), None);
    assert_eq!((then + century + century) - now, century);
    assert_eq!(now.checked_sub(century * 2), None);
    assert_eq!(then.count(), 0, "no count lies there");
}

#[test]
fn a_sum_comes_exactly_when_so_much_has_passed() {
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
fn there_and_back_to_the_os_clock() {
    let now = OrderedInstant::now();
    let again = OrderedInstant::from_std(now.to_std());
    let apart = if again > now { again - now } else { now - again };
    let bound = Duration::from_nanos(tach::info().error_bound_ns);
    assert!(apart <= bound * 2, "{apart:?}");
    assert_eq!(now.as_unordered().count(), Instant::from(now).count());
}

#[test]
fn an_instant_that_another_thread_published_is_never_absurdly_old() {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    let (published, stop) = (AtomicU64::new(Instant::now().count()), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                published.store(Instant::now().count(), Ordering::Release);
            }
        });
        for _ in 0..1_000_000 {
            let theirs = Instant::from_count(published.load(Ordering::Acquire));
            assert!(theirs.elapsed() < Duration::from_secs(60));
        }
        stop.store(true, Ordering::Relaxed);
    });
}

proptest! {
    /// Beside std: the same sums and differences, of a start and of each other, have the same
    /// order, the same equality, the same refusals and the same lengths, to the nanosecond; over
    /// decades, before the machine was started too.
    #[test]
    #[allow(clippy::disallowed_methods, reason = "the oracle is the OS clock")]
    #[cfg(unix)] // elsewhere std's instants do not lie before the machine was started
    fn arithmetic_is_std_s_to_the_nanosecond(
        steps in proptest::collection::vec((any::<bool>(), prop_oneof![0_u64..10, 0_u64..3_000_000_000, 0_u64..1 << 57]), 1..12)
    ) {
        let (ours, theirs) = (Instant::now(), std::time::Instant::now());
        let mut pairs = vec![(ours, theirs)];
        for (forward, ns) in steps {
            let by = Duration::from_nanos(ns);
            let &(our, their) = pairs.last().unwrap();
            let _ = recalibrate();
            pairs.push(if forward { (our + by, their + by) } else { (our - by, their - by) });
        }
        for &(our, their) in &pairs {
            for &(our_other, their_other) in &pairs {
                let lengths = (our.checked_duration_since(our_other), their.checked_duration_since(their_other));
                prop_assert_eq!(lengths.0, lengths.1);
                prop_assert_eq!(our.duration_since(our_other), their.duration_since(their_other));
                prop_assert_eq!(our - our_other, their.saturating_duration_since(their_other));
                // Back at the nanosecond of the start a sum is the earlier one.
                if their != theirs && their_other != theirs || our == ours && our_other == ours {
                    prop_assert_eq!(our.cmp(&our_other), their.cmp(&their_other));
                    prop_assert_eq!(our == our_other, their == their_other);
                }
            }
        }
    }

    /// Readings, sums and numbers that were never read, in one total order that equality agrees
    /// with.
    #[test]
    fn the_order_is_total(numbers in proptest::collection::vec((any::<bool>(), any::<u64>(), 0_u64..5), 2..8)) {
        let now = Instant::now();
        let instants: Vec<Instant> = numbers
            .into_iter()
            .map(|(is_sum, number, by)| match (is_sum, by) {
                (true, _) => now + Duration::from_nanos(by),
                (false, 4) => Instant::from_count(number),
                (false, _) => Instant::from_count(now.count() + by),
            })
            .collect();
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
    let mut t = first;
    for _ in 0..10_000 {
        t += Duration::from_micros(500);
    }
    assert_eq!(t - first, Duration::from_secs(5));
}

#[test]
fn recalibration_changes_no_span_while_others_convert() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watchers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let start = Instant::now();
                    let (mut last, mut spans) = (Duration::ZERO, Vec::new());
                    while !stop.load(Ordering::Relaxed) {
                        let now = Instant::now();
                        let span = now - start;
                        assert!(span >= last, "{span:?} after {last:?}");
                        last = span;
                        if spans.len() < 100_000 {
                            spans.push((now, span));
                        }
                    }
                    spans.iter().all(|&(now, span)| now - start == span)
                })
            })
            .collect();
        let mut added = 0;
        for _ in 0..40 {
            pause(Duration::from_millis(2));
            added += u32::from(recalibrate());
        }
        stop.store(true, Ordering::Relaxed);
        assert!(watchers.into_iter().all(|w| w.join().unwrap()));
        assert!(added > 0 || tach::source() == Source::OsClock);
    });
}

/// Load what another published, read the clock, compare, publish.
#[test]
fn monotonic_instants_keep_their_order_across_threads() {
    use std::sync::atomic::{AtomicU64, Ordering};
    let published = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..250_000 {
                    let before = published.load(Ordering::Acquire);
                    let now = MonotonicInstant::now().count();
                    assert!(now >= before, "{now} after {before}");
                    published.store(now, Ordering::Release);
                }
            });
        }
    });
}

#[test]
fn an_end_that_is_fenced_lies_after_what_it_ends() {
    for _ in 0..1_000 {
        let start = OrderedInstant::now();
        let end = OrderedInstant::now_fenced();
        assert!(start <= end && end <= OrderedInstant::now());
        assert!(start.elapsed_unordered() < Duration::from_secs(60));
    }
}

#[test]
fn instants_are_plain_values() {
    fn plain<T: Copy + Ord + std::hash::Hash + fmt::Debug + Send + Sync + Unpin + 'static>() {}
    plain::<Instant>();
    plain::<OrderedInstant>();
    plain::<MonotonicInstant>();
}

#[test]
fn time_goes_on_while_a_thread_sleeps() {
    let start = MonotonicInstant::now();
    pause(Duration::from_millis(20));
    let bound = Duration::from_nanos(tach::info().error_bound_ns);
    assert!(start.elapsed() + bound >= Duration::from_millis(20));
}
