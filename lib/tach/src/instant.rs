//! The three instant types: [`Instant`], [`OrderedInstant`] and [`MonotonicInstant`].

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

use crate::os::OsInstant;
use crate::reading::{self, MAX_COUNT};
use crate::repr;

/// Takes an anchor now and continues the line towards it: from now on, time runs at the rate
/// between the last anchors. Earlier conversions do not change. The call costs ten to twenty
/// microseconds.
///
/// Most programs need not call it, since conversions take anchors as the process grows older. Call
/// it if you want them more often, because the temperature (and so the rate) changes within the
/// hour, or if you want to choose the time.
///
/// Returns false if nothing was done. There are three reasons for that:
///
/// - The last anchor is so recent, relative to the age of the process, that another would not
///   improve the rate.
/// - The thread was delayed in the middle of the call.
/// - Counts come from the OS clock.
///
/// # Examples
/// ```
/// let start = tach::Instant::now();
/// tach::recalibrate(); // e.g. before the busy hours
/// assert!(start.elapsed() < std::time::Duration::from_secs(60));
/// ```
#[allow(clippy::must_use_candidate, reason = "the effect is the point of the call")]
pub fn recalibrate() -> bool {
    reading::recalibrate()
}

/// Sets the interval at which the background thread calls [`recalibrate`], at least a millisecond.
///
/// The first reading of a counter in the process starts the thread, with
/// [`DEFAULT_RECALIBRATION_INTERVAL`](crate::DEFAULT_RECALIBRATION_INTERVAL). A call takes effect immediately. An interval of zero ends the
/// thread; before the first reading, it prevents the start. A later call starts the thread again,
/// for example in the child of a fork, which has no thread.
///
/// # Errors
/// Returns an error if the thread cannot be started.
///
/// # Examples
/// ```
/// tach::set_recalibration_interval(tach::DEFAULT_RECALIBRATION_INTERVAL)?;
/// tach::set_recalibration_interval(std::time::Duration::ZERO)?; // ends the thread
/// # std::io::Result::Ok(())
/// ```
#[cfg(feature = "recalibrate-background")]
pub fn set_recalibration_interval(interval: Duration) -> std::io::Result<()> {
    crate::background::set_interval(interval, recalibrate)
}

