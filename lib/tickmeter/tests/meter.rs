//! Meters through the public API, as a program uses them.
#![cfg(not(loom))]
#![allow(clippy::disallowed_methods, reason = "the test makes its own deadlines")]

use std::time::{Duration, Instant};

use tickmeter::{Meter, Place, RegisterError, Snapshot};

const PERIOD: Duration = Duration::from_millis(1);

fn register(name: &str) -> Meter {
    Meter::register(name, PERIOD).unwrap()
}

fn spin(length: Duration) {
    let start = Instant::now();
    while start.elapsed() < length {}
}

#[test]
fn invalid_names_are_rejected() {
    for name in ["", "a\nb", &"x".repeat(65)] {
        assert!(matches!(Meter::register(name, PERIOD), Err(RegisterError::Name(_))), "{name:?}");
    }
}

#[test]
fn invalid_periods_are_rejected() {
    for period in [Duration::ZERO, Duration::MAX] {
        let error = Meter::register("periods", period).unwrap_err();
        assert!(error.to_string().contains("invalid meter period"), "{error}");
    }
}

#[test]
fn taken_names_get_a_suffix() {
    let first = register("taken");
    let second = register("taken");
    assert_eq!([first.name(), second.name()], ["taken", "taken-2"]);
    drop(first);
    assert_eq!(register("taken").name(), "taken");
}

#[test]
fn suffix_shortens_long_names() {
    // No character is cut in two.
    let long = "é".repeat(32);
    let _first = register(&long);
    assert_eq!(register(&long).name(), format!("{}-2", "é".repeat(31)));
}

#[test]
fn ticks_are_classified_by_deadline() {
    let mut meter = register("deadlines");
    let start = Instant::now();
    // All ticks are late by about an hour, if the machine has been up for that long.
    let an_hour = Duration::from_secs(3600);
    let first = start.checked_sub(an_hour).unwrap_or(start);
    let late_by = start - first;
    meter.tick(first);
    meter.tick(first + PERIOD);
    meter.tick(first + PERIOD * 4); // skips two
    meter.ticks(first + PERIOD * 5, 3); // three coalesced ticks
    meter.ticks(first, 0); // no tick
    meter.tick(first + PERIOD * 8);
    meter.tick(first + PERIOD * 19 / 2); // off the grid
    let snapshot = meter.snapshot();
    assert_eq!((snapshot.ticks, snapshot.coalesced, snapshot.skipped), (8, 2, 2));
    assert!(snapshot.exact && snapshot.early == 0 && snapshot.lateness.count() == 8);
    let max = snapshot.lateness.max().unwrap();
    let tolerance = snapshot.clock_error * 2;
    assert!(late_by <= max + tolerance, "{max:?}");
    assert!(max <= start.elapsed() + late_by + tolerance, "{max:?}");
    if !late_by.is_zero() {
        assert_eq!((snapshot.missed, snapshot.late.len()), (10, 6), "{snapshot:?}");
    }
}

#[test]
fn ticks_at_uses_given_time() {
    let mut meter = register("stamped");
    let deadline = Instant::now();
    let woke = tach::Instant::now();
    spin(PERIOD * 20);
    meter.ticks_at(deadline, 1, woke);
    let at_wakeup = meter.snapshot().lateness.max().unwrap();
    meter.ticks(deadline, 1);
    let after_spin = meter.snapshot().lateness.max().unwrap();
    // Less than 20 periods because of the width of a bin and the error of the clock.
    assert!(at_wakeup + PERIOD * 19 < after_spin, "{at_wakeup:?} {after_spin:?}");
}

#[test]
fn ticks_at_accepts_time_before_registration() {
    let woke = tach::Instant::now();
    let deadline = Instant::now();
    spin(PERIOD * 20);
    let mut meter = register("before");
    meter.ticks_at(deadline, 1, woke);
    let first = meter.snapshot();
    assert!(first.lateness.max().unwrap() < PERIOD, "{first:?}");
    assert_eq!(first.last_tick, Duration::ZERO);
    for _ in 0..100 {
        meter.tick(Instant::now());
    }
    let later = meter.snapshot().since(&first).unwrap();
    assert_eq!((later.ticks, later.early), (100, 0), "{later:?}");
}

#[test]
fn early_ticks_are_counted() {
    let mut meter = register("early");
    meter.tick(Instant::now() + Duration::from_secs(3_600));
    let snapshot = meter.snapshot();
    assert_eq!((snapshot.early, snapshot.missed), (1, 0));
    assert_eq!(snapshot.lateness.quantile(1.0), Some(Duration::ZERO));
}

