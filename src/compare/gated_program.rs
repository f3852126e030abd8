//! Sides that are programs of a gate, whose whole runs are compared.

use std::path::{Path, PathBuf};

use cli::exit::{self, Error, usage};
use engine::machine::host;
use files::compare::{
    ChosenProgram, CompareError, Comparison, Origin, SCHEMA, compare_programs, program_differences,
    program_warnings,
};
use files::file::File as _;
use files::gate::verdict::{self, RunsVerdict, Verdict};

use crate::compare::conditions::check_differences;

/// A program of a gate, selected by the verdict's file and an id.
pub struct GatedProgram {
    file: PathBuf,
    verdict: Box<Verdict>,
    is_candidate: bool,
}

impl GatedProgram {
    /// Selects a program of a verdict. Returns `None` if the file is not a verdict.
    pub fn parse(file: &Path, text: &str, id: Option<&str>) -> Option<exit::Result<Self>> {
        if text.contains(verdict::SCHEMA) { Some(Self::from_verdict(file, text, id)) } else { None }
    }

    fn from_verdict(file: &Path, text: &str, id: Option<&str>) -> exit::Result<Self> {
        let path = file.display();
        let verdict = Verdict::from_json(text).map_err(|e| usage!("{path}: {e}"))?;
        let is_candidate = match id {
            None | Some("candidate") => true,
            Some("baseline") => false,
            Some(other) => {
                return Err(usage!(
                    "unknown program {other:?} of {path}; write {path}#baseline or {path}#candidate"
                ));
            }
        };
        if verdict.runs.is_none() {
            return Err(usage!(
                "{path} comes from a gate without whole runs; compare the reports of two runs, or gates with --metric"
            ));
        }
        Ok(Self { file: file.to_owned(), verdict: Box::new(verdict), is_candidate })
    }

    pub fn file(&self) -> &Path {
        &self.file
    }

    fn runs(&self) -> &RunsVerdict {
        self.verdict.runs.as_ref().expect("from_verdict requires runs")
    }

    fn chosen(&self) -> ChosenProgram<'_> {
        ChosenProgram { verdict: &self.verdict, runs: self.runs(), is_candidate: self.is_candidate }
    }

    fn origin(&self) -> Origin {
        Origin {
            file: self.file.display().to_string(),
            program: Some(self.chosen().name().to_owned()),
            started_utc: self.verdict.started_utc.clone(),
            partial: self.verdict.partial,
            fitness: self.verdict.fitness.clone(),
            tool: self.verdict.tool.clone(),
        }
    }
}

/// Compares two programs.
///
/// # Errors
/// Returns an error if their conditions differ, unless `force` is set, or if both sides are the same
/// program.
pub fn compare(a: &GatedProgram, b: &GatedProgram, force: bool) -> exit::Result<Comparison> {
    let (program_a, program_b) = (a.chosen(), b.chosen());
    let differences = program_differences(program_a, program_b);
    check_differences(&differences, force)?;
    let metrics =
        compare_programs(program_a, program_b).map_err(|error| explain_error(&error, a))?;
    Ok(Comparison {
        schema: SCHEMA.to_owned(),
        tool: host::tool(),
        a: a.origin(),
        b: b.origin(),
        forced: differences,
        subjects: Vec::new(),
        metrics,
        warnings: program_warnings(program_a, program_b),
    })
}

/// Describes why programs cannot be compared. If both sides are the same program, the message names
/// the other one.
fn explain_error(error: &CompareError, side: &GatedProgram) -> Error {
    let CompareError::WithItself(name) = error else { return Error::usage(error.to_string()) };
    let other = if side.is_candidate { "baseline" } else { "candidate" };
    let file = side.file.display();
    usage!("both sides are {name} of one gate; the other program of {file} is {file}#{other}")
}
