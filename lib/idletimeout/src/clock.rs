//! Where a touch takes its stamp from.

use std::time::Duration;

/// A clock for stamps that are only ever asked how long ago they were.
pub trait Clock {
    /// One reading.
    type Stamp: Copy;

    /// Reads the clock; this is all that a touch costs.
    fn now(&self) -> Self::Stamp;

    /// Time since `stamp`; zero if that lies ahead.
    fn elapsed(&self, stamp: Self::Stamp) -> Duration;

    /// What [`elapsed`](Self::elapsed) may be too large by, against tokio's clock. Asked only when the timer has run out.
    fn error_bound(&self) -> Duration;
}

/// The CPU counter, through [`tach::Instant`]; the operating system's clock where the counter cannot be trusted.
///
/// It does not follow a paused runtime.
#[derive(Clone, Copy, Debug, Default)]
pub struct TachClock;

/// A counter may be read before earlier instructions of its thread have completed: by no more than what a CPU holds in
/// flight, some hundreds of instructions.
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
        Duration::from_nanos(tach::info().error_bound_ns) + IN_FLIGHT
    }
}

/// Tokio's own clock, which a runtime under test may pause and advance.
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
