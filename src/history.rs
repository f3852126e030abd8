//! `osjitter history`: lists the runs in a directory, newest first.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::{Args, ValueHint};
use cli::exit::{self, ExitStatus, usage};
use cli::file_io;
use cli::printable::to_printable;
use cli::terminal;
use cli::time::format_time;
use cli::units::{format_exact_ns, parse_index};
use cli::words::{or_dash, pluralize};
use files::compare::{Conclusion, PairDifference};
use files::file::to_indented_json;
use files::fitness::Verdict;
use files::report::Distribution;
use files::subjects::is_control;
use jitterstat::gate::Sides;
use render::document::{Document, Table, terminal as terminal_renderer};
use render::report::tradeoff::{MAX_MISSED_SHARE, missed_share};
use render::report::trust::Trust;
use serde::Serialize;

use crate::previous_runs::{self, RESULTS_DIRECTORY, RunHeader, RunKind};
use render::formats::{Format, parser};

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
    /// Output format
    #[arg(long, value_parser = parser([Format::Table, Format::Json]), default_value = "table")]
    pub format: Format,
}

/// A run of the list.
#[derive(Serialize)]
struct ListedRun {
    directory: String,
    started_utc: String,
    /// The number of the run's kind, counted from 1 for the kind of the oldest run.
    kind: usize,
    partial: bool,
    fitness: Option<Verdict>,
    subjects: Vec<String>,
    periods_ns: Vec<u64>,
    /// Ticks of each subject; null if they differ.
    ticks: Option<u64>,
    /// The subject with the lowest p99, except for controls, and its p99; null unless there are
    /// others and it is clearly lower than those of all of them.
    least_late: Option<(String, i64)>,
    /// Whether the machine is trusted at p99.
    #[serde(skip)]
    is_trusted: bool,
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
        let is_trusted = Trust::from_fitness(header.fitness.as_ref()).covers("p99");
        Self {
            directory: file.parent().unwrap_or(file).display().to_string(),
            started_utc: header.started_utc.clone(),
            kind,
            partial: header.partial,
            fitness: header.fitness.as_ref().map(|f| f.verdict),
            subjects,
            periods_ns: sorted_unique(header.subjects.iter().map(|s| s.period_ns)),
            ticks: <[u64; 1]>::try_from(ticks).ok().map(|[ticks]| ticks),
            least_late: find_lowest_p99(header).filter(|_| is_trusted),
            is_trusted,
        }
    }

    /// Formats the cells of a table about the runs in `parent`.
    fn row(&self, parent: &Path, now_utc: &str) -> Vec<String> {
        let name = Path::new(&self.directory);
        let name = name.strip_prefix(parent).unwrap_or(name).display();
        vec![
            format!("{name}{}", if self.partial { " (partial)" } else { "" }),
            or_dash(previous_runs::elapsed_between(&self.started_utc, now_utc)),
            self.kind.to_string(),
            self.format_subjects(),
            self.format_periods(),
            or_dash(self.ticks.map(|n| n.to_string())),
            or_dash(self.fitness.map(format_verdict)),
            or_dash(self.format_lowest_p99()),
        ]
    }

    fn format_subjects(&self) -> String {
        match self.subjects.as_slice() {
            [] => "controls".to_owned(),
            [subject] => subject.clone(),
            several => pluralize(several.len() as u64, "subject"),
        }
    }

    fn format_periods(&self) -> String {
        match self.periods_ns.as_slice() {
            [period_ns] => format_exact_ns(*period_ns),
            several => pluralize(several.len() as u64, "period"),
        }
    }

    fn format_lowest_p99(&self) -> Option<String> {
        if !self.is_trusted {
            return Some("unreliable".to_owned());
        }
        let (name, ns) = self.least_late.as_ref()?;
        Some(format!("{} ({name})", format_time(*ns)))
    }
}

