//! The timeout against a model, on a paused runtime: exact times, no sleeping.

use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use idletimeout::{Clock, IdleTimeout, TokioClock};
use proptest::prelude::*;
use tokio::time::{Instant, advance};

/// Tokio's wheel turns once a millisecond.
const RESOLUTION: Duration = Duration::from_millis(1);
/// An idle runtime's paused clock jumps by whole milliseconds from wherever it is: past the turn it
/// aims at by up to one.
const JUMP: Duration = Duration::from_millis(1);

fn paused<F: Future>(test: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(test)
}

#[derive(Clone, Debug)]
enum Step {
    /// Time passes while nobody polls.
    Pass(Duration),
    Touch,
    /// A guarded future that is ready.
    Message,
    /// Polled once, then dropped.
    Cancel,
    /// Another task polls: the one before must not be the one that is woken.
    Migrate,
    SetLength(Duration),
    /// Waits until it fires.
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

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The model is the length, the moment at which the silence began, and whether something has
    /// come since.
    #[test]
    fn fires_never_early_and_at_most_a_resolution_late(
        length_us in 0_u64..30_000,
        steps in steps(),
        slack in prop_oneof![Just(0.0), 0.0..1.0_f64],
    ) {
        paused(async {
            let mut length = Duration::from_micros(length_us);
            let mut idle = pin!(IdleTimeout::with_clock(length, TokioClock).slack(slack));
            let (mut last, mut came) = (Instant::now(), false);
            for step in steps {
                if came && matches!(step, Step::Cancel | Step::Migrate | Step::Wait) {
                    (last, came) = (Instant::now(), false);
                }
                match step {
                    Step::Pass(time) => advance(time).await,
                    Step::Touch => {
                        idle.as_mut().touch();
                        (last, came) = (Instant::now(), false);
                    }
                    Step::Message => {
                        prop_assert_eq!(idle.as_mut().guard(async { 7 }).await, Ok(7));
                        came = true;
                    }
                    Step::Cancel | Step::Migrate => {
                        let mut guard = pin!(idle.as_mut().guard(pending::<()>()));
                        let fired = if matches!(step, Step::Cancel) {
                            poll_fn(|cx| Poll::Ready(guard.as_mut().poll(cx).is_ready())).await
                        } else {
                            guard.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
                        };
                        let idle_for = last.elapsed();
                        prop_assert!(!fired || idle_for >= length, "fired after {idle_for:?} of {length:?}");
                        // One poll may find what is over due still pending: the wheel turns when
                        // the runtime parks.
                        if fired {
                            last = Instant::now();
                        }
                    }
                    Step::SetLength(to) => {
                        length = to;
                        idle.as_mut().set_length(to);
                    }
                    Step::Wait => {
                        let from = Instant::now();
                        prop_assert!(idle.as_mut().guard(pending::<()>()).await.is_err());
                        // With a slack, looks while nobody waited found nothing out; and the clock
                        // jumps to a look, too.
                        let due = if slack > 0.0 {
                            last.max(from) + length + length.mul_f64(slack).max(2 * RESOLUTION) + JUMP
                        } else {
                            (last + length).max(from)
                        };
                        let now = Instant::now();
                        prop_assert!(now >= last + length, "{:?} early", last + length - now);
                        prop_assert!(now <= due + RESOLUTION + JUMP, "{:?} late", now - due);
                        last = now;
                    }
                }
                let idle_for = if came { Duration::ZERO } else { last.elapsed() };
                prop_assert!(idle.idle_for() == idle_for || slack > 0.0 && idle.idle_for() < idle_for);
            }
            Ok(())
        })?;
    }
}

/// A clock that claims more time than has passed, within its own error bound.
struct Fast;

impl Clock for Fast {
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
fn an_error_of_the_clock_within_its_bound_does_not_make_it_early() {
    paused(async {
        let length = Duration::from_millis(10);
        let mut idle = pin!(IdleTimeout::with_clock(length, Fast));
        for _ in 0..5 {
            advance(Duration::from_millis(4)).await;
            idle.as_mut().touch();
            let start = Instant::now();
            idle.as_mut().await;
            assert!(start.elapsed() >= length && start.elapsed() <= length + RESOLUTION);
        }
    });
}

/// Tokio's clock, and how often it was read.
struct Counting<'a>(&'a std::cell::Cell<u32>);

impl Clock for Counting<'_> {
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

#[test]
fn a_message_that_is_there_reads_no_clock_and_one_that_is_waited_for_reads_it_once() {
    let reads = std::cell::Cell::new(0);
    let reads_of = |slack, ready: bool| {
        paused(async {
            let mut idle = pin!(
                IdleTimeout::with_clock(Duration::from_secs(1), Counting(&reads)).slack(slack)
            );
            reads.set(0);
            for _ in 0..1_000 {
                // Ready at its first poll, or at its second; a second for all thousand.
                let message = tokio::time::sleep(if ready {
                    Duration::ZERO
                } else {
                    Duration::from_millis(1)
                });
                if ready {
                    assert_eq!(idle.as_mut().guard(async {}).await, Ok(()));
                } else {
                    assert_eq!(idle.as_mut().guard(message).await, Ok(()));
                }
            }
            reads.get()
        })
    };
    assert_eq!(reads_of(0.0, true), 0);
    assert_eq!(reads_of(0.1, true), 0);
    // The first wait follows none that has completed.
    assert_eq!(reads_of(0.0, false), 999);
    // Only the looks, ten a second.
    assert!(reads_of(0.1, false) <= 12);
}

