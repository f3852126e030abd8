//! Collects the rounds of a run into a report.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use files::compare::compare_cpus;
use files::fitness::{Fitness, Tally};
use files::histogram;
use files::report::{
    self, Change, Clock, ExcludedRound, Host, Report, Round, SCHEMA, Status, Subject, Summary,
    Warning,
};
use files::round_costs::RoundCost;
use files::settings;
use files::summary::{InstanceRound, Pool, summarise};
use files::trust;
use jitterstat::sample::RoundSamples;
use jitterstat::stats::random::SplitMix64;
use tach::Anchor;

use crate::machine::{host, tuning};
use crate::measure::diagnosis::ScenarioDiagnosis;
use crate::measure::load::Loads;
use crate::measure::observer_cost::observer_ns_per_tick;
use crate::measure::order::{self, Observer};
use crate::measure::program::StartupCosts;
use crate::measure::round::{Instance, MeasuredRound, RoundResult};
use crate::measure::round_error::RoundError;
use crate::measure::round_settings::RoundSettings;
use crate::measure::subject_settings::subject_settings;
use crate::program::Program;
use crate::scenario::{MAX_ROUNDS_WITHOUT_SAMPLES, Plan, Scenario};
use crate::subject::bare_threads::MinSlack;
use crate::subject::{RuntimeKind, WaitKind};
use cli::exit;
use cli::time::format_time;
use cli::units::{format_exact_ns, to_ns};
use cli::words::pluralize;

/// Applies the settings of a plan. Returns all changes, including those that subjects make.
///
/// # Errors
///
/// Returns an error if a setting cannot be applied.
pub fn apply_changes(plan: &Plan) -> exit::Result<Vec<Change>> {
    let mut changes = plan.tuning.apply()?;
    changes.extend(slack_change(&plan.scenarios));
    Ok(changes)
}

/// Returns the change of the timer slack of this thread by the subjects that sleep, as it is read
/// back.
fn slack_change(scenarios: &[Scenario]) -> Option<Change> {
    let builtin = scenarios.iter().filter_map(|scenario| scenario.subject.as_builtin());
    let sleeping = builtin.filter(|subject| subject.wait_kind == WaitKind::Sleep);
    let mut names: Vec<&str> = sleeping.map(|subject| subject.name).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return None;
    }
    let before_ns = tuning::timer_slack_ns()?;
    let slack = MinSlack::new().ok()?;
    let during_ns = tuning::timer_slack_ns()?;
    drop(slack);
    let names = names.join(", ");
    let what = format!("timer slack of the measuring thread, during rounds of {names}");
    let [from, to] = [before_ns, during_ns].map(format_exact_ns);
    (from != to).then_some(Change { what, from, to })
}

/// Conditions recorded before the first round.
pub struct Conditions {
    pub host: Host,
    pub changes: Vec<Change>,
    pub started_utc: String,
    pub starts: StartupCosts,
}

/// The result of a round of a subject.
pub enum RecordedRound<'a> {
    /// Entries of the report, one per instance.
    Rounds(Vec<Round>),
    Excluded(&'a ExcludedRound),
    Failed(&'a RoundError),
}

/// Callback for each round, with the id of its subject.
pub type RoundListener<'a> = dyn FnMut(&str, RecordedRound<'_>) + 'a;

/// Runs a plan under its loads and returns the report, to which the caller adds the loads.
///
/// The observer is notified of the rounds, and the listener receives their entries of the report.
pub fn measure(
    plan: &Plan,
    conditions: Conditions,
    loads: &mut Loads,
    stop: &Arc<AtomicBool>,
    observer: &mut impl Observer,
    listener: Option<&mut RoundListener<'_>>,
) -> Report {
    let starts = conditions.starts.clone();
    let mut report = ReportBuilder::new(plan, conditions, listener);
    let finished = order::run(plan, &starts, loads, stop, observer, |scenario, result| {
        report.add(scenario, result)
    });
    for (scenario, processes) in finished.left_over {
        report.rounds[scenario].killed_processes += processes;
    }
    report.finish(&finished.settings, stop.load(Ordering::Relaxed))
}

