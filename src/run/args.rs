//! Arguments of `osjitter run`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use cli::exit::{self, usage};
use cli::units;
use engine::load::{Load, load_parser};
use engine::machine::os::Sched;
use engine::machine::tuning;
use engine::program::{Program, parse_program_name};
use engine::scenario::{
    CpuSelection, Length, ProfileOptions, Runtime, ScenarioArgs, Subjects, SubjectsParser,
    runtime_parser,
};
use files::subjects::{DefaultSelection, defaults_of};

use crate::run::late_ticks::LateArgs;
use crate::run::plan_file::PlanArgs;
use render::formats::{Format, parser};
use render::report::table::TableArgs;

/// The flags for which a plan has keys.
pub const PLAN_FLAGS: [&str; 20] = [
    "period",
    "ticks",
    "duration",
    "round-ticks",
    "warmup",
    "subject",
    "command",
    "name",
    "meter",
    "runtime",
    "load",
    "instances",
    "each",
    "cpus",
    "cpu",
    "sched",
    "mlock",
    "timer-slack",
    "seed",
    "no-samples",
];

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  osjitter run --period 500us --ticks 10000
  osjitter run --subject os-interval --subject nanosleep --period 250us --period 1ms
  osjitter run --runtime multi-thread:2 --cpu 1 --format json > report.json
  osjitter run --subject tokio-interval --load none --load cpu:2 --load tasks:100x50us
  osjitter run --each --cpus 0-3 --period 1ms
  osjitter run --period 1ms -- ./my-loop --fast

A name may be a glob: 'tokio-*'. Several periods, subjects, runtimes or loads make a matrix.

Loads run during the rounds of their scenarios and pause between them. Their CPU time is not counted for the subject:
  none             no load, to measure with and without load in the same rounds
  cpu:N            N threads that spin [default: one per CPU]
  memory:N         N threads that write through 64 MiB each [default: 1]
  io:N             N threads that write and sync a file of up to 64 MiB in /var/tmp [default: 1]
  softirq:N        N threads that send UDP packets over the loopback device [default: 1]
  tasks:NxTIME     N tasks on the subject's tokio runtime; each holds its worker for TIME, yields, and repeats
  'any command'    started once, and ended with its child processes; it must not exit by itself

Your program is restarted for each round, without a shell, with OSJITTER_TICKS, OSJITTER_WARMUP, OSJITTER_PERIOD_NS and \
OSJITTER_OUT set. It must tick, write its lateness to the file OSJITTER_OUT (osjitter.series/1, as for `osjitter gate`), and exit with 0. \
A program with a meter of tickmeter does this automatically; --meter selects one of several. A program that does not is rejected before \
anything is measured. Without --subject, os-interval, tokio-interval and the two \
controls run in the same rounds. The CPU time covers all processes of the program, without its start. With --why, \
OSJITTER_TIMES=monotonic is set as well: the program then also writes the time of each tick. A program that supports \
OSJITTER_ROUNDS=stdin is started once and gets its rounds over standard input.

