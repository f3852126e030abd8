//! What every question of a gate has in common, and the gate that asks them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime};

use cli::exit;
use engine::machine::host;
use files::gate::verdict::{SCHEMA, Verdict};
use files::report::{Fitness, Warning};
use jitterstat::gate::decision::{Outcome, Reason};

use crate::file_io::Directory;
use crate::gate::pairs::now;
use crate::terminal;

/// Something that a gate is asked to judge, planned.
pub trait Question {
    /// How long it takes, and what a reader should know before it starts.
    fn announce(&self) -> Vec<String>;

    /// Readies this process, and refuses what cannot be measured here, before anything is written.
    fn prepare(&self, _stop: &Arc<AtomicBool>) -> exit::Result<()> {
        Ok(())
    }

    /// Measures and judges, and adds to the verdict.
    fn ask(self: Box<Self>, gate: &mut Gate) -> exit::Result<()>;
}

/// A gate under way.
pub struct Gate {
    pub stop: Arc<AtomicBool>,
    pub quiet: bool,
    pub out: Directory,
    pub verdict: Verdict,
    started: Instant,
}

impl Gate {
    /// One whose files go to a directory that is proved writable.
    pub fn open(
        out: Option<&std::path::Path>,
        stop: Arc<AtomicBool>,
        quiet: bool,
    ) -> exit::Result<Self> {
        let started_utc = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let out = Directory::open(out, &started_utc)?;
        let verdict = Verdict {
            schema: SCHEMA.to_owned(),
            tool: host::tool(),
            started_utc,
            duration_ns: 0,
            partial: false,
            verdict: Outcome::Inconclusive,
            reason: None,
            comparisons: Vec::new(),
            runs: None,
            baseline: None,
            limits: Vec::new(),
            failure: None,
            fitness: None,
            host: host::capture(),
            warnings: Vec::new(),
        };
        Ok(Self { stop, quiet, out, verdict, started: now() })
    }

    /// Why what is left is not begun, once the gate was interrupted or cannot go on.
    pub fn over(&self) -> Option<Reason> {
        let interrupted = self.stop.load(Ordering::Relaxed).then_some(Reason::Interrupted);
        self.verdict.failure.as_ref().map(|_| Reason::NotMeasured).or(interrupted)
    }

    /// Notes that something could not be measured to its end: the verdict is partial.
    pub fn cut_short(&mut self, failure: Option<String>) {
        self.verdict.partial = true;
        self.verdict.failure = self.verdict.failure.take().or(failure);
    }

    pub fn cpus(&self) -> f64 {
        self.verdict.host.cpus_online.unwrap_or(1).max(1) as f64
    }

    pub fn warn(&mut self, code: &str, message: &str, hint: &str) {
        let warning =
            Warning { code: code.to_owned(), message: message.to_owned(), hint: hint.to_owned() };
        self.verdict.warnings.push(warning);
    }

    /// Warns now, while there is time to end it, and in the verdict.
    pub fn warn_early(&mut self, warnings: Vec<Warning>) {
        for warning in &warnings {
            terminal::note(false, &format!("warning: {} {}", warning.message, warning.hint));
        }
        self.verdict.warnings.extend(warnings);
    }

    /// Takes what the machine was like for one answer: the worst is that of the gate.
    pub fn met(&mut self, fitness: Option<Fitness>) {
        let of = |fitness: &Option<Fitness>| fitness.as_ref().map(|f| f.verdict);
        if of(&fitness) > of(&self.verdict.fitness) {
            self.verdict.fitness = fitness;
        }
    }

    /// What all answers come to.
    pub fn conclude(mut self) -> (Verdict, Directory) {
        let answers: Vec<(Outcome, Option<Reason>)> = self.verdict.answers().collect();
        let mut outcome = Outcome::worst_of(answers.iter().map(|(outcome, _)| *outcome));
        if self.verdict.partial && matches!(outcome, Outcome::Pass | Outcome::Improved) {
            outcome = Outcome::Inconclusive;
        }
        if outcome == Outcome::Inconclusive {
            let why_partial =
                self.verdict.partial.then(|| self.over().unwrap_or(Reason::Interrupted));
            let open = answers
                .iter()
                .find_map(|(o, reason)| reason.filter(|_| *o == Outcome::Inconclusive));
            self.verdict.reason = why_partial.or(open);
        }
        self.verdict.verdict = outcome;
        self.verdict.duration_ns =
            u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        (self.verdict, self.out)
    }
}