/// Collects the rounds of a run.
struct ReportBuilder<'a, 'b> {
    plan: &'a Plan,
    listener: Option<&'a mut RoundListener<'b>>,
    conditions: Conditions,
    started: Instant,
    start_anchor: Anchor,
    rounds: Vec<ScenarioRounds>,
    failures: Vec<Option<RoundError>>,
}

#[allow(clippy::disallowed_methods, reason = "wall time of the run")]
impl<'a, 'b> ReportBuilder<'a, 'b> {
    fn new(
        plan: &'a Plan,
        conditions: Conditions,
        listener: Option<&'a mut RoundListener<'b>>,
    ) -> Self {
        let n = plan.scenarios.len();
        let rounds =
            plan.scenarios.iter().map(|scenario| ScenarioRounds::new(plan, scenario)).collect();
        let failures = vec![None; n];
        let (started, start_anchor) = (Instant::now(), Anchor::take());
        Self { plan, listener, conditions, started, start_anchor, rounds, failures }
    }

    /// Adds the result of a round of a scenario, which is given by its index.
    fn add(&mut self, scenario_index: usize, result: RoundResult) {
        let result = result.map(|round| MeasuredRound {
            cost: self.conditions.starts.subtract_startup(scenario_index, round.cost),
            ..round
        });
        match result {
            Ok(round) if round.diagnosis.is_some() => {
                let rounds = &mut self.rounds[scenario_index];
                rounds.killed_processes += round.cost.killed_processes;
                if !round.setting_changes.is_empty() {
                    rounds.changes_while_profiled.push(round.setting_changes);
                } else if let Some(diagnosis) = &mut rounds.diagnosis {
                    diagnosis.add(&round, self.started);
                }
            }
            Ok(round) if !round.setting_changes.is_empty() => {
                let first = round.instances.first().map(|instance| instance.start);
                let start = first.map(|start| start.saturating_duration_since(self.started));
                let excluded = ExcludedRound {
                    index: round.index,
                    slot: round.slot,
                    start_ns: start.map_or(0, to_ns),
                    changes: round.setting_changes,
                };
                if let Some(listener) = &mut self.listener {
                    let id = &self.plan.scenarios[scenario_index].id;
                    listener(id, RecordedRound::Excluded(&excluded));
                }
                self.rounds[scenario_index].killed_processes += round.cost.killed_processes;
                self.rounds[scenario_index].excluded.push(excluded);
            }
            // A round that was stopped in its warm-up has lost no tick, unlike others without ticks.
            Ok(round) if round.stopped && !has_planned_ticks(&round) => {
                self.rounds[scenario_index].complete = false;
            }
            Ok(round) => {
                let scenario = &self.plan.scenarios[scenario_index];
                if let Some(listener) = &mut self.listener {
                    let has_runtime = scenario.runtime.is_some();
                    let entries =
                        report_entries(&round, has_runtime, self.plan.samples, self.started);
                    listener(&scenario.id, RecordedRound::Rounds(entries));
                }
                self.rounds[scenario_index].add(round);
            }
            Err(error) => {
                if let Some(listener) = &mut self.listener {
                    let id = &self.plan.scenarios[scenario_index].id;
                    listener(id, RecordedRound::Failed(&error));
                }
                self.failures[scenario_index] = Some(error);
            }
        }
    }

