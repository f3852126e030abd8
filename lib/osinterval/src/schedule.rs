//! The schedule of an interval, and the methods that all kinds of interval share.

use std::time::{Duration, Instant};

use cadence::MissedTickBehavior;

use crate::discipline::{Discipline, Steering};
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
    /// The servo, if the interval follows another clock.
    pub(crate) discipline: Option<Box<Discipline>>,
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
        self.deadline = match (self.deadline.checked_add(self.period), &self.discipline) {
            (Some(next), Some(discipline)) => discipline.align(next, self.period),
            (Some(next), None) => next,
            // A time in the far future is not one of the ticks, so it is not aligned.
            (None, _) => add_or_far(self.deadline, self.period, self.deadline),
        };
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
        let period = match self.discipline {
            // The distance to the next tick, which follows the other clock.
            Some(_) => self.deadline.duration_since(due).max(Duration::from_nanos(1)),
            None => self.period,
        };
        let step = cadence::next(self.behavior, late, period, self.tolerance);
        // After many cycles, a multiple of one distance is not an event.
        let next_event = match (self.behavior, &self.discipline) {
            (MissedTickBehavior::Skip, Some(discipline)) => {
                discipline.next_event(due, now, self.period)
            }
            _ => None,
        };
        let next = next_event.unwrap_or_else(|| add_or_far(due, step.after, now));
        self.missed += u64::from(step.missed);
        std::mem::replace(&mut self.deadline, next) != next
    }

    /// Corrects the servo by an event of the other clock, from the tick after the next one on.
    pub(crate) fn steer(&mut self, number: Option<u64>, event: Instant) {
        match &mut self.discipline {
            Some(discipline) => discipline.observe(number, event, self.period),
            None => self.discipline = Some(Box::new(Discipline::new(number, event))),
        }
    }

    pub(crate) fn steering(&self) -> Option<Steering> {
        let discipline = self.discipline.as_ref()?;
        Some(discipline.steering(self.deadline, self.period))
    }
}

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

            /// Makes the ticks follow another clock: corrects their rate and phase by an event of
            /// that clock, which happened, or will happen, at `event`. The first call allocates.
            ///
            /// Call it for each event that is observed; [`Steering`](crate::Steering) has an
            /// example. A tick is due at each event of the other clock, whose cycle is the period to
            /// within 1 %. For ticks at another phase of the cycle, add that phase to `event`. Whole
            /// cycles are not counted: the event belongs to the tick that is closest. If events
            /// scatter by half a period or more, use [`Self::steer_numbered`].
            ///
            /// A correction moves the tick after the next one, and costs no system call. Deadlines
            /// remain ordered: the distance of two differs from the period by at most a twentieth,
            /// except after missed ticks with `Skip` or `Delay` and after a reset. No tick is early
            /// with respect to its deadline.
            ///
            /// # The servo
            /// It is a PI servo with the gains of linuxptp, which depend on the time between
            /// observations. Events every millisecond that scatter by 20 us (standard deviation) are
            /// followed to within 10 us in 99 % of the ticks. The servo starts with the median of 15
            /// events. An event that deviates by more than five times the mean deviation, plus 1 us,
            /// is ignored. If 15 in a row do, the other clock has jumped: the servo starts again from
            /// their median, and the ticks move there in the shorter direction, by steps of a
            /// twentieth of the period. During a gap, the ticks continue at the last rate. Events
            /// less than half a period after the last one are ignored, since they were queued behind
            /// it.
            ///
            /// # Other methods
            /// - `reset` and its variants move the next tick as always. The ticks after it return to
            ///   the other clock by steps of a twentieth of the period, as they do after a slip
            ///   of [`MissedTickBehavior::Delay`](cadence::MissedTickBehavior::Delay).
            /// - With [`MissedTickBehavior::Skip`](cadence::MissedTickBehavior::Skip) the ticks
            ///   continue at the next event of the other clock, also while they return to it.
            /// - A new period keeps the relative rate, and a tick at the last event.
            /// - [`Self::stop_steering`] resets the servo.
            pub fn steer(&mut self, event: $instant) {
                self.schedule.steer(None, event.into());
            }

            /// Like [`Self::steer`], for an event whose number in the sequence of the other clock is
            /// known. The number counts cycles, so events may scatter by more than the period. A
            /// number that wraps must be extended by the caller. Events with and without a number
            /// may be mixed: one without belongs to the tick that is closest.
            pub fn steer_numbered(&mut self, number: u64, event: $instant) {
                self.schedule.steer(Some(number), event.into());
            }

            /// Returns the state of the servo; `None` if the interval is not steered.
            #[must_use]
            pub fn steering(&self) -> Option<crate::Steering> {
                self.schedule.steering()
            }

            /// Stops following the other clock and forgets its rate. Later ticks are one period
            /// apart, from the next one on.
            pub fn stop_steering(&mut self) {
                self.schedule.discipline = None;
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
                discipline: None,
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

    const MS: Duration = Duration::from_millis(1);

    #[allow(clippy::disallowed_methods, reason = "any instant will do for an origin")]
    fn schedule(period: Duration, behavior: MissedTickBehavior) -> Schedule {
        let deadline = Instant::now();
        Schedule { deadline, period, behavior, tolerance: MS, missed: 0, discipline: None }
    }

    /// Returns a schedule of 1 ms that has followed a clock which is 100 ppm slow for 500 cycles.
    fn steered(behavior: MissedTickBehavior) -> Schedule {
        let mut schedule = schedule(MS, behavior);
        let first = schedule.deadline + MS * 3 / 10;
        for k in 0..500 {
            schedule.observe(schedule.deadline);
            schedule.steer(None, first + Duration::from_nanos(1_000_100) * k);
        }
        schedule
    }

    /// Returns the time from the next tick to the closest event, in nanoseconds.
    fn distance_ns(schedule: &Schedule) -> i64 {
        let steering = schedule.steering().unwrap();
        assert!(
            steering.is_locked && (-100_005..-99_985).contains(&steering.rate_ppb),
            "{steering:?}"
        );
        steering.offset_ns
    }

    #[test]
    fn steered_grid_follows_the_events() {
        let mut schedule = steered(MissedTickBehavior::Burst);
        let due = schedule.observe(schedule.deadline);
        assert!((schedule.deadline - due).as_nanos().abs_diff(1_000_100) <= 1);
        assert!(distance_ns(&schedule).abs() < 1_000, "{}", distance_ns(&schedule));
        schedule.discipline = None;
        let due = schedule.observe(schedule.deadline);
        assert_eq!(schedule.deadline - due, MS);
    }

    #[test]
    fn missed_ticks_keep_the_steered_grid() {
        let burst = &mut steered(MissedTickBehavior::Burst);
        let skip = &mut steered(MissedTickBehavior::Skip);
        for schedule in [burst, skip] {
            let is_skip = schedule.behavior == MissedTickBehavior::Skip;
            let now = schedule.deadline + MS * 7 / 2;
            let due = schedule.observe(now);
            assert_eq!(schedule.deadline > now, is_skip);
            let cycles = if is_skip { 4 } else { 1 };
            assert!((schedule.deadline - due).as_nanos().abs_diff(1_000_100 * cycles) <= 4);
            assert!(distance_ns(schedule).abs() < 1_000, "{}", distance_ns(schedule));
        }
    }

    /// Events scatter by 20 us, and the last one before a stall is 20 us late. So the distance to the
    /// next tick differs from a cycle.
    #[test]
    fn skip_continues_at_an_event() {
        let schedule = &mut schedule(MS, MissedTickBehavior::Skip);
        let cycle = Duration::from_nanos(1_000_100);
        let first = schedule.deadline + MS * 3 / 10;
        let mut number = 0;
        for stall in [2, 1_000, 333, 1_000, 10_000] {
            for k in 0..503 {
                schedule.observe(schedule.deadline);
                let scatter = Duration::from_micros(10) * (k * 2 % 5);
                schedule.steer(None, first + cycle * number + scatter);
                number += 1;
            }
            let now = schedule.deadline + MS * stall + MS / 2;
            schedule.observe(now);
            assert!(schedule.deadline > now && schedule.deadline < now + cycle);
            let since_first = (schedule.deadline - first).as_nanos();
            let phase = since_first % cycle.as_nanos();
            assert!(phase.abs_diff(20_000) < 15_000, "{stall}: {phase}");
            number = (since_first / cycle.as_nanos()) as u32 + 1;
        }
    }

    #[test]
    fn slips_and_resets_return_to_events() {
        let delay = &mut steered(MissedTickBehavior::Delay);
        delay.observe(delay.deadline + MS * 24 / 10);
        let reset = &mut steered(MissedTickBehavior::Burst);
        reset.deadline += MS * 4 / 10;
        for schedule in [delay, reset] {
            assert!((390_000..=410_000).contains(&distance_ns(schedule)));
            for returned in (1..=7).rev() {
                schedule.observe(schedule.deadline);
                let expected_ns = 50_000 * returned;
                assert!(distance_ns(schedule).abs_diff(expected_ns) < 10_000);
            }
            schedule.observe(schedule.deadline);
            assert!(distance_ns(schedule).abs() < 1_000);
        }
    }

    #[test]
    fn new_period_keeps_phase_and_rate() {
        let mut schedule = steered(MissedTickBehavior::Burst);
        schedule.period = MS / 2;
        for _ in 0..20 {
            schedule.observe(schedule.deadline);
        }
        let due = schedule.observe(schedule.deadline);
        assert!((schedule.deadline - due).as_nanos().abs_diff(500_050) <= 1);
        assert!(distance_ns(&schedule).abs() < 1_000);
    }

    /// The first numbers state no distance, since the earlier events have none.
    #[test]
    fn numbers_may_begin_later() {
        let mut schedule = steered(MissedTickBehavior::Burst);
        let first = schedule.deadline;
        for k in 0..500 {
            let event = first + Duration::from_nanos(1_000_100 * k);
            schedule.steer(Some(u64::MAX / 3 + k), event);
            schedule.observe(schedule.deadline);
            assert!(distance_ns(&schedule).abs() < 1_000, "{k}: {}", distance_ns(&schedule));
        }
    }

    #[test]
    fn unrepresentable_period_moves_deadlines_on() {
        let mut schedule = steered(MissedTickBehavior::Burst);
        schedule.period = Duration::MAX;
        for _ in 0..10 {
            let due = schedule.observe(schedule.deadline);
            assert!(schedule.deadline > due);
        }
    }

    #[test]
    fn numbered_events_may_scatter_by_periods() {
        let mut schedule = schedule(MS, MissedTickBehavior::Burst);
        let first = schedule.deadline;
        for k in 0..20_000_u32 {
            // From 0 to 3 periods late, in an order that repeats after 31 events.
            let late = MS * (k * 7 % 31) / 10;
            schedule.steer(Some((u64::MAX - 5_000).wrapping_add(k.into())), first + MS * k + late);
            schedule.observe(schedule.deadline);
        }
        let steering = schedule.steering().unwrap();
        assert!(steering.is_locked && steering.rate_ppb.abs() < 100_000, "{steering:?}");
        assert!((700_000..800_000).contains(&steering.deviation_ns), "{steering:?}");
        // The mean is one and a half periods.
        let phase = (schedule.deadline - first).as_nanos() % 1_000_000;
        assert!(phase.abs_diff(500_000) < 100_000, "{phase}");
    }

    proptest! {
        #[test]
        fn extreme_events_keep_deadlines_in_order(
            period in prop_oneof![
                Just(Duration::from_nanos(1)),
                Just(Duration::from_nanos(19)),
                Just(MS),
                Just(Duration::from_secs(u64::MAX / 1_000_000)),
                Just(Duration::MAX),
            ],
            events in proptest::collection::vec(
                (
                    proptest::option::of(prop_oneof![any::<u64>(), 0_u64..5]),
                    prop_oneof![any::<i64>(), -3_000_000_i64..3_000_000],
                    any::<u16>(),
                ),
                1..200,
            ),
        ) {
            let mut schedule = schedule(period, MissedTickBehavior::Burst);
            let now = schedule.deadline;
            for (number, after_ns, late_ns) in events {
                let distance = Duration::from_nanos(after_ns.unsigned_abs());
                let event = if after_ns < 0 { now.checked_sub(distance) } else { now.checked_add(distance) };
                schedule.steer(number, event.unwrap_or(now));
                let due = schedule.deadline;
                let late = Duration::from_nanos(late_ns.into());
                schedule.observe(add_or_far(due, late, now));
                if let Some(nominal) = due.checked_add(period) {
                    let step = (schedule.deadline - due).as_secs_f64() / (nominal - due).as_secs_f64();
                    prop_assert!((0.949..=1.051).contains(&step), "{step}");
                }
                let steering = schedule.steering().unwrap();
                prop_assert!(steering.rate_ppb.abs() <= 10_102_000, "{steering:?}");
            }
        }
    }
}
