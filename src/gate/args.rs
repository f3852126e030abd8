//! The arguments of `osjitter gate`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use crate::scenario::Runtime;
use crate::text::units;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum VerdictFormat {
    /// For people
    Table,
    /// The verdict file itself
    Json,
    /// For a step summary or a comment
    Markdown,
    /// For a CI that collects test results
    Junit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnInconclusive {
    /// Exit with 0, and say so loudly
    Pass,
    /// Exit with 3
    Fail,
}

#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  osjitter gate --a tokio-interval --b os-interval --period 500us
  osjitter gate --a os-interval --b os-interval-group --period 500us --duet
  osjitter gate --baseline-cmd './old --flag' --candidate-cmd './new --flag' --out gate
  osjitter gate baseline add os-interval.json --subject os-interval --period 500us
  osjitter gate --baseline os-interval.json --subject os-interval --period 500us
  osjitter gate --max p99=200us --max missed=0.1% --subject os-interval --period 500us --ticks 10000
  osjitter gate --max jitter_spread.p99=80us --report report.json

A command is started anew for each round, without a shell, with OSJITTER_TICKS, OSJITTER_WARMUP and OSJITTER_OUT \
set. It writes the line `osjitter.series/1 period_ns=500000` to that file, then one lateness in nanoseconds a \
line.

The gate looks at 50, 100, 200 and 400 pairs of rounds and stops as soon as it knows; over all looks it raises a \
false alarm in at most 0.5 % of gates. Several comparisons (--a, --b and --period repeated) share that rate. Do \
not retry a gate until it passes: that multiplies the rate. Raise --max-rounds instead.

A limit is broken if the 99 % interval over rounds lies above it, kept if no part of it does, and otherwise \
inconclusive; it takes at least 10 rounds. The largest value (max) has no interval: its limit holds for the \
ticks of that run.

Exit codes: 0 pass or inconclusive, 1 regressed or a limit broken, 2 bad usage or input, 3 inconclusive under \
--on-inconclusive fail, 4 could not measure or interrupted."
)]
pub struct GateArgs {
    #[command(subcommand)]
    pub action: Option<GateAction>,
    /// Subject to compare against; repeat for several comparisons
    #[arg(long, value_name = "SUBJECT", requires = "b", conflicts_with_all = ["baseline_cmd", "candidate_cmd"], help_heading = "Two sides")]
    pub a: Vec<String>,
    /// Subject that is judged; one for each --a
    #[arg(long, value_name = "SUBJECT", requires = "a", help_heading = "Two sides")]
    pub b: Vec<String>,
    /// Run both subjects at once on one CPU, half a period apart: sooner decided, for differences only
    #[arg(long, requires = "a", help_heading = "Two sides")]
    pub duet: bool,
    /// Program to compare against, with its arguments
    #[arg(long, value_name = "COMMAND", requires = "candidate_cmd", help_heading = "Two sides")]
    pub baseline_cmd: Option<String>,
    /// Program that is judged, with its arguments
    #[arg(long, value_name = "COMMAND", requires = "baseline_cmd", help_heading = "Two sides")]
    pub candidate_cmd: Option<String>,
    /// Most pairs of rounds, at least 24; the last look is taken there [default: 400; 200 with --baseline or --duet]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(24..=6400))]
    pub max_rounds: Option<u64>,
    /// Leave out the looks that would take longer
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = units::duration)]
    pub max_time: Option<Duration>,
    /// Time limit of one round of a command [default: ten times its length, and 10s]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = units::duration, help_heading = "Two sides")]
    pub round_time_limit: Option<Duration>,
    /// Limit on a number of a summary: p99=200us, jitter_spread.p99=80us, missed=0.1%, cpu_ns_per_tick=9us; repeat for several
    #[arg(long, value_name = "PATH=VALUE", help_heading = "Limits")]
    pub max: Vec<String>,
    /// Hold the limits against this report instead of measuring
    #[arg(long, value_name = "FILE", help_heading = "Limits")]
    pub report: Option<PathBuf>,
    /// Judge a session of the subject beside a control by the sessions stored in this file
    #[arg(long, value_name = "FILE", help_heading = "Stored sessions")]
    pub baseline: Option<PathBuf>,
    /// Compare with a baseline of another machine all the same, and say so
    #[arg(long, requires = "baseline", help_heading = "Stored sessions")]
    pub force: bool,
    /// Subject of --baseline and --max; of a report, its name or id
    #[arg(long, value_name = "SUBJECT")]
    pub subject: Option<String>,
    /// Ticks to measure for limits [default: 10000]
    #[arg(long, value_name = "N", value_parser = units::count, help_heading = "Limits")]
    pub ticks: Option<u64>,
    /// What osjitter calibrate wrote: warns of a tolerance that this machine is too noisy for
    #[arg(long, value_name = "FILE")]
    pub calibration: Option<PathBuf>,
    #[command(flatten)]
    pub judged: JudgedArgs,
    /// What an inconclusive gate means for the exit code
    #[arg(long, value_enum, default_value = "pass")]
    pub on_inconclusive: OnInconclusive,
    /// Directory for verdict.json [default: results/ and a UTC stamp]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// What to write to standard output
    #[arg(long, value_enum, default_value = "table")]
    pub format: VerdictFormat,
}

