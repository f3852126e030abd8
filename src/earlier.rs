//! Earlier runs: the reports that lie in a directory of runs, and how a new run differs from the
//! last of its kind.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use files::compare::{self, ChosenSubject, Finding, SubjectComparison};
use files::environment::EnvironmentKey;
use files::fitness::Fitness;
use files::report::{self, Host, Plan, Report, Summary};
use serde::Deserialize;

use crate::file_io;
use crate::render::label::is_control;

/// The directory in which runs are collected.
pub const RESULTS: &str = "results";
/// How many runs are looked through for one of the same plan, the newest first.
const LOOKED_THROUGH: usize = 20;

/// A run without its rounds: reading those of many runs would take seconds.
#[derive(Debug, Deserialize)]
pub struct Head {
    schema: String,
    pub started_utc: String,
    pub partial: bool,
    pub plan: Plan,
    pub host: Host,
    pub fitness: Option<Fitness>,
    pub subjects: Vec<SubjectHead>,
}

#[derive(Debug, Deserialize)]
pub struct SubjectHead {
    pub name: String,
    pub period_ns: u64,
    pub summary: Option<Summary>,
}

impl Head {
    fn read(file: &Path) -> Option<Self> {
        let head: Self = serde_json::from_str(&file_io::read_text(file).ok()?).ok()?;
        (head.schema == report::SCHEMA).then_some(head)
    }

    /// What must be equal for two runs to be of one kind: the plan, in whatever order its rounds
    /// were, and the machine.
    pub fn kind(&self) -> (Plan, EnvironmentKey) {
        (unordered(&self.plan), EnvironmentKey::from_host(&self.host))
    }
}

fn unordered(plan: &Plan) -> Plan {
    Plan { seed: 0, samples: true, ..plan.clone() }
}

/// The reports of the runs in `directory`, the last written first. A directory that cannot be read
/// has none.
pub fn reports(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut files: Vec<(SystemTime, PathBuf)> = entries
        .filter_map(|entry| {
            let file = entry.path().join("report.json");
            let meta = std::fs::symlink_metadata(&file).ok()?;
            meta.is_file().then_some((meta.modified().ok()?, file))
        })
        .collect();
    files.sort_by(|a, b| b.cmp(a));
    files.into_iter().map(|(_, file)| file).collect()
}

/// The runs in `directory`, the last written first, and how many files are not reports of this
/// version.
pub fn runs(directory: &Path) -> (Vec<(PathBuf, Head)>, usize) {
    let files = reports(directory);
    let all = files.len();
    let runs: Vec<_> =
        files.into_iter().filter_map(|file| Head::read(&file).map(|head| (file, head))).collect();
    let unread = all - runs.len();
    (runs, unread)
}

/// The last whole run of the same plan on the same machine that lies beside this one. Only where
/// runs are collected: beside a directory that was given elsewhere may lie anything.
fn last_like(report: &Report, file: &Path) -> Option<Report> {
    let kind = (unordered(&report.plan), EnvironmentKey::from_host(&report.host));
    let own = file.canonicalize().ok()?;
    let directory = own.parent()?.parent().filter(|directory| directory.ends_with(RESULTS))?;
    let beside = reports(directory).into_iter().filter(|other| *other != own);
    let is_like = |head: Head| !head.partial && head.kind() == kind;
    let found = beside.take(LOOKED_THROUGH).find(|other| Head::read(other).is_some_and(is_like))?;
    file_io::read(&found).ok()
}

/// How a run, kept in `file`, differs from the last one like it, in a sentence; `None` where there
/// is none.
pub fn against_the_last(report: &Report, file: &Path) -> Option<String> {
    let before = last_like(report, file)?;
    let namesake = |id: &str| before.subjects.iter().find(|s| s.id == id && s.summary.is_some());
    let compared =
        report.subjects.iter().filter(|s| s.summary.is_some() && !is_control(&s.name)).filter_map(
            |b| {
                let a = ChosenSubject { report: &before, subject: namesake(&b.id)? };
                compare::compare(a, ChosenSubject { report, subject: b }).ok()
            },
        );
    sentence(&compared.collect::<Vec<_>>(), &ago(&before.started_utc, &report.started_utc)?)
}

/// The largest clear change, and how many figures are clearly apart at all: of twenty where nothing
/// differs, one is.
fn sentence(compared: &[SubjectComparison], ago: &str) -> Option<String> {
    let figures: Vec<_> = compared
        .iter()
        .flat_map(|c| {
            c.percentiles.iter().map(move |p| (c, p, p.beside_control.as_ref().unwrap_or(&p.all)))
        })
        .filter(|(_, _, e)| e.finding != Finding::TooFewRounds)
        .collect();
    let apart: Vec<_> =
        figures.iter().filter(|(_, _, e)| e.finding != Finding::NoDifferenceShown).collect();
    let largest = apart.iter().max_by(|a, b| a.2.ratio.ln().abs().total_cmp(&b.2.ratio.ln().abs()));
    let all = match figures.len() {
        0 => return None,
        1 => "1 figure".to_owned(),
        n => format!("{n} figures"),
    };
    let Some((c, p, e)) = largest else {
        return Some(format!("Against the same plan {ago}: no difference shown in {all}."));
    };
    let change = |ratio: f64| format!("{:+.0} %", (ratio - 1.0) * 100.0);
    let within = e
        .ratio_ci95
        .map_or(String::new(), |[low, high]| format!(" [{}, {}]", change(low), change(high)));
    let (name, changed, apart) = (p.name.replace('_', "."), change(e.ratio), apart.len());
    Some(format!(
        "Against the same plan {ago}: {name} of {} {changed}{within}; clearly apart {apart} of {all}, where chance makes \
         one in twenty.",
        c.b.name
    ))
}

/// From one moment to a later one, as people say it.
pub fn ago(then_utc: &str, now_utc: &str) -> Option<String> {
    let at = |text: &str| humantime::parse_rfc3339(text).ok();
    let passed = at(now_utc)?.duration_since(at(then_utc)?).ok()?;
    Some(in_words(passed))
}

fn in_words(passed: Duration) -> String {
    match passed.as_secs() {
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
    fn time_that_passed_is_said_in_its_unit() {
        let ago = |then| ago(then, "2026-03-02T12:00:00Z");
        assert_eq!(ago("2026-03-02T11:59:01Z").as_deref(), Some("59 s ago"));
        assert_eq!(ago("2026-03-02T11:40:00Z").as_deref(), Some("20 min ago"));
        assert_eq!(ago("2026-03-01T12:00:00Z").as_deref(), Some("24 h ago"));
        assert_eq!(ago("2026-02-20T12:00:00Z").as_deref(), Some("10 days ago"));
        assert_eq!(ago("2026-03-02T12:00:01Z"), None, "a clock was set back");
        assert_eq!(ago("yesterday"), None);
    }
}
