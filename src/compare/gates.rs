//! Sides that are programs of gates: their whole runs are compared.

use std::path::{Path, PathBuf};

use cli::exit::{self, Error, usage};
use engine::machine::host;
use files::compare::{
    ChosenProgram, CompareError, Comparison, Origin, SCHEMA, compare_programs, program_differences,
    program_warnings,
};
use files::environment::Difference;
use files::file::File as _;
use files::gate::verdict::{self, RunsVerdict, Verdict};

/// A program of a gate, as it was named.
pub struct Gated {
    file: PathBuf,
    verdict: Box<Verdict>,
    is_candidate: bool,
}

impl Gated {
    /// `None` where the file is no verdict.
    pub fn parse(file: &Path, text: &str, id: Option<&str>) -> Option<exit::Result<Self>> {
        text.contains(verdict::SCHEMA).then(|| Self::of_verdict(file, text, id))
    }

    fn of_verdict(file: &Path, text: &str, id: Option<&str>) -> exit::Result<Self> {
        let at = file.display();
        let verdict = Verdict::from_json(text).map_err(|e| usage!("{at}: {e}"))?;
        let is_candidate = match id {
            None | Some("candidate") => true,
            Some("baseline") => false,
            Some(other) => {
                return Err(usage!(
                    "{at} has no program {other:?}; write {at}#baseline or {at}#candidate"
                ));
            }
        };
        if verdict.runs.is_none() {
            return Err(usage!(
                "{at} comes from a gate without whole runs; compare the reports of two runs, or gates with --metric"
            ));
        }
        Ok(Self { file: file.to_owned(), verdict: Box::new(verdict), is_candidate })
    }

    pub fn file(&self) -> &Path {
        &self.file
    }

    fn runs(&self) -> &RunsVerdict {
        self.verdict.runs.as_ref().expect("it was read with runs")
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

/// Compares, unless what differs stands in the way of it.
pub fn compare(
    a: &Gated,
    b: &Gated,
    refuse: impl FnOnce(&[Difference]) -> exit::Result<()>,
) -> exit::Result<Comparison> {
    let (x, y) = (a.chosen(), b.chosen());
    let forced = program_differences(x, y);
    refuse(&forced)?;
    let metrics = compare_programs(x, y).map_err(|e| match e {
        CompareError::WithItself(name) => {
            let other = if a.is_candidate { "baseline" } else { "candidate" };
            usage!(
                "both sides are {name} of one gate; the other program of {0} is {0}#{other}",
                a.file.display()
            )
        }
        e => Error::usage(e.to_string()),
    })?;
    Ok(Comparison {
        schema: SCHEMA.to_owned(),
        tool: host::tool(),
        a: a.origin(),
        b: b.origin(),
        forced,
        subjects: Vec::new(),
        metrics,
        warnings: program_warnings(x, y),
    })
}
