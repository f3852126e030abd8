//! When the next tick is due, and the methods that every kind of interval has in common.

use std::time::Duration;

use cadence::MissedTickBehavior;
use tokio::time::Instant;

use crate::timer::later;

/// The deadlines of an interval and its missed-tick policy.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    /// When the next tick is due.
    pub(crate) deadline: Instant,
    pub(crate) period: Duration,
    pub(crate) behavior: MissedTickBehavior,
    pub(crate) tolerance: Duration,
    pub(crate) missed: u64,
}

impl Schedule {
    /// The tick is observed at `now`, not before its deadline: returns that, and goes on to the next.
    pub(crate) fn observe(&mut self, now: std::time::Instant) -> Instant {
        let due = self.deadline;
        let late = now.saturating_duration_since(due.into_std());
        let step = cadence::next(self.behavior, late, self.period, self.tolerance);
        self.missed += u64::from(step.acted);
        self.deadline = later(due.into_std(), step.after, now).into();
        due
    }
}

/// The methods of an interval type that has a `schedule`, a `poll_tick`, a `now()` of its clock, and a `moved()` to be
/// called when the deadline has been changed from outside.
macro_rules! interval_surface {
    ($type:ident) => {
        impl $type {
            /// Waits for the next tick and returns its deadline, which is in the past by then.
            ///
            /// # Cancel safety
            /// Dropping the future before it is ready loses nothing: the next call waits for the same tick.
            ///
            /// # Panics
            /// If the runtime it was made on is shutting down, as `tokio::time::Interval` does.
            pub async fn tick(&mut self) -> tokio::time::Instant {
                std::future::poll_fn(|cx| self.poll_tick(cx)).await
            }

            /// Moves the next tick to one period from now.
            pub fn reset(&mut self) {
                self.reset_after(self.schedule.period);
            }

            /// Moves the next tick to now.
            pub fn reset_immediately(&mut self) {
                self.reset_after(std::time::Duration::ZERO);
            }

            /// Moves the next tick to `after` from now.
            pub fn reset_after(&mut self, after: std::time::Duration) {
                let now = self.now();
                self.reset_at(crate::timer::later(now, after, now).into());
            }

            /// Moves the next tick to `deadline`; later ticks follow from there.
            ///
            /// Costs no system call unless a task waits for a tick, and then at most one, so that the task is woken at
            /// the new time.
            ///
            /// # Panics
            /// If a task waits and the operating system refuses to arm the timer again, which it has no reason to.
            pub fn reset_at(&mut self, deadline: tokio::time::Instant) {
                self.schedule.deadline = deadline;
                if let Err(error) = self.moved() {
                    panic!("cannot arm the timer of an interval: {error}");
                }
            }

            /// The period.
            pub fn period(&self) -> std::time::Duration {
                self.schedule.period
            }

            /// When the next tick is due.
            pub fn deadline(&self) -> tokio::time::Instant {
                self.schedule.deadline
            }

            /// What is done about missed ticks.
            pub fn missed_tick_behavior(&self) -> cadence::MissedTickBehavior {
                self.schedule.behavior
            }

            /// Sets what is done about missed ticks.
            pub fn set_missed_tick_behavior(&mut self, behavior: impl Into<cadence::MissedTickBehavior>) {
                self.schedule.behavior = behavior.into();
            }

            /// How late a tick must be observed to count as missed.
            pub fn tolerance(&self) -> std::time::Duration {
                self.schedule.tolerance
            }

            /// Sets how late a tick must be observed to count as missed. tokio's 5 ms unless set, so that both deliver
            /// the same sequences; at a period of 500 us that is ten periods.
            pub fn set_tolerance(&mut self, tolerance: std::time::Duration) {
                self.schedule.tolerance = tolerance;
            }

            /// Ticks so far that were observed later than the tolerance: those on which the missed-tick behaviour
            /// acted.
            pub fn missed(&self) -> u64 {
                self.schedule.missed
            }
        }

        /// Ticks without end; each item is the deadline of a tick.
        #[cfg(feature = "stream")]
        impl futures_core::Stream for $type {
            type Item = tokio::time::Instant;

            fn poll_next(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<Option<Self::Item>> {
                self.get_mut().poll_tick(cx).map(Some)
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                (usize::MAX, None)
            }
        }
    };
}
pub(crate) use interval_surface;
