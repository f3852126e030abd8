//! What the crate starts behind its caller's back: nothing. A program of its own, so that nobody
//! else starts threads.

#[cfg(target_os = "linux")]
#[test]
fn no_thread_is_started_unless_one_is_asked_for() {
    use std::time::Duration;

    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let before = threads();
    let start = tach::Instant::now();
    assert!(start.elapsed() < Duration::from_secs(60) && tach::info().rate_hz > 0.0);
    tach::recalibrate();
    assert!(tach::MonotonicInstant::now().elapsed() < Duration::from_secs(60));
    assert_eq!(threads(), before);

    #[cfg(feature = "recalibrate-background")]
    {
        tach::set_recalibration_interval(tach::DEFAULT_RECALIBRATION_INTERVAL).unwrap();
        assert_eq!(threads(), before + 1);
        tach::set_recalibration_interval(Duration::from_millis(2)).unwrap();
        assert_eq!(threads(), before + 1, "the same thread, with another interval");
        tach::set_recalibration_interval(Duration::ZERO).unwrap();
        #[allow(clippy::disallowed_methods, reason = "a watchdog")]
        let patience = std::time::Instant::now();
        while threads() > before {
            assert!(patience.elapsed() < Duration::from_secs(30), "the thread did not end");
            std::thread::yield_now();
        }
    }
}
