//! The command line: structs and help text, no logic.

mod calibrate;
mod compare;
mod dispatch;
mod gate;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub use calibrate::CalibrateArgs;
pub use compare::{CompareArgs, CompareFormat};
pub use dispatch::{BenchDispatchArgs, DispatchFormat};
pub use gate::{BaselineAction, BaselineAddArgs, GateAction, GateArgs, JudgedArgs, OnInconclusive, VerdictFormat};

/// Measures how late periodic async tasks really are, and at what price.
#[derive(Debug, Parser)]
#[command(version, about, after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  osjitter run --period 500us --ticks 10000      which ticker to use on this machine
  osjitter run --subject 'tokio-*' --duration 10s
  osjitter run --plan plan.toml --out results/mine
  osjitter run --period 1ms --print-plan > plan.toml
  osjitter report results/mine/report.json
  osjitter gate --a tokio-interval --b os-interval --period 500us
  osjitter calibrate                             what a gate can see on this machine
  osjitter compare before after                  by how much one run is later than another
  osjitter bench clock
  osjitter bench timeout                         what a timeout around every wait costs
  osjitter bench dispatch                        what a runtime that does not park saves
  osjitter list

Exit codes: 0 done or pass, 1 regressed, 3 inconclusive under --on-inconclusive fail, 2 bad usage or input, 4 something could not be measured or the run was interrupted.";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure lateness and cost of one or several kinds of ticker
    Run(Box<RunArgs>),
    /// Make any table or picture again from a report.json
    Report(ReportArgs),
    /// Judge whether B is later than A, than it was, or than it may be, with a known rate of false alarms
    Gate(Box<GateArgs>),
    /// Say what a gate can see on this machine, from one subject against itself
    Calibrate(CalibrateArgs),
    /// Say by how much B is later than A, for two reports or two subjects of one
    Compare(CompareArgs),
    /// Join reports of several runs, CPUs or hosts into one, without loss
    Merge(MergeArgs),
    /// Show the subjects, which are available here, and why not
    List(ListArgs),
    /// Measure one part by itself
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Write a completion script for a shell to standard output
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Table,
    /// For programs
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// The terminal table, and what it says in words
    Table,
    /// The report itself
    Json,
    /// Every picture, into the directory given by --out
    Svg,
    /// One self-contained page
    Html,
    /// A table for pull requests and job summaries
    Markdown,
    /// A line a subject, or with --samples a line a tick
    Csv,
    /// HdrHistogram's percentile distribution, in microseconds
    Hgrm,
    /// HdrHistogram's interval log, in nanoseconds, a line a round
    Hlog,
    /// The shape of `cyclictest --json`
    CyclictestJson,
    /// Bencher's metric format
    Bmf,
    /// github-action-benchmark's customSmallerIsBetter
    Gab,
    /// OpenMetrics text
    Openmetrics,
    /// Apache Parquet, a row a subject, or with --samples a row a tick; in a build with that feature
    Parquet,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  osjitter report results/mine/report.json
  osjitter report results/mine/report.json --format svg --out pictures
  osjitter report results/mine/report.json --format markdown >> \"$GITHUB_STEP_SUMMARY\"
  osjitter report results/mine/report.json --format csv --samples --out ticks.csv
  osjitter report results/timeout/timeout.json --format markdown
  osjitter report results/mine/report.json --format parquet --samples --out ticks.parquet
  cyclictest -q -D 10 -h 400 --json=c.json && osjitter report c.json --histogram