    /// Builds the report. `settings` are those with which the rounds of each scenario were verified.
    /// `partial` is set if the run was interrupted.
    fn finish(mut self, settings: &[Option<RoundSettings>], partial: bool) -> Report {
        for rounds in &mut self.rounds {
            rounds.kept.sort_by_key(|round| round.index);
        }
        let duration = Instant::now().saturating_duration_since(self.started);
        let clock = self.report_clock();
        let mut subjects = self.report_subjects();
        for (index, subject) in subjects.iter_mut().enumerate() {
            let (scenario, verified) = (&self.plan.scenarios[index], settings[index].as_ref());
            subject.settings = subject_settings(scenario, index, &self.conditions.starts, verified);
        }
        let fitness = self.fitness(&subjects);
        let suspended = self.start_anchor.suspended_until(&Anchor::take());
        let Conditions { host, changes, started_utc, starts } = self.conditions;
        let mut warnings = run_warnings(&host, self.plan, suspended, &self.rounds);
        warnings.extend(startup_warnings(self.plan, &starts, &self.rounds));
        warnings.extend(window_warnings(self.plan, &starts, &self.rounds));
        warnings.extend(single_tick_warnings(self.plan, &self.rounds));
        warnings.extend(left_over_warnings(self.plan, &self.rounds));
        warnings.extend(exclusion_warnings(self.plan, &self.rounds));
        let mut report = Report {
            schema: SCHEMA.to_owned(),
            tool: host::tool(),
            started_utc,
            duration_ns: to_ns(duration),
            partial,
            settled: None,
            plan: self.plan.to_report(),
            warnings,
            host,
            clock,
            changes,
            fitness,
            loads: Vec::new(),
            subjects,
            cpu_comparisons: Vec::new(),
            trace: None,
        };
        report.cpu_comparisons = compare_cpus(&report);
        trust::mark_distrusted(&mut report);
        settings::state_differences(&mut report);
        report
    }

    /// Describes the clock of the time stamps. Its rate is the mean over the rounds.
    fn report_clock(&self) -> Clock {
        let rounds = self.rounds.iter().flat_map(|rounds| &rounds.kept);
        let rates: Vec<f64> = rounds.filter_map(|round| Some(round.clock?.rate_hz)).collect();
        let info = tach::info();
        let rate_hz = match rates.len() {
            0 => info.rate_hz,
            n => rates.iter().sum::<f64>() / n as f64,
        };
        let has_observer = self.plan.scenarios.iter().any(is_stamped);
        Clock {
            source: info.source.to_string(),
            rate_hz,
            rate_known_by: "anchors at the start and end of each round".to_owned(),
            error_bound_ns: self.rounds.iter().map(|r| r.error_bound_ns).max().unwrap_or(0),
            rate_error_ppb: Some(info.rate_error_ppb),
            rate_stated_hz: info.rate_stated.map(|stated| stated.hz),
            cross_thread_order: Some(info.cross_thread_order.to_string()),
            why_not_counter: info.why_not_counter.as_ref().map(ToString::to_string),
            observer_ns_per_tick: has_observer.then(observer_ns_per_tick),
            value_digits: None,
        }
    }

    fn report_subjects(&self) -> Vec<Subject> {
        let scenarios = self.plan.scenarios.iter().zip(&self.rounds).zip(&self.failures);
        scenarios
            .map(|((scenario, rounds), failure)| {
                report_subject(scenario, rounds, failure.as_ref(), self.plan, self.started)
            })
            .collect()
    }

    /// Judges the fitness of the machine by the measured rounds, since the report may not contain
    /// their samples.
    fn fitness(&self, subjects: &[Subject]) -> Option<Fitness> {
        let mut tally = Tally::default();
        // Disturbances by a load of the plan are not caused by the machine.
        let unloaded =
            subjects.iter().zip(&self.rounds).filter(|(subject, _)| subject.load.is_none());
        for (subject, rounds) in unloaded {
            let instances = rounds.kept.iter().flat_map(|r| &r.instances);
            for (entry, instance) in subject.rounds.iter().zip(instances) {
                tally.add(&subject.name, subject.period_ns, entry, &instance.samples.lateness_ns);
            }
        }
        Fitness::from_tally(&tally, self.conditions.host.cpus_online)
    }
}

/// Returns whether osjitter takes the time stamps of the wake-ups. Programs take their own, and
/// scripts have none.
fn is_stamped(scenario: &Scenario) -> bool {
    scenario.subject.as_builtin().is_some_and(|entry| entry.runtime_kind != RuntimeKind::Script)
}

fn has_planned_ticks(round: &MeasuredRound) -> bool {
    round.instances.iter().any(|instance| instance.samples.grid.ticks > 0)
}

/// Maximum number of rounds that are kept per subject with `--no-samples`.
const MAX_KEPT_ROUNDS: usize = MAX_ROUNDS_WITHOUT_SAMPLES as usize;

