//! Counts the system calls of ticks and checks their order, by replacing functions of libc. In tests
//! rustix calls these functions, except on 32-bit systems.
#![cfg(all(
    target_os = "linux",
    target_env = "gnu",
    target_pointer_width = "64",
    feature = "blocking",
    feature = "interval",
    feature = "os-native",
    feature = "periodic",
    not(osinterval_force_fallback)
))]
#![allow(unsafe_code, reason = "this test replaces functions of libc")]

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use osinterval::blocking;
use osinterval::{
    Backend, Fallback, IntervalGroup, IntervalTimer, OsInterval, PeriodicInterval, Precision,
};

const PERIOD: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3_600);
const TICKS: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Arm,
    Read,
    Wait,
    SleepUntil,
    SetSlack,
}

thread_local! {
    static CALLS: RefCell<Vec<Call>> = const { RefCell::new(Vec::new()) };
    /// The time for which the next `read` stalls before it reads.
    static READ_STALL: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    /// Whether timers cannot be armed, as in a sandbox that denies the system call.
    static DENIES_ARMING: Cell<bool> = const { Cell::new(false) };
}

/// Returns the calls of this thread since the last call of this function.
fn take_calls() -> Vec<Call> {
    CALLS.with(|calls| std::mem::take(&mut *calls.borrow_mut()))
}

/// Records a call, unless the thread is ending. Allocates.
fn record_call(call: Call) {
    let _ = CALLS.try_with(|calls| calls.borrow_mut().push(call));
}

// The linker finds these functions before those of libc. Each makes the same system call as libc's
// function, and sets `errno` like it.

#[unsafe(no_mangle)]
extern "C" fn read(fd: c_int, buffer: *mut c_void, size: usize) -> isize {
    record_call(Call::Read);
    let stall = READ_STALL.try_with(Cell::take).unwrap_or_default();
    if !stall.is_zero() {
        #[allow(clippy::disallowed_methods, reason = "the thread has to stall")]
        std::thread::sleep(stall);
    }
    // SAFETY: the caller's arguments, as it would have given them to libc.
    unsafe { libc::syscall(libc::SYS_read, fd, buffer, size) as isize }
}

#[unsafe(no_mangle)]
extern "C" fn timerfd_settime(
    fd: c_int,
    flags: c_int,
    new: *const libc::itimerspec,
    old: *mut libc::itimerspec,
) -> c_int {
    record_call(Call::Arm);
    if DENIES_ARMING.try_with(Cell::get).unwrap_or_default() {
        // SAFETY: the address of the error code of this thread, which nothing else refers to.
        unsafe { *libc::__errno_location() = libc::EPERM };
        return -1;
    }
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_timerfd_settime, fd, flags, new, old) as c_int }
}

#[unsafe(no_mangle)]
extern "C" fn epoll_wait(
    epoll: c_int,
    events: *mut libc::epoll_event,
    max: c_int,
    timeout: c_int,
) -> c_int {
    record_call(Call::Wait);
    // SAFETY: as above; without a signal mask its size does not matter.
    unsafe {
        let no_mask = std::ptr::null::<libc::sigset_t>();
        libc::syscall(libc::SYS_epoll_pwait, epoll, events, max, timeout, no_mask, 8) as c_int
    }
}

#[unsafe(no_mangle)]
extern "C" fn clock_nanosleep(
    clock: libc::clockid_t,
    flags: c_int,
    time: *const libc::timespec,
    remaining: *mut libc::timespec,
) -> c_int {
    if flags & libc::TIMER_ABSTIME != 0 {
        record_call(Call::SleepUntil);
    }
    // SAFETY: the caller's arguments. Unlike the system call, this function returns the error.
    let result = unsafe { libc::syscall(libc::SYS_clock_nanosleep, clock, flags, time, remaining) };
    if result == 0 { 0 } else { std::io::Error::last_os_error().raw_os_error().unwrap_or(0) }
}

/// In C, the function takes a variable number of arguments, which are passed like these.
#[unsafe(no_mangle)]
extern "C" fn prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int {
    if option == libc::PR_SET_TIMERSLACK {
        record_call(Call::SetSlack);
    }
    // SAFETY: the caller's arguments, as above.
    unsafe { libc::syscall(libc::SYS_prctl, option, a, b, c, d) as c_int }
}

/// Repeats a measurement until its calls contain a wait, which shows that they are counted. While the
/// machine stalls, all ticks may be due already.
async fn measure_with_waits(mut measure: impl AsyncFnMut() -> Vec<Call>) -> Vec<Call> {
    for _ in 0..100 {
        let calls = measure().await;
        if calls.contains(&Call::Wait) {
            return calls;
        }
    }
    panic!("no wait was counted")
}

