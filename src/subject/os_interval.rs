//! Our own intervals, over the operating system's timers.

use std::io;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use osinterval::{Expirations, GroupInterval, IntervalGroup, OsInterval, PeriodicInterval, Precision};
use tokio::time::Instant;

use crate::subject::behaviour::Behaviour;
use crate::subject::ticker::{Delivered, Schedule, Subject, Ticker};

/// `OsInterval`.
pub struct OneShot<B> {
    schedule: Schedule,
    interval: OsInterval,
    next: u64,
    behaviour: PhantomData<B>,
}

impl<B: Behaviour> Subject for OneShot<B> {
    type Ticker = Self;

    fn ticker(schedule: Schedule) -> io::Result<Self> {
        let interval = OsInterval::builder(schedule.period)
            .start_at(schedule.start.into())
            .missed_tick_behavior(B::OURS)
            .build()?;
        Ok(Self { schedule, interval, next: 0, behaviour: PhantomData })
    }
}

impl<B: Behaviour> Ticker for OneShot<B> {
    type Event = Instant;

    fn poll_wait(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<Instant>> {
        self.interval.poll_tick(cx).map(Ok)
    }

    fn delivered(mut self: Pin<&mut Self>, claimed: Instant) -> Delivered {
        let this = &mut *self;
        B::delivered(&this.schedule, &mut this.next, claimed.into_std())
    }

    fn backend(&self) -> String {
        self.interval.backend().to_string()
    }
}

/// `OsInterval` in its precise mode.
pub struct Precise {
    interval: OsInterval,
    next: u64,
}

impl Subject for Precise {
    // It comes back from its park before the deadline, on purpose.
    const PARKS_UNTIL_DUE: bool = false;
    type Ticker = Self;

    fn ticker(schedule: Schedule) -> io::Result<Self> {
        let builder = OsInterval::builder(schedule.period).start_at(schedule.start.into());
        Ok(Self { interval: builder.precision(Precision::spin()).build()?, next: 0 })
    }
}

impl Ticker for Precise {
    type Event = Instant;

    fn poll_wait(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<Instant>> {
        self.interval.poll_tick(cx).map(Ok)
    }

    fn delivered(mut self: Pin<&mut Self>, _claimed: Instant) -> Delivered {
        Delivered::next(&mut self.next)
    }

    fn backend(&self) -> String {
        let mode = if self.interval.lead().is_some() { " and a lead" } else { "" };
        format!("{}{mode}", self.interval.backend())
    }
}

/// An interval of an `IntervalGroup`; several of them are of one group.
pub struct Grouped {
    interval: GroupInterval,
    next: u64,
}

impl Subject for Grouped {
    type Ticker = Self;

    fn ticker(schedule: Schedule) -> io::Result<Self> {
        let mut alone = Self::tickers(&[schedule])?;
        Ok(alone.remove(0))
    }

    fn tickers(schedules: &[Schedule]) -> io::Result<Vec<Self>> {
        let group = IntervalGroup::new()?;
        let member = |s: &Schedule| Self { interval: group.interval_at(s.start.into(), s.period), next: 0 };
        Ok(schedules.iter().map(member).collect())
    }
}

impl Ticker for Grouped {
    type Event = Instant;

    fn poll_wait(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<Instant>> {
        self.interval.poll_tick(cx).map(Ok)
    }

    fn delivered(mut self: Pin<&mut Self>, _claimed: Instant) -> Delivered {
        Delivered::next(&mut self.next)
    }

    fn backend(&self) -> String {
        format!("{}, shared", self.interval.backend())
    }
}

/// `PeriodicInterval`.
pub struct KernelPeriodic {
    interval: PeriodicInterval,
    delivered: u64,
}

impl Subject for KernelPeriodic {
    type Ticker = Self;

    fn ticker(schedule: Schedule) -> io::Result<Self> {
        Ok(Self { interval: PeriodicInterval::new_at(schedule.start.into(), schedule.period)?, delivered: 0 })
    }
}

impl Ticker for KernelPeriodic {
    type Event = Expirations;

    fn poll_wait(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<Expirations>> {
        self.interval.poll_tick(cx)
    }

    fn delivered(mut self: Pin<&mut Self>, event: Expirations) -> Delivered {
        self.delivered += event.count;
        Delivered { tick: self.delivered - 1, expirations: event.count }
    }

    fn backend(&self) -> String {
        self.interval.backend().to_string()
    }
}
