//! Timers: all complete, none early, none stays.
#![allow(clippy::disallowed_methods, reason = "tests read the clock to compare")]
mod common;

use std::future::{pending, ready};
use std::time::{Duration, Instant};

use busypoll::spawn_boxed;
use busypoll::time::{self, MissedTickBehavior};
use common::in_every_mode;

#[test]
fn sleeps_of_whole_and_broken_milliseconds_complete_and_are_never_early() {
    in_every_mode(|runtime| {
        runtime.block_on(async {
            // A thousand of each, side by side in ten tasks, so that registrations and expirations interleave.
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
fn timers_fire_in_the_order_of_their_deadlines() {
    in_every_mode(|runtime| {
        // A machine may take its time to register four timers. Only what was registered before it was due has an order.
        for ahead in [5, 50, 500, 5_000].map(Duration::from_millis) {
            let log = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
            let in_time = runtime.block_on(async {
                let start = Instant::now() + ahead;
                let tasks: Vec<_> = [3_u32, 1, 2, 0]
                    .map(|i| {
                        let log = std::rc::Rc::clone(&log);
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
    in_every_mode(|runtime| {
        runtime.block_on(async {
            assert_eq!(time::timeout(Duration::ZERO, ready(1)).await, Ok(1));
            assert_eq!(time::timeout_at(Instant::now() - Duration::from_secs(1), ready(1)).await, Ok(1));
            let start = Instant::now();
            assert!(time::timeout(Duration::from_micros(700), pending::<()>()).await.is_err());
            assert!(start.elapsed() >= Duration::from_micros(700));
        });
    });
}

#[test]
fn an_interval_ticks_at_once_and_on_the_grid() {
    in_every_mode(|runtime| {
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
    in_every_mode(|runtime| {
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
fn after_waits_first_and_polls_the_future_then() {
    in_every_mode(|runtime| {
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
fn a_timer_moves_between_tasks_and_still_wakes() {
    in_every_mode(|runtime| {
        runtime.block_on(async {
            let mut length = Duration::from_millis(3);
            // Polled here once, awaited elsewhere: the second waker counts. On a machine that stalls it may be over by
            // then; a longer one is not.
            let sleep = loop {
                let mut sleep = time::sleep(length);
                let polled = std::future::poll_fn(|cx| {
                    std::task::Poll::Ready(std::future::Future::poll(std::pin::Pin::new(&mut sleep), cx))
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

/// Resident memory in KiB.
#[cfg(target_os = "linux")]
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
#[cfg(target_os = "linux")]
fn millions_of_dropped_timeouts_leave_nothing_behind() {
    let mut runtime = busypoll::Runtime::new().unwrap();
    runtime.block_on(async {
        let round = async || {
            for _ in 0..1_000_000 {
                // Pending at its first poll, so that a timer is registered before it is dropped.
                let mut polled = false;
                let once = std::future::poll_fn(|cx| {
                    if std::mem::replace(&mut polled, true) {
                        return std::task::Poll::Ready(());
                    }
                    cx.waker().wake_by_ref();
                    std::task::Poll::Pending
                });
                time::timeout(Duration::from_secs(10), once).await.unwrap();
            }
            busypoll::yield_now().await;
        };
        round().await;
        let before = resident();
        for _ in 0..3 {
            round().await;
        }
        // What other tests of this process take meanwhile is far below what kept timers would: 45 MiB a million.
        assert!(resident() < before + 20 * 1024, "{before} KiB, then {} KiB", resident());
    });
}

#[test]
fn a_lead_makes_nothing_early_and_a_timeout_has_none() {
    for lead in [Duration::ZERO, Duration::from_micros(1), Duration::from_millis(5)] {
        let mut runtime = busypoll::Runtime::builder().timer_lead(lead).build().unwrap();
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
            // What is ready before the time is up wins, however near the end and however long the lead.
            let ready = std::rc::Rc::new(std::cell::Cell::new(false));
            let sets = std::rc::Rc::clone(&ready);
            let polls = std::future::poll_fn(move |cx| {
                cx.waker().wake_by_ref();
                if ready.get() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
            });
            let setter = busypoll::spawn_boxed(async move {
                for _ in 0..10 {
                    busypoll::yield_now().await;
                }
                sets.set(true);
            });
            assert!(time::timeout(Duration::from_secs(10).max(lead), polls).await.is_ok());
            setter.await.unwrap();
        });
    }
}
