//! Compares the timeout with a model on a paused runtime, with exact times and without sleeping.

use std::cell::Cell;
use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use idletimeout::{Clock, IdleTimeout, TokioClock};
use proptest::prelude::*;
use tokio::time::{Instant, advance};

/// The resolution of tokio's timer wheel.
const RESOLUTION: Duration = Duration::from_millis(1);
/// The maximum time by which the paused clock of an idle runtime overshoots. It advances by whole
/// milliseconds from its current time.
const MAX_OVERSHOOT: Duration = Duration::from_millis(1);

fn run_paused<F: Future>(test: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(test)
}

#[derive(Clone, Debug)]
enum Step {
    /// Time passes without a poll.
    Pass(Duration),
    Touch,
    /// A guarded future is ready.
    Message,
    /// A guard is polled once and dropped.
    Cancel,
    /// Another task polls, so the previous task must not be woken.
    Migrate,
    SetLength(Duration),
    /// A guard waits until the timeout fires.
    Wait,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let time = (0_u64..40_000).prop_map(Duration::from_micros);
    let step = prop_oneof![
        4 => time.clone().prop_map(Step::Pass),
        3 => Just(Step::Touch),
        3 => Just(Step::Message),
        2 => Just(Step::Cancel),
        1 => Just(Step::Migrate),
        1 => time.prop_map(Step::SetLength),
        2 => Just(Step::Wait),
    ];
    proptest::collection::vec(step, 1..40)
}

/// The expected state of the timeout.
struct Model {
    length: Duration,
    slack: f64,
    silence_start: Instant,
    /// Whether something has come since the silence began.
    has_activity: bool,
}

impl Model {
    fn new(length: Duration, slack: f64) -> Self {
        Self { length, slack, silence_start: Instant::now(), has_activity: false }
    }

    fn begin_silence(&mut self) {
        self.silence_start = Instant::now();
        self.has_activity = false;
    }

    fn idle_for(&self) -> Duration {
        if self.has_activity { Duration::ZERO } else { self.silence_start.elapsed() }
    }

    /// Returns the time by which a wait from `wait_start` should fire, up to the resolution.
    fn due(&self, wait_start: Instant) -> Instant {
        if self.slack > 0.0 {
            // Checks before the wait had no effect, and the clock overshoots at a check as well.
            let max_delay = self.length.mul_f64(self.slack).max(2 * RESOLUTION) + MAX_OVERSHOOT;
            self.silence_start.max(wait_start) + self.length + max_delay
        } else {
            (self.silence_start + self.length).max(wait_start)
        }
    }
}

type StepResult = Result<(), TestCaseError>;

/// Polls a pending guard once, by this task or by another, and compares with the model.
async fn poll_once(
    idle: Pin<&mut IdleTimeout<TokioClock>>,
    model: &mut Model,
    by_other_task: bool,
) -> StepResult {
    let mut guard = pin!(idle.guard(pending::<()>()));
    let fired = if by_other_task {
        guard.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    } else {
        poll_fn(|cx| Poll::Ready(guard.as_mut().poll(cx).is_ready())).await
    };
    let idle_for = model.silence_start.elapsed();
    prop_assert!(!fired || idle_for >= model.length, "{idle_for:?} of {:?}", model.length);
    // A single poll may be pending although the timeout is overdue, because the timer wheel turns
    // when the runtime parks.
    if fired {
        model.begin_silence();
    }
    Ok(())
}

/// Waits until the timeout fires, and compares the time with the model.
async fn wait_for_firing(idle: Pin<&mut IdleTimeout<TokioClock>>, model: &mut Model) -> StepResult {
    let due = model.due(Instant::now());
    prop_assert!(idle.guard(pending::<()>()).await.is_err());
    let now = Instant::now();
    let earliest = model.silence_start + model.length;
    prop_assert!(now >= earliest, "{:?} early", earliest - now);
    prop_assert!(now <= due + RESOLUTION + MAX_OVERSHOOT, "{:?} late", now - due);
    model.begin_silence();
    Ok(())
}

