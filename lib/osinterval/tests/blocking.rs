//! The interval without a runtime.
#![cfg(feature = "blocking")]

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use common::assert_panic_names_this_line;
use osinterval::blocking::{self, Interrupted, Interval, MissedTickBehavior, interval_at};
use osinterval::{Precision, Spin};

const HOUR: Duration = Duration::from_secs(3_600);

#[allow(clippy::disallowed_methods, reason = "the tests compare with the clock")]
fn real_now() -> Instant {
    Instant::now()
}

#[allow(clippy::disallowed_methods, reason = "the thread has to stall")]
fn stall(length: Duration) {
    std::thread::sleep(length);
}

/// Both precisions.
fn precisions() -> [Precision; 2] {
    [Precision::Os, Precision::spin()]
}

#[test]
fn first_tick_is_immediate() {
    let before = real_now();
    let mut interval = blocking::interval(HOUR);
    let first = interval.tick().unwrap();
    assert!(first >= before && first <= real_now());
    assert_eq!(interval.deadline(), first + HOUR);
    assert_eq!((interval.period(), interval.lead()), (HOUR, None));
}

#[test]
fn ticks_follow_schedule_never_early() {
    let period = Duration::from_nanos(333_333);
    for precision in precisions() {
        for has_handle in [false, true] {
            let start = real_now() + Duration::from_millis(1);
            let builder = Interval::builder(period).start_at(start).precision(precision);
            let mut interval = builder.build().unwrap();
            let _handle = has_handle.then(|| interval.handle());
            for k in 0..500 {
                let deadline = interval.tick().unwrap();
                assert!(real_now() >= deadline, "early");
                assert_eq!(deadline, start + period * k);
            }
        }
    }
}

#[test]
fn behaviours_apply_after_stall() {
    let ms = Duration::from_millis;
    for precision in precisions() {
        let stalled = |behavior| {
            let builder = Interval::builder(ms(20)).precision(precision);
            let builder = builder.missed_tick_behavior(behavior).tolerance(HOUR);
            let mut interval = builder.build().unwrap();
            // On a machine that stalls, this tick may be late.
            let first = interval.tick().unwrap();
            interval.set_tolerance(ms(5));
            stall(ms(50));
            let before = real_now();
            let second = interval.tick().unwrap();
            let after = real_now();
            assert_eq!((second, interval.missed()), (first + ms(20), 1));
            (first, before, after, interval.deadline())
        };
        let (first, .., burst) = stalled(MissedTickBehavior::Burst);
        assert_eq!(burst, first + ms(40));
        let (_, before, after, delay) = stalled(MissedTickBehavior::Delay);
        assert!(delay >= before + ms(20) && delay <= after + ms(20));
        let (first, before, after, skip) = stalled(MissedTickBehavior::Skip);
        assert_eq!((skip - first).as_nanos() % ms(20).as_nanos(), 0);
        assert!(skip > before && skip <= after + ms(20));
    }
}

#[test]
fn reset_moves_next_tick() {
    let mut interval = interval_at(real_now() + HOUR, HOUR);
    let soon = real_now() + Duration::from_millis(1);
    interval.reset_at(soon);
    assert_eq!(interval.tick(), Ok(soon));
    assert_eq!(interval.deadline(), soon + HOUR);
    let before = real_now();
    interval.reset_immediately();
    let now = interval.tick().unwrap();
    assert!(now >= before && now <= real_now());
    let before = real_now();
    interval.reset_after(Duration::MAX);
    assert!(interval.deadline() > before + HOUR);
    interval.reset();
    assert!(interval.deadline() >= before + HOUR);
}

#[test]
fn new_period_follows_next_deadline() {
    let ms = Duration::from_millis;
    for precision in precisions() {
        let mut interval = Interval::builder(ms(1)).precision(precision).build().unwrap();
        let first = interval.tick().unwrap();
        interval.set_period(ms(3));
        let ticks = [interval.tick(), interval.tick(), interval.tick()];
        assert_eq!(ticks, [Ok(first + ms(1)), Ok(first + ms(4)), Ok(first + ms(7))]);
    }
}

#[test]
fn lead_is_within_share_of_period() {
    let spin = Spin::default().with_share(0.5).with_floor(Duration::from_micros(50));
    let mut interval = Interval::builder(HOUR).precision(spin).build().unwrap();
    assert_eq!(interval.lead(), Some(Duration::from_micros(50)));
    interval.set_period(Duration::from_micros(20));
    assert_eq!(interval.lead(), Some(Duration::from_micros(10)));
}

#[test]
fn maximum_period_has_a_lead() {
    let spin = Spin::default().with_share(1.0);
    for period in [Duration::MAX, Duration::MAX - Duration::from_secs(1)] {
        let mut interval = Interval::builder(period).precision(spin).build().unwrap();
        let first = interval.tick().unwrap();
        assert!(interval.deadline() > first);
        assert_eq!(interval.lead(), Some(spin.floor()));
    }
}