A FILE is told by what is in it: report.json, cyclictest --json, oslat --json, jitterdebugger's results.json, or an
HdrHistogram interval log (.hlog). What such a file cannot tell is said below the table.")]
pub struct ReportArgs {
    /// Reports of osjitter run, or results of other tools
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// What to make
    #[arg(long, value_enum, default_value = "table")]
    pub format: ReportFormat,
    /// With --format csv or parquet: every tick
    #[arg(long)]
    pub samples: bool,
    /// With the table: draw percentiles and a histogram of each subject
    #[arg(long)]
    pub histogram: bool,
    /// With --format hgrm: the subject, where there are several
    #[arg(long, value_name = "ID")]
    pub subject: Option<String>,
    /// With the file of bench timeout: beside the figures that bench-tokio-timeout published
    #[arg(long)]
    pub reference: bool,
    /// Write here instead of standard output
    #[arg(long, value_name = "PATH")]
    pub out: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  osjitter merge monday/report.json tuesday/report.json --out both.json
  osjitter merge --force cpu*/report.json | osjitter report /dev/stdin")]
pub struct MergeArgs {
    /// Reports with samples
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Join plans that differ, and say so in the result
    #[arg(long)]
    pub force: bool,
    /// Write here instead of standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct ListArgs {
    /// What to write to standard output
    #[arg(long, value_enum, default_value = "table")]
    pub format: Format,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  osjitter run --period 500us --ticks 10000
  osjitter run --subject os-interval --subject nanosleep --period 250us --period 1ms
  osjitter run --runtime multi-thread:2 --cpu 1 --format json > report.json

A name may be a glob: 'tokio-*'. Several periods, subjects or runtimes make a matrix.")]
pub struct RunArgs {
    /// Nominal period, from 1us to 1h; repeat for several [default: 500us]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub period: Vec<String>,
    /// Ticks to record of each subject [default: 10000]
    #[arg(long, value_name = "N", value_parser = crate::units::count, conflicts_with = "duration")]
    pub ticks: Option<u64>,
    /// Record each subject for so long instead
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub duration: Option<String>,
    /// Recorded ticks of a round [default: a tenth of the ticks, at most 250 and at most 1s]
    #[arg(long, value_name = "N", value_parser = crate::units::count)]
    pub round_ticks: Option<u64>,
    /// Leading ticks of each round that are dropped [default: 10ms, from 3 to 20 ticks]
    #[arg(long, value_name = "N")]
    pub warmup: Option<u64>,
    /// What to measure: a name, a glob, or all; repeat for several [default: see list]
    #[arg(long, value_name = "NAME")]
    pub subject: Vec<String>,
    /// Where tokio subjects run: current-thread, multi-thread or multi-thread:N
    #[arg(long, value_name = "KIND")]
    pub runtime: Vec<String>,
    /// Let N of each tokio subject tick at once, phases spread over the period; each records the ticks
    #[arg(long, value_name = "N", value_parser = crate::units::count)]
    pub instances: Option<u64>,
    /// Bind the measuring thread to this CPU
    #[arg(long, value_name = "N")]
    pub cpu: Option<usize>,
    /// Scheduling class while measuring: fifo:N, rr:N or other
    #[arg(long, value_name = "CLASS")]
    pub sched: Option<String>,
    /// Lock all memory of the process
    #[arg(long)]
    pub mlock: bool,
    /// Timer slack of the measuring thread (Linux)
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub timer_slack: Option<String>,
    /// Seed of the order and the phases [default: drawn, and kept in the report]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub seed: Option<u64>,
    /// Directory for the report [default: results/ and a UTC stamp]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Leave the samples out of the report
    #[arg(long)]
    pub no_samples: bool,
    /// What to write to standard output
    #[arg(long, value_enum, default_value = "table")]
    pub format: Format,
    /// Run the scenarios of a TOML file, or the plan of a report.json again
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// With the table: draw percentiles and a histogram of each subject
    #[arg(long)]
    pub histogram: bool,
    /// Write the effective plan to standard output as TOML, and measure nothing
    #[arg(long)]
    pub print_plan: bool,
    /// Draw nothing while it runs; on a terminal the figures so far are drawn between rounds
    #[arg(long)]
    pub no_progress: bool,
    /// Nothing on standard error but errors
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// What reading a clock costs here, how fine and how true it is, and which to use
    Clock(BenchClockArgs),
    /// What a timeout around every wait costs while it does not fire, and what cheaper ways there are
    Timeout(Box<BenchTimeoutArgs>),
    /// What polls, wakes, tasks and channels cost in a runtime that does not park, beside tokio
    Dispatch(BenchDispatchArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  osjitter bench clock
  osjitter bench clock --drift 1s --drift 10s --order-reads 1_000_000_000
  osjitter bench clock --load --format json --out results/clock")]
pub struct BenchClockArgs {
    /// Threads that read at once; repeat for several [default: 1, 2, 4 and as many as CPUs]
    #[arg(long, value_name = "N", value_parser = crate::units::count)]
    pub threads: Vec<u64>,
    /// Compare with the operating system's clock over so long; repeat for several [default: 1s]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub drift: Vec<String>,
    /// Reads in search of instants out of order across threads, for each clock
    #[arg(long, value_name = "N", value_parser = crate::units::count, default_value = "10_000_000")]
    pub order_reads: u64,
    /// Keep every CPU busy while comparing with the operating system's clock
    #[arg(long)]
    pub load: bool,
    /// Write clock.json and clock.svg into this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// What to write to standard output
    #[arg(long, value_enum, default_value = "table")]
    pub format: Format,
    /// Nothing on standard error but errors
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Variants:  baseline, timeout, sleep, reused-sleep, reused-boxed-sleep, idle-timeout
Clocks:    tokio, tach; quanta in a build with that feature
Workloads: channel-multi-thread, channel-current-thread, rearm, ready, pending, moved, timers, fire

Examples:
  osjitter bench timeout
  osjitter bench timeout --workload channel-current-thread --rounds 100
  osjitter bench timeout --variant idle-timeout --clock tach --workload timers --timers 100000
  osjitter bench timeout --workload channel-multi-thread --reference

Names may be globs; the baseline always runs.")]
pub struct BenchTimeoutArgs {
    /// Ways to put a timeout around a wait; repeat for several [default: all]
    #[arg(long, value_name = "NAME")]
    pub variant: Vec<String>,
    /// Clocks they read; repeat for several [default: tokio and tach, where that is possible]
    #[arg(long, value_name = "NAME")]
    pub clock: Vec<String>,
    /// What the messages are like; repeat for several [default: all]
    #[arg(long, value_name = "NAME")]
    pub workload: Vec<String>,
    /// Length of the timeout, from 10us to 10s; repeat for several [default: 10s, and shorter ones where it matters]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub length: Vec<String>,
    /// Timeouts at once in the workload timers, up to 100000; repeat for several [default: 1, 1000, 100000]
    #[arg(long, value_name = "N")]
    pub timers: Vec<u64>,
    /// Share of messages that never come in the workload fire; repeat for several [default: 1%, 100%]
    #[arg(long, value_name = "PERCENT", allow_hyphen_values = true)]
    pub fire: Vec<String>,
    /// Capacity of the channel
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub capacity: u64,
    /// Rounds; in each, every variant runs once, in random order
    #[arg(long, value_name = "N", default_value_t = crate::plan::timeout::DEFAULT_ROUNDS)]
    pub rounds: u64,
    /// How long a variant runs in a round, from 1ms to 10s [default: 10ms]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub round_time: Option<String>,
    /// Seed of the order [default: drawn, and kept in the report]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub seed: Option<u64>,
    /// Directory for the report and the pictures [default: none is written]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// What to write to standard output
    #[arg(long, value_enum, default_value = "table")]
    pub format: Format,
    /// Print the published figures of bench-tokio-timeout beside ours
    #[arg(long)]
    pub reference: bool,
    /// Say what the variants, clocks and workloads are, and which combination cannot be; measure nothing
    #[arg(long)]
    pub list: bool,
    /// Nothing on standard error but errors
    #[arg(long, short)]
    pub quiet: bool,
}
