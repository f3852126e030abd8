//! Arguments of `osjitter run`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use cli::exit::{self, usage};
use cli::units;
use engine::machine::os::Sched;
use engine::machine::tuning;
use engine::program::Program;
use engine::scenario::{CpuSelection, Subjects};
use files::subjects::{DefaultSelection, defaults_of};

use crate::run::late_ticks::LateArgs;
use crate::run::plan_args::{PlanArgs, RunKeys, ScenarioKeys};
use render::formats::{Format, parser};
use render::report::table::TableArgs;

/// The flags for which a plan has keys.
pub const PLAN_FLAGS: [&str; 22] = [
    "period", "ticks", "duration", "round-ticks", "warmup", "subject", "command", "name", "meter",
    "runtime", "load", "instances", "each", "cpus", "cpu", "sched", "mlock", "timer-slack", "seed",
    "no-samples", "why", "why-threshold",
];

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  osjitter run --period 500us --ticks 10000
  osjitter run --subject 'tokio-*' --period 250us --period 1ms
  osjitter run --period 1ms -- ./my-loop --fast
  osjitter run --runtime multi-thread:2 --cpu 1 --format json > report.json
  osjitter run --subject tokio-interval --load none --load cpu:2 --load tasks:100x50us
  osjitter run --each --cpus 0-3 --period 1ms

A name may be a glob: 'tokio-*'. Several periods, subjects, runtimes or loads make a matrix.

Loads run during the rounds of their scenarios and pause between them. Their CPU time is not counted for the subject:
  none             no load, to measure with and without load in the same rounds
  cpu:N            N threads that spin [default: one per CPU]
  memory:N         N threads that write through 64 MiB each [default: 1]
  io:N             N threads that write and sync a file of up to 64 MiB in /var/tmp [default: 1]
  softirq:N        N threads that send UDP packets over the loopback device [default: 1]
  tasks:NxTIME     N tasks on the subject's tokio runtime; each holds its worker for TIME, yields, and repeats
  'any command'    started once, and ended with its child processes; it must not exit by itself

Your program is restarted for each round, without a shell, with OSJITTER_TICKS, OSJITTER_WARMUP, OSJITTER_PERIOD_NS \
and OSJITTER_OUT set. It must tick, write its lateness to the file OSJITTER_OUT (osjitter.series/1, as for `osjitter \
gate`), and exit with 0. A program with a meter of tickmeter does this automatically; --meter selects one of several. \
A program that does not is rejected before anything is measured. Without --subject, os-interval, tokio-interval and \
the two controls run in the same rounds. The CPU time is that of the recorded ticks if the program writes it, as a \
meter does, and otherwise that of all its processes without their start. With --why, OSJITTER_TIMES=monotonic is set \
as well: the program then also writes the time of each tick. A program that supports OSJITTER_ROUNDS=stdin is started \
once and gets its rounds over standard input.

