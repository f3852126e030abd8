//! Runs every command while a clock jumps, and in a time namespace, whose clocks have another
//! origin than those of the machine.

use std::process::Command;

use super::commands::{COMMANDS, check_commands, find_violations};
use super::scene::SceneOutcome;
use super::table::{Expectation, Fault, FaultRow, Moment};
use super::tools::Tools;

/// The calendar clock is set by an hour, back by a day, and back to the 1970s, like that of a
/// machine without a battery. The last one is a suspension of an hour.
const JUMPS: [&str; 4] =
    ["realtime:3600:2", "realtime:-86400:2", "realtime:-1700000000:1", "boottime:3600:2"];

/// Offsets of the monotonic clock in seconds: 12 days, and 127 years.
const OFFSETS: [&str; 2] = ["1000000", "4000000000"];

fn row(command: usize, fault: Fault) -> FaultRow {
    let (scene, at) = (&COMMANDS[command], Moment::Always);
    FaultRow { scene, fault, at, expected: Expectation::Unharmed }
}

#[test]
fn commands_survive_clock_jumps() {
    let Some(tools) = Tools::build() else { return };
    let rows: Vec<FaultRow> = (0..COMMANDS.len())
        .flat_map(|command| JUMPS.map(|jump| row(command, Fault::Clock(jump))))
        .collect();
    check_commands(&tools, &rows, find_unusual_ends);
}

#[test]
fn commands_run_in_time_namespaces() {
    let Some(tools) = Tools::build() else { return };
    let mut probe = Command::new("unshare");
    if !probe.args(["--time", "--fork", "true"]).status().is_ok_and(|status| status.success()) {
        return; // It needs root, and a kernel with time namespaces.
    }
    let rows: Vec<FaultRow> = (0..COMMANDS.len())
        .flat_map(|command| OFFSETS.map(|offset| row(command, Fault::TimeNamespace(offset))))
        .collect();
    check_commands(&tools, &rows, find_unusual_ends);
}

/// Returns what is wrong with the end of a command that a clock must not disturb.
fn find_unusual_ends(row: &FaultRow, outcome: &SceneOutcome) -> Vec<String> {
    let mut violations = find_violations(outcome);
    let is_usual = match row.scene.name {
        // The two subjects differ.
        "gate" => matches!(outcome.code, Some(0 | 1 | 3)),
        // They need permissions.
        "trace" | "run-settings" => true,
        _ => outcome.code == Some(0),
    };
    if !is_usual {
        violations.push(format!("exit code {:?}", outcome.code));
    }
    violations
}
