//! The sleeps and timeouts of `osinterval`, which share one timer per runtime.

use std::future::{Future, Pending, pending};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use osinterval::{Sleep, Timeout};

use crate::subject::ticker::{Delivered, Schedule, Subject, Ticker};

/// A future of `osinterval` that is ready at its deadline. The output is ignored.
pub trait OneDeadline: Future + Unpin + Sized + 'static {
    fn until(deadline: std::time::Instant) -> Self;
}

impl OneDeadline for Sleep {
    fn until(deadline: std::time::Instant) -> Self {
        osinterval::sleep_until(deadline.into())
    }
}

/// A timeout of a future that never ends.
impl OneDeadline for Timeout<Pending<()>> {
    fn until(deadline: std::time::Instant) -> Self {
        osinterval::timeout_at(deadline.into(), pending())
    }
}

/// A new future for each tick.
pub struct PerTick<F> {
    schedule: Schedule,
    timer: Option<F>,
    backend: String,
}

impl<F: OneDeadline> Subject for PerTick<F>
where
    Self: Ticker,
{
    type Ticker = Self;

    fn ticker(schedule: Schedule) -> io::Result<Self> {
        // The first sleep creates the shared timer. Create it here, not during the first tick.
        let backend =
            format!("{}, shared", osinterval::sleep_until(schedule.start.into()).backend());
        Ok(Self { schedule, timer: None, backend })
    }
}

impl<F: OneDeadline> Ticker for PerTick<F> {
    type Event = ();

    #[inline]
    fn begin(mut self: Pin<&mut Self>, next: u64) {
        let deadline = self.schedule.deadline(next);
        self.timer = Some(F::until(deadline));
    }

    #[inline]
    fn poll_wait(mut self: Pin<&mut Self>, _: u64, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let timer = self.timer.as_mut().expect("begin was called");
        Pin::new(timer).poll(cx).map(|_| Ok(()))
    }

    #[inline]
    fn delivered(mut self: Pin<&mut Self>, (): (), next: u64) -> Delivered {
        self.timer = None;
        Delivered { tick: next, expirations: 1 }
    }

    fn backend(&self) -> String {
        self.backend.clone()
    }
}
