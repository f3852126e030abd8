//! Tests of `OsInterval` in real time.
//!
//! No test asserts that a tick is punctual. They check order and deadlines, that no tick is early,
//! and that tasks are woken before a watchdog gives up.
#![cfg(feature = "interval")]

mod common;
#[path = "../src/test_waker.rs"]
mod test_waker;

use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use common::assert_panic_names_this_line;
use osinterval::{
    Backend, IntervalGroup, IntervalTimer, MissedTickBehavior, OsInterval, Precision, Spin,
};
use test_waker::CountingWaker;
use tokio::time::Instant;

const WATCHDOG: Duration = Duration::from_secs(600);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// The time of the kernel's clock, even if that of tokio is paused.
#[allow(clippy::disallowed_methods, reason = "the tests compare with the clock")]
fn real_now() -> Instant {
    std::time::Instant::now().into()
}

/// Blocks the thread, as a slow consumer does.
#[allow(clippy::disallowed_methods, reason = "the thread has to stall")]
fn stall(length: Duration) {
    std::thread::sleep(length);
}

/// Makes a test fail instead of hang if its task is woken too late, or never.
async fn with_watchdog<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(WATCHDOG, future).await.expect("woken before the watchdog")
}

#[tokio::test]
async fn ticks_follow_schedule_never_early() {
    let start = real_now() + ms(5);
    let period = Duration::from_micros(333);
    let mut interval = osinterval::interval_at(start, period);
    for k in 0..2_000_u32 {
        let deadline = with_watchdog(interval.tick()).await;
        assert!(real_now() >= deadline, "tick {k} came early");
        assert_eq!(deadline, start + period * k);
    }
}

#[tokio::test]
async fn precise_ticks_are_never_early() {
    let start = real_now() + ms(5);
    let period = Duration::from_micros(500);
    let cap = Duration::from_micros(60);
    let spin = Spin::default().with_cap(cap);
    let mut interval = OsInterval::builder(period).start_at(start).precision(spin).build().unwrap();
    for k in 0..1_000_u32 {
        let deadline = with_watchdog(interval.tick()).await;
        assert!(real_now() >= deadline, "tick {k} came early");
        assert_eq!(deadline, start + period * k);
        assert_eq!(interval.lead().is_some(), interval.backend() != Backend::TokioSleep);
        assert!(interval.lead().is_none_or(|lead| lead <= cap));
    }
}

#[tokio::test]
async fn precise_mode_honours_reset() {
    let builder = OsInterval::builder(Duration::from_micros(500));
    let mut interval = builder.precision(Precision::spin()).build().unwrap();
    with_watchdog(interval.tick()).await;
    interval.reset_after(ms(3));
    let due = interval.deadline();
    assert_eq!(with_watchdog(interval.tick()).await, due);
    assert!(real_now() >= due);
}

#[tokio::test]
async fn precise_mode_keeps_dropped_ticks() {
    let start = real_now() + ms(1);
    let period = Duration::from_micros(700);
    let mut interval =
        OsInterval::builder(period).start_at(start).precision(Precision::spin()).build().unwrap();
    let mut delivered = 0_u32;
    for _ in 0..1_000 {
        tokio::select! {
            biased;
            deadline = interval.tick() => {
                assert_eq!(deadline, start + period * delivered);
                delivered += 1;
            }
            () = tokio::task::yield_now() => {}
        }
    }
    assert_eq!(with_watchdog(interval.tick()).await, start + period * delivered);
}

#[tokio::test]
async fn first_tick_is_immediate() {
    let before = real_now();
    let mut interval = osinterval::interval(Duration::from_secs(3_600));
    let first = with_watchdog(interval.tick()).await;
    assert!(first >= before && first <= real_now());
    assert_eq!(interval.deadline(), first + Duration::from_secs(3_600));
}

#[tokio::test]
async fn native_timer_is_preferred() {
    let native = cfg!(all(feature = "os-native", not(osinterval_force_fallback)));
    let expected: &[Backend] = if !native {
        &[Backend::TokioSleep]
    } else if cfg!(any(target_os = "linux", target_os = "android")) {
        &[Backend::Timerfd]
    } else if cfg!(windows) {
        // An old system has no waitable timer, and a new one can be forced to do without.
        if cfg!(osinterval_force_threadpool) {
            &[Backend::ThreadpoolTimer]
        } else {
            &[Backend::WaitableTimer, Backend::ThreadpoolTimer]
        }
    } else if cfg!(unix) {
        &[Backend::Kqueue]
    } else {
        &[Backend::TokioSleep]
    };
    let backend = osinterval::interval(ms(1)).backend();
    assert!(expected.contains(&backend), "{backend}");
}