/// The rounds of a scenario.
///
/// A long run without samples keeps a random sample of the rounds and a pool of all of them, so its
/// memory does not grow with the length of the run.
struct ScenarioRounds {
    kept: Vec<MeasuredRound>,
    /// Pool of all rounds, if not all of them are kept.
    pool: Option<Pool>,
    /// Number of measured rounds.
    measured: u64,
    /// Number of processes that the program left running, and that were killed.
    killed_processes: u64,
    /// Rounds during which a setting changed, without the profiled ones.
    excluded: Vec<ExcludedRound>,
    /// Changes of settings during each profiled round that has no diagnosis because of them.
    changes_while_profiled: Vec<Vec<Change>>,
    /// Whether no round was stopped.
    complete: bool,
    error_bound_ns: u64,
    keep_all: bool,
    random: SplitMix64,
    /// Diagnosis of late ticks, if it was requested.
    diagnosis: Option<ScenarioDiagnosis>,
}

impl ScenarioRounds {
    fn new(plan: &Plan, scenario: &Scenario) -> Self {
        let random = SplitMix64::new(plan.seed);
        let diagnosis = plan.why.map(|options| ScenarioDiagnosis::new(options, scenario));
        let (keep_all, complete) = (plan.samples, true);
        Self {
            kept: Vec::new(),
            pool: None,
            measured: 0,
            killed_processes: 0,
            excluded: Vec::new(),
            changes_while_profiled: Vec::new(),
            complete,
            error_bound_ns: 0,
            keep_all,
            random,
            diagnosis,
        }
    }

    fn add(&mut self, round: MeasuredRound) {
        self.measured += 1;
        self.killed_processes += round.cost.killed_processes;
        self.complete &= !round.stopped;
        let error_bound_ns = round.clock.map_or(0, |clock| clock.error_bound_ns);
        self.error_bound_ns = self.error_bound_ns.max(error_bound_ns);
        if let Some(diagnosis) = &mut self.diagnosis {
            diagnosis.add_reference(&round);
        }
        if self.keep_all || self.kept.len() < MAX_KEPT_ROUNDS {
            self.kept.push(round);
            return;
        }
        let kept = &self.kept;
        let pool = self.pool.get_or_insert_with(|| pool_of_rounds(kept));
        pool.add(&instance_rounds(&round).collect::<Vec<_>>());
        // Reservoir sampling: every round so far is kept with the same probability.
        let index = usize::try_from(self.random.next_u64() % self.measured).unwrap_or(usize::MAX);
        if let Some(kept) = self.kept.get_mut(index) {
            *kept = round;
        }
    }
}

impl ScenarioRounds {
    /// Returns the summary and the histogram of all rounds, or `None` without a recorded tick.
    fn summary(&self, has_runtime: bool) -> Option<(Summary, report::Histogram)> {
        let parts: Vec<InstanceRound<'_>> = self.kept.iter().flat_map(instance_rounds).collect();
        let kept_summary = summarise(&parts, has_runtime);
        if let Some(pool) = &self.pool {
            return Some((pool.summary(kept_summary, has_runtime)?, pool.histogram()));
        }
        let lateness = parts.iter().flat_map(|part| &part.samples.lateness_ns);
        Some((kept_summary?, histogram::pack(lateness.copied())))
    }
}

fn pool_of_rounds(rounds: &[MeasuredRound]) -> Pool {
    let mut pool = Pool::default();
    for round in rounds {
        pool.add(&instance_rounds(round).collect::<Vec<_>>());
    }
    pool
}

