//! Ends every command that takes long in every way, at several moments.
//!
//! After each row: the exit code is the documented one, no process and no temporary file is left,
//! no file is truncated, and the command has not waited or spun for long.
//! `OSJITTER_ENDINGS=gate cargo test --test it endings` runs the rows whose name contains `gate`,
//! and prints each.
#![cfg(target_os = "linux")]

mod aftermath;
mod ending;
mod lengthy_commands;
mod watched_process;

use std::sync::Mutex;
use std::time::Duration;

use jitterstat::stats::random::SplitMix64;
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::faults::for_each_in_parallel;
use crate::osjitter::Osjitter;
use ending::Ending;
use lengthy_commands::{COMMANDS, LengthyCommand};
use watched_process::WatchedProcess;

/// Number of rows that run concurrently.
const WORKERS: usize = 4;
/// Maximum time between the start of a process and an early ending. Until its announcement, a
/// command needs about this long.
const MAX_STARTUP_PAUSE_MS: u64 = 60;
/// Maximum time between the announcement and an ending.
const MAX_PAUSE_MS: u64 = 250;
/// Maximum time between two interrupts.
const MAX_SECOND_PAUSE_MS: u64 = 40;
/// Number of random moments of each kind in the complete table.
const RANDOM_MOMENTS: usize = 3;

/// A command, a way to end it, and a moment.
#[derive(Clone, Copy, Debug)]
struct EndingRow {
    command: &'static LengthyCommand,
    ending: Ending,
    moment: Moment,
    /// Time between two interrupts.
    second_pause: Duration,
}

/// The time of an ending.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// This long after the process was started.
    Startup(Duration),
    /// This long after the process has begun to handle the signal.
    Handling(Duration),
    /// When the command announces that it measures, or opens its input.
    Announced,
    /// This long after the announcement, or after the end of the input.
    Running(Duration),
}

impl EndingRow {
    fn name(&self) -> String {
        format!("{}, {:?}, {:?}", self.command.name, self.ending, self.moment).to_lowercase()
    }

    /// Ends the command, and describes the failure if there is one.
    fn run(&self) -> Option<String> {
        let fail = |violation: &str, output: &str| {
            Some(format!("{}:\n  {violation}\noutput: {output}\n", self.name()))
        };
        let mut process = WatchedProcess::start(self.command, self.ending);
        if let Err(violation) = self.wait_for_moment(&mut process) {
            return fail(&violation, "");
        }
        let cpu_before = process.cpu_seconds().unwrap_or(0.0);
        process.apply(self.ending, self.second_pause);
        if self.ending.signal().is_none() {
            process.finish_input();
        }
        match process.wait(cpu_before) {
            Err(violation) => fail(&violation, ""),
            Ok(ended) => {
                let violations = aftermath::find_violations(self, &ended);
                let output = watched_process::output(ended.home.path());
                (!violations.is_empty()).then(|| fail(&violations.join("\n  "), &output)).flatten()
            }
        }
    }

    #[allow(clippy::disallowed_methods, reason = "the command measures during the pause")]
    fn wait_for_moment(&self, process: &mut WatchedProcess) -> Result<(), String> {
        match self.moment {
            Moment::Startup(pause) => {
                process.wait_for_program();
                std::thread::sleep(pause);
            }
            Moment::Handling(pause) => {
                process.wait_for_handler(self.ending.signal().expect("an early ending"));
                std::thread::sleep(pause);
            }
            Moment::Announced => process.wait_for_start()?,
            Moment::Running(pause) => {
                process.wait_for_start()?;
                process.finish_input();
                std::thread::sleep(pause);
            }
        }
        Ok(())
    }
}

/// Creates the rows with these moments per command and ending.
fn create_rows(moments: impl Fn(&mut SplitMix64, usize, Ending) -> Vec<Moment>) -> Vec<EndingRow> {
    let mut random = SplitMix64::new(1);
    let can_trace = can_trace();
    let mut rows = Vec::new();
    for (index, command) in COMMANDS.iter().enumerate() {
        let is_available = command.name != "trace" || can_trace;
        let endings = Ending::ALL.iter().filter(|ending| ending.applies_to(command));
        for &ending in endings.filter(|_| is_available) {
            for moment in moments(&mut random, index, ending) {
                let second_pause = Duration::from_millis(random.below(MAX_SECOND_PAUSE_MS));
                rows.push(EndingRow { command, ending, moment, second_pause });
            }
        }
    }
    rows
}

