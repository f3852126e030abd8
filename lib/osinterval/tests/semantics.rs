//! The same script on `tokio::time::Interval` and on ours, in real time: the same deadlines come
//! out.
//!
//! A stall is as long as the script says *at least*, and a busy machine makes it longer. A trial
//! counts only if what was observed leaves no doubt on which side of the tolerance, and of a
//! multiple of the period, each tick was; else it is repeated.
#![cfg(feature = "interval")]

use std::time::Duration;

use osinterval::{GroupInterval, IntervalGroup, MissedTickBehavior, OsInterval, Precision};
use tokio::time::Instant;

/// A busy machine, or an emulated one, takes many trials.
const GIVE_UP_AFTER: Duration = Duration::from_secs(60);
const TOLERANCE: Duration = Duration::from_millis(5);

#[allow(clippy::disallowed_methods, reason = "the tests compare with the clock")]
fn real_now() -> Instant {
    std::time::Instant::now().into()
}

/// What both kinds of interval can do.
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

impl Interval for GroupInterval {
    async fn tick(&mut self) -> Instant {
        self.tick().await
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

/// What the policy did at one tick, as far as it does not depend on how long the stall really was.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Next {
    /// So long after the deadline, exactly.
    After(Duration),
    /// One period after the tick was observed.
    Restarted,
    /// Set by hand.
    Reset,
}

/// On which side of the tolerance a tick was observed, and, where that decides, after how many
/// whole periods.
type Observed = (bool, u128);

/// Runs the script: what was observed of each tick, and what was made of it for the next. `None`
/// where something was too close to an edge to tell.
async fn run(
    interval: &mut impl Interval,
    script: &[Step],
    period: Duration,
    behavior: MissedTickBehavior,
) -> Option<(Vec<Observed>, Vec<Next>)> {
    let mut sides = Vec::new();
    let mut seen = Vec::new();
    // Deadline of the last tick, and the times between which it was observed.
    let mut last: Option<(Instant, Instant, Instant)> = None;
    let mut reset = None;
    for step in script {
        match *step {
            #[allow(clippy::disallowed_methods, reason = "a stall is what is wanted")]
            Step::Stall(length) => std::thread::sleep(length),
            Step::Reset(after) => {
                let before = real_now();
                interval.reset_after(after);
                reset = Some((before + after, real_now() + after));
            }
            Step::Tick => {
                let polled = real_now();
                let due =
                    tokio::time::timeout(GIVE_UP_AFTER, interval.tick()).await.expect("a tick");
                let observed = (polled.max(due), real_now());
                assert!(observed.1 >= due, "early");
                if let Some((from, to)) = reset.take() {
                    assert!(due >= from && due <= to, "{behavior:?}: a reset moves the deadline");
                    seen.push(Next::Reset);
                } else if let Some((before, earliest, latest)) = last {
                    let late = [earliest - before, latest - before];
                    // What the policy makes of it must not depend on the instant within the
                    // observation.
                    let multiple = |l: Duration| match behavior {
                        MissedTickBehavior::Skip if l > TOLERANCE => {
                            l.as_nanos() / period.as_nanos()
                        }
                        _ => 0,
                    };
                    let side = late.map(|l| (l > TOLERANCE, multiple(l)));
                    if side[0] != side[1] {
                        return None;
                    }
                    sides.push(side[0]);
                    let restarted = behavior == MissedTickBehavior::Delay && side[0].0;
                    if restarted {
                        assert!(due >= earliest + period && due <= latest + period);
                    }
                    seen.push(if restarted { Next::Restarted } else { Next::After(due - before) });
                }
                last = Some((due, observed.0, observed.1));
            }
        }
    }
    Some((sides, seen))
}

fn scripts() -> Vec<(Duration, Vec<Step>)> {
    use Step::{Reset, Stall, Tick};
    let ms = Duration::from_millis;
    vec![
        // Below the tolerance, though several periods long.
        (ms(1), vec![Tick, Stall(ms(3)), Tick, Tick, Tick, Tick, Tick]),
        // Above it.
        (ms(10), vec![Tick, Stall(ms(37)), Tick, Tick, Tick, Tick, Tick, Tick]),
        // At a multiple of the period and the tolerance together, and a second stall while catching
        // up.
        (ms(50), vec![Tick, Stall(ms(92)), Tick, Stall(ms(20)), Tick, Tick, Tick]),
        // Resets between ticks, before and after a stall.
        (
            ms(15),
            vec![Tick, Tick, Reset(ms(4)), Tick, Stall(ms(40)), Tick, Reset(ms(0)), Tick, Tick],
        ),
    ]
}

async fn compare(
    make: impl Fn(Instant, Duration, MissedTickBehavior) -> Box<dyn FnOnce() -> Ours>,
) {
    for behavior in [MissedTickBehavior::Burst, MissedTickBehavior::Delay, MissedTickBehavior::Skip]
    {
        for (period, script) in scripts() {
            let mut decided = false;
            let give_up = real_now() + GIVE_UP_AFTER;
            while !decided && real_now() < give_up {
                let start = real_now() + Duration::from_millis(2);
                let mut theirs = tokio::time::interval_at(start, period);
                theirs.set_missed_tick_behavior(behavior.into());
                let theirs = run(&mut theirs, &script, period, behavior).await;
                let start = real_now() + Duration::from_millis(2);
                let ours = match make(start, period, behavior)() {
                    Ours::Single(mut interval) => {
                        run(&mut interval, &script, period, behavior).await
                    }
                    Ours::Member(mut interval) => {
                        run(&mut interval, &script, period, behavior).await
                    }
                };
                let (Some((theirs_saw, theirs)), Some((ours_saw, ours))) = (theirs, ours) else {
                    continue;
                };
                // Where one of them was later than the other, the trial decides nothing.
                if theirs_saw == ours_saw {
                    assert_eq!(
                        theirs, ours,
                        "{behavior:?} at {period:?}: the same was observed, {ours_saw:?}"
                    );
                    decided = true;
                }
            }
            assert!(
                decided,
                "{behavior:?} at {period:?}: never observed alike within {GIVE_UP_AFTER:?}"
            );
        }
    }
}

enum Ours {
    Single(OsInterval),
    Member(GroupInterval),
}

#[tokio::test]
async fn an_os_interval_has_the_deadlines_of_tokio() {
    compare(|start, period, behavior| {
        Box::new(move || {
            let builder =
                OsInterval::builder(period).start_at(start).missed_tick_behavior(behavior);
            Ours::Single(builder.build().unwrap())
        })
    })
    .await;
}

#[tokio::test]
async fn the_precise_mode_has_the_deadlines_of_tokio() {
    compare(|start, period, behavior| {
        Box::new(move || {
            let builder =
                OsInterval::builder(period).start_at(start).missed_tick_behavior(behavior);
            Ours::Single(builder.precision(Precision::spin()).build().unwrap())
        })
    })
    .await;
}

#[tokio::test]
async fn an_interval_of_a_group_has_the_deadlines_of_tokio() {
    let group = IntervalGroup::new().unwrap();
    compare(|start, period, behavior| {
        let group = group.clone();
        Box::new(move || {
            let mut interval = group.interval_at(start, period);
            interval.set_missed_tick_behavior(behavior);
            Ours::Member(interval)
        })
    })
    .await;
}
