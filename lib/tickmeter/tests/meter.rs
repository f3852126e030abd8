//! Meters as a program uses them.
#![cfg(not(loom))]
#![allow(clippy::disallowed_methods, reason = "deadlines of a program's own")]

use std::time::{Duration, Instant};

use tickmeter::{Meter, Place, RegisterError, Snapshot};

const PERIOD: Duration = Duration::from_millis(1);

#[test]
fn names_and_periods_that_are_none_are_refused() {
    for name in ["", "a\nb", &"x".repeat(65)] {
        assert!(matches!(Meter::register(name, PERIOD), Err(RegisterError::Name(_))), "{name:?}");
    }
    for period in [Duration::ZERO, Duration::MAX] {
        let error = Meter::register("periods", period).unwrap_err();
        assert!(error.to_string().contains("no period"), "{error}");
    }
}

#[test]
fn a_name_that_is_taken_gets_a_suffix_until_it_is_free() {
    let first = Meter::register("taken", PERIOD).unwrap();
    let second = Meter::register("taken", PERIOD).unwrap();
    assert_eq!([first.name(), second.name()], ["taken", "taken-2"]);
    drop(first);
    assert_eq!(Meter::register("taken", PERIOD).unwrap().name(), "taken");
    // There is room for the suffix, and no character is cut in two.
    let long = "é".repeat(32);
    let _first = Meter::register(&long, PERIOD).unwrap();
    assert_eq!(Meter::register(&long, PERIOD).unwrap().name(), format!("{}-2", "é".repeat(31)));
}

#[test]
fn ticks_are_booked_by_their_deadlines() {
    let mut meter = Meter::register("deadlines", PERIOD).unwrap();
    let start = Instant::now();
    // Late by an hour, to within what the test takes; on the grid but for two.
    let late = Duration::from_secs(3600);
    let first = start.checked_sub(late).unwrap_or(start);
    let late = start - first;
    meter.tick(first);
    meter.tick(first + PERIOD);
    meter.tick(first + PERIOD * 4); // two were skipped
    meter.ticks(first + PERIOD * 5, 3); // three at once
    meter.ticks(first, 0); // nothing came
    meter.tick(first + PERIOD * 8);
    meter.tick(first + PERIOD * 19 / 2); // the schedule moved
    let snapshot = meter.snapshot();
    assert_eq!((snapshot.ticks, snapshot.coalesced, snapshot.skipped), (8, 2, 2));
    assert!(snapshot.exact && snapshot.early == 0 && snapshot.lateness.count() == 8);
    let is_late = !late.is_zero();
    assert!(!is_late || snapshot.missed == 10, "{snapshot:?}");
    let max = snapshot.lateness.max().unwrap();
    assert!(
        late <= max + snapshot.clock_error * 2
            && max <= start.elapsed() + late + snapshot.clock_error * 2,
        "{max:?}"
    );
    assert!(!is_late || snapshot.late.len() == 6);
}

#[test]
fn a_loop_gives_its_own_stamp() {
    let mut meter = Meter::register("stamped", PERIOD).unwrap();
    let deadline = Instant::now();
    let woke = tach::Instant::now();
    spin(PERIOD * 20);
    meter.ticks_at(deadline, 1, woke);
    let before = meter.snapshot().lateness.max().unwrap();
    meter.ticks(deadline, 1);
    let now = meter.snapshot().lateness.max().unwrap();
    // By a bin's width, and the error of the clock.
    assert!(before + PERIOD * 19 < now, "{before:?} {now:?}");
}

#[test]
fn what_comes_before_its_deadline_is_early() {
    let mut meter = Meter::register("early", PERIOD).unwrap();
    meter.tick(Instant::now() + Duration::from_secs(1));
    let snapshot = meter.snapshot();
    assert_eq!(
        (snapshot.early, snapshot.missed, snapshot.lateness.quantile(1.0)),
        (1, 0, Some(Duration::ZERO))
    );
}

fn spin(length: Duration) {
    let start = Instant::now();
    while start.elapsed() < length {}
}

