//! Tests the reports of overdue ticks, with the feature `stacks`.
//!
//! A test holds its loop until the report has come, however long that takes. ThreadSanitizer delays
//! signals until a thread calls a function that it replaces.
#![cfg(all(
    feature = "stacks",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(loom, tsan))
))]
#![allow(clippy::disallowed_methods, reason = "the tests make their own deadlines")]

use std::hint::black_box;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGUSR1, SIGUSR2};
use tickmeter::Meter;
use tickmeter::stacks::{OverdueTick, OverdueWatch, StackEnd, WatchError};

const PERIOD: Duration = Duration::from_millis(1);
const THRESHOLD: Duration = Duration::from_millis(5);
const HOUR: Duration = Duration::from_secs(3_600);

/// A process has one watch.
fn serial() -> MutexGuard<'static, ()> {
    static SERIAL: Mutex<()> = Mutex::new(());
    SERIAL.lock().unwrap_or_else(PoisonError::into_inner)
}

fn register(name: &str) -> Meter {
    Meter::register(name, PERIOD).unwrap()
}

/// Starts a watch that sends its reports.
fn watch() -> (OverdueWatch, Receiver<OverdueTick>) {
    let (report, reports) = channel();
    let send = move |tick: &OverdueTick| report.send(tick.clone()).unwrap();
    (OverdueWatch::start(THRESHOLD, send).unwrap(), reports)
}

/// A report, and the time from which a function held the loop until the report came.
struct Hold {
    since: Instant,
    report: OverdueTick,
}

#[inline(never)]
fn hold_asleep(reports: &Receiver<OverdueTick>) -> Hold {
    let since = Instant::now();
    black_box(Hold { since, report: reports.recv().unwrap() })
}

#[inline(never)]
fn hold_busy(reports: &Receiver<OverdueTick>) -> Hold {
    let since = Instant::now();
    loop {
        black_box(Instant::now());
        if let Ok(report) = reports.try_recv() {
            return Hold { since, report };
        }
    }
}

/// Ticks and holds the loop until there is a report with a stack of the hold. A busy machine may
/// not let the thread answer in time, or not reach the hold before the tick is overdue.
#[inline(never)]
fn report_while(
    meter: &mut Meter,
    reports: &Receiver<OverdueTick>,
    hold: fn(&Receiver<OverdueTick>) -> Hold,
) -> OverdueTick {
    loop {
        let counted = meter.snapshot().stacks;
        let tick = Instant::now();
        meter.tick(tick);
        let Hold { since, report } = hold(reports);
        assert_eq!(meter.snapshot().stacks - counted, u64::from(!report.frames.is_empty()));
        let has_answer = report.end != StackEnd::NoAnswer;
        assert!(has_answer || report.frames.is_empty());
        if has_answer && since < tick + THRESHOLD {
            return report;
        }
    }
}

fn index_of(functions: &[String], name: &str) -> usize {
    let found = functions.iter().position(|function| function.contains(name));
    found.unwrap_or_else(|| panic!("no {name} in {functions:#?}"))
}

#[test]
fn report_names_function_that_waits() {
    let _serial = serial();
    let mut meter = register("asleep");
    let (_watch, reports) = watch();
    let report = report_while(&mut meter, &reports, hold_asleep);
    let functions = report.functions();
    let held = index_of(&functions, "stacks::hold_asleep");
    assert!(held < index_of(&functions, "stacks::report_while"), "{functions:#?}");
    assert_eq!((report.meter.as_str(), report.end), ("asleep", StackEnd::Complete));
    assert!(report.is_working && report.overdue >= THRESHOLD, "{report:?}");
    assert!(Path::new(&format!("/proc/self/task/{}", report.thread_id)).exists());
    let text = report.to_string();
    assert!(text.starts_with("asleep: a tick is overdue by "), "{text}");
    assert!(text.contains("the loop is at work, in thread ") && text.contains("hold_asleep"));
    let program = std::env::current_exe().unwrap();
    let module = |path: &Option<String>| path.as_deref().map(Path::new) == Some(&program);
    assert!(report.frames.iter().any(|frame| module(&frame.module)), "{report:?}");
}

#[test]
fn report_names_function_that_runs() {
    let _serial = serial();
    let mut meter = register("busy");
    let (_watch, reports) = watch();
    let report = report_while(&mut meter, &reports, hold_busy);
    let functions = report.functions();
    let held = index_of(&functions, "stacks::hold_busy");
    assert!(held < index_of(&functions, "stacks::report_while"), "{functions:#?}");
    assert_eq!(report.end, StackEnd::Complete);
}

