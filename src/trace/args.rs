//! Arguments of `osjitter trace`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use cli::units;

use render::formats::{Format, parser};
use render::report::table::TableArgs;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  osjitter trace --duration 10s -- ./my-loop --fast
  osjitter trace --pid 1234 --duration 10s
  osjitter trace --pid 1234 --thread tokio-rt-worker --out results/mine

A subject is one thread and the kind of its waits: nanosleep, epoll, poll, select, futex, timerfd, io_uring, \
timer_create or setitimer. Lateness is the time from the requested expiry until the call returned. The report names \
the threads that ran on the CPU in the meantime. timers.csv has a line per timer: its requested and actual expiry, and \
when the thread was woken and ran.

This needs the kernel's tracepoints: root, or CAP_PERFMON and a readable tracefs, on 64-bit Linux.

The window ends with the program, after --duration, or at Ctrl-C. A started program is ended with it; its output goes \
to stderr. If the program fails by itself, the exit code is 4.")]
pub struct TraceArgs {
    /// Trace a running process
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "program")]
    pub pid: Option<u32>,
    /// Trace only threads with this name
    #[arg(long, value_name = "NAME")]
    pub thread: Option<String>,
    /// Program to start, with its arguments; its child processes are traced as well
    #[arg(last = true, value_name = "PROGRAM", value_hint = ValueHint::CommandWithArguments, required_unless_present = "pid")]
    pub program: Vec<String>,
    /// Time to trace [default: until the program ends, or Ctrl-C]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = units::parse_duration)]
    pub duration: Option<Duration>,
    /// Directory for the results [default: results/ and the UTC time]
    #[arg(long, short, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,
    /// Replace an existing result
    #[arg(long)]
    pub force: bool,
    /// Output format
    #[arg(long, value_parser = parser([Format::Table, Format::Json]), default_value = "table")]
    pub format: Format,
    #[command(flatten)]
    pub table: TableArgs,
    /// Print only the table, and to stderr only errors and the program's output
    #[arg(long, short)]
    pub quiet: bool,
}
