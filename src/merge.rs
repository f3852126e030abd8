//! `osjitter merge`: several reports joined into one, without loss; those that stand out are named.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use jitterstat::file::File as _;
use jitterstat::merge::{self, MergeError};

use crate::exit::{ExitStatus, Result, usage};
use crate::text::time::time;
use crate::{files, interop, terminal};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  osjitter merge monday tuesday --out both.json
  osjitter merge --force cpu*/report.json | osjitter report /dev/stdin")]
pub struct MergeArgs {
    /// Reports with samples, or the directories of runs
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::AnyPath)]
    pub files: Vec<PathBuf>,
    /// Join plans that differ, and record a warning
    #[arg(long)]
    pub force: bool,
    /// Write here instead of stdout
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// From this ratio to the others' median a report is named on standard error.
const OUTLIER: f64 = 1.5;
/// At most so many are named.
const NAMED: usize = 10;

/// Reads, joins, ranks, writes.
pub fn run(args: &MergeArgs) -> Result<ExitStatus> {
    let reports = args.files.iter().map(|file| interop::read(file)).collect::<Result<Vec<_>>>()?;
    let merged = merge::merge(&reports, args.force).map_err(|e| match e {
        MergeError::PlansDiffer(_) => usage!("{e}; --force merges them anyway, and records a warning"),
        MergeError::SameRun { reports } => {
            let [one, other] = reports.map(|n| args.files[n - 1].display());
            usage!("{one} and {other} are of the same run: give each run once")
        }
        e => usage!("{e}"),
    })?;
    for median in merge::ranking(&reports).iter().take(NAMED) {
        if median.ratio.max(1.0 / median.ratio) >= OUTLIER {
            let (file, id, p50) = (args.files[median.source].display(), &median.id, time(median.p50_ns));
            let note = format!("stands out: {file}: {id}: median {p50}, {:.2} times the others'", median.ratio);
            terminal::note(false, &note);
        }
    }
    files::deliver(merged.to_json(), args.out.as_deref())?;
    Ok(ExitStatus::Done)
}
