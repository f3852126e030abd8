//! Arguments of `osjitter compare`.

use std::path::PathBuf;

use clap::Args;

use crate::compare::formats::FORMATS;
use crate::render::formats::{Format, parser};

#[derive(Debug, Args)]
#[command(after_help = "\
A side is a report.json, the directory of a run, or either with #ID of a subject. Without ids, every subject that both \
have is compared with its namesake. Or it is the verdict of a gate with --metric: its candidate, or with #baseline its \
baseline; then the runs of two programs are compared.

Two subjects of one run are paired by round, the sharper comparison; two runs are compared by their rounds, and relative \
to the control nanosleep where both measured it. The candidates of two gates are compared relative to their baselines, \
too. Different machines, kernels, settings or periods are refused.

Examples:
  osjitter compare results/mine#tokio-interval@500us/current-thread results/mine#os-interval@500us/current-thread
  osjitter compare before/report.json after/report.json --format markdown
  osjitter compare before after --format svg --out shift.svg
  osjitter compare kernel-6.1 kernel-6.18 --force    what differs on purpose, too
  osjitter compare results/monday/verdict.json results/tuesday/verdict.json

Exit codes: 0 compared, whatever the outcome; 2 bad usage, or sides that cannot be compared.")]
pub struct CompareArgs {
    /// Side A, compared against
    #[arg(value_name = "A")]
    pub a: String,
    /// Side B: by how much is it later, or worse?
    #[arg(value_name = "B")]
    pub b: String,
    /// Compare anyway, and record a warning
    #[arg(long)]
    pub force: bool,
    /// What to make
    #[arg(long, value_parser = parser(FORMATS.map(|(format, _)| format)), default_value = "table")]
    pub format: Format,
    /// Write here instead of stdout
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}
