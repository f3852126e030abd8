//! Runs timers of tokio and of this crate in step, on a clock that is paused at any time: each call
//! has the same result and wakes the same tasks before it returns. On a clock that is also resumed,
//! both follow one model, since real time passes between two calls.
#![cfg(feature = "interval")]

#[path = "../src/test_waker.rs"]
mod test_waker;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use osinterval::IntervalGroup;
use proptest::prelude::*;
use test_waker::CountingWaker;
use tokio::time::Instant;

/// A sleep or an interval.
trait Timer {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Instant>>;
    fn reset(&mut self, deadline: Instant);
    fn is_elapsed(&self) -> bool;
}

impl Timer for Pin<Box<tokio::time::Sleep>> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Instant>> {
        self.as_mut().poll(cx).map(|()| None)
    }
    fn reset(&mut self, deadline: Instant) {
        self.as_mut().reset(deadline);
    }
    fn is_elapsed(&self) -> bool {
        self.as_ref().is_elapsed()
    }
}

impl Timer for osinterval::Sleep {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Instant>> {
        Pin::new(self).poll(cx).map(|()| None)
    }
    fn reset(&mut self, deadline: Instant) {
        Pin::new(self).reset(deadline);
    }
    fn is_elapsed(&self) -> bool {
        self.is_elapsed()
    }
}

macro_rules! impl_for_interval {
    ($type:ty) => {
        impl Timer for $type {
            fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Instant>> {
                self.poll_tick(cx).map(Some)
            }
            fn reset(&mut self, deadline: Instant) {
                self.reset_at(deadline);
            }
            fn is_elapsed(&self) -> bool {
                false
            }
        }
    };
}

impl_for_interval!(tokio::time::Interval);
impl_for_interval!(osinterval::OsInterval);

/// Period of the intervals.
const PERIOD: Duration = Duration::from_micros(1_300);

#[derive(Clone, Copy, Debug)]
enum Kind {
    Sleep,
    GroupSleep,
    Interval,
    GroupInterval,
}

#[derive(Clone, Debug)]
enum Step {
    /// Creates a timer that is due this long after the start.
    Create(Kind, u64),
    Poll(usize),
    Reset(usize, u64),
    Drop(usize),
    Advance(u64),
    /// Lets the paused clock leap to the next timer, for at most this long.
    Leap(u64),
}

/// A timer and the waker that it is polled with.
struct Side {
    timer: Box<dyn Timer>,
    waker: Arc<CountingWaker>,
}

impl Side {
    fn new(timer: impl Timer + 'static) -> Self {
        Self { timer: Box::new(timer), waker: Arc::default() }
    }

    fn poll(&mut self) -> Poll<Option<Instant>> {
        let waker = Waker::from(Arc::clone(&self.waker));
        self.timer.poll(&mut Context::from_waker(&waker))
    }
}

/// Two timers with the same deadlines.
struct Pair {
    ours: Side,
    theirs: Side,
}

impl Pair {
    fn new(kind: Kind, deadline: Instant, group: &IntervalGroup) -> Self {
        let period = PERIOD;
        let sleep = || Side::new(Box::pin(tokio::time::sleep_until(deadline)));
        let interval = || Side::new(tokio::time::interval_at(deadline, period));
        let (ours, theirs) = match kind {
            Kind::Sleep => (Side::new(osinterval::sleep_until(deadline)), sleep()),
            Kind::GroupSleep => (Side::new(group.sleep_until(deadline)), sleep()),
            Kind::Interval => (Side::new(osinterval::interval_at(deadline, period)), interval()),
            Kind::GroupInterval => (Side::new(group.interval_at(deadline, period)), interval()),
        };
        Self { ours, theirs }
    }

    fn check(&self) {
        let state = |side: &Side| (side.waker.wake_count(), side.timer.is_elapsed());
        assert_eq!(state(&self.ours), state(&self.theirs));
    }
}

