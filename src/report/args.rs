//! Arguments of `osjitter report`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use interop::unit::Unit;

use crate::report::runs::{self, RunOptions};
use render::formats::{Format, parser};

/// Returns all formats that some kind of file offers: those of a run, and those of a gate.
fn formats() -> impl IntoIterator<Item = Format> {
    runs::FORMATS.map(|(format, _)| format).into_iter().chain([Format::Junit, Format::Sarif])
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  osjitter report results/mine
  osjitter report results/mine --format svg --out pictures
  osjitter report results/mine --format markdown >> \"$GITHUB_STEP_SUMMARY\"
  osjitter report results/mine --format csv --samples --out ticks.csv
  osjitter report results/timeout/timeout.json --format markdown
  osjitter report results/mine --format parquet --samples --out ticks.parquet
  osjitter report results/mine --format bins --host web-17 --label rack=r7 --out logs/web-17.bins.csv
  cyclictest -q -D 10 -h 400 --json=c.json && osjitter report c.json --histogram
  cyclictest -q -D 10 -h 400 > c.txt && osjitter report c.txt

The format of a FILE is detected from the contents: report.json, the file of a bench, a verdict, a comparison, a \
calibration, cyclictest --json or the text of its -h, oslat --json, jitterdebugger's results.json, the output of hwlatdetect, of rtla hist, of Xenomai's latency or of bpftrace's hist(), or a log (.hlog) or a percentile distribution (.hgrm) of HdrHistogram. \
For a directory, the report in it is shown, or the sum of all *.bins.csv in it and its subdirectories. Notes below the \
table list what the imported file lacks. Files other than reports can be shown in some of \
the formats only.")]
pub struct ReportArgs {
    /// Files of osjitter or results of other tools; - is standard input
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::AnyPath)]
    pub files: Vec<PathBuf>,
    /// Output format
    #[arg(long, value_parser = parser(formats()), default_value = "table")]
    pub format: Format,
    #[command(flatten)]
    pub runs: RunOptions,
    /// Unit of an HdrHistogram log or of cyclictest's text, which do not state it [default:
    /// guessed]
    #[arg(long, value_name = "UNIT", value_enum)]
    pub unit: Option<Unit>,
    /// Add the published figures of bench-tokio-timeout (for a file of bench timeout)
    #[arg(long)]
    pub reference: bool,
    /// Write to this file instead of stdout
    #[arg(long, short, value_name = "PATH")]
    pub out: Option<PathBuf>,
    /// Replace an existing result; write a file of values from which some are missing
    #[arg(long)]
    pub force: bool,
}