/// Whether this user may trace.
fn can_trace() -> bool {
    let trace = ["trace", "--duration", "10ms", "--", "sleep", "0.1"];
    let ran = Osjitter::new(trace).out("").run();
    !ran.stderr.contains("error: tracing: ")
}

fn random_startup(random: &mut SplitMix64) -> Moment {
    Moment::Startup(Duration::from_millis(random.below(MAX_STARTUP_PAUSE_MS)))
}

fn random_handling(random: &mut SplitMix64) -> Moment {
    Moment::Handling(Duration::from_millis(random.below(MAX_STARTUP_PAUSE_MS)))
}

/// Whether an ending can come before the announcement. A closed terminal cannot become the
/// controlling one.
fn can_be_early(ending: Ending) -> bool {
    ending.signal().is_some() && !ending.has_terminal()
}

fn random_running(random: &mut SplitMix64) -> Moment {
    Moment::Running(Duration::from_millis(random.below(MAX_PAUSE_MS)))
}

/// Returns one moment of each signal, of different kinds, and of every second other ending.
fn default_moments(random: &mut SplitMix64, command: usize, ending: Ending) -> Vec<Moment> {
    let number = command + ending as usize;
    if ending.signal().is_none() {
        let is_selected = number.is_multiple_of(2);
        return if is_selected { vec![Moment::Announced] } else { Vec::new() };
    }
    vec![match number % 3 {
        0 => Moment::Announced,
        // A busy machine may send it before anything is handled, so that every second one waits.
        1 if can_be_early(ending) && number.is_multiple_of(2) => random_handling(random),
        1 if can_be_early(ending) => random_startup(random),
        _ => random_running(random),
    }]
}

/// Returns all moments of an ending.
fn all_moments(random: &mut SplitMix64, _: usize, ending: Ending) -> Vec<Moment> {
    let mut moments = vec![Moment::Announced];
    for _ in 0..RANDOM_MOMENTS {
        moments.push(random_running(random));
        if can_be_early(ending) {
            moments.push(random_startup(random));
            moments.push(random_handling(random));
        }
    }
    moments
}

#[test]
fn commands_end_well() {
    let rows = create_rows(default_moments);
    assert!(rows.len() >= 100, "only {} rows", rows.len());
    assert_rows_end_well(rows);
}

mod nightly {
    use super::*;

    #[test]
    #[ignore = "nightly: every ending of every command at ten moments"]
    fn commands_end_well_at_any_moment() {
        assert_rows_end_well(create_rows(all_moments));
    }
}

#[track_caller]
#[allow(clippy::print_stderr, reason = "shows the rows with OSJITTER_ENDINGS")]
fn assert_rows_end_well(mut rows: Vec<EndingRow>) {
    disable_core_files();
    let word = std::env::var("OSJITTER_ENDINGS").ok();
    if let Some(word) = &word {
        rows.retain(|row| row.name().contains(word.as_str()));
    }
    let failures = Mutex::new(Vec::new());
    for_each_in_parallel(WORKERS, &rows, |row| {
        let failure = row.run();
        if word.is_some() {
            eprintln!("{}: {}", row.name(), if failure.is_none() { "ok" } else { "FAILED" });
        }
        failures.lock().unwrap().extend(failure);
    });
    let failures = failures.into_inner().unwrap();
    let (count, total) = (failures.len(), rows.len());
    assert!(failures.is_empty(), "{count} of {total} rows failed:\n{}", failures.join("\n"));
}

/// Keeps processes that SIGQUIT ends from writing core files.
fn disable_core_files() {
    let limit = rustix::process::Rlimit { current: Some(0), ..getrlimit(Resource::Core) };
    setrlimit(Resource::Core, limit).expect("a lower limit");
}