#[tokio::test]
async fn behaviours_apply_after_stall() {
    for (behavior, tolerance) in [
        (MissedTickBehavior::Burst, ms(5)),
        (MissedTickBehavior::Delay, ms(5)),
        (MissedTickBehavior::Skip, ms(5)),
        (MissedTickBehavior::Skip, Duration::ZERO),
    ] {
        let period = ms(20);
        let start = real_now() + ms(1);
        let mut interval = OsInterval::builder(period)
            .start_at(start)
            .missed_tick_behavior(behavior)
            .tolerance(tolerance)
            .build()
            .unwrap();
        let first = with_watchdog(interval.tick()).await;
        let missed = interval.missed();
        stall(ms(70));
        let before = real_now();
        let second = with_watchdog(interval.tick()).await;
        let after = real_now();
        let next = interval.deadline();
        // On a busy machine a late first tick may have moved the schedule already.
        assert_eq!(second, if missed == 0 { first + period } else { second });
        assert_eq!(interval.missed(), missed + 1, "{behavior:?}");
        match behavior {
            MissedTickBehavior::Burst => assert_eq!(next, second + period),
            MissedTickBehavior::Delay => assert!(next >= before + period && next <= after + period),
            MissedTickBehavior::Skip => {
                assert!(next > before && next <= after + period);
                assert_eq!((next - second).as_nanos() % period.as_nanos(), 0);
            }
        }
    }
}

#[tokio::test]
async fn dropped_tick_is_delivered_once() {
    let start = real_now() + ms(1);
    let period = ms(1);
    let mut interval = osinterval::interval_at(start, period);
    let mut delivered = 0_u32;
    let mut dropped = 0;
    while dropped < 1_000 {
        tokio::select! {
            biased;
            deadline = interval.tick() => {
                assert_eq!(deadline, start + period * delivered);
                delivered += 1;
            }
            () = tokio::task::yield_now() => dropped += 1,
        }
    }
    let deadline = with_watchdog(interval.tick()).await;
    assert_eq!(deadline, start + period * delivered);
}

#[tokio::test]
async fn reset_moves_next_tick() {
    let period = Duration::from_secs(3_600);
    let mut interval = osinterval::interval(period);
    with_watchdog(interval.tick()).await;
    interval.reset_after(ms(2));
    let due = interval.deadline();
    assert_eq!(with_watchdog(interval.tick()).await, due);
    assert_eq!(interval.deadline(), due + period);
    interval.reset_immediately();
    with_watchdog(interval.tick()).await;
    let before = real_now();
    interval.reset();
    assert!(interval.deadline() >= before + period && interval.deadline() <= real_now() + period);
    let at = real_now() + ms(1);
    interval.reset_at(at);
    assert_eq!(with_watchdog(interval.tick()).await, at);
}

#[tokio::test]
async fn reset_wakes_waiting_task() {
    for immediately in [false, true] {
        let mut interval = osinterval::interval_at(real_now() + Duration::from_secs(3_600), ms(1));
        // The waker of the task is registered, and the task is not polled again until it is woken.
        let mut polled = false;
        let tick = poll_fn(|cx| {
            let result = interval.poll_tick(cx);
            if !polled {
                polled = true;
                assert!(result.is_pending());
                if immediately {
                    interval.reset_immediately();
                } else {
                    interval.reset_after(ms(20));
                }
            }
            result
        });
        with_watchdog(tick).await;
    }
}

