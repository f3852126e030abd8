//! The intervals of `osinterval`, which use the operating system's timers.

use std::io;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use files::report::Change;
use osinterval::{
    Expirations, GroupInterval, IntervalGroup, OsInterval, PeriodicInterval, Precision, Spin,
    blocking,
};
use tokio::time::Instant;

use crate::subject::bare_threads::MinSlack;
use crate::subject::behaviour::Behaviour;
use crate::subject::sliced_wait;
use crate::subject::ticker::{Delivered, Schedule, Subject, Ticker, poll_wait_of_interval};

/// `OsInterval`.
pub struct OneShot<B> {
    schedule: Schedule,
    interval: OsInterval,
    behaviour: PhantomData<B>,
}

impl<B: Behaviour> Subject for OneShot<B> {
    type Ticker = Self;

    fn ticker(schedule: Schedule) -> io::Result<Self> {
        let interval = OsInterval::builder(schedule.period)
            .start_at(schedule.start.into())
            .missed_tick_behavior(B::OSINTERVAL)
            .build()?;
        Ok(Self { schedule, interval, behaviour: PhantomData })
    }
}

impl<B: Behaviour> Ticker for OneShot<B> {
    poll_wait_of_interval!(interval, Instant);

    #[inline]
    fn delivered(self: Pin<&mut Self>, claimed: Instant, next: u64) -> Delivered {
        B::delivered(&self.schedule, next, claimed.into_std())
    }

    fn backend(&self) -> String {
        self.interval.backend().to_string()
    }
}

/// Share of a period for which the precise mode may spin.
pub trait SpinShare: 'static {
    fn spin() -> Spin;
}

/// The default of `osinterval`: a fifth.
pub struct DefaultShare;
/// The whole period, so that ticks are punctual at short periods.
pub struct WholePeriod;

impl SpinShare for DefaultShare {
    fn spin() -> Spin {
        Spin::default()
    }
}

impl SpinShare for WholePeriod {
    fn spin() -> Spin {
        Spin::default().with_share(1.0)
    }
}

/// `OsInterval` in its precise mode, which may spin for the share `S` of a period.
pub struct Precise<S>(OsInterval, PhantomData<fn() -> S>);

impl<S: SpinShare> Subject for Precise<S> {
    // The precise mode wakes up before the deadline on purpose.
    const PARKS_UNTIL_DUE: bool = false;
    type Ticker = Self;

    fn ticker(schedule: Schedule) -> io::Result<Self> {
        let builder = OsInterval::builder(schedule.period).start_at(schedule.start.into());
        Ok(Self(builder.precision(S::spin()).build()?, PhantomData))
    }
}

impl<S: SpinShare> Ticker for Precise<S> {
    poll_wait_of_interval!(0, Instant);

    fn backend(&self) -> String {
        let mode = if self.0.lead().is_some() { " and a lead" } else { "" };
        format!("{}{mode}", self.0.backend())
    }
}

/// An interval of an `IntervalGroup`. All instances share one group.
pub struct Grouped(GroupInterval);

impl Subject for Grouped {
    type Ticker = Self;

    fn ticker(schedule: Schedule) -> io::Result<Self> {
        Self::ticker_factory()?(schedule)
    }

    fn ticker_factory() -> io::Result<impl Fn(Schedule) -> io::Result<Self>> {
        let group = IntervalGroup::new()?;
        Ok(move |s: Schedule| Ok(Self(group.interval_at(s.start.into(), s.period))))
    }
}

impl Ticker for Grouped {
    poll_wait_of_interval!(0, Instant);

    fn backend(&self) -> String {
        format!("{}, shared", self.0.backend())
    }
}

/// `blocking::Interval`, which blocks a thread without a runtime.
pub struct Blocking;
/// `blocking::Interval` in its precise mode.
pub struct BlockingPrecise;

impl Subject for Blocking {
    type Ticker = BlockingTicker;

    fn ticker(schedule: Schedule) -> io::Result<BlockingTicker> {
        BlockingTicker::new(schedule, Precision::Os)
    }
}

impl Subject for BlockingPrecise {
    // The precise mode wakes up before the deadline on purpose.
    const PARKS_UNTIL_DUE: bool = false;
    type Ticker = BlockingTicker;

    fn ticker(schedule: Schedule) -> io::Result<BlockingTicker> {
        BlockingTicker::new(schedule, Precision::spin())
    }
}

/// The ticker of `blocking::Interval`, in a thread with the timer slack of the control.
pub struct BlockingTicker {
    interval: blocking::Interval,
    slack: MinSlack,
}

impl BlockingTicker {
    fn new(schedule: Schedule, precision: Precision) -> io::Result<Self> {
        let builder = blocking::Interval::builder(schedule.period).start_at(schedule.start);
        let interval = builder.precision(precision).build()?;
        Ok(Self { interval, slack: MinSlack::new()? })
    }
}

impl Ticker for BlockingTicker {
    type Event = ();

    #[inline]
    fn poll_wait(mut self: Pin<&mut Self>, _: u64, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match sliced_wait::slice_end(self.interval.period(), self.interval.deadline()) {
            #[allow(clippy::disallowed_methods, reason = "long before the deadline")]
            Some(slice) => {
                let now = std::time::Instant::now();
                std::thread::sleep(slice.saturating_duration_since(now));
                Poll::Pending
            }
            None => Poll::Ready(self.interval.tick().map(drop).map_err(io::Error::from)),
        }
    }

    fn backend(&self) -> String {
        let mode = if self.interval.lead().is_some() { " and a lead" } else { "" };
        format!("{}{mode}", self.interval.backend())
    }

    fn setting_change(&self) -> Option<Change> {
        self.slack.change()
    }
}

/// `PeriodicInterval`.
pub struct KernelPeriodic(PeriodicInterval);

impl Subject for KernelPeriodic {
    type Ticker = Self;

    fn ticker(schedule: Schedule) -> io::Result<Self> {
        Ok(Self(PeriodicInterval::new_at(schedule.start.into(), schedule.period)?))
    }
}

impl Ticker for KernelPeriodic {
    type Event = Expirations;

    #[inline]
    fn poll_wait(
        mut self: Pin<&mut Self>,
        _: u64,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Expirations>> {
        self.0.poll_tick(cx)
    }

    #[inline]
    fn delivered(self: Pin<&mut Self>, event: Expirations, next: u64) -> Delivered {
        Delivered { tick: next + event.count - 1, expirations: event.count }
    }

    fn backend(&self) -> String {
        self.0.backend().to_string()
    }
}
