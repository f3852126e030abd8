//! Arguments of `osjitter trace`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use cli::units;

use crate::render::formats::{Format, parser};
use crate::render::table::TableArgs;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  osjitter trace --duration 10s -- ./my-loop --fast
  osjitter trace --pid 1234 --duration 10s
  osjitter trace --pid 1234 --thread tokio-rt-worker --out results/mine

A subject is what one thread waits in: timerfd, epoll, poll, select, nanosleep, futex. Its lateness is the time from the \
moment a timer was to expire until the thread's call had returned. The report names who ran on the CPU meanwhile. \
timers.csv, beside it, has a line for each timer: when it was to expire, when it did, when the thread was woken, when it ran.

It takes the kernel's tracepoints: root, or CAP_PERFMON with a tracefs that may be read. Linux on 64 bits only.

The window ends with the program, after --duration, or at Ctrl-C. A command is ended with it; its output goes to stderr.")]
pub struct TraceArgs {
    /// Trace a process that is running
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "program")]
    pub pid: Option<u32>,
    /// Only its threads of this name
    #[arg(long, value_name = "NAME")]
    pub thread: Option<String>,
    /// A program to start and its arguments; those that it starts are traced, too
    #[arg(last = true, value_name = "PROGRAM", value_hint = ValueHint::CommandWithArguments, required_unless_present = "pid")]
    pub program: Vec<String>,
    /// Length of the window [default: until the program ends, or Ctrl-C]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = units::parse_duration)]
    pub duration: Option<Duration>,
    /// Directory for the report [default: results/ and the UTC time]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,
    /// What to print to stdout
    #[arg(long, value_parser = parser([Format::Table, Format::Json]), default_value = "table")]
    pub format: Format,
    #[command(flatten)]
    pub table: TableArgs,
    /// Print the table alone, and nothing to stderr but errors and what a command prints
    #[arg(long, short)]
    pub quiet: bool,
}
