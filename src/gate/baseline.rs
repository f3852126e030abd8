//! What a baseline and a new session share: the file, and a session of the subject beside its control.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use jitterstat::environment::Difference;
use jitterstat::file::File as _;
use jitterstat::gate::baseline::{self, Baseline, Met, RoundRecord, Session, SessionPair};
use jitterstat::gate::look::{Reason, Rules};
use jitterstat::gate::verdict::{GatePlan, Mode};
use jitterstat::histogram;

use crate::gate::args::JudgedArgs;
use crate::gate::plan::{gate_plan, one_cpu, pair_time, periods, rules, scenario};
use crate::machine::{host, tuning};
use crate::measure::order::{self, Observer};
use crate::measure::round::{Cost, MeasuredRound};
use crate::scenario::{Plan, Scenario};
use crate::{interop, scenario, subject, terminal};

/// The share of false alarms by design: half a per cent for each of the two percentiles.
const ALPHA: f64 = 0.01;

/// A session, planned.
pub struct SessionPlan {
    pub scenario: baseline::Scenario,
    pub run: Plan,
    pub rules: Rules,
    pub gate_plan: GatePlan,
    pairs: u64,
}

/// Reads a baseline; `None` if there is no such file.
pub fn read(file: &Path) -> Result<Option<Baseline>, String> {
    if file.try_exists().is_ok_and(|there| !there) {
        return Ok(None);
    }
    let text = interop::read_text(file).map_err(|e| format!("the baseline: {e}"))?;
    Baseline::from_json(&text).map(Some).map_err(|e| format!("the baseline {}: {e}", file.display()))
}

pub fn same_scenario(file: &Path, stored: &Baseline, session: &SessionPlan) -> Result<(), String> {
    let differences = stored.scenario.differences(&session.scenario);
    if differences.is_empty() {
        return Ok(());
    }
    Err(format!("{} holds something else: {}; nothing was measured", file.display(), listed(&differences)))
}

pub fn listed(differences: &[Difference]) -> String {
    differences.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl SessionPlan {
    /// What the arguments say, and where they are silent, what the file does.
    pub fn of(
        judged: &JudgedArgs,
        subject: Option<&str>,
        stored: Option<&baseline::Scenario>,
        pairs: u64,
    ) -> Result<Self, String> {
        let mut judged = judged.clone();
        if let Some(stored) = stored {
            if judged.period.is_empty() {
                judged.period.push(Duration::from_nanos(stored.period_ns));
            }
            judged.round_ticks = judged.round_ticks.or(Some(stored.round_ticks));
            judged.warmup = judged.warmup.or(Some(stored.warmup_ticks));
            if judged.runtime.is_none() {
                judged.runtime = stored.runtime.as_deref().map(str::parse).transpose()?;
            }
        }
        let [period] = periods(&judged)[..] else {
            return Err("a baseline is of one period; give --period once".to_owned());
        };
        let subject = subject.or(stored.map(|s| s.subject.as_str()));
        let subject = subject.ok_or("a baseline needs a subject; give --subject")?;
        let tested = scenario(&judged, scenario::one_subject(subject)?, period, pairs)?;
        let mut control = scenario(&judged, subject::control_of(tested.subject), period, pairs)?;
        control.id = format!("control:{}", control.id);
        let cpu = one_cpu(&judged);
        let rules = Rules {
            alpha: ALPHA,
            looks: vec![usize::try_from(pairs).unwrap_or(usize::MAX)],
            ..rules(&judged, &tested)?
        };
        let seed = judged.seed.unwrap_or_else(scenario::draw_seed);
        let gate_plan = gate_plan(&tested, &rules, seed, cpu);
        let scenario = baseline::Scenario::of(&tested.to_report(), cpu.is_some());
        let scenarios = vec![control, tested];
        let tuning = tuning::Settings { cpu, ..tuning::Settings::default() };
        let run = Plan { seed, samples: false, tuning, scenarios };
        Ok(Self { scenario, run, rules, gate_plan, pairs })
    }

    /// The scenario that is tested.
    pub fn subject(&self) -> &Scenario {
        &self.run.scenarios[1]
    }

    /// How long it takes.
    pub fn time(&self) -> Duration {
        let ticks = self.scenario.round_ticks + self.scenario.warmup_ticks;
        let pair = pair_time(Duration::from_nanos(self.scenario.period_ns), ticks, Mode::Interleaved);
        pair.mul_f64(self.pairs as f64)
    }

    /// Measures the session. Of one that was interrupted or failed, what there is.
    pub fn measure(&self, started_utc: String, stop: &Arc<AtomicBool>, quiet: bool) -> MeasuredSession {
        #[allow(clippy::disallowed_methods, reason = "wall time of the session")]
        let started = Instant::now();
        let progress = terminal::Progress::new(self.pairs, quiet);
        let mut rounds = Rounds {
            plan: self,
            progress,
            open: [None, None],
            pairs: Vec::new(),
            all: [vec![], vec![]],
            failure: None,
        };
        order::run(&self.run, stop, &mut rounds, |_, _| ());
        rounds.progress.finish();
        let [control, subject] = &rounds.all;
        let session = Session {
            tool: host::tool(),
            started_utc,
            duration_ns: u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX),
            seed: self.run.seed,
            cpu: self.run.tuning.cpu,
            resolution_ns: host::clock_resolution_ns(),
            subject_histogram: histogram::pack(subject.iter().copied()),
            control_histogram: histogram::pack(control.iter().copied()),
            pairs: rounds.pairs,
        };
        let complete = session.pairs.len() as u64 == self.pairs;
        let reason = match (&rounds.failure, complete) {
            (Some(_), _) => Some(Reason::NotMeasured),
            (None, false) => Some(Reason::Interrupted),
            (None, true) => None,
        };
        MeasuredSession { session, lateness_ns: rounds.all, reason, failure: rounds.failure }
    }
}

