//! What ticks ask of the kernel, and in which order: counted by standing between this program and
//! its libc.
#![cfg(all(
    target_os = "linux",
    target_env = "gnu",
    feature = "interval",
    feature = "os-native",
    feature = "periodic",
    not(osinterval_force_fallback)
))]
#![allow(unsafe_code, reason = "a test that stands in for functions of libc")]

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use osinterval::{IntervalGroup, OsInterval, PeriodicInterval};

const PERIOD: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3_600);
const TICKS: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Arm,
    Read,
    Wait,
}

thread_local! {
    static CALLS: RefCell<Vec<Call>> = const { RefCell::new(Vec::new()) };
    /// How long the next `read` stalls before it reads.
    static STALL: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// The calls of this thread since the last time.
fn take_calls() -> Vec<Call> {
    CALLS.with(|calls| std::mem::take(&mut *calls.borrow_mut()))
}

/// Allocates, but where a thread ends nothing is left to note.
fn note(call: Call) {
    let _ = CALLS.try_with(|calls| calls.borrow_mut().push(call));
}

// The linker finds these before libc's. Each makes the system call that libc's makes, and sets
// `errno` as it does.

#[unsafe(no_mangle)]
extern "C" fn read(fd: c_int, buffer: *mut c_void, size: usize) -> isize {
    note(Call::Read);
    let stall = STALL.try_with(Cell::take).unwrap_or_default();
    if !stall.is_zero() {
        #[allow(clippy::disallowed_methods, reason = "a stall is what is wanted")]
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
    note(Call::Arm);
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
    note(Call::Wait);
    // SAFETY: as above; without a signal mask its size does not matter.
    unsafe {
        let no_mask = std::ptr::null::<libc::sigset_t>();
        libc::syscall(libc::SYS_epoll_pwait, epoll, events, max, timeout, no_mask, 8) as c_int
    }
}

/// Two a tick, and a few for whatever else the runtime looks at.
fn assert_two_a_tick(calls: &[Call]) {
    assert!(
        calls.len() <= 2 * TICKS + TICKS / 10,
        "{} calls in {TICKS} ticks: {calls:?}",
        calls.len()
    );
    // Unless the machine stalls all the time, most ticks are waited for: then they were counted.
    assert!(calls.contains(&Call::Wait), "{calls:?}");
}

#[tokio::test]
async fn an_os_interval_makes_two_system_calls_a_tick() {
    let mut interval = OsInterval::builder(PERIOD).build().unwrap();
    interval.tick().await;
    take_calls();
    for _ in 0..TICKS {
        interval.tick().await;
    }
    let calls = take_calls();
    assert_two_a_tick(&calls);
    assert!(!calls.contains(&Call::Read), "{calls:?}");
}

#[tokio::test]
async fn a_group_makes_two_system_calls_a_tick_and_none_before_it_is_delivered() {
    let group = IntervalGroup::new().unwrap();
    let mut interval = group.interval(PERIOD);
    // A task: to wake the future of `block_on` takes a system call of the runtime's own.
    let ticks = tokio::spawn(async move {
        interval.tick().await;
        take_calls();
        let mut calls = Vec::new();
        let mut right_after_the_wait = 0;
        for _ in 0..TICKS {
            interval.tick().await;
            let of_this_tick = take_calls();
            right_after_the_wait += usize::from(of_this_tick.last() == Some(&Call::Wait));
            calls.extend(of_this_tick);
        }
        (calls, right_after_the_wait)
    });
    let (calls, right_after_the_wait) = ticks.await.unwrap();
    assert_two_a_tick(&calls);
    // On a slow machine most ticks are due already, and nobody waits for them.
    let waits = calls.iter().filter(|call| **call == Call::Wait).count();
    assert!(
        2 * right_after_the_wait > waits,
        "the timer was armed between a wake-up and its tick: {calls:?}"
    );
}

/// Polled once and dropped, as nearly all timeouts are.
#[tokio::test]
async fn timeouts_that_never_fire_cost_no_system_call_each() {
    // Lets the timer's task take its first turn.
    osinterval::sleep(PERIOD).await;
    tokio::task::yield_now().await;
    take_calls();
    for i in 0..1_000 {
        let timeout = osinterval::timeout(HOUR + PERIOD * i, tokio::task::yield_now());
        assert!(timeout.await.is_ok());
    }
    let calls = take_calls();
    // The runtime looks at its poller now and then; the timer was armed for the first.
    let armed = calls.iter().filter(|call| **call == Call::Arm).count();
    assert!(armed <= 1, "{calls:?}");
    assert!(!calls.contains(&Call::Read), "{calls:?}");
}

#[tokio::test]
async fn sleeps_in_turn_make_two_system_calls_each() {
    let sleeps = tokio::spawn(async {
        let start = tokio::time::Instant::now();
        osinterval::sleep_until(start + PERIOD).await;
        take_calls();
        for k in 2..TICKS as u32 + 2 {
            osinterval::sleep_until(start + PERIOD * k).await;
        }
        take_calls()
    });
    assert_two_a_tick(&sleeps.await.unwrap());
}

#[tokio::test]
async fn a_periodic_interval_makes_two_system_calls_a_tick_and_none_before_it_is_delivered() {
    let mut interval = PeriodicInterval::new(PERIOD).unwrap();
    interval.tick().await.unwrap();
    take_calls();
    let mut calls = Vec::new();
    let mut at_once = 0;
    for _ in 0..TICKS {
        interval.tick().await.unwrap();
        let of_this_tick = take_calls();
        // A tick that was waited for comes right after the wait. Others, on a machine that stalls,
        // were due already.
        match of_this_tick.last() {
            Some(Call::Wait) => {}
            _ => at_once += 1,
        }
        calls.extend(of_this_tick);
    }
    assert_two_a_tick(&calls);
    assert!(!calls.contains(&Call::Arm), "{calls:?}");
    assert!(
        at_once < TICKS,
        "the kernel was asked for something between each wake-up and its tick: {calls:?}"
    );
}

/// An expiration that comes between a look at the clock and the read goes with that read, and makes
/// no further edge.
#[tokio::test]
async fn an_expiration_that_a_read_takes_along_is_not_lost() {
    let mut interval = PeriodicInterval::new(PERIOD).unwrap();
    for _ in 0..10 {
        interval.tick().await.unwrap();
        // Delivered late, the next one may be there already: then nothing is read.
        let next = interval.deadline();
        take_calls();
        STALL.set(PERIOD * 3);
        let e = interval.tick().await.unwrap();
        let calls = take_calls();
        STALL.set(Duration::ZERO);
        assert_eq!(e.first, next);
        if calls.contains(&Call::Read) {
            assert!(e.count >= 2, "{e:?}");
            assert_eq!(calls.last(), Some(&Call::Read), "it waited for the one after: {calls:?}");
        }
    }
}

/// As `select!` does: the tick is polled and dropped, and something else makes the loop put it off.
#[tokio::test]
async fn a_tick_that_is_put_off_costs_no_system_call() {
    let start = tokio::time::Instant::now() + HOUR;
    let poll = async |interval: &mut OsInterval| {
        poll_fn(|cx| Poll::Ready(interval.poll_tick(cx).is_pending())).await
    };
    let mut interval = OsInterval::builder(HOUR).start_at(start).build().unwrap();
    take_calls();
    for _ in 0..1_000 {
        interval.reset();
    }
    assert_eq!(take_calls(), [], "nobody has polled");
    assert!(poll(&mut interval).await);
    assert_eq!(take_calls(), [Call::Arm]);
    for _ in 0..1_000 {
        interval.reset();
        assert!(poll(&mut interval).await);
    }
    assert_eq!(take_calls(), [], "put off");
    interval.reset_after(HOUR / 2);
    assert!(poll(&mut interval).await);
    assert_eq!(take_calls(), [Call::Arm], "brought forward");
}
