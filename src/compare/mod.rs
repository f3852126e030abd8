//! `osjitter compare`: by how much B is later than A.

pub mod args;
pub mod formats;
mod gates;
mod picture;
mod text;

use std::path::{Path, PathBuf};

use cli::exit::{self, Error, ExitStatus, usage};
use engine::machine::host;
use files::compare::{self, ChosenSubject, Comparison, Origin, SCHEMA};
use files::environment::Difference;
use files::report::{Report, Status, Subject};

use crate::render::formats::make;
use crate::{file_io, interop, terminal};

use args::CompareArgs;
use formats::FORMATS;
use gates::Gated;

/// Reads both sides, refuses or compares, writes.
pub fn run(args: &CompareArgs) -> exit::Result<ExitStatus> {
    let refuse = |differences: &[Difference]| match differences {
        [_, ..] if !args.force => Err(usage!(
            "A and B cannot be compared: {}; --force compares them anyway, and records a warning",
            text::listed(differences)
        )),
        _ => Ok(()),
    };
    let comparison = match (Named::read(&args.a)?, Named::read(&args.b)?) {
        (Named::Run(a), Named::Run(b)) => of_runs(&a, &b, refuse)?,
        (Named::Gate(a), Named::Gate(b)) => gates::compare(&a, &b, refuse)?,
        (Named::Gate(gate), Named::Run(run)) | (Named::Run(run), Named::Gate(gate)) => {
            let (gate, run) = (gate.file().display(), run.file.display());
            return Err(usage!(
                "{gate} is a gate's verdict and {run} a report: give two of a kind"
            ));
        }
    };
    let made = make("a comparison", &FORMATS, args.format, &comparison)?;
    file_io::deliver(made.into_bytes(), args.out.as_deref())?;
    if let Some(forced) = text::forced(&comparison) {
        terminal::note(false, &forced);
    }
    Ok(ExitStatus::Done)
}

/// Chooses the subjects, and compares them unless what differs stands in the way of it.
fn of_runs(
    a: &Side,
    b: &Side,
    refuse: impl FnOnce(&[Difference]) -> exit::Result<()>,
) -> exit::Result<Comparison> {
    let pairs = choose(a, b)?;
    let differences = differences(&pairs);
    refuse(&differences)?;
    let subjects =
        pairs.iter().map(|&(a, b)| compare::compare(a, b)).collect::<Result<Vec<_>, _>>();
    let subjects = subjects.map_err(|e| Error::usage(e.to_string()))?;
    Ok(Comparison {
        schema: SCHEMA.to_owned(),
        tool: host::tool(),
        a: a.origin(),
        b: b.origin(),
        warnings: compare::warnings(&a.report, &b.report, &subjects),
        forced: differences,
        subjects,
        metrics: Vec::new(),
    })
}

/// A side as it was named.
enum Named {
    Run(Box<Side>),
    Gate(Gated),
}

impl Named {
    fn read(text: &str) -> exit::Result<Self> {
        let (path, id) = split(text, |path| path.exists());
        let file = file_io::resolved(&path);
        // Once, as it may be a pipe.
        let text = (!interop::fleet::is_bins_path(&file))
            .then(|| file_io::read_text(&file))
            .transpose()?;
        let read = match &text {
            None => interop::read(&file),
            Some(text) => interop::parse(text).map_err(|error| error.context(file.display())),
        };
        match read {
            Ok(report) => Ok(Self::Run(Box::new(Side { file, id, report }))),
            Err(error) => {
                let gated = text.and_then(|text| Gated::parse(&file, &text, id.as_deref()));
                gated.unwrap_or(Err(error)).map(Self::Gate)
            }
        }
    }
}

/// A run, or a subject of it.
struct Side {
    file: PathBuf,
    /// The subject that was named with it.
    id: Option<String>,
    report: Report,
}

impl Side {
    fn origin(&self) -> Origin {
        Origin {
            file: self.file.display().to_string(),
            program: None,
            started_utc: self.report.started_utc.clone(),
            partial: self.report.partial,
            fitness: self.report.fitness.clone(),
            tool: self.report.tool.clone(),
        }
    }

    fn chosen<'a>(&'a self, subject: &'a Subject) -> ChosenSubject<'a> {
        ChosenSubject { report: &self.report, subject }
    }

    fn measured(&self) -> impl Iterator<Item = &Subject> {
        self.report.subjects.iter().filter(|s| s.summary.is_some())
    }

    fn ids(&self) -> String {
        let ids: Vec<&str> = self.measured().map(|s| s.id.as_str()).collect();
        if ids.is_empty() { "nothing that was measured".to_owned() } else { ids.join(", ") }
    }

