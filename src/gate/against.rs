//! A new session, judged by those of a file, which it never changes.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use jitterstat::environment::{Difference, EnvironmentKey};
use jitterstat::gate::against;
use jitterstat::gate::baseline::{Baseline, CONTROL, RoundRecord, SESSION_PAIRS, Session, SessionPair};
use jitterstat::gate::look::{Outcome, Reason};
use jitterstat::gate::round::{Pair, tail_name};
use jitterstat::gate::verdict::{AgainstBaseline, BaselineMetric, records};
use jitterstat::histogram;

use crate::gate::args::GateArgs;
use crate::gate::baseline::{MeasuredSession, SessionPlan, listed, read, same_scenario};
use crate::gate::session::{self, sides};
use crate::machine::host;

/// A session to be judged by a file.
pub struct Against {
    file: PathBuf,
    stored: Baseline,
    session: SessionPlan,
    /// In what this machine differs from that of the file, where that was forced.
    pub forced: Vec<Difference>,
}

/// Reads the arguments and the file; `None` if no baseline was asked for.
pub fn plan(args: &GateArgs) -> Result<Option<Against>, String> {
    let Some(file) = &args.baseline else { return Ok(None) };
    let stored = read(file)?.ok_or_else(|| {
        format!("there is no {}; `osjitter gate baseline add {}` makes it", file.display(), file.display())
    })?;
    let pairs = args.max_rounds.unwrap_or(SESSION_PAIRS);
    let session = SessionPlan::of(&args.judged, args.subject.as_deref(), Some(&stored.scenario), pairs)?;
    same_scenario(file, &stored, &session)?;
    let forced = stored.environment.differences(&EnvironmentKey::of(&host::capture()));
    if !forced.is_empty() && !args.force {
        return Err(format!(
            "{} is of another machine: {}; nothing was measured; --force measures all the same, and says so",
            file.display(),
            listed(&forced)
        ));
    }
    if let Some(most) = args.max_time {
        let takes = session.time();
        if takes > most {
            return Err(format!(
                "a session of {pairs} pairs takes about {:.0}s; allow more with --max-time, or fewer with --max-rounds",
                takes.as_secs_f64()
            ));
        }
    }
    Ok(Some(Against { file: file.clone(), stored, session, forced }))
}

impl Against {
    /// How long the session takes.
    pub fn time(&self) -> Duration {
        self.session.time()
    }

    /// The CPU that both are bound to.
    pub fn cpu(&self) -> Option<usize> {
        self.session.run.tuning.cpu
    }

    /// Measures a session and judges it, and why it could not go on if it could not.
    pub fn judge(
        &self,
        started_utc: String,
        stop: &Arc<AtomicBool>,
        quiet: bool,
        cpus: f64,
    ) -> (AgainstBaseline, Option<String>) {
        let MeasuredSession { session, lateness_ns, reason, failure } = self.session.measure(started_utc, stop, quiet);
        let metrics = match reason {
            Some(_) => Vec::new(),
            None => against::judge(&session, &self.stored.sessions, &self.session.scenario, &self.session.rules),
        };
        (self.verdict(&session, lateness_ns, metrics, reason, cpus), failure)
    }

    /// What there is to say when nothing was measured.
    pub fn open(&self, why: Reason, cpus: f64) -> AgainstBaseline {
        let session = Session {
            tool: host::tool(),
            started_utc: String::new(),
            duration_ns: 0,
            seed: self.session.run.seed,
            cpu: None,
            resolution_ns: 1,
            subject_histogram: histogram::pack([]),
            control_histogram: histogram::pack([]),
            pairs: Vec::new(),
        };
        self.verdict(&session, [Vec::new(), Vec::new()], Vec::new(), Some(why), cpus)
    }

    fn verdict(
        &self,
        session: &Session,
        lateness_ns: [Vec<i64>; 2],
        metrics: Vec<BaselineMetric>,
        reason: Option<Reason>,
        cpus: f64,
    ) -> AgainstBaseline {
        let planned = &self.session;
        let tail = planned.scenario.tail_quantile();
        let value = |record: &RoundRecord| record.value(tail, session.resolution_ns);
        let pairs: Vec<Pair> =
            session.pairs.iter().map(|p| Pair { a: value(&p.control), b: value(&p.subject) }).collect();
        let steal = |of: fn(&SessionPair) -> Option<u64>| session.pairs.iter().map(of).sum::<Option<u64>>();
        let steal_ns = [steal(|p| p.control.steal_ns), steal(|p| p.subject.steal_ns)];
        let met_by_both = session::Met { lateness_ns, steal_ns };
        let outcome =
            if reason.is_some() { Outcome::Inconclusive } else { Outcome::of_all(metrics.iter().map(|m| m.verdict)) };
        let open = metrics.iter().find_map(|m| m.reason).filter(|_| outcome == Outcome::Inconclusive);
        AgainstBaseline {
            file: self.file.display().to_string(),
            subject: planned.subject().id.clone(),
            control: CONTROL.to_owned(),
            sessions: self.stored.sessions.len() as u64,
            duration_ns: session.duration_ns,
            verdict: outcome,
            reason: reason.or(open),
            plan: planned.gate_plan.clone(),
            pairs: pairs.len() as u64,
            metrics,
            sides: sides(&pairs, &met_by_both, &planned.gate_plan, cpus),
            rounds: records(&pairs),
        }
    }
}

/// The tail percentile that a session is judged by.
pub fn tail(against: &Against) -> &'static str {
    tail_name(against.session.scenario.tail_quantile())
}