/// Creates the entry of a scenario in the report.
fn report_subject(
    scenario: &Scenario,
    rounds: &ScenarioRounds,
    failure: Option<&RoundError>,
    plan: &Plan,
    started: Instant,
) -> Subject {
    let has_runtime = scenario.runtime.is_some();
    let kept = &rounds.kept;
    let (summary, histogram) = rounds.summary(has_runtime).unzip();
    let total = rounds.measured + rounds.excluded.len() as u64;
    let complete = total >= scenario.rounds() && rounds.complete;
    let status = match failure {
        Some(error) => Status::Failed { reason: error.to_string() },
        None if rounds.complete && rounds.measured == 0 && !rounds.excluded.is_empty() => {
            let changes = describe_exclusions(&rounds.excluded);
            Status::Failed { reason: format!("every round is excluded: {changes}") }
        }
        None if complete => Status::Measured,
        None => Status::Partial,
    };
    let mut entries = Vec::new();
    for round in kept {
        entries.extend(report_entries(round, has_runtime, plan.samples, started));
    }
    Subject {
        id: scenario.id.clone(),
        name: scenario.subject.name(),
        period_ns: scenario.period_ns(),
        runtime: scenario.runtime.map(|r| r.to_string()),
        instances: scenario.instances,
        load: scenario.reported_load(),
        backend: kept.first().and_then(|r| r.backend.clone()),
        cpu: scenario.cpu.map(|cpu| cpu as u64),
        settings: None,
        excluded: rounds.excluded.clone(),
        status,
        summary,
        histogram,
        rounds: entries,
        why: rounds.diagnosis.as_ref().map(ScenarioDiagnosis::finish),
    }
}

/// Returns the contributions of the instances of a round to a summary.
fn instance_rounds(round: &MeasuredRound) -> impl Iterator<Item = InstanceRound<'_>> {
    (0..).zip(&round.instances).map(|(i, instance)| {
        let entry = shared_entry(round, i, instance);
        let cost = RoundCost::from_entry(&entry, round.instances.len() as u64).unwrap_or_default();
        InstanceRound { round: round.index, samples: &instance.samples, cost }
    })
}

/// Returns the share of an instance in a cost of its round. The shares of all instances add up to
/// the cost.
fn share_of_cost(total: u64, instance: u64, instances: u64) -> u64 {
    total / instances + u64::from(instance < total % instances)
}

/// Returns the entries of a round in the report, one per instance. The first one contains the
/// summary of all.
fn report_entries(
    round: &MeasuredRound,
    has_runtime: bool,
    keep_samples: bool,
    started: Instant,
) -> Vec<Round> {
    let mut summary = summarise(&instance_rounds(round).collect::<Vec<_>>(), has_runtime);
    let mut entries = Vec::with_capacity(round.instances.len());
    for (i, instance) in (0..).zip(&round.instances) {
        let entry = Round {
            instance: i,
            start_ns: to_ns(instance.start.saturating_duration_since(started)),
            summary: summary.take(),
            ..shared_entry(round, i, instance)
        };
        entries.push(add_samples(entry, &instance.samples, has_runtime, keep_samples));
    }
    entries
}

/// Returns an entry without samples: the order of the round, and the share in its costs of the
/// instance at index `i`.
fn shared_entry(round: &MeasuredRound, i: u64, instance: &Instance) -> Round {
    let whole = round.cost.to_round(instance.cost_ticks);
    let share = |total: Option<u64>| Some(share_of_cost(total?, i, round.instances.len() as u64));
    Round {
        index: round.index,
        slot: round.slot,
        phase_ns: to_ns(round.phase),
        cpu_ns: share(whole.cpu_ns),
        throttled_ns: share(whole.throttled_ns),
        suspended_ns: share(whole.suspended_ns),
        steal_ns: share(whole.steal_ns),
        run_queue_ns: share(whole.run_queue_ns),
        switches_voluntary: share(whole.switches_voluntary),
        switches_involuntary: share(whole.switches_involuntary),
        ..whole
    }
}

/// Adds the samples of an instance, or without them the index of its first tick.
fn add_samples(
    entry: Round,
    samples: &RoundSamples,
    has_runtime: bool,
    keep_samples: bool,
) -> Round {
    let first_tick = samples.ticks.first().copied().unwrap_or(samples.grid.first_tick);
    if !keep_samples {
        return Round { first_tick, ..entry };
    }
    let is_consecutive = samples.ticks.iter().zip(first_tick..).all(|(&t, k)| t == k);
    let has_unparks = has_runtime && samples.until_unpark_ns.iter().any(Option::is_some);
    Round {
        first_tick,
        lateness_ns: samples.lateness_ns.clone(),
        tick: (!is_consecutive).then(|| samples.ticks.clone()),
        until_unpark_ns: has_unparks.then(|| samples.until_unpark_ns.clone()),
        ..entry
    }
}

