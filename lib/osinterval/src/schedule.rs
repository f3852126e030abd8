//! The schedule of an interval, and the methods that all kinds of interval share.

use std::time::{Duration, Instant};

use cadence::MissedTickBehavior;

use crate::real_clock::add_or_far;

/// The deadlines of an interval and its missed-tick policy.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    /// The deadline of the next tick.
    pub(crate) deadline: Instant,
    pub(crate) period: Duration,
    pub(crate) behavior: MissedTickBehavior,
    pub(crate) tolerance: Duration,
    pub(crate) missed: u64,
}

impl Schedule {
    /// Delivers the tick that was observed at `now`, which is not before its deadline. Advances to
    /// the next tick and returns the deadline of this one.
    #[cfg(any(test, feature = "interval"))]
    pub(crate) fn observe(&mut self, now: Instant) -> Instant {
        let (due, punctual_until) = (self.deadline, self.punctual_until());
        self.advance();
        self.apply_behavior(due, punctual_until, now);
        due
    }

    /// Returns the latest time at which the next tick can be observed without being missed.
    pub(crate) fn punctual_until(&self) -> Instant {
        add_or_far(self.deadline, self.tolerance, self.deadline)
    }

    /// Advances to the next tick as if this one was observed at its deadline.
    pub(crate) fn advance(&mut self) {
        self.deadline = add_or_far(self.deadline, self.period, self.deadline);
    }

    /// Applies the missed-tick behaviour if the tick that was due at `due` was observed too late.
    /// Must be called after [`Schedule::advance`]. Returns whether the deadline of the next tick
    /// moved.
    ///
    /// In the precise mode this runs between the end of the spin and the delivery of the tick, so a
    /// punctual tick costs one comparison.
    #[inline]
    pub(crate) fn apply_behavior(
        &mut self,
        due: Instant,
        punctual_until: Instant,
        now: Instant,
    ) -> bool {
        now > punctual_until && self.handle_missed(due, now)
    }

    #[cold]
    fn handle_missed(&mut self, due: Instant, now: Instant) -> bool {
        let late = now.saturating_duration_since(due);
        let step = cadence::next(self.behavior, late, self.period, self.tolerance);
        let next = add_or_far(due, step.after, now);
        self.missed += u64::from(step.missed);
        std::mem::replace(&mut self.deadline, next) != next
    }
}

