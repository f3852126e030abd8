//! `osjitter history`: lists the runs in a directory, newest first.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::{Args, ValueHint};
use cli::exit::{self, Error, ExitStatus, usage};
use cli::printable::to_printable;
use cli::time::format_time;
use cli::units::{format_exact_ns, parse_index};
use cli::words::or_dash;
use files::file::to_indented_json;
use files::fitness::Verdict;
use render::document::Table;
use render::document::terminal::render_table;
use serde::Serialize;

use crate::previous_runs::{self, RESULTS_DIRECTORY, RunHeader, RunKind, SubjectHeader};
use crate::terminal;
use render::formats::{Format, parser};
use render::report::label::is_control;

#[derive(Debug, Args)]
#[command(after_help = "\
Runs of one kind have the same plan and the same machine, so they are comparable: \
`osjitter compare results/A results/B`. `osjitter run` compares each new run with the last one of its kind.

Examples:
  osjitter history
  osjitter history results --kind 2
  osjitter history --format json")]
pub struct HistoryArgs {
    /// Directory of the runs
    #[arg(default_value = RESULTS_DIRECTORY, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub directory: PathBuf,
    /// List only runs of this kind, as numbered in the table
    #[arg(long, value_name = "N", value_parser = parse_index)]
    pub kind: Option<usize>,
    /// Format to print to stdout
    #[arg(long, value_parser = parser([Format::Table, Format::Json]), default_value = "table")]
    pub format: Format,
}

/// A run of the list.
#[derive(Serialize)]
struct ListedRun {
    directory: String,
    started_utc: String,
    /// The number of the run's kind, counted from 1 for the kind of the newest run.
    kind: usize,
    partial: bool,
    fitness: Option<Verdict>,
    subjects: Vec<String>,
    periods_ns: Vec<u64>,
    /// Ticks of each subject; null if they differ.
    ticks: Option<u64>,
    /// The subject with the lowest p99, except for controls, and its p99.
    least_late: Option<(String, i64)>,
}

impl ListedRun {
    fn new(file: &Path, header: &RunHeader, kind: usize) -> Self {
        let ticks = sorted_unique(header.plan.scenarios.iter().map(|s| s.ticks));
        let measured: Vec<_> = header.subjects.iter().filter(|s| !is_control(&s.name)).collect();
        let mut subjects: Vec<String> = Vec::new();
        for subject in &measured {
            if !subjects.contains(&subject.name) {
                subjects.push(subject.name.clone());
            }
        }
        let p99s = measured.into_iter().filter_map(p99);
        Self {
            directory: file.parent().unwrap_or(file).display().to_string(),
            started_utc: header.started_utc.clone(),
            kind,
            partial: header.partial,
            fitness: header.fitness.as_ref().map(|f| f.verdict),
            subjects,
            periods_ns: sorted_unique(header.subjects.iter().map(|s| s.period_ns)),
            ticks: <[u64; 1]>::try_from(ticks).ok().map(|[ticks]| ticks),
            least_late: p99s.min_by_key(|(_, lateness)| *lateness),
        }
    }

    fn row(&self, now_utc: &str) -> Vec<String> {
        let subjects = match self.subjects.as_slice() {
            [] => "controls".to_owned(),
            [subject] => subject.clone(),
            several => format!("{} subjects", several.len()),
        };
        let periods: Vec<String> = self.periods_ns.iter().copied().map(format_exact_ns).collect();
        let least_late = self.least_late.as_ref();
        let least_late = least_late.map(|(name, ns)| format!("{} ({name})", format_time(*ns)));
        vec![
            self.directory.clone() + if self.partial { " (partial)" } else { "" },
            or_dash(previous_runs::elapsed_between(&self.started_utc, now_utc)),
            self.kind.to_string(),
            subjects,
            periods.join(", "),
            or_dash(self.ticks.map(|n| n.to_string())),
            or_dash(self.fitness.map(format_verdict)),
            or_dash(least_late),
        ]
    }
}

/// Returns the name and the p99 of a subject, if it was measured.
fn p99(subject: &SubjectHeader) -> Option<(String, i64)> {
    Some((subject.name.clone(), subject.summary.as_ref()?.lateness_ns.p99?))
}

fn format_verdict(verdict: Verdict) -> String {
    let word = match verdict {
        Verdict::Quiet => "quiet",
        Verdict::Noisy => "noisy",
        Verdict::Unfit => "unfit",
    };
    word.to_owned()
}

fn sorted_unique(values: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values.dedup();
    values
}

const HEADING: [&str; 8] =
    ["run", "started", "kind", "of", "period", "ticks", "machine", "least late at p99"];

/// Lists the runs.
pub fn run(args: &HistoryArgs) -> exit::Result<ExitStatus> {
    if !args.directory.is_dir() {
        return Err(usage!(
            "cannot list {}: not a directory; `osjitter run` creates results/",
            args.directory.display()
        ));
    }
    let found = previous_runs::read_runs(&args.directory);
    let mut kinds = Vec::new();
    let mut runs: Vec<ListedRun> = Vec::new();
    for (file, header) in &found.runs {
        let number = number_kind(&mut kinds, header.kind());
        runs.push(ListedRun::new(file, header, number));
    }
    if let Some(kind) = args.kind {
        if !(1..=kinds.len()).contains(&kind) {
            return Err(usage!(
                "unknown kind {kind}; {} contains {}",
                args.directory.display(),
                kinds.len()
            ));
        }
        runs.retain(|run| run.kind == kind);
    }
    let text = match args.format {
        Format::Json => to_indented_json(&runs),
        _ if runs.is_empty() => format!("no run in {}\n", args.directory.display()),
        _ => table(&runs),
    };
    std::io::stdout().write_all(to_printable(&text).as_bytes()).map_err(Error::from_stdout)?;
    if found.unreadable > 0 {
        let count = found.unreadable;
        terminal::note(false, &format!("skipped {count}: not readable as osjitter.report/1"));
    }
    Ok(ExitStatus::Done)
}

/// Returns the number of a kind, counted from 1 in the order of their first runs.
fn number_kind(kinds: &mut Vec<RunKind>, kind: RunKind) -> usize {
    if let Some(index) = kinds.iter().position(|known| *known == kind) {
        return index + 1;
    }
    kinds.push(kind);
    kinds.len()
}

fn table(runs: &[ListedRun]) -> String {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let mut table = Table::new(HEADING, 1);
    for run in runs {
        table.row(run.row(&now));
    }
    render_table(&table, terminal::columns())
}
