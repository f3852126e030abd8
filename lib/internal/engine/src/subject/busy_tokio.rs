//! Tickers of a tokio runtime that never parks.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::task::{AbortHandle, yield_now};
use tokio::time;

use crate::subject::ticker::{Schedule, Subject, Ticker, poll_wait_of_interval};

/// A task that reads the clock and yields until the deadline, which keeps tokio from parking.
///
/// tokio polls a task in `yield_now` again after checking for I/O and timers without blocking, so
/// each reading of the clock costs one system call and one check of the wheel. The deadline is not
/// registered with the wheel and is not rounded to its milliseconds. Other tasks of the runtime run
/// as usual.
pub struct Yielding(Schedule);

impl Subject for Yielding {
    const PARKS_UNTIL_DUE: bool = false;
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
        // The first poll only requests another turn.
        pin!(yield_now()).poll(cx).map(Ok)
    }

    fn backend(&self) -> String {
        "clock, read between yields".to_owned()
    }
}

/// tokio's interval on a runtime that another task, which only yields, keeps from parking.
///
/// This avoids the time to fall asleep and to wake up. Deadlines are still rounded up to the next
/// millisecond of the wheel.
pub struct IntervalWithYieldingTask {
    interval: time::Interval,
    yielding_task: AbortHandle,
}

impl Subject for IntervalWithYieldingTask {
    const PARKS_UNTIL_DUE: bool = false;
    type Ticker = Self;

    fn ticker(schedule: Schedule) -> io::Result<Self> {
        let yielding_task = tokio::spawn(async {
            loop {
                yield_now().await;
            }
        });
        let interval = time::interval_at(schedule.start.into(), schedule.period);
        Ok(Self { interval, yielding_task: yielding_task.abort_handle() })
    }
}

impl Ticker for IntervalWithYieldingTask {
    poll_wait_of_interval!(interval, time::Instant);

    fn backend(&self) -> String {
        "tokio timer wheel, never parked".to_owned()
    }
}

impl Drop for IntervalWithYieldingTask {
    fn drop(&mut self) {
        self.yielding_task.abort();
    }
}
