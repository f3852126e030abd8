//! Tickers of a tokio runtime that is kept from sleeping.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::task::{AbortHandle, yield_now};
use tokio::time;

use crate::subject::ticker::{Schedule, Subject, Ticker, WaitKind};

/// tokio kept from parking by the task that waits: it reads the clock and yields, until the
/// deadline is reached.
///
/// A task in `yield_now` is run again after tokio has looked for I/O and timers without waiting for
/// any, so the worker goes round and round: one system call and one look at the wheel for each
/// reading of the clock. The deadline is never given to the wheel, whose milliseconds have no part
/// in it. Other tasks of the runtime go on as usual.
pub struct Yielding(Schedule);

impl Subject for Yielding {
    const PARKS_UNTIL_DUE: bool = false;
    const WAIT_KIND: WaitKind = WaitKind::Spins;
    type Ticker = Self;

    fn ticker(schedule: Schedule) -> io::Result<Self> {
        Ok(Self(schedule))
    }
}

impl Ticker for Yielding {
    type Event = ();

    #[allow(clippy::disallowed_methods, reason = "this workaround is a loop over the clock")]
    #[inline]
    fn poll_wait(self: Pin<&mut Self>, next: u64, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if Instant::now() >= self.0.deadline(next) {
            return Poll::Ready(Ok(()));
        }
        // Its first poll asks for the next turn; there is nothing else in it.
        pin!(yield_now()).poll(cx).map(Ok)
    }

    fn backend(&self) -> String {
        "clock, read between yields".to_owned()
    }
}

/// tokio's interval, with the runtime kept from parking by another task that does nothing but
/// yield.
///
/// What that saves is falling asleep and waking up; a deadline is still rounded up to the wheel's
/// next millisecond.
pub struct IntervalBesideYielding {
    interval: time::Interval,
    yielding: AbortHandle,
}

impl Subject for IntervalBesideYielding {
    const PARKS_UNTIL_DUE: bool = false;
    const WAIT_KIND: WaitKind = WaitKind::Spins;
    type Ticker = Self;

    fn ticker(schedule: Schedule) -> io::Result<Self> {
        let yielding = tokio::spawn(async {
            loop {
                yield_now().await;
            }
        });
        let interval = time::interval_at(schedule.start.into(), schedule.period);
        Ok(Self { interval, yielding: yielding.abort_handle() })
    }
}

impl Ticker for IntervalBesideYielding {
    type Event = time::Instant;

    #[inline]
    fn poll_wait(
        mut self: Pin<&mut Self>,
        _: u64,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<time::Instant>> {
        self.interval.poll_tick(cx).map(Ok)
    }

    fn backend(&self) -> String {
        "tokio timer wheel, never parked".to_owned()
    }
}

impl Drop for IntervalBesideYielding {
    fn drop(&mut self) {
        self.yielding.abort();
    }
}