    /// The subject of that id, or the only one of that name.
    fn find(&self, id: &str) -> exit::Result<&Subject> {
        let mut named = self.report.subjects.iter().filter(|s| s.name == id);
        let by_name = named.next().filter(|_| named.next().is_none());
        let found = self.report.subjects.iter().find(|s| s.id == id).or(by_name);
        let file = self.file.display();
        let subject =
            found.ok_or_else(|| usage!("no subject {id:?} in {file}, which has {}", self.ids()))?;
        match (&subject.status, &subject.summary) {
            (Status::Failed { reason }, None) => {
                Err(usage!("{} in {file} was not measured: {reason}", subject.id))
            }
            (_, None) => Err(usage!("{} in {file} has no tick", subject.id)),
            _ => Ok(subject),
        }
    }

    /// The partner of a subject of the other side that was named alone: its namesake, or the only
    /// one there is.
    fn partner(&self, id: &str) -> exit::Result<&Subject> {
        let mut measured = self.measured();
        let only = measured.next().filter(|_| measured.next().is_none());
        let namesake = self.measured().find(|s| s.id == id);
        namesake.or(only).ok_or_else(|| {
            let file = self.file.display();
            usage!(
                "{file} has no {id}; name the subject to compare with it, as in {file}#ID: {}",
                self.ids()
            )
        })
    }
}

/// `path#id`, where the longest part that is a file or directory is the path: both may hold a `#`.
fn split(text: &str, exists: impl Fn(&Path) -> bool) -> (PathBuf, Option<String>) {
    if exists(Path::new(text)) {
        return (text.into(), None);
    }
    let mut cuts = text.match_indices('#').map(|(at, _)| at).rev();
    let at = cuts.find(|&at| exists(Path::new(&text[..at]))).or_else(|| text.find('#'));
    match at {
        Some(at) => (text[..at].into(), Some(text[at + 1..].to_owned())),
        None => (text.into(), None),
    }
}

fn choose<'a>(
    a: &'a Side,
    b: &'a Side,
) -> exit::Result<Vec<(ChosenSubject<'a>, ChosenSubject<'a>)>> {
    let (x, y) = match (&a.id, &b.id) {
        (Some(x), Some(y)) => (a.find(x)?, b.find(y)?),
        (Some(x), None) => a.find(x).and_then(|x| Ok((x, b.partner(&x.id)?)))?,
        (None, Some(y)) => b.find(y).and_then(|y| Ok((a.partner(&y.id)?, y)))?,
        (None, None) => return in_both(a, b),
    };
    if x.id == y.id && compare::is_same_run(&a.report, &b.report) {
        let file = a.file.display();
        return Err(usage!(
            "both sides are {} of one run; name another of {file}: {}",
            x.id,
            a.ids()
        ));
    }
    Ok(vec![(a.chosen(x), b.chosen(y))])
}

fn in_both<'a>(
    a: &'a Side,
    b: &'a Side,
) -> exit::Result<Vec<(ChosenSubject<'a>, ChosenSubject<'a>)>> {
    let (x, y) = (a.file.display(), b.file.display());
    if compare::is_same_run(&a.report, &b.report) {
        return Err(usage!(
            "both sides are one run; name two of its subjects, as in {x}#ID: {}",
            a.ids()
        ));
    }
    let namesake = |subject: &'a Subject| {
        let other = b.measured().find(|s| s.id == subject.id)?;
        Some((a.chosen(subject), b.chosen(other)))
    };
    let pairs: Vec<_> = a.measured().filter_map(namesake).collect();
    if pairs.is_empty() {
        return Err(usage!(
            "no subject is in both; name one of each, as in {x}#ID {y}#ID: {x} has {}; {y} has {}",
            a.ids(),
            b.ids()
        ));
    }
    Ok(pairs)
}

/// What keeps any of the pairs from being comparable, each said once.
fn differences(pairs: &[(ChosenSubject<'_>, ChosenSubject<'_>)]) -> Vec<Difference> {
    let mut all: Vec<Difference> = Vec::new();
    for difference in pairs.iter().flat_map(|&(a, b)| compare::differences(a, b)) {
        if !all.contains(&difference) {
            all.push(difference);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::split;
    use std::path::Path;

    #[test]
    fn a_hash_may_be_part_of_either() {
        let there = |path: &Path| {
            [Path::new("a.json"), Path::new("run#1"), Path::new("run")].contains(&path)
        };
        let id = |text: &str| Some(text.to_owned());
        for (text, expected) in [
            ("a.json", ("a.json", None)),
            ("a.json#spin@1ms", ("a.json", id("spin@1ms"))),
            ("a.json#spin@1ms#2", ("a.json", id("spin@1ms#2"))),
            ("run#1", ("run#1", None)),
            ("run#1#spin", ("run#1", id("spin"))),
            ("none#spin#2", ("none", id("spin#2"))),
            ("none", ("none", None)),
        ] {
            assert_eq!(split(text, there), (expected.0.into(), expected.1), "{text}");
        }
    }
}