/// Returns warnings for programs whose cost per tick is unknown.
fn startup_warnings(plan: &Plan, starts: &StartupCosts, rounds: &[ScenarioRounds]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for (index, (scenario, rounds)) in plan.scenarios.iter().zip(rounds).enumerate() {
        let is_unknown = rounds.kept.iter().any(|round| round.cost.usage.cpu_ns.is_none());
        let Some(startup) = starts.get(index).filter(|_| is_unknown) else { continue };
        let cost = format_time(i64::try_from(startup.usage.cpu_ns).unwrap_or(i64::MAX));
        warnings.push(Warning::new("command-start", format!(
                "starting {} takes {cost} of CPU time, in some rounds more than all its ticks, so the CPU time per tick is unknown",
                scenario.id
            ), "use longer rounds: --round-ticks"));
    }
    warnings
}

/// Returns warnings for programs whose cost was counted in a longer window than that of their ticks.
fn window_warnings(plan: &Plan, starts: &StartupCosts, rounds: &[ScenarioRounds]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for (index, (scenario, rounds)) in plan.scenarios.iter().zip(rounds).enumerate() {
        let costs = rounds.kept.iter().map(|round| &round.cost.usage);
        let is_counted_outside =
            { costs }.any(|usage| usage.cpu_ns.is_some() && usage.window_ns.is_none());
        if scenario.subject.program().is_none() || !is_counted_outside {
            continue;
        }
        let ticks = rounds.kept.iter().flat_map(|round| &round.instances).map(|i| i.cost_ticks);
        let outside = starts.describe_outside(index, ticks.min().unwrap_or(1));
        warnings.push(Warning::new(
            "command-window",
            format!("the CPU time per tick of {} includes {outside}", scenario.id),
            "let the program write its usage between ticks, as a meter of tickmeter does",
        ));
    }
    warnings
}

/// Returns warnings for subjects whose rounds have a single tick and no tick before it, so that their
/// CPU time has no window.
fn single_tick_warnings(plan: &Plan, rounds: &[ScenarioRounds]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for (scenario, rounds) in plan.scenarios.iter().zip(rounds) {
        let is_single = scenario.round_ticks.min(scenario.ticks) == 1 && scenario.warmup_ticks == 0;
        let is_unknown = rounds.kept.iter().any(|round| round.cost.usage.cpu_ns.is_none());
        if !is_single || !is_unknown || scenario.subject.program().is_some() {
            continue;
        }
        warnings.push(Warning::new(
            "single-tick",
            format!(
                "the rounds of {} are a single tick, so the CPU time per tick is unknown",
                scenario.id
            ),
            "use --warmup 1",
        ));
    }
    warnings
}

/// Returns warnings for programs that leave processes running.
fn left_over_warnings(plan: &Plan, rounds: &[ScenarioRounds]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for (scenario, rounds) in plan.scenarios.iter().zip(rounds) {
        if rounds.killed_processes > 0 {
            warnings.push(Warning::new("left-over-processes", format!(
                    "processes of {} still ran when it had exited, and were killed ({} in all rounds): their work is missing from its costs",
                    scenario.id, rounds.killed_processes
                ), "let the program wait for its processes"));
        }
    }
    warnings
}

/// Code of the warning about excluded rounds.
pub const SETTINGS_CHANGED: &str = "settings-changed";

/// Returns warnings for subjects with rounds during which a setting changed.
fn exclusion_warnings(plan: &Plan, rounds: &[ScenarioRounds]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for (Scenario { id, .. }, rounds) in plan.scenarios.iter().zip(rounds) {
        warnings.extend(exclusion_warning(id, &rounds.excluded));
        let profiled = &rounds.changes_while_profiled;
        let count = pluralize(profiled.len() as u64, "profiled round");
        warnings.extend(change_warning(id, &count, profiled.iter().flatten()));
    }
    warnings
}

/// Returns a warning about the excluded rounds of a subject, or `None` without one.
pub fn exclusion_warning(name: &str, excluded: &[ExcludedRound]) -> Option<Warning> {
    let count = pluralize(excluded.len() as u64, "round");
    change_warning(name, &count, excluded.iter().flat_map(|round| &round.changes))
}

