//! `osjitter compare`: shows by how much side B is later than side A.

pub mod args;
mod conditions;
pub mod formats;
mod gated_program;
mod overview;
mod quantile_chart;
mod text;
mod wording;

use std::path::{Path, PathBuf};

use cli::exit::{self, Error, ExitStatus, usage};
use cli::file_io;
use cli::terminal;
use engine::machine::host;
use files::compare::{self, ChosenSubject, Comparison, Origin, SCHEMA};
use files::environment::Difference;
use files::report::{Report, Status, Subject, Warning};

use jitterstat::gate::Sides;
use render::formats::make;
use render::report::settings;

use args::CompareArgs;
use conditions::check_differences;
use formats::FORMATS;
use gated_program::GatedProgram;

/// Compares two sides and writes the comparison.
pub fn run(args: &CompareArgs) -> exit::Result<ExitStatus> {
    let (a, b) = (NamedSide::read(&args.a)?, NamedSide::read(&args.b)?);
    let comparison = compare_sides(&a, &b, args.force)?;
    let made = make("a comparison", &FORMATS, args.format, &comparison)?;
    file_io::write_output(made.into_bytes(), args.out.as_deref())?;
    if let Some(warning) = wording::forced_warning(&comparison) {
        terminal::note(false, &warning);
    }
    Ok(ExitStatus::Done)
}

fn compare_sides(a: &NamedSide, b: &NamedSide, force: bool) -> exit::Result<Comparison> {
    match (a, b) {
        (NamedSide::Run(a), NamedSide::Run(b)) => compare_runs(a, b, force),
        (NamedSide::Gate(a), NamedSide::Gate(b)) => gated_program::compare(a, b, force),
        (NamedSide::Gate(gate), NamedSide::Run(run))
        | (NamedSide::Run(run), NamedSide::Gate(gate)) => {
            let (gate, run) = (gate.file().display(), run.file.display());
            Err(usage!("{gate} is a gate's verdict and {run} a report: give two of a kind"))
        }
    }
}

/// Compares the selected subjects of two runs.
///
/// # Errors
/// Returns an error if their conditions differ, unless `force` is set.
fn compare_runs(a: &RunSide, b: &RunSide, force: bool) -> exit::Result<Comparison> {
    let pairs = select_pairs(a, b)?;
    let differences = distinct_differences(&pairs);
    check_differences(&differences, force)?;
    let mut subjects = Vec::new();
    for pair in &pairs {
        let compared = compare::compare(pair.a, pair.b);
        subjects.push(compared.map_err(|error| Error::usage(error.to_string()))?);
    }
    let mut warnings = compare::warnings(&a.report, &b.report, &subjects);
    warnings
        .extend(pairs.iter().flat_map(|pair| settings_warnings(pair.a.subject, pair.b.subject)));
    Ok(Comparison {
        schema: SCHEMA.to_owned(),
        tool: host::tool(),
        a: a.origin(),
        b: b.origin(),
        warnings,
        forced: differences,
        subjects,
        metrics: Vec::new(),
    })
}

/// Returns warnings about settings in which two subjects differ, as far as they are known.
fn settings_warnings(a: &Subject, b: &Subject) -> Vec<Warning> {
    let Some((base, candidate)) = a.settings.as_ref().zip(b.settings.as_ref()) else {
        return Vec::new();
    };
    let sides = Sides { base, candidate };
    settings::warnings(&b.id, &files::settings::compare(&sides, &a.id))
}

/// A side, as named on the command line.
enum NamedSide {
    Run(Box<RunSide>),
    Gate(GatedProgram),
}

impl NamedSide {
    fn read(text: &str) -> exit::Result<Self> {
        let (path, id) = split_id(text, |path| path.exists());
        let file = file_io::resolve(&path);
        // Read the file only once: it can be a pipe.
        let is_bins = interop::fleet::is_bins_path(&file);
        let text = if is_bins { None } else { Some(file_io::read_text(&file)?) };
        let read = match &text {
            None => interop::read(&file),
            Some(text) => interop::parse(text).map_err(|error| error.context(file.display())),
        };
        match read {
            Ok(report) => Ok(Self::Run(Box::new(RunSide { file, id, report }))),
            Err(error) => {
                let program =
                    text.and_then(|text| GatedProgram::parse(&file, &text, id.as_deref()));
                program.unwrap_or(Err(error)).map(Self::Gate)
            }
        }
    }
}

/// A run, or one of its subjects.
struct RunSide {
    file: PathBuf,
    /// The subject that the user selected.
    id: Option<String>,
    report: Report,
}

/// Two subjects to compare.
#[derive(Clone, Copy)]
struct SubjectPair<'a> {
    a: ChosenSubject<'a>,
    b: ChosenSubject<'a>,
}