/// Implements the methods that the intervals of tokio share.
///
/// The type needs a field `schedule` and the methods `poll_tick` and `rearm`, which is called after
/// a change of the deadline.
///
/// `$make` and `$setup` are for the examples in the documentation: a function from a period to the
/// type, and a line to run before it.
#[cfg(feature = "interval")]
macro_rules! impl_interval_methods {
    ($type:ident, $make:literal $(, $setup:literal)?) => {
        impl $type {
            /// Waits for the next tick and returns its deadline, which has passed by then.
            ///
            /// # Panics
            /// Panics if the runtime on which the interval was created is shutting down, as
            /// `tokio::time::Interval` does.
            ///
            /// # Cancel safety
            /// This method is cancel safe. If the future is dropped before it is ready, the next
            /// call waits for the same tick.
            ///
            /// # Examples
            /// ```
            /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            $(#[doc = $setup])?
            #[doc = concat!("let mut interval = ", $make, "(std::time::Duration::from_millis(1));")]
            /// let deadline = interval.tick().await;
            /// // `poll_tick` delivers the next tick like `tick`.
            /// let next = std::future::poll_fn(|cx| interval.poll_tick(cx)).await;
            /// assert_eq!(next, deadline + interval.period());
            /// # std::io::Result::Ok(()) }).unwrap();
            /// ```
            pub async fn tick(&mut self) -> tokio::time::Instant {
                std::future::poll_fn(|cx| self.poll_tick(cx)).await
            }

            /// Moves the next tick to `deadline`; later ticks follow from there.
            ///
            /// A task that waits for the tick is woken at the new deadline. The call costs one
            /// system call if a polled, pending tick moves earlier. Postponing a tick costs no
            /// system call: the task may be woken once at the old deadline, and then waits again.
            ///
            /// # Panics
            /// Panics if the OS fails to re-arm the timer. No supported OS is known to do that.
            ///
            /// # Examples
            /// ```
            /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            /// use std::time::Duration;
            /// use tokio::time::Instant;
            $(#[doc = $setup])?
            #[doc = concat!("let mut interval = ", $make, "(Duration::from_secs(1));")]
            /// interval.tick().await; // the first, at once
            /// let soon = Instant::now() + Duration::from_millis(2);
            /// interval.reset_at(soon);
            /// assert_eq!(interval.tick().await, soon);
            /// interval.reset_after(Duration::from_millis(2));
            /// interval.tick().await;
            /// interval.reset_immediately();
            /// assert!(interval.tick().await <= Instant::now());
            /// interval.reset();
            /// assert!(interval.deadline() > Instant::now());
            /// # std::io::Result::Ok(()) }).unwrap();
            /// ```
            pub fn reset_at(&mut self, deadline: tokio::time::Instant) {
                self.schedule.deadline = deadline.into_std();
                if let Err(error) = self.rearm() {
                    panic!("cannot arm the timer of an interval: {error}");
                }
            }
        }

        crate::schedule::impl_schedule_methods!($type, tokio::time::Instant, crate::clock::tokio_now);

        /// An endless stream of ticks; each item is the deadline of one.
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
#[cfg(feature = "interval")]
pub(crate) use impl_interval_methods;

/// Implements the methods of an interval that do not wait. The type needs a field `schedule` and the
/// method `reset_at`. `$instant` is the type of its deadlines, and `$now` reads its clock.
macro_rules! impl_schedule_methods {
    ($type:ident, $instant:ty, $now:path) => {
        impl $type {
            /// Moves the next tick to one period from now. [`Self::reset_at`] states the costs and
            /// panics of all four methods.
            pub fn reset(&mut self) {
                self.reset_after(self.schedule.period);
            }

            /// Moves the next tick to now. See [`Self::reset_at`].
            pub fn reset_immediately(&mut self) {
                self.reset_after(std::time::Duration::ZERO);
            }

            /// Moves the next tick to `after` from now. See [`Self::reset_at`].
            pub fn reset_after(&mut self, after: std::time::Duration) {
                let now = $now();
                self.reset_at(crate::real_clock::add_or_far(now, after, now).into());
            }

            /// Returns the time between deadlines.
            #[must_use]
            pub fn period(&self) -> std::time::Duration {
                self.schedule.period
            }

            /// Returns the deadline of the next tick.
            #[must_use]
            pub fn deadline(&self) -> $instant {
                self.schedule.deadline.into()
            }

            /// Returns the behaviour for missed ticks.
            #[must_use]
            pub fn missed_tick_behavior(&self) -> cadence::MissedTickBehavior {
                self.schedule.behavior
            }

            /// Sets the behaviour for missed ticks, from the next tick on. With tokio, its own
            /// behaviour can be passed as it is.
            pub fn set_missed_tick_behavior(
                &mut self,
                behavior: impl Into<cadence::MissedTickBehavior>, // pass tokio's as it is, without `.into()`
            ) {
                self.schedule.behavior = behavior.into();
            }

            /// Returns how late a tick must be observed to count as missed.
            #[must_use]
            pub fn tolerance(&self) -> std::time::Duration {
                self.schedule.tolerance
            }

            /// Sets how late a tick must be observed to count as missed; tokio's 5 ms unless set,
            /// so that both deliver the same sequences. At a period of 500 us that is ten periods.
            pub fn set_tolerance(&mut self, tolerance: std::time::Duration) {
                self.schedule.tolerance = tolerance;
            }

            /// Returns the number of ticks observed so far that were later than the tolerance, and
            /// so were subject to the missed-tick behaviour.
            #[must_use]
            pub fn missed(&self) -> u64 {
                self.schedule.missed
            }
        }
    };
}
pub(crate) use impl_schedule_methods;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// tokio's rule on plain nanoseconds, by its documentation and its behaviour: a tick that is
    /// observed more than 5 ms late is missed, and the behaviour applies only to missed ticks.
    fn tokio_next_deadline(behavior: MissedTickBehavior, due: u64, now: u64, period: u64) -> u64 {
        const TOLERANCE: u64 = 5_000_000;
        if now <= due + TOLERANCE {
            return due + period;
        }
        match behavior {
            MissedTickBehavior::Burst => due + period,
            MissedTickBehavior::Delay => now + period,
            MissedTickBehavior::Skip => now + period - (now - due) % period,
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        /// The next tick is observed this long after its deadline.
        Observe { late: u64 },
        /// The deadline moves to this long after the latest observation.
        Reset { after: u64 },
    }

    fn step() -> impl Strategy<Value = Step> {
        let late = prop_oneof![
            Just(0),
            Just(4_999_999),
            Just(5_000_000),
            Just(5_000_001),
            0_u64..5_000_000,
            5_000_000_u64..200_000_000,
            // Whole multiples of round periods.
            (1_u64..100).prop_map(|n| n * 1_000_000),
        ];
        prop_oneof![
            6 => late.prop_map(|late| Step::Observe { late }),
            1 => (0_u64..50_000_000).prop_map(|after| Step::Reset { after }),
        ]
    }

    proptest! {
        #[test]
        #[allow(clippy::disallowed_methods, reason = "any instant will do for an origin")]
        fn deadlines_match_tokio(
            behavior in prop_oneof![
                Just(MissedTickBehavior::Burst),
                Just(MissedTickBehavior::Delay),
                Just(MissedTickBehavior::Skip)
            ],
            period in prop_oneof![
                Just(500_000_u64),
                Just(1_000_000),
                Just(5_000_000),
                Just(50_000_000),
                1_u64..100_000_000,
            ],
            steps in proptest::collection::vec(step(), 1..60),
        ) {
            let origin = std::time::Instant::now();
            let at = |ns: u64| origin + Duration::from_nanos(ns);
            let mut schedule = Schedule {
                deadline: origin,
                period: Duration::from_nanos(period),
                behavior,
                tolerance: cadence::DEFAULT_TOLERANCE,
                missed: 0,
            };
            let (mut due, mut now, mut missed) = (0, 0, 0);
            for step in steps {
                match step {
                    Step::Observe { late } => {
                        now = due + late;
                        prop_assert_eq!(schedule.observe(at(now)), at(due));
                        missed += u64::from(late > 5_000_000);
                        due = tokio_next_deadline(behavior, due, now, period);
                    }
                    Step::Reset { after } => {
                        due = now + after;
                        schedule.deadline = at(due);
                    }
                }
                prop_assert_eq!(schedule.deadline, at(due));
                prop_assert_eq!(schedule.missed, missed);
            }
        }
    }
}
