//! Arguments of `osjitter compare`.

use std::path::PathBuf;

use clap::Args;

use crate::compare::formats::FORMATS;
use render::formats::{Format, parser};

#[derive(Debug, Args)]
#[command(after_help = "\
A side is a report.json or the directory of a run, optionally with #ID of a subject. Without ids, all subjects that both \
sides contain are compared by their ids. A side can also be the verdict of a gate with --metric. It selects the \
candidate, or the baseline with #baseline, and the whole runs of the two programs are compared.

Two subjects of one run are paired by round, which is the more sensitive comparison. Two runs are compared by their \
rounds, and additionally relative to the control nanosleep if both measured it. The candidates of two gates are \
additionally compared relative to their baselines. Sides with different machines, kernels, settings or periods are rejected.

Examples:
  osjitter compare results/mine#tokio-interval@500us/current-thread results/mine#os-interval@500us/current-thread
  osjitter compare before/report.json after/report.json --format markdown
  osjitter compare before after --format svg --out shift.svg
  osjitter compare kernel-6.1 kernel-6.18 --force    despite different kernels
  osjitter compare results/monday/verdict.json results/tuesday/verdict.json

Exit codes: 0 compared, whatever the outcome; 2 bad usage, or sides that cannot be compared.")]
pub struct CompareArgs {
    /// Side to compare against; - is standard input
    #[arg(value_name = "A")]
    pub a: String,
    /// Side to compare with A
    #[arg(value_name = "B")]
    pub b: String,
    /// Accept sides that differ in their conditions and record a warning; replace an existing
    /// result
    #[arg(long)]
    pub force: bool,
    /// Output format
    #[arg(long, value_parser = parser(FORMATS.map(|(format, _)| format)), default_value = "table")]
    pub format: Format,
    /// Write to this file instead of stdout
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
}
