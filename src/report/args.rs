//! Arguments of `osjitter report`.

use std::path::PathBuf;

use clap::Args;

use crate::render::formats::ReportFormat;

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