#[test]
fn late_and_slow_are_told_apart() {
    let late_by = Duration::from_millis(5);
    // Slow: the deadline finds the loop at work.
    let mut slow = Meter::register("slow", PERIOD).unwrap();
    let start = Instant::now();
    slow.tick(start);
    spin(late_by);
    slow.work_done();
    slow.tick(start + PERIOD);
    let slow = slow.snapshot();
    assert_eq!(
        (slow.overruns, slow.missed >= 1, slow.missed_by_work >= 1),
        (1, true, true),
        "{slow:?}"
    );
    assert!(slow.work_total >= late_by - slow.clock_error && slow.work.count() == 1, "{slow:?}");
    let last = slow.late.last().unwrap();
    assert!(
        last.work.unwrap() >= late_by - slow.clock_error
            && last.overrun >= late_by - PERIOD - slow.clock_error
    );
    // Late: it waited when the deadline came.
    let mut late = Meter::register("late", PERIOD).unwrap();
    let start = Instant::now();
    late.tick(start);
    late.work_done();
    spin(late_by);
    late.tick(start + Duration::from_secs(1)); // nothing of this machine decides that it waited
    late.work_done();
    late.tick(Instant::now() - late_by);
    let late = late.snapshot();
    assert_eq!(late.work.count(), 2);
    assert!(late.lateness.max().unwrap() >= late_by - late.clock_error);
    // A loop that does not say when its work is done has none booked.
    let mut silent = Meter::register("silent", PERIOD).unwrap();
    (0..3).for_each(|_| silent.tick(Instant::now()));
    assert_eq!((silent.snapshot().work.count(), silent.snapshot().overruns), (0, 0));
}

#[test]
fn a_difference_is_what_was_booked_in_between() {
    let mut meter = Meter::register("difference", PERIOD).unwrap();
    meter.tick(Instant::now());
    let before = meter.snapshot();
    let reader = meter.reader();
    meter.tick(Instant::now() - Duration::from_millis(20));
    let after = std::thread::spawn(move || reader.snapshot()).join().unwrap();
    let since = after.since(&before).unwrap();
    assert_eq!((since.ticks, since.missed, since.late.len(), since.lateness.count()), (1, 1, 1, 1));
    assert!(since.lateness.quantile(0.0).unwrap() >= Duration::from_millis(20) - since.clock_error);
    assert_eq!(before.lateness.plus(&since.lateness).count(), after.lateness.count());
    assert_eq!(after.since(&Meter::register("other", PERIOD).unwrap().snapshot()), None);
    assert_eq!(
        (
            Snapshot::since(&after, &after).unwrap().ticks,
            after.since(&after).unwrap().lateness.max()
        ),
        (0, None)
    );
}

#[test]
fn a_tick_neither_allocates_nor_frees() {
    let mut meter = Meter::register("allocations", PERIOD).unwrap();
    let start = Instant::now();
    let mut k = 0;
    let counted = allocation_counter::measure(|| {
        for _ in 0..1_000 {
            k += 1;
            meter.tick(start + PERIOD * k - Duration::from_millis(2));
            meter.work_done();
        }
    });
    assert_eq!((counted.count_total, meter.snapshot().ticks), (0, 1_000));
}

#[test]
#[cfg(unix)]
fn its_file_is_read_by_others_and_goes_with_it() {
    use tickmeter::read::{File, ReadError};
    let mut meter = Meter::register("file", PERIOD).unwrap();
    meter.tick(Instant::now());
    let Place::Mapped(path) = meter.place() else { return };
    let path = path.clone();
    let mut file = File::open(&path).unwrap();
    assert_eq!(file.snapshot().unwrap(), meter.snapshot());
    assert!(file.is_alive());
    let snapshot = meter.snapshot();
    assert_eq!(
        (snapshot.pid, snapshot.period, snapshot.late_from),
        (std::process::id(), PERIOD, PERIOD / 2)
    );
    drop(meter);
    assert!(matches!(File::open(&path), Err(ReadError::Io(_))));
    // Whoever has it open can still read it, and sees that it is over.
    assert_eq!((file.snapshot().unwrap().ticks, file.is_alive()), (1, false));
}

