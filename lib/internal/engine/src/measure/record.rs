//! From measured rounds to the report.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use files::fitness::{Fitness, Tally};
use files::histogram;
use files::report::{Change, Clock, Host, Report, Round, SCHEMA, Status, Subject, Warning};
use files::summary::{InstanceRound, Pool, RoundCost, summarise};
use jitterstat::stats::random::SplitMix64;
use tach::Anchor;

use crate::machine::{host, os};
use crate::measure::diagnosis::ScenarioDiagnosis;
use crate::measure::load::Loads;
use crate::measure::observer_cost::observer_ns_per_tick;
use crate::measure::order::{self, Observer};
use crate::measure::program::StartupCosts;
use crate::measure::round::{Instance, MeasuredRound};
use crate::scenario::{MAX_ROUNDS_WITHOUT_SAMPLES, Plan, Scenario};
use crate::subject::RuntimeKind;
use cli::exit;
use cli::time::format_time;

/// Changes on the machine what the plan asks for, and returns that with what its subjects change by
/// themselves.
pub fn apply_changes(plan: &Plan) -> exit::Result<Vec<Change>> {
    let mut changes = plan.tuning.apply()?;
    let sleeps = plan.scenarios.iter().any(|s| s.subject.name() == "nanosleep");
    if let Some(slack_ns) = os::timer_slack_ns().filter(|_| sleeps) {
        let what = "timer slack of the measuring thread, during rounds of nanosleep".to_owned();
        changes.push(Change { what, from: format!("{slack_ns} ns"), to: "1 ns".to_owned() });
    }
    Ok(changes)
}

/// What was so before the first round.
pub struct Conditions {
    pub host: Host,
    pub changes: Vec<Change>,
    pub started_utc: String,
    pub starts: StartupCosts,
}

/// What a round of a subject came to.
pub enum RoundResult<'a> {
    /// As the report has it, an entry for each instance.
    Rounds(Vec<Round>),
    Failed(&'a str),
}

/// Learns of each round, with the id of its subject.
pub type RoundListener<'a> = dyn FnMut(&str, RoundResult<'_>) + 'a;

/// Runs a plan beside its loads into a report, which has them when they have ended. The observer
/// sees the rounds go by, and the listener what the report will have of them.
pub fn measure(
    plan: &Plan,
    conditions: Conditions,
    loads: &mut Loads,
    stop: &Arc<AtomicBool>,
    observer: &mut impl Observer,
    listener: Option<&mut RoundListener<'_>>,
) -> Report {
    let mut report = ReportBuilder::new(plan, conditions, listener);
    order::run(plan, loads, stop, observer, |place, result| report.add(place, result));
    report.finish(stop.load(Ordering::Relaxed))
}

/// Collects the rounds of a run.
struct ReportBuilder<'a, 'b> {
    plan: &'a Plan,
    listener: Option<&'a mut RoundListener<'b>>,
    conditions: Conditions,
    started: Instant,
    first: Anchor,
    rounds: Vec<Rounds>,
    failures: Vec<Option<String>>,
}

#[allow(clippy::disallowed_methods, reason = "wall time of the run")]
impl<'a, 'b> ReportBuilder<'a, 'b> {
    fn new(
        plan: &'a Plan,
        conditions: Conditions,
        listener: Option<&'a mut RoundListener<'b>>,
    ) -> Self {
        let n = plan.scenarios.len();
        let rounds = plan.scenarios.iter().map(|scenario| Rounds::new(plan, scenario)).collect();
        let (started, first) = (Instant::now(), Anchor::take());
        Self { plan, listener, conditions, started, first, rounds, failures: vec![None; n] }
    }

    /// Adds a round of a scenario, or the reason why there is none.
    fn add(&mut self, place: usize, result: Result<MeasuredRound, String>) {
        match result {
            Ok(round) if round.diagnosis.is_some() => {
                self.rounds[place].answers.iter_mut().for_each(|a| a.add(&round, self.started))
            }
            Ok(round) => {
                let cost = self.conditions.starts.subtract_startup(place, round.cost);
                let round = MeasuredRound { cost, ..round };
                if let Some(listener) = &mut self.listener {
                    let scenario = &self.plan.scenarios[place];
                    let entries = entries(
                        &round,
                        scenario.runtime.is_some(),
                        self.plan.samples,
                        self.started,
                    );
                    listener(&scenario.id, RoundResult::Rounds(entries));
                }
                self.rounds[place].add(round);
            }
            Err(reason) => {
                if let Some(listener) = &mut self.listener {
                    listener(&self.plan.scenarios[place].id, RoundResult::Failed(&reason));
                }
                self.failures[place] = Some(reason);
            }
        }
    }

