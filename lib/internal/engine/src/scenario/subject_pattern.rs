//! Selection of subjects and other names by name or glob.

use std::convert::Infallible;
use std::ffi::OsStr;
use std::str::FromStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command};

use crate::scenario::scenario_error::ScenarioError;
use crate::subject::{self, SubjectInfo, script};
use cli::completion::with_examples;
use files::subjects::SCRIPTED;

/// The subjects that match a name or a glob (`*`, `?`), in the order of the table. `all` matches
/// every subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subjects(pub Vec<&'static SubjectInfo>);

impl FromStr for Subjects {
    type Err = ScenarioError;

    fn from_str(pattern: &str) -> Result<Self, ScenarioError> {
        if let Some(hidden) = script::find(pattern).map_err(ScenarioError::Script)? {
            return Ok(Self(vec![hidden]));
        }
        let is_match = |e: &&SubjectInfo| pattern == "all" || matches_glob(pattern, e.name);
        let mut matches: Vec<_> = subject::ALL.iter().filter(is_match).collect();
        if matches.len() > 1 {
            // A pattern that matches several subjects selects only those available here.
            matches.retain(|e| subject::check_available(e).is_ok());
        }
        if matches.is_empty() {
            return Err(ScenarioError::UnknownSubject(pattern.to_owned()));
        }
        Ok(Self(matches))
    }
}

/// Parser of an argument with [`Subjects`], whose names a shell can complete.
#[derive(Clone, Debug)]
pub struct SubjectsParser;

impl TypedValueParser for SubjectsParser {
    type Value = Subjects;

    fn parse_ref(
        &self,
        cmd: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Subjects, clap::Error> {
        let parser = StringValueParser::new().try_map(|text| text.parse::<Subjects>());
        parser.parse_ref(cmd, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(subject_names().into_iter().chain([PossibleValue::new("all")])))
    }
}

/// Returns a parser of exactly one subject.
pub fn subject_parser() -> impl TypedValueParser<Value = &'static SubjectInfo> {
    with_examples(parse_subject, subject_names)
}

/// Returns a parser of a name that is usually that of a subject.
pub fn subject_name_parser() -> impl TypedValueParser<Value = String> {
    with_examples(|text: &str| Ok::<_, Infallible>(text.to_owned()), subject_names)
}

fn subject_names() -> Vec<PossibleValue> {
    subject::ALL.iter().map(|e| PossibleValue::new(e.name).help(e.about)).collect()
}

impl Subjects {
    /// Returns the subjects of several patterns, each once, in the order of the table.
    pub fn union(patterns: impl IntoIterator<Item = Self>) -> Vec<&'static SubjectInfo> {
        let mut subjects: Vec<&'static SubjectInfo> =
            patterns.into_iter().flat_map(|subjects| subjects.0).collect();
        subjects
            .sort_by_key(|subject| subject::ALL.iter().chain(SCRIPTED).position(|e| e == *subject));
        subjects.dedup();
        subjects
    }
}

/// Parses a name or a glob that matches exactly one subject.
pub fn parse_subject(pattern: &str) -> Result<&'static SubjectInfo, ScenarioError> {
    match pattern.parse::<Subjects>()?.0[..] {
        [subject] => Ok(subject),
        _ => Err(ScenarioError::SeveralSubjects { pattern: pattern.to_owned() }),
    }
}

/// Returns whether a name matches a pattern of literal characters, `*` and `?`.
pub fn matches_glob(pattern: &str, name: &str) -> bool {
    let [pattern, name] = [pattern, name].map(|text| text.chars().collect::<Vec<_>>());
    let (mut p, mut n) = (0, 0);
    // Position of the latest star, and the end of its match so far. If the match fails, extending
    // that of the latest star is sufficient.
    let mut star = None;
    while n < name.len() {
        match (pattern.get(p), star) {
            (Some('*'), _) => {
                star = Some((p, n));
                p += 1;
            }
            (Some(&c), _) if c == '?' || c == name[n] => (p, n) = (p + 1, n + 1),
            (_, Some((at, end))) => {
                star = Some((at, end + 1));
                (p, n) = (at + 1, end + 1);
            }
            (_, None) => return false,
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

/// Returns the names that match any of the patterns, in the order of `names`. Without a pattern,
/// all names match.
///
/// # Errors
///
/// Returns an error if a pattern matches no name. `what` is the kind of the names.
pub fn select_by_pattern<'a>(
    what: &str,
    patterns: &[String],
    names: &[&'a str],
) -> Result<Vec<&'a str>, ScenarioError> {
    let is_unknown = |p: &&String| !names.iter().any(|name| matches_glob(p, name));
    if let Some(unknown) = patterns.iter().find(is_unknown) {
        return Err(ScenarioError::UnknownName {
            what: what.to_owned(),
            pattern: unknown.clone(),
            known: names.iter().map(|name| (*name).to_owned()).collect(),
        });
    }
    let is_match =
        |name: &&str| patterns.is_empty() || patterns.iter().any(|p| matches_glob(p, name));
    Ok(names.iter().copied().filter(is_match).collect())
}
