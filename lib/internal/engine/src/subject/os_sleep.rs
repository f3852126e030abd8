//! Our own sleeps and timeouts, over the runtime's shared timer.

use std::future::{Future, Pending, pending};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use osinterval::{Sleep, Timeout};

use crate::subject::ticker::{Delivered, Schedule, Subject, Ticker};

/// A future of ours that ends at its deadline, whatever it says then.
pub trait OneDeadline: Future + Unpin + Sized + 'static {
    fn at(deadline: std::time::Instant) -> Self;
}

impl OneDeadline for Sleep {
    fn at(deadline: std::time::Instant) -> Self {
        osinterval::sleep_until(deadline.into())
    }
}

/// Around a future that never ends.
impl OneDeadline for Timeout<Pending<()>> {
    fn at(deadline: std::time::Instant) -> Self {
        osinterval::timeout_at(deadline.into(), pending())
    }
}

/// One made for each tick.
pub struct PerTick<F> {
    schedule: Schedule,
    waiting: Option<F>,
    backend: String,
}

impl<F: OneDeadline> Subject for PerTick<F>
where
    Self: Ticker,
{
    type Ticker = Self;

    fn ticker(schedule: Schedule) -> io::Result<Self> {
        // The timer is made with the first of them: not within the first tick.
        let backend =
            format!("{}, shared", osinterval::sleep_until(schedule.start.into()).backend());
        Ok(Self { schedule, waiting: None, backend })
    }
}

impl<F: OneDeadline> Ticker for PerTick<F> {
    type Event = ();

    #[inline]
    fn begin(mut self: Pin<&mut Self>, next: u64) {
        let deadline = self.schedule.deadline(next);
        self.waiting = Some(F::at(deadline));
    }

    #[inline]
    fn poll_wait(mut self: Pin<&mut Self>, _: u64, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let waiting = self.waiting.as_mut().expect("begun");
        Pin::new(waiting).poll(cx).map(|_| Ok(()))
    }

    #[inline]
    fn delivered(mut self: Pin<&mut Self>, (): (), next: u64) -> Delivered {
        self.waiting = None;
        Delivered { tick: next, expirations: 1 }
    }

    fn backend(&self) -> String {
        self.backend.clone()
    }
}