/// Runs the steps, with times in microseconds. The clock is paused before the step `pause_at`.
async fn run(steps: Vec<Step>, pause_at: usize) {
    let start = Instant::now();
    let group = IntervalGroup::builder().resolution(Duration::from_nanos(1)).build().unwrap();
    let mut pairs: Vec<Pair> = Vec::new();
    for (index, step) in steps.into_iter().enumerate() {
        if index == pause_at {
            tokio::time::pause();
        }
        let at = |time: u64| start + Duration::from_micros(time);
        let count = pairs.len().max(1);
        match step {
            Step::Create(kind, time) => pairs.push(Pair::new(kind, at(time), &group)),
            Step::Advance(time) if index >= pause_at => {
                tokio::time::advance(Duration::from_micros(time)).await;
            }
            Step::Leap(time) if index >= pause_at => {
                tokio::time::sleep(Duration::from_micros(time)).await;
            }
            Step::Advance(_) | Step::Leap(_) => {}
            Step::Poll(nth) => {
                if let Some(Pair { ours, theirs }) = pairs.get_mut(nth % count) {
                    assert_eq!(ours.poll(), theirs.poll());
                }
            }
            Step::Reset(nth, time) => {
                if let Some(Pair { ours, theirs }) = pairs.get_mut(nth % count) {
                    ours.timer.reset(at(time));
                    theirs.timer.reset(at(time));
                }
            }
            Step::Drop(nth) => {
                if !pairs.is_empty() {
                    let Pair { ours, theirs } = pairs.swap_remove(nth % count);
                    drop((ours.timer, theirs.timer));
                    assert_eq!(Arc::strong_count(&ours.waker), 1);
                    assert_eq!(ours.waker.wake_count(), theirs.waker.wake_count());
                }
            }
        }
        if index >= pause_at {
            pairs.iter().for_each(Pair::check);
        }
        // Restores the cooperative budget, and wakes no task.
        tokio::task::yield_now().await;
        if index >= pause_at {
            pairs.iter().for_each(Pair::check);
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let kind = prop_oneof![
        Just(Kind::Sleep),
        Just(Kind::GroupSleep),
        Just(Kind::Interval),
        Just(Kind::GroupInterval)
    ];
    let time = 0_u64..20_000;
    prop_oneof![
        4 => (kind, time.clone()).prop_map(|(kind, time)| Step::Create(kind, time)),
        4 => any::<usize>().prop_map(Step::Poll),
        3 => (any::<usize>(), time).prop_map(|(nth, time)| Step::Reset(nth, time)),
        1 => any::<usize>().prop_map(Step::Drop),
        2 => (0_u64..3_000).prop_map(Step::Advance),
        2 => (0_u64..3_000).prop_map(Step::Leap),
    ]
}

/// The clock is paused from the start, some microseconds after the runtime was created.
#[test]
fn paused_timers_run_in_step() {
    let steps = proptest::collection::vec(step(), 1..60);
    proptest!(|(steps in steps, offset_us in 0_u64..1_000)| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            stall(Duration::from_micros(offset_us));
            run(steps, 0).await;
        });
    });
}

/// Tasks wait before the clock is paused. Times are so long that no deadline passes before.
#[test]
fn later_paused_timers_run_in_step() {
    let steps = proptest::collection::vec(step(), 1..60);
    let earlier = (0_u64..1_000_000).prop_map(|time| 60_000_000 + time);
    let created = proptest::collection::vec(earlier, 1..10);
    proptest!(|(steps in steps, created in created)| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let kinds = [Kind::Sleep, Kind::GroupSleep, Kind::Interval, Kind::GroupInterval];
        let mut all = Vec::new();
        for (n, time) in created.into_iter().enumerate() {
            all.extend([Step::Create(kinds[n % kinds.len()], time), Step::Poll(n)]);
        }
        let pause_at = all.len();
        all.extend(steps);
        runtime.block_on(run(all, pause_at));
    });
}

/// A step with a clock that is paused and resumed.
#[derive(Clone, Debug)]
enum ClockStep {
    Timer(Step),
    /// Pauses the running clock, or resumes the paused one.
    Toggle,
}

/// A timer with the state that the model expects.
struct ModelledTimer {
    side: Side,
    deadline: Instant,
    /// Number of wakes at the last poll, if the timer was pending then.
    waits_since: Option<usize>,
}

