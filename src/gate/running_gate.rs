//! The state of a running gate: the verdict so far, and what ends it early.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime};

use cli::exit;
use cli::file_io::{Destination, OutputDirectory, RESULT_FILES};
use cli::terminal;
use cli::time::format_share;
use cli::units::to_ns;
use engine::machine::host;
use files::gate::verdict::{LeftOverProcesses, SCHEMA, Verdict};
use files::report::{Fitness, Warning};
use jitterstat::gate::arrivals::{self, Arrivals};
use jitterstat::gate::decision::{Outcome, Reason};
use jitterstat::gate::{Side, Sides};

use crate::early_ticks;
use crate::gate::args::GateArgs;
use crate::gate::pairs::now;

/// A running gate.
pub struct RunningGate {
    pub stop: Arc<AtomicBool>,
    pub quiet: bool,
    pub out: OutputDirectory,
    pub verdict: Verdict,
    started: Instant,
}

impl RunningGate {
    /// Starts a gate and creates its output directory.
    ///
    /// # Errors
    /// Returns an error if the directory is not writable or contains a result.
    pub fn open(args: &GateArgs, stop: Arc<AtomicBool>) -> exit::Result<Self> {
        let started_utc = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let quiet = args.judged.rounds.quiet;
        let destination = Destination::from_flags(args.out.as_deref(), args.force);
        let out = OutputDirectory::open(destination, &started_utc, RESULT_FILES)?;
        let verdict = Verdict {
            schema: SCHEMA.to_owned(),
            tool: host::tool(),
            started_utc,
            duration_ns: 0,
            partial: false,
            screen: args.screen,
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
            left_over: None,
        };
        Ok(Self { stop, quiet, out, verdict, started: now() })
    }

    /// Returns why the remaining questions must not start, if the gate was interrupted or has
    /// failed.
    pub fn stop_reason(&self) -> Option<Reason> {
        let interrupted = self.stop.load(Ordering::Relaxed).then_some(Reason::Interrupted);
        self.verdict.failure.as_ref().map(|_| Reason::NotMeasured).or(interrupted)
    }

    /// Marks the verdict as partial and records the first failure.
    pub fn mark_partial(&mut self, failure: Option<String>) {
        self.verdict.partial = true;
        self.verdict.failure = self.verdict.failure.take().or(failure);
    }

    /// Returns the number of online CPUs of this machine, at least 1.
    pub fn cpus(&self) -> u64 {
        self.verdict.host.cpus_online.unwrap_or(1).max(1)
    }

    pub fn warn(&mut self, code: &str, message: &str, hint: &str) {
        self.verdict.warnings.push(Warning::new(code, message, hint));
    }

    /// Reports processes that the programs left running: work that a program moves to them is
    /// missing from its metrics.
    pub fn report_left_over(&mut self, found: LeftOverProcesses) {
        if found == LeftOverProcesses::default() {
            return;
        }
        let counted = [(found.a, "A"), (found.b, "B"), (found.prepare, "--prepare")];
        let present = counted.iter().filter(|(count, _)| *count > 0);
        let counts: Vec<String> =
            present.map(|(count, owner)| format!("{count} of {owner}")).collect();
        let message = format!(
            "Processes still ran when their program had exited, and were killed: {}. Their work is missing from the metrics.",
            counts.join(", ")
        );
        self.warn("left-over-processes", &message, "Let the program wait for its processes.");
        self.verdict.left_over = Some(found);
    }

    /// Warns of each side that ticks before its deadlines.
    pub fn warn_of_early_sides(&mut self, names: &Sides<String>, arrivals: &Arrivals) {
        for side in [Side::Base, Side::Candidate] {
            let (early, planned) = (arrivals.early()[side], arrivals.planned());
            self.warn_of_early_ticks(&names[side], early, planned);
        }
    }

    /// Warns of each side whose lost ticks or stalls leave the verdict open.
    pub fn warn_of_hidden_ticks(&mut self, names: &Sides<String>, arrivals: &Arrivals) {
        for side in [Side::Base, Side::Candidate] {
            let name = &names[side];
            let shares = |ticks: Sides<u64>| {
                let share = |count| format_share(count, arrivals.planned());
                (share(ticks[side]), share(ticks.swapped()[side]))
            };
            match arrivals.faults()[side] {
                Some(Reason::LostTicks) => {
                    let (share, other) = shares(arrivals.lost());
                    let message = format!(
                        "{name} never delivered {share} of its ticks, and the other side {other}: percentiles do not show how late they were."
                    );
                    let hint = "Compare tickers that treat missed ticks alike, or limit missed.";
                    self.warn("lost-ticks", &message, hint);
                }
                Some(Reason::UnequalStalls) => {
                    let (share, other) = shares(arrivals.uncounted());
                    let message = format!(
                        "{share} of the ticks of {name} came late in a stall that was already counted, and {other} of those of the other side: percentiles count a stall once, however long it is."
                    );
                    let hint = "Find the cause with `osjitter run --why`, or limit missed.";
                    self.warn("unequal-stalls", &message, hint);
                }
                _ => {}
            }
        }
    }

    /// Warns of a subject that ticks before its deadlines, because its percentiles are then lower
    /// than those of a subject that is on time.
    pub fn warn_of_early_ticks(&mut self, subject: &str, early: u64, ticks: u64) {
        if arrivals::are_many_early(early, ticks) {
            let share = format_share(early, ticks);
            let message = format!(
                "{subject} was early for {share} of its ticks, which lowers its percentiles."
            );
            self.verdict.warnings.push(early_ticks::warning(message));
        }
    }

    /// Prints new warnings before measuring, so that the user can still interrupt, and adds them to
    /// the verdict.
    pub fn warn_early(&mut self, warnings: Vec<Warning>) {
        for warning in warnings {
            if !self.verdict.warnings.contains(&warning) {
                terminal::warning(&format!("{} {}", warning.message, warning.hint));
                self.verdict.warnings.push(warning);
            }
        }
    }

    /// Records the fitness of the machine during one question. The verdict keeps the worst one.
    pub fn record_fitness(&mut self, fitness: Option<Fitness>) {
        let level = |fitness: &Option<Fitness>| fitness.as_ref().map(|fitness| fitness.verdict);
        if level(&fitness) > level(&self.verdict.fitness) {
            self.verdict.fitness = fitness;
        }
    }

    /// Completes the verdict over all answers.
    pub fn conclude(mut self) -> (Verdict, OutputDirectory) {
        let answers: Vec<(Outcome, Option<Reason>)> = self.verdict.answers().collect();
        let mut outcome = Outcome::worst_of(answers.iter().map(|(outcome, _)| *outcome));
        if self.verdict.partial && matches!(outcome, Outcome::Pass | Outcome::Improved) {
            outcome = Outcome::Inconclusive;
        }
        if outcome == Outcome::Inconclusive {
            let stop_reason = self.stop_reason().unwrap_or(Reason::Interrupted);
            let partial_reason = self.verdict.partial.then_some(stop_reason);
            let inconclusive_reason = answers
                .iter()
                .find_map(|(o, reason)| reason.filter(|_| *o == Outcome::Inconclusive));
            self.verdict.reason = partial_reason.or(inconclusive_reason);
        }
        self.verdict.verdict = outcome;
        self.verdict.duration_ns = to_ns(self.started.elapsed());
        (self.verdict, self.out)
    }
}
