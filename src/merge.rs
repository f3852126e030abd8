//! `osjitter merge`: several reports or files of bins joined into one, without loss; those that
//! stand out are named.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use cli::exit::{ExitStatus, Result, usage};
use cli::time::format_time;
use files::file::File as _;
use files::merge::{self, MergeError};
use files::report::Report;

use crate::interop::fleet::{self, Fleet};
use crate::interop::pair;
use crate::{file_io, interop, terminal};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  osjitter merge monday tuesday --out both.json
  osjitter merge --force cpu*/report.json | osjitter report /dev/stdin
  osjitter merge logs --out fleet.bins.csv.gz

Of files of bins, or directories of them, the histograms of all hosts and times are added up for each subject and set of \
labels.")]
pub struct MergeArgs {
    /// Reports with samples, or the directories of runs; or files of bins, and directories of these
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
    if args.files.iter().any(|file| fleet::is_bins_path(file)) {
        return of_fleet(args);
    }
    let reports = args.files.iter().map(|file| interop::read(file)).collect::<Result<Vec<_>>>()?;
    let merged = merge::merge(&reports, args.force).map_err(|e| match e {
        MergeError::PlansDiffer(_) => {
            usage!("{e}; --force merges them anyway, and records a warning")
        }
        MergeError::SameRun { first, second } => {
            let [one, other] = [first, second].map(|n| args.files[n - 1].display());
            usage!("{one} and {other} come from the same run: give each run once")
        }
        e => usage!("{e}"),
    })?;
    name_outliers(&reports, |source| args.files[source].display().to_string());
    file_io::deliver(merged.to_json(), args.out.as_deref())?;
    Ok(ExitStatus::Done)
}

/// Adds up the bins of all hosts and times, subject by subject and label by label.
fn of_fleet(args: &MergeArgs) -> Result<ExitStatus> {
    if let Some(other) = args.files.iter().find(|file| !fleet::is_bins_path(file)) {
        let make = "`osjitter report --format bins --out NAME.bins.csv` makes bins of a report";
        return Err(usage!("{} is not a file of bins, but others are: {make}", other.display()));
    }
    let all = Fleet::read(&args.files)?;
    let (hosts, reports): (Vec<&str>, Vec<Report>) = all.hosts().into_iter().unzip();
    // The name of the host stays where there is only one.
    let several = all.intervals.windows(2).any(|pair| pair[0].key.host != pair[1].key.host);
    let merged = all.add_up(|key| {
        if several {
            key.host.clear();
        }
    })?;
    name_outliers(&reports, |source| hosts[source].to_owned());
    pair::deliver(&merged, args.out.as_deref())?;
    Ok(ExitStatus::Done)
}

/// Names those whose median is far from the others', the furthest first.
fn name_outliers(reports: &[Report], source: impl Fn(usize) -> String) {
    for median in merge::ranking(reports).iter().take(NAMED) {
        if median.ratio.max(1.0 / median.ratio) >= OUTLIER {
            let (of, id, p50) = (source(median.source), &median.id, format_time(median.p50_ns));
            let note = format!(
                "stands out: {of}: {id}: median {p50}, {:.2} times the others'",
                median.ratio
            );
            terminal::note(false, &note);
        }
    }
}
