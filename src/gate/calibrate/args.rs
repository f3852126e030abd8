//! Arguments of `osjitter calibrate`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::render::formats::Format;
use crate::scenario::{Runtime, one_subject};
use crate::subject::Entry;
use crate::text::units;

#[derive(Debug, Args)]
#[command(after_help = "\
Runs one subject against itself, in pairs of rounds as the gate does, and says what a gate can see on this machine: how far
two rounds of the same thing are apart, the smallest change that is seen at each look, and how often a gate ends undecided.
The file is for `osjitter gate --calibration FILE`, which then warns of a tolerance that the machine is too noisy for.

A gate raises a false alarm in at most 0.5 % of cases by design. That it does so is claimed here only where at least 100
real gates were measured, which takes about half an hour at 500us.

Examples:
  osjitter calibrate
  osjitter calibrate --time 30m --subject tokio-interval --period 1ms --out calibration.json

Exit codes: 0 done, 2 bad usage, 4 could not measure or interrupted (what was measured is written, and marked).")]
pub struct CalibrateArgs {
    /// How long to measure
    #[arg(long, value_name = "DURATION", default_value = "60s", allow_hyphen_values = true, value_parser = units::duration)]
    pub time: Duration,
    /// What to run against itself
    #[arg(long, value_name = "SUBJECT", default_value = "os-interval", value_parser = one_subject)]
    pub subject: &'static Entry,
    /// Nominal period
    #[arg(long, value_name = "DURATION", default_value = "500us", allow_hyphen_values = true, value_parser = units::period)]
    pub period: Duration,
    /// Runtime of a tokio subject
    #[arg(long, value_name = "KIND")]
    pub runtime: Option<Runtime>,
    /// Recorded ticks of a round [default: 250, and at most 1s]
    #[arg(long, value_name = "N", value_parser = units::count)]
    pub round_ticks: Option<u64>,
    /// Leading ticks of each round that are dropped [default: 10ms, from 3 to 20 ticks]
    #[arg(long, value_name = "N")]
    pub warmup: Option<u64>,
    /// CPU to bind to [default: one allowed CPU]
    #[arg(long, value_name = "N")]
    pub cpu: Option<usize>,
    /// Seed of the order [default: drawn, and kept in the file]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub seed: Option<u64>,
    /// The file to write
    #[arg(long, value_name = "FILE", default_value = "osjitter-calibration.json")]
    pub out: PathBuf,
    /// What to write to standard output
    #[arg(long, value_enum, default_value = "table")]
    pub format: Format,
    /// Nothing on standard error but errors
    #[arg(long, short)]
    pub quiet: bool,
}
