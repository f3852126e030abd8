//! Checks that the crate starts no thread by itself, and one thread with the feature
//! `recalibrate-background`. This test program contains no other test, so
//! that no other code starts threads.

#[cfg(target_os = "linux")]
#[test]
fn thread_starts_only_with_feature() {
    use std::time::Duration;

    let count_threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let before = count_threads();
    let start = tach::Instant::now();
    let has_thread =
        cfg!(feature = "recalibrate-background") && tach::source() != tach::Source::OsClock;
    let expected = before + usize::from(has_thread);
    assert_eq!(count_threads(), expected);
    assert!(start.elapsed() < Duration::from_secs(3_600) && tach::info().rate_hz > 0.0);
    tach::recalibrate();
    tach::Instant::recalibrate();
    assert!(tach::MonotonicInstant::now().elapsed() < Duration::from_secs(3_600));
    assert_eq!(count_threads(), expected);

    #[cfg(feature = "recalibrate-background")]
    {
        tach::set_recalibration_interval(Duration::from_millis(2)).unwrap();
        assert_eq!(count_threads(), before + 1, "expected the same thread with another interval");
        tach::set_recalibration_interval(Duration::ZERO).unwrap();
        #[allow(clippy::disallowed_methods, reason = "a watchdog")]
        let watchdog = std::time::Instant::now();
        while count_threads() > before {
            assert!(watchdog.elapsed() < Duration::from_secs(600), "the thread did not end");
            std::thread::yield_now();
        }
    }
}