    /// The report; `partial` where the run was interrupted.
    fn finish(mut self, partial: bool) -> Report {
        self.rounds.iter_mut().for_each(|rounds| rounds.kept.sort_by_key(|round| round.index));
        let ended = Instant::now();
        let all =
            || self.rounds.iter().flat_map(|rounds| &rounds.kept).filter_map(|round| round.clock);
        let n = all().count();
        let info = tach::info();
        let clock = Clock {
            source: info.source.to_string(),
            rate_hz: if n > 0 {
                all().map(|clock| clock.rate_hz).sum::<f64>() / n as f64
            } else {
                info.rate_hz
            },
            rate_known_by: "anchors at the start and end of each round".to_owned(),
            error_bound_ns: self.rounds.iter().map(|r| r.error_bound_ns).max().unwrap_or(0),
            rate_error_ppb: Some(info.rate_error_ppb),
            rate_stated_hz: info.rate_stated.map(|stated| stated.hz),
            cross_thread_order: Some(info.cross_thread_order.to_string()),
            why_not_counter: info.why_not_counter.as_ref().map(ToString::to_string),
            observer_ns_per_tick: self
                .plan
                .scenarios
                .iter()
                .any(is_stamped)
                .then(observer_ns_per_tick),
        };
        let subjects = self.plan.scenarios.iter().zip(&self.rounds).zip(&self.failures);
        let subjects: Vec<Subject> = subjects
            .map(|((scenario, rounds), failure)| {
                subject(scenario, rounds, failure.as_ref(), self.plan, self.started)
            })
            .collect();
        let fitness = self.fitness(&subjects);
        let Conditions { host, changes, started_utc, starts } = self.conditions;
        Report {
            schema: SCHEMA.to_owned(),
            tool: host::tool(),
            started_utc,
            duration_ns: ns(ended.saturating_duration_since(self.started)),
            partial,
            plan: self.plan.to_report(),
            warnings: [
                warnings(
                    &host,
                    self.plan,
                    self.first.suspended_until(&Anchor::take()),
                    &self.rounds,
                ),
                costly_starts(self.plan, &starts, &self.rounds),
            ]
            .concat(),
            host,
            clock,
            changes,
            fitness,
            loads: Vec::new(),
            subjects,
            trace: None,
        }
    }

    /// By the rounds as they were measured: the report may keep none of their samples.
    fn fitness(&self, subjects: &[Subject]) -> Option<Fitness> {
        let mut tally = Tally::default();
        // What ran beside the others by intent is no fault of the machine.
        for (subject, rounds) in
            subjects.iter().zip(&self.rounds).filter(|(subject, _)| subject.load.is_none())
        {
            let instances = rounds.kept.iter().flat_map(|r| &r.instances);
            for (entry, instance) in subject.rounds.iter().zip(instances) {
                tally.add(&subject.name, subject.period_ns, entry, &instance.samples.lateness_ns);
            }
        }
        Fitness::from_tally(&tally, self.conditions.host.cpus_online)
    }
}