#[test]
fn zero_period_panics() {
    assert_panic_names_this_line(|| blocking::interval(Duration::ZERO));
    assert_panic_names_this_line(|| interval_at(real_now(), Duration::ZERO));
    assert_panic_names_this_line(|| Interval::builder(Duration::ZERO));
    let mut interval = blocking::interval(HOUR);
    assert_panic_names_this_line(|| interval.set_period(Duration::ZERO));
    assert_eq!(interval.period(), HOUR);
}

#[test]
fn interrupt_before_tick_is_kept() {
    for precision in precisions() {
        let start = real_now();
        let mut interval =
            Interval::builder(HOUR).start_at(start).precision(precision).build().unwrap();
        let handle = interval.handle();
        handle.interrupt();
        handle.clone().interrupt();
        // Two interrupts are one, and the tick that is due is not lost.
        assert_eq!(interval.tick(), Err(Interrupted));
        assert_eq!(interval.tick(), Ok(start));
        handle.interrupt();
        assert_eq!(interval.tick(), Err(Interrupted));
        assert_eq!(interval.deadline(), start + HOUR);
    }
}

/// A lost interrupt lets this test wait for an hour. The two threads meet before each wait, so that
/// interrupts come before, during and after the start of the wait.
#[test]
#[cfg(not(target_family = "wasm"))]
fn interrupts_end_waits() {
    let waits = if cfg!(miri) { 10 } else { 2_000 };
    for precision in precisions() {
        let start = real_now() + HOUR;
        let mut interval =
            Interval::builder(HOUR).start_at(start).precision(precision).build().unwrap();
        let handle = interval.handle();
        let meeting = Arc::new(Barrier::new(2));
        let meeting_of_waiter = Arc::clone(&meeting);
        let is_announced = Arc::new(AtomicBool::new(false));
        let announcement = Arc::clone(&is_announced);
        let waiter = std::thread::spawn(move || {
            for _ in 0..waits {
                meeting_of_waiter.wait();
                assert_eq!(interval.tick(), Err(Interrupted));
                // Memory that was written before the interrupt is visible.
                assert!(announcement.swap(false, Ordering::Relaxed));
            }
            assert_eq!(interval.deadline(), start);
        });
        for i in 0..waits {
            meeting.wait();
            for _ in 0..(i % 50) * 20 {
                std::hint::spin_loop();
            }
            is_announced.store(true, Ordering::Relaxed);
            handle.interrupt();
        }
        waiter.join().unwrap();
        // The interval is gone.
        handle.interrupt();
    }
}

/// A loop that is always behind ends as well.
#[test]
fn interrupt_ends_loop_behind_schedule() {
    let mut interval = interval_at(real_now(), Duration::from_nanos(1));
    let handle = interval.handle();
    let mut ticks = 0;
    while interval.tick().is_ok() {
        ticks += 1;
        if ticks == 100 {
            handle.interrupt();
        }
    }
    assert_eq!(ticks, 100);
}

#[test]
#[cfg(not(target_family = "wasm"))]
fn interval_moves_between_threads() {
    let start = real_now();
    let mut interval = interval_at(start, Duration::from_micros(100));
    for k in 0..20 {
        interval = std::thread::spawn(move || {
            assert_eq!(interval.tick(), Ok(start + Duration::from_micros(100) * k));
            interval
        })
        .join()
        .unwrap();
    }
}

#[test]
fn interrupted_is_an_io_error() {
    let error = std::io::Error::from(Interrupted);
    assert_eq!(error.kind(), std::io::ErrorKind::Interrupted);
    assert_eq!(error.to_string(), "the wait for a tick was interrupted");
}

#[test]
#[cfg(not(any(target_family = "wasm", miri)))]
fn ticks_do_not_allocate() {
    for precision in precisions() {
        let builder = Interval::builder(Duration::from_micros(200)).precision(precision);
        let mut interval = builder.build().unwrap();
        let handle = interval.handle();
        let allocations = allocation_counter::measure(|| {
            for _ in 0..20 {
                interval.tick().unwrap();
                handle.interrupt();
                interval.tick().unwrap_err();
            }
        });
        assert_eq!(allocations.count_total, 0);
    }
}

/// The handler is installed without `SA_RESTART`, so each signal ends the system call.
#[test]
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "signals are sent through libc")]
fn signals_do_not_end_waits() {
    extern "C" fn ignore(_: libc::c_int) {}
    // SAFETY: all-zero is a valid `sigaction`, the handler does nothing, and no other test uses this
    // signal.
    unsafe {
        let mut action = std::mem::zeroed::<libc::sigaction>();
        action.sa_sigaction = ignore as extern "C" fn(libc::c_int) as libc::sighandler_t;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
    }
    for has_handle in [false, true] {
        let start = real_now() + Duration::from_millis(30);
        let mut interval = interval_at(start, HOUR);
        let _handle = has_handle.then(|| interval.handle());
        // SAFETY: the call takes no argument.
        let waiter = unsafe { libc::pthread_self() };
        let sender = std::thread::spawn(move || {
            while real_now() < start {
                // SAFETY: the thread runs this test, which joins this one before it ends.
                unsafe { libc::pthread_kill(waiter, libc::SIGUSR1) };
                stall(Duration::from_micros(500));
            }
        });
        assert_eq!(interval.tick(), Ok(start));
        assert!(real_now() >= start, "early");
        sender.join().unwrap();
    }
}
