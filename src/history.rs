//! `osjitter history`: the runs that lie in a directory, the newest first.

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::{Args, ValueHint};
use cli::align::fit;
use cli::exit::{self, Error, ExitStatus, usage};
use cli::printable::to_printable;
use cli::time::format_time;
use cli::units::{format_exact_duration, parse_index};
use files::fitness::Verdict;
use files::report::Plan;
use serde::Serialize;

use crate::earlier::{self, Head, RESULTS, SubjectHead};
use crate::render::formats::{Format, parser};
use crate::render::label::is_control;
use crate::terminal;

#[derive(Debug, Args)]
#[command(after_help = "\
Runs of one kind have the same plan and the same machine, and may be compared: \
`osjitter compare results/A results/B`. After a run, `osjitter run` does that with the last of its kind.

Examples:
  osjitter history
  osjitter history results --kind 2
  osjitter history --format json")]
pub struct HistoryArgs {
    /// The directory of the runs
    #[arg(default_value = RESULTS, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub directory: PathBuf,
    /// Only runs of this kind, as numbered in the table
    #[arg(long, value_name = "N", value_parser = parse_index)]
    pub kind: Option<usize>,
    /// What to print to stdout
    #[arg(long, value_parser = parser([Format::Table, Format::Json]), default_value = "table")]
    pub format: Format,
}

/// A run, as people look for it.
#[derive(Serialize)]
struct Line {
    directory: String,
    started_utc: String,
    /// Runs of the same plan on the same machine have the same number, the newest kind the first.
    kind: usize,
    partial: bool,
    fitness: Option<Verdict>,
    subjects: Vec<String>,
    periods_ns: Vec<u64>,
    /// Of each subject; null where they differ.
    ticks: Option<u64>,
    /// The subject with the least p99, controls left aside, and its p99.
    least_late: Option<(String, i64)>,
}

impl Line {
    fn new(file: &std::path::Path, head: &Head, kind: usize) -> Self {
        let once = |mut all: Vec<u64>| {
            all.sort_unstable();
            all.dedup();
            all
        };
        let Plan { scenarios, .. } = &head.plan;
        let ticks = once(scenarios.iter().map(|s| s.ticks).collect());
        let mut subjects: Vec<String> = Vec::new();
        for name in head.subjects.iter().map(|s| &s.name).filter(|name| !is_control(name)) {
            if !subjects.contains(name) {
                subjects.push(name.clone());
            }
        }
        let p99 = |s: &SubjectHead| Some((s.name.clone(), s.summary.as_ref()?.lateness_ns.p99?));
        let least_late = head
            .subjects
            .iter()
            .filter(|s| !is_control(&s.name))
            .filter_map(p99)
            .min_by_key(|(_, late)| *late);
        Self {
            directory: file.parent().unwrap_or(file).display().to_string(),
            started_utc: head.started_utc.clone(),
            kind,
            partial: head.partial,
            fitness: head.fitness.as_ref().map(|f| f.verdict),
            subjects,
            periods_ns: once(head.subjects.iter().map(|s| s.period_ns).collect()),
            ticks: <[u64; 1]>::try_from(ticks).ok().map(|[one]| one),
            least_late,
        }
    }

    fn row(&self, now_utc: &str) -> Vec<String> {
        let subjects = match self.subjects.as_slice() {
            [] => "controls".to_owned(),
            [one] => one.clone(),
            several => format!("{} subjects", several.len()),
        };
        let periods: Vec<String> = self
            .periods_ns
            .iter()
            .map(|&ns| format_exact_duration(Duration::from_nanos(ns)))
            .collect();
        let fitness = match self.fitness {
            Some(Verdict::Quiet) => "quiet",
            Some(Verdict::Noisy) => "noisy",
            Some(Verdict::Unfit) => "unfit",
            None => "-",
        };
        let late = self
            .least_late
            .as_ref()
            .map_or("-".to_owned(), |(name, late)| format!("{} ({name})", format_time(*late)));
        vec![
            self.directory.clone() + if self.partial { " (partial)" } else { "" },
            earlier::ago(&self.started_utc, now_utc).unwrap_or_else(|| "-".to_owned()),
            self.kind.to_string(),
            subjects,
            periods.join(", "),
            self.ticks.map_or("-".to_owned(), |n| n.to_string()),
            fitness.to_owned(),
            late,
        ]
    }
}

const HEADING: [&str; 8] =
    ["run", "started", "kind", "of", "period", "ticks", "machine", "least late at p99"];

pub fn run(args: &HistoryArgs) -> exit::Result<ExitStatus> {
    if !args.directory.is_dir() {
        return Err(usage!(
            "there is no directory {}; `osjitter run` makes results/",
            args.directory.display()
        ));
    }
    let (runs, unread) = earlier::runs(&args.directory);
    let mut kinds = Vec::new();
    let mut lines = Vec::new();
    for (file, head) in &runs {
        let kind = head.kind();
        let known = kinds.iter().position(|k| *k == kind).unwrap_or_else(|| {
            kinds.push(kind);
            kinds.len() - 1
        });
        lines.push(Line::new(file, head, known + 1));
    }
    if let Some(asked) = args.kind {
        if !(1..=kinds.len()).contains(&asked) {
            return Err(usage!(
                "there is no kind {asked}; {} has {}",
                args.directory.display(),
                kinds.len()
            ));
        }
        lines.retain(|line| line.kind == asked);
    }
    let text = match args.format {
        Format::Json => serde_json::to_string_pretty(&lines).expect("plain data") + "\n",
        _ if lines.is_empty() => format!("no run in {}\n", args.directory.display()),
        _ => {
            let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
            let rows = lines.iter().map(|line| line.row(&now));
            let heading = HEADING.map(str::to_owned).to_vec();
            fit(&std::iter::once(heading).chain(rows).collect::<Vec<_>>(), terminal::columns())
        }
    };
    std::io::stdout().write_all(to_printable(&text).as_bytes()).map_err(Error::from_stdout)?;
    if unread > 0 {
        terminal::note(
            false,
            &format!("left out: {unread} that cannot be read as osjitter.report/1"),
        );
    }
    Ok(ExitStatus::Done)
}
