//! Runs every command with one system call denied, as the seccomp filters of containers and
//! services do it. Each cell of the table is a result, a degradation that is named, or one error.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::commands::{COMMANDS, check_commands, command, find_violations};
use super::scene::Scene;
use super::table::{Expectation, Fault, FaultRow, Moment};
use super::tools::Tools;

/// Calls that a filter may deny. The calls without which no program starts are not among them.
const CALLS: [&str; 19] = [
    "clock", "epoll_create", "epoll_wait", "eventfd", "fallocate", "flock", "getaffinity",
    "getattr", "getrlimit", "getrusage", "io_uring", "membarrier", "mlock", "perf_event_open",
    "prctl", "setaffinity", "setattr", "setscheduler", "timerfd_create",
];

/// Filters return one of these errors.
const ACTIONS: [&str; 2] = ["EPERM", "ENOSYS"];

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

mod nightly {
    use super::*;

    #[test]
    #[ignore = "nightly: each call is denied with each error"]
    fn every_denied_call_leaves_a_result() {
        check_cells(&cells(true));
    }
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
        "run", "--why", "--subject", "spin", "--command", "{program}", "--ticks", "20", "--period",
        "1ms", "--out", "{home}/out",
    ],
);
static SAMPLED_MONITOR: Scene = command(
    "monitor-flight",
    &[
        "monitor", "--budget", "400%", "--interval", "1s", "--duration", "1s", "--log",
        "{home}/out", "--limit", "max=1h", "--flight", "500ms",
    ],
);

#[track_caller]
fn check_cells(cells: &[FaultRow]) {
    let Some(tools) = Tools::build() else { return };
    let denied = AtomicUsize::new(0);
    check_commands(&tools, cells, |_, outcome| {
        denied.fetch_add(usize::from(outcome.faulted_calls > Some(0)), Ordering::Relaxed);
        find_violations(outcome)
    });
    let denied = denied.into_inner();
    assert!(denied * 5 >= cells.len(), "only {denied} of {} commands made their call", cells.len());
}
