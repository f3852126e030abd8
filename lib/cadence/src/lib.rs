//! Computes when the next tick of a periodic timer is due, as a pure function.
//!
//! Everything here is arithmetic on [`Duration`]s: no clock is read and nothing is allocated, so a
//! policy can be tested without waiting. Each [`MissedTickBehavior`] means the same as in
//! `tokio::time::MissedTickBehavior`, including the tolerance.
//!
//! ```
//! use std::time::Duration;
//! use cadence::{DEFAULT_TOLERANCE, MissedTickBehavior, next};
//!
//! let period = Duration::from_millis(50);
//! // Observed 120 ms after its deadline: Skip continues at the next multiple of the period.
//! let step = next(MissedTickBehavior::Skip, Duration::from_millis(120), period, DEFAULT_TOLERANCE);
//! assert_eq!((step.after, step.missed), (Duration::from_millis(150), true));
//! ```
#![no_std]
#![forbid(unsafe_code)]

use core::time::Duration;

/// How late a tick must be observed to count as missed: 5 ms, as in `tokio::time::Interval`.
pub const DEFAULT_TOLERANCE: Duration = Duration::from_millis(5);

/// The policy of an interval for missed ticks. A tick is missed if it is observed late by more than
/// the tolerance.
///
/// With a period of 50 ms, a task that stalls for 120 ms after its first tick gets its further
/// ticks at these times (in ms after the first):
///
/// | | | | | | | |
/// |---|---|---|---|---|---|---|
/// | expected | 50 | 100 | 150 | 200 | 250 | 300 |
/// | `Burst` | 120 | 120 | 150 | 200 | 250 | 300 |
/// | `Delay` | 120 | 170 | 220 | 270 | 320 | 370 |
/// | `Skip`  | 120 | 150 | 200 | 250 | 300 | 350 |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MissedTickBehavior {
    /// Ticks as fast as possible until the interval has caught up. The schedule never slips. Every
    /// tick is delivered, and the missed ones are late.
    #[default]
    Burst,
    /// Ticks again one period after the late tick was observed. The schedule slips.
    Delay,
    /// Ticks again at the next multiple of the period after the start. The schedule never slips,
    /// and the ticks in between are never delivered.
    Skip,
}

#[cfg(feature = "tokio")]
impl From<tokio::time::MissedTickBehavior> for MissedTickBehavior {
    fn from(behavior: tokio::time::MissedTickBehavior) -> Self {
        match behavior {
            tokio::time::MissedTickBehavior::Burst => Self::Burst,
            tokio::time::MissedTickBehavior::Delay => Self::Delay,
            tokio::time::MissedTickBehavior::Skip => Self::Skip,
        }
    }
}

#[cfg(feature = "tokio")]
impl From<MissedTickBehavior> for tokio::time::MissedTickBehavior {
    fn from(behavior: MissedTickBehavior) -> Self {
        match behavior {
            MissedTickBehavior::Burst => Self::Burst,
            MissedTickBehavior::Delay => Self::Delay,
            MissedTickBehavior::Skip => Self::Skip,
        }
    }
}

/// The step from one deadline to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    /// The time from the old deadline to the new one. Saturates at [`Duration::MAX`].
    pub after: Duration,
    /// Whether the tick was late by more than the tolerance, so that the behaviour applied.
    pub missed: bool,
}