macro_rules! instants {
    ($($(#[$meta:meta])* $name:ident reads $read:path;)*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name(u64);

        impl $name {
            /// Returns the current time.
            #[inline]
            #[must_use]
            pub fn now() -> Self {
                Self($read())
            }

            /// Creates an instant from a raw count, such as [`count`](crate::count) returns. A
            /// count of 2⁶³ or more, which no counter reaches, is reduced to the largest below.
            ///
            /// # Examples
            /// ```
            #[doc = concat!("let now = tach::", stringify!($name), "::now();")]
            #[doc = concat!("assert_eq!(tach::", stringify!($name), "::from_count(now.count()), now);")]
            /// ```
            #[inline]
            #[must_use]
            pub const fn from_count(count: u64) -> Self {
                Self(if count > MAX_COUNT { MAX_COUNT } else { count })
            }

            /// Returns the raw count. There are [`Info::rate_hz`](crate::Info::rate_hz) counts per
            /// second. For a sum or a difference it is the count at that time, which is an estimate
            /// while the time is in the future.
            #[inline]
            #[must_use]
            pub fn count(self) -> u64 {
                repr::to_count(self.0)
            }

            /// Returns the time since this instant; zero if it is in the future.
            #[inline]
            #[must_use]
            pub fn elapsed(&self) -> Duration {
                repr::elapsed(self.0, $read)
            }

            /// Returns the time from `earlier` to this instant; zero if `earlier` is later.
            #[inline]
            #[must_use]
            pub fn duration_since(&self, earlier: Self) -> Duration {
                repr::duration_between(earlier.0, self.0)
            }

            /// Returns the time from `earlier` to this instant; `None` if `earlier` is later. If
            /// one of the two is a reading and the other is a sum, `None` means later by at least
            /// a nanosecond.
            ///
            /// # Examples
            /// ```
            #[doc = concat!("let first = tach::", stringify!($name), "::now();")]
            /// let second = first + std::time::Duration::from_millis(1);
            /// assert!(second.checked_duration_since(first).is_some());
            /// assert_eq!(first.checked_duration_since(second), None);
            /// assert!(first.duration_since(second).is_zero());
            /// assert!(first.saturating_duration_since(second).is_zero());
            /// ```
            #[must_use]
            pub fn checked_duration_since(&self, earlier: Self) -> Option<Duration> {
                repr::checked_duration_between(earlier.0, self.0)
            }

            /// Equivalent to [`Self::duration_since`]; provided for compatibility with std.
            #[must_use]
            pub fn saturating_duration_since(&self, earlier: Self) -> Duration {
                self.duration_since(earlier)
            }

            /// Returns exactly this instant plus `duration`; `None` if that is more than 146 years
            /// after the first use of this crate.
            ///
            /// # Examples
            /// ```
            /// use std::time::Duration;
            #[doc = concat!("let now = tach::", stringify!($name), "::now();")]
            /// let second = Duration::from_secs(1);
            /// assert_eq!(now.checked_add(second).unwrap() - now, second);
            /// // Works even within the first second after the machine started.
            /// assert_eq!(now - now.checked_sub(second).unwrap(), second);
            /// assert_eq!(now.checked_add(Duration::MAX), None);
            /// assert_eq!(now.checked_sub(Duration::MAX), None);
            /// ```
            #[must_use]
            pub fn checked_add(&self, duration: Duration) -> Option<Self> {
                repr::checked_add(self.0, duration).map(Self)
            }

            /// Returns exactly this instant minus `duration`; `None` if that is more than 146 years
            /// before the first use of this crate. The result may be earlier than the start of the
            /// machine. [`Self::checked_add`] has an example.
            #[must_use]
            pub fn checked_sub(&self, duration: Duration) -> Option<Self> {
                repr::checked_sub(self.0, duration).map(Self)
            }

            /// Converts this instant to the OS clock, up to the error bound of
            /// [`info`](crate::info). Saturates if the OS clock cannot represent it.
            ///
            /// # Examples
            /// ```
            #[doc = concat!("let now = tach::", stringify!($name), "::now();")]
            #[doc = concat!("let there_and_back = tach::", stringify!($name), "::from_std(now.to_std());")]
            /// assert!(there_and_back.duration_since(now) < std::time::Duration::from_secs(1));
            /// ```
            #[must_use]
            pub fn to_std(self) -> OsInstant {
                repr::to_std(self.0)
            }

            /// Converts a reading of the OS clock to an instant, up to the error bound of
            /// [`info`](crate::info). Saturates 146 years from the first use of this crate.
            /// [`Self::to_std`] has an example.
            #[must_use]
            pub fn from_std(std: OsInstant) -> Self {
                Self(repr::from_std(std))
            }
        }

        impl Ord for $name {
            #[inline]
            fn cmp(&self, other: &Self) -> Ordering {
                repr::cmp(self.0, other.0)
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

            /// Equivalent to [`Self::duration_since`].
            fn sub(self, earlier: Self) -> Duration {
                self.duration_since(earlier)
            }
        }

        impl Add<Duration> for $name {
            type Output = Self;

            /// # Panics
            /// Panics if the sum is not representable; see [`Self::checked_add`].
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
            /// Panics if the difference is not representable; see [`Self::checked_sub`].
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
    /// A time on the CPU counter, with the API of [`std::time::Instant`]. It saturates in the same
    /// cases as std's.
    ///
    /// A read is one instruction, which the CPU may execute before earlier loads have completed.
    /// The conversion of a span costs nanoseconds. Occasionally, and less often as the process
    /// grows older, it takes an [`Anchor`](crate::Anchor), which costs microseconds.
    ///
    /// # Precision
    /// A span between two past instants never changes its length, and [`Instant::elapsed`] never
    /// goes back.
    ///
    /// A sum or a difference is stored in nanoseconds, so it is exact even if the rate is corrected
    /// later: `start + d` is reached exactly when `start.elapsed()` reaches `d`. To compare it with
    /// a reading, the reading is converted. If both are in the same nanosecond, the sum is earlier.
    ///
    /// # Examples
    /// ```
    /// use tach::Instant;
    /// let start = Instant::now();
    /// let end = Instant::now();
    /// assert!(end >= start && start.elapsed() >= end - start);
    /// ```
    Instant reads reading::count;

    /// An [`Instant`] whose read no earlier load of this thread can pass. Use it for a stamp that
    /// is compared with a value that another thread published.
    ///
    /// # Examples
    /// ```
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use tach::OrderedInstant;
    /// let published = AtomicU64::new(OrderedInstant::now().count());
    /// // On another thread: the age of the value that it reads.
    /// let stamp = OrderedInstant::from_count(published.load(Ordering::Acquire));
    /// println!("{:?}", OrderedInstant::now() - stamp);
    /// ```
    OrderedInstant reads reading::ordered_count;

    /// An [`Instant`] that is never less than an instant of this type that any thread has taken
    /// before. If one thread takes an instant and then synchronises with another in any way (a
    /// release store that an acquire load reads, a lock, a channel), the next instant of the other
    /// thread is not earlier. The two may be equal. The module `bias` of the source contains the proof.
    ///
    /// The read is not ordered with loads of anything else. If it must be, use [`OrderedInstant`].
    ///
    /// # Cost
    /// While all readings come from one thread, a read is the bare instruction. If another thread
    /// reads, all threads read with a fence, which costs some nanoseconds more, and do not disturb
    /// each other. A thread that is alone again returns to the bare instruction after some readings:
    /// 16 at first, and up to 65,536 if it was never alone for long. Each such change costs the
    /// threads that take part some hundred nanoseconds.
    ///
    /// # Platform notes
    /// [`Info::cross_thread_order`](crate::Info::cross_thread_order) reports how the order is kept.
    /// The above applies if the architecture (Arm) or the kernel (Linux on x86, by using the counter
    /// as its clock source) guarantees that all cores have equal counters. On other platforms every
    /// read goes through one shared word, and costs more the more threads read.
    ///
    /// # Examples
    /// ```
    /// use tach::MonotonicInstant;
    /// let before = MonotonicInstant::now();
    /// let remote = std::thread::spawn(MonotonicInstant::now).join().unwrap();
    /// assert!(before <= remote && remote <= MonotonicInstant::now());
    /// ```
    MonotonicInstant reads reading::monotonic_count;
}

impl Instant {
    /// Equivalent to the function [`recalibrate`]; provided for compatibility with tach 0.2.
    ///
    /// # Examples
    /// ```
    /// let start = tach::Instant::now();
    /// tach::Instant::recalibrate();
    /// assert!(start.elapsed() < std::time::Duration::from_secs(60));
    /// ```
    #[allow(clippy::must_use_candidate, reason = "the effect is the point of the call")]
    pub fn recalibrate() -> bool {
        recalibrate()
    }
}

macro_rules! as_unordered {
    ($($name:ident)*) => {$(
        impl $name {
            /// Converts this to a plain [`Instant`] of the same time, without the guarantee. A plain
            /// instant cannot be converted back.
            ///
            /// # Examples
            /// ```
            #[doc = concat!("let start = tach::", stringify!($name), "::now();")]
            /// assert_eq!(start.as_unordered().count(), start.count());
            /// // The end is a plain read, as in `start.as_unordered().elapsed()`.
            /// println!("{:?}", start.elapsed_unordered());
            /// ```
            #[inline]
            #[must_use]
            pub const fn as_unordered(self) -> Instant {
                Instant(self.0)
            }

            /// Returns the time since this instant, with a plain [`Instant`] as its end. This is
            /// cheaper, but the CPU may read the counter early.
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
    /// Returns the current time, read before any later instruction begins. Use it at the end of a
    /// measured section, so that later code does not leak into the section.
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