/// How rounds are run and judged.
#[derive(Clone, Debug, Args)]
pub struct JudgedArgs {
    /// Nominal period; repeat for a comparison at each [default: 500us]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = units::period, help_heading = "Rounds")]
    pub period: Vec<Duration>,
    /// Runtime of tokio subjects
    #[arg(long, value_name = "KIND", help_heading = "Rounds")]
    pub runtime: Option<Runtime>,
    /// Recorded ticks of a round [default: 250, and at most 1s]
    #[arg(long, value_name = "N", value_parser = units::count, help_heading = "Rounds")]
    pub round_ticks: Option<u64>,
    /// Leading ticks of each round that are dropped [default: 10ms, from 3 to 20 ticks]
    #[arg(long, value_name = "N", help_heading = "Rounds")]
    pub warmup: Option<u64>,
    /// Tolerated rise, for example p50=20% or p99=50%; repeat for both [default: these]
    #[arg(long, value_name = "PERCENTILE=PERCENT", help_heading = "Tolerance")]
    pub tolerance: Vec<String>,
    /// A rise by less than this is always tolerated
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "1us",
        allow_hyphen_values = true,
        value_parser = units::duration,
        help_heading = "Tolerance"
    )]
    pub floor: Duration,
    /// CPU to bind both sides to [default: one allowed CPU for subjects, none for commands]
    #[arg(long, value_name = "N", help_heading = "Rounds")]
    pub cpu: Option<usize>,
    /// Seed of the order [default: drawn, and kept in the verdict]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64), help_heading = "Rounds")]
    pub seed: Option<u64>,
    /// Nothing on standard error but errors and warnings
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Debug, Subcommand)]
pub enum GateAction {
    /// Sessions stored for the day when the old program can no longer be run
    Baseline {
        #[command(subcommand)]
        action: BaselineAction,
    },
}

#[derive(Debug, Subcommand)]
pub enum BaselineAction {
    /// Measure a session and add it to a file
    Add(Box<BaselineAddArgs>),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  osjitter gate baseline add os-interval.json --subject os-interval --period 500us
  osjitter gate baseline add os-interval.json

A session is 200 pairs of rounds of the subject and of a control, a bare thread that sleeps: later sessions are \
compared by how much the subject was later than its control. Three sessions at different hours are worth more \
than one; the file keeps the last ten. A session that is worse than those of the file, or says too little, is \
not added. A file is of one subject, one period and one machine.")]
pub struct BaselineAddArgs {
    /// The file; made if it is not there
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Subject to measure [default: that of the file]
    #[arg(long, value_name = "SUBJECT")]
    pub subject: Option<String>,
    /// Drop the stored sessions and begin anew with this one
    #[arg(long)]
    pub replace: bool,
    /// Pairs of rounds, at least 24 [default: 200]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(24..=6400))]
    pub max_rounds: Option<u64>,
    /// What a session that says too little means for the exit code
    #[arg(long, value_enum, default_value = "pass")]
    pub on_inconclusive: OnInconclusive,
    #[command(flatten)]
    pub judged: JudgedArgs,
}
