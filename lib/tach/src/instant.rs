//! Instants of the counter.

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

use crate::os::OsInstant;
use crate::source::{self, OS_CLOCK_ORIGIN, Source};
use crate::timeline::Timeline;
use crate::{Anchor, counter};

static TIMELINE: Timeline = Timeline::new(|| counter::rate_stated_cheaply().map(|stated| 1e9 / stated.hz as f64));

/// Takes the anchor that conversions start from, before the first count is read.
pub(crate) fn begin() {
    TIMELINE.begin(Anchor::take);
}

pub(crate) fn timeline() -> &'static Timeline {
    &TIMELINE
}

/// Nanoseconds from the beginning of the line to `count`.
pub(crate) fn ns(count: u64) -> i64 {
    match source::source() {
        // That clock's counts are its nanoseconds: no line, and no error.
        Source::OsClock => i64::try_from(i128::from(count) - i128::from(OS_CLOCK_ORIGIN)).unwrap_or(i64::MAX),
        _ => TIMELINE.ns(count, crate::ordered_count, Anchor::take),
    }
}

/// The count at so many nanoseconds from the beginning of the line: the inverse of [`ns`], up to a rounding.
fn count_at(ns: i64) -> u64 {
    match source::source() {
        Source::OsClock => OS_CLOCK_ORIGIN.saturating_add_signed(ns),
        _ => TIMELINE.count_at(ns),
    }
}

/// A count beside the operating system's clock at that moment.
fn beside_os_clock() -> (u64, OsInstant) {
    match source::source() {
        Source::OsClock => (OS_CLOCK_ORIGIN, source::os_clock_base()),
        _ => {
            let anchor = Anchor::take();
            (anchor.count(), anchor.std())
        }
    }
}

/// Takes an anchor now, and continues the line towards it: time from now on runs at the rate between the last anchors.
/// Nothing that was converted before changes. Costs some ten to twenty microseconds.
///
/// Nobody needs to call it: conversions take anchors as the process grows older. It serves a process that wants them
/// more often, because the temperature (and so the rate) changes within the hour, or at a moment of its own choice.
///
/// False if there is nothing to do: the last anchor is so recent, against the age of the process, that another would tell
/// nothing new; the thread was held up in the middle; or the operating system's clock is read.
pub fn recalibrate() -> bool {
    source::source() != Source::OsClock && TIMELINE.recalibrate(crate::ordered_count, Anchor::take)
}

macro_rules! instants {
    ($($(#[$meta:meta])* $name:ident reads $read:path;)*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u64);

        impl $name {
            /// Now: one reading of the counter, and nothing else.
            #[inline]
            #[must_use]
            pub fn now() -> Self {
                Self($read())
            }

            /// The instant of a raw count, such as [`count`](crate::count) returns.
            #[inline]
            #[must_use]
            pub const fn from_count(count: u64) -> Self {
                Self(count)
            }

            /// The raw count.
            #[inline]
            #[must_use]
            pub const fn count(self) -> u64 {
                self.0
            }

            /// Time since this instant; zero if it is in the future.
            #[must_use]
            pub fn elapsed(&self) -> Duration {
                Self::now().duration_since(*self)
            }

            /// Time from `earlier` to this instant; zero if `earlier` is later.
            #[must_use]
            pub fn duration_since(&self, earlier: Self) -> Duration {
                self.checked_duration_since(earlier).unwrap_or_default()
            }

            /// Time from `earlier` to this instant; `None` if `earlier` is later.
            #[must_use]
            pub fn checked_duration_since(&self, earlier: Self) -> Option<Duration> {
                if self.0 < earlier.0 {
                    return None;
                }
                // The later one first: its conversion may add the piece of the line that both then lie on.
                let later_ns = ns(self.0);
                Some(Duration::from_nanos(later_ns.abs_diff(ns(earlier.0))))
            }

            /// Time from `earlier` to this instant; zero if `earlier` is later.
            #[must_use]
            pub fn saturating_duration_since(&self, earlier: Self) -> Duration {
                self.duration_since(earlier)
            }

            /// This instant plus `duration`; `None` where no instant can tell it.
            #[must_use]
            pub fn checked_add(&self, duration: Duration) -> Option<Self> {
                let ns = ns(self.0).checked_add(i64::try_from(duration.as_nanos()).ok()?)?;
                let count = count_at(ns);
                (count < u64::MAX).then_some(Self(count.max(self.0)))
            }

            /// This instant minus `duration`; `None` where no instant can tell it.
            #[must_use]
            pub fn checked_sub(&self, duration: Duration) -> Option<Self> {
                let ns = ns(self.0).checked_sub(i64::try_from(duration.as_nanos()).ok()?)?;
                let count = count_at(ns);
                (count > 0).then_some(Self(count.min(self.0)))
            }

            /// The same moment on the operating system's clock, up to the error bound of [`info`](crate::info).
            #[must_use]
            pub fn to_std(self) -> OsInstant {
                let (count, os) = beside_os_clock();
                let after = ns(self.0).saturating_sub(ns(count));
                let moved = match after {
                    0.. => os.checked_add(Duration::from_nanos(after.unsigned_abs())),
                    _ => os.checked_sub(Duration::from_nanos(after.unsigned_abs())),
                };
                moved.unwrap_or(os)
            }

            /// The instant of a moment on the operating system's clock, up to the error bound of [`info`](crate::info).
            #[must_use]
            pub fn from_std(std: OsInstant) -> Self {
                let (count, os) = beside_os_clock();
                let at = Self(count);
                let moved = match std.checked_duration_since(os) {
                    Some(after) => at.checked_add(after),
                    None => at.checked_sub(os.saturating_duration_since(std)),
                };
                moved.unwrap_or(at)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($name)).field(&self.0).finish()
            }
        }

        impl Sub for $name {
            type Output = Duration;

            /// As [`Self::duration_since`].
            fn sub(self, earlier: Self) -> Duration {
                self.duration_since(earlier)
            }
        }

        impl Add<Duration> for $name {
            type Output = Self;

            /// # Panics
            /// Where no instant can tell the sum.
            fn add(self, duration: Duration) -> Self {
                self.checked_add(duration).expect("an instant within the counter's range")
            }
        }

        impl AddAssign<Duration> for $name {
            fn add_assign(&mut self, duration: Duration) {
                *self = *self + duration;
            }
        }

        impl Sub<Duration> for $name {
            type Output = Self;

            /// # Panics
            /// Where no instant can tell the difference.
            fn sub(self, duration: Duration) -> Self {
                self.checked_sub(duration).expect("an instant within the counter's range")
            }
        }

        impl SubAssign<Duration> for $name {
            fn sub_assign(&mut self, duration: Duration) {
                *self = *self - duration;
            }
        }
    )*};
}

