//! Stored sessions: a new one judged by them, and `osjitter gate baseline add`.
//!
//! A session is pairs of rounds of the subject and of a control, in turn. The gate never changes the file; adding a
//! session never changes what the file says by more than the sessions themselves allow.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use jitterstat::environment::{Difference, EnvironmentKey};
use jitterstat::gate::against;
use jitterstat::gate::baseline::{self, Baseline, CONTROL, Met, RoundRecord, SESSION_PAIRS, SESSIONS_KEPT, Session};
use jitterstat::gate::baseline::{SCHEMA, SessionPair};
use jitterstat::gate::look::{Outcome, Reason, Rules};
use jitterstat::gate::round::{Pair, tail_name};
use jitterstat::gate::verdict::{AgainstBaseline, BaselineMetric, GatePlan, Mode};
use jitterstat::histogram;
use jitterstat::report::{Plan, Scenario};

use super::plan::{gate_plan, one_cpu, pair_time, periods, rules, scenario};
use super::session::{self, sides};
use crate::cli::{BaselineAddArgs, GateArgs, JudgedArgs, OnInconclusive};
use crate::exit::{ExitStatus, Failure};
use crate::measure::{self, Cost, MeasuredRound, Observer, Shared};
use crate::{changes, export, host, interrupt, output, plan, units};

/// The share of false alarms by design: half a per cent for each of the two percentiles.
const ALPHA: f64 = 0.01;

/// A session, planned.
pub struct SessionPlan {
    scenario: baseline::Scenario,
    run: Plan,
    rules: Rules,
    gate_plan: GatePlan,
    pairs: u64,
}

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
    if let Some(most) = args.max_time.as_deref().map(units::duration).transpose()? {
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

/// Reads a baseline; `None` if there is no such file.
fn read(file: &Path) -> Result<Option<Baseline>, String> {
    let name = file.display();
    match std::fs::read_to_string(file) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(format!("cannot read the baseline {name}: {e}")),
        Ok(text) => Baseline::from_json(&text).map(Some).map_err(|e| format!("the baseline {name}: {e}")),
    }
}

fn same_scenario(file: &Path, stored: &Baseline, session: &SessionPlan) -> Result<(), String> {
    let differences = stored.scenario.differences(&session.scenario);
    if differences.is_empty() {
        return Ok(());
    }
    Err(format!("{} holds something else: {}; nothing was measured", file.display(), listed(&differences)))
}

