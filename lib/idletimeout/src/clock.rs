//! The clocks from which an idle timeout takes its stamps.

use std::time::{Duration, Instant};

/// A clock whose stamps measure the time since they were taken, and nothing else.
///
/// # Examples
/// ```
/// use std::time::{Duration, Instant};
///
/// /// The standard library's clock.
/// struct StdClock;
///
/// impl idletimeout::Clock for StdClock {
///     type Stamp = Instant;
///     fn now(&self) -> Instant {
///         Instant::now()
///     }
///     fn elapsed(&self, stamp: Instant) -> Duration {
///         stamp.elapsed()
///     }
///     fn error_bound(&self) -> Duration {
///         Duration::ZERO // tokio reads the same clock
///     }
/// }
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let idle = idletimeout::IdleTimeout::with_clock(Duration::from_secs(1), StdClock);
/// # drop(idle) });
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a clock for an idle timeout",
    label = "expected `TachClock`, `TokioClock` or another type that implements `idletimeout::Clock`",
    note = "`IdleTimeout::new` reads the CPU counter; `with_clock(length, TokioClock)` reads tokio's clock"
)]
pub trait Clock {
    /// A reading of the clock.
    type Stamp: Copy;

    /// Reads the clock. This is the whole cost of a touch.
    fn now(&self) -> Self::Stamp;

    /// Returns the time since `stamp`; zero if it is in the future.
    fn elapsed(&self, stamp: Self::Stamp) -> Duration;

    /// Returns the time by which [`elapsed`](Self::elapsed) may exceed the time on tokio's clock.
    /// It is called only when the timer has expired.
    fn error_bound(&self) -> Duration;

    /// Returns whether the timeout measures with tokio's clock instead, while a test has paused or
    /// shifted that; false unless overridden.
    fn yields_to_paused_clock(&self) -> bool {
        false
    }
}

/// The CPU counter, through [`tach::Instant`]. If the counter cannot be trusted, this is the OS
/// clock.
///
/// While a test has paused tokio's clock, the timeout measures with that instead.
#[derive(Clone, Copy, Debug, Default)]
pub struct TachClock;

/// The maximum time by which the counter is read before earlier instructions of its thread have
/// completed. A CPU has some hundreds of instructions in flight.
const MAX_EARLY_READ: Duration = Duration::from_micros(1);

impl Clock for TachClock {
    type Stamp = tach::Instant;

    #[inline]
    fn now(&self) -> tach::Instant {
        tach::Instant::now()
    }

    fn elapsed(&self, stamp: tach::Instant) -> Duration {
        stamp.elapsed()
    }

    fn error_bound(&self) -> Duration {
        Duration::from_nanos(tach::error_bound_ns()) + MAX_EARLY_READ
    }

    fn yields_to_paused_clock(&self) -> bool {
        true
    }
}

/// Tokio's clock, which a test may pause and advance.
/// [`IdleTimeout::with_clock`](crate::IdleTimeout::with_clock) has an example.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokioClock;

impl Clock for TokioClock {
    type Stamp = tokio::time::Instant;

    #[inline]
    fn now(&self) -> tokio::time::Instant {
        tokio::time::Instant::now()
    }

    fn elapsed(&self, stamp: tokio::time::Instant) -> Duration {
        stamp.elapsed()
    }

    fn error_bound(&self) -> Duration {
        Duration::ZERO
    }
}

/// Returns whether tokio's clock is not the real one: it is paused, or was at some time.
pub(crate) fn is_tokio_clock_shifted() -> bool {
    differs_from(real_now, || tokio::time::Instant::now().into_std())
}

/// Returns whether a clock is not the real one: a reading of it is not between two readings of
/// that.
///
/// A thread can lose its CPU between the two. A paused clock that is ahead by less than this pause
/// then seems to be the real one, so readings that are far apart are repeated.
fn differs_from(real: impl Fn() -> Instant, clock: impl Fn() -> Instant) -> bool {
    const MAX_READINGS: usize = 16;
    const MAX_BRACKET: Duration = Duration::from_micros(10);
    for _ in 0..MAX_READINGS {
        let before = real();
        let time = clock();
        let after = real();
        if time < before || time > after {
            return true;
        }
        if after - before <= MAX_BRACKET {
            break;
        }
    }
    false
}

#[allow(clippy::disallowed_methods, reason = "tokio's clock is compared with the real one")]
fn real_now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn pause_between_readings_hides_no_shift() {
        const READINGS_US: [u64; 4] = [0, 4_000, 4_001, 4_002];
        let (start, read) = (real_now(), Cell::new(0));
        let real = || {
            let us = READINGS_US[read.replace(read.get() + 1)];
            start + Duration::from_micros(us)
        };
        let ahead = start + Duration::from_millis(1);
        assert!(differs_from(real, || ahead));
        assert!(!differs_from(|| ahead, || ahead));
    }
}
