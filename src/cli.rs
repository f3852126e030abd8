//! The command line: structs and help text, no logic.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

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
  osjitter list

Exit codes: 0 done, 2 bad usage or input, 4 something could not be measured or the run was interrupted.";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure lateness and cost of one or several kinds of ticker
    Run(Box<RunArgs>),
    /// Make any table or picture again from a report.json
    Report(ReportArgs),
    /// Show the subjects, which are available here, and why not
    List(ListArgs),
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
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  osjitter report results/mine/report.json
  osjitter report results/mine/report.json --format svg --out pictures
  osjitter report results/mine/report.json --format markdown >> \"$GITHUB_STEP_SUMMARY\"
  osjitter report results/mine/report.json --format csv --samples --out ticks.csv")]
pub struct ReportArgs {
    /// Reports that `osjitter run` wrote
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// What to make
    #[arg(long, value_enum, default_value = "table")]
    pub format: ReportFormat,
    /// With --format csv: every tick
    #[arg(long)]
    pub samples: bool,
    /// With --format hgrm: the subject, where there are several
    #[arg(long, value_name = "ID")]
    pub subject: Option<String>,
    /// Write here instead of standard output
    #[arg(long, value_name = "PATH")]
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
    /// Write the effective plan to standard output as TOML, and measure nothing
    #[arg(long)]
    pub print_plan: bool,
    /// Nothing on standard error but errors
    #[arg(long, short)]
    pub quiet: bool,
}