instants! {
    /// A moment of the counter, with the surface of [`std::time::Instant`]; where that saturates, this does.
    ///
    /// Reading it is one instruction, which the CPU may carry out before earlier loads have completed. Converting a
    /// span costs some nanoseconds; now and then, rarer as the process grows older, it takes an [`Anchor`] (microseconds).
    ///
    /// A span between two moments of the past has one length for ever, and [`Instant::elapsed`] never goes back. A
    /// moment of the future, such as a sum, is an estimate until it has come.
    Instant reads crate::count;

    /// The same, read so that no earlier load of this thread can pass it: for a stamp that is compared with what
    /// another thread published.
    OrderedInstant reads crate::ordered_count;

    /// The same, and never less than an instant of this type that was taken before, on whatever thread: if one thread
    /// takes an instant and then lets another know in any way that synchronises (a release store that an acquire load
    /// reads, a lock, a channel), then the other's next instant is not earlier. Two may be equal.
    ///
    /// How that is kept is told by [`Info::cross_thread_order`](crate::Info::cross_thread_order). Where the architecture
    /// (Arm) or the kernel (Linux, by using the counter for its own time) vouches that all cores count alike, an ordered
    /// read is enough, and threads do not disturb each other. Elsewhere every read goes through one shared word, which
    /// costs more the more threads ask.
    MonotonicInstant reads source::monotonic_count;
}

macro_rules! as_unordered {
    ($($name:ident)*) => {$(
        impl $name {
            /// The same moment without the promise; there is no way back.
            #[inline]
            #[must_use]
            pub const fn as_unordered(self) -> Instant {
                Instant(self.0)
            }

            /// Time since this instant, the end read as an [`Instant`] is: cheaper, and the CPU may read it early.
            #[must_use]
            pub fn elapsed_unordered(&self) -> Duration {
                self.as_unordered().elapsed()
            }
        }

        impl From<$name> for Instant {
            fn from(instant: $name) -> Self {
                instant.as_unordered()
            }
        }
    )*};
}

as_unordered! { OrderedInstant MonotonicInstant }

impl OrderedInstant {
    /// Now, and no later instruction begins before it was read: for the end of a section under measurement, so that
    /// what follows does not leak into it.
    #[inline]
    #[must_use]
    pub fn now_fenced() -> Self {
        Self(crate::fenced_count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

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
            let bound = Duration::from_nanos(crate::info().error_bound_ns);
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
        let count = Duration::from_secs(1).div_f64(crate::info().rate_hz) + Duration::from_nanos(2);
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
        let bound = Duration::from_nanos(crate::info().error_bound_ns);
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
        fn arithmetic_follows_std(steps in proptest::collection::vec((any::<bool>(), 0_u64..3_000_000_000), 1..20)) {
            let (ours, theirs) = (Instant::now(), crate::os::now());
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
        let count_ns = (1e9 / crate::info().rate_hz).ceil();
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
            assert!(added > 0 || source::source() == Source::OsClock);
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
        let bound = Duration::from_nanos(crate::info().error_bound_ns);
        assert!(start.elapsed() + bound >= Duration::from_millis(20));
    }
}
