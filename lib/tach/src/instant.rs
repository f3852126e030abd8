//! Instants of the counter.

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

use crate::Anchor;
use crate::timeline::Timeline;

static TIMELINE: Timeline = Timeline::new();

/// Takes the anchor that conversions start from, before the first count is read.
pub(crate) fn begin() {
    TIMELINE.begin(Anchor::take);
}

pub(crate) fn timeline() -> &'static Timeline {
    &TIMELINE
}

pub(crate) fn ns(count: u64) -> i64 {
    TIMELINE.ns(count, crate::count, Anchor::take)
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
                let count = TIMELINE.count_at(ns);
                (count < u64::MAX).then_some(Self(count.max(self.0)))
            }

            /// This instant minus `duration`; `None` where no instant can tell it.
            #[must_use]
            pub fn checked_sub(&self, duration: Duration) -> Option<Self> {
                let ns = ns(self.0).checked_sub(i64::try_from(duration.as_nanos()).ok()?)?;
                let count = TIMELINE.count_at(ns);
                (count > 0).then_some(Self(count.min(self.0)))
            }

            /// The same moment on the operating system's clock, up to the error bound of [`info`](crate::info).
            #[must_use]
            #[allow(clippy::disallowed_methods, reason = "an anchor leads from one clock to the other")]
            pub fn to_std(self) -> std::time::Instant {
                let anchor = Anchor::take();
                match ns(self.0).checked_sub(ns(anchor.count())) {
                    Some(after @ 0..) => anchor.std() + Duration::from_nanos(after.unsigned_abs()),
                    Some(before) => {
                        anchor.std().checked_sub(Duration::from_nanos(before.unsigned_abs())).unwrap_or(anchor.std())
                    }
                    None => anchor.std(),
                }
            }

            /// The instant of a moment on the operating system's clock, up to the error bound of [`info`](crate::info).
            #[must_use]
            pub fn from_std(std: std::time::Instant) -> Self {
                let anchor = Anchor::take();
                let at = Self(anchor.count());
                let moved = match std.checked_duration_since(anchor.std()) {
                    Some(after) => at.checked_add(after),
                    None => at.checked_sub(anchor.std().saturating_duration_since(std)),
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
}

impl OrderedInstant {
    /// The same moment without the promise.
    #[must_use]
    pub const fn as_unordered(self) -> Instant {
        Instant(self.0)
    }
}

impl From<OrderedInstant> for Instant {
    fn from(instant: OrderedInstant) -> Self {
        instant.as_unordered()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
