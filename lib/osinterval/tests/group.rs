//! `IntervalGroup` in real time.
#![cfg(feature = "interval")]

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use osinterval::{Backend, IntervalGroup, MissedTickBehavior};
use tokio::time::Instant;

const WATCHDOG: Duration = Duration::from_secs(60);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[allow(clippy::disallowed_methods, reason = "the tests compare with the clock")]
fn real_now() -> Instant {
    std::time::Instant::now().into()
}

async fn watched<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(WATCHDOG, future).await.expect("woken before the watchdog")
}

async fn many(count: u32, resolution: Duration) {
    const TICKS: u32 = 20;
    let group = IntervalGroup::builder().resolution(resolution).build().unwrap();
    let start = real_now() + ms(5);
    let ticked = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..count)
        .map(|i| {
            let period = ms(10);
            let first = start + period * i / count;
            let mut interval = group.interval_at(first, period);
            let ticked = Arc::clone(&ticked);
            tokio::spawn(async move {
                for k in 0..TICKS {
                    let deadline = interval.tick().await;
                    assert_eq!(deadline, first + period * k);
                    assert!(real_now() >= deadline, "early");
                    ticked.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for task in tasks {
        watched(task).await.unwrap();
    }
    assert_eq!(ticked.load(Ordering::Relaxed), u64::from(count * TICKS));
}

#[tokio::test]
async fn a_thousand_intervals_each_keep_their_own_schedule() {
    many(1_000, Duration::from_micros(100)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_do_on_several_threads_and_with_slots_of_any_length() {
    many(200, Duration::from_nanos(1)).await;
    many(200, ms(7)).await;
}

#[tokio::test]
async fn a_reset_to_an_earlier_time_wakes_a_task_that_waits() {
    let group = IntervalGroup::new().unwrap();
    for immediately in [false, true] {
        let mut interval = group.interval_at(real_now() + Duration::from_secs(3_600), ms(1));
        let mut polled = false;
        let tick = poll_fn(|cx| {
            let result = interval.poll_tick(cx);
            if !polled {
                polled = true;
                assert!(result.is_pending());
                if immediately {
                    interval.reset_immediately()
                } else {
                    interval.reset_after(ms(20))
                }
            }
            result
        });
        watched(tick).await;
    }
}

#[tokio::test]
async fn a_deadline_that_is_put_off_holds() {
    let group = IntervalGroup::new().unwrap();
    let mut interval = group.interval_at(real_now() + Duration::from_secs(3_600), ms(1));
    let mut put_off = 0;
    let due = poll_fn(|cx| {
        let result = interval.poll_tick(cx);
        if put_off < 50 && result.is_pending() {
            put_off += 1;
            interval.reset_after(ms(5));
            cx.waker().wake_by_ref();
        }
        result
    });
    let due = watched(due).await;
    assert!(real_now() >= due);
    assert!(put_off > 0);
}

#[tokio::test]
async fn a_dropped_tick_is_neither_lost_nor_doubled() {
    let group = IntervalGroup::new().unwrap();
    let start = real_now() + ms(1);
    let mut interval = group.interval_at(start, ms(1));
    let mut delivered = 0_u32;
    let mut dropped = 0;
    while dropped < 1_000 {
        tokio::select! {
            biased;
            deadline = interval.tick() => {
                assert_eq!(deadline, start + ms(1) * delivered);
                delivered += 1;
            }
            () = tokio::task::yield_now() => dropped += 1,
        }
    }
    assert_eq!(watched(interval.tick()).await, start + ms(1) * delivered);
}

#[tokio::test]
async fn intervals_come_and_go_while_others_tick() {
    let group = IntervalGroup::new().unwrap();
    let mut steady = group.interval(ms(2));
    for k in 0..50 {
        let mut passing: Vec<_> =
            (0..20).map(|i| group.interval_at(real_now() + ms(i), ms(1))).collect();
        for (i, interval) in passing.iter_mut().enumerate() {
            // Some are dropped while they wait.
            let _ = poll_fn(|cx| std::task::Poll::Ready(interval.poll_tick(cx).is_ready())).await;
            if (i + k) % 7 == 0 {
                watched(interval.tick()).await;
            }
        }
        drop(passing);
        watched(steady.tick()).await;
    }
}

#[tokio::test]
async fn the_last_owner_may_be_an_interval() {
    let group = IntervalGroup::new().unwrap();
    let mut interval = group.interval(ms(1));
    interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
    drop(group);
    for _ in 0..5 {
        watched(interval.tick()).await;
    }
}

#[test]
fn without_a_runtime_there_is_an_error() {
    assert_eq!(IntervalGroup::new().unwrap_err().kind(), std::io::ErrorKind::NotConnected);
}

/// One descriptor serves them all: ten thousand fit where a thousand descriptors are allowed.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn ten_thousand_intervals_need_no_ten_thousand_descriptors() {
    let open = || std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let group = IntervalGroup::new().unwrap();
    let before = open();
    let mut intervals: Vec<_> =
        (0..10_000).map(|_| group.interval_at(real_now() + ms(5), ms(10))).collect();
    for interval in &mut intervals {
        watched(interval.tick()).await;
    }
    // Other tests of this process open and close some of their own.
    assert!(open() < before + 100);
    assert_ne!(group.backend(), Backend::Kqueue);
}