/// Asserts that there are two calls per tick, and a few that the runtime makes for itself.
fn assert_two_calls_per_tick(calls: &[Call]) {
    assert!(
        calls.len() <= 2 * TICKS + TICKS / 10,
        "{} calls in {TICKS} ticks: {calls:?}",
        calls.len()
    );
}

#[tokio::test]
async fn os_interval_makes_two_calls() {
    for timer in [IntervalTimer::Shared, IntervalTimer::Own] {
        let calls = measure_with_waits(async || {
            let mut interval = OsInterval::builder(PERIOD).timer(timer).build().unwrap();
            interval.tick().await;
            take_calls();
            for _ in 0..TICKS {
                interval.tick().await;
            }
            take_calls()
        })
        .await;
        assert_two_calls_per_tick(&calls);
        assert!(!calls.contains(&Call::Read), "{calls:?}");
    }
}

/// Ten intervals in different phases make as many calls per tick as one.
#[tokio::test]
async fn many_intervals_make_two_calls() {
    let calls = measure_with_waits(async || {
        let start = tokio::time::Instant::now() + PERIOD;
        let tasks: Vec<_> = (0..10)
            .map(|index| {
                let mut interval = osinterval::interval_at(start + PERIOD * index / 10, PERIOD);
                tokio::spawn(async move {
                    for _ in 0..TICKS / 10 {
                        interval.tick().await;
                    }
                })
            })
            .collect();
        take_calls();
        for task in tasks {
            task.await.unwrap();
        }
        take_calls()
    })
    .await;
    assert_two_calls_per_tick(&calls);
}

#[tokio::test]
async fn group_arms_after_delivery() {
    let group = IntervalGroup::new().unwrap();
    let mut undelayed_ticks = 0;
    let calls = measure_with_waits(async || {
        let mut interval = group.interval(PERIOD);
        // In a task, since waking the future of `block_on` costs another system call of the runtime.
        let ticks = tokio::spawn(async move {
            interval.tick().await;
            take_calls();
            let mut calls = Vec::new();
            let mut undelayed_ticks = 0;
            for _ in 0..TICKS {
                interval.tick().await;
                let tick_calls = take_calls();
                undelayed_ticks += usize::from(tick_calls.last() == Some(&Call::Wait));
                calls.extend(tick_calls);
            }
            (calls, undelayed_ticks)
        });
        let (calls, undelayed) = ticks.await.unwrap();
        undelayed_ticks = undelayed;
        calls
    })
    .await;
    assert_two_calls_per_tick(&calls);
    // On a slow machine most ticks are due already and are not waited for. The runtime also polls
    // for events now and then, which counts as a wait.
    let waits = calls.iter().filter(|call| **call == Call::Wait).count();
    assert!(
        undelayed_ticks > 0 && 2 * undelayed_ticks + 2 > waits,
        "the timer was armed between a wake-up and its tick: {calls:?}"
    );
}

/// The timeouts are polled once and dropped, as nearly all timeouts are.
#[tokio::test]
async fn unfired_timeouts_cost_no_calls() {
    // Lets the driver of the timer run once.
    osinterval::sleep(PERIOD).await;
    tokio::task::yield_now().await;
    take_calls();
    for i in 0..1_000 {
        let timeout = osinterval::timeout(HOUR + PERIOD * i, tokio::task::yield_now());
        assert!(timeout.await.is_ok());
    }
    let calls = take_calls();
    // The runtime polls for events now and then. The timer may be armed for the first timeout.
    let arm_calls = calls.iter().filter(|call| **call == Call::Arm).count();
    assert!(arm_calls <= 1, "{calls:?}");
    assert!(!calls.contains(&Call::Read), "{calls:?}");
}

#[tokio::test]
async fn successive_sleeps_make_two_calls() {
    let calls = measure_with_waits(async || {
        let sleeps = tokio::spawn(async {
            let start = tokio::time::Instant::now();
            osinterval::sleep_until(start + PERIOD).await;
            take_calls();
            for k in 2..TICKS as u32 + 2 {
                osinterval::sleep_until(start + PERIOD * k).await;
            }
            take_calls()
        });
        sleeps.await.unwrap()
    })
    .await;
    assert_two_calls_per_tick(&calls);
}

#[tokio::test]
async fn periodic_interval_reads_after_delivery() {
    let mut interval = PeriodicInterval::new(PERIOD).unwrap();
    interval.tick().await.unwrap();
    let mut delayed_ticks = 0;
    let calls = measure_with_waits(async || {
        take_calls();
        let mut calls = Vec::new();
        delayed_ticks = 0;
        for _ in 0..TICKS {
            interval.tick().await.unwrap();
            let tick_calls = take_calls();
            // A tick that was waited for comes directly after the wait. On a machine that stalls,
            // other ticks were due already.
            delayed_ticks += usize::from(tick_calls.last() != Some(&Call::Wait));
            calls.extend(tick_calls);
        }
        calls
    })
    .await;
    assert_two_calls_per_tick(&calls);
    assert!(!calls.contains(&Call::Arm), "{calls:?}");
    assert!(
        delayed_ticks < TICKS,
        "a system call was made between each wake-up and its tick: {calls:?}"
    );
}

