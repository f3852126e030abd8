//! The commands of `osjitter`, which measures how late periodic async tasks are and what
//! punctuality costs.
//!
//! The library exists for the programs, the fuzz targets and the release scripts; it has no other
//! interface. Applications use [`osinterval`](https://docs.rs/osinterval) and its sibling crates.
#![deny(unsafe_code)]
// Everything but the main functions is private: an item is documented unless its name is
// sufficient.
#![allow(missing_docs, missing_debug_implementations, unreachable_pub)]

// Ordered by layer, from the top; see ARCHITECTURE.md.
mod commands; // the command line; each command owns its arguments
mod short_help; // what -h shows

#[cfg(any(test, fuzzing))]
pub mod fuzz; // runs every reader on hostile bytes

mod report; // shows any stored file through the module that owns its kind

mod bench; // measures clocks, timeouts and task dispatch in isolation
mod compare; // measures how much later B is than A
mod completions; // completion scripts for shells
mod doctor; // lists settings of the machine that make ticks late
mod find; // searches for the shortest period that meets a goal
mod gate; // decides whether B is later than A, than a baseline, than a limit
mod history; // lists the runs in a directory
mod list; // lists the subjects and shows which cannot run here
mod merge; // merges several reports
mod monitor; // probes and meters for days: interval files, metrics, limits
mod run; // measures one plan: live view, report, pictures
mod settings; // osjitter.toml: the defaults of a project
mod stress; // the process that run --load starts
mod top; // the metered loops of this machine, live
mod trace; // measures the timers of any program from outside

mod meters; // the meters of running programs
mod table_colors; // colours in the tables of reports
mod viewer; // opens a page in the browser

mod early_ticks; // the warning about early ticks
mod needless_runtime; // refuses --runtime without a tokio subject
mod previous_runs; // finds previous runs and compares a new one with the last of its kind
mod written_limit; // limits and goals as written: p99=2ms

mod flight_record; // the file of the time before a late tick
mod interrupt; // Ctrl-C, and the other signals that end a command

use std::ffi::OsString;
use std::process::{ExitCode, Termination};

use clap::{CommandFactory, FromArgMatches};
use cli::exit;
use cli::file_io;
use cli::terminal;
use engine::machine::host::{self, BuildInfo};
use engine::machine::os;
use engine::measure::{supervisor, trial_commands};
use engine::panics;

use crate::commands::{Cli, Command};

pub use crate::bench::timeout::counts;

/// The versions that are fixed at build time.
const PROGRAM: BuildInfo = BuildInfo {
    version: env!("CARGO_PKG_VERSION"),
    commit: env!("OSJITTER_COMMIT"),
    tokio: env!("OSJITTER_TOKIO_VERSION"),
};

/// Runs the command line of this process and returns its exit code.
#[must_use]
pub fn main() -> ExitCode {
    let helper = supervisor::serve_if_started_as_one();
    if let Some(code) = helper.or_else(trial_commands::serve_if_started_as_one) {
        return code;
    }
    supervisor::enable();
    host::set_build_info(PROGRAM);
    panics::install_hook();
    file_io::set_available_memory(os::available_memory);
    os::survive_file_size_limit();
    #[allow(clippy::disallowed_methods, reason = "the time of the whole command")]
    let started = std::time::Instant::now();
    let code = match run_command() {
        Ok(status) => status.report(),
        Err(error) => {
            terminal::failure(&error);
            ExitCode::from(error.code())
        }
    };
    terminal::detail(|| format!("took {:.1?}", started.elapsed()));
    supervisor::end();
    code
}

/// Returns the command line, of which the release scripts make manual pages.
#[must_use]
pub fn command() -> clap::Command {
    short_help::add(Cli::command())
}

fn run_command() -> exit::Result<exit::ExitStatus> {
    let args: Vec<OsString> = std::env::args_os().collect();
    if let Some(load) = stress::parse_args(&args) {
        interrupt::install();
        return stress::run(load?);
    }
    // Errors in the command line have colours before it is parsed.
    terminal::set_color(terminal::find_color(&args));
    let command = command().color(terminal::color_choice());
    let request = settings::read(&command, args, &run::args::PLAN_FLAGS)?;
    let cli = match request {
        settings::Request::PrintConfig(status) => return Ok(status),
        settings::Request::Command(matches) => {
            Cli::from_arg_matches(&matches).unwrap_or_else(|error| settings::exit_with(&error))
        }
    };
    terminal::set_verbose(cli.terminal.verbose);
    if matches!(cli.command, Command::Monitor(_)) {
        // Before the first thread: every scrape runs on one, and builds a text of some hundred kB.
        os::limit_heap_growth();
    }
    interrupt::install();
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
        Command::Trace(args) => trace::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Completions { shell } => completions::run(shell, command),
    }
}