fn listed(differences: &[Difference]) -> String {
    differences.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl SessionPlan {
    /// What the arguments say, and where they are silent, what the file does.
    fn of(
        judged: &JudgedArgs,
        subject: Option<&str>,
        stored: Option<&baseline::Scenario>,
        pairs: u64,
    ) -> Result<Self, String> {
        let mut judged = judged.clone();
        if let Some(stored) = stored {
            if judged.period.is_empty() {
                judged.period.push(units::short(Duration::from_nanos(stored.period_ns)));
            }
            judged.round_ticks = judged.round_ticks.or(Some(stored.round_ticks));
            judged.warmup = judged.warmup.or(Some(stored.warmup_ticks));
            judged.runtime = judged.runtime.or_else(|| stored.runtime.clone());
        }
        let [period] = periods(&judged)[..] else {
            return Err("a baseline is of one period; give --period once".to_owned());
        };
        let subject = subject.or(stored.map(|s| s.subject.as_str()));
        let subject = subject.ok_or("a baseline needs a subject; give --subject")?;
        let tested = scenario(&judged, subject, period, pairs)?;
        let mut control = scenario(&judged, CONTROL, period, pairs)?;
        control.id = format!("control:{}", control.id);
        let cpu = one_cpu(&judged);
        let rules = Rules {
            alpha: ALPHA,
            looks: vec![usize::try_from(pairs).unwrap_or(usize::MAX)],
            ..rules(&judged, &tested)?
        };
        let seed = judged.seed.unwrap_or_else(plan::draw_seed);
        let gate_plan = gate_plan(&tested, &rules, seed, cpu);
        let scenario = baseline::Scenario::of(&tested, cpu.is_some());
        let scenarios = vec![control, tested];
        let run = Plan { seed, samples: false, cpu, sched: None, mlock: false, timer_slack_ns: None, scenarios };
        Ok(Self { scenario, run, rules, gate_plan, pairs })
    }

    fn subject(&self) -> &Scenario {
        &self.run.scenarios[1]
    }

    fn time(&self) -> Duration {
        let ticks = self.scenario.round_ticks + self.scenario.warmup_ticks;
        let pair = pair_time(Duration::from_nanos(self.scenario.period_ns), ticks, Mode::Interleaved);
        pair.mul_f64(self.pairs as f64)
    }

    /// Measures the session. Of one that was interrupted or failed, what there is.
    fn measure(&self, started_utc: String, shared: &Arc<Shared>, quiet: bool) -> MeasuredSession {
        #[allow(clippy::disallowed_methods, reason = "wall time of the session")]
        let started = Instant::now();
        let progress = output::Progress::new(self.pairs, quiet);
        let mut rounds = Rounds {
            plan: self,
            progress,
            open: [None, None],
            pairs: Vec::new(),
            all: [vec![], vec![]],
            failure: None,
        };
        measure::run(&self.run, shared, &mut rounds);
        rounds.progress.finish();
        let [control, subject] = &rounds.all;
        let session = Session {
            tool: host::tool(),
            started_utc,
            duration_ns: u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX),
            seed: self.run.seed,
            cpu: self.run.cpu,
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
struct MeasuredSession {
    session: Session,
    /// Lateness of every tick; 0 is the control.
    lateness_ns: [Vec<i64>; 2],
    /// Why it is not whole, if it is not.
    reason: Option<Reason>,
    failure: Option<String>,
}

impl Against {
    /// How long the session takes.
    pub fn time(&self) -> Duration {
        self.session.time()
    }

    /// The CPU that both are bound to.
    pub fn cpu(&self) -> Option<usize> {
        self.session.run.cpu
    }

    /// Measures a session and judges it, and why it could not go on if it could not.
    pub fn judge(
        &self,
        started_utc: String,
        shared: &Arc<Shared>,
        quiet: bool,
        cpus: f64,
    ) -> (AgainstBaseline, Option<String>) {
        let MeasuredSession { session, lateness_ns, reason, failure } =
            self.session.measure(started_utc, shared, quiet);
        let metrics = match reason {
            Some(_) => Vec::new(),
            None => against::judge(&session, &self.stored.sessions, &self.session.scenario, &self.session.rules),
        };
        (self.verdict(&session, lateness_ns, metrics, reason, cpus), failure)
    }

    /// What there is to say when nothing was measured.
    pub fn open(&self, cpus: f64) -> AgainstBaseline {
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
        self.verdict(&session, [Vec::new(), Vec::new()], Vec::new(), Some(Reason::Interrupted), cpus)
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
            rounds: jitterstat::gate::verdict::records(&pairs),
        }
    }
}

/// The rounds of a session so far; 0 is the control.
struct Rounds<'a> {
    plan: &'a SessionPlan,
    progress: output::Progress,
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

    fn after(&mut self, scenario: &Scenario, result: Result<MeasuredRound, String>) {
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
        let Some(record) = RoundRecord::of(samples.pairs(), scenario.period_ns, met(&round.cost)) else {
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

/// `osjitter gate baseline add`: measures a session and puts it behind those of the file, unless it is worse than they
/// are, or says too little.
pub fn add(args: &BaselineAddArgs) -> Result<ExitStatus, Failure> {
    let (file, quiet) = (args.file.as_path(), args.judged.quiet);
    let name = file.display();
    let found = read(file).map_err(Failure::Usage)?;
    let kept = found.clone().filter(|_| !args.replace);
    let session = SessionPlan::of(
        &args.judged,
        args.subject.as_deref(),
        kept.as_ref().map(|b| &b.scenario),
        args.max_rounds.unwrap_or(SESSION_PAIRS),
    );
    let session = session.map_err(Failure::Usage)?;
    let environment = EnvironmentKey::of(&host::capture());
    if let Some(kept) = &kept {
        same_scenario(file, kept, &session).map_err(Failure::Usage)?;
        let differences = kept.environment.differences(&environment);
        if !differences.is_empty() {
            return Err(Failure::Usage(format!(
                "{name} is of another machine: {}; nothing was measured; --replace starts the file anew",
                listed(&differences)
            )));
        }
    }
    let directory = file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    tempfile::NamedTempFile::new_in(directory)
        .map_err(|e| Failure::Usage(format!("cannot write to {}: {e}; nothing was measured", directory.display())))?;
    session.run.cpu.map_or(Ok(()), changes::bind).map_err(Failure::Usage)?;
    output::note(quiet, &format!("a session of {}: {:.0}s", session.subject().id, session.time().as_secs_f64()));
    let shared = Arc::new(Shared::default());
    interrupt::stop_on_interrupt(&shared)?;

    let started_utc = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let MeasuredSession { session: measured, reason, failure, .. } = session.measure(started_utc, &shared, quiet);
    if let Some(why) = failure {
        return Err(Failure::Measure(format!("{why}; no session was added to {name}")));
    }
    if reason.is_some() || shared.stop.load(Ordering::Relaxed) {
        output::note(false, &format!("interrupted; no session was added to {name}"));
        return Ok(ExitStatus::NotMeasured);
    }
    let judged = judged(&measured, kept.as_ref(), &session);
    let told = export::verdict::session(&judged, CONTROL);
    let status = match Outcome::of_all(judged.iter().map(|m| m.verdict)) {
        Outcome::Pass | Outcome::Improved => {
            let (sessions, gone) = store(file, found, args.replace, measured, &session, environment)?;
            let dropped = if gone > 0 { format!("; the oldest {gone} dropped") } else { String::new() };
            output::note(quiet, &format!("{name}: {sessions} of at most {SESSIONS_KEPT} sessions{dropped}"));
            ExitStatus::Done
        }
        Outcome::Regressed | Outcome::LimitBroken => {
            let why = "worse than the sessions that are stored; if that is meant, --replace starts the file anew";
            output::note(false, &format!("NOT ADDED to {name}: {why}"));
            ExitStatus::Regressed
        }
        Outcome::Inconclusive => {
            let why = judged.iter().find_map(|m| m.reason).map_or("inconclusive", export::verdict::why);
            output::note(false, &format!("NOT ADDED to {name}: {why}"));
            match args.on_inconclusive {
                OnInconclusive::Pass => ExitStatus::Done,
                OnInconclusive::Fail => ExitStatus::Inconclusive,
            }
        }
    };
    std::io::stdout().write_all(told.as_bytes()).map_err(Failure::writing)?;
    Ok(status)
}

/// A session by those that are stored; the first one by nothing but its own use.
fn judged(session: &Session, kept: Option<&Baseline>, plan: &SessionPlan) -> Vec<BaselineMetric> {
    if let Some(kept) = kept {
        return against::judge(session, &kept.sessions, &plan.scenario, &plan.rules);
    }
    let unusable = against::is_unusable(session, &plan.scenario, &plan.rules);
    let mut metrics = against::judge(session, &[], &plan.scenario, &plan.rules);
    for metric in &mut metrics {
        metric.verdict = if unusable.is_some() { Outcome::Inconclusive } else { Outcome::Pass };
        metric.reason = unusable;
    }
    metrics
}

/// Adds the session to what the file holds now, which may be more than when the session began.
fn store(
    file: &Path,
    found: Option<Baseline>,
    replace: bool,
    session: Session,
    plan: &SessionPlan,
    environment: EnvironmentKey,
) -> Result<(usize, usize), Failure> {
    let name = file.display();
    let meanwhile = |what: &str| {
        Failure::Measure(format!("{name} {what} while the session was measured; nothing was written: add it again"))
    };
    let now = read(file).map_err(|e| Failure::Measure(format!("{e}; nothing was written")))?;
    let fresh = |session| Baseline {
        schema: SCHEMA.to_owned(),
        scenario: plan.scenario.clone(),
        environment: environment.clone(),
        sessions: vec![session],
    };
    let (baseline, gone) = match (now, &found) {
        (None, None) => (fresh(session), 0),
        (Some(_), None) => return Err(meanwhile("appeared")),
        (None, Some(_)) => return Err(meanwhile("went away")),
        (Some(now), Some(found)) if replace => {
            if now != *found {
                return Err(meanwhile("was changed"));
            }
            (fresh(session), 0)
        }
        (Some(mut now), Some(found)) => {
            if now.scenario != found.scenario || now.environment != found.environment {
                return Err(meanwhile("was changed"));
            }
            let gone = now.push(session).len();
            (now, gone)
        }
    };
    export::write_atomically(file, baseline.to_json().as_bytes())
        .map_err(|e| Failure::Measure(format!("cannot write {name}: {e}")))?;
    Ok((baseline.sessions.len(), gone))
}

/// The tail percentile that a session is judged by.
pub fn tail(against: &Against) -> &'static str {
    tail_name(against.session.scenario.tail_quantile())
}