/// Whether osjitter stamps its wake-ups: a program stamps its own, and a script has none.
fn is_stamped(scenario: &Scenario) -> bool {
    scenario.subject.as_builtin().is_some_and(|entry| entry.runtime_kind != RuntimeKind::Script)
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// More rounds than this are not kept of a subject whose samples nobody wants.
const MAX_KEPT_ROUNDS: usize = MAX_ROUNDS_WITHOUT_SAMPLES as usize;

/// The rounds of one scenario: all of them, or of a long run without samples so many drawn at
/// random, and what all of them add up to. Memory does not grow with the length of such a run.
struct Rounds {
    kept: Vec<MeasuredRound>,
    all: Option<Pool>,
    /// Rounds measured so far.
    seen: u64,
    /// Every one of them ran to its end.
    complete: bool,
    error_bound_ns: u64,
    keep_all: bool,
    random: SplitMix64,
    /// Why ticks were late, where that is asked.
    answers: Option<ScenarioDiagnosis>,
}

impl Rounds {
    fn new(plan: &Plan, scenario: &Scenario) -> Self {
        let random = SplitMix64::new(plan.seed);
        let answers = plan.why.map(|why| ScenarioDiagnosis::new(why, scenario));
        let (keep_all, complete) = (plan.samples, true);
        Self {
            kept: Vec::new(),
            all: None,
            seen: 0,
            complete,
            error_bound_ns: 0,
            keep_all,
            random,
            answers,
        }
    }

    fn add(&mut self, round: MeasuredRound) {
        self.seen += 1;
        self.complete &= !round.stopped;
        self.error_bound_ns =
            self.error_bound_ns.max(round.clock.map_or(0, |clock| clock.error_bound_ns));
        self.answers.iter_mut().for_each(|answers| answers.add_beside(&round));
        if self.keep_all || self.kept.len() < MAX_KEPT_ROUNDS {
            self.kept.push(round);
            return;
        }
        let pool = self.all.get_or_insert_with(|| {
            let mut pool = Pool::default();
            self.kept.iter().for_each(|round| pool.add(&parts(round).collect::<Vec<_>>()));
            pool
        });
        pool.add(&parts(&round).collect::<Vec<_>>());
        // Each round so far is among the kept ones with the same probability.
        let place = usize::try_from(self.random.next_u64() % self.seen).unwrap_or(usize::MAX);
        if let Some(kept) = self.kept.get_mut(place) {
            *kept = round;
        }
    }
}

fn subject(
    scenario: &Scenario,
    measured: &Rounds,
    failure: Option<&String>,
    plan: &Plan,
    started: Instant,
) -> Subject {
    let has_runtime = scenario.runtime.is_some();
    let rounds = &measured.kept;
    let parts: Vec<InstanceRound<'_>> = rounds.iter().flat_map(parts).collect();
    let mut summary = summarise(&parts, has_runtime);
    let lateness = || parts.iter().flat_map(|part| part.samples.lateness_ns.iter().copied());
    let histogram = match &measured.all {
        Some(all) => {
            summary = all.summary(summary, has_runtime);
            summary.is_some().then(|| all.histogram())
        }
        None => summary.is_some().then(|| histogram::pack(lateness())),
    };
    let complete = measured.seen == scenario.rounds() && measured.complete;
    let status = match failure {
        Some(reason) => Status::Failed { reason: reason.clone() },
        None if complete => Status::Measured,
        None => Status::Partial,
    };
    Subject {
        id: scenario.id.clone(),
        name: scenario.subject.name(),
        period_ns: scenario.period_ns(),
        runtime: scenario.runtime.map(|r| r.to_string()),
        instances: scenario.instances,
        load: scenario.reported_load(),
        backend: rounds.first().and_then(|r| r.backend.clone()),
        status,
        summary,
        histogram,
        rounds: rounds
            .iter()
            .flat_map(|r| entries(r, has_runtime, plan.samples, started))
            .collect(),
        why: measured.answers.as_ref().map(ScenarioDiagnosis::finish),
    }
}

/// What each instance of a round contributes to a summary.
fn parts(round: &MeasuredRound) -> impl Iterator<Item = InstanceRound<'_>> {
    round.instances.iter().map(|instance| InstanceRound {
        round: round.index,
        samples: &instance.samples,
        cost: cost(round, instance),
    })
}

/// An instance's share of what its round cost.
fn share(round: &MeasuredRound, total: Option<u64>) -> Option<u64> {
    total.map(|total| total / (round.instances.len() as u64).max(1))
}

/// The cost of an instance in a round, scaled from the ticks that ran to the ticks that count:
/// warm-up costs too.
fn cost(round: &MeasuredRound, instance: &Instance) -> RoundCost {
    let counted = |total: Option<u64>| {
        let counted = u128::from(share(round, total)?) * u128::from(instance.samples.grid.ticks);
        u64::try_from(counted / u128::from(instance.ticks_run.max(1))).ok()
    };
    let switches =
        round.cost.switches_voluntary.zip(round.cost.switches_involuntary).map(|(v, i)| v + i);
    RoundCost { cpu_ns: counted(round.cost.cpu_ns), wakeups: counted(switches) }
}

