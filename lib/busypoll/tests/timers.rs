//! Tests of timers: all of them complete, none is early, and dropped ones leave nothing behind.
#![allow(clippy::disallowed_methods, reason = "tests read the clock to compare")]
mod common;

use std::cell::{Cell, RefCell};
use std::future::{Future, pending, poll_fn, ready};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use busypoll::time::{self, MissedTickBehavior};
use busypoll::{Runtime, channel, spawn_boxed, yield_now};
use common::{run_in_every_mode, scaled};

#[test]
fn sleeps_are_never_early() {
    run_in_every_mode(|runtime| {
        runtime.block_on(async {
            // Ten tasks sleep at the same time, a thousand times for each duration in total, so
            // that registrations and expirations interleave.
            let tasks: Vec<_> = (0..10)
                .map(|_| {
                    spawn_boxed(async {
                        for micros in [500, 1_000, 1_500, 2_000] {
                            for _ in 0..100 {
                                let duration = Duration::from_micros(micros);
                                let start = Instant::now();
                                time::sleep(duration).await;
                                assert!(start.elapsed() >= duration, "early");
                            }
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
    });
}

#[test]
fn timers_fire_in_deadline_order() {
    run_in_every_mode(|runtime| {
        // A slow machine may need some time to register four timers. The order is only guaranteed
        // for timers that are registered before they are due.
        for ahead in [5, 50, 500, 5_000].map(Duration::from_millis) {
            let log = Rc::new(std::cell::RefCell::new(Vec::new()));
            let in_time = runtime.block_on(async {
                let start = Instant::now() + ahead;
                let tasks: Vec<_> = [3_u32, 1, 2, 0]
                    .map(|i| {
                        let log = Rc::clone(&log);
                        spawn_boxed(async move {
                            time::sleep_until(start + Duration::from_nanos(i.into())).await;
                            log.borrow_mut().push(i);
                        })
                    })
                    .into();
                busypoll::yield_now().await;
                busypoll::yield_now().await;
                let in_time = Instant::now() < start;
                for task in tasks {
                    task.await.unwrap();
                }
                in_time
            });
            if in_time {
                assert_eq!(*log.borrow(), [0, 1, 2, 3]);
                return;
            }
        }
        panic!("four timers were not registered within five seconds");
    });
}

#[test]
fn timeout_prefers_the_future() {
    run_in_every_mode(|runtime| {
        runtime.block_on(async {
            assert_eq!(time::timeout(Duration::ZERO, ready(1)).await, Ok(1));
            assert_eq!(
                time::timeout_at(Instant::now() - Duration::from_secs(1), ready(1)).await,
                Ok(1)
            );
            let start = Instant::now();
            assert!(time::timeout(Duration::from_micros(700), pending::<()>()).await.is_err());
            assert!(start.elapsed() >= Duration::from_micros(700));
        });
    });
}

#[test]
fn interval_ticks_on_the_grid() {
    run_in_every_mode(|runtime| {
        runtime.block_on(async {
            let start = Instant::now();
            let period = Duration::from_micros(500);
            let mut interval = time::interval_at(start, period);
            for k in 0..200 {
                let due = interval.tick().await;
                assert_eq!(due, start + period * k);
                assert!(Instant::now() >= due);
            }
        });
    });
}

#[test]
fn missed_ticks_follow_the_policy() {
    run_in_every_mode(|runtime| {
        runtime.block_on(async {
            let period = Duration::from_millis(10);
            let start = Instant::now() - Duration::from_millis(25);
            let mut skip = time::interval_at(start, period);
            skip.set_missed_tick_behavior(MissedTickBehavior::Skip);
            assert_eq!(skip.tick().await, start);
            let next = skip.tick().await.duration_since(start);
            assert!(next >= Duration::from_millis(30) && next.as_nanos() % period.as_nanos() == 0);

            let mut delay = time::interval_at(start, period);
            delay.set_missed_tick_behavior(MissedTickBehavior::Delay);
            assert_eq!(delay.tick().await, start);
            assert!(delay.tick().await.duration_since(start) >= Duration::from_millis(35));
        });
    });
}

#[test]
fn resets_move_the_next_tick() {
    run_in_every_mode(|runtime| {
        runtime.block_on(async {
            let period = Duration::from_millis(2);
            let mut interval = time::interval(Duration::from_secs(3_600));
            assert_eq!(interval.period(), Duration::from_secs(3_600));
            assert_eq!(interval.missed_tick_behavior(), MissedTickBehavior::Burst);
            interval.tick().await;
            let before = Instant::now();
            interval.reset_after(period);
            let due = interval.tick().await;
            assert!(due >= before + period && Instant::now() >= due);
            let before = Instant::now();
            interval.reset_immediately();
            assert!(interval.tick().await >= before);
            let deadline = Instant::now() + period;
            interval.reset_at(deadline);
            assert_eq!(interval.tick().await, deadline);
        });
    });
}

#[test]
fn reset_restarts_the_grid() {
    run_in_every_mode(|runtime| {
        runtime.block_on(async {
            let period = Duration::from_millis(2);
            let mut interval = time::interval(period);
            interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
            assert_eq!(interval.missed_tick_behavior(), MissedTickBehavior::Delay);
            interval.tick().await;
            let before = Instant::now();
            interval.reset();
            let due = interval.tick().await;
            assert!(due >= before + period && Instant::now() >= due);
        });
    });
}

#[test]
fn waiting_tick_follows_a_reset() {
    run_in_every_mode(|runtime| {
        runtime.block_on(async {
            let period = Duration::from_millis(2);
            let mut interval = time::interval(period);
            interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
            interval.tick().await;
            for after in [period, period * 3] {
                let pending = std::future::poll_fn(|cx| {
                    let _ = interval.poll_tick(cx);
                    Poll::<()>::Pending
                });
                assert!(time::timeout(period / 4, pending).await.is_err());
                interval.reset_after(after);
                let before = Instant::now();
                let due = interval.tick().await;
                assert!(due <= before + after && Instant::now() >= due);
            }
        });
    });
}

/// The waiting task is not polled before the new deadline.
#[test]
fn reset_wakes_a_waiting_task() {
    run_in_every_mode(|runtime| {
        runtime.block_on(async {
            let hour = Duration::from_secs(3_600);
            let interval = Rc::new(RefCell::new(time::interval_at(Instant::now() + hour, hour)));
            let waiting = Rc::clone(&interval);
            let tick = spawn_boxed(poll_fn(move |cx| waiting.borrow_mut().poll_tick(cx)));
            let sleep = Rc::new(RefCell::new(time::sleep(hour)));
            let waiting = Rc::clone(&sleep);
            let slept =
                spawn_boxed(poll_fn(move |cx| Pin::new(&mut *waiting.borrow_mut()).poll(cx)));
            yield_now().await;
            let deadline = Instant::now() + Duration::from_micros(200);
            interval.borrow_mut().reset_at(deadline);
            sleep.borrow_mut().reset(deadline);
            assert_eq!(tick.await.unwrap(), deadline);
            slept.await.unwrap();
            assert!(Instant::now() >= deadline);
        });
    });
}

#[test]
fn after_polls_future_last() {
    run_in_every_mode(|runtime| {
        runtime.block_on(async {
            let start = Instant::now();
            let wait = Duration::from_micros(600);
            let elapsed = async || start.elapsed();
            assert!(time::after(start + wait, elapsed()).await >= wait);
            let start = Instant::now();
            assert!(time::after_delay(wait, async { start.elapsed() }).await >= wait);
        });
    });
}

#[test]
fn moved_timer_wakes_new_task() {
    run_in_every_mode(|runtime| {
        runtime.block_on(async {
            let mut length = Duration::from_millis(3);
            // The timer is polled here once and awaited in another task, whose waker must be
            // called. On a machine that stalls, the timer may already be over. Then a longer one is
            // used.
            let sleep = loop {
                let mut sleep = time::sleep(length);
                let polled = std::future::poll_fn(|cx| {
                    Poll::Ready(std::future::Future::poll(std::pin::Pin::new(&mut sleep), cx))
                });
                if polled.await.is_pending() {
                    break sleep;
                }
                length *= 4;
            };
            spawn_boxed(sleep).await.unwrap();
        });
    });
}

/// Returns the allocated memory in KiB, whether it is resident or swapped out.
#[cfg(target_os = "linux")]
fn allocated() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let is_own = |line: &&str| line.starts_with("RssAnon") || line.starts_with("VmSwap");
    let kib = |line: &str| line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap();
    status.lines().filter(is_own).map(kib).sum()
}

#[cfg(target_os = "linux")]
mod own_process {
    /// In a process of its own, since other tests allocate as well.
    #[test]
    fn millions_of_dropped_timeouts_free_memory() {
        let test = "own_process::millions_of_dropped_timeouts_free_memory";
        let status = crate::common::run_in_separate_process(test, super::drop_millions_of_timeouts);
        assert!(status.is_none_or(|status| status.success()));
    }
}

#[cfg(target_os = "linux")]
fn drop_millions_of_timeouts() {
    let mut runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let round = async || {
            for _ in 0..1_000_000 {
                // The future is pending at its first poll, so that a timer is registered before it
                // is dropped.
                let mut polled = false;
                let once = std::future::poll_fn(|cx| {
                    if std::mem::replace(&mut polled, true) {
                        return Poll::Ready(());
                    }
                    cx.waker().wake_by_ref();
                    Poll::Pending
                });
                time::timeout(Duration::from_secs(300), once).await.unwrap();
            }
            busypoll::yield_now().await;
        };
        round().await;
        let before = allocated();
        for _ in 0..3 {
            round().await;
        }
        // Leaked timers would need 45 MiB per million.
        let after = allocated();
        assert!(before > 0 && after < before + 20 * 1024, "{before} KiB, then {after} KiB");
    });
}

/// Builds runtimes with an adaptive lead and with several fixed ones.
fn runtimes_with_leads() -> impl Iterator<Item = (Option<Duration>, Runtime)> {
    let leads = [None, Some(0), Some(1), Some(5_000)].map(|us| us.map(Duration::from_micros));
    leads.into_iter().map(|lead| {
        let builder = Runtime::builder();
        let builder = if let Some(lead) = lead { builder.timer_lead(lead) } else { builder };
        (lead, builder.build().unwrap())
    })
}

#[test]
fn lead_makes_nothing_early() {
    for (lead, mut runtime) in runtimes_with_leads() {
        runtime.block_on(async {
            for _ in 0..50 {
                let deadline = Instant::now() + Duration::from_micros(300);
                time::sleep_until(deadline).await;
                assert!(Instant::now() >= deadline, "early with a lead of {lead:?}");
            }
            let mut interval = time::interval(Duration::from_micros(100));
            for _ in 0..50 {
                let due = interval.tick().await;
                assert!(Instant::now() >= due, "early with a lead of {lead:?}");
            }
        });
    }
}

/// A future that becomes ready before the deadline wins, even with a long lead.
#[test]
fn timeout_uses_no_lead() {
    for (lead, mut runtime) in runtimes_with_leads() {
        runtime.block_on(async {
            let ready = Rc::new(Cell::new(false));
            let setter_ready = Rc::clone(&ready);
            let future = std::future::poll_fn(move |cx| {
                cx.waker().wake_by_ref();
                if ready.get() { Poll::Ready(()) } else { Poll::Pending }
            });
            let setter = spawn_boxed(async move {
                for _ in 0..10 {
                    busypoll::yield_now().await;
                }
                setter_ready.set(true);
            });
            let result = time::timeout(Duration::from_secs(300), future).await;
            assert!(result.is_ok(), "timed out with a lead of {lead:?}");
            setter.await.unwrap();
        });
    }
}

/// The state of a task that could run forever, and that counts its operations.
struct Hog {
    operations: Cell<u32>,
    /// The number of operations when the clock reached the deadline of the sleeping task.
    operations_at_deadline: Cell<Option<u32>>,
    deadline: Instant,
    /// Set once the sleeping task has run.
    is_over: Cell<bool>,
}

impl Hog {
    /// Returns whether to continue. Without a budget no other task would run, so the hog gives up
    /// after a while.
    fn should_continue(&self) -> bool {
        const MAX_EXTRA_OPERATIONS: u32 = scaled(1_000_000);
        self.operations.set(self.operations.get() + 1);
        if self.operations_at_deadline.get().is_none() && Instant::now() >= self.deadline {
            self.operations_at_deadline.set(Some(self.operations.get()));
        }
        !self.is_over.get()
            && self
                .operations_at_deadline
                .get()
                .is_none_or(|due| self.operations.get() < due + MAX_EXTRA_OPERATIONS)
    }
}

/// Runs a hog along with a sleeping task. Returns the number of operations that delayed the
/// sleeping task after its deadline.
fn count_operations_after_deadline<F: Future<Output = ()> + 'static>(
    runtime: &mut Runtime,
    hog: impl FnOnce(Rc<Hog>) -> F,
) -> u32 {
    runtime.block_on(async {
        let deadline = Instant::now() + Duration::from_millis(2);
        let shared = Rc::new(Hog {
            operations: Cell::new(0),
            operations_at_deadline: Cell::new(None),
            deadline,
            is_over: Cell::new(false),
        });
        let sleeper = Rc::clone(&shared);
        let sleeper = spawn_boxed(async move {
            time::sleep_until(deadline).await;
            sleeper.is_over.set(true);
        });
        // The sleep is registered before the hog begins.
        busypoll::yield_now().await;
        spawn_boxed(hog(Rc::clone(&shared))).await.unwrap();
        sleeper.await.unwrap();
        shared.operations.get()
            - shared.operations_at_deadline.get().unwrap_or(shared.operations.get())
    })
}

/// Operations of the poll in which the deadline passed, of the poll that was queued before the
/// sleeping task, and the operation that detects the end.
const MAX_OPERATIONS_AFTER_DEADLINE: u32 = 2 * 128 + 1;

#[test]
fn busy_channel_does_not_starve_sleep() {
    run_in_every_mode(|runtime| {
        let operations = count_operations_after_deadline(runtime, |hog| async move {
            let (sender, mut receiver) = channel::local::channel(1);
            sender.try_send(0).unwrap();
            while hog.should_continue() {
                receiver.recv().await.unwrap();
                sender.try_send(0).unwrap();
            }
        });
        assert!(operations <= MAX_OPERATIONS_AFTER_DEADLINE, "local: {operations}");
        let operations = count_operations_after_deadline(runtime, |hog| async move {
            let (sender, mut receiver) = channel::mpsc::channel(1);
            while hog.should_continue() {
                sender.send(0).await.unwrap();
                receiver.try_recv().unwrap();
            }
        });
        assert!(operations <= MAX_OPERATIONS_AFTER_DEADLINE, "mpsc: {operations}");
        let operations = count_operations_after_deadline(runtime, |hog| async move {
            let (mut sender, mut receiver) = channel::spsc::channel(1);
            while hog.should_continue() {
                sender.send(0).await.unwrap();
                receiver.recv().await.unwrap();
            }
        });
        assert!(operations <= MAX_OPERATIONS_AFTER_DEADLINE, "spsc: {operations}");
    });
}

#[test]
fn late_interval_does_not_starve_sleep() {
    run_in_every_mode(|runtime| {
        let operations = count_operations_after_deadline(runtime, |hog| async move {
            // The interval never catches up.
            let mut interval =
                time::interval_at(Instant::now() - Duration::from_secs(1), Duration::from_nanos(1));
            while hog.should_continue() {
                interval.tick().await;
            }
        });
        assert!(operations <= MAX_OPERATIONS_AFTER_DEADLINE, "{operations}");
    });
}

#[test]
fn endless_future_times_out() {
    run_in_every_mode(|runtime| {
        runtime.block_on(async {
            // The loop is bounded, so that the test does not hang if the timeout fails.
            let endless = async {
                let (sender, mut receiver) = channel::local::channel(1);
                for _ in 0..scaled(2_000_000) {
                    sender.send(0).await.unwrap();
                    receiver.recv().await.unwrap();
                }
            };
            let limit = Duration::from_millis(2);
            let start = Instant::now();
            assert!(time::timeout(limit, endless).await.is_err());
            assert!(start.elapsed() >= limit);
        });
    });
}

#[test]
fn budget_is_unlimited_outside_runtime() {
    let (sender, mut receiver) = channel::local::channel(1);
    let mut cx = Context::from_waker(Waker::noop());
    for i in 0..1_000 {
        sender.try_send(i).unwrap();
        assert_eq!(receiver.poll_recv(&mut cx), Poll::Ready(Some(i)));
    }
}

/// Sends and receives until the receiver is pending. Returns the number of received values.
fn drain_budget(
    sender: &channel::local::Sender<()>,
    receiver: &mut channel::local::Receiver<()>,
    cx: &mut Context<'_>,
) -> u32 {
    let mut received = 0;
    while received < 1_000 {
        let _ = sender.try_send(());
        if receiver.poll_recv(cx).is_pending() {
            break;
        }
        received += 1;
    }
    received
}

#[test]
fn budget_limits_one_poll() {
    run_in_every_mode(|runtime| {
        let (sender, mut receiver) = channel::local::channel(1);
        runtime.block_on(async {
            for poll in 0..3 {
                let received = std::future::poll_fn(|cx| {
                    Poll::Ready(drain_budget(&sender, &mut receiver, cx))
                });
                assert_eq!(received.await, 128, "poll {poll}");
                busypoll::yield_now().await;
            }
        });
    });
}

/// Another runtime inside of a task polls again and again within one poll of the task.
#[test]
fn refused_operations_refill_the_budget() {
    const MAX_POLLS: u32 = 1_000;
    run_in_every_mode(|runtime| {
        let (sender, mut receiver) = channel::local::channel(1);
        runtime.block_on(async {
            let mut cx = Context::from_waker(Waker::noop());
            for i in 0..1_000 {
                sender.try_send(i).unwrap();
                let mut polls = (0..MAX_POLLS).map(|_| receiver.poll_recv(&mut cx));
                assert_eq!(polls.find(Poll::is_ready), Some(Poll::Ready(Some(i))));
            }
        });
    });
}

fn assert_panics_without_runtime(poll: &mut dyn FnMut()) {
    let payload = std::panic::catch_unwind(std::panic::AssertUnwindSafe(poll)).unwrap_err();
    assert_eq!(payload.downcast_ref(), Some(&"the runtime of this timer has been dropped"));
}

#[test]
fn timer_panics_without_runtime() {
    run_in_every_mode(|runtime| {
        let (soon, ahead) = (Duration::from_nanos(1), Duration::from_secs(3600));
        let (mut past, mut pending, mut interval) = runtime.block_on(async {
            let mut interval = time::interval(ahead);
            interval.tick().await;
            (Box::pin(time::sleep(soon)), Box::pin(time::sleep(ahead)), interval)
        });
        drop(std::mem::replace(runtime, Runtime::new().unwrap()));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(past.as_mut().poll(&mut cx).is_ready(), "its deadline has passed");
        assert_panics_without_runtime(&mut || {
            assert!(pending.as_mut().poll(&mut cx).is_pending());
        });
        let mut cx = Context::from_waker(Waker::noop());
        assert_panics_without_runtime(&mut || assert!(interval.poll_tick(&mut cx).is_pending()));
    });
}

#[test]
fn dropped_runtime_wakes_foreign_timer() {
    run_in_every_mode(|runtime| {
        let (mut sleep, polled) = runtime.block_on(async {
            let mut sleep = Box::pin(time::sleep(Duration::from_secs(3600)));
            let polled = std::future::poll_fn(|cx| Poll::Ready(sleep.as_mut().poll(cx))).await;
            (sleep, polled)
        });
        assert!(polled.is_pending());
        let old = std::mem::replace(runtime, Runtime::new().unwrap());
        runtime.block_on(async {
            let woken = spawn_boxed(async move { sleep.as_mut().await });
            busypoll::yield_now().await;
            drop(old);
            assert!(woken.await.unwrap_err().is_panic());
        });
    });
}
