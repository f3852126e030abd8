//! The arguments of `osjitter gate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

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
#[command(after_help = "\
Examples:
  osjitter gate --a tokio-interval --b os-interval --period 500us
  osjitter gate --baseline-cmd './old --flag' --candidate-cmd './new --flag' --out gate

A command is started anew for each round, without a shell, with OSJITTER_TICKS, OSJITTER_WARMUP and OSJITTER_OUT set.
It writes the line `osjitter.series/1 period_ns=500000` to that file, then one lateness in nanoseconds a line.

The gate looks at 50, 100, 200 and 400 pairs of rounds and stops as soon as it knows; over all looks it raises a false
alarm in at most 0.5 % of gates. Several comparisons (--a, --b and --period repeated) share that rate. Do not retry a gate
until it passes: that multiplies the rate. Raise --max-rounds instead.

Exit codes: 0 pass or inconclusive, 1 regressed, 2 bad usage or input, 3 inconclusive under
--on-inconclusive fail, 4 could not measure or interrupted.")]
pub struct GateArgs {
    /// Subject to compare against; repeat for several comparisons
    #[arg(long, value_name = "SUBJECT", requires = "b", conflicts_with_all = ["baseline_cmd", "candidate_cmd"])]
    pub a: Vec<String>,
    /// Subject that is judged; one for each --a
    #[arg(long, value_name = "SUBJECT", requires = "a")]
    pub b: Vec<String>,
    /// Program to compare against, with its arguments
    #[arg(long, value_name = "COMMAND", requires = "candidate_cmd")]
    pub baseline_cmd: Option<String>,
    /// Program that is judged, with its arguments
    #[arg(long, value_name = "COMMAND", requires = "baseline_cmd")]
    pub candidate_cmd: Option<String>,
    /// Most pairs of rounds, at least 24; the last look is taken there [default: 400]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(24..=6400))]
    pub max_rounds: Option<u64>,
    /// Leave out the looks that would take longer
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub max_time: Option<String>,
    /// Time limit of one round of a command [default: ten times its length, and 10s]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub round_time_limit: Option<String>,
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
#[derive(Debug, Args)]
pub struct JudgedArgs {
    /// Nominal period; repeat for a comparison at each [default: 500us]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub period: Vec<String>,
    /// Runtime of tokio subjects
    #[arg(long, value_name = "KIND")]
    pub runtime: Option<String>,
    /// Recorded ticks of a round [default: 250, and at most 1s]
    #[arg(long, value_name = "N", value_parser = crate::units::count)]
    pub round_ticks: Option<u64>,
    /// Leading ticks of each round that are dropped [default: 10ms, from 3 to 20 ticks]
    #[arg(long, value_name = "N")]
    pub warmup: Option<u64>,
    /// Tolerated rise, for example p50=20% or p99=50%; repeat for both [default: these]
    #[arg(long, value_name = "PERCENTILE=PERCENT")]
    pub tolerance: Vec<String>,
    /// A rise by less than this is always tolerated
    #[arg(long, value_name = "DURATION", default_value = "1us", allow_hyphen_values = true)]
    pub floor: String,
    /// CPU to bind both sides to [default: one allowed CPU for subjects, none for commands]
    #[arg(long, value_name = "N")]
    pub cpu: Option<usize>,
    /// Seed of the order [default: drawn, and kept in the verdict]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub seed: Option<u64>,
    /// Nothing on standard error but errors and warnings
    #[arg(long, short)]
    pub quiet: bool,
}
