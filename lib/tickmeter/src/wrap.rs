//! Intervals with a meter: [`Metered`].

use std::future::poll_fn;
use std::ops::Deref;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use crate::meter::Meter;

/// An interval that a meter can be wrapped around: of tokio, osinterval or busypoll, by the feature
/// of that name, or yours.
pub trait Ticker {
    /// What a tick yields.
    type Tick;

    /// Ready with the next tick once its deadline has come.
    fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Self::Tick>;

    /// When a tick was due, by the operating system's clock, and how many came with it: the first
    /// deadline and the number. `None` for what is no tick, such as an error.
    fn deadline(tick: &Self::Tick) -> Option<(Instant, u64)>;

    /// The time between ticks.
    fn period(&self) -> Duration;
}

/// An interval whose ticks are metered. Made by [`Meter::wrap`].
#[derive(Debug)]
pub struct Metered<I> {
    interval: I,
    meter: Meter,
    /// The work since the last tick is done.
    waiting: bool,
}

impl Meter {
    /// Meters an interval, by its own period. The time from a tick until `tick` is called again is
    /// the loop's work.
    ///
    /// ```
    /// # #[cfg(feature = "tokio")] {
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// use std::time::Duration;
    /// use tickmeter::Meter;
    ///
    /// let period = Duration::from_millis(1);
    /// let mut interval = Meter::register("poller", period)?.wrap(tokio::time::interval(period));
    /// for _ in 0..3 {
    ///     interval.tick().await;
    /// }
    /// assert_eq!(interval.meter().snapshot().ticks, 3);
    /// # Ok::<(), tickmeter::RegisterError>(()) }).unwrap(); }
    /// ```
    #[must_use]
    pub fn wrap<I: Ticker>(mut self, interval: I) -> Metered<I> {
        self.set_period(interval.period());
        Metered { interval, meter: self, waiting: false }
    }
}

impl<I: Ticker> Metered<I> {
    /// Waits for the next tick, as the interval's own `tick` does.
    ///
    /// # Panics
    /// As the interval's.
    ///
    /// # Cancel safety
    /// As the interval's; the time until the next call of `tick` counts as the loop being busy.
    pub async fn tick(&mut self) -> I::Tick {
        self.meter.work_done();
        self.waiting = true;
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// Polls for the next tick; the first call after a tick ends the loop's work.
    ///
    /// # Panics
    /// As the interval's.
    #[inline]
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<I::Tick> {
        if !self.waiting {
            self.meter.work_done();
            self.waiting = true;
        }
        let tick = ready!(self.interval.poll_tick(cx));
        self.waiting = false;
        if let Some((first, count)) = I::deadline(&tick) {
            self.meter.ticks(first, count);
        }
        Poll::Ready(tick)
    }
}

impl<I> Metered<I> {
    /// Its meter.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// The interval, to reset it or to change its settings. A tick that is taken from it directly
    /// is not metered, and its deadline is booked as skipped.
    pub fn get_mut(&mut self) -> &mut I {
        &mut self.interval
    }

    /// Gives the interval back and ends the meter.
    pub fn into_inner(self) -> I {
        self.interval
    }
}

impl<I> Deref for Metered<I> {
    type Target = I;

    fn deref(&self) -> &I {
        &self.interval
    }
}

/// For intervals whose ticks are instants of tokio, a deadline each.
#[cfg(any(feature = "tokio", feature = "osinterval"))]
macro_rules! one_by_one {
    ($($name:ty)*) => {$(
        impl Ticker for $name {
            type Tick = tokio::time::Instant;

            fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Self::Tick> {
                Self::poll_tick(self, cx)
            }

            fn deadline(tick: &Self::Tick) -> Option<(Instant, u64)> {
                Some((tick.into_std(), 1))
            }

            fn period(&self) -> Duration {
                Self::period(self)
            }
        }
    )*};
}

#[cfg(feature = "tokio")]
one_by_one! { tokio::time::Interval }

#[cfg(feature = "osinterval")]
mod of_osinterval {
    use super::*;
    use osinterval::{Expirations, GroupInterval, OsInterval, PeriodicInterval};

    one_by_one! { OsInterval GroupInterval }

    impl Ticker for PeriodicInterval {
        type Tick = std::io::Result<Expirations>;

        fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Self::Tick> {
            Self::poll_tick(self, cx)
        }

        fn deadline(tick: &Self::Tick) -> Option<(Instant, u64)> {
            tick.as_ref().ok().map(|e| (e.first.into_std(), e.count))
        }

        fn period(&self) -> Duration {
            Self::period(self)
        }
    }
}

#[cfg(feature = "busypoll")]
impl Ticker for busypoll::time::Interval {
    type Tick = Instant;

    fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        Self::poll_tick(self, cx)
    }

    fn deadline(tick: &Instant) -> Option<(Instant, u64)> {
        Some((*tick, 1))
    }

    fn period(&self) -> Duration {
        Self::period(self)
    }
}
