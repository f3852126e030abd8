//! Measures how late periodic async tasks really are, and at what price. What measures is in
//! `lib/internal/engine`.
#![deny(unsafe_code)]
// A binary has no public interface: an item is documented where there is something to add to its
// name.
#![allow(missing_docs, missing_debug_implementations, unreachable_pub)]
// For cargo-fuzz these sources are a library, of which only the targets are used.
#![cfg_attr(fuzzing, allow(dead_code))]

// In reading order, a floor at a time from the top down; ARCHITECTURE.md is the map.
mod commands; // the commands; each owns its arguments

#[cfg(any(test, fuzzing))]
pub mod fuzz; // every reader on hostile bytes

mod report; // shows any file again: finds out its kind, asks the room that owns it

mod bench; // clocks, timeouts, dispatch: each by itself
mod compare; // by how much B is later than A
mod completions; // for shells
mod doctor; // what makes ticks late on this machine
mod find; // what period can be held, and what promised
mod gate; // is B later than A, than it was, than it may be? And what can be seen here
mod history; // the runs that lie in a directory
mod list; // the subjects, and why one is not available here
mod man; // pages for packages
mod merge; // several reports as one
mod monitor; // probes and meters, for days: interval files, metrics, limits
mod run; // one plan measured: live view, report, pictures
mod settings; // osjitter.toml: defaults of a project
mod stress; // the process behind run --load
mod top; // the metered loops of this machine, live
mod trace; // the timers of any program, from outside

mod interrupt; // Ctrl-C

mod earlier; // runs in a directory, and how a new one differs from the last of its kind
mod interop; // other people's formats, in and out
mod meters; // the meters of running programs

mod file_io; // bounded reading, atomic writing
mod render; // a run's report drawn; the registry of formats
mod terminal; // stderr and progress

mod picture; // the canvas that every room draws on
use std::process::{ExitCode, Termination};

use clap::{CommandFactory, FromArgMatches};
use cli::exit;
use engine::machine::host::{self, Program};
use engine::measure::caught;

use commands::{Cli, Command};

/// What only the build knows.
const PROGRAM: Program = Program {
    version: env!("CARGO_PKG_VERSION"),
    commit: env!("OSJITTER_COMMIT"),
    tokio: env!("OSJITTER_TOKIO_VERSION"),
};

fn main() -> ExitCode {
    host::introduce(PROGRAM);
    caught::keep_quiet();
    match answer() {
        Ok(status) => status.report(),
        Err(error) => {
            terminal::failure(&error);
            ExitCode::from(error.code())
        }
    }
}

fn answer() -> exit::Result<exit::ExitStatus> {
    let line = settings::read(&Cli::command(), std::env::args_os().collect(), &commands::STATED)?;
    let cli = match line {
        settings::Line::Answered(status) => return Ok(status),
        settings::Line::Run(matches) => {
            Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
        }
    };
    match cli.command {
        Command::Run(args) => run::run(&args),
        Command::NewPlan(args) => run::new_plan::run(&args),
        Command::Find(args) => find::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Gate(args) => gate::run(&args),
        Command::Calibrate(args) => gate::calibrate::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Merge(args) => merge::run(&args),
        Command::Monitor(args) => monitor::run(&args),
        Command::History(args) => history::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::List(args) => list::run(&args),
        Command::Bench(bench) => bench::run(&bench),
        Command::Stress { load } => stress::run(load),
        Command::Trace(args) => trace::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Man { directory } => man::run(directory.as_deref(), Cli::command()),
        Command::Completions { shell } => completions::run(shell, Cli::command()),
    }
}
