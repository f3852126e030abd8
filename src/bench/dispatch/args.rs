//! `osjitter bench dispatch`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DispatchFormat {
    /// For people
    Table,
    /// The report itself
    Json,
    /// A table for pull requests and job summaries
    Markdown,
    /// The picture
    Svg,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  osjitter bench dispatch
  osjitter bench dispatch --quick
  osjitter bench dispatch --operation 'channel-*' --operation self-wake --rounds 100
  osjitter bench dispatch --format markdown --out results/dispatch

A name may be a glob: 'wake-*'. What crosses threads needs two CPUs to itself.")]
pub struct BenchDispatchArgs {
    /// What the runtimes are to do; repeat for several [default: all]
    #[arg(long, value_name = "NAME")]
    pub operation: Vec<String>,
    /// Rounds; in each, every operation runs once on every runtime, in random order [default: 25, or 5 with --quick]
    #[arg(long, value_name = "N")]
    pub rounds: Option<u64>,
    /// How long an operation runs on a runtime in a round, from 1ms to 10s [default: 10ms, or 2ms with --quick]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub round_time: Option<String>,
    /// A first look in a second or two
    #[arg(long)]
    pub quick: bool,
    /// Seed of the order [default: drawn, and kept in the report]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub seed: Option<u64>,
    /// Write dispatch.json, dispatch.md and dispatch.svg into this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// What to write to standard output
    #[arg(long, value_enum, default_value = "table")]
    pub format: DispatchFormat,
    /// Say what the operations are, and which runtime lacks one; measure nothing
    #[arg(long)]
    pub list: bool,
    /// Nothing on standard error but errors
    #[arg(long, short)]
    pub quiet: bool,
}
