//! The sleeps and timeouts that a subject creates for each tick.

use std::future::{Future, Pending, pending};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use crate::subject::ticker::{Delivered, Schedule, Subject, Ticker};
use crate::subject::tokio_timers::WHEEL;

/// A future that is ready at its deadline. The output is ignored.
pub trait OneDeadline: Future + Sized + 'static {
    fn until(deadline: Instant) -> Self;

    /// Names the timer behind the futures, and creates it if it does not exist.
    fn timer_name(schedule: Schedule) -> String;
}

impl OneDeadline for osinterval::Sleep {
    #[inline]
    fn until(deadline: Instant) -> Self {
        osinterval::sleep_until(deadline.into())
    }

    fn timer_name(schedule: Schedule) -> String {
        // The first sleep creates the shared timer. Create it here, not during the first tick.
        format!("{}, shared", osinterval::sleep_until(schedule.start.into()).backend())
    }
}

/// A timeout of a future that never ends.
impl OneDeadline for osinterval::Timeout<Pending<()>> {
    #[inline]
    fn until(deadline: Instant) -> Self {
        osinterval::timeout_at(deadline.into(), pending())
    }

    fn timer_name(schedule: Schedule) -> String {
        osinterval::Sleep::timer_name(schedule)
    }
}

impl OneDeadline for tokio::time::Sleep {
    #[inline]
    fn until(deadline: Instant) -> Self {
        tokio::time::sleep_until(deadline.into())
    }

    fn timer_name(_: Schedule) -> String {
        WHEEL.to_owned()
    }
}

/// A timeout of a future that never ends.
impl OneDeadline for tokio::time::Timeout<Pending<()>> {
    #[inline]
    fn until(deadline: Instant) -> Self {
        tokio::time::timeout_at(deadline.into(), pending())
    }

    fn timer_name(_: Schedule) -> String {
        WHEEL.to_owned()
    }
}

pin_project_lite::pin_project! {
    /// A new future for each tick.
    pub struct PerTick<F> {
        schedule: Schedule,
        #[pin]
        timer: Option<F>,
        backend: String,
    }
}

impl<F: OneDeadline> Subject for PerTick<F> {
    type Ticker = Self;

    fn ticker(schedule: Schedule) -> io::Result<Self> {
        Ok(Self { schedule, timer: None, backend: F::timer_name(schedule) })
    }
}

impl<F: OneDeadline> Ticker for PerTick<F> {
    type Event = ();

    #[inline]
    fn begin(self: Pin<&mut Self>, next: u64) {
        let mut this = self.project();
        this.timer.set(Some(F::until(this.schedule.deadline(next))));
    }

    #[inline]
    fn poll_wait(self: Pin<&mut Self>, _: u64, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let timer = self.project().timer.as_pin_mut();
        timer.expect("begin was called").poll(cx).map(|_| Ok(()))
    }

    #[inline]
    fn delivered(self: Pin<&mut Self>, (): (), next: u64) -> Delivered {
        self.project().timer.set(None);
        Delivered { tick: next, expirations: 1 }
    }

    fn backend(&self) -> String {
        self.backend.clone()
    }
}