#[test]
fn stacks_are_a_second_apart() {
    let _serial = serial();
    let mut meter = register("limited");
    let start = Instant::now();
    for _ in 0..2 {
        // A new watch has the limit of the last one.
        let (_watch, reports) = watch();
        report_while(&mut meter, &reports, hold_asleep);
        // The watcher sleeps again before the loop continues.
        thread::sleep(THRESHOLD * 10);
        report_while(&mut meter, &reports, hold_asleep);
    }
    assert!(start.elapsed() >= Duration::from_secs(3));
}

#[test]
fn ticks_before_their_deadline_are_unreported() {
    let _serial = serial();
    let mut punctual = Meter::register("punctual", HOUR).unwrap();
    punctual.tick(Instant::now() - HOUR);
    let _unused = register("unused");
    let mut meter = register("held");
    let (_watch, reports) = watch();
    for _ in 0..2 {
        let report = report_while(&mut meter, &reports, hold_asleep);
        assert_eq!(report.meter, "held");
    }
    assert_eq!(punctual.snapshot().stacks, 0);
}

#[test]
fn longest_overdue_tick_comes_first() {
    let _serial = serial();
    let mut meters: Vec<Meter> = (0..100).map(|n| register(&format!("many-{n}"))).collect();
    let mut held = 0;
    let (watch, reports) = watch();
    for meter in &mut meters {
        meter.tick(Instant::now());
    }
    for n in 0..3 {
        let report = hold_asleep(&reports).report;
        assert_eq!(report.meter, format!("many-{n}"));
        held += u64::from(!report.frames.is_empty());
    }
    // The watcher may have reported further ticks.
    drop(watch);
    held += reports.try_iter().filter(|report| !report.frames.is_empty()).count() as u64;
    let counted = meters.iter().map(|meter| meter.snapshot().stacks).sum::<u64>();
    assert_eq!(counted, held);
}

#[test]
fn deep_stacks_are_cut() {
    #[inline(never)]
    fn descend<const BYTES: usize>(depth: usize, reports: &Receiver<OverdueTick>) -> Hold {
        let mut frame = [0_u8; BYTES];
        black_box(&mut frame);
        let hold = match depth {
            0 => hold_asleep(reports),
            _ => descend::<BYTES>(depth - 1, reports),
        };
        black_box(&mut frame);
        hold
    }
    let _serial = serial();
    let mut meter = register("deep");
    let (_watch, reports) = watch();
    let report = report_while(&mut meter, &reports, |reports| descend::<8>(400, reports));
    assert_eq!((report.end, report.frames.len()), (StackEnd::TooDeep, 256));
    let report = report_while(&mut meter, &reports, |reports| descend::<16_000>(8, reports));
    assert_eq!(report.end, StackEnd::TooDeep);
    let descents = report.functions().iter().filter(|name| name.contains("descend")).count();
    assert!((1..8).contains(&descents), "{report}");
}

#[test]
fn handled_signals_are_refused() {
    let _serial = serial();
    let is_raised = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGUSR1, Arc::clone(&is_raised)).unwrap();
    let error = OverdueWatch::start_with_signal(THRESHOLD, SIGUSR1, |_| {}).unwrap_err();
    assert!(matches!(error, WatchError::SignalInUse(SIGUSR1)), "{error:?}");
    assert_eq!(
        error.to_string(),
        "cannot take stacks: the program handles signal 10 itself; choose another one with \
         OverdueWatch::start_with_signal"
    );
    assert!(!is_raised.load(Ordering::Relaxed));
    // A refused watch leaves room for another one.
    drop(watch());
}

#[test]
fn foreign_handlers_get_no_signal() {
    let _serial = serial();
    let (report, reports) = channel();
    let send = move |tick: &OverdueTick| report.send(tick.clone()).unwrap();
    let mut meter = register("replaced");
    let _watch = OverdueWatch::start_with_signal(THRESHOLD, SIGUSR2, send).unwrap();
    let is_raised = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGUSR2, Arc::clone(&is_raised)).unwrap();
    meter.tick(Instant::now());
    let report = hold_asleep(&reports).report;
    assert_eq!((report.end, report.frames.len()), (StackEnd::SignalTaken, 0));
    assert!(report.to_string().contains("another handler of the signal"));
    assert!(!is_raised.load(Ordering::Relaxed));
    assert_eq!(meter.snapshot().stacks, 0);
}

