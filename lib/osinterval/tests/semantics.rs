//! Runs one script on `tokio::time::Interval` and on each interval of this crate, in real time, and
//! checks that both have the same deadlines.
//!
//! A stall is *at least* as long as the script says, and a busy machine makes it longer. A trial
//! counts only if each tick was observed clearly on one side of the tolerance, and of each multiple
//! of the period; otherwise it is repeated.
#![cfg(feature = "interval")]

use std::time::Duration;

use osinterval::{IntervalGroup, IntervalTimer, MissedTickBehavior, OsInterval, Precision};
use tokio::time::Instant;

/// Long, since a busy or emulated machine needs many trials.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(600);
const TOLERANCE: Duration = Duration::from_millis(5);

#[allow(clippy::disallowed_methods, reason = "the tests compare with the clock")]
fn real_now() -> Instant {
    std::time::Instant::now().into()
}

/// The methods that the scripts use.
trait Interval {
    async fn tick(&mut self) -> Instant;
    fn reset_after(&mut self, after: Duration);
}

impl Interval for tokio::time::Interval {
    async fn tick(&mut self) -> Instant {
        self.tick().await
    }
    fn reset_after(&mut self, after: Duration) {
        self.reset_after(after);
    }
}

impl Interval for OsInterval {
    async fn tick(&mut self) -> Instant {
        self.tick().await
    }
    fn reset_after(&mut self, after: Duration) {
        self.reset_after(after);
    }
}

#[cfg(feature = "blocking")]
impl Interval for osinterval::blocking::Interval {
    async fn tick(&mut self) -> Instant {
        self.tick().unwrap().into()
    }
    fn reset_after(&mut self, after: Duration) {
        self.reset_after(after);
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Tick,
    Stall(Duration),
    /// The next deadline is this long after the call.
    Reset(Duration),
}

/// The effect of the policy after one tick, as far as it does not depend on the length of the
/// stall.
#[derive(Clone, Copy, Debug, PartialEq)]
enum NextDeadline {
    /// Exactly this long after the deadline before.
    After(Duration),
    /// One period after the tick was observed.
    Restarted,
    /// Set by a reset.
    Reset,
}

/// The lateness of an observed tick, as far as the policy depends on it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct LatenessClass {
    is_missed: bool,
    /// The number of whole periods, if the policy depends on that.
    periods: u128,
}

/// A range of time that contains an event.
#[derive(Clone, Copy)]
struct Span {
    earliest: Instant,
    latest: Instant,
}

/// A tick and the time at which the interval observed it.
#[derive(Clone, Copy)]
struct ObservedTick {
    deadline: Instant,
    observed: Span,
}

/// The lateness of each tick and the effect on the next one.
#[derive(Debug, Default)]
struct Trial {
    lateness: Vec<LatenessClass>,
    deadlines: Vec<NextDeadline>,
}

#[derive(Clone, Copy)]
struct Policy {
    period: Duration,
    behavior: MissedTickBehavior,
}

impl Policy {
    /// Classifies the lateness of a tick. `None` if the policy depends on when exactly the tick was
    /// observed.
    fn classify(&self, tick: &ObservedTick) -> Option<LatenessClass> {
        let class_at = |now: Instant| {
            let late = now - tick.deadline;
            let is_missed = late > TOLERANCE;
            let depends_on_periods = is_missed && self.behavior == MissedTickBehavior::Skip;
            let periods = late.as_nanos() / self.period.as_nanos();
            LatenessClass { is_missed, periods: if depends_on_periods { periods } else { 0 } }
        };
        let class = class_at(tick.observed.earliest);
        (class == class_at(tick.observed.latest)).then_some(class)
    }

    /// The effect on the deadline after `tick`, whose lateness is `class`.
    fn next_deadline(
        &self,
        tick: &ObservedTick,
        class: LatenessClass,
        deadline: Instant,
    ) -> NextDeadline {
        if self.behavior == MissedTickBehavior::Delay && class.is_missed {
            assert!(deadline >= tick.observed.earliest + self.period);
            assert!(deadline <= tick.observed.latest + self.period);
            NextDeadline::Restarted
        } else {
            NextDeadline::After(deadline - tick.deadline)
        }
    }
}

/// Runs a script. `None` if a tick was observed too close to the boundary of a class.
async fn run(interval: &mut impl Interval, script: &[Step], policy: Policy) -> Option<Trial> {
    let mut trial = Trial::default();
    let mut last: Option<ObservedTick> = None;
    let mut reset: Option<Span> = None;
    for step in script {
        match *step {
            #[allow(clippy::disallowed_methods, reason = "the thread has to stall")]
            Step::Stall(length) => std::thread::sleep(length),
            Step::Reset(after) => {
                let earliest = real_now() + after;
                interval.reset_after(after);
                reset = Some(Span { earliest, latest: real_now() + after });
            }
            Step::Tick => {
                let tick = observe_tick(interval).await;
                if let Some(Span { earliest, latest }) = reset.take() {
                    assert!(tick.deadline >= earliest && tick.deadline <= latest, "not reset");
                    trial.deadlines.push(NextDeadline::Reset);
                } else if let Some(last) = last {
                    let class = policy.classify(&last)?;
                    trial.lateness.push(class);
                    trial.deadlines.push(policy.next_deadline(&last, class, tick.deadline));
                }
                last = Some(tick);
            }
        }
    }
    Some(trial)
}

