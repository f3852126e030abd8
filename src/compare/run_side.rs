//! Sides that are runs, whose subjects are compared.

use std::path::PathBuf;

use cli::exit::{self, usage};
use files::compare::{self, ChosenSubject, Origin};
use files::report::{Report, Status, Subject};
use render::report::label::unmeasured_reason;

/// A run, or one of its subjects.
pub struct RunSide {
    pub file: PathBuf,
    /// The subject that the user selected.
    pub id: Option<String>,
    pub report: Report,
}

/// Two subjects to compare.
#[derive(Clone, Copy)]
pub struct SubjectPair<'a> {
    pub a: ChosenSubject<'a>,
    pub b: ChosenSubject<'a>,
}

impl RunSide {
    pub fn origin(&self) -> Origin {
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
        match self.report.subjects.first() {
            _ if !ids.is_empty() => ids.join(", "),
            Some(first) => {
                format!("no measured subjects ({}: {})", first.id, unmeasured_reason(first))
            }
            None => "no measured subjects".to_owned(),
        }
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

    /// Finds the subject with the same id, or the only one that is alike.
    fn find_namesake(&self, subject: &Subject) -> Option<&Subject> {
        let same = self.measured().find(|other| other.id == subject.id);
        same.or_else(|| single(self.measured().filter(|other| is_alike(other, subject))))
    }

    /// Whether the run has a subject with the same id or one that is alike, measured or not.
    pub fn contains(&self, subject: &Subject) -> bool {
        let mut subjects = self.report.subjects.iter();
        subjects.any(|other| other.id == subject.id || is_alike(other, subject))
    }

    /// Finds the subject to compare with a subject of the other side: its namesake, or the only
    /// one.
    fn find_partner(&self, subject: &Subject) -> exit::Result<&Subject> {
        if let Some(partner) = self.find_namesake(subject).or_else(|| single(self.measured())) {
            return Ok(partner);
        }
        let (file, id) = (self.file.display(), &subject.id);
        Err(usage!(
            "{file} has no {id}; name the subject to compare with it, as in {file}#ID: {}",
            self.ids()
        ))
    }
}

/// Whether two subjects have the same name and thread, and one of both has no known period: tools
/// state it in one of their formats and not in another.
fn is_alike(a: &Subject, b: &Subject) -> bool {
    (a.period_ns == 0 || b.period_ns == 0)
        && a.name == b.name
        && id_without_period(&a.id) == id_without_period(&b.id)
}

/// Returns an id such as `name@1ms/thread-0` without its period.
fn id_without_period(id: &str) -> String {
    let Some((name, rest)) = id.split_once('@') else { return id.to_owned() };
    rest.find('/').map_or_else(|| name.to_owned(), |end| format!("{name}{}", &rest[end..]))
}

/// Returns the only subject, unless there are several.
fn single<'a>(mut subjects: impl Iterator<Item = &'a Subject>) -> Option<&'a Subject> {
    let first = subjects.next()?;
    if subjects.next().is_none() { Some(first) } else { None }
}

/// Selects the subjects to compare: those that the user named, or all that both sides contain.
pub fn select_pairs<'a>(a: &'a RunSide, b: &'a RunSide) -> exit::Result<Vec<SubjectPair<'a>>> {
    let (subject_a, subject_b) = match (&a.id, &b.id) {
        (None, None) => return pair_by_id(a, b),
        (Some(id_a), Some(id_b)) => (a.find(id_a)?, b.find(id_b)?),
        (Some(id_a), None) => {
            let subject = a.find(id_a)?;
            (subject, b.find_partner(subject)?)
        }
        (None, Some(id_b)) => {
            let subject = b.find(id_b)?;
            (a.find_partner(subject)?, subject)
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

/// Pairs the subjects of two runs that are namesakes.
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
        if let Some(namesake) = b.find_namesake(subject) {
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