#[test]
fn distant_deadlines_saturate() {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 86_400);
    let start = Instant::now();
    for centuries in [3, 4, 6, 20] {
        // Not every system has instants that distant.
        let span = CENTURY * centuries;
        let mut meter = register("distant");
        let distant = [start.checked_add(span), start.checked_sub(span)];
        for deadline in distant.into_iter().flatten() {
            meter.tick(deadline);
        }
        meter.tick(start);
        let snapshot = meter.snapshot();
        assert_eq!(snapshot.early, u64::from(distant[0].is_some()), "{centuries} {snapshot:?}");
        assert_eq!(snapshot.skipped, 0, "{centuries} {snapshot:?}");
        let mut slow = Meter::register("slow", (CENTURY * centuries).min(CENTURY * 5)).unwrap();
        slow.tick(start);
        if let Some(next) = start.checked_add(slow.period()) {
            slow.tick(next);
            let snapshot = slow.snapshot();
            assert_eq!((snapshot.early, snapshot.missed), (1, 0), "{centuries} {snapshot:?}");
        }
    }
}

const LATE_BY: Duration = Duration::from_millis(5);

#[test]
fn work_past_deadline_is_an_overrun() {
    loop {
        let mut meter = register("slow");
        let start = Instant::now();
        meter.tick(start);
        let paused_before = start.elapsed();
        spin(LATE_BY);
        let end_of_work = Instant::now();
        meter.work_done();
        meter.tick(start + PERIOD);
        let paused = paused_before + end_of_work.elapsed();
        let snapshot = meter.snapshot();
        assert!(snapshot.overruns == 1 && snapshot.missed >= 1, "{snapshot:?}");
        let min_work = LATE_BY - snapshot.clock_error;
        assert!(snapshot.work_total >= min_work && snapshot.work.count() == 1, "{snapshot:?}");
        let last = snapshot.late.last().unwrap();
        assert!(last.work.unwrap() >= min_work && last.overrun >= min_work - PERIOD, "{last:?}");
        // If the machine paused this thread before or after the work, that may be the larger part:
        // try again.
        if paused < LATE_BY / 2 {
            assert!(snapshot.missed_by_work >= 1, "{snapshot:?}");
            break;
        }
    }
}

/// Registers a meter whose first tick is late by about an hour, as after a stall of the machine.
/// Returns it with its start, or `None` if this machine has no instants that old.
fn wake_an_hour_late(name: &str, period: Duration) -> Option<(Meter, Instant)> {
    let first = Instant::now().checked_sub(Duration::from_secs(3600))?;
    let mut meter = Meter::register(name, period).unwrap();
    meter.tick(first);
    meter.work_done();
    Some((meter, first))
}

#[test]
fn ticks_after_stall_inherit_cause() {
    let period = Duration::from_secs(1);
    let Some((mut meter, first)) = wake_an_hour_late("stalled", period) else { return };
    for k in 1..50 {
        meter.tick(first + period * k);
        meter.work_done();
    }
    let snapshot = meter.snapshot();
    assert_eq!((snapshot.missed, snapshot.missed_by_work), (50, 0), "{snapshot:?}");
}

#[test]
fn slow_loop_stays_slow() {
    let mut meter = register("catching-up");
    let start = Instant::now();
    meter.tick(start);
    for k in 1..=20 {
        spin(LATE_BY);
        meter.work_done();
        meter.tick(start + PERIOD * k);
    }
    let snapshot = meter.snapshot();
    let last = snapshot.late.last().unwrap();
    let min_overrun = (LATE_BY - PERIOD) * 20;
    assert!(last.overrun + snapshot.clock_error * 2 >= min_overrun, "{last:?}");
    assert_eq!(snapshot.overruns, 20, "{snapshot:?}");
}

#[test]
fn work_after_stall_is_its_part() {
    let start = Instant::now();
    let Some((mut meter, first)) = wake_an_hour_late("mixed", PERIOD) else { return };
    for k in 1..=20 {
        meter.tick(first + PERIOD * k);
        spin(LATE_BY);
        meter.work_done();
    }
    meter.tick(first + PERIOD * 21);
    let snapshot = meter.snapshot();
    let last = snapshot.late.last().unwrap();
    // The first work, which was short, made up for less than a period of the rest.
    let min_overrun = (LATE_BY - PERIOD) * 20 - PERIOD;
    assert!(last.overrun + snapshot.clock_error * 2 >= min_overrun, "{last:?}");
    assert!(last.overrun <= start.elapsed() + PERIOD, "{last:?}");
    assert!(last.lateness > Duration::from_secs(3500) && last.overrun < last.lateness / 2);
}