/// Wrapped intervals: the counts follow from the ticks, however late the machine makes them.
#[cfg(any(feature = "tokio", feature = "osinterval"))]
mod wrapped {
    use super::*;
    use std::future::Future;

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    #[test]
    #[cfg(feature = "tokio")]
    fn a_tokio_interval() {
        run(async {
            let mut interval = Meter::register("tokio", Duration::from_secs(9))
                .unwrap()
                .wrap(tokio::time::interval(PERIOD));
            assert_eq!(interval.meter().period(), PERIOD, "the interval's own period counts");
            let start = Instant::now();
            for _ in 0..20 {
                let deadline = interval.tick().await;
                assert!(deadline.into_std() <= Instant::now());
                // Cancelled and begun again: no tick is lost, none is booked twice.
                tokio::select! {
                    biased;
                    () = std::future::ready(()) => {}
                    _ = interval.tick() => unreachable!("the other branch is ready first"),
                }
            }
            let (snapshot, elapsed) = (interval.meter().snapshot(), start.elapsed());
            assert_eq!((snapshot.ticks, snapshot.early, snapshot.skipped), (20, 0, 0));
            assert_eq!(snapshot.work.count(), 19);
            assert!(
                snapshot.lateness.max().unwrap() <= elapsed + snapshot.clock_error * 2
                    && snapshot.work_total <= elapsed
            );
            let expected = interval.missed_tick_behavior();
            assert_eq!(interval.into_inner().missed_tick_behavior(), expected);
        });
    }

    #[test]
    #[cfg(feature = "tokio")]
    fn skipped_ticks_of_tokio_are_missed() {
        run(async {
            for attempt in 1.. {
                let mut interval =
                    Meter::register("skip", PERIOD).unwrap().wrap(tokio::time::interval(PERIOD));
                interval.get_mut().set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
                let first = interval.tick().await;
                spin(PERIOD * 20);
                let second = interval.tick().await;
                let third = interval.tick().await;
                let apart = (third - first).as_nanos() as u64 / PERIOD.as_nanos() as u64;
                let snapshot = interval.meter().snapshot();
                assert_eq!((snapshot.ticks, snapshot.skipped), (3, apart - 2), "{second:?}");
                assert!(
                    snapshot.skipped >= 15 && snapshot.missed > snapshot.skipped,
                    "{snapshot:?}"
                );
                // Where the machine was late, too, part of it is not the work's.
                if snapshot.missed_by_work > snapshot.skipped {
                    break;
                }
                assert!(attempt < 100, "the work made it miss them: {snapshot:?}");
            }
        });
    }

    #[test]
    #[cfg(feature = "osinterval")]
    fn intervals_of_osinterval() {
        run(async {
            let meter = |name| Meter::register(name, PERIOD).unwrap();
            let mut one = meter("os").wrap(osinterval::interval(PERIOD));
            let mut periodic =
                meter("periodic").wrap(osinterval::PeriodicInterval::new(PERIOD).unwrap());
            for _ in 0..5 {
                one.tick().await;
            }
            assert_eq!((one.meter().snapshot().ticks, one.meter().snapshot().early), (5, 0));
            spin(PERIOD * 5);
            let count = periodic.tick().await.unwrap().count;
            let snapshot = periodic.meter().snapshot();
            assert_eq!((snapshot.ticks, snapshot.coalesced), (count, count - 1));
            assert!(count >= 5 && snapshot.missed >= count - 1, "{snapshot:?}");
        });
    }
}

#[test]
#[cfg(feature = "busypoll")]
fn an_interval_of_busypoll() {
    busypoll::Runtime::new().unwrap().block_on(async {
        let mut interval =
            Meter::register("busy", PERIOD).unwrap().wrap(busypoll::time::interval(PERIOD));
        for _ in 0..5 {
            interval.tick().await;
        }
        assert_eq!((interval.meter().snapshot().ticks, interval.meter().snapshot().early), (5, 0));
    });
}