async fn observe_tick(interval: &mut impl Interval) -> ObservedTick {
    let polled = real_now();
    let tick = tokio::time::timeout(TRIAL_TIMEOUT, interval.tick());
    let deadline = tick.await.expect("a tick");
    let latest = real_now();
    assert!(latest >= deadline, "early");
    ObservedTick { deadline, observed: Span { earliest: polled.max(deadline), latest } }
}

struct Script {
    period: Duration,
    steps: Vec<Step>,
}

fn scripts() -> [Script; 4] {
    use Step::{Reset, Stall, Tick};
    let ms = Duration::from_millis;
    [
        // A stall shorter than the tolerance, though several periods long.
        Script { period: ms(1), steps: vec![Tick, Stall(ms(3)), Tick, Tick, Tick, Tick, Tick] },
        // A stall longer than the tolerance.
        Script {
            period: ms(10),
            steps: vec![Tick, Stall(ms(37)), Tick, Tick, Tick, Tick, Tick, Tick],
        },
        // A stall close to a multiple of the period, and a second one while catching up.
        Script {
            period: ms(50),
            steps: vec![Tick, Stall(ms(92)), Tick, Stall(ms(20)), Tick, Tick, Tick],
        },
        // Resets between ticks, before and after a stall.
        Script {
            period: ms(15),
            steps: vec![
                Tick,
                Tick,
                Reset(ms(4)),
                Tick,
                Stall(ms(40)),
                Tick,
                Reset(ms(0)),
                Tick,
                Tick,
            ],
        },
    ]
}

/// Compares an interval with tokio's, for all behaviours and scripts.
async fn compare<I: Interval>(create: impl Fn(Instant, Policy) -> I) {
    for behavior in [MissedTickBehavior::Burst, MissedTickBehavior::Delay, MissedTickBehavior::Skip]
    {
        for Script { period, steps } in scripts() {
            let policy = Policy { period, behavior };
            let give_up = real_now() + TRIAL_TIMEOUT;
            while !compare_once(&create, &steps, policy).await {
                assert!(
                    real_now() < give_up,
                    "{behavior:?} at {period:?}: no comparable trials within {TRIAL_TIMEOUT:?}"
                );
            }
        }
    }
}

/// Runs a script on both intervals. Returns `false` if the trials are not comparable, because one
/// was later than the other, or too close to a boundary.
async fn compare_once<I: Interval>(
    create: &impl Fn(Instant, Policy) -> I,
    script: &[Step],
    policy: Policy,
) -> bool {
    let Policy { period, behavior } = policy;
    let start = real_now() + Duration::from_millis(2);
    let mut interval = tokio::time::interval_at(start, period);
    interval.set_missed_tick_behavior(behavior.into());
    let expected = run(&mut interval, script, policy).await;

    let start = real_now() + Duration::from_millis(2);
    let actual = run(&mut create(start, policy), script, policy).await;

    let (Some(expected), Some(actual)) = (expected, actual) else { return false };
    if expected.lateness != actual.lateness {
        return false;
    }
    assert_eq!(
        expected.deadlines, actual.deadlines,
        "{behavior:?} at {period:?}, both after {:?}",
        actual.lateness
    );
    true
}

#[tokio::test]
async fn os_interval_matches_tokio() {
    compare(|start, Policy { period, behavior }| {
        let builder = OsInterval::builder(period).start_at(start);
        builder.missed_tick_behavior(behavior).build().unwrap()
    })
    .await;
}

#[tokio::test]
async fn own_timer_matches_tokio() {
    compare(|start, Policy { period, behavior }| {
        let builder = OsInterval::builder(period).start_at(start).timer(IntervalTimer::Own);
        builder.missed_tick_behavior(behavior).build().unwrap()
    })
    .await;
}

#[tokio::test]
async fn precise_mode_matches_tokio() {
    compare(|start, Policy { period, behavior }| {
        let builder = OsInterval::builder(period).start_at(start).precision(Precision::spin());
        builder.missed_tick_behavior(behavior).build().unwrap()
    })
    .await;
}

#[tokio::test]
#[cfg(feature = "blocking")]
async fn blocking_interval_matches_tokio() {
    compare(|start, Policy { period, behavior }| {
        let builder = osinterval::blocking::Interval::builder(period).start_at(start.into_std());
        builder.missed_tick_behavior(behavior).build().unwrap()
    })
    .await;
}

#[tokio::test]
async fn group_interval_matches_tokio() {
    let group = IntervalGroup::new().unwrap();
    compare(|start, Policy { period, behavior }| {
        let mut interval = group.interval_at(start, period);
        interval.set_missed_tick_behavior(behavior);
        interval
    })
    .await;
}