#[test]
fn moved_schedule_inherits_nothing() {
    let Some((mut meter, _)) = wake_an_hour_late("moved", PERIOD) else { return };
    // As under `Delay`: the next tick is due a period after the late wake-up.
    let resumed = Instant::now();
    spin(LATE_BY);
    meter.work_done();
    meter.tick(resumed + PERIOD);
    let snapshot = meter.snapshot();
    let last = snapshot.late.last().unwrap();
    assert!(last.overrun + snapshot.clock_error * 2 >= LATE_BY - PERIOD, "{last:?}");
}

#[test]
fn late_wakeup_is_not_work() {
    let mut meter = register("late");
    let start = Instant::now();
    meter.tick(start);
    meter.work_done();
    spin(LATE_BY);
    // A deadline in the future: the loop waits for it, however late the machine makes this test.
    meter.tick(start + Duration::from_secs(1));
    meter.work_done();
    meter.tick(Instant::now() - LATE_BY);
    let snapshot = meter.snapshot();
    assert_eq!(snapshot.work.count(), 2);
    assert!(snapshot.lateness.max().unwrap() >= LATE_BY - snapshot.clock_error);
}

#[test]
fn unmarked_work_is_not_recorded() {
    let mut meter = register("unmarked");
    for _ in 0..3 {
        meter.tick(Instant::now());
    }
    let snapshot = meter.snapshot();
    assert_eq!((snapshot.work.count(), snapshot.overruns), (0, 0));
}

#[test]
fn since_returns_the_difference() {
    let late_by = Duration::from_millis(20);
    let mut meter = register("difference");
    let now = Instant::now();
    meter.tick(now);
    let before = meter.snapshot();
    let reader = meter.reader();
    meter.tick(now - late_by);
    let after = std::thread::spawn(move || reader.snapshot()).join().unwrap();
    let since = after.since(&before).unwrap();
    assert_eq!((since.ticks, since.missed, since.late.len(), since.lateness.count()), (1, 1, 1, 1));
    assert!(since.lateness.quantile(0.0).unwrap() >= late_by - since.clock_error);
    assert_eq!(before.lateness.plus(&since.lateness).count(), after.lateness.count());
    let nothing = Snapshot::since(&after, &after).unwrap();
    assert_eq!((nothing.ticks, nothing.lateness.max()), (0, None));
}

#[test]
fn since_another_meter_is_none() {
    assert_eq!(register("one").snapshot().since(&register("other").snapshot()), None);
}

#[test]
fn ticks_do_not_allocate() {
    let mut meter = register("allocations");
    let start = Instant::now();
    let mut k = 0;
    let allocations = allocation_counter::measure(|| {
        for _ in 0..1_000 {
            k += 1;
            meter.tick(start + PERIOD * k - Duration::from_millis(2));
            meter.work_done();
        }
    });
    assert_eq!((allocations.count_total, meter.snapshot().ticks), (0, 1_000));
}

#[test]
#[cfg(unix)]
fn dropped_meter_removes_its_file() {
    use tickmeter::read::{File, ReadError};
    let mut meter = register("file");
    meter.tick(Instant::now());
    let Place::Mapped(path) = meter.place() else { return };
    let path = path.clone();
    let mut file = File::open(&path).unwrap();
    let snapshot = meter.snapshot();
    assert_eq!(file.snapshot().unwrap(), snapshot);
    assert!(file.is_alive());
    assert_eq!(snapshot.pid, std::process::id());
    assert_eq!((snapshot.period, snapshot.late_from), (PERIOD, PERIOD / 2));
    drop(meter);
    assert!(matches!(File::open(&path), Err(ReadError::Io(_))));
    // A reader that still has the file open can read it, and sees that its process has ended.
    assert_eq!((file.snapshot().unwrap().ticks, file.is_alive()), (1, false));
}

/// The memory of a file is its blocks, whichever process has touched them.
#[test]
#[cfg(target_os = "linux")]
fn idle_meters_touch_two_pages() {
    use std::os::unix::fs::MetadataExt as _;
    let pages = |meter: &Meter| match meter.place() {
        Place::Mapped(path) => Some(std::fs::metadata(path).unwrap().blocks() * 512 / 4_096),
        _ => None,
    };
    let mut meter = register("idle");
    meter.work_done();
    // Neither this process nor another one allocates the memory by reading it.
    assert_eq!(meter.snapshot().ticks, 0);
    let Some(idle) = pages(&meter) else { return };
    if let Place::Mapped(path) = meter.place() {
        assert_eq!(tickmeter::read::File::open(path).unwrap().snapshot().unwrap().ticks, 0);
    }
    assert!(idle <= 2 && pages(&meter) == Some(idle), "{idle} pages");
    meter.tick(Instant::now());
    let ticking = pages(&meter).unwrap();
    assert!(ticking * 4_096 >= 72_192, "{ticking} pages: a later tick may find the memory full");
}

