//! Where no descriptor is left: an error, or tokio's timer where that was asked for. The only test
//! of its program, since the limit is that of the process.
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
use std::time::Duration;

use common::blames_this_line;
use osinterval::{Backend, Fallback, IntervalGroup, OsInterval, PeriodicInterval};
use tokio::time::Instant;

const HOUR: Duration = Duration::from_secs(3_600);

/// Takes every descriptor there is, after there are few.
fn take_all() -> Vec<File> {
    let limit = libc::rlimit { rlim_cur: 64, rlim_max: 64 };
    // SAFETY: the limit is ours and only read.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

/// How many descriptors are open, that of this look included.
fn open() -> usize {
    std::fs::read_dir("/dev/fd").map_or(0, Iterator::count)
}

/// One a runtime, whatever waits; what outlives the runtime keeps none.
fn sleeps_give_back_what_their_runtimes_had() {
    let before = open();
    let left: Vec<_> = (0..5)
        .flat_map(|_| {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let bare = open();
            let sleeps = runtime.block_on(async {
                osinterval::sleep(Duration::from_micros(10)).await;
                let mut sleeps = [(); 10].map(|()| osinterval::sleep(HOUR));
                for sleep in &mut sleeps {
                    assert!(tokio::time::timeout(Duration::ZERO, sleep).await.is_err());
                }
                sleeps
            });
            assert_eq!(open(), bare + 1);
            sleeps
        })
        .collect();
    assert_eq!((open(), left.len()), (before, 50));
}

#[test]
fn out_of_descriptors_is_an_error_or_tokio_s_timer_and_passes() {
    sleeps_give_back_what_their_runtimes_had();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let taken = take_all();
        let refused = [
            OsInterval::builder(HOUR).build().map(drop),
            PeriodicInterval::new(HOUR).map(drop),
            IntervalGroup::new().map(drop),
        ];
        for error in refused.map(Result::unwrap_err) {
            assert_eq!(error.raw_os_error(), Some(libc::EMFILE), "{error}");
        }
        let of_interval =
            std::panic::catch_unwind(|| osinterval::interval(HOUR)).map(drop).unwrap_err();
        let of_sleep = std::panic::catch_unwind(|| osinterval::sleep(HOUR)).map(drop).unwrap_err();
        for (panicked, says) in
            [(of_interval, "cannot make an interval: "), (of_sleep, "cannot make a sleep: ")]
        {
            let message = panicked.downcast_ref::<String>().expect("a message");
            assert!(message.starts_with(says), "{message}");
        }
        blames_this_line(|| osinterval::interval(HOUR));
        blames_this_line(|| osinterval::interval_at(Instant::now(), HOUR));
        blames_this_line(|| osinterval::sleep(HOUR));
        blames_this_line(|| osinterval::sleep_until(Instant::now() + HOUR));
        blames_this_line(|| osinterval::timeout(HOUR, pending::<()>()));
        blames_this_line(|| osinterval::timeout_at(Instant::now() + HOUR, pending::<()>()));

        // The fallback follows tokio's clock, which leaps to the next deadline here: no hour
        // passes.
        let start = Instant::now();
        let mut interval =
            OsInterval::builder(HOUR).fallback(Fallback::TokioSleep).build().unwrap();
        assert_eq!((interval.backend(), interval.lead()), (Backend::TokioSleep, None));
        let first = interval.tick().await;
        for k in 1..10 {
            assert_eq!(interval.tick().await, first + HOUR * k);
        }
        assert!(Instant::now() >= start + HOUR * 9);
        // A reset wakes whoever waits, earlier and later.
        for after in [HOUR / 2, HOUR * 2] {
            interval.reset_after(after);
            let due = interval.deadline();
            assert_eq!(interval.tick().await, due);
        }
        let group = IntervalGroup::builder().fallback(Fallback::TokioSleep).build().unwrap();
        let mut member = group.interval(HOUR);
        assert_eq!((group.backend(), member.backend()), (Backend::TokioSleep, Backend::TokioSleep));
        let first = member.tick().await;
        assert_eq!(member.tick().await, first + HOUR);

        drop(taken);
        assert_ne!(OsInterval::builder(HOUR).build().unwrap().backend(), Backend::TokioSleep);
    });
}
