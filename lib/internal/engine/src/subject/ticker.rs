//! Interface between the measuring loop and a subject, which creates a [`Ticker`] for a
//! [`Schedule`].

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use files::report::Change;

/// The grid of deadlines of a ticker: tick k is due at `start + k * period`.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// Deadline of tick 0.
    pub start: Instant,
    /// Spacing of the deadlines.
    pub period: Duration,
}

impl Schedule {
    /// Returns the deadline of tick `k`. Rounding errors do not accumulate.
    #[inline]
    pub fn deadline(&self, k: u64) -> Instant {
        let after_ns = self.period.as_nanos() * u128::from(k);
        self.start + Duration::from_nanos(u64::try_from(after_ns).unwrap_or(u64::MAX / 2))
    }

    /// Returns the index of the tick that is due at `deadline`.
    #[inline]
    pub fn index(&self, deadline: Instant) -> u64 {
        let after = deadline.saturating_duration_since(self.start).as_nanos();
        let period = self.period.as_nanos();
        u64::try_from((after + period / 2) / period).unwrap_or(u64::MAX)
    }
}

/// The ticks of the grid that a wake-up delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// Index of the last tick.
    pub tick: u64,
    /// Number of ticks, the last of which is `tick`.
    pub expirations: u64,
}

/// A periodic timer under test.
pub trait Ticker: 'static {
    /// Result of a wait. It is converted to a [`Delivered`] after the time stamp.
    type Event;

    /// Prepares the wait for tick `next`. Called once, before the first poll.
    #[inline]
    fn begin(self: Pin<&mut Self>, _next: u64) {}

    /// Polls for tick `next`. The ticker of a bare thread blocks in this function.
    ///
    /// The ticker is pinned for the whole round, so it can contain a timer. This is a poll function
    /// and not a future, so that the loop is `Send` if and only if the ticker is: only some of the
    /// runtimes require it.
    fn poll_wait(
        self: Pin<&mut Self>,
        next: u64,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Self::Event>>;

    /// Returns the ticks that an event delivers. By default this is tick `next` alone.
    #[inline]
    fn delivered(self: Pin<&mut Self>, _event: Self::Event, next: u64) -> Delivered {
        Delivered { tick: next, expirations: 1 }
    }

    /// Returns the name of the timer that produces the ticks.
    fn backend(&self) -> String;

    /// Returns the change of a setting since this ticker applied it to its thread.
    fn setting_change(&self) -> Option<Change> {
        None
    }
}

/// Defines [`Ticker::Event`] and [`Ticker::poll_wait`] by the field `$interval`, an interval whose
/// `poll_tick` returns a `$tick`.
macro_rules! poll_wait_of_interval {
    ($interval:tt, $tick:ty) => {
        type Event = $tick;

        #[inline]
        fn poll_wait(
            mut self: std::pin::Pin<&mut Self>,
            _: u64,
            cx: &mut std::task::Context<'_>,
        ) -> std::task::Poll<std::io::Result<$tick>> {
            self.$interval.poll_tick(cx).map(Ok)
        }
    };
}
pub(super) use poll_wait_of_interval;

/// A kind of ticker, chosen by name.
pub trait Subject: 'static {
    /// Whether the runtime parks until the tick is due, so that the end of the park is part of the
    /// path of the tick.
    const PARKS_UNTIL_DUE: bool = true;
    type Ticker: Ticker;

    /// Creates a ticker inside the runtime on which it will run.
    fn ticker(schedule: Schedule) -> io::Result<Self::Ticker>;

    /// Returns a function that creates the tickers of a round, which tick concurrently. Subjects
    /// whose tickers share state override this.
    fn ticker_factory() -> io::Result<impl Fn(Schedule) -> io::Result<Self::Ticker>> {
        Ok(Self::ticker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_inverts_deadline() {
        #[allow(clippy::disallowed_methods, reason = "any instant will do")]
        let schedule = Schedule { start: Instant::now(), period: Duration::from_nanos(333_333) };
        for k in [0, 1, 2, 999, 10_000_000] {
            assert_eq!(schedule.index(schedule.deadline(k)), k);
            assert_eq!(schedule.deadline(k) - schedule.start, Duration::from_nanos(333_333 * k));
        }
    }
}