/// A session as it was measured.
pub struct MeasuredSession {
    pub session: Session,
    /// Lateness of every tick; 0 is the control.
    pub lateness_ns: [Vec<i64>; 2],
    /// Why it is not whole, if it is not.
    pub reason: Option<Reason>,
    pub failure: Option<String>,
}

/// The rounds of a session so far; 0 is the control.
struct Rounds<'a> {
    plan: &'a SessionPlan,
    progress: terminal::Progress,
    /// The round whose partner is still to come, and its place in the order.
    open: [Option<(u64, RoundRecord)>; 2],
    pairs: Vec<SessionPair>,
    all: [Vec<i64>; 2],
    failure: Option<String>,
}

impl Observer for Rounds<'_> {
    fn before(&mut self, scenario: &Scenario, index: u64) {
        self.progress.show(&scenario.id, index);
    }

    fn after(&mut self, scenario: &Scenario, result: &Result<MeasuredRound, String>) {
        let round = match result {
            Err(reason) => {
                self.failure = Some(format!("{}: {reason}", scenario.id));
                return;
            }
            // An interrupted round is no round.
            Ok(round) if round.stopped => return,
            Ok(round) => round,
        };
        let side = usize::from(scenario.id == self.plan.subject().id);
        let samples = &round.instances[0].samples;
        let Some(record) = RoundRecord::of(samples.pairs(), scenario.period_ns(), met(&round.cost)) else {
            self.failure = Some(format!("{}: a round delivered no tick", scenario.id));
            return;
        };
        self.all[side].extend_from_slice(&samples.lateness_ns);
        self.open[side] = Some((round.slot, record));
        if let [Some((control_slot, control)), Some((subject_slot, subject))] = &self.open {
            let (subject_first, control, subject) = (subject_slot < control_slot, control.clone(), subject.clone());
            self.pairs.push(SessionPair { subject_first, subject, control });
            self.open = [None, None];
            self.progress.step();
        }
    }

    fn knows_enough(&self) -> bool {
        self.failure.is_some()
    }
}

fn met(cost: &Cost) -> Met {
    Met {
        steal_ns: cost.steal_ns,
        run_queue_ns: cost.run_queue_ns,
        switches_voluntary: cost.switches_voluntary,
        switches_involuntary: cost.switches_involuntary,
    }
}
