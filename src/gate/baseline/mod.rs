//! The comparison with stored sessions: is the subject, relative to its control, later than in the
//! sessions of a baseline file?
//!
//! A gate never changes the file; `gate baseline add` does ([`add`]).

pub mod add;
mod session;

use std::path::PathBuf;

use cli::exit::{self, Error, usage};
use engine::machine::{host, tuning};
use engine::scenario::parse_subject;
use files::environment::{Difference, EnvironmentKey};
use files::fitness::Fitness;
use files::gate::baseline::{Baseline, SESSION_PAIRS};
use files::gate::baseline_test;
use files::gate::verdict::{BaselineVerdict, records};
use files::subjects::SLEEPING_CONTROL;
use jitterstat::gate::decision::Outcome;

use crate::gate::args::GateArgs;
use crate::gate::pairs::CollectedPairs;
use crate::gate::running_gate::RunningGate;

use session::{SessionPlan, StoredBaseline, format_differences, read_baseline};

/// A planned session, to be compared with the sessions of a file.
pub struct BaselineTest {
    file: PathBuf,
    stored: Baseline,
    session: SessionPlan,
    /// Differences between this machine and that of the file, accepted with --force.
    forced: Vec<Difference>,
}

/// Plans the comparison with the stored sessions of a file, if the arguments have one.
pub fn plan(args: &GateArgs) -> exit::Result<Option<BaselineTest>> {
    let Some(file) = &args.baseline else { return Ok(None) };
    let name = file.display();
    let stored = read_baseline(file)?.ok_or_else(|| {
        usage!("{name} does not exist; create it with `osjitter gate baseline add {name}`")
    })?;
    let subject = args.subject.as_deref().map(parse_subject).transpose();
    let subject = subject.map_err(|e| Error::from(e).context("--subject"))?;
    let pairs = args.max_pairs.unwrap_or(SESSION_PAIRS);
    let stored_baseline = StoredBaseline { file, baseline: &stored };
    let session = SessionPlan::resolve(&args.judged, subject, Some(stored_baseline), pairs)?;
    let forced = stored.environment.differences(&EnvironmentKey::from_host(&host::capture()));
    if !forced.is_empty() && !args.force {
        return Err(usage!(
            "{name} was recorded on another machine: {}; nothing was measured; --force measures anyway and records a \
             warning",
            format_differences(&forced)
        ));
    }
    let seconds = session.seconds();
    if args.max_time.is_some_and(|max_time| seconds > max_time.as_secs_f64()) {
        return Err(usage!(
            "a session of {pairs} pairs takes about {seconds:.0}s; allow more with --max-time, or fewer with --max-pairs"
        ));
    }
    Ok(Some(BaselineTest { file: file.clone(), stored, session, forced }))
}

impl BaselineTest {
    /// Returns notes for the user before measuring starts.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = vec![format!("{:.0}s for a session", self.session.seconds())];
        notes.extend(self.session.test.short_round_note());
        notes
    }

    /// Measures a session, judges it, and adds the verdict to that of the gate.
    pub fn judge(self, gate: &mut RunningGate) -> exit::Result<()> {
        if !self.forced.is_empty() {
            let differences = format_differences(&self.forced);
            let message = format!("The baseline was recorded on another machine: {differences}.");
            let hint = "Its interval may be tight around the wrong number.";
            gate.warn("environment-differs", &message, hint);
        }
        let SessionPlan { design, test } = &self.session;
        let (pairs, stop_reason) = match gate.stop_reason() {
            Some(reason) => (CollectedPairs::default(), Some(reason)),
            None => {
                test.design.cpu.map_or(Ok(()), tuning::bind)?;
                self.session.measure(&gate.stop, gate.quiet)
            }
        };
        gate.record_fitness(Fitness::from_tally(&pairs.tally, gate.verdict.host.cpus_online));
        gate.report_left_over(pairs.left_over());
        gate.warn_of_early_sides(&test.names, &pairs.arrivals);
        gate.verdict.warnings.extend(pairs.left_out.warnings("rounds"));
        if stop_reason.is_some() {
            gate.mark_partial(pairs.failure.as_ref().map(|failure| failure.to_string()));
        }

        let (metrics, outcome, reason) = match stop_reason {
            Some(reason) => (Vec::new(), Outcome::Inconclusive, Some(reason)),
            None => {
                let session = self.session.session(&pairs, gate.verdict.started_utc.clone());
                let stored = &self.stored.sessions;
                let mut metrics = baseline_test::judge(&session, stored, design, &test.rules);
                session::leave_early_open(&mut metrics, &pairs.arrivals);
                let outcome = Outcome::worst_of(metrics.iter().map(|metric| metric.judged.verdict));
                let reason = metrics.iter().find_map(|metric| metric.judged.reason);
                (metrics, outcome, reason.filter(|_| outcome == Outcome::Inconclusive))
            }
        };
        gate.verdict.baseline = Some(BaselineVerdict {
            file: self.file.display().to_string(),
            subject: test.names.candidate.clone(),
            control: SLEEPING_CONTROL.name.to_owned(),
            sessions: self.stored.sessions.len() as u64,
            duration_ns: pairs.duration_ns(),
            verdict: outcome,
            reason,
            plan: test.design.clone(),
            pairs: pairs.values.len() as u64,
            metrics,
            sides: pairs.side_conditions(gate.cpus()),
            rounds: records(&pairs.values),
        });
        Ok(())
    }
}
