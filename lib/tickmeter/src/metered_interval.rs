//! Intervals with a meter: [`Metered`].

use std::future::poll_fn;
use std::ops::Deref;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use crate::meter::Meter;

/// An interval that a meter can wrap.
///
/// The intervals of tokio, osinterval and busypoll implement it, with the feature of that name. You
/// can implement it for others.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an interval that tickmeter can meter with the enabled features",
    label = "`Ticker` is not implemented for this interval",
    note = "for an interval of tokio, enable tickmeter's feature `tokio`",
    note = "for `OsInterval`, `GroupInterval` or `PeriodicInterval`, enable tickmeter's feature `osinterval`",
    note = "for an interval of busypoll, enable tickmeter's feature `busypoll`",
    note = "for another interval, implement `tickmeter::Ticker`, or call `Meter::tick` after each tick"
)]
pub trait Ticker {
    /// Result of a tick.
    type Tick;

    /// Polls for the next tick. Returns `Ready` once its deadline has come.
    fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Self::Tick>;

    /// Returns the first deadline of a result, on the operating system's clock, and the number of
    /// ticks that came together; `None` if the result is not a tick, such as an error.
    fn deadline(tick: &Self::Tick) -> Option<(Instant, u64)>;

    /// Returns the nominal period.
    fn period(&self) -> Duration;
}

/// An interval whose ticks are metered. Created by [`Meter::wrap`]. It is `Send` and `Sync` if the
/// interval is.
#[must_use = "an interval does nothing unless its ticks are awaited"]
#[derive(Debug)]
pub struct Metered<I> {
    interval: I,
    meter: Meter,
    /// Whether the work since the last tick is done.
    waiting: bool,
}

impl Meter {
    /// Meters an interval, and sets the meter's period to that of the interval. Ticks are then late
    /// from half of that period on, except those of a meter by [`Meter::register_with`]. The time
    /// from a tick until the next call of `tick` is the loop's work.
    ///
    /// An interval of tokio, osinterval or busypoll needs the feature of that name.
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
    pub fn wrap<I: Ticker>(mut self, interval: I) -> Metered<I> {
        self.set_period(interval.period());
        Metered { interval, meter: self, waiting: false }
    }
}

impl<I: Ticker> Metered<I> {
    /// Waits for the next tick, like the `tick` method of the interval.
    ///
    /// # Panics
    /// Panics if the interval's `poll_tick` panics.
    ///
    /// # Cancel safety
    /// This method is cancel safe if the interval's `poll_tick` is. Only the time until the first call
    /// of `tick` is recorded as work. Each further call marks the loop as busy until then, as
    /// [`Meter::work_done`] does.
    pub async fn tick(&mut self) -> I::Tick {
        self.meter.work_done();
        self.waiting = true;
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// Polls for the next tick. The first call after a tick ends the loop's work.
    ///
    /// # Panics
    /// Panics if the interval's `poll_tick` panics.
    #[inline]
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<I::Tick> {
        if self.waiting {
            self.meter.note_waiting_thread();
        } else {
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
    /// Returns the meter.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Returns the interval, to reset it or to change its settings. A tick that is taken directly
    /// from it is not metered, and its deadline is recorded as skipped.
    #[must_use]
    pub fn get_mut(&mut self) -> &mut I {
        &mut self.interval
    }

    /// Returns the interval and drops the meter.
    #[must_use]
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

/// An endless stream of ticks. The time from an item until the next poll is the loop's work.
///
/// ```
/// # #[cfg(feature = "tokio")] {
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use futures_core::Stream;
/// use std::{future::poll_fn, pin::Pin, time::Duration};
/// use tickmeter::Meter;
///
/// let period = Duration::from_millis(1);
/// let mut ticks = Meter::register("stream", period)?.wrap(tokio::time::interval(period));
/// for _ in 0..3 {
///     // With the crate futures: ticks.next().await
///     assert!(poll_fn(|cx| Pin::new(&mut ticks).poll_next(cx)).await.is_some());
/// }
/// assert_eq!(ticks.meter().snapshot().ticks, 3);
/// # Ok::<(), tickmeter::RegisterError>(()) }).unwrap(); }
/// ```
#[cfg(feature = "stream")]
impl<I: Ticker + Unpin> futures_core::Stream for Metered<I> {
    type Item = I::Tick;

    fn poll_next(self: std::pin::Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_tick(cx).map(Some)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX, None)
    }
}

/// Implements [`Ticker`] for intervals that return each deadline as an instant of tokio.
#[cfg(any(feature = "tokio", feature = "osinterval"))]
macro_rules! impl_ticker {
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
impl_ticker! { tokio::time::Interval }

#[cfg(feature = "osinterval")]
mod osinterval_tickers {
    use super::*;
    use osinterval::{Expirations, OsInterval, PeriodicInterval};

    impl_ticker! { OsInterval }

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