#[test]
fn with_slack_it_fires_after_its_length_and_before_the_slack_is_over() {
    let length = Duration::from_millis(100);
    for pause_us in [1_u64, 999, 1_000, 7_000, 9_999, 10_001, 99_000] {
        paused(async {
            let mut idle = pin!(IdleTimeout::with_clock(length, TokioClock).slack(0.1));
            for messages in 0..20 {
                for _ in 0..messages {
                    let message = tokio::time::sleep(Duration::from_micros(pause_us));
                    assert_eq!(idle.as_mut().guard(message).await, Ok(()));
                }
                let start = Instant::now();
                assert!(idle.as_mut().guard(pending::<()>()).await.is_err());
                assert!(start.elapsed() >= length, "{:?} of {length:?}", start.elapsed());
                assert!(
                    start.elapsed() <= length + length / 10 + RESOLUTION + JUMP,
                    "{:?}",
                    start.elapsed()
                );
            }
        });
    }
}

#[test]
fn work_on_a_message_does_not_count_unless_it_is_touched_first() {
    paused(async {
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
#[should_panic(expected = "not from 0 to 1")]
fn a_slack_of_more_than_a_length_is_refused() {
    paused(async {
        drop(IdleTimeout::new(Duration::from_secs(1)).slack(1.5));
    });
}

//  message    0    6   12   18   24
//  polled     |----|----|----|----|...............!
//  fires                                          34
#[test]
fn messages_put_it_off_and_each_firing_begins_a_new_period() {
    paused(async {
        let start = Instant::now();
        let mut idle = pin!(IdleTimeout::with_clock(Duration::from_millis(10), TokioClock));
        for _ in 0..4 {
            let wait = tokio::time::sleep(Duration::from_millis(6));
            assert_eq!(idle.as_mut().guard(wait).await, Ok(()));
        }
        for fires_ms in [34, 44, 54] {
            idle.as_mut().await;
            assert_eq!(start.elapsed(), Duration::from_millis(fires_ms));
        }
    });
}

#[test]
fn what_is_there_is_delivered_however_late_and_a_silence_that_is_over_is_found_at_once() {
    paused(async {
        let mut idle = pin!(IdleTimeout::with_clock(Duration::from_millis(10), TokioClock));
        advance(Duration::from_secs(1)).await;
        assert_eq!(idle.as_mut().guard(async { "late" }).await, Ok("late"));
        idle.as_mut().touch();
        advance(Duration::from_secs(1)).await;
        let before = Instant::now();
        assert!(idle.as_mut().guard(pending::<()>()).await.is_err());
        assert_eq!(before.elapsed(), Duration::ZERO);
    });
}

#[test]
fn a_length_beyond_all_instants_is_never() {
    paused(async {
        let mut idle = pin!(IdleTimeout::with_clock(Duration::MAX, TokioClock));
        let day = tokio::time::sleep(Duration::from_secs(86_400));
        assert_eq!(idle.as_mut().guard(day).await, Ok(()));
    });
}

/// Pending after spending whatever budget there is.
struct Greedy;

impl Future for Greedy {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        while let Poll::Ready(budget) = tokio::task::coop::poll_proceed(cx) {
            budget.made_progress();
        }
        Poll::Pending
    }
}

#[test]
fn a_future_that_spends_the_budget_is_timed_out_all_the_same() {
    paused(async {
        // In a task: only tasks have a budget. A greedy future wakes itself, so the paused clock
        // has to be moved by hand.
        let task = tokio::spawn(async {
            let mut idle = pin!(IdleTimeout::with_clock(Duration::from_millis(5), TokioClock));
            idle.as_mut().guard(Greedy).await
        });
        while !task.is_finished() {
            advance(RESOLUTION).await;
        }
        assert!(task.await.unwrap().is_err());
    });
}

#[test]
fn a_loop_over_a_timeout_of_zero_lets_others_run() {
    paused(async {
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
fn messages_register_nothing_and_a_length_registers_once() {
    paused(async {
        let mut idle = pin!(IdleTimeout::with_clock(Duration::from_secs(1), TokioClock));
        assert_eq!(idle.registrations(), 0);
        // A message each millisecond for ten lengths.
        for _ in 0..10_000 {
            assert_eq!(idle.as_mut().guard(tokio::time::sleep(RESOLUTION)).await, Ok(()));
        }
        // At the first wait, and whenever a second was over.
        assert!((10..=12).contains(&idle.registrations()), "{}", idle.registrations());
    });
}