/// An expiration between the reading of the clock and the `read` is taken by that `read`, and
/// causes no further edge.
#[tokio::test]
async fn coalesced_expiration_is_not_lost() {
    let mut interval = PeriodicInterval::new(PERIOD).unwrap();
    let mut coalesced = 0;
    while coalesced < 10 {
        interval.tick().await.unwrap();
        // If the tick was delivered late, the next one may be due already: then nothing is read.
        let next = interval.deadline();
        take_calls();
        READ_STALL.set(PERIOD * 3);
        let expirations = interval.tick().await.unwrap();
        let calls = take_calls();
        READ_STALL.set(Duration::ZERO);
        assert_eq!(expirations.first, next);
        if calls.contains(&Call::Read) {
            assert!(expirations.count >= 2, "{expirations:?}");
            assert_eq!(calls.last(), Some(&Call::Read), "it waited for the next one: {calls:?}");
            coalesced += 1;
        }
    }
}

/// The tick is polled and dropped, as by `select!`, and then postponed.
#[tokio::test]
async fn postponed_tick_costs_no_call() {
    let start = tokio::time::Instant::now() + HOUR;
    let poll = async |interval: &mut OsInterval| {
        poll_fn(|cx| Poll::Ready(interval.poll_tick(cx).is_pending())).await
    };
    let mut interval = OsInterval::builder(HOUR).start_at(start).build().unwrap();
    take_calls();
    for _ in 0..1_000 {
        interval.reset();
    }
    assert_eq!(take_calls(), [], "not polled yet");
    assert!(poll(&mut interval).await);
    assert_eq!(take_calls(), [Call::Arm; 2], "this tick and the next");
    for _ in 0..1_000 {
        interval.reset();
        assert!(poll(&mut interval).await);
    }
    assert_eq!(take_calls(), [], "postponed");
    interval.reset_after(HOUR / 2);
    assert!(poll(&mut interval).await);
    assert_eq!(take_calls(), [Call::Arm], "brought forward");
}

#[tokio::test]
async fn denied_arming_fails_or_falls_back() {
    DENIES_ARMING.set(true);
    for timer in [IntervalTimer::Shared, IntervalTimer::Own] {
        let builder = OsInterval::builder(PERIOD).timer(timer);
        let error = builder.clone().build().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EPERM), "{error}");
        let mut interval = builder.fallback(Fallback::TokioSleep).build().unwrap();
        assert_eq!(interval.backend(), Backend::TokioSleep);
        let first = interval.tick().await;
        assert_eq!(interval.tick().await, first + PERIOD);
    }
    assert_eq!(IntervalGroup::new().unwrap_err().raw_os_error(), Some(libc::EPERM));
    let group = IntervalGroup::builder().fallback(Fallback::TokioSleep).build().unwrap();
    group.sleep(PERIOD).await;
    assert_eq!(PeriodicInterval::new(PERIOD).unwrap_err().raw_os_error(), Some(libc::EPERM));
    DENIES_ARMING.set(false);
    osinterval::sleep(PERIOD).await;
    assert_eq!(osinterval::interval(PERIOD).backend(), Backend::Timerfd);
}

/// The error is reported at once, also if the wait would end in spinning.
#[tokio::test]
async fn denied_arming_ends_precise_wait() {
    let group = IntervalGroup::builder().precision(Precision::spin()).build().unwrap();
    let deadline = tokio::time::Instant::now() + HOUR / 6;
    DENIES_ARMING.set(true);
    let sleep = tokio::spawn(group.sleep_until(deadline));
    let mut interval = group.interval_at(deadline, HOUR);
    let ticks = tokio::spawn(async move { interval.tick().await });
    assert!(sleep.await.unwrap_err().is_panic());
    assert!(ticks.await.unwrap_err().is_panic());
    assert!(tokio::time::Instant::now() < deadline, "it spun until the deadline");
    DENIES_ARMING.set(false);
}

/// A thread with timer slack sets and restores it around each sleep; one with the minimum does not.
#[test]
fn blocking_interval_sleeps_once() {
    let calls_of_tick = || {
        let mut interval = blocking::interval(PERIOD);
        interval.tick().unwrap();
        // On a machine that stalls, a tick may be due already, and is not waited for.
        loop {
            take_calls();
            interval.tick().unwrap();
            let calls = take_calls();
            if !calls.is_empty() {
                return calls;
            }
        }
    };
    assert_eq!(calls_of_tick(), [Call::SetSlack, Call::SleepUntil, Call::SetSlack]);
    assert_eq!(prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0), 0);
    assert_eq!(calls_of_tick(), [Call::SleepUntil]);
}
