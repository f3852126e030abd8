//! Tests of sleeps and timeouts in real time.
#![cfg(feature = "interval")]

use std::future::{pending, poll_fn};
use std::panic::{UnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use osinterval::{
    Backend, IntervalGroup, Precision, Sleep, interval, sleep, sleep_until, timeout, timeout_at,
};
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

const WATCHDOG: Duration = Duration::from_secs(600);
const HOUR: Duration = Duration::from_secs(3_600);

fn us(n: u64) -> Duration {
    Duration::from_micros(n)
}

#[allow(clippy::disallowed_methods, reason = "the tests compare with the clock")]
fn real_now() -> Instant {
    std::time::Instant::now().into()
}

async fn with_watchdog<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(WATCHDOG, future).await.expect("woken before the watchdog")
}

fn current_thread_runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn multi_thread_runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// A waker that counts its wake-ups.
#[derive(Default)]
struct CountingWaker(AtomicUsize);

impl Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl CountingWaker {
    fn wake_count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// Polls a sleep outside of the cooperative budget, since one task polls many of them.
fn poll_with(sleep: &mut Sleep, waker: &Waker) -> Poll<()> {
    pin!(tokio::task::unconstrained(sleep)).poll(&mut Context::from_waker(waker))
}

fn poll(sleep: &mut Sleep) -> Poll<()> {
    poll_with(sleep, Waker::noop())
}

/// Creates a group with slots of one nanosecond.
fn group_without_slots() -> IntervalGroup {
    IntervalGroup::builder().resolution(Duration::from_nanos(1)).build().unwrap()
}

#[tokio::test]
async fn sleeps_are_never_early() {
    let group = group_without_slots();
    for n in 0..200 {
        let deadline = real_now() + us(n * 7);
        match n % 2 {
            0 => with_watchdog(sleep_until(deadline)).await,
            _ => with_watchdog(group.sleep_until(deadline)).await,
        }
        assert!(real_now() >= deadline, "early");
    }
    let before = real_now();
    with_watchdog(sleep(us(1_500))).await;
    assert!(real_now() >= before + us(1_500), "early");
}

#[tokio::test]
async fn past_deadline_is_ready_immediately() {
    let past = real_now().checked_sub(us(1)).unwrap();
    assert!(poll(&mut sleep_until(past)).is_ready());
    assert!(poll(&mut sleep(Duration::ZERO)).is_ready());
    let long_past = std::time::Instant::from(past).checked_sub(us(1_000_000)).unwrap();
    let mut sleep = group_without_slots().sleep_until(long_past.into());
    assert!(!sleep.is_elapsed(), "not polled yet");
    assert!(poll(&mut sleep).is_ready() && poll(&mut sleep).is_ready());
    assert!(sleep.is_elapsed());
}

#[tokio::test]
async fn far_deadline_never_comes() {
    for duration in [Duration::MAX, Duration::from_nanos(u64::MAX), HOUR * 24 * 365 * 1_000] {
        let mut far = sleep(duration);
        assert!(!far.is_elapsed() && poll(&mut far).is_pending());
        // Other sleeps end nevertheless, with and without slots.
        with_watchdog(sleep(us(100))).await;
        let group = IntervalGroup::new().unwrap();
        let mut far = group.sleep(duration);
        assert!(poll(&mut far).is_pending());
        assert!(with_watchdog(group.timeout(us(200), pending::<()>())).await.is_err());
        assert!(!far.is_elapsed() && poll(&mut far).is_pending());
    }
}

#[tokio::test]
async fn reset_moves_and_revives_sleep() {
    let mut sleep = group_without_slots().sleep(HOUR);
    assert!(poll(&mut sleep).is_pending());
    for after in [us(50), us(2_000), Duration::ZERO, us(300)] {
        let deadline = real_now() + after;
        Pin::new(&mut sleep).reset(deadline);
        assert_eq!(sleep.deadline(), deadline);
        with_watchdog(&mut sleep).await;
        assert!(real_now() >= deadline && sleep.is_elapsed());
    }
}

/// The deadline moves while the task waits: it is woken without a poll in between.
#[tokio::test]
async fn earlier_reset_wakes_waiting_task() {
    let group = group_without_slots();
    // Lets the driver of the group run until it waits.
    with_watchdog(group.sleep(us(50))).await;
    tokio::task::yield_now().await;
    for neighbours in [0, 100] {
        let mut others: Vec<_> =
            (0..neighbours).map(|i| group.sleep(HOUR / 2 + us(i) * 1_000)).collect();
        for other in &mut others {
            assert!(poll(other).is_pending());
        }
        let mut sleep = group.sleep(HOUR);
        let mut polls = 0;
        with_watchdog(poll_fn(|cx| {
            polls += 1;
            let result = Pin::new(&mut sleep).poll(cx);
            if polls == 1 {
                assert!(result.is_pending());
                Pin::new(&mut sleep).reset(real_now() + us(500));
            }
            result
        }))
        .await;
        assert!(polls >= 2);
    }
}

/// The sleep fires, and is postponed before the task polls it.
#[tokio::test]
async fn reset_after_wakeup_holds() {
    let group = group_without_slots();
    let counter = Arc::new(CountingWaker::default());
    let waker = Waker::from(Arc::clone(&counter));
    let mut sleep = group.sleep(HOUR);
    assert!(poll_with(&mut sleep, &waker).is_pending());
    Pin::new(&mut sleep).reset(real_now() + us(500));
    while counter.wake_count() == 0 {
        with_watchdog(group.sleep(us(50))).await;
    }
    let deadline = real_now() + us(2_000);
    Pin::new(&mut sleep).reset(deadline);
    assert!(!sleep.is_elapsed() || real_now() >= deadline);
    with_watchdog(&mut sleep).await;
    assert!(real_now() >= deadline, "early");
}

#[tokio::test]
async fn dropped_sleep_releases_waker() {
    let group = group_without_slots();
    let counter = Arc::new(CountingWaker::default());
    let waker = Waker::from(Arc::clone(&counter));
    let wait = || {
        let mut dropped: Vec<_> = (0..100).map(|i| group.sleep(us(20_000 + i * 3))).collect();
        let mut kept: Vec<_> = (0..100).map(|i| group.sleep(us(20_001 + i * 3))).collect();
        for sleep in dropped.iter_mut().chain(&mut kept) {
            let _ = poll_with(sleep, &waker);
        }
        // On a machine that stalls, some may have ended.
        let mut sleeps = dropped.iter_mut().chain(&mut kept);
        sleeps.all(|sleep| poll_with(sleep, &waker).is_pending()).then_some((dropped, kept))
    };
    let (dropped, mut kept) = (0..100).find_map(|_| wait()).expect("sleeps that wait");
    let before = counter.wake_count();
    drop(dropped);
    with_watchdog(group.sleep(us(25_000))).await;
    let wakes = counter.wake_count() - before;
    assert!(wakes <= 100, "{wakes} were woken");
    assert!(kept.iter_mut().all(|sleep| poll_with(sleep, &waker).is_ready()));
    drop(waker);
    assert_eq!(Arc::strong_count(&counter), 1, "a waker is kept");
}

/// A sleep that loses `select!` many times still ends at its deadline.
#[tokio::test]
async fn sleep_survives_lost_select() {
    let mut lost = 0;
    // On a machine that stalls, a sleep may have ended before its first poll.
    for _ in 0..100 {
        let deadline = real_now() + us(100_000);
        let mut sleep = sleep_until(deadline);
        loop {
            tokio::select! {
                biased;
                () = &mut sleep => break,
                () = tokio::task::yield_now() => lost += 1,
            }
        }
        assert!(real_now() >= deadline);
        if lost > 0 {
            return;
        }
    }
    panic!("the sleep never lost");
}

#[tokio::test]
async fn latest_waker_is_woken() {
    let group = group_without_slots();
    // On a machine that stalls, the sleep may end before its second poll.
    for _ in 0..100 {
        let [first, second] = [(); 2].map(|()| Arc::new(CountingWaker::default()));
        let mut sleep = group.sleep(us(300));
        let was_pending = poll_with(&mut sleep, &Arc::clone(&first).into()).is_pending()
            && poll_with(&mut sleep, &Arc::clone(&second).into()).is_pending();
        with_watchdog(group.sleep(us(2_000))).await;
        assert_eq!((Arc::strong_count(&first), Arc::strong_count(&second)), (1, 1));
        if was_pending {
            assert_eq!((first.wake_count(), second.wake_count()), (0, 1));
            return;
        }
    }
    panic!("the sleep never waited");
}

#[test]
fn threads_share_one_timer() {
    multi_thread_runtime().block_on(async {
        let mut tasks = Vec::new();
        for i in 0..2_000_u64 {
            tasks.push(tokio::spawn(async move {
                for k in 0..5 {
                    let deadline = real_now() + us((i * 37 + k * 211) % 3_000);
                    sleep_until(deadline).await;
                    assert!(real_now() >= deadline, "early");
                    assert!(timeout(us((i + k) % 500), pending::<()>()).await.is_err());
                }
            }));
        }
        for task in tasks {
            with_watchdog(task).await.unwrap();
        }
    });
}

/// Half of the sleeps are polled on one task and then awaited on another, while others are dropped.
#[test]
fn waiting_sleep_moves_between_threads() {
    multi_thread_runtime().block_on(async {
        for round in 0..50 {
            let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
            let receiving = tokio::spawn(async move {
                while let Some(sleep) = receiver.recv().await {
                    let sleep: Sleep = sleep;
                    let deadline = sleep.deadline();
                    sleep.await;
                    assert!(real_now() >= deadline, "early");
                }
            });
            let sending = tokio::spawn(async move {
                for i in 0..40_u64 {
                    let mut moving = sleep(us(100 + (i * 97 + round) % 400));
                    let _ = poll_fn(|cx| Poll::Ready(Pin::new(&mut moving).poll(cx))).await;
                    sender.send(moving).unwrap();
                    let mut dropped = sleep(us(150));
                    let _ = poll_fn(|cx| Poll::Ready(Pin::new(&mut dropped).poll(cx))).await;
                }
            });
            with_watchdog(sending).await.unwrap();
            with_watchdog(receiving).await.unwrap();
        }
    });
}

/// Creates a sleep on the timer of a runtime.
fn sleep_on(runtime: &Runtime, duration: Duration) -> Sleep {
    let _entered = runtime.enter();
    sleep(duration)
}

#[test]
fn sleep_ends_on_another_runtime() {
    let runtime = multi_thread_runtime();
    let mut sleep = sleep_on(&runtime, us(500));
    current_thread_runtime().block_on(with_watchdog(&mut sleep));
}

/// The runtime of the sleep's timer ends while the sleep is awaited on another one.
#[test]
fn orphaned_sleep_panics() {
    let runtime = multi_thread_runtime();
    let mut orphan = sleep_on(&runtime, HOUR);
    let (polled, wait_until_polled) = std::sync::mpsc::channel();
    let waiting = std::thread::spawn(move || {
        current_thread_runtime().block_on(async {
            assert!(poll_fn(|cx| Poll::Ready(Pin::new(&mut orphan).poll(cx))).await.is_pending());
            polled.send(()).unwrap();
            with_watchdog(orphan).await;
        });
    });
    wait_until_polled.recv().unwrap();
    drop(runtime);
    let panic = waiting.join().unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(message.contains("is its runtime shutting down?"), "{message}");
}

#[test]
fn runtime_shutdown_wakes_waiting_sleeps() {
    for make in [current_thread_runtime, multi_thread_runtime] {
        let counter = Arc::new(CountingWaker::default());
        let waker = Waker::from(Arc::clone(&counter));
        let runtime = make();
        let mut orphans = runtime.block_on(async {
            for i in 0..100 {
                tokio::spawn(async move {
                    let _ = timeout(HOUR, sleep(us(i))).await;
                    sleep(HOUR).await;
                });
            }
            with_watchdog(sleep(us(1_000))).await;
            let mut orphans = [sleep(HOUR), IntervalGroup::new().unwrap().sleep(HOUR)];
            for sleep in &mut orphans {
                assert!(poll_with(sleep, &waker).is_pending());
            }
            orphans
        });
        drop(runtime);
        assert_eq!(counter.wake_count(), 2, "all that wait are woken");
        for sleep in &mut orphans {
            // These methods need no runtime.
            Pin::new(&mut *sleep).reset(real_now() + HOUR);
            assert!(!sleep.is_elapsed());
        }
        drop(orphans);
        drop(waker);
        assert_eq!(Arc::strong_count(&counter), 1, "a waker is kept");
    }
}

/// tokio's timers panic at their first poll, not before.
#[test]
fn ended_runtime_creates_timers() {
    for make in [current_thread_runtime, multi_thread_runtime] {
        for was_used in [false, true] {
            let runtime = make();
            if was_used {
                runtime.block_on(async { with_watchdog(sleep(us(20))).await });
            }
            let handle = runtime.handle().clone();
            drop(runtime);
            let _entered = handle.enter();
            drop((interval(us(100)), IntervalGroup::new().unwrap()));
            let ready =
                pin!(timeout(HOUR, async { 5 })).poll(&mut Context::from_waker(Waker::noop()));
            assert_eq!(ready, Poll::Ready(Ok(5)));
            let message = panic_message(|| poll(&mut sleep(us(20))));
            assert!(message.contains("is its runtime shutting down?"), "{message}");
        }
    }
}

#[test]
fn each_runtime_has_a_timer() {
    for _ in 0..20 {
        let runtimes = [current_thread_runtime(), current_thread_runtime(), multi_thread_runtime()];
        for runtime in &runtimes {
            runtime.block_on(async { with_watchdog(sleep(us(20))).await });
        }
        // One after the other on one thread: the queue that this thread caches for one runtime must
        // not serve the next.
        for runtime in runtimes {
            runtime.block_on(async { with_watchdog(sleep(us(20))).await });
            drop(runtime);
        }
    }
}

fn panic_message<T>(make: impl FnOnce() -> T + UnwindSafe) -> String {
    let payload = catch_unwind(make).map(drop).unwrap_err();
    *payload.downcast::<String>().unwrap()
}

#[test]
fn sleep_without_runtime_panics() {
    assert!(panic_message(|| sleep(us(1))).starts_with("cannot create the sleep: "));
}

#[test]
fn disabled_driver_is_reported() {
    let bare = Builder::new_current_thread().build().unwrap();
    bare.block_on(async {
        // The timers of Windows wake through callbacks, not through the runtime's I/O driver.
        if IntervalGroup::new()
            .is_ok_and(|group| cfg!(windows) && group.backend() != Backend::TokioSleep)
        {
            return;
        }
        let message = panic_message(|| timeout_at(real_now(), pending::<()>()));
        assert!(message.contains("enable_all"), "{message}");
        assert_eq!(IntervalGroup::new().unwrap_err().kind(), std::io::ErrorKind::NotConnected);
    });
}

#[tokio::test]
async fn timeout_returns_output() {
    assert_eq!(with_watchdog(timeout(HOUR, async { 7 })).await, Ok(7));
    // A future that is ready wins over a deadline that has passed.
    assert_eq!(with_watchdog(timeout_at(real_now(), async { 8 })).await, Ok(8));
}

#[tokio::test]
async fn elapsed_timeout_returns_future() {
    let deadline = real_now() + us(200_000);
    let mut polls = 0;
    let count_polls = poll_fn(|_| {
        polls += 1;
        Poll::<()>::Pending
    });
    let mut never = timeout_at(deadline, count_polls);
    let elapsed = with_watchdog(&mut never).await.unwrap_err();
    assert!(real_now() >= deadline, "early");
    assert_eq!(elapsed.to_string(), "deadline has elapsed");
    let (_, _) = (size_of_val(never.get_ref()), size_of_val(never.get_mut()));
    let mut inner = never.into_inner();
    assert!(Pin::new(&mut inner).poll(&mut Context::from_waker(Waker::noop())).is_pending());
    // On a machine that stalls, the first poll is after the deadline.
    assert!(polls >= 2);
}

/// The timeout has a future that uses up the cooperative budget at every poll.
#[tokio::test]
async fn timeout_fires_without_budget() {
    let greedy = poll_fn(|cx| {
        while let Poll::Ready(budget) = tokio::task::coop::poll_proceed(cx) {
            budget.made_progress();
        }
        Poll::<()>::Pending
    });
    assert!(with_watchdog(timeout(us(300), greedy)).await.is_err());
}

/// A task whose sleeps are always ready lets others run.
#[tokio::test]
async fn elapsed_sleeps_use_budget() {
    let loops = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&loops);
    let busy = tokio::spawn(async move {
        loop {
            sleep(Duration::ZERO).await;
            let _ = timeout(Duration::ZERO, pending::<()>()).await;
            counter.fetch_add(1, Ordering::Relaxed);
        }
    });
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    busy.abort();
    assert!(loops.load(Ordering::Relaxed) > 0);
}

