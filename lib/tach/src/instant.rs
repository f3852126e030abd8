//! Instants of the counter.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

use crate::anchor::Anchor;
use crate::moment;
use crate::os::OsInstant;
use crate::reading::{self, LAST_COUNT, ordered_count};
use crate::source::Source;
use crate::timeline::TIMELINE;

/// Takes an anchor now and continues the line towards it: from now on time runs at the rate between
/// the last anchors. Nothing that was converted before changes. Costs ten to twenty microseconds.
///
/// There is no need to call it: conversions take anchors as the process grows older. It is for a
/// process that wants them more often, because the temperature (and so the rate) changes within the
/// hour, or at a moment of its own choice.
///
/// False if nothing was done: the last anchor is so recent, for the age of the process, that
/// another would add nothing; the thread was held up in the middle; or counts come from the OS
/// clock.
///
/// # Examples
/// ```
/// let start = tach::Instant::now();
/// tach::recalibrate(); // before the busy hours, say
/// assert!(start.elapsed() < std::time::Duration::from_secs(60));
/// ```
pub fn recalibrate() -> bool {
    reading::source() != Source::OsClock && TIMELINE.recalibrate(ordered_count, Anchor::take)
}

macro_rules! instants {
    ($($(#[$meta:meta])* $name:ident reads $read:path;)*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name(u64);

        impl $name {
            /// The current time: one reading of the counter, and nothing else.
            #[inline]
            #[must_use]
            pub fn now() -> Self {
                Self($read())
            }

            /// The instant of a raw count, such as [`count`](crate::count) returns. No counter
            /// comes beyond 2⁶³: such a number is cut to the largest below.
            ///
            /// # Examples
            /// ```
            #[doc = concat!("let now = tach::", stringify!($name), "::now();")]
            #[doc = concat!("assert_eq!(tach::", stringify!($name), "::from_count(now.count()), now);")]
            /// ```
            #[inline]
            #[must_use]
            pub const fn from_count(count: u64) -> Self {
                Self(if count > LAST_COUNT { LAST_COUNT } else { count })
            }

            /// The raw count, of [`Info::rate_hz`](crate::Info::rate_hz) counts per second; for a
            /// sum or a difference, the count at which it comes or came, which is an estimate while
            /// that lies in the future.
            #[inline]
            #[must_use]
            pub fn count(self) -> u64 {
                moment::count(self.0)
            }

            /// Time since this instant; zero if it is in the future.
            #[inline]
            #[must_use]
            pub fn elapsed(&self) -> Duration {
                moment::elapsed(self.0, $read)
            }

            /// Time from `earlier` to this instant; zero if `earlier` is later.
            #[inline]
            #[must_use]
            pub fn duration_since(&self, earlier: Self) -> Duration {
                moment::since(earlier.0, self.0)
            }

            /// Time from `earlier` to this instant; `None` if `earlier` is later (by a nanosecond,
            /// between a reading and a sum).
            ///
            /// # Examples
            /// ```
            #[doc = concat!("let first = tach::", stringify!($name), "::now();")]
            /// let second = first + std::time::Duration::from_millis(1);
            /// assert!(second.checked_duration_since(first).is_some());
            /// assert_eq!(first.checked_duration_since(second), None);
            /// assert!(first.duration_since(second).is_zero() &&
            /// first.saturating_duration_since(second).is_zero());
            /// ```
            #[must_use]
            pub fn checked_duration_since(&self, earlier: Self) -> Option<Duration> {
                moment::between(earlier.0, self.0)
            }

            /// As [`Self::duration_since`], by std's name for it.
            #[must_use]
            pub fn saturating_duration_since(&self, earlier: Self) -> Duration {
                self.duration_since(earlier)
            }

            /// This instant plus `duration`, exactly; `None` beyond 146 years from the first use of
            /// this crate.
            ///
            /// # Examples
            /// ```
            /// use std::time::Duration;
            #[doc = concat!("let now = tach::", stringify!($name), "::now();")]
            /// let second = Duration::from_secs(1); assert_eq!(now.checked_add(second).map(|later|
            /// later - now), Some(second)); assert_eq!(now.checked_sub(second).map(|earlier| now -
            /// earlier), Some(second)); // however young the machine
            /// assert_eq!((now.checked_add(Duration::MAX), now.checked_sub(Duration::MAX)), (None,
            /// None));
            /// ```
            #[must_use]
            pub fn checked_add(&self, duration: Duration) -> Option<Self> {
                moment::after(self.0, duration).map(Self)
            }

            /// This instant minus `duration`, exactly; `None` beyond 146 years before the first use
            /// of this crate. It may lie before the machine was started. See [`Self::checked_add`].
            #[must_use]
            pub fn checked_sub(&self, duration: Duration) -> Option<Self> {
                moment::before(self.0, duration).map(Self)
            }

            /// The same moment on the OS clock, up to the error bound of [`info`](crate::info).
            ///
            /// # Examples
            /// ```
            #[doc = concat!("let now = tach::", stringify!($name), "::now();")]
            #[doc = concat!("let there_and_back = tach::", stringify!($name), "::from_std(now.to_std());")]
            /// assert!(there_and_back.duration_since(now) < std::time::Duration::from_secs(1));
            /// ```
            #[must_use]
            pub fn to_std(self) -> OsInstant {
                moment::to_std(self.0)
            }

            /// The instant of a moment on the OS clock, up to the error bound of
            /// [`info`](crate::info). See [`Self::to_std`].
            #[must_use]
            pub fn from_std(std: OsInstant) -> Self {
                Self(moment::from_std(std))
            }
        }

        impl Ord for $name {
            #[inline]
            fn cmp(&self, other: &Self) -> Ordering {
                moment::cmp(self.0, other.0)
            }
        }

        impl PartialOrd for $name {
            #[inline]
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($name)).field(&self.count()).finish()
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
            /// Where no instant can represent the sum: see [`Self::checked_add`].
            fn add(self, duration: Duration) -> Self {
                self.checked_add(duration).expect("an instant within 146 years")
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
            /// Where no instant can represent the difference: see [`Self::checked_sub`].
            fn sub(self, duration: Duration) -> Self {
                self.checked_sub(duration).expect("an instant within 146 years")
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
    /// A moment of the counter, with the surface of [`std::time::Instant`]; where that saturates,
    /// this does.
    ///
    /// Reading it is one instruction, which the CPU may execute before earlier loads have
    /// completed. Converting a span costs nanoseconds; now and then, less often as the process
    /// grows older, it takes an [`Anchor`] (microseconds).
    ///
    /// # Precision
    /// A span between two moments of the past never changes its length, and [`Instant::elapsed`]
    /// never goes back.
    ///
    /// A sum or difference is kept in nanoseconds, so it is exact, whatever the rate turns out to
    /// be: `start + d` has come exactly when `start.elapsed()` reaches `d`. Comparing one with a
    /// reading converts the reading. Where both fall into one nanosecond, the sum is the earlier of
    /// the two.
    ///
    /// # Examples
    /// ```
    /// use tach::Instant;
    /// let start = Instant::now();
    /// let end = Instant::now();
    /// assert!(end >= start && start.elapsed() >= end - start);
    /// ```
    Instant reads reading::count;

    /// As [`Instant`], read so that no earlier load of this thread can pass it: for a stamp that is
    /// compared with what another thread published.
    ///
    /// # Examples
    /// ```
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use tach::OrderedInstant;
    /// let published = AtomicU64::new(OrderedInstant::now().count());
    /// // On another thread: how old is what it reads?
    /// let theirs = OrderedInstant::from_count(published.load(Ordering::Acquire));
    /// println!("{:?}", OrderedInstant::now() - theirs);
    /// ```
    OrderedInstant reads reading::ordered_count;

    /// As [`Instant`], and never less than an instant of this type that was taken before, on
    /// whatever thread: if one thread takes an instant and then lets another know in any way that
    /// synchronises (a release store that an acquire load reads, a lock, a channel), the other's
    /// next instant is not earlier. Two may be equal.
    ///
    /// # Platform notes
    /// [`Info::cross_thread_order`](crate::Info::cross_thread_order) reports what keeps the order.
    /// Where the architecture (Arm) or the kernel (Linux, by using the counter for its own time)
    /// guarantees that all cores count alike, an ordered read is enough, and threads do not disturb
    /// each other. Elsewhere every read goes through one shared word, which costs more the more
    /// threads read.
    ///
    /// # Examples
    /// ```
    /// use tach::MonotonicInstant;
    /// let before = MonotonicInstant::now();
    /// let theirs = std::thread::spawn(MonotonicInstant::now).join().unwrap();
    /// assert!(before <= theirs && theirs <= MonotonicInstant::now());
    /// ```
    MonotonicInstant reads reading::monotonic_count;
}

macro_rules! as_unordered {
    ($($name:ident)*) => {$(
        impl $name {
            /// The same moment without the guarantee; there is no way back.
            ///
            /// # Examples
            /// ```
            #[doc = concat!("let start = tach::", stringify!($name), "::now();")]
            /// assert_eq!(start.as_unordered().count(), start.count()); let elapsed =
            /// start.elapsed_unordered(); // ends in a plain read, as
            /// `start.as_unordered().elapsed()`
            /// # let _ = elapsed;
            /// ```
            #[inline]
            #[must_use]
            pub const fn as_unordered(self) -> Instant {
                Instant(self.0)
            }

            /// Time since this instant, with the end read as a plain [`Instant`]: cheaper, and the
            /// CPU may read it early.
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
    /// The current time, read before any later instruction begins: for the end of a section under
    /// measurement, so that what follows does not leak into it.
    ///
    /// # Examples
    /// ```
    /// use tach::OrderedInstant;
    /// let start = OrderedInstant::now();
    /// let sum = std::hint::black_box((0..100_u64).sum::<u64>());
    /// println!("{sum} took {:?}", OrderedInstant::now_fenced() - start);
    /// ```
    #[inline]
    #[must_use]
    pub fn now_fenced() -> Self {
        Self(reading::fenced_count())
    }
}