/// As with tokio's timers, the waker is called before the call returns, and once.
#[tokio::test]
async fn past_reset_wakes_within_call() {
    let (hour, start) = (Duration::from_secs(3_600), real_now());
    let builder = || OsInterval::builder(hour).start_at(start + hour);
    let group = IntervalGroup::new().unwrap();
    let intervals = [
        builder().build(),
        builder().timer(IntervalTimer::Own).build(),
        builder().precision(Precision::spin()).build(),
        Ok(group.interval_at(start + hour, hour)),
    ];
    for mut interval in intervals.map(Result::unwrap) {
        let waker = Arc::new(CountingWaker::default());
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(interval.poll_tick(cx).is_pending());
        let counting = Waker::from(Arc::clone(&waker));
        assert!(interval.poll_tick(&mut Context::from_waker(&counting)).is_pending());
        interval.reset_at(start + hour / 2);
        assert_eq!(waker.wake_count(), 0);
        interval.reset_at(start);
        assert_eq!(waker.wake_count(), 1);
        tokio::task::yield_now().await;
        assert_eq!((interval.tick().await, waker.wake_count()), (start, 1));
    }
    for mut sleep in [osinterval::sleep(hour), group.sleep(hour)] {
        let waker = Arc::new(CountingWaker::default());
        let counting = Waker::from(Arc::clone(&waker));
        let mut sleep = Pin::new(&mut sleep);
        assert!(sleep.as_mut().poll(&mut Context::from_waker(&counting)).is_pending());
        sleep.as_mut().reset(start);
        assert_eq!(waker.wake_count(), 1);
        sleep.await;
        assert_eq!(waker.wake_count(), 1);
    }
}

/// Drops its interval when it is called.
struct DroppingWaker(Mutex<Option<OsInterval>>);

impl Wake for DroppingWaker {
    fn wake(self: Arc<Self>) {
        drop(self.0.lock().unwrap().take());
    }
}

/// On Windows, the waker is called on a thread that the timer waits for when it is dropped.
#[tokio::test]
async fn waker_may_drop_its_interval() {
    for timer in [IntervalTimer::Shared, IntervalTimer::Own] {
        let interval = OsInterval::builder(ms(20)).timer(timer).build().unwrap();
        let dropping = Arc::new(DroppingWaker(Mutex::new(Some(interval))));
        let waker = Waker::from(Arc::clone(&dropping));
        let cx = &mut Context::from_waker(&waker);
        // The first tick comes at once, and others do if this thread has stalled.
        while dropping.0.lock().unwrap().as_mut().unwrap().poll_tick(cx).is_ready() {}
        let is_dropped = async {
            while dropping.0.lock().unwrap().is_some() {
                tokio::time::sleep(ms(1)).await;
            }
        };
        with_watchdog(is_dropped).await;
    }
}

#[tokio::test]
async fn postponed_tick_comes_at_new_deadline() {
    let mut interval = osinterval::interval_at(real_now() + ms(5), ms(5));
    let mut postponements = 0;
    // On a machine that stalls, a tick may be due already, and is not postponed.
    while postponements < 5 {
        // The timer is armed for the old deadline, which comes first.
        let mut postponed = false;
        let mut due = interval.deadline();
        let tick = poll_fn(|cx| {
            let result = interval.poll_tick(cx);
            if result.is_pending() && !postponed {
                postponed = true;
                interval.reset_after(ms(20));
                due = interval.deadline();
            }
            result
        });
        assert_eq!(with_watchdog(tick).await, due);
        assert!(real_now() >= due);
        postponements += u32::from(postponed);
    }
}

#[tokio::test]
async fn setters_change_settings() {
    let mut interval = OsInterval::builder(ms(1))
        .missed_tick_behavior(tokio::time::MissedTickBehavior::Delay)
        .tolerance(ms(2))
        .build()
        .unwrap();
    assert_eq!(
        (interval.missed_tick_behavior(), interval.tolerance()),
        (MissedTickBehavior::Delay, ms(2))
    );
    interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
    interval.set_tolerance(ms(3));
    assert_eq!(
        (interval.missed_tick_behavior(), interval.tolerance()),
        (MissedTickBehavior::Skip, ms(3))
    );
    let mut member = IntervalGroup::new().unwrap().interval(ms(1));
    assert_eq!(member.missed_tick_behavior(), MissedTickBehavior::Burst);
    member.set_missed_tick_behavior(MissedTickBehavior::Delay);
    assert_eq!(member.missed_tick_behavior(), MissedTickBehavior::Delay);
    assert_eq!((interval.period(), member.period()), (ms(1), ms(1)));
}

#[tokio::test]
async fn late_interval_yields_to_others() {
    let mut interval = osinterval::interval(Duration::from_nanos(1));
    let endless = async {
        loop {
            interval.tick().await;
        }
    };
    let started = real_now();
    assert!(tokio::time::timeout(ms(100), endless).await.is_err());
    assert!(real_now() - started < WATCHDOG);
}

