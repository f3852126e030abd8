//! Runs every command with one system call denied, as the seccomp filters of containers and services
//! do it. Each cell of the table is a result, a degradation that is named, or one error.

use std::sync::Mutex;

use super::for_each_in_parallel;
use super::scene::{Scene, SceneOutcome};
use super::table::{Expectation, Fault, FaultRow, Moment};
use super::tools::Tools;

/// Calls that a filter may deny. The calls without which no program starts are not among them.
const CALLS: [&str; 19] = [
    "clock",
    "epoll_create",
    "epoll_wait",
    "eventfd",
    "fallocate",
    "flock",
    "getaffinity",
    "getattr",
    "getrlimit",
    "getrusage",
    "io_uring",
    "membarrier",
    "mlock",
    "perf_event_open",
    "prctl",
    "setaffinity",
    "setattr",
    "setscheduler",
    "timerfd_create",
];

/// Filters return one of these errors.
const ACTIONS: [&str; 2] = ["EPERM", "ENOSYS"];

const fn command(name: &'static str, args: &'static [&'static str]) -> Scene {
    Scene { name, args, subjects: &[], has_earlier_files: false, inputs: &[] }
}

static COMMANDS: [Scene; 17] = [
    command(
        "run",
        &[
            "run",
            "--quiet",
            "--subject",
            "all",
            "--ticks",
            "20",
            "--round-ticks",
            "20",
            "--period",
            "1ms",
            "--out",
            "{home}/out",
        ],
    ),
    command(
        "run-settings",
        &[
            "run",
            "--quiet",
            "--subject",
            "nanosleep",
            "--subject",
            "os-interval",
            "--ticks",
            "20",
            "--period",
            "1ms",
            "--cpu",
            "0",
            "--sched",
            "fifo:1",
            "--mlock",
            "--timer-slack",
            "1us",
            "--out",
            "{home}/out",
        ],
    ),
    command(
        "run-why",
        &[
            "run",
            "--quiet",
            "--subject",
            "os-interval",
            "--ticks",
            "20",
            "--period",
            "1ms",
            "--why",
            "--out",
            "{home}/out",
        ],
    ),
    command(
        "run-program",
        &[
            "run",
            "--quiet",
            "--subject",
            "spin",
            "--command",
            "{program}",
            "--ticks",
            "20",
            "--period",
            "1ms",
            "--out",
            "{home}/out",
        ],
    ),
    command(
        "gate",
        &[
            "gate",
            "--quiet",
            "--a",
            "nanosleep",
            "--b",
            "os-interval",
            "--period",
            "200us",
            "--round-ticks",
            "20",
            "--warmup",
            "0",
            "--max-pairs",
            "24",
            "--floor",
            "100ms",
            "--out",
            "{home}/out",
        ],
    ),
    command(
        "find",
        &[
            "find",
            "--quiet",
            "--goal",
            "p50=100ms",
            "--from",
            "1ms",
            "--to",
            "2ms",
            "--max-time",
            "5s",
            "--subject",
            "nanosleep",
            "--out",
            "{home}/out",
        ],
    ),
    command("doctor", &["doctor", "--quiet"]),
    command(
        "trace",
        &["trace", "--quiet", "--duration", "200ms", "--out", "{home}/out", "--", "sleep", "1"],
    ),
    command("list", &["list"]),
    command(
        "bench-clock",
        &["bench", "clock", "--quiet", "--threads", "1", "--order-reads", "1000", "--drift", "1ms"],
    ),
    command(
        "bench-timeout",
        &[
            "bench",
            "timeout",
            "--variant",
            "control",
            "--variant",
            "timeout",
            "--workload",
            "channel-current-thread",
            "--quiet",
            "--rounds",
            "1",
            "--round-time",
            "1ms",
        ],
    ),
    command(
        "bench-dispatch",
        &["bench", "dispatch", "--quiet", "--rounds", "1", "--round-time", "1ms"],
    ),
    command(
        "monitor",
        &[
            "monitor",
            "--quiet",
            "--budget",
            "400%",
            "--interval",
            "1s",
            "--duration",
            "1s",
            "--log",
            "{home}/out",
            "--listen",
            "127.0.0.1:0",
            "--limit",
            "max=1h",
            "--flight",
            "500ms",
        ],
    ),
    command("top", &["top", "--once", "--window", "1s", "--format", "json"]),
    command("report", &["report", "{fixture}/cyclictest.json"]),
    command(
        "compare",
        &[
            "compare",
            "{fixture}/report.json#nanosleep@1ms",
            "{fixture}/report.json#os-interval@1ms/current-thread",
        ],
    ),
    command("completions", &["completions", "bash"]),
];

/// Returns every cell with the action that it has in tests of each change, or with each action.
fn cells(with_all_actions: bool) -> Vec<FaultRow> {
    let mut cells = Vec::new();
    for (row, scene) in COMMANDS.iter().enumerate() {
        for (column, call) in CALLS.iter().copied().enumerate() {
            for (index, action) in ACTIONS.iter().copied().enumerate() {
                if with_all_actions || (row + column) % ACTIONS.len() == index {
                    let fault = Fault::Call { call, action };
                    cells.push(FaultRow {
                        scene,
                        fault,
                        at: Moment::Always,
                        expected: Expectation::Unharmed,
                    });
                }
            }
        }
    }
    cells
}

#[test]
fn denied_calls_leave_a_result() {
    check_cells(&cells(false));
}

#[test]
#[ignore = "nightly: each call is denied with each error"]
fn every_denied_call_leaves_a_result() {
    check_cells(&cells(true));
}

/// Denies samples of stacks, as Debian's kernel does it with `kernel.perf_event_paranoid` 3.
#[test]
fn forbidden_samples_are_explained() {
    let Some(tools) = Tools::build() else { return };
    for scene in [&SAMPLED_PROGRAM, &SAMPLED_MONITOR] {
        for action in ["EACCES", "EPERM"] {
            let fault = Fault::Call { call: "perf_event_open", action };
            let (at, expected) = (Moment::Always, Expectation::Unharmed);
            let row = FaultRow { scene, fault, at, expected };
            let outcome = scene.run_once(&tools, &row, &|_| 0);
            let texts = [outcome.stdout.as_str(), outcome.stderr.as_str()].concat();
            assert_eq!(outcome.code, Some(0), "{}: {texts}", row.name());
            assert!(outcome.faulted_calls > Some(0), "{}", row.name());
            assert!(texts.contains("kernel.perf_event_paranoid <= 2"), "{}: {texts}", row.name());
        }
    }
}

static SAMPLED_PROGRAM: Scene = command(
    "run-why-program",
    &[
        "run",
        "--why",
        "--subject",
        "spin",
        "--command",
        "{program}",
        "--ticks",
        "20",
        "--period",
        "1ms",
        "--out",
        "{home}/out",
    ],
);
static SAMPLED_MONITOR: Scene = command(
    "monitor-flight",
    &[
        "monitor",
        "--budget",
        "400%",
        "--interval",
        "1s",
        "--duration",
        "1s",
        "--log",
        "{home}/out",
        "--limit",
        "max=1h",
        "--flight",
        "500ms",
    ],
);

#[track_caller]
#[allow(clippy::print_stderr, reason = "shows the table with OSJITTER_FAULTS")]
fn check_cells(cells: &[FaultRow]) {
    let Some(tools) = Tools::build() else { return };
    let is_verbose = std::env::var_os("OSJITTER_FAULTS").is_some();
    let (failures, denied) = (Mutex::new(Vec::new()), Mutex::new(0));
    for_each_in_parallel(super::WORKERS, cells, |cell| {
        let outcome = cell.scene.run_once(&tools, cell, &|_| 0);
        let violations = find_violations(&outcome);
        *denied.lock().unwrap() += usize::from(outcome.faulted_calls > Some(0));
        if is_verbose {
            let result = if violations.is_empty() { "ok" } else { "FAILED" };
            eprintln!("{}: {:?} {result}; {}", cell.name(), outcome.code, outcome.stderr.trim());
        }
        if !violations.is_empty() {
            let (stdout, stderr) = (&outcome.stdout, &outcome.stderr);
            failures.lock().unwrap().push(format!(
                "{}: {}\nstdout: {stdout}\nstderr: {stderr}\n",
                cell.name(),
                violations.join("; ")
            ));
        }
    });
    let (failures, denied) = (failures.into_inner().unwrap(), denied.into_inner().unwrap());
    assert!(denied * 5 >= cells.len(), "only {denied} of {} commands made their call", cells.len());
    assert!(
        failures.is_empty(),
        "{} of {} cells failed:\n{}",
        failures.len(),
        cells.len(),
        failures.join("\n")
    );
}

/// Returns what is wrong with the end of a command.
fn find_violations(outcome: &SceneOutcome) -> Vec<String> {
    let Some(code) = outcome.code else { return vec!["the command hangs".to_owned()] };
    let mut violations = Vec::new();
    if outcome.stderr.contains("panicked at") {
        violations.push("a panic is printed".to_owned());
    }
    let errors = outcome.stderr.lines().filter(|line| line.starts_with("error: ")).count();
    let has_result = !outcome.stdout.is_empty() || outcome.out().is_dir();
    match code {
        0 | 1 | 3 if !has_result => violations.push(format!("exit code {code} without a result")),
        0..=4 if errors > 1 => violations.push(format!("{errors} errors")),
        2 | 4 if outcome.stderr.is_empty() && outcome.stdout.is_empty() => {
            violations.push(format!("exit code {code} without a reason"));
        }
        0..=4 => {}
        _ => violations.push(format!("exit code {code}")),
    }
    let leftovers = outcome.leftover_files();
    if !leftovers.is_empty() {
        violations.push(format!("leftover files: {leftovers:?}"));
    }
    violations
}