/// Returns the step from the deadline of a tick to the next deadline.
///
/// `late` is the time from the deadline until the tick was observed. The behaviour applies only if
/// that exceeds `tolerance`. Otherwise the next deadline is one `period` later, so the ordinary
/// lateness of a wake-up neither shifts nor skips any tick.
///
/// # Panics
/// Panics if `period` is zero.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use cadence::{MissedTickBehavior, next};
///
/// let ms = Duration::from_millis;
/// // A period of 10 ms, a tick 12 ms late, no tolerance.
/// let after = |behavior| next(behavior, ms(12), ms(10), Duration::ZERO).after;
/// assert_eq!(after(MissedTickBehavior::Burst), ms(10)); // due already
/// assert_eq!(after(MissedTickBehavior::Delay), ms(22)); // a period from now
/// assert_eq!(after(MissedTickBehavior::Skip), ms(20)); // the next multiple
/// // Within the tolerance nothing is missed.
/// assert!(!next(MissedTickBehavior::Skip, ms(3), ms(10), ms(5)).missed);
/// ```
#[must_use]
#[inline]
pub fn next(
    behavior: MissedTickBehavior,
    late: Duration,
    period: Duration,
    tolerance: Duration,
) -> Step {
    assert!(!period.is_zero(), "invalid period: expected more than zero");
    if late <= tolerance {
        return Step { after: period, missed: false };
    }
    let after = match behavior {
        MissedTickBehavior::Burst => period,
        MissedTickBehavior::Delay => late.saturating_add(period),
        MissedTickBehavior::Skip => {
            // The next deadline is after the observation. If that is at an exact multiple of the
            // period, the next deadline is a whole period later.
            let since_multiple = remainder(late, period);
            (late - since_multiple).saturating_add(period)
        }
    };
    Step { after, missed: true }
}

/// Returns `a` modulo `b`, which is exact for every pair of durations.
fn remainder(a: Duration, b: Duration) -> Duration {
    const NANOS_PER_SEC: u128 = 1_000_000_000;
    let rest = a.as_nanos() % b.as_nanos();
    // The remainder is less than `a`, so its seconds fit into a `u64` as those of `a` do.
    Duration::new((rest / NANOS_PER_SEC) as u64, (rest % NANOS_PER_SEC) as u32)
}

// Compiles the programs of the README as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn after(behavior: MissedTickBehavior, late: Duration, period: Duration) -> Duration {
        next(behavior, late, period, DEFAULT_TOLERANCE).after
    }

    #[test]
    fn ticks_within_tolerance_keep_the_grid() {
        for behavior in
            [MissedTickBehavior::Burst, MissedTickBehavior::Delay, MissedTickBehavior::Skip]
        {
            for late in [Duration::ZERO, MS(1), MS(5)] {
                assert_eq!(
                    next(behavior, late, MS(2), MS(5)),
                    Step { after: MS(2), missed: false }
                );
            }
            assert!(next(behavior, MS(5) + Duration::from_nanos(1), MS(2), MS(5)).missed);
        }
    }

    #[test]
    fn stall_applies_each_behaviour() {
        assert_eq!(after(MissedTickBehavior::Burst, MS(120), MS(50)), MS(50));
        assert_eq!(after(MissedTickBehavior::Delay, MS(120), MS(50)), MS(170));
        assert_eq!(after(MissedTickBehavior::Skip, MS(120), MS(50)), MS(150));
    }

    #[test]
    fn skip_at_exact_multiple_waits_period() {
        assert_eq!(after(MissedTickBehavior::Skip, MS(100), MS(50)), MS(150));
    }

    #[test]
    fn longest_durations_saturate() {
        for behavior in
            [MissedTickBehavior::Burst, MissedTickBehavior::Delay, MissedTickBehavior::Skip]
        {
            assert!(next(behavior, Duration::MAX, Duration::MAX, Duration::ZERO).after > MS(1));
        }
        assert_eq!(after(MissedTickBehavior::Delay, Duration::MAX, MS(1)), Duration::MAX);
        let late = Duration::from_secs(u64::MAX / 2);
        let period = Duration::from_nanos(7);
        let skipped = after(MissedTickBehavior::Skip, late, period);
        assert!(skipped > late && skipped <= late + period && skipped.as_nanos().is_multiple_of(7));
    }

    #[test]
    #[should_panic(expected = "invalid period")]
    fn zero_period_panics() {
        let _ = next(MissedTickBehavior::Burst, Duration::ZERO, Duration::ZERO, Duration::ZERO);
    }
}