/// The entries of a round in the report, one for each instance.
fn entries(
    round: &MeasuredRound,
    has_runtime: bool,
    keep_samples: bool,
    started: Instant,
) -> Vec<Round> {
    let mut summary = summarise(&parts(round).collect::<Vec<_>>(), has_runtime);
    let entry = |(i, instance): (u64, &Instance)| {
        let samples = &instance.samples;
        let first_tick = samples.ticks.first().copied().unwrap_or(samples.grid.first_tick);
        let consecutive = samples.ticks.iter().zip(first_tick..).all(|(&t, k)| t == k);
        let stamped = has_runtime && samples.until_unpark_ns.iter().any(Option::is_some);
        Round {
            index: round.index,
            slot: round.slot,
            instance: i,
            start_ns: ns(instance.start.saturating_duration_since(started)),
            phase_ns: ns(round.phase),
            window_ns: Some(round.cost.window_ns),
            cpu_ns: share(round, round.cost.cpu_ns),
            throttled_ns: share(round, round.cost.throttled_ns),
            suspended_ns: share(round, round.cost.suspended_ns),
            cpu_khz: round.cost.cpu_khz,
            steal_ns: share(round, round.cost.steal_ns),
            run_queue_ns: share(round, round.cost.run_queue_ns),
            switches_voluntary: share(round, round.cost.switches_voluntary),
            switches_involuntary: share(round, round.cost.switches_involuntary),
            summary: summary.take(),
            first_tick,
            lateness_ns: if keep_samples { samples.lateness_ns.clone() } else { Vec::new() },
            tick: (keep_samples && !consecutive).then(|| samples.ticks.clone()),
            until_unpark_ns: (keep_samples && stamped).then(|| samples.until_unpark_ns.clone()),
        }
    };
    (0..).zip(&round.instances).map(entry).collect()
}

/// Programs of which it is not known what a tick costs.
fn costly_starts(plan: &Plan, starts: &StartupCosts, rounds: &[Rounds]) -> Vec<Warning> {
    let unknown = |rounds: &Rounds| rounds.kept.iter().any(|round| round.cost.cpu_ns.is_none());
    let all =
        plan.scenarios.iter().zip(rounds).enumerate().filter(|(_, (_, rounds))| unknown(rounds));
    let warning = |(place, (scenario, _)): (usize, (&Scenario, &Rounds))| {
        let cost = format_time(i64::try_from(starts.get(place)?.cpu_ns).unwrap_or(i64::MAX));
        Some(Warning {
            code: "command-start".to_owned(),
            message: format!(
                "starting {} takes {cost} of CPU time, in some rounds more than all of its ticks: what a tick costs is unknown",
                scenario.id
            ),
            hint: "longer rounds show it: --round-ticks".to_owned(),
        })
    };
    all.filter_map(warning).collect()
}

/// How far to trust the numbers.
fn warnings(
    host: &Host,
    plan: &Plan,
    suspended: Option<Duration>,
    rounds: &[Rounds],
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if let Some(length) = suspended.filter(|length| !length.is_zero()) {
        warnings.push(Warning {
            code: "suspended".to_owned(),
            message: format!(
                "the machine was suspended for {:.1} s during the run",
                length.as_secs_f64()
            ),
            hint: "the round it fell into is void; measure again on a machine that stays awake"
                .to_owned(),
        });
    }
    if let Some(most) = rounds.iter().filter_map(|r| r.all.as_ref()).map(Pool::rounds).max() {
        warnings.push(Warning {
            code: "rounds-drawn".to_owned(),
            message: format!(
                "of up to {most} rounds of a subject, {MAX_KEPT_ROUNDS} drawn at random are kept; percentiles cover all ticks, \
                 to three digits"
            ),
            hint: "intervals use only the kept rounds, so are wider than need be; without --no-samples all are kept"
                .to_owned(),
        });
    }
    if plan
        .scenarios
        .iter()
        .filter_map(|s| s.subject.as_builtin())
        .any(|entry| entry.runtime_kind == RuntimeKind::Script)
    {
        warnings.push(Warning {
            code: "scripted".to_owned(),
            message: "scripted subjects play a file: their numbers were not measured".to_owned(),
            hint: "they are for tests of this program".to_owned(),
        });
    }
    if let Some(why) = tach::why_not_counter() {
        warnings.push(Warning {
            code: "os-clock".to_owned(),
            message: format!("samples are stamped with the OS clock: {why}"),
            hint:
                "a stamp costs tens of nanoseconds more; on Linux the tsc clock source avoids that"
                    .to_owned(),
        });
    }
    if let Some(quota) = host.quota_cpus {
        warnings.push(Warning {
            code: "cpu-quota".to_owned(),
            message: format!(
                "the control group allows {quota:.2} CPUs; throttling looks like lateness"
            ),
            hint: "measure without a CPU limit, or read the tail with it in mind".to_owned(),
        });
    }
    warnings
}
