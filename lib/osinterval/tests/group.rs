//! Tests of `IntervalGroup` in real time.
#![cfg(feature = "interval")]

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use osinterval::{IntervalGroup, MissedTickBehavior};
use tokio::time::Instant;

const WATCHDOG: Duration = Duration::from_secs(600);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[allow(clippy::disallowed_methods, reason = "the tests compare with the clock")]
fn real_now() -> Instant {
    std::time::Instant::now().into()
}

async fn with_watchdog<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(WATCHDOG, future).await.expect("woken before the watchdog")
}

/// Runs that many intervals of a group and checks each tick against its schedule.
async fn check_schedules(count: u32, resolution: Duration) {
    const TICKS: u32 = 20;
    let group = IntervalGroup::builder().resolution(resolution).build().unwrap();
    let start = real_now() + ms(5);
    let ticked = Arc::new(AtomicU64::new(0));
    let period = ms(10);
    let mut tasks = Vec::new();
    for i in 0..count {
        let first = start + period * i / count;
        let mut interval = group.interval_at(first, period);
        let ticked = Arc::clone(&ticked);
        tasks.push(tokio::spawn(async move {
            for k in 0..TICKS {
                let deadline = interval.tick().await;
                assert_eq!(deadline, first + period * k);
                assert!(real_now() >= deadline, "early");
                ticked.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    for task in tasks {
        with_watchdog(task).await.unwrap();
    }
    assert_eq!(ticked.load(Ordering::Relaxed), u64::from(count * TICKS));
}

#[tokio::test]
async fn thousand_intervals_keep_their_schedules() {
    check_schedules(1_000, Duration::from_micros(100)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedules_hold_across_threads() {
    check_schedules(200, Duration::from_nanos(1)).await;
    check_schedules(200, ms(7)).await;
}

#[tokio::test]
async fn earlier_reset_wakes_waiting_task() {
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
        with_watchdog(tick).await;
    }
}

/// The period is shorter than a slot, so the tick after the reset is due in the same slot.
#[tokio::test]
async fn tick_after_past_reset_waits() {
    const SLOT: Duration = Duration::from_secs(3_600);
    let group = IntervalGroup::builder().resolution(SLOT).build().unwrap();
    let mut interval = group.interval_at(real_now() + SLOT, SLOT / 6);
    let mut ready = Vec::new();
    for _ in 0..3 {
        ready.push(poll_fn(|cx| Poll::Ready(interval.poll_tick(cx).is_ready())).await);
        if ready.len() == 1 {
            interval.reset_immediately();
        }
    }
    assert_eq!(ready, [false, true, false]);
}

#[tokio::test]
async fn postponed_deadline_holds() {
    let group = IntervalGroup::new().unwrap();
    let mut interval = group.interval_at(real_now() + Duration::from_secs(3_600), ms(1));
    let mut postponed = 0;
    let due = poll_fn(|cx| {
        let result = interval.poll_tick(cx);
        if postponed < 50 && result.is_pending() {
            postponed += 1;
            interval.reset_after(ms(5));
            cx.waker().wake_by_ref();
        }
        result
    });
    let due = with_watchdog(due).await;
    assert!(real_now() >= due);
    assert!(postponed > 0);
}

#[tokio::test]
async fn dropped_tick_is_delivered_once() {
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
    assert_eq!(with_watchdog(interval.tick()).await, start + ms(1) * delivered);
}

#[tokio::test]
async fn steady_interval_survives_short_lived_ones() {
    let group = IntervalGroup::new().unwrap();
    let mut steady = group.interval(ms(2));
    for k in 0..50 {
        let mut short_lived: Vec<_> =
            (0..20).map(|i| group.interval_at(real_now() + ms(i), ms(1))).collect();
        for (i, interval) in short_lived.iter_mut().enumerate() {
            // Some are dropped while they wait.
            let _ = poll_fn(|cx| Poll::Ready(interval.poll_tick(cx).is_ready())).await;
            if (i + k) % 7 == 0 {
                with_watchdog(interval.tick()).await;
            }
        }
        drop(short_lived);
        with_watchdog(steady.tick()).await;
    }
}

#[tokio::test]
async fn interval_outlives_group_handle() {
    let group = IntervalGroup::new().unwrap();
    let mut interval = group.interval(ms(1));
    interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
    drop(group);
    for _ in 0..5 {
        with_watchdog(interval.tick()).await;
    }
}

#[test]
fn missing_runtime_is_an_error() {
    assert_eq!(IntervalGroup::new().unwrap_err().kind(), std::io::ErrorKind::NotConnected);
}

/// A process may often open only a thousand descriptors.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn intervals_share_one_descriptor() {
    const COUNT: usize = 10_000;
    let count_open = || std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let group = IntervalGroup::new().unwrap();
    let mut intervals: Vec<_> =
        (0..COUNT).map(|_| group.interval_at(real_now() + ms(5), ms(10))).collect();
    for interval in &mut intervals {
        with_watchdog(interval.tick()).await;
    }
    // Other tests of this process have descriptors as well.
    assert!(count_open() < COUNT / 10);
    assert_ne!(group.backend(), osinterval::Backend::Kqueue);
}
