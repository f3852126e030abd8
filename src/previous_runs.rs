//! Finds previous runs in a directory and compares a new run with the last one of its kind.

use std::collections::HashSet;
use std::fmt;
use std::fs::{DirEntry, File};
use std::io::{self, BufReader, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use cli::exit::{self, Error};
use cli::file_io;
use cli::file_io::{FileIdentity, TextReader};
use cli::terminal;
use cli::words::pluralize;
use files::compare::{self, ChosenSubject, Estimate, Finding, SubjectComparison};
use files::environment::EnvironmentKey;
use files::file::File as _;
use files::fitness::Fitness;
use files::report::{self, Host, Plan, Report, Status, Summary};
use files::subjects::is_control;
use serde::Deserialize;
use serde::Deserializer as _;
use serde::de::{IgnoredAny, MapAccess, Visitor};

/// The directory in which runs are collected.
pub const RESULTS_DIRECTORY: &str = "results";

/// A report without its rounds. Reading the rounds of many runs would take seconds.
#[derive(Debug, Deserialize)]
pub struct RunHeader {
    schema: String,
    pub started_utc: String,
    pub partial: bool,
    pub plan: Plan,
    pub host: Host,
    pub fitness: Option<Fitness>,
    pub subjects: Vec<SubjectHeader>,
}

/// A subject without its rounds.
#[derive(Debug, Deserialize)]
pub struct SubjectHeader {
    pub name: String,
    pub period_ns: u64,
    pub status: Status,
    pub summary: Option<Summary>,
}

/// The plan and the machine of a run. Two runs of one kind are comparable.
#[derive(Debug, PartialEq)]
pub struct RunKind {
    /// The plan without the seed of its round order.
    plan: Plan,
    environment: EnvironmentKey,
}

impl RunKind {
    fn new(plan: &Plan, host: &Host) -> Self {
        let plan = Plan { seed: 0, samples: true, ..plan.clone() };
        Self { plan, environment: EnvironmentKey::from_host(host) }
    }

    /// Reads the kind of a complete run. Returns `None` if the run is partial, or if the file is
    /// not readable as a report.
    ///
    /// # Errors
    /// Returns an error if the system has no open files or memory left.
    fn read(file: &Path) -> exit::Result<Option<Self>> {
        let opened = File::open(file).and_then(TextReader::new);
        let reader = match opened {
            Ok(reader) => BufReader::new(reader),
            Err(e) if exit::is_out_of_resources(&e) => return Err(Error::unreadable(file, &e)),
            Err(_) => return Ok(None),
        };
        let mut head = ReportHead::default();
        // An error after the head, such as the unread rest, does not matter.
        let _ = serde_json::Deserializer::from_reader(reader).deserialize_map(&mut head);
        let ReportHead { schema, partial, plan, host } = head;
        let is_complete = schema.as_deref() == Some(report::SCHEMA) && partial == Some(false);
        Ok(plan.zip(host).filter(|_| is_complete).map(|(plan, host)| Self::new(&plan, &host)))
    }
}

/// The first part of a report. Only this part is read from each run of a directory, since the
/// rounds of many runs would take seconds.
#[derive(Debug, Default)]
struct ReportHead {
    schema: Option<String>,
    partial: Option<bool>,
    plan: Option<Plan>,
    host: Option<Host>,
}

impl ReportHead {
    fn is_read(&self) -> bool {
        let Self { schema, partial, plan, host } = self;
        schema.is_some() && partial.is_some() && plan.is_some() && host.is_some()
    }
}

impl<'de> Visitor<'de> for &mut ReportHead {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a report")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut report: A) -> Result<(), A::Error> {
        while !self.is_read() {
            let Some(key) = report.next_key::<String>()? else { break };
            match key.as_str() {
                "schema" => self.schema = Some(report.next_value()?),
                "partial" => self.partial = Some(report.next_value()?),
                "plan" => self.plan = Some(report.next_value()?),
                "host" => self.host = Some(report.next_value()?),
                _ => drop(report.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

impl RunHeader {
    /// Reads the header of a run. Returns `None` if the file is not readable as a report.
    ///
    /// # Errors
    /// Returns an error if the system has no open files or memory left.
    fn read(file: &Path) -> exit::Result<Option<Self>> {
        let text = read_text_if_readable(file)?;
        let header: Option<Self> = text.and_then(|text| serde_json::from_str(&text).ok());
        Ok(header.filter(|header| header.schema == report::SCHEMA))
    }

    pub fn kind(&self) -> RunKind {
        RunKind::new(&self.plan, &self.host)
    }

    /// Returns whether subjects other than controls ran under different conditions, so that not all
    /// of them compete.
    pub fn has_several_conditions(&self) -> bool {
        let scenarios = self.plan.scenarios.iter().filter(|s| !is_control(&s.subject));
        let mut conditions = scenarios.map(|s| (s.period_ns, s.load.as_deref(), s.cpu));
        let first = conditions.next();
        conditions.any(|other| Some(other) != first)
    }
}

/// Reads a file. Returns `None` if it cannot be read.
///
/// # Errors
/// Returns an error if the system has no open files or memory left.
fn read_text_if_readable(file: &Path) -> exit::Result<Option<String>> {
    match file_io::read_text(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.code() == 4 => Err(error),
        Err(_) => Ok(None),
    }
}

/// The reports of the runs in a directory.
struct ReportFiles {
    /// Paths, newest first.
    files: Vec<PathBuf>,
    /// The paths that cannot be examined, or are not files.
    unreadable: Vec<PathBuf>,
}

impl ReportFiles {
    /// Finds the reports of the runs in `directory`.
    ///
    /// Links are followed. A run that several paths lead to is listed once, under its own name if
    /// that is in the directory.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be read, or if the system has no open files left.
    fn find(directory: &Path) -> exit::Result<Self> {
        let failed = |error: io::Error| Error::unreadable(directory, &error);
        let entries: io::Result<Vec<DirEntry>> =
            std::fs::read_dir(directory).and_then(Iterator::collect);
        let mut paths: Vec<PathBuf> = entries.map_err(failed)?.iter().map(DirEntry::path).collect();
        paths.sort_by_cached_key(|path| (path.is_symlink(), path.clone()));
        let mut seen: HashSet<FileIdentity> = HashSet::new();
        let mut dated: Vec<(SystemTime, PathBuf)> = Vec::new();
        let mut unreadable = Vec::new();
        for file in paths.into_iter().map(|path| path.join("report.json")) {
            let is_new = file_io::identity(&file).map(|identity| seen.insert(identity));
            match is_new.and_then(|is_new| Ok((is_new, std::fs::metadata(&file)?))) {
                Ok((false, _)) => {}
                // Only a regular file, or a link to one, can be a report.
                Ok((true, metadata)) if metadata.is_file() => {
                    dated.push((metadata.modified().map_err(failed)?, file));
                }
                Ok((true, _)) => unreadable.push(file),
                // Other files and directories are no runs.
                Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                    // A link to nowhere is not absent.
                    if file.is_symlink() {
                        unreadable.push(file);
                    }
                }
                Err(e) if exit::is_out_of_resources(&e) => return Err(failed(e)),
                Err(_) => unreadable.push(file),
            }
        }
        dated.sort_by(|a, b| b.cmp(a));
        Ok(Self { files: dated.into_iter().map(|(_, file)| file).collect(), unreadable })
    }
}

/// The runs of a directory.
pub struct RunList {
    /// The report file and the header of each run, newest first.
    pub runs: Vec<(PathBuf, RunHeader)>,
    /// The files that cannot be read, or are not reports of this version.
    pub unreadable: Vec<PathBuf>,
}

/// Reads the headers of the runs in `directory`.
///
/// # Errors
/// Returns an error if the directory cannot be read, or if the system has no open files left.
pub fn read_runs(directory: &Path) -> exit::Result<RunList> {
    let ReportFiles { files, mut unreadable } = ReportFiles::find(directory)?;
    let mut runs = Vec::new();
    for file in files {
        match RunHeader::read(&file)? {
            Some(header) => runs.push((file, header)),
            None => unreadable.push(file),
        }
    }
    Ok(RunList { runs, unreadable })
}

/// Finds the newest complete run of the same kind next to this one.
///
/// Only the directory in which runs are collected is searched: a directory that was given by
/// `--out` can be next to anything.
///
/// # Errors
/// Returns an error if that directory cannot be read, or if the system has no open files left.
fn find_previous_run(report: &Report, file: &Path) -> exit::Result<Option<Report>> {
    let kind = RunKind::new(&report.plan, &report.host);
    // A report that could not be saved has no path.
    let Ok(current) = file.canonicalize() else { return Ok(None) };
    let directory = current.parent().and_then(Path::parent);
    let Some(directory) = directory.filter(|path| path.ends_with(RESULTS_DIRECTORY)) else {
        return Ok(None);
    };
    let mut candidates = ReportFiles::find(directory)?.files;
    let is_current = |candidate: &PathBuf| candidate.canonicalize().is_ok_and(|c| c == current);
    candidates.retain(|candidate| !is_current(candidate));
    for candidate in &candidates {
        if RunKind::read(candidate)?.as_ref() == Some(&kind) {
            let text = read_text_if_readable(candidate)?;
            let report = text.and_then(|text| Report::from_json(&text).ok());
            // A report that was cut after its head is no previous run.
            if report.is_some() {
                return Ok(report);
            }
        }
    }
    Ok(None)
}

/// Describes in a sentence how a run, stored in `file`, differs from the previous run of its kind.
///
/// Returns `None` if there is no previous run, or with a note if it cannot be searched for.
pub fn compare_with_previous(report: &Report, file: &Path) -> Option<String> {
    let previous = match find_previous_run(report, file) {
        Ok(previous) => previous?,
        Err(error) => {
            terminal::note(false, &format!("not compared with the previous run: {error}"));
            return None;
        }
    };
    let measured = report.subjects.iter().filter(|s| is_comparable(s) && !is_control(&s.name));
    let comparisons: Vec<SubjectComparison> =
        measured.filter_map(|subject| compare_subject(&previous, report, subject)).collect();
    let elapsed = elapsed_between(&previous.started_utc, &report.started_utc)?;
    format_comparison(&comparisons, &elapsed)
}

/// Returns whether the numbers of a subject cover the run.
fn is_comparable(subject: &report::Subject) -> bool {
    subject.summary.is_some() && subject.status.failure().is_none()
}

fn compare_subject(
    previous: &Report,
    report: &Report,
    subject: &report::Subject,
) -> Option<SubjectComparison> {
    let namesake = previous.subjects.iter().find(|s| s.id == subject.id && is_comparable(s))?;
    let before = ChosenSubject { report: previous, subject: namesake };
    compare::compare(before, ChosenSubject { report, subject }).ok()
}

/// A compared percentile of a subject.
struct ComparedFigure<'a> {
    subject: &'a str,
    percentile: &'a str,
    estimate: &'a Estimate,
}

/// Returns the figures that have an interval and are trusted.
fn compared_figures(comparisons: &[SubjectComparison]) -> Vec<ComparedFigure<'_>> {
    let mut figures = Vec::new();
    for comparison in comparisons {
        for percentile in &comparison.percentiles {
            let estimate = percentile.beside_control.as_ref().unwrap_or(&percentile.all);
            if !matches!(estimate.finding, Finding::TooFewRounds | Finding::NotTrusted) {
                let (subject, percentile) = (&comparison.b.name, &percentile.name);
                figures.push(ComparedFigure { subject, percentile, estimate });
            }
        }
    }
    figures
}

/// Names the largest significant change and the number of significant ones.
///
/// If nothing differs, about one figure in twenty is significant by chance.
fn format_comparison(comparisons: &[SubjectComparison], elapsed: &str) -> Option<String> {
    let mut figures = compared_figures(comparisons);
    if figures.is_empty() {
        return None;
    }
    let total = pluralize(figures.len(), "figure");
    figures.retain(|figure| figure.estimate.finding != Finding::NoDifferenceShown);
    let size = |figure: &ComparedFigure<'_>| figure.estimate.ratio.ln().abs();
    let largest = figures.iter().max_by(|a, b| size(a).total_cmp(&size(b)));
    let Some(ComparedFigure { subject, percentile, estimate }) = largest else {
        return Some(format!(
            "Compared with the same plan {elapsed}: no difference shown in {total}."
        ));
    };
    let (name, change) = (percentile.replace('_', "."), format_change(estimate.ratio));
    let interval = match estimate.ratio_ci95 {
        Some([low, high]) => format!(" [{}, {}]", format_change(low), format_change(high)),
        None => String::new(),
    };
    Some(format!(
        "Compared with the same plan {elapsed}: {name} of {subject} {change}{interval}; {} of {total} differ \
         significantly (one in twenty does by chance).",
        figures.len()
    ))
}

fn format_change(ratio: f64) -> String {
    format!("{:+.0} %", (ratio - 1.0) * 100.0)
}

/// Formats the time from one moment to a later one, such as `20 min ago`.
pub fn elapsed_between(then_utc: &str, now_utc: &str) -> Option<String> {
    let parse = |text: &str| humantime::parse_rfc3339(text).ok();
    let elapsed = parse(now_utc)?.duration_since(parse(then_utc)?).ok()?;
    Some(format_elapsed(elapsed))
}

fn format_elapsed(elapsed: Duration) -> String {
    match elapsed.as_secs() {
        s @ 0..120 => format!("{s} s ago"),
        s @ 120..7_200 => format!("{} min ago", s / 60),
        s @ 7_200..172_800 => format!("{} h ago", s / 3_600),
        s => format!("{} days ago", s / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_paths_are_counted() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        for run in ["run", "no-file/report.json", "no-run"] {
            std::fs::create_dir_all(path(run)).unwrap();
        }
        for file in ["run/report.json", "file"] {
            std::fs::write(path(file), "{}").unwrap();
        }
        let find = || ReportFiles::find(home.path()).unwrap();
        assert_eq!((find().files, find().unreadable.len()), (vec![path("run/report.json")], 1));
        #[cfg(unix)]
        {
            // The system does not examine what a loop of links leads to.
            std::os::unix::fs::symlink("loop", path("loop")).unwrap();
            assert_eq!((find().files.len(), find().unreadable.len()), (1, 2));
            std::fs::create_dir(path("cut")).unwrap();
            std::os::unix::fs::symlink("nowhere", path("cut/report.json")).unwrap();
            assert_eq!((find().files.len(), find().unreadable.len()), (1, 3));
        }
        assert!(ReportFiles::find(&path("absent")).is_err_and(|error| error.code() == 2));
    }

    #[test]
    fn old_run_of_plan_is_found() {
        const OTHER_RUNS: u64 = 40;
        let home = tempfile::tempdir().unwrap();
        let results = home.path().join(RESULTS_DIRECTORY);
        // Stores a run that is as many seconds old.
        let store = |age: u64, text: &str| {
            let file = results.join(age.to_string()).join("report.json");
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, text).unwrap();
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 - age);
            File::options().write(true).open(&file).unwrap().set_modified(time).unwrap();
            file
        };
        let text = include_str!("../fuzz/corpus/report/no-samples.json");
        let report = Report::from_json(text).unwrap();
        let mut other = report.clone();
        other.plan.samples = true;
        other.plan.mlock = !report.plan.mlock;
        for age in 2..OTHER_RUNS {
            store(age, &other.to_json());
        }
        let mut partial = report.clone();
        partial.partial = true;
        store(OTHER_RUNS, &partial.to_json());
        store(OTHER_RUNS + 1, &report.to_json()[..report.to_json().len() - 9]);
        let current = store(0, text);
        assert!(find_previous_run(&report, &current).unwrap().is_none());
        let mut old = report.clone();
        old.started_utc = "2020-01-01T00:00:00Z".to_owned();
        old.plan.seed += 1;
        store(OTHER_RUNS + 2, &old.to_json());
        let found = find_previous_run(&report, &current).unwrap().expect("the old run");
        assert_eq!(found.started_utc, old.started_utc);
    }

    #[test]
    fn elapsed_time_has_fitting_unit() {
        let elapsed = |then| elapsed_between(then, "2026-03-02T12:00:00Z");
        assert_eq!(elapsed("2026-03-02T11:59:01Z").as_deref(), Some("59 s ago"));
        assert_eq!(elapsed("2026-03-02T11:40:00Z").as_deref(), Some("20 min ago"));
        assert_eq!(elapsed("2026-03-01T12:00:00Z").as_deref(), Some("24 h ago"));
        assert_eq!(elapsed("2026-02-20T12:00:00Z").as_deref(), Some("10 days ago"));
        assert_eq!(elapsed("2026-03-02T12:00:01Z"), None, "a clock was set back");
        assert_eq!(elapsed("yesterday"), None);
    }
}