impl ModelledTimer {
    fn new(side: Side, deadline: Instant) -> Self {
        Self { side, deadline, waits_since: None }
    }

    /// Polls the timer: it is not early, and an interval reports its deadline.
    fn poll(&mut self) {
        let result = self.side.poll();
        let now = Instant::now();
        let Poll::Ready(tick) = result else {
            self.waits_since = Some(self.side.waker.wake_count());
            return;
        };
        assert!(now >= self.deadline, "ready {:?} early", self.deadline - now);
        if let Some(tick) = tick {
            assert_eq!(tick, self.deadline);
            self.deadline += PERIOD;
        }
        self.waits_since = None;
    }

    fn reset(&mut self, deadline: Instant) {
        self.side.timer.reset(deadline);
        self.deadline = deadline;
    }

    /// Polls the timer as its task does, which runs only if it was woken.
    fn poll_if_woken(&mut self) {
        if self.waits_since.is_some_and(|wakes| self.side.waker.wake_count() > wakes) {
            self.poll();
        }
    }
}

/// Runs the steps, with times in microseconds. In the end, every waiting timer wakes its task.
async fn run_with_resumes(steps: Vec<ClockStep>) {
    /// A hundred times as many as the longest wait needs.
    const MAX_TURNS: usize = 5_000;
    let start = Instant::now();
    let group = IntervalGroup::builder().resolution(Duration::from_nanos(1)).build().unwrap();
    let mut timers: Vec<ModelledTimer> = Vec::new();
    let mut is_paused = false;
    for step in steps {
        let at = |time: u64| start + Duration::from_micros(time);
        let count = timers.len().max(1);
        match step {
            ClockStep::Toggle => {
                if is_paused {
                    tokio::time::resume();
                } else {
                    tokio::time::pause();
                }
                is_paused = !is_paused;
            }
            ClockStep::Timer(Step::Create(kind, time)) => {
                let Pair { ours, theirs } = Pair::new(kind, at(time), &group);
                timers.extend([ours, theirs].map(|side| ModelledTimer::new(side, at(time))));
            }
            ClockStep::Timer(Step::Advance(time)) if is_paused => {
                tokio::time::advance(Duration::from_micros(time)).await;
            }
            ClockStep::Timer(Step::Advance(time) | Step::Leap(time)) => {
                tokio::time::sleep(Duration::from_micros(time)).await;
            }
            ClockStep::Timer(Step::Poll(nth)) => {
                timers.get_mut(nth % count).into_iter().for_each(ModelledTimer::poll);
            }
            ClockStep::Timer(Step::Reset(nth, time)) => {
                timers.get_mut(nth % count).into_iter().for_each(|timer| timer.reset(at(time)));
            }
            ClockStep::Timer(Step::Drop(nth)) => {
                if !timers.is_empty() {
                    let Side { timer, waker } = timers.swap_remove(nth % count).side;
                    drop(timer);
                    assert_eq!(Arc::strong_count(&waker), 1);
                }
            }
        }
        tokio::task::yield_now().await;
    }
    for _ in 0..MAX_TURNS {
        timers.iter_mut().for_each(ModelledTimer::poll_if_woken);
        if timers.iter().all(|timer| timer.waits_since.is_none()) {
            return;
        }
        tokio::time::sleep(Duration::from_micros(500)).await;
    }
    panic!("a task was never woken; the clock is paused: {is_paused}");
}

/// The clock is paused and resumed at any time.
#[test]
fn resumed_timers_follow_the_model() {
    let step = prop_oneof![
        6 => step().prop_map(ClockStep::Timer),
        1 => Just(ClockStep::Toggle),
    ];
    let steps = proptest::collection::vec(step, 1..60);
    proptest!(|(steps in steps)| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run_with_resumes(steps));
    });
}

/// Blocks the thread, so that the clock is off a whole millisecond of the runtime.
#[allow(clippy::disallowed_methods, reason = "the real clock has to go on")]
fn stall(length: Duration) {
    std::thread::sleep(length);
}