#[test]
fn ended_threads_have_no_stack() {
    let _serial = serial();
    let mut meter = register("ended");
    let thread_id = thread::scope(|scope| {
        let run = || {
            meter.tick(Instant::now());
            let link = std::fs::read_link("/proc/thread-self").unwrap();
            link.file_name().unwrap().to_string_lossy().into_owned()
        };
        scope.spawn(run).join().unwrap()
    });
    while Path::new("/proc/self/task").join(&thread_id).exists() {
        thread::sleep(PERIOD);
    }
    let (_watch, reports) = watch();
    let report = hold_asleep(&reports).report;
    assert_eq!((report.end, report.frames.len()), (StackEnd::ThreadEnded, 0));
    assert_eq!(report.thread_id.to_string(), thread_id);
    assert_eq!(meter.snapshot().stacks, 0);
}

#[test]
fn meters_may_end_during_reports() {
    let _serial = serial();
    let (report, reports) = channel();
    let (proceed, proceeded) = channel::<()>();
    let send = move |tick: &OverdueTick| {
        report.send(tick.meter.clone()).unwrap();
        let _ = proceeded.recv();
        report.send(format!("{} functions", tick.functions().len())).unwrap();
    };
    let mut meter = register("dropped");
    meter.tick(Instant::now());
    let reader = meter.reader();
    let watch = OverdueWatch::start(THRESHOLD, send).unwrap();
    assert_eq!(reports.recv().unwrap(), "dropped");
    drop(meter);
    proceed.send(()).unwrap();
    assert!(reports.recv().unwrap().ends_with(" functions"));
    assert!(reader.snapshot().stacks <= 1);
    // Drops a watch that waits.
    drop(watch);
    assert!(reports.recv().is_err());
}

#[test]
fn meters_may_end_during_checks() {
    const ROUNDS: usize = 500;
    let _serial = serial();
    let (report, reports) = channel();
    let send = move |tick: &OverdueTick| report.send(tick.clone()).unwrap();
    let _watch = OverdueWatch::start(PERIOD, send).unwrap();
    thread::scope(|scope| {
        for n in 0..4 {
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    let mut meter = register(&format!("brief-{n}"));
                    meter.tick(Instant::now());
                    thread::sleep(Duration::from_micros(300 * n));
                }
            });
        }
    });
    while reports.try_recv().is_ok() {}
    let mut meter = register("remaining");
    loop {
        meter.tick(Instant::now());
        // The last report of a brief loop may still be under way.
        let report = hold_asleep(&reports).report;
        if report.meter == "remaining" && report.end == StackEnd::Complete {
            break;
        }
    }
}

#[test]
fn invalid_watches_are_refused() {
    let _serial = serial();
    for threshold in [Duration::ZERO, Duration::from_micros(999), HOUR + PERIOD] {
        let error = OverdueWatch::start(threshold, |_| {}).unwrap_err();
        assert!(error.to_string().starts_with("invalid threshold "), "{error}");
    }
    let (_watch, _reports) = watch();
    let error = OverdueWatch::start(THRESHOLD, |_| {}).unwrap_err();
    assert!(matches!(error, WatchError::AlreadyWatching), "{error:?}");
}

#[test]
#[cfg(feature = "tokio")]
fn report_names_other_task() {
    let _serial = serial();
    let (_watch, reports) = watch();
    let meter = register("waiting");
    let has_ticked = Arc::new(AtomicBool::new(false));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let report = runtime.block_on(async {
        let mut interval = meter.wrap(tokio::time::interval(PERIOD));
        let written = Arc::clone(&has_ticked);
        let metered = tokio::spawn(async move {
            loop {
                interval.tick().await;
                written.store(true, Ordering::Relaxed);
            }
        });
        loop {
            // The metered loop runs, and waits for its next tick. There is one report per tick.
            tokio::time::sleep(PERIOD * 3).await;
            if !has_ticked.swap(false, Ordering::Relaxed) {
                continue;
            }
            let report = hold_asleep(&reports).report;
            // On a busy machine, the tick may have been overdue before the hold.
            let is_hold = |function: &String| function.contains("stacks::hold_asleep");
            if !report.is_working && report.functions().iter().any(is_hold) {
                metered.abort();
                return report;
            }
        }
    });
    assert_eq!(report.meter, "waiting");
    assert!(report.to_string().contains("the loop is waiting for its tick"), "{report}");
}