async fn run_step(
    mut idle: Pin<&mut IdleTimeout<TokioClock>>,
    model: &mut Model,
    step: Step,
) -> StepResult {
    if model.has_activity && matches!(step, Step::Cancel | Step::Migrate | Step::Wait) {
        model.begin_silence();
    }
    match step {
        Step::Pass(time) => advance(time).await,
        Step::Touch => {
            idle.touch();
            model.begin_silence();
        }
        Step::Message => {
            prop_assert_eq!(idle.as_mut().guard(async { 7 }).await, Ok(7));
            model.has_activity = true;
        }
        Step::Cancel => poll_once(idle, model, false).await?,
        Step::Migrate => poll_once(idle, model, true).await?,
        Step::SetLength(length) => {
            model.length = length;
            idle.set_length(length);
        }
        Step::Wait => wait_for_firing(idle, model).await?,
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The timeout never fires early, and at most a resolution late.
    #[test]
    fn firing_matches_the_model(
        length_us in 0_u64..30_000,
        steps in steps(),
        slack in prop_oneof![Just(0.0), 0.0..1.0_f64],
    ) {
        run_paused(async {
            let length = Duration::from_micros(length_us);
            let mut idle = pin!(IdleTimeout::with_clock(length, TokioClock).slack(slack));
            let mut model = Model::new(length, slack);
            for step in steps {
                run_step(idle.as_mut(), &mut model, step).await?;
                let (actual, expected) = (idle.idle_for(), model.idle_for());
                prop_assert!(actual == expected || slack > 0.0 && actual < expected);
            }
            Ok(())
        })?;
    }
}

/// A clock that is fast by its error bound.
struct FastClock;

impl Clock for FastClock {
    type Stamp = Instant;

    fn now(&self) -> Instant {
        Instant::now()
    }

    fn elapsed(&self, stamp: Instant) -> Duration {
        stamp.elapsed() + Duration::from_millis(3)
    }

    fn error_bound(&self) -> Duration {
        Duration::from_millis(3)
    }
}

#[test]
fn clock_error_never_fires_early() {
    run_paused(async {
        let length = Duration::from_millis(10);
        let mut idle = pin!(IdleTimeout::with_clock(length, FastClock));
        for _ in 0..5 {
            advance(Duration::from_millis(4)).await;
            idle.as_mut().touch();
            let start = Instant::now();
            idle.as_mut().await;
            assert!(start.elapsed() >= length && start.elapsed() <= length + RESOLUTION);
        }
    });
}

/// Tokio's clock, which counts its readings.
struct CountingClock<'a>(&'a Cell<u32>);

impl Clock for CountingClock<'_> {
    type Stamp = Instant;

    fn now(&self) -> Instant {
        self.0.set(self.0.get() + 1);
        Instant::now()
    }

    fn elapsed(&self, stamp: Instant) -> Duration {
        stamp.elapsed()
    }

    fn error_bound(&self) -> Duration {
        Duration::ZERO
    }
}

/// Guards a thousand messages with a timeout of a second, and returns how often the clock is read.
fn count_readings<F: Future<Output = ()>>(slack: f64, message: impl Fn() -> F) -> u32 {
    let readings = Cell::new(0);
    run_paused(async {
        let idle = IdleTimeout::with_clock(Duration::from_secs(1), CountingClock(&readings));
        let mut idle = pin!(idle.slack(slack));
        readings.set(0);
        for _ in 0..1_000 {
            assert_eq!(idle.as_mut().guard(message()).await, Ok(()));
        }
        readings.get()
    })
}

#[test]
fn ready_messages_read_no_clock() {
    assert_eq!(count_readings(0.0, || async {}), 0);
    assert_eq!(count_readings(0.1, || async {}), 0);
}

#[test]
fn awaited_messages_read_clock_once() {
    // Each message is ready at its second poll, after a millisecond.
    let message = || tokio::time::sleep(Duration::from_millis(1));
    // The first wait does not follow a wait that has completed, so it takes no stamp.
    assert_eq!(count_readings(0.0, message), 999);
    // With a slack, only the checks read the clock, ten times a second.
    assert!(count_readings(0.1, message) <= 12);
}

#[test]
fn slack_fires_within_its_bounds() {
    let length = Duration::from_millis(100);
    for pause_us in [1_u64, 999, 1_000, 7_000, 9_999, 10_001, 99_000] {
        run_paused(async {
            let mut idle = pin!(IdleTimeout::with_clock(length, TokioClock).slack(0.1));
            for messages in 0..20 {
                for _ in 0..messages {
                    let message = tokio::time::sleep(Duration::from_micros(pause_us));
                    assert_eq!(idle.as_mut().guard(message).await, Ok(()));
                }
                let start = Instant::now();
                assert!(idle.as_mut().guard(pending::<()>()).await.is_err());
                let elapsed = start.elapsed();
                assert!(elapsed >= length, "{elapsed:?} of {length:?}");
                assert!(
                    elapsed <= length + length / 10 + RESOLUTION + MAX_OVERSHOOT,
                    "{elapsed:?}"
                );
            }
        });
    }
}