impl RunSide {
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
        let ids: Vec<&str> = self.measured().map(|subject| subject.id.as_str()).collect();
        if ids.is_empty() { "no measured subjects".to_owned() } else { ids.join(", ") }
    }

    /// Finds a subject by its id, or by its name if only one subject has it.
    fn find(&self, id: &str) -> exit::Result<&Subject> {
        let subjects = &self.report.subjects;
        let by_name = single(subjects.iter().filter(|subject| subject.name == id));
        let by_id = subjects.iter().find(|subject| subject.id == id);
        let file = self.file.display();
        let subject = by_id
            .or(by_name)
            .ok_or_else(|| usage!("unknown subject {id:?}; {file} has {}", self.ids()))?;
        match (&subject.status, &subject.summary) {
            (Status::Failed { reason }, None) => {
                Err(usage!("{} in {file} was not measured: {reason}", subject.id))
            }
            (_, None) => Err(usage!("{} in {file} has no tick", subject.id)),
            _ => Ok(subject),
        }
    }

    /// Finds the subject to compare with a subject of the other side: the one with the same id, or
    /// the only one.
    fn find_partner(&self, id: &str) -> exit::Result<&Subject> {
        let namesake = self.measured().find(|subject| subject.id == id);
        if let Some(partner) = namesake.or_else(|| single(self.measured())) {
            return Ok(partner);
        }
        let file = self.file.display();
        Err(usage!(
            "{file} has no {id}; name the subject to compare with it, as in {file}#ID: {}",
            self.ids()
        ))
    }
}

/// Returns the only subject, unless there are several.
fn single<'a>(mut subjects: impl Iterator<Item = &'a Subject>) -> Option<&'a Subject> {
    let first = subjects.next()?;
    if subjects.next().is_none() { Some(first) } else { None }
}

/// Splits `path#id`. Both can contain a `#`, so the longest prefix that exists is the path.
fn split_id(text: &str, exists: impl Fn(&Path) -> bool) -> (PathBuf, Option<String>) {
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

/// Selects the subjects to compare: those that the user named, or all that both sides contain.
fn select_pairs<'a>(a: &'a RunSide, b: &'a RunSide) -> exit::Result<Vec<SubjectPair<'a>>> {
    let (subject_a, subject_b) = match (&a.id, &b.id) {
        (None, None) => return pair_by_id(a, b),
        (Some(id_a), Some(id_b)) => (a.find(id_a)?, b.find(id_b)?),
        (Some(id_a), None) => {
            let subject = a.find(id_a)?;
            (subject, b.find_partner(&subject.id)?)
        }
        (None, Some(id_b)) => {
            let subject = b.find(id_b)?;
            (a.find_partner(&subject.id)?, subject)
        }
    };
    if subject_a.id == subject_b.id && compare::is_same_run(&a.report, &b.report) {
        let file = a.file.display();
        return Err(usage!(
            "both sides are {} of one run; name another of {file}: {}",
            subject_a.id,
            a.ids()
        ));
    }
    Ok(vec![SubjectPair { a: a.chosen(subject_a), b: b.chosen(subject_b) }])
}

/// Pairs the subjects of two runs that have equal ids.
fn pair_by_id<'a>(a: &'a RunSide, b: &'a RunSide) -> exit::Result<Vec<SubjectPair<'a>>> {
    let (file_a, file_b) = (a.file.display(), b.file.display());
    if compare::is_same_run(&a.report, &b.report) {
        return Err(usage!(
            "both sides are one run; name two of its subjects, as in {file_a}#ID: {}",
            a.ids()
        ));
    }
    let mut pairs = Vec::new();
    for subject in a.measured() {
        if let Some(namesake) = b.measured().find(|other| other.id == subject.id) {
            pairs.push(SubjectPair { a: a.chosen(subject), b: b.chosen(namesake) });
        }
    }
    if pairs.is_empty() {
        return Err(usage!(
            "no subject is in both; name one of each, as in {file_a}#ID {file_b}#ID: {file_a} has {}; {file_b} has {}",
            a.ids(),
            b.ids()
        ));
    }
    Ok(pairs)
}

/// Returns the differences between the conditions of the sides, without repetitions.
fn distinct_differences(pairs: &[SubjectPair<'_>]) -> Vec<Difference> {
    let mut distinct: Vec<Difference> = Vec::new();
    for difference in pairs.iter().flat_map(|pair| compare::differences(pair.a, pair.b)) {
        if !distinct.contains(&difference) {
            distinct.push(difference);
        }
    }
    distinct
}

#[cfg(test)]
mod tests {
    use super::split_id;
    use std::path::Path;

    #[test]
    fn longest_existing_prefix_is_the_path() {
        let exists = |path: &Path| {
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
            assert_eq!(split_id(text, exists), (expected.0.into(), expected.1), "{text}");
        }
    }
}
