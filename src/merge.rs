//! `osjitter merge`: merges several reports or files of bins into one, without loss, and names
//! outliers.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use cli::exit::{Error, ExitStatus, Result, usage};
use cli::file_io;
use cli::file_io::Destination;
use cli::terminal;
use cli::time::format_time;
use cli::words::pluralize;
use files::file::File as _;
use files::merge::{self, MergeError};
use files::report::Report;
use interop::fleet::{self, Fleet};
use interop::pair;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  osjitter merge monday tuesday --out both.json
  osjitter merge --force cpu*/report.json | osjitter report /dev/stdin
  osjitter merge logs --out fleet.bins.csv.gz

Files of bins, or directories of them, are merged by adding up the histograms of all hosts and times, for each subject and \
set of labels.")]
pub struct MergeArgs {
    /// Reports with samples or directories of runs, or files of bins or directories of them
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::AnyPath)]
    pub files: Vec<PathBuf>,
    /// Accept different plans, with a warning, and damaged bins; replace an existing result
    #[arg(long)]
    pub force: bool,
    /// Write to this file instead of stdout
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

impl MergeArgs {
    fn destination(&self) -> Option<Destination<'_>> {
        Destination::from_flags(self.out.as_deref(), self.force)
    }
}

/// The ratio to the others' median from which a report is an outlier.
const OUTLIER_RATIO: f64 = 1.5;
/// The number of outliers that are named.
const MAX_NAMED_OUTLIERS: usize = 10;

/// Merges the files, names outliers on standard error, and writes the result.
pub fn run(args: &MergeArgs) -> Result<ExitStatus> {
    if let Some(destination) = args.destination() {
        let files: Vec<&Path> = args.files.iter().map(PathBuf::as_path).collect();
        fleet::check_output(&files, destination)?;
    }
    if args.files.iter().any(|file| fleet::is_bins_path(file)) {
        return merge_bins(args);
    }
    let reports = args.files.iter().map(|file| interop::read(file)).collect::<Result<Vec<_>>>()?;
    let merged =
        merge::merge(&reports, args.force).map_err(|error| explain_error(&error, &args.files))?;
    name_outliers(&reports, |source| args.files[source].display().to_string());
    file_io::write_output(merged.to_json(), args.destination())?;
    Ok(ExitStatus::Done)
}

fn explain_error(error: &MergeError, files: &[PathBuf]) -> Error {
    match error {
        MergeError::PlansDiffer(_) => {
            usage!("{error}; use --force to merge them anyway, with a warning")
        }
        MergeError::SameRun { first, second } => {
            let (first, second) = (files[first - 1].display(), files[second - 1].display());
            usage!("{first} and {second} come from the same run: give each run once")
        }
        _ => usage!("{error}"),
    }
}

/// Adds up the bins of all hosts and times for each subject and set of labels.
fn merge_bins(args: &MergeArgs) -> Result<ExitStatus> {
    if let Some(other) = args.files.iter().find(|file| !fleet::is_bins_path(file)) {
        let remedy = "convert reports with `osjitter report --format bins --out NAME.bins.csv`";
        return Err(usage!("{} is not a file of bins, but others are; {remedy}", other.display()));
    }
    let fleet = Fleet::read(&args.files)?;
    check_completeness(&fleet, args)?;
    let (hosts, reports): (Vec<&str>, Vec<Report>) = fleet.hosts().into_iter().unzip();
    let merged = fleet.merge()?;
    note_gaps(&fleet);
    name_outliers(&reports, |source| hosts[source].to_owned());
    pair::deliver(&merged, args.destination())?;
    Ok(ExitStatus::Done)
}

/// Checks that the written files can state what the sum lacks. Otherwise a gate would judge it as
/// if it were complete.
fn check_completeness(fleet: &Fleet, args: &MergeArgs) -> Result<()> {
    if args.force {
        return Ok(());
    }
    if let Some(damage) = fleet.damage() {
        return Err(usage!(
            "{damage}; repair or remove such files, or leave them out with --force"
        ));
    }
    let has_intervals = args.destination().is_some_and(|out| !out.is_stdout());
    match fleet.missing_bins_warning() {
        Some(gap) if !has_intervals => {
            let message = gap.message.trim_end_matches('.');
            Err(usage!(
                "{message}; only an .intervals file can state it: name the sum with --out NAME.bins.csv, or leave them out with --force"
            ))
        }
        _ => Ok(()),
    }
}

/// Names on standard error what the sum lacks.
fn note_gaps(fleet: &Fleet) {
    let gaps = [fleet.missing_bins_warning(), fleet.missing_facts_warning()];
    let messages = gaps.into_iter().flatten().map(|gap| gap.message);
    for message in fleet.omitted_damage().into_iter().chain(messages) {
        terminal::note(false, &message);
    }
}

/// Names the reports whose median is far from the others', starting with the farthest.
fn name_outliers(reports: &[Report], source_name: impl Fn(usize) -> String) {
    let mut outliers = merge::ranking(reports);
    outliers.retain(|median| median.ratio.max(1.0 / median.ratio) >= OUTLIER_RATIO);
    for median in outliers.iter().take(MAX_NAMED_OUTLIERS) {
        let (source, p50) = (source_name(median.source), format_time(median.p50_ns));
        let note = format!(
            "outlier: {source}: {}: median {p50}, {:.2} times the others'",
            median.id, median.ratio
        );
        terminal::note(false, &note);
    }
    if outliers.len() > MAX_NAMED_OUTLIERS {
        let others = pluralize(outliers.len() - MAX_NAMED_OUTLIERS, "more outlier");
        terminal::note(false, &format!("and {others}"));
    }
}
