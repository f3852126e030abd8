//! Collects the rounds of a run into a report.

mod round_entries;
mod run_warnings;
mod scenario_rounds;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use files::compare::compare_cpus;
use files::fitness::{Fitness, Tally};
use files::report::{Change, Clock, ExcludedRound, Host, Report, Round, SCHEMA, Status, Subject};
use files::settings;
use files::trust;
use tach::Anchor;

use crate::machine::host;
use crate::measure::diagnosis::ScenarioDiagnosis;
use crate::measure::excluded_rounds::describe_changes;
use crate::measure::load::Loads;
use crate::measure::observer_cost::observer_ns_per_tick;
use crate::measure::order::{self, Observer};
use crate::measure::program::StartupCosts;
use crate::measure::round::{MeasuredRound, RoundResult};
use crate::measure::round_error::RoundError;
use crate::measure::round_settings::RoundSettings;
use crate::measure::subject_settings::subject_settings;
use crate::scenario::{Plan, Scenario};
use crate::subject::RuntimeKind;
use cli::units::to_ns;

use round_entries::report_entries;
use run_warnings::run_warnings;
use scenario_rounds::ScenarioRounds;

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
                self.notify(scenario_index, RecordedRound::Excluded(&excluded));
                let rounds = &mut self.rounds[scenario_index];
                rounds.killed_processes += round.cost.killed_processes;
                rounds.excluded.push(excluded);
            }
            // A round that was stopped in its warm-up has lost no tick, unlike others without
            // ticks.
            Ok(round) if round.stopped && !has_planned_ticks(&round) => {
                self.rounds[scenario_index].complete = false;
            }
            Ok(round) => {
                if self.listener.is_some() {
                    let has_runtime = self.plan.scenarios[scenario_index].runtime.is_some();
                    let entries =
                        report_entries(&round, has_runtime, self.plan.samples, self.started);
                    self.notify(scenario_index, RecordedRound::Rounds(entries));
                }
                self.rounds[scenario_index].add(round);
            }
            Err(error) => {
                self.notify(scenario_index, RecordedRound::Failed(&error));
                self.failures[scenario_index] = Some(error);
            }
        }
    }

    fn notify(&mut self, scenario_index: usize, recorded: RecordedRound<'_>) {
        if let Some(listener) = &mut self.listener {
            listener(&self.plan.scenarios[scenario_index].id, recorded);
        }
    }

    /// Builds the report. `settings` are those with which the rounds of each scenario were
    /// verified. `partial` is set if the run was interrupted.
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
        let warnings = run_warnings(&host, self.plan, &starts, suspended, &self.rounds);
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
        // Disturbances by a load of the plan are not caused by the machine, and a control that failed
        // on the way did not watch all of it.
        let is_judged =
            |subject: &Subject| subject.load.is_none() && subject.status.failure().is_none();
        let judged = subjects.iter().zip(&self.rounds).filter(|(subject, _)| is_judged(subject));
        for (subject, rounds) in judged {
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
            let changes = describe_changes(rounds.excluded.iter().flat_map(|r| &r.changes));
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
