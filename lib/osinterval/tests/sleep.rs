//! Sleeps and timeouts in real time.
#![cfg(feature = "interval")]

use std::future::{pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use osinterval::{
    Backend, IntervalGroup, Precision, Sleep, sleep, sleep_until, timeout, timeout_at,
};
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

const WATCHDOG: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

fn us(n: u64) -> Duration {
    Duration::from_micros(n)
}

#[allow(clippy::disallowed_methods, reason = "the tests compare with the clock")]
fn real_now() -> Instant {
    std::time::Instant::now().into()
}

async fn watched<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(WATCHDOG, future).await.expect("woken before the watchdog")
}

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn multi_thread() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Counts wake-ups.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Woken {
    fn times(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// With no regard to the budget: one task polls many of them.
fn poll_with(sleep: &mut Sleep, waker: &Waker) -> Poll<()> {
    pin!(tokio::task::unconstrained(sleep)).poll(&mut Context::from_waker(waker))
}

fn poll(sleep: &mut Sleep) -> Poll<()> {
    poll_with(sleep, Waker::noop())
}

/// A group with no slots.
fn exact() -> IntervalGroup {
    IntervalGroup::builder().resolution(Duration::from_nanos(1)).build().unwrap()
}

#[tokio::test]
async fn a_sleep_ends_at_its_deadline_or_after_and_never_before() {
    let group = exact();
    for n in 0..200 {
        let deadline = real_now() + us(n * 7);
        match n % 2 {
            0 => watched(sleep_until(deadline)).await,
            _ => watched(group.sleep_until(deadline)).await,
        }
        assert!(real_now() >= deadline, "early");
    }
    let before = real_now();
    watched(sleep(us(1_500))).await;
    assert!(real_now() >= before + us(1_500), "early");
}

#[tokio::test]
async fn a_deadline_that_has_passed_is_ready_at_the_first_poll() {
    let past = real_now().checked_sub(us(1)).unwrap();
    assert!(poll(&mut sleep_until(past)).is_ready());
    assert!(poll(&mut sleep(Duration::ZERO)).is_ready());
    let long_past = std::time::Instant::from(past).checked_sub(us(1_000_000)).unwrap();
    let mut sleep = exact().sleep_until(long_past.into());
    assert!(sleep.is_elapsed());
    assert!(poll(&mut sleep).is_ready() && poll(&mut sleep).is_ready());
}

#[tokio::test]
async fn the_far_future_neither_overflows_nor_comes() {
    for duration in [Duration::MAX, Duration::from_nanos(u64::MAX), HOUR * 24 * 365 * 1_000] {
        let mut far = sleep(duration);
        assert!(!far.is_elapsed() && poll(&mut far).is_pending());
        // It does not keep others from theirs, with and without slots.
        watched(sleep(us(100))).await;
        let group = IntervalGroup::new().unwrap();
        let mut far = group.sleep(duration);
        assert!(poll(&mut far).is_pending());
        assert!(watched(group.timeout(us(200), pending::<()>())).await.is_err());
        assert!(!far.is_elapsed() && poll(&mut far).is_pending());
    }
}

#[tokio::test]
async fn a_reset_moves_a_sleep_either_way_and_revives_one_that_ended() {
    let mut sleep = exact().sleep(HOUR);
    assert!(poll(&mut sleep).is_pending());
    for after in [us(50), us(2_000), Duration::ZERO, us(300)] {
        let deadline = real_now() + after;
        Pin::new(&mut sleep).reset(deadline);
        assert_eq!(sleep.deadline(), deadline);
        watched(&mut sleep).await;
        assert!(real_now() >= deadline && sleep.is_elapsed());
    }
}

/// The task is in the middle of waiting when the deadline moves: it is woken with no poll in
/// between.
#[tokio::test]
async fn a_reset_to_an_earlier_time_wakes_a_task_that_waits() {
    let group = exact();
    // The group's task has taken its first turn, and waits.
    watched(group.sleep(us(50))).await;
    tokio::task::yield_now().await;
    for neighbours in [0, 100] {
        let mut others: Vec<_> =
            (0..neighbours).map(|i| group.sleep(us(500 + i) * 1_000)).collect();
        others.iter_mut().for_each(|other| assert!(poll(other).is_pending()));
        let mut sleep = group.sleep(HOUR);
        let mut polls = 0;
        watched(poll_fn(|cx| {
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

/// It fires, and before the task comes to see that, it is put off.
#[tokio::test]
async fn a_reset_between_the_wake_up_and_the_poll_holds() {
    let group = exact();
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    // Far enough away that no machine is too slow for the first poll.
    let mut sleep = group.sleep(us(200_000));
    assert!(poll_with(&mut sleep, &waker).is_pending());
    while woken.times() == 0 {
        watched(group.sleep(us(50))).await;
    }
    let deadline = real_now() + us(2_000);
    Pin::new(&mut sleep).reset(deadline);
    assert!(!sleep.is_elapsed() || real_now() >= deadline);
    watched(&mut sleep).await;
    assert!(real_now() >= deadline, "early");
}

#[tokio::test]
async fn who_is_dropped_is_not_woken_and_its_waker_is_not_kept() {
    let group = exact();
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut dropped: Vec<_> = (0..100).map(|i| group.sleep(us(200 + i * 3))).collect();
    let mut kept: Vec<_> = (0..100).map(|i| group.sleep(us(201 + i * 3))).collect();
    for sleep in dropped.iter_mut().chain(&mut kept) {
        let _ = poll_with(sleep, &waker);
    }
    let ended = dropped
        .iter_mut()
        .chain(&mut kept)
        .filter_map(|s| poll_with(s, &waker).is_ready().then_some(()))
        .count();
    let before = woken.times();
    drop(dropped);
    watched(group.sleep(us(2_000))).await;
    assert!(
        woken.times() - before <= 100,
        "{} were woken, {ended} had ended",
        woken.times() - before
    );
    assert!(kept.iter_mut().all(|sleep| poll_with(sleep, &waker).is_ready()));
    drop(waker);
    assert_eq!(Arc::strong_count(&woken), 1, "a waker is kept");
}

/// As `select!` does: polled and dropped many times, it still ends once, at the same time.
#[tokio::test]
async fn a_sleep_that_loses_a_race_is_waited_for_again() {
    let deadline = real_now() + us(100_000);
    let mut sleep = sleep_until(deadline);
    let mut lost = 0;
    loop {
        tokio::select! {
            biased;
            () = &mut sleep => break,
            () = tokio::task::yield_now() => lost += 1,
        }
    }
    assert!(real_now() >= deadline);
    assert!(lost > 0);
}

#[tokio::test]
async fn a_sleep_is_woken_through_the_waker_it_was_polled_with_last() {
    let group = exact();
    let wakers: [Arc<Woken>; 2] = Default::default();
    let mut sleep = group.sleep(us(300));
    let pending = wakers.clone().map(|woken| poll_with(&mut sleep, &woken.into()).is_pending());
    watched(group.sleep(us(2_000))).await;
    if pending == [true, true] {
        assert_eq!(wakers.each_ref().map(|woken| woken.times()), [0, 1]);
    }
    assert!(wakers.iter().all(|woken| Arc::strong_count(woken) == 1));
}

#[test]
fn tasks_of_several_threads_share_one_timer_and_each_is_woken() {
    multi_thread().block_on(async {
        let tasks: Vec<_> = (0..2_000_u64)
            .map(|i| {
                tokio::spawn(async move {
                    for k in 0..5 {
                        let deadline = real_now() + us((i * 37 + k * 211) % 3_000);
                        sleep_until(deadline).await;
                        assert!(real_now() >= deadline, "early");
                        assert!(timeout(us((i + k) % 500), pending::<()>()).await.is_err());
                    }
                })
            })
            .collect();
        for task in tasks {
            watched(task).await.unwrap();
        }
    });
}

/// Half of the sleeps are begun on one thread and go on on another, while others come and go.
#[test]
fn a_sleep_moves_to_another_thread_while_it_waits() {
    multi_thread().block_on(async {
        for round in 0..50 {
            let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
            let there = tokio::spawn(async move {
                while let Some(sleep) = receiver.recv().await {
                    let sleep: Sleep = sleep;
                    let deadline = sleep.deadline();
                    sleep.await;
                    assert!(real_now() >= deadline, "early");
                }
            });
            let here = tokio::spawn(async move {
                for i in 0..40_u64 {
                    let mut moving = sleep(us(100 + (i * 97 + round) % 400));
                    let _ = poll_fn(|cx| Poll::Ready(Pin::new(&mut moving).poll(cx))).await;
                    sender.send(moving).unwrap();
                    let mut dropped = sleep(us(150));
                    let _ = poll_fn(|cx| Poll::Ready(Pin::new(&mut dropped).poll(cx))).await;
                }
            });
            watched(here).await.unwrap();
            watched(there).await.unwrap();
        }
    });
}

/// A sleep of one runtime, waited for on another.
#[test]
fn a_sleep_of_another_runtime_ends_while_that_one_runs_and_panics_once_it_is_gone() {
    let (there, here) = (multi_thread(), current_thread());
    let make = |duration| {
        let _there = there.enter();
        sleep(duration)
    };
    let mut soon = make(us(500));
    here.block_on(watched(&mut soon));
    let mut orphan = make(HOUR);
    let (begun, wait_begun) = std::sync::mpsc::channel();
    let waiting = std::thread::spawn(move || {
        here.block_on(async {
            assert!(poll_fn(|cx| Poll::Ready(Pin::new(&mut orphan).poll(cx))).await.is_pending());
            begun.send(()).unwrap();
            watched(orphan).await;
        });
    });
    wait_begun.recv().unwrap();
    drop(there);
    let panic = waiting.join().unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(message.contains("is its runtime shutting down?"), "{message}");
}

#[test]
fn a_runtime_ends_while_its_sleeps_wait_and_their_places_are_free() {
    for make in [current_thread, multi_thread] {
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let runtime = make();
        let mut left = runtime.block_on(async {
            for i in 0..100 {
                tokio::spawn(async move {
                    let _ = timeout(HOUR, sleep(us(i))).await;
                    sleep(HOUR).await;
                });
            }
            watched(sleep(us(1_000))).await;
            let mut left = [sleep(HOUR), IntervalGroup::new().unwrap().sleep(HOUR)];
            left.iter_mut().for_each(|sleep| assert!(poll_with(sleep, &waker).is_pending()));
            left
        });
        drop(runtime);
        assert_eq!(woken.times(), 2, "whoever waits hears of it");
        for sleep in &mut left {
            // Neither of these needs the runtime.
            Pin::new(&mut *sleep).reset(real_now() + HOUR);
            assert!(!sleep.is_elapsed());
        }
        drop(left);
        drop(waker);
        assert_eq!(Arc::strong_count(&woken), 1, "a waker is kept");
    }
}

#[test]
fn every_runtime_has_a_timer_of_its_own() {
    for _ in 0..20 {
        let runtimes = [current_thread(), current_thread(), multi_thread()];
        for runtime in &runtimes {
            runtime.block_on(async { watched(sleep(us(20))).await });
        }
        // One after the other, on one thread: what it remembers of the last one does not serve the
        // next.
        for runtime in runtimes {
            runtime.block_on(async { watched(sleep(us(20))).await });
            drop(runtime);
        }
    }
}

#[test]
fn without_a_runtime_or_its_io_driver_a_sleep_panics_and_a_group_is_an_error() {
    let message =
        |panic: Box<dyn std::any::Any + Send>| panic.downcast_ref::<String>().unwrap().clone();
    let panic = std::panic::catch_unwind(|| sleep(us(1))).map(drop).unwrap_err();
    assert!(message(panic).starts_with("cannot make a sleep: "));
    let bare = Builder::new_current_thread().build().unwrap();
    bare.block_on(async {
        // The timers of Windows wake through callbacks, not through the runtime's I/O driver.
        if IntervalGroup::new()
            .is_ok_and(|group| cfg!(windows) && group.backend() != Backend::TokioSleep)
        {
            return;
        }
        let panic = std::panic::catch_unwind(|| timeout_at(real_now(), pending::<()>()))
            .map(drop)
            .unwrap_err();
        assert!(message(panic).contains("enable_all"));
        assert_eq!(IntervalGroup::new().unwrap_err().kind(), std::io::ErrorKind::NotConnected);
    });
}

#[tokio::test]
async fn a_timeout_gives_the_output_or_the_future_back() {
    assert_eq!(watched(timeout(HOUR, async { 7 })).await, Ok(7));
    // A future that is ready wins over a deadline that has passed.
    assert_eq!(watched(timeout_at(real_now(), async { 8 })).await, Ok(8));
    let deadline = real_now() + us(200_000);
    let mut polls = 0;
    let mut never = timeout_at(
        deadline,
        poll_fn(|_| {
            polls += 1;
            Poll::<()>::Pending
        }),
    );
    let elapsed = watched(&mut never).await.unwrap_err();
    assert!(real_now() >= deadline, "early");
    assert_eq!(elapsed.to_string(), "deadline has elapsed");
    let (_, _) = (size_of_val(never.get_ref()), size_of_val(never.get_mut()));
    let mut inner = never.into_inner();
    assert!(Pin::new(&mut inner).poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert!(polls >= 3);
}

/// A future that uses up the cooperative budget at every poll.
#[tokio::test]
async fn a_timeout_fires_around_a_future_that_leaves_no_budget() {
    let greedy = poll_fn(|cx| {
        while let Poll::Ready(budget) = tokio::task::coop::poll_proceed(cx) {
            budget.made_progress();
        }
        Poll::<()>::Pending
    });
    assert!(watched(timeout(us(300), greedy)).await.is_err());
}

/// And one that is always ready lets others run.
#[tokio::test]
async fn sleeps_that_have_ended_take_from_the_budget() {
    let turns = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&turns);
    let busy = tokio::spawn(async move {
        loop {
            sleep(Duration::ZERO).await;
            let _ = timeout(Duration::ZERO, pending::<()>()).await;
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    busy.abort();
    assert!(turns.load(Ordering::Relaxed) > 0);
}

#[tokio::test]
async fn a_precise_group_is_never_early() {
    let group = IntervalGroup::builder()
        .resolution(Duration::from_nanos(1))
        .precision(Precision::spin())
        .build()
        .unwrap();
    for i in 0..300 {
        let deadline = real_now() + us(i * 3);
        watched(group.sleep_until(deadline)).await;
        assert!(real_now() >= deadline, "early");
    }
    let start = real_now();
    let mut interval = group.interval_at(start, us(400));
    for k in 0..100 {
        assert_eq!(watched(interval.tick()).await, start + us(400) * k);
        assert!(real_now() >= start + us(400) * k, "early");
    }
}

/// As many as memory allows, on one descriptor: all of them wait at once, half are dropped, the
/// rest end.
#[cfg(target_os = "linux")]
#[test]
fn a_hundred_thousand_sleeps_wait_on_one_descriptor() {
    const COUNT: u64 = 100_000;
    let timers = || {
        let fds = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        fds.filter(|fd| {
            std::fs::read_link(fd.path()).is_ok_and(|to| to.to_string_lossy().contains("timerfd"))
        })
        .count()
    };
    current_thread().block_on(async {
        let others = timers();
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut sleeps: Vec<_> = (0..COUNT).map(|i| sleep(HOUR + us(i * 7_919 % COUNT))).collect();
        assert!(sleeps.iter_mut().all(|sleep| poll_with(sleep, &waker).is_pending()));
        assert_eq!(Arc::strong_count(&woken), 2 + COUNT as usize, "each waits");
        // Other tests of this process have timers of their own, one or two each.
        assert!(timers() <= others + 40, "{} timers, {others} before", timers());
        let mut at = 0;
        sleeps.retain(|_| {
            at += 1;
            at % 2 == 0
        });
        assert_eq!(woken.times(), 0);
        let soon = real_now() + us(5_000);
        for (i, sleep) in sleeps.iter_mut().enumerate() {
            Pin::new(sleep).reset(soon + us(i as u64 % 1_000));
        }
        let left = sleeps.len();
        while woken.times() < left {
            watched(sleep(us(500))).await;
        }
        assert_eq!(woken.times(), left, "each once");
        assert!(sleeps.iter_mut().all(|sleep| poll_with(sleep, &waker).is_ready()));
    });
}