/// Returns a warning about excluded rounds, with their number, or `None` without a change.
fn change_warning<'a>(
    name: &str,
    count: &str,
    changes: impl Iterator<Item = &'a Change>,
) -> Option<Warning> {
    let changes = describe_changes(changes);
    (!changes.is_empty()).then(|| {
        Warning::new(
            SETTINGS_CHANGED,
            format!("{count} of {name} excluded: {changes}"),
            "keep other programs from changing settings while osjitter measures",
        )
    })
}

fn describe_exclusions(rounds: &[ExcludedRound]) -> String {
    describe_changes(rounds.iter().flat_map(|round| &round.changes))
}

/// Describes changes of settings, each once.
pub fn describe_changes<'a>(changes: impl IntoIterator<Item = &'a Change>) -> String {
    const MAX_DESCRIBED: usize = 4;
    let mut described: Vec<String> = Vec::new();
    for Change { what, from, to } in changes {
        let text = format!("the {what} was changed from {from} to {to}");
        if !described.contains(&text) {
            described.push(text);
        }
    }
    let others = described.len().saturating_sub(MAX_DESCRIBED);
    described.truncate(MAX_DESCRIBED);
    let rest = if others > 0 { format!(", and {others} more") } else { String::new() };
    described.join(", ") + &rest
}

/// Returns warnings about the trustworthiness of the results.
fn run_warnings(
    host: &Host,
    plan: &Plan,
    suspended: Option<Duration>,
    rounds: &[ScenarioRounds],
) -> Vec<Warning> {
    let pools = rounds.iter().filter_map(|r| r.pool.as_ref());
    let builtin = plan.scenarios.iter().filter_map(|s| s.subject.as_builtin());
    let is_scripted = { builtin }.any(|subject| subject.runtime_kind == RuntimeKind::Script);
    let program = plan.scenarios.iter().find_map(|s| s.subject.program());
    let warnings = [
        suspended.filter(|length| !length.is_zero()).map(suspended_warning),
        pools.map(Pool::rounds).max().map(dropped_rounds_warning),
        is_scripted.then(scripted_warning),
        program.filter(|_| plan.tuning.mlock).map(unlocked_program_warning),
        tach::why_not_counter().map(|why| os_clock_warning(&why.to_string())),
        host.quota_cpus.map(quota_warning),
    ];
    warnings.into_iter().flatten().collect()
}

/// Returns the warning about the one setting of a plan that programs do not inherit.
fn unlocked_program_warning(program: &Program) -> Warning {
    Warning::new(
        "mlock-program",
        format!(
            "--mlock locks the memory of osjitter, but not that of programs such as {}",
            program.name()
        ),
        "let the program call mlockall itself",
    )
}

fn suspended_warning(length: Duration) -> Warning {
    Warning::new(
        "suspended",
        format!("the machine was suspended for {:.1} s during the run", length.as_secs_f64()),
        "the round in which it happened is invalid; measure again on a machine that stays awake",
    )
}

fn dropped_rounds_warning(rounds: u64) -> Warning {
    Warning::new(
        "rounds-drawn",
        format!(
            "the report keeps {MAX_KEPT_ROUNDS} random rounds of up to {rounds} of each subject; percentiles cover all ticks, \
             with three digits"
        ),
        "confidence intervals use only these rounds and are wider; run without --no-samples to keep all",
    )
}

fn scripted_warning() -> Warning {
    Warning::new(
        "scripted",
        "scripted subjects replay a file: their numbers were not measured",
        "use them only to test osjitter",
    )
}

fn os_clock_warning(why_not_counter: &str) -> Warning {
    Warning::new(
        "os-clock",
        format!("timestamps come from the OS clock: {why_not_counter}"),
        "each timestamp costs tens of nanoseconds more; on Linux, the clock source tsc avoids that",
    )
}

