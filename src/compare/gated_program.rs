//! Sides that are programs of a gate, whose whole runs are compared.

use std::path::PathBuf;

use cli::exit::{self, usage};
use files::compare::{ChosenProgram, Origin};
use files::file::File as _;
use files::gate::verdict::{RunsVerdict, Verdict};

/// A program of a gate, selected by the verdict's file and an id.
pub struct GatedProgram {
    pub file: PathBuf,
    verdict: Box<Verdict>,
    is_candidate: bool,
}

impl GatedProgram {
    /// Selects a program of a verdict.
    pub fn parse(file: PathBuf, text: &str, id: Option<&str>) -> exit::Result<Self> {
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
        Ok(Self { file, verdict: Box::new(verdict), is_candidate })
    }

    fn runs(&self) -> &RunsVerdict {
        self.verdict.runs.as_ref().expect("parse requires runs")
    }

    pub fn chosen(&self) -> ChosenProgram<'_> {
        ChosenProgram { verdict: &self.verdict, runs: self.runs(), is_candidate: self.is_candidate }
    }

    pub fn origin(&self) -> Origin {
        Origin {
            file: self.file.display().to_string(),
            program: Some(self.chosen().name().to_owned()),
            started_utc: self.verdict.started_utc.clone(),
            partial: self.verdict.partial,
            fitness: self.verdict.fitness.clone(),
            tool: self.verdict.tool.clone(),
        }
    }

    /// Returns the id of the other program of the verdict.
    pub fn other_id(&self) -> &'static str {
        if self.is_candidate { "baseline" } else { "candidate" }
    }
}