/// Returns the name and the p99 of the subject with the lowest p99; `None` unless the intervals
/// show that it is clearly lower than at least one other, and than all others.
///
/// The rounds of a run, which show smaller differences, are not read.
fn find_lowest_p99(header: &RunHeader) -> Option<(String, i64)> {
    if header.has_several_conditions() {
        return None;
    }
    let mut competitors: Vec<(&str, &Distribution)> = Vec::new();
    for subject in header.subjects.iter().filter(|subject| !is_control(&subject.name)) {
        let Some(summary) = &subject.summary else { continue };
        if subject.status.failure().is_some() {
            continue;
        }
        if missed_share(summary) <= MAX_MISSED_SHARE && summary.lateness_ns.p99.is_some() {
            competitors.push((&subject.name, &summary.lateness_ns));
        }
    }
    let lowest = (0..competitors.len()).min_by_key(|&index| competitors[index].1.p99)?;
    let (name, lateness) = competitors.swap_remove(lowest);
    let is_lower = |(_, other): &(&str, &Distribution)| {
        let sides = Sides { base: lateness, candidate: *other };
        PairDifference::from_distributions(sides, "p99").conclusion == Conclusion::BaseIsLower
    };
    let is_lowest = !competitors.is_empty() && competitors.iter().all(is_lower);
    is_lowest.then_some((name.to_owned(), lateness.p99?))
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
    ["run", "started", "kind", "subjects", "period", "ticks", "machine", "lowest p99"];
/// The columns that a narrow terminal leaves out first. Most of them are the same for all runs of a
/// kind.
const EXPENDABLE: [&str; 5] = ["ticks", "subjects", "started", "period", "machine"];

/// Maximum number of unreadable files that are named.
const MAX_NAMED: usize = 10;

/// Lists the runs.
pub fn run(args: &HistoryArgs) -> exit::Result<ExitStatus> {
    let is_absent = |error: io::Error| error.kind() == ErrorKind::NotFound;
    if std::fs::metadata(&args.directory).map_or_else(is_absent, |metadata| !metadata.is_dir()) {
        return Err(usage!(
            "cannot list {}: not a directory; `osjitter run` creates results/",
            args.directory.display()
        ));
    }
    let found = previous_runs::read_runs(&args.directory)?;
    let (mut runs, kinds) = list_runs(&found.runs);
    if let Some(kind) = args.kind {
        if !(1..=kinds).contains(&kind) {
            return Err(usage!(
                "unknown kind {kind}; {} contains {kinds}",
                args.directory.display()
            ));
        }
        runs.retain(|run| run.kind == kind);
    }
    let text = match args.format {
        Format::Json => to_indented_json(&runs),
        _ if runs.is_empty() => format!("no run in {}\n", args.directory.display()),
        _ => terminal_renderer::render(&document(&args.directory, &runs), terminal::columns()),
    };
    file_io::write_output(to_printable(&text), None)?;
    let (named, others) = found.unreadable.split_at(found.unreadable.len().min(MAX_NAMED));
    for file in named {
        let file = file.display();
        terminal::note(false, &format!("skipped {file}: not readable as osjitter.report/1"));
    }
    if !others.is_empty() {
        let others = pluralize(others.len() as u64, "other file");
        terminal::note(false, &format!("skipped {others}"));
    }
    Ok(ExitStatus::Done)
}

/// Lists runs, which are given newest first, and counts their kinds.
///
/// Kinds are numbered by the start of their first run, so a new run does not change a number.
fn list_runs(found: &[(PathBuf, RunHeader)]) -> (Vec<ListedRun>, usize) {
    let mut oldest_first: Vec<&RunHeader> = found.iter().rev().map(|(_, header)| header).collect();
    oldest_first.sort_by(|a, b| a.started_utc.cmp(&b.started_utc));
    let mut kinds = Vec::new();
    for header in oldest_first {
        number_kind(&mut kinds, header.kind());
    }
    let mut runs = Vec::new();
    for (file, header) in found {
        let number = number_kind(&mut kinds, header.kind());
        runs.push(ListedRun::new(file, header, number));
    }
    (runs, kinds.len())
}

/// Returns the number of a kind, counted from 1 in the order of the calls.
fn number_kind(kinds: &mut Vec<RunKind>, kind: RunKind) -> usize {
    if let Some(index) = kinds.iter().position(|known| *known == kind) {
        return index + 1;
    }
    kinds.push(kind);
    kinds.len()
}

/// Describes the runs in a directory.
fn document(directory: &Path, runs: &[ListedRun]) -> Document {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let mut document = Document::new();
    document.title(format!("Runs in {}, newest first", directory.display()));
    let mut table = Table::new(HEADING, 1).with_expendable(&EXPENDABLE);
    for run in runs {
        table.row(run.row(directory, &now));
    }
    document.table(table);
    document
}