fn quota_warning(cpus: f64) -> Warning {
    Warning::new(
        "cpu-quota",
        format!("the control group allows {cpus:.2} CPUs, and throttling looks like lateness"),
        "measure without a CPU limit",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::cost::Cost;
    use crate::measure::why::{RoundDiagnosis, Unavailable};
    use crate::scenario::{Length, ProfileOptions, ScenarioArgs, parse_subject};

    /// Scenarios of two rounds, with these subjects.
    fn scenarios(subjects: &[&str]) -> Vec<Scenario> {
        let scenario = |name: &&str| {
            let args = ScenarioArgs {
                subjects: vec![parse_subject(name).unwrap()],
                length: Some(Length::Rounds(2)),
                ..ScenarioArgs::default()
            };
            args.single_scenario().unwrap()
        };
        subjects.iter().map(scenario).collect()
    }

    #[test]
    fn shares_add_up_to_cost() {
        for (total, instances) in [(0, 3), (1, 100), (199, 100), (u64::MAX, 7)] {
            let share = |instance| share_of_cost(total, instance, instances);
            assert_eq!((0..instances).map(share).sum::<u64>(), total);
            assert!(share(0) - share(instances - 1) <= 1, "{total} {instances}");
        }
    }

    #[test]
    fn excluded_diagnoses_complete_no_run() {
        let plan = Plan {
            seed: 1,
            scenarios: scenarios(&["os-interval"]),
            tuning: tuning::Settings::default(),
            samples: true,
            why: Some(ProfileOptions::default()),
        };
        let conditions = Conditions {
            host: Host::default(),
            changes: Vec::new(),
            started_utc: String::new(),
            starts: StartupCosts::default(),
        };
        let mut builder = ReportBuilder::new(&plan, conditions, None);
        let round = |diagnosis, setting_changes| MeasuredRound {
            index: 0,
            slot: 0,
            phase: Duration::ZERO,
            instances: Vec::new(),
            cost: Cost::default(),
            backend: None,
            clock: None,
            stopped: false,
            diagnosis,
            setting_changes,
        };
        let [what, from, to] = ["nice value", "0", "1"].map(str::to_owned);
        let unavailable = RoundDiagnosis::unavailable(0, &Unavailable::NoThreads);
        // The first of two rounds, its profiled round, then an interrupt.
        builder.add(0, Ok(round(None, Vec::new())));
        builder.add(0, Ok(round(Some(unavailable), vec![Change { what, from, to }])));
        let report = builder.finish(&[None], true);
        let subject = &report.subjects[0];
        assert_eq!((&subject.status, subject.excluded.len()), (&Status::Partial, 0));
        let warning = report.warnings.iter().find(|warning| warning.code == SETTINGS_CHANGED);
        let change = "excluded: the nice value was changed from 0 to 1";
        assert_eq!(
            warning.unwrap().message,
            format!("1 profiled round of {} {change}", subject.id)
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn sleeping_subjects_change_slack() {
        let change = |subjects: &[&str]| {
            let scenarios = scenarios(subjects);
            let measure = move || {
                crate::machine::os::set_timer_slack_ns(777).unwrap();
                slack_change(&scenarios)
            };
            std::thread::spawn(measure).join().unwrap().map(|change| change.what)
        };
        let slack_of = |names: &str| {
            Some(format!("timer slack of the measuring thread, during rounds of {names}"))
        };
        assert_eq!(change(&["os-interval", "spin"]), None);
        assert_eq!(change(&["os-interval-blocking"]), slack_of("os-interval-blocking"));
        assert_eq!(
            change(&["nanosleep", "os-interval", "os-interval-blocking-precise", "nanosleep"]),
            slack_of("nanosleep, os-interval-blocking-precise")
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn real_time_control_changes_no_slack() {
        use crate::machine::os::{self, Sched};
        let change = |class: Option<Sched>| {
            os::set_timer_slack_ns(777).unwrap();
            class.map_or(Ok(()), os::set_sched).map(|()| slack_change(&scenarios(&["nanosleep"])))
        };
        let run = |class| std::thread::spawn(move || change(class)).join().unwrap();
        let normal = run(None).unwrap().unwrap();
        assert_eq!([normal.from, normal.to], ["777ns", "1ns"]);
        // Without the privilege there is no such thread.
        if let Ok(change) = run(Some(Sched::Fifo(1))) {
            assert_eq!(change, None);
        }
    }
}
