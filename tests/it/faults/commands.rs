//! Every command, each with arguments for a short run, and the check that it ends properly whatever
//! happens around it.

use std::sync::Mutex;

use super::for_each_in_parallel;
use super::scene::{Scene, SceneOutcome};
use super::table::FaultRow;
use super::tools::Tools;

pub const fn command(name: &'static str, args: &'static [&'static str]) -> Scene {
    Scene { name, args, subjects: &[], has_earlier_files: false, inputs: &[] }
}

/// Every command that measures, reads or writes something.
pub static COMMANDS: [Scene; 17] = [
    command(
        "run",
        &[
            "run", "--quiet", "--subject", "all", "--ticks", "20", "--round-ticks", "20",
            "--period", "1ms", "--out", "{home}/out",
        ],
    ),
    command(
        "run-settings",
        &[
            "run", "--quiet", "--subject", "nanosleep", "--subject", "os-interval", "--ticks",
            "20", "--period", "1ms", "--cpu", "0", "--sched", "fifo:1", "--mlock", "--out",
            "{home}/out",
        ],
    ),
    command(
        "run-why",
        &[
            "run", "--quiet", "--subject", "os-interval", "--ticks", "20", "--period", "1ms",
            "--why", "--out", "{home}/out",
        ],
    ),
    command(
        "run-program",
        &[
            "run", "--quiet", "--subject", "spin", "--command", "{program}", "--ticks", "20",
            "--period", "1ms", "--out", "{home}/out",
        ],
    ),
    command(
        "gate",
        &[
            "gate", "--quiet", "--a", "nanosleep", "--b", "os-interval", "--period", "200us",
            "--round-ticks", "20", "--warmup", "0", "--max-pairs", "24", "--floor", "100ms",
            "--out", "{home}/out",
        ],
    ),
    command(
        "find",
        &[
            "find", "--quiet", "--goal", "p50=100ms", "--from", "1ms", "--to", "2ms", "--max-time",
            "5s", "--subject", "nanosleep", "--out", "{home}/out",
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
            "bench", "timeout", "--variant", "control", "--variant", "timeout", "--workload",
            "channel-current-thread", "--quiet", "--rounds", "1", "--round-time", "1ms",
        ],
    ),
    command(
        "bench-dispatch",
        &["bench", "dispatch", "--quiet", "--rounds", "1", "--round-time", "1ms"],
    ),
    command(
        "monitor",
        &[
            "monitor", "--quiet", "--budget", "400%", "--interval", "1s", "--duration", "1s",
            "--log", "{home}/out", "--listen", "127.0.0.1:0", "--limit", "max=1h", "--flight",
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

/// Runs commands with their faults, and checks that `find_violations` finds nothing wrong.
#[track_caller]
#[allow(clippy::print_stderr, reason = "shows the table with OSJITTER_FAULTS")]
pub fn check_commands(
    tools: &Tools,
    rows: &[FaultRow],
    find_violations: impl Fn(&FaultRow, &SceneOutcome) -> Vec<String> + Sync,
) {
    let is_verbose = std::env::var_os("OSJITTER_FAULTS").is_some();
    let failures = Mutex::new(Vec::new());
    for_each_in_parallel(super::WORKERS, rows, |row| {
        let outcome = row.scene.run_once(tools, row, &|_| 0);
        let violations = find_violations(row, &outcome);
        if is_verbose {
            let result = if violations.is_empty() { "ok" } else { "FAILED" };
            eprintln!("{}: {:?} {result}; {}", row.name(), outcome.code, outcome.stderr.trim());
        }
        if !violations.is_empty() {
            let (stdout, stderr) = (&outcome.stdout, &outcome.stderr);
            failures.lock().unwrap().push(format!(
                "{}: {}\nstdout: {stdout}\nstderr: {stderr}\n",
                row.name(),
                violations.join("; ")
            ));
        }
    });
    let (failures, total) = (failures.into_inner().unwrap(), rows.len());
    let count = failures.len();
    assert!(failures.is_empty(), "{count} of {total} commands failed:\n{}", failures.join("\n"));
}

/// Returns what is wrong with the end of a command.
pub fn find_violations(outcome: &SceneOutcome) -> Vec<String> {
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