Results go to stdout, progress and diagnostics to stderr.")]
pub struct RunArgs {
    #[command(flatten)]
    pub scenario: ScenarioKeys,
    /// Program to measure in the same rounds, with its arguments (see below)
    #[arg(last = true, value_name = "PROGRAM", value_hint = ValueHint::CommandWithArguments)]
    pub program: Vec<String>,
    /// Bind the measuring thread to this CPU
    #[arg(long, value_name = "N", value_parser = units::parse_index, help_heading = "Machine")]
    pub cpu: Option<usize>,
    /// Measure all CPUs of --cpus at once with a thread on each, and name those that differ
    /// [default subject: nanosleep]
    #[arg(long, conflicts_with = "cpu", help_heading = "Machine")]
    pub each: bool,
    /// CPUs of --each, such as 0-3,6 [default: all that the process may use]
    #[arg(long, value_name = "LIST", requires = "each", help_heading = "Machine")]
    pub cpus: Option<CpuSelection>,
    /// Scheduling class while measuring: fifo:N, rr:N or other
    #[arg(long, value_name = "CLASS", value_parser = tuning::sched_parser(), hide_possible_values = true, help_heading = "Machine")]
    pub sched: Option<Sched>,
    /// Lock all memory of the process
    #[arg(long, help_heading = "Machine")]
    pub mlock: bool,
    /// Timer slack of the measuring thread (Linux)
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = units::parse_duration, help_heading = "Machine")]
    pub timer_slack: Option<Duration>,
    /// Random seed for round order and phase [default: random, recorded in the output]
    #[arg(long, value_name = "N", value_parser = units::parse_seed, help_heading = "Scenarios")]
    pub seed: Option<u64>,
    /// Explain the 1 % of ticks with the highest lateness; doubles the number of rounds
    #[arg(long, help_heading = "Late ticks")]
    pub why: bool,
    /// Explain all ticks that are at least this late instead
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = units::parse_duration, requires = "why", help_heading = "Late ticks")]
    pub why_threshold: Option<Duration>,
    #[command(flatten, next_help_heading = "Late ticks")]
    pub late: LateArgs,
    /// Directory for the results [default: results/ and the UTC time]
    #[arg(long, short, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "Output")]
    pub out: Option<PathBuf>,
    /// Replace an existing result
    #[arg(long, help_heading = "Output")]
    pub force: bool,
    /// Leave the individual samples out of the report
    #[arg(long, help_heading = "Output")]
    pub no_samples: bool,
    /// Output format
    ///
    /// jsonl prints a line for each round when it is measured, and at the end the report without
    /// rounds.
    #[arg(long, value_parser = parser([Format::Table, Format::Json, Format::Jsonl]), default_value = "table", help_heading = "Output")]
    pub format: Format,
    /// Run the scenarios of a TOML plan, or repeat those of a report.json
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Scenarios")]
    pub plan: Option<PathBuf>,
    /// Draw percentiles and a histogram of each subject below the table
    #[arg(long, help_heading = "Output")]
    pub histogram: bool,
    #[command(flatten, next_help_heading = "Output")]
    pub table: TableArgs,
    /// Also write card.svg for sharing, and a histogram and the lateness over time of each subject,
    /// in addition to tradeoff.svg, percentiles.svg and over-time.svg
    #[arg(long, help_heading = "Output")]
    pub svg: bool,
    /// Open report.html in the browser at the end
    #[arg(long, help_heading = "Output")]
    pub open: bool,
    /// Print the effective plan as TOML and measure nothing
    #[arg(long, help_heading = "Scenarios")]
    pub print_plan: bool,
    /// Exit with 4 if the machine was unfit for measuring
    #[arg(long, help_heading = "Machine")]
    pub strict: bool,
    /// Disable the live view, which shows results between rounds on a terminal
    #[arg(long, help_heading = "Output")]
    pub no_progress: bool,
    /// Print only what was requested, and only errors to stderr
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
}

impl RunArgs {
    /// Returns the plan that the arguments describe.
    pub fn plan_args(&self) -> exit::Result<PlanArgs> {
        let mut keys = self.scenario.clone();
        if !self.program.is_empty() {
            keys.command.push(Program::from_words(self.program.clone())?);
        }
        let names = std::mem::take(&mut keys.name);
        if names.len() > keys.command.len() {
            return Err(usage!(
                "{} values of --name, but {} programs: give at most one for each",
                names.len(),
                keys.command.len()
            ));
        }
        for (program, name) in keys.command.iter_mut().zip(&names) {
            *program = program.clone().with_name(name)?;
        }
        if keys.subject.is_empty() && !keys.command.is_empty() {
            keys.subject = vec![Subjects(defaults_of(DefaultSelection::Program).collect())];
        }
        keys.cpus = self.each.then(|| self.cpus.clone().unwrap_or(CpuSelection::Allowed));
        Ok(PlanArgs {
            run: RunKeys {
                seed: self.seed,
                samples: self.no_samples.then_some(false),
                cpu: self.cpu,
                sched: self.sched,
                mlock: self.mlock,
                timer_slack: self.timer_slack,
                why: self.why,
                why_threshold: self.why_threshold,
            },
            defaults: keys,
            ..PlanArgs::default()
        })
    }
}