#[test]
fn work_counts_only_after_touch() {
    run_paused(async {
        let length = Duration::from_millis(10);
        let mut idle = pin!(IdleTimeout::with_clock(length, TokioClock));
        for (touches, fires_after) in [(false, length), (true, Duration::from_millis(4))] {
            assert_eq!(idle.as_mut().guard(async {}).await, Ok(()));
            if touches {
                idle.as_mut().touch();
            }
            advance(Duration::from_millis(6)).await;
            let start = Instant::now();
            assert!(idle.as_mut().guard(pending::<()>()).await.is_err());
            assert_eq!(start.elapsed(), fires_after);
        }
    });
}

#[test]
#[should_panic(expected = "invalid slack 1.5")]
fn slack_above_one_panics() {
    run_paused(async {
        drop(IdleTimeout::new(Duration::from_secs(1)).slack(1.5));
    });
}

//  message    0    6   12   18   24
//  polled     |----|----|----|----|...............!
//  fires                                          34
#[test]
fn messages_postpone_firing() {
    run_paused(async {
        let start = Instant::now();
        let mut idle = pin!(IdleTimeout::with_clock(Duration::from_millis(10), TokioClock));
        for _ in 0..4 {
            let message = tokio::time::sleep(Duration::from_millis(6));
            assert_eq!(idle.as_mut().guard(message).await, Ok(()));
        }
        idle.await;
        assert_eq!(start.elapsed(), Duration::from_millis(34));
    });
}

#[test]
fn firings_begin_new_periods() {
    run_paused(async {
        let start = Instant::now();
        let mut idle = pin!(IdleTimeout::with_clock(Duration::from_millis(10), TokioClock));
        for fires_ms in [10, 20, 30] {
            idle.as_mut().await;
            assert_eq!(start.elapsed(), Duration::from_millis(fires_ms));
        }
    });
}

#[test]
fn late_messages_are_delivered() {
    run_paused(async {
        let mut idle = pin!(IdleTimeout::with_clock(Duration::from_millis(10), TokioClock));
        advance(Duration::from_secs(1)).await;
        assert_eq!(idle.as_mut().guard(async { "late" }).await, Ok("late"));
    });
}

#[test]
fn past_silence_fires_immediately() {
    run_paused(async {
        let mut idle = pin!(IdleTimeout::with_clock(Duration::from_millis(10), TokioClock));
        idle.as_mut().touch();
        advance(Duration::from_secs(1)).await;
        let before = Instant::now();
        assert!(idle.as_mut().guard(pending::<()>()).await.is_err());
        assert_eq!(before.elapsed(), Duration::ZERO);
    });
}

#[test]
fn unrepresentable_length_never_fires() {
    run_paused(async {
        let mut idle = pin!(IdleTimeout::with_clock(Duration::MAX, TokioClock));
        let day = tokio::time::sleep(Duration::from_secs(86_400));
        assert_eq!(idle.as_mut().guard(day).await, Ok(()));
    });
}

/// A pending future that spends the cooperative budget at every poll.
struct GreedyFuture;

impl Future for GreedyFuture {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        while let Poll::Ready(budget) = tokio::task::coop::poll_proceed(cx) {
            budget.made_progress();
        }
        Poll::Pending
    }
}

#[test]
fn spent_budget_does_not_prevent_firing() {
    run_paused(async {
        // Only tasks have a budget, so the timeout is in a task. The greedy future wakes itself, so
        // the paused clock must be advanced explicitly.
        let task = tokio::spawn(async {
            let mut idle = pin!(IdleTimeout::with_clock(Duration::from_millis(5), TokioClock));
            idle.as_mut().guard(GreedyFuture).await
        });
        while !task.is_finished() {
            advance(RESOLUTION).await;
        }
        assert!(task.await.unwrap().is_err());
    });
}

#[test]
fn zero_timeout_loop_yields() {
    run_paused(async {
        let looping = tokio::spawn(async {
            let mut idle = pin!(IdleTimeout::with_clock(Duration::ZERO, TokioClock));
            loop {
                idle.as_mut().await;
            }
        });
        let other = tokio::spawn(async { 1 });
        assert_eq!(other.await.unwrap(), 1);
        looping.abort();
    });
}

#[test]
fn registrations_are_once_per_length() {
    run_paused(async {
        let mut idle = pin!(IdleTimeout::with_clock(Duration::from_secs(1), TokioClock));
        assert_eq!(idle.registrations(), 0);
        // A message comes every millisecond for ten lengths.
        for _ in 0..10_000 {
            assert_eq!(idle.as_mut().guard(tokio::time::sleep(RESOLUTION)).await, Ok(()));
        }
        // The timer is registered at the first wait, and once per second.
        assert!((10..=12).contains(&idle.registrations()), "{}", idle.registrations());
    });
}
