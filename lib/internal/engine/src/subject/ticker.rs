//! What a subject is to the measuring loop: something that makes a [`Ticker`] for a [`Schedule`].

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// The grid a ticker is to follow: tick k is due at `start + k * period`.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// Deadline of tick 0.
    pub start: Instant,
    /// Spacing of the deadlines.
    pub period: Duration,
}

impl Schedule {
    /// Deadline of tick `k`: one multiplication from the start, so that no rounding adds up.
    #[inline]
    pub fn deadline(&self, k: u64) -> Instant {
        let after_ns = self.period.as_nanos() * u128::from(k);
        self.start + Duration::from_nanos(u64::try_from(after_ns).unwrap_or(u64::MAX / 2))
    }

    /// The index whose deadline is `deadline`.
    #[inline]
    pub fn index(&self, deadline: Instant) -> u64 {
        let after = deadline.saturating_duration_since(self.start).as_nanos();
        let period = self.period.as_nanos();
        u64::try_from((after + period / 2) / period).unwrap_or(u64::MAX)
    }
}

/// Which ticks of the grid a wake-up stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// The last of them.
    pub tick: u64,
    /// How many, ending with `tick`.
    pub expirations: u64,
}

/// What a thread waits by until a tick is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitKind {
    /// A timer of the kernel, which has no slack.
    Timer,
    /// A timeout of the kernel, to the millisecond after a wheel of milliseconds.
    Wheel,
    /// A sleep of the kernel.
    Sleep,
    /// Nothing: it looks at the clock.
    Spins,
}

pub trait Ticker: 'static {
    /// What a wait returns; turned into a [`Delivered`] only after the stamp.
    type Event;

    /// Prepares the wait for tick `next`: what is not to be done again at each poll.
    #[inline]
    fn begin(self: Pin<&mut Self>, _next: u64) {}

    /// Polls for tick `next`. A bare thread's ticker blocks in here. The ticker is pinned for its
    /// whole round, so that a timer may live inside it. A poll and no future: whether the loop
    /// around it is `Send` then depends on the ticker alone, and the runtimes that ask for it are
    /// not the only ones.
    fn poll_wait(
        self: Pin<&mut Self>,
        next: u64,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Self::Event>>;

    /// Which ticks the event stands for: `next` alone, unless the ticker knows better.
    #[inline]
    fn delivered(self: Pin<&mut Self>, _event: Self::Event, next: u64) -> Delivered {
        Delivered { tick: next, expirations: 1 }
    }

    /// What the ticks come from.
    fn backend(&self) -> String;
}

/// A kind of ticker, chosen by name.
pub trait Subject: 'static {
    /// Whether its runtime parks until the tick is due, so that the end of the park has to do with
    /// the tick.
    const PARKS_UNTIL_DUE: bool = true;
    /// What its thread waits by.
    const WAIT_KIND: WaitKind = WaitKind::Timer;
    type Ticker: Ticker;

    /// Makes a fresh ticker, inside the runtime it will run on.
    fn ticker(schedule: Schedule) -> io::Result<Self::Ticker>;

    /// Makes several that tick at once; those that share something override it.
    fn tickers(schedules: &[Schedule]) -> io::Result<Vec<Self::Ticker>> {
        schedules.iter().map(|schedule| Self::ticker(*schedule)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_is_its_own_inverse_and_never_slips() {
        #[allow(clippy::disallowed_methods, reason = "any instant will do")]
        let schedule = Schedule { start: Instant::now(), period: Duration::from_nanos(333_333) };
        for k in [0, 1, 2, 999, 10_000_000] {
            assert_eq!(schedule.index(schedule.deadline(k)), k);
            assert_eq!(schedule.deadline(k) - schedule.start, Duration::from_nanos(333_333 * k));
        }
    }
}
