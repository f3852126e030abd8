//! The clocks that a touch can read.

use std::time::Duration;

/// A clock for stamps that only measure how long ago they were taken.
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
pub trait Clock {
    /// One reading.
    type Stamp: Copy;

    /// Reads the clock; a touch costs nothing more.
    fn now(&self) -> Self::Stamp;

    /// The time since `stamp`; zero if that lies in the future.
    fn elapsed(&self, stamp: Self::Stamp) -> Duration;

    /// By how much [`elapsed`](Self::elapsed) may exceed the time on tokio's clock. Called only
    /// when the timer has expired.
    fn error_bound(&self) -> Duration;
}

/// The CPU counter, through [`tach::Instant`]; the OS clock where the counter cannot be trusted.
///
/// It ignores a paused runtime.
#[derive(Clone, Copy, Debug, Default)]
pub struct TachClock;

/// A counter may be read before earlier instructions of its thread have completed, by no more than
/// a CPU has in flight: some hundreds of instructions.
const IN_FLIGHT: Duration = Duration::from_micros(1);

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
        Duration::from_nanos(tach::error_bound_ns()) + IN_FLIGHT
    }
}

/// Tokio's own clock, which a test may pause and advance.
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