/// Tests of wrapped intervals. The counts follow from the ticks, however late these are.
#[cfg(any(feature = "tokio", feature = "osinterval"))]
mod wrapped {
    use super::*;
    use std::future::Future;

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    #[test]
    #[cfg(feature = "tokio")]
    fn tokio_interval_is_metered() {
        run(async {
            let meter = Meter::register("tokio", Duration::from_secs(9)).unwrap();
            // The first tick is due when the interval is created.
            let start = Instant::now();
            let mut interval = meter.wrap(tokio::time::interval(PERIOD));
            assert_eq!(interval.meter().period(), PERIOD, "the period of the interval");
            for _ in 0..20 {
                let deadline = interval.tick().await;
                assert!(deadline.into_std() <= Instant::now());
                // A canceled wait loses no tick and records none twice.
                tokio::select! {
                    biased;
                    () = std::future::ready(()) => {}
                    _ = interval.tick() => unreachable!("the other branch is ready first"),
                }
            }
            let (snapshot, elapsed) = (interval.meter().snapshot(), start.elapsed());
            assert_eq!((snapshot.ticks, snapshot.early, snapshot.skipped), (20, 0, 0));
            assert_eq!(snapshot.work.count(), 19);
            let max = snapshot.lateness.max().unwrap();
            assert!(max <= elapsed + snapshot.clock_error * 2, "{max:?}");
            assert!(snapshot.work_total <= elapsed);
            let expected = interval.missed_tick_behavior();
            assert_eq!(interval.into_inner().missed_tick_behavior(), expected);
        });
    }

    /// Takes three ticks of an interval that skips ticks during the work after the first. Returns a
    /// snapshot, and the number of periods between the first and the last tick.
    #[cfg(feature = "tokio")]
    async fn skip_ticks() -> (Snapshot, u64) {
        let mut interval = register("skip").wrap(tokio::time::interval(PERIOD));
        interval.get_mut().set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        let first = interval.tick().await;
        spin(PERIOD * 20);
        interval.tick().await;
        let third = interval.tick().await;
        let periods = (third - first).as_nanos() / PERIOD.as_nanos();
        (interval.meter().snapshot(), periods as u64)
    }

    #[test]
    #[cfg(feature = "tokio")]
    fn skipped_ticks_are_missed() {
        run(async {
            for attempt in 1.. {
                let (snapshot, periods) = skip_ticks().await;
                assert_eq!((snapshot.ticks, snapshot.skipped), (3, periods - 2), "{snapshot:?}");
                assert!(snapshot.skipped >= 15, "{snapshot:?}");
                assert!(snapshot.missed > snapshot.skipped, "{snapshot:?}");
                // If the machine was late as well, part of it is not due to the work: try again.
                if snapshot.missed_by_work > snapshot.skipped {
                    break;
                }
                assert!(attempt < 100, "the work was the cause: {snapshot:?}");
            }
        });
    }

    #[test]
    #[cfg(feature = "osinterval")]
    fn os_interval_is_metered() {
        run(async {
            let mut interval = register("os").wrap(osinterval::interval(PERIOD));
            for _ in 0..5 {
                interval.tick().await;
            }
            let snapshot = interval.meter().snapshot();
            assert_eq!((snapshot.ticks, snapshot.early), (5, 0));
        });
    }

    #[test]
    #[cfg(feature = "osinterval")]
    fn periodic_interval_is_metered() {
        run(async {
            let periodic = osinterval::PeriodicInterval::new(PERIOD).unwrap();
            let mut interval = register("periodic").wrap(periodic);
            spin(PERIOD * 5);
            let count = interval.tick().await.unwrap().count;
            let snapshot = interval.meter().snapshot();
            assert_eq!((snapshot.ticks, snapshot.coalesced), (count, count - 1));
            assert!(count >= 5 && snapshot.missed >= count - 1, "{snapshot:?}");
        });
    }
}

#[test]
#[cfg(feature = "busypoll")]
fn busypoll_interval_is_metered() {
    busypoll::Runtime::new().unwrap().block_on(async {
        let mut interval = register("busy").wrap(busypoll::time::interval(PERIOD));
        for _ in 0..5 {
            interval.tick().await;
        }
        let snapshot = interval.meter().snapshot();
        assert_eq!((snapshot.ticks, snapshot.early), (5, 0));
    });
}
