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
        assert!(span + bound >= least && span <= most + bound, "{least:?} {span:?} {most:?} {bound:?}");
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
    // A moment of the future is an estimate, good to the anchors over the time between them.
    let first = Instant::now();
    pause(Duration::from_millis(20));
    let _ = first.elapsed();
    let now = Instant::now();
    let count = Duration::from_secs(1).div_f64(tach::info().rate_hz) + Duration::from_nanos(2);
    let second = Duration::from_secs(1);
    let later = now + second;
    assert!((later - now).abs_diff(second) <= second / 1_000);
    assert_eq!(now - later, Duration::ZERO);
    assert_eq!(now.checked_duration_since(later), None);
    assert_eq!(later.elapsed(), Duration::ZERO);
    assert!((later - second).duration_since(now) <= second / 1_000);
    assert_eq!(now.checked_add(Duration::MAX), None);
    assert_eq!(now.checked_sub(Duration::MAX), None);
    let mut moved = now;
    moved += Duration::from_micros(5);
    moved -= Duration::from_micros(5);
    assert!(moved.duration_since(now) <= count * 2, "{count:?}");
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
    /// Beside std: the same operations on both give the same order, the same refusals, and lengths that differ by
    /// less than the estimate of the future may.
    #[test]
    #[allow(clippy::disallowed_methods, reason = "the oracle is the OS clock")]
    fn arithmetic_follows_std(steps in proptest::collection::vec((any::<bool>(), 0_u64..3_000_000_000), 1..20)) {
        let (ours, theirs) = (Instant::now(), std::time::Instant::now());
        let _ = recalibrate();
        let (mut our, mut their) = (ours + Duration::from_secs(100), theirs + Duration::from_secs(100));
        let tolerance = |length: Duration| length / 100 + Duration::from_micros(1);
        for (forward, ns) in steps {
            let by = Duration::from_nanos(ns);
            let (our_before, their_before) = (our, their);
            if forward { our += by; their += by } else { our -= by; their -= by }
            prop_assert!(our.cmp(&our_before) == their.cmp(&their_before));
            let (a, b) = (our.saturating_duration_since(our_before), their.saturating_duration_since(their_before));
            prop_assert!(a.abs_diff(b) <= tolerance(b), "{a:?} {b:?}");
            prop_assert_eq!(
                our.checked_duration_since(our_before).is_some(),
                their.checked_duration_since(their_before).is_some()
            );
        }
        prop_assert_eq!(our.checked_add(Duration::MAX), None);
        let span = our.duration_since(ours);
        prop_assert!(span.abs_diff(their.duration_since(theirs)) <= tolerance(span));
    }
}

#[test]
fn steps_do_not_add_up_to_less() {
    // In the past, where the line is settled whatever other tests do.
    let first = Instant::now() - Duration::from_secs(10);
    let mut t = first;
    for _ in 0..10_000 {
        t += Duration::from_micros(500);
    }
    // Rounded up to a count each time: never short, and exact where a count is less than a nanosecond.
    let span = t - first;
    let count_ns = (1e9 / tach::info().rate_hz).ceil();
    let most = if count_ns <= 1.0 { 2.0 } else { 10_000.0 * count_ns };
    assert!(span >= Duration::from_secs(5), "{span:?}");
    assert!(span.as_nanos() as f64 - 5e9 <= most, "{span:?}");
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
