//! Measures the CPU time that a watch of overdue ticks takes per second, while no tick is overdue, and
//! the time of a report. Linux only.
//!
//! ```sh
//! cargo bench --package tickmeter --bench watch --features stacks
//! ```
#![allow(clippy::print_stdout, reason = "a measuring program prints")]
#![allow(clippy::disallowed_methods, reason = "a measuring program reads the clock")]

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use tickmeter::Meter;
use tickmeter::stacks::{OverdueTick, OverdueWatch};

const WINDOW: Duration = Duration::from_secs(5);
const PERIOD: Duration = Duration::from_millis(10);
const THRESHOLDS: [Duration; 3] =
    [Duration::from_millis(1), Duration::from_millis(10), Duration::from_millis(100)];

fn main() {
    for count in [1, 100, 1_000] {
        for threshold in THRESHOLDS {
            let _watch = OverdueWatch::start(threshold, |_| {}).expect("a watch");
            let has_ended = AtomicBool::new(false);
            let mut meters: Vec<Meter> = (0..count).map(|n| register(n, PERIOD * 1_000)).collect();
            meters.iter_mut().for_each(|meter| meter.tick(Instant::now()));
            let idle = measure_share();
            drop(meters);
            let running = thread::scope(|scope| {
                scope.spawn(|| run_loops(count, &has_ended));
                let share = measure_share();
                has_ended.store(true, Ordering::Relaxed);
                share
            });
            println!(
                "{count:5} loops, threshold {threshold:?}: {idle:.4} % of a core between their ticks, \
                 {running:.3} % at a period of {PERIOD:?}"
            );
        }
    }
    measure_reports();
}

fn register(number: usize, period: Duration) -> Meter {
    Meter::register(&format!("loop-{number}"), period).expect("a name")
}

/// Runs loops on one thread, a tenth of a period apart.
fn run_loops(count: usize, has_ended: &AtomicBool) {
    let mut meters: Vec<Meter> = (0..count).map(|n| register(n, PERIOD)).collect();
    let mut deadline = Instant::now();
    while !has_ended.load(Ordering::Relaxed) {
        for tenth in 0..10 {
            deadline += PERIOD / 10;
            thread::sleep(deadline.saturating_duration_since(Instant::now()));
            meters.iter_mut().skip(tenth).step_by(10).for_each(|meter| meter.tick(deadline));
        }
    }
}

/// Returns the CPU time of the watcher in per cent of a core.
fn measure_share() -> f64 {
    thread::sleep(WINDOW / 10);
    let (start, before_ns) = (Instant::now(), watcher_cpu_ns());
    thread::sleep(WINDOW);
    let used_ns = (watcher_cpu_ns() - before_ns) as f64;
    used_ns / start.elapsed().as_nanos() as f64 * 100.0
}

/// Measures the CPU time of a report: the first one reads the unwinding tables, and the first names read
/// the symbols.
fn measure_reports() {
    let (report, reports) = channel();
    let send = move |tick: &OverdueTick| report.send((tick.clone(), watcher_cpu_ns())).unwrap();
    let mut meter = Meter::register("held", Duration::from_millis(1)).expect("a name");
    let _watch = OverdueWatch::start(Duration::from_millis(100), send).expect("a watch");
    for _ in 0..3 {
        meter.tick(Instant::now());
        let before_ns = watcher_cpu_ns();
        let (tick, after_ns) = hold(&reports);
        let start = Instant::now();
        let functions = tick.functions().len();
        println!(
            "report of {} frames: at most {} us of CPU time; names of {functions} functions: {:?}",
            tick.frames.len(),
            (after_ns - before_ns) / 1_000,
            start.elapsed()
        );
    }
}

/// Holds the loop until a report has come.
#[inline(never)]
fn hold(reports: &Receiver<(OverdueTick, u64)>) -> (OverdueTick, u64) {
    reports.recv().expect("a report")
}

/// Returns the CPU time of the watcher's thread.
fn watcher_cpu_ns() -> u64 {
    for task in fs::read_dir("/proc/self/task").expect("the threads").flatten() {
        let read = |name: &str| fs::read_to_string(task.path().join(name)).unwrap_or_default();
        if read("comm").trim_end() == "tickmeter-watch" {
            let stat = read("schedstat");
            return stat.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0);
        }
    }
    0
}