Results go to stdout, progress and diagnostics to stderr.")]
pub struct RunArgs {
    /// Nominal period; repeat for several [default: 500us]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = units::parse_period, help_heading = "Scenarios")]
    pub period: Vec<Duration>,
    /// Ticks to record of each subject [default: 10000]
    #[arg(long, value_name = "N", value_parser = units::parse_count, conflicts_with = "duration", help_heading = "Scenarios")]
    pub ticks: Option<u64>,
    /// Record each subject for this long instead
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = units::parse_duration, help_heading = "Scenarios")]
    pub duration: Option<Duration>,
    /// Recorded ticks per round [default: a tenth of the ticks, at most 250 ticks or 1s]
    #[arg(long, value_name = "N", value_parser = units::parse_count, help_heading = "Scenarios")]
    pub round_ticks: Option<u64>,
    /// Ticks to drop at the start of each round [default: 10ms, but 3 to 20 ticks]
    #[arg(long, value_name = "N", value_parser = units::parse_number, help_heading = "Scenarios")]
    pub warmup: Option<u64>,
    /// Subject to measure: a name, a glob or all; repeat for several [default: those marked * by
    /// osjitter list]
    #[arg(long, value_name = "NAME", value_parser = SubjectsParser, hide_possible_values = true, help_heading = "Scenarios")]
    pub subject: Vec<Subjects>,
    /// Program to measure, given as a command line; repeat for several
    #[arg(long, value_name = "COMMAND", allow_hyphen_values = true, value_parser = Program::parse, help_heading = "Scenarios")]
    pub command: Vec<Program>,
    /// Name of a program; repeat in the order of the programs [default: its file, and the arguments
    /// that other programs do not have]
    #[arg(long, value_name = "NAME", value_parser = parse_program_name, help_heading = "Scenarios")]
    pub name: Vec<String>,
    /// Meter to measure in programs that have several [default: the one with the period]
    #[arg(long, value_name = "NAME", help_heading = "Scenarios")]
    pub meter: Option<String>,
    /// Time limit for a program to start and write its first tick [default: 5s]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = units::parse_duration, help_heading = "Scenarios")]
    pub max_start_time: Option<Duration>,
    /// Program to measure in the same rounds, with its arguments (see below)
    #[arg(last = true, value_name = "PROGRAM", value_hint = ValueHint::CommandWithArguments)]
    pub program: Vec<String>,
    /// Runtime of tokio subjects: current-thread, multi-thread or multi-thread:N; repeat for
    /// several [default: current-thread]
    #[arg(long, value_name = "KIND", value_parser = runtime_parser(), hide_possible_values = true, help_heading = "Scenarios")]
    pub runtime: Vec<Runtime>,
    /// Load to run alongside the subjects: cpu:2, memory, io, softirq, tasks:100x50us or a command;
    /// repeat for several [default: none]
    #[arg(long, value_name = "LOAD", allow_hyphen_values = true, value_parser = load_parser(), hide_possible_values = true, help_heading = "Scenarios")]
    pub load: Vec<Load>,
    /// Number of instances of each tokio subject that run at once, with phases spread over the
    /// period; each records all its ticks
    #[arg(long, value_name = "N", value_parser = units::parse_count, help_heading = "Scenarios")]
    pub instances: Option<u64>,
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
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "Output")]
    pub out: Option<PathBuf>,
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
        let commands = self.programs()?;
        let mut subjects = Subjects::union(self.subject.iter().cloned());
        if subjects.is_empty() && !commands.is_empty() {
            subjects = defaults_of(DefaultSelection::Program).collect();
        }
        Ok(PlanArgs {
            seed: self.seed,
            samples: self.no_samples.then_some(false),
            tuning: tuning::Settings {
                cpu: self.cpu,
                sched: self.sched,
                mlock: self.mlock,
                timer_slack: self.timer_slack,
            },
            defaults: ScenarioArgs {
                subjects,
                commands,
                periods: self.period.clone(),
                runtimes: self.runtime.clone(),
                loads: self.load.clone(),
                length: self.ticks.map(Length::Ticks).or(self.duration.map(Length::Time)),
                round_ticks: self.round_ticks,
                warmup: self.warmup,
                instances: self.instances,
                cpus: self.each_cpus(),
            },
            scenarios: Vec::new(),
            why: self.why.then_some(ProfileOptions { threshold: self.why_threshold }),
            meter: self.meter.clone(),
            is_from_report: false,
        })
    }

    /// Returns the CPUs that are measured at once.
    fn each_cpus(&self) -> Option<CpuSelection> {
        self.each.then(|| self.cpus.clone().unwrap_or(CpuSelection::Allowed))
    }

    /// Returns the programs with their names.
    fn programs(&self) -> exit::Result<Vec<Program>> {
        let mut programs = self.command.clone();
        if !self.program.is_empty() {
            programs.push(Program::from_words(self.program.clone())?);
        }
        if self.name.len() > programs.len() {
            return Err(usage!(
                "{} values of --name, but {} programs: give at most one for each",
                self.name.len(),
                programs.len()
            ));
        }
        for (program, name) in programs.iter_mut().zip(&self.name) {
            *program = program.clone().with_name(name)?;
        }
        Ok(programs)
    }
}
