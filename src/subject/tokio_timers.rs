//! tokio's own timers.

use std::future::pending;
use std::io;
use std::marker::PhantomData;
use std::pin::Pin;

use tokio::time;

use super::bare::ordinal;
use super::behaviour::Behaviour;
use super::{Booking, Place, Schedule, Subject, Ticker};

const WHEEL: &str = "tokio timer wheel";

/// `tokio::time::Interval`.
pub struct Interval<B> {
    schedule: Schedule,
    interval: time::Interval,
    next: u64,
    behaviour: PhantomData<B>,
}

impl<B: Behaviour> Subject for Interval<B> {
    const PLACE: Place = Place::Tokio;
    type Ticker = Self;

    fn ticker(schedule: Schedule) -> io::Result<Self> {
        let mut interval = time::interval_at(schedule.start.into(), schedule.period);
        interval.set_missed_tick_behavior(B::TOKIOS);
        Ok(Self { schedule, interval, next: 0, behaviour: PhantomData })
    }
}

impl<B: Behaviour> Ticker for Interval<B> {
    type Event = time::Instant;

    async fn wait(mut self: Pin<&mut Self>) -> io::Result<time::Instant> {
        Ok(self.interval.tick().await)
    }

    fn book(mut self: Pin<&mut Self>, claimed: time::Instant) -> Booking {
        let this = &mut *self;
        B::booking(&this.schedule, &mut this.next, claimed.into_std())
    }

    fn backend(&self) -> String {
        WHEEL.to_owned()
    }
}

/// `sleep_until` made for each tick.
pub struct SleepPerTick {
    schedule: Schedule,
    next: u64,
}

impl Subject for SleepPerTick {
    const PLACE: Place = Place::Tokio;
    type Ticker = Self;

    fn ticker(schedule: Schedule) -> io::Result<Self> {
        Ok(Self { schedule, next: 0 })
    }
}

impl Ticker for SleepPerTick {
    type Event = ();

    async fn wait(self: Pin<&mut Self>) -> io::Result<()> {
        time::sleep_until(self.schedule.deadline(self.next).into()).await;
        Ok(())
    }

    fn book(mut self: Pin<&mut Self>, (): ()) -> Booking {
        ordinal(&mut self.next)
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
        next: u64,
    }
}

impl Subject for SleepReused {
    const PLACE: Place = Place::Tokio;
    type Ticker = Self;

    fn ticker(schedule: Schedule) -> io::Result<Self> {
        Ok(Self { schedule, sleep: time::sleep_until(schedule.start.into()), next: 0 })
    }
}

impl Ticker for SleepReused {
    type Event = ();

    async fn wait(self: Pin<&mut Self>) -> io::Result<()> {
        let mut this = self.project();
        this.sleep.as_mut().reset(this.schedule.deadline(*this.next).into());
        this.sleep.await;
        Ok(())
    }

    fn book(self: Pin<&mut Self>, (): ()) -> Booking {
        ordinal(self.project().next)
    }

    fn backend(&self) -> String {
        WHEEL.to_owned()
    }
}

/// The same in a box of its own.
pub struct SleepReusedBoxed {
    schedule: Schedule,
    sleep: Pin<Box<time::Sleep>>,
    next: u64,
}

impl Subject for SleepReusedBoxed {
    const PLACE: Place = Place::Tokio;
    type Ticker = Self;

    fn ticker(schedule: Schedule) -> io::Result<Self> {
        Ok(Self { schedule, sleep: Box::pin(time::sleep_until(schedule.start.into())), next: 0 })
    }
}

impl Ticker for SleepReusedBoxed {
    type Event = ();

    async fn wait(mut self: Pin<&mut Self>) -> io::Result<()> {
        let deadline = self.schedule.deadline(self.next);
        self.sleep.as_mut().reset(deadline.into());
        self.sleep.as_mut().await;
        Ok(())
    }

    fn book(mut self: Pin<&mut Self>, (): ()) -> Booking {
        ordinal(&mut self.next)
    }

    fn backend(&self) -> String {
        WHEEL.to_owned()
    }
}

/// `timeout_at` around a future that never ends.
pub struct Timeout {
    schedule: Schedule,
    next: u64,
}

impl Subject for Timeout {
    const PLACE: Place = Place::Tokio;
    type Ticker = Self;

    fn ticker(schedule: Schedule) -> io::Result<Self> {
        Ok(Self { schedule, next: 0 })
    }
}

impl Ticker for Timeout {
    type Event = ();

    async fn wait(self: Pin<&mut Self>) -> io::Result<()> {
        let deadline = self.schedule.deadline(self.next);
        let elapsed = time::timeout_at(deadline.into(), pending::<()>()).await;
        debug_assert!(elapsed.is_err(), "a future that never ends has ended");
        Ok(())
    }

    fn book(mut self: Pin<&mut Self>, (): ()) -> Booking {
        ordinal(&mut self.next)
    }

    fn backend(&self) -> String {
        WHEEL.to_owned()
    }
}