#[tokio::test]
async fn precise_group_is_never_early() {
    let group = IntervalGroup::builder()
        .resolution(Duration::from_nanos(1))
        .precision(Precision::spin())
        .build()
        .unwrap();
    for i in 0..300 {
        let deadline = real_now() + us(i * 3);
        with_watchdog(group.sleep_until(deadline)).await;
        assert!(real_now() >= deadline, "early");
    }
    let start = real_now();
    let mut interval = group.interval_at(start, us(400));
    for k in 0..100 {
        assert_eq!(with_watchdog(interval.tick()).await, start + us(400) * k);
        assert!(real_now() >= start + us(400) * k, "early");
    }
}

/// All sleeps wait at once, half of them are dropped, and the rest end.
#[cfg(target_os = "linux")]
#[test]
fn many_sleeps_share_one_descriptor() {
    const COUNT: u64 = 100_000;
    current_thread_runtime().block_on(async {
        let counter = Arc::new(CountingWaker::default());
        let waker = Waker::from(Arc::clone(&counter));
        let mut sleeps: Vec<_> = (0..COUNT).map(|i| sleep(HOUR + us(i * 7_919 % COUNT))).collect();
        assert!(sleeps.iter_mut().all(|sleep| poll_with(sleep, &waker).is_pending()));
        // With tokio as well, in case its clock is paused.
        assert!(Arc::strong_count(&counter) >= 2 + COUNT as usize, "each waits");
        // The test of `descriptors.rs` counts exactly; here, other tests have timers as well.
        let timers = count_timerfds();
        assert!(timers < COUNT as usize / 100, "{timers} timers");
        let mut keep = [false, true].into_iter().cycle();
        sleeps.retain(|_| keep.next().unwrap());
        assert_eq!(counter.wake_count(), 0);
        let soon = real_now() + us(5_000);
        for (i, sleep) in sleeps.iter_mut().enumerate() {
            Pin::new(sleep).reset(soon + us(i as u64 % 1_000));
        }
        while counter.wake_count() < sleeps.len() {
            with_watchdog(sleep(us(500))).await;
        }
        assert_eq!(counter.wake_count(), sleeps.len(), "each once");
        assert!(sleeps.iter_mut().all(|sleep| poll_with(sleep, &waker).is_ready()));
    });
}

#[cfg(target_os = "linux")]
fn count_timerfds() -> usize {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let targets = descriptors.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    targets.filter(|target| target.to_string_lossy().contains("timerfd")).count()
}