/// Ticks that are due need neither the timer nor its runtime.
#[cfg(all(feature = "os-native", unix, not(osinterval_force_fallback)))]
#[test]
fn own_timer_outlives_runtime_while_late() {
    const HOUR: Duration = Duration::from_secs(3_600);
    for builder in [
        OsInterval::builder(HOUR).timer(IntervalTimer::Own),
        OsInterval::builder(HOUR).precision(Precision::spin()),
    ] {
        let start = real_now() - HOUR * 5 / 2;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut interval = runtime.block_on(async { builder.start_at(start).build().unwrap() });
        drop(runtime);
        let cx = &mut Context::from_waker(Waker::noop());
        for k in 0..3 {
            assert_eq!(interval.poll_tick(cx), Poll::Ready(start + HOUR * k));
        }
        let ticked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            interval.poll_tick(&mut Context::from_waker(Waker::noop()))
        }));
        assert!(ticked.is_err(), "no timer would wake it");
    }
}

#[tokio::test]
async fn longest_period_saturates() {
    let mut interval = osinterval::interval(Duration::MAX);
    with_watchdog(interval.tick()).await;
    assert!(interval.deadline() > real_now() + Duration::from_secs(365 * 86_400));
    interval.reset_after(Duration::MAX);
    assert!(poll_fn(|cx| Poll::Ready(interval.poll_tick(cx).is_pending())).await);
}

#[test]
fn missing_runtime_is_an_error() {
    let error = OsInterval::builder(ms(1)).build().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotConnected, "{error}");
}

#[test]
fn disabled_driver_is_an_error() {
    // The timers of Windows need no driver of the runtime.
    let bare = tokio::runtime::Builder::new_current_thread().build().unwrap();
    match bare.block_on(async { OsInterval::builder(ms(1)).build() }) {
        Ok(interval) => assert!(cfg!(windows) && interval.backend() != Backend::TokioSleep),
        Err(error) => assert!(error.to_string().contains("enable_all"), "{error}"),
    }
}

#[tokio::test]
#[should_panic(expected = "`period` must be non-zero")]
async fn zero_period_panics() {
    let _ = osinterval::interval(Duration::ZERO);
}

#[test]
fn interval_panics_name_caller() {
    assert_panic_names_this_line(|| osinterval::interval(ms(1)));
    assert_panic_names_this_line(|| osinterval::interval_at(real_now(), ms(1)));
    assert_panic_names_this_line(|| osinterval::interval(Duration::ZERO));
    assert_panic_names_this_line(|| osinterval::interval_at(real_now(), Duration::ZERO));
    assert_panic_names_this_line(|| OsInterval::builder(Duration::ZERO));
}

#[test]
fn sleep_panics_name_caller() {
    let due = real_now() + ms(1);
    assert_panic_names_this_line(|| osinterval::sleep(ms(1)));
    assert_panic_names_this_line(|| osinterval::sleep_until(due));
    assert_panic_names_this_line(|| osinterval::timeout(ms(1), pending::<()>()));
    assert_panic_names_this_line(|| osinterval::timeout_at(due, pending::<()>()));
}

/// tokio panics first, at a line of its own, which must not be the one reported. The timers of
/// Windows need no driver.
#[cfg(not(windows))]
#[test]
fn disabled_driver_panics_name_caller() {
    let bare = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let _entered = bare.enter();
    assert_panic_names_this_line(|| osinterval::sleep(ms(1)));
    assert_panic_names_this_line(|| osinterval::timeout(ms(1), pending::<()>()));
    assert_panic_names_this_line(|| osinterval::interval(ms(1)));
}

#[tokio::test]
async fn zero_period_panics_name_caller() {
    let group = IntervalGroup::new().unwrap();
    assert_panic_names_this_line(|| group.interval(Duration::ZERO));
    assert_panic_names_this_line(|| group.interval_at(real_now(), Duration::ZERO));
    #[cfg(feature = "periodic")]
    {
        use osinterval::PeriodicInterval;
        assert_panic_names_this_line(|| PeriodicInterval::new(Duration::ZERO));
        assert_panic_names_this_line(|| PeriodicInterval::new_at(real_now(), Duration::ZERO));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interval_ticks_across_threads() {
    let mut interval = osinterval::interval(Duration::from_micros(200));
    let mut last = None;
    for _ in 0..20 {
        (interval, last) = tokio::spawn(async move {
            for _ in 0..20 {
                let deadline = with_watchdog(interval.tick()).await;
                assert!(real_now() >= deadline && last.is_none_or(|last| last < deadline));
                last = Some(deadline);
            }
            (interval, last)
        })
        .await
        .unwrap();
    }
}
