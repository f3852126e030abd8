//! Checks that a timer without a free descriptor is an error, or tokio's timer if that fallback is
//! set. It is the only test of its program, since the limit applies to the process.
#![cfg(all(
    any(
        target_os = "linux",
        target_os = "android",
        target_vendor = "apple",
        target_os = "freebsd"
    ),
    feature = "interval",
    feature = "os-native",
    feature = "periodic",
    not(osinterval_force_fallback)
))]
#![allow(unsafe_code, reason = "the limit is lowered through libc")]

mod common;

use std::fs::File;
use std::future::pending;
use std::panic::{UnwindSafe, catch_unwind};
use std::time::Duration;

use common::assert_panic_names_this_line;
use osinterval::{Backend, Fallback, IntervalGroup, IntervalTimer, OsInterval, PeriodicInterval};
use tokio::time::Instant;

const HOUR: Duration = Duration::from_secs(3_600);

/// Lowers the limit of descriptors and opens all of them.
fn exhaust_descriptors() -> Vec<File> {
    let limit = libc::rlimit { rlim_cur: 64, rlim_max: 64 };
    // SAFETY: the limit is ours and only read.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

/// The number of open descriptors, including the one that counts them.
fn count_open() -> usize {
    std::fs::read_dir("/dev/fd").map_or(0, Iterator::count)
}

/// The maximum number of descriptors for all intervals, sleeps and timeouts of a runtime, as the
/// documentation of `OsInterval` states it.
const MAX_DESCRIPTORS: usize = if cfg!(target_os = "linux") { 2 } else { 1 };

/// Checks that intervals and sleeps of a runtime share its descriptors, and that none is left after
/// the runtime has ended.
fn check_shared_descriptors() {
    let before = count_open();
    let mut orphans = Vec::new();
    for _ in 0..5 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let before_sleeps = count_open();
        let sleeps = runtime.block_on(async {
            osinterval::sleep(Duration::from_micros(10)).await;
            let mut intervals: Vec<_> = (0..100).map(|_| osinterval::interval(HOUR)).collect();
            for interval in &mut intervals {
                interval.tick().await;
                assert!(tokio::time::timeout(Duration::ZERO, interval.tick()).await.is_err());
            }
            let own = OsInterval::builder(HOUR).timer(IntervalTimer::Own).build().unwrap();
            assert_eq!(count_open(), before_sleeps + MAX_DESCRIPTORS + 1);
            drop(own);
            let mut sleeps = [(); 10].map(|()| osinterval::sleep(HOUR));
            for sleep in &mut sleeps {
                assert!(tokio::time::timeout(Duration::ZERO, sleep).await.is_err());
            }
            // A sleep that has waited keeps tokio's handle of the runtime, for its paused clock.
            drop(sleeps);
            [(); 10].map(|()| osinterval::sleep(HOUR))
        });
        assert_eq!(count_open(), before_sleeps + MAX_DESCRIPTORS);
        orphans.extend(sleeps);
    }
    assert_eq!((count_open(), orphans.len()), (before, 50));
}

#[test]
fn exhausted_descriptors_fail_or_fall_back() {
    check_shared_descriptors();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let files = exhaust_descriptors();
        check_errors();
        check_panics();
        let interval = OsInterval::builder(HOUR).fallback(Fallback::TokioSleep).build().unwrap();
        let group = IntervalGroup::builder().fallback(Fallback::TokioSleep).build().unwrap();
        // A timer that is made on a paused clock needs no descriptor. A paused clock also leaps to
        // the next deadline, so that no hour passes.
        tokio::time::pause();
        OsInterval::builder(HOUR).build().unwrap().tick().await;
        check_fallback_of_interval(interval).await;
        check_fallback_of_group(group).await;
        tokio::time::resume();
        drop(files);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        assert_ne!(OsInterval::builder(HOUR).build().unwrap().backend(), Backend::TokioSleep);
    });
}

fn check_errors() {
    let results = [
        OsInterval::builder(HOUR).build().map(drop),
        PeriodicInterval::new(HOUR).map(drop),
        IntervalGroup::new().map(drop),
    ];
    for error in results.map(Result::unwrap_err) {
        assert_eq!(error.raw_os_error(), Some(libc::EMFILE), "{error}");
    }
}

fn check_panics() {
    let message = panic_message(|| osinterval::interval(HOUR));
    assert!(message.starts_with("cannot create the interval: "), "{message}");
    let message = panic_message(|| osinterval::sleep(HOUR));
    assert!(message.starts_with("cannot create the sleep: "), "{message}");

    assert_panic_names_this_line(|| osinterval::interval(HOUR));
    assert_panic_names_this_line(|| osinterval::interval_at(Instant::now(), HOUR));
    assert_panic_names_this_line(|| osinterval::sleep(HOUR));
    assert_panic_names_this_line(|| osinterval::sleep_until(Instant::now() + HOUR));
    assert_panic_names_this_line(|| osinterval::timeout(HOUR, pending::<()>()));
    let due = Instant::now() + HOUR;
    assert_panic_names_this_line(|| osinterval::timeout_at(due, pending::<()>()));
}

fn panic_message<T>(make: impl FnOnce() -> T + UnwindSafe) -> String {
    let payload = catch_unwind(make).map(drop).unwrap_err();
    *payload.downcast::<String>().expect("a message")
}

async fn check_fallback_of_interval(mut interval: OsInterval) {
    let start = interval.deadline();
    assert_eq!((interval.backend(), interval.lead()), (Backend::TokioSleep, None));
    let first = interval.tick().await;
    for k in 1..10 {
        assert_eq!(interval.tick().await, first + HOUR * k);
    }
    assert!(Instant::now() >= start + HOUR * 9);
    // A reset to an earlier or a later time holds.
    for after in [HOUR / 2, HOUR * 2] {
        interval.reset_after(after);
        let due = interval.deadline();
        assert_eq!(interval.tick().await, due);
    }
}

async fn check_fallback_of_group(group: IntervalGroup) {
    let mut interval = group.interval(HOUR);
    assert_eq!(group.backend(), Backend::TokioSleep);
    assert_eq!(interval.backend(), Backend::TokioSleep);
    let first = interval.tick().await;
    assert_eq!(interval.tick().await, first + HOUR);
}
