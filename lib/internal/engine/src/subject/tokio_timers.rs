//! The timers of tokio that serve many ticks.

use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::time;

use crate::subject::behaviour::Behaviour;
use crate::subject::ticker::{Delivered, Schedule, Subject, Ticker, poll_wait_of_interval};

pub(super) const WHEEL: &str = "tokio timer wheel";

/// `tokio::time::Interval`.
pub struct Interval<B> {
    schedule: Schedule,
    interval: time::Interval,
    behaviour: PhantomData<B>,
}

impl<B: Behaviour> Subject for Interval<B> {
    type Ticker = Self;

    fn ticker(schedule: Schedule) -> io::Result<Self> {
        let mut interval = time::interval_at(schedule.start.into(), schedule.period);
        interval.set_missed_tick_behavior(B::TOKIO);
        Ok(Self { schedule, interval, behaviour: PhantomData })
    }
}

impl<B: Behaviour> Ticker for Interval<B> {
    poll_wait_of_interval!(interval, time::Instant);

    #[inline]
    fn delivered(self: Pin<&mut Self>, claimed: time::Instant, next: u64) -> Delivered {
        B::delivered(&self.schedule, next, claimed.into_std())
    }

    fn backend(&self) -> String {
        WHEEL.to_owned()
    }
}

pin_project_lite::pin_project! {
    /// One `Sleep`, pinned inside the ticker and reset at each tick.
    pub struct SleepReused {
        schedule: Schedule,
        #[pin]
        sleep: time::Sleep,
    }
}

impl Subject for SleepReused {
    type Ticker = Self;

    fn ticker(schedule: Schedule) -> io::Result<Self> {
        Ok(Self { schedule, sleep: time::sleep_until(schedule.start.into()) })
    }
}

impl Ticker for SleepReused {
    type Event = ();

    #[inline]
    fn begin(self: Pin<&mut Self>, next: u64) {
        let this = self.project();
        this.sleep.reset(this.schedule.deadline(next).into());
    }

    #[inline]
    fn poll_wait(self: Pin<&mut Self>, _: u64, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().sleep.poll(cx).map(Ok)
    }

    fn backend(&self) -> String {
        WHEEL.to_owned()
    }
}

/// One boxed `Sleep`, reset at each tick.
pub struct SleepReusedBoxed {
    schedule: Schedule,
    sleep: Pin<Box<time::Sleep>>,
}

impl Subject for SleepReusedBoxed {
    type Ticker = Self;

    fn ticker(schedule: Schedule) -> io::Result<Self> {
        Ok(Self { schedule, sleep: Box::pin(time::sleep_until(schedule.start.into())) })
    }
}

impl Ticker for SleepReusedBoxed {
    type Event = ();

    #[inline]
    fn begin(mut self: Pin<&mut Self>, next: u64) {
        let deadline = self.schedule.deadline(next);
        self.sleep.as_mut().reset(deadline.into());
    }

    #[inline]
    fn poll_wait(mut self: Pin<&mut Self>, _: u64, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.sleep.as_mut().poll(cx).map(Ok)
    }

    fn backend(&self) -> String {
        WHEEL.to_owned()
    }
}
