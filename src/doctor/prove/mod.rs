//! `osjitter doctor --prove`: compares settings with the unchanged machine, in the same rounds.
//!
//! A setting is built in, and then one that this process may change for itself, or it is a pair of
//! commands of the user. Each setting is a scenario of one plan, which the measuring loop runs like
//! any other. The setting is applied before each of its rounds, and restored after it.
//! [`files::compare::family`] judges the differences.

mod setting_switch;
mod settings;
#[cfg(test)]
mod tests;
pub mod user_settings;

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use cli::exit::{self, Error, usage};
use cli::terminal;
use cli::terminal::progress::Progress;
use cli::units::format_exact_duration;
use cli::words::pluralize;
use engine::load::Load;
use engine::machine::os;
use engine::machine::setting::SettingGuard;
use engine::machine::tuning;
use engine::measure::load::Loads;
use engine::measure::order::Observer;
use engine::measure::program::StartupCosts;
use engine::measure::record::{self, Conditions};
use engine::measure::round::RoundResult;
use engine::measure::trial_commands::TrialCommands;
use engine::scenario::{self, DEFAULT_PERIOD, Length, Plan, Scenario, ScenarioArgs, parse_subject};
use engine::subject::SubjectInfo;
use files::compare::{self, Differences, MIN_COMPARED_PAIRS};
use files::report::{Host, Report, Status, Subject};
use files::subjects::{DefaultSelection, SUBJECTS, defaults_of};

use crate::doctor::args::ProveArgs;
use crate::doctor::file::{Figures, Outcome, Proof, Proved, Row, SettingCommands};
use crate::interrupt;

use setting_switch::{SettingSwitch, SwitchError};
use settings::{SettingTrial, list_trials, untried_cpus, user_trial};

/// Maximum share of proofs in which an interval of any row is wrong.
const ALPHA: f64 = 0.05;
/// Maximum number of rounds: more would hardly narrow the intervals, and the exact distribution of
/// the test is slow to compute.
const MAX_ROUNDS: u64 = 400;

/// A subject with the settings to try. The outcomes are those of settings without a round.
#[derive(Clone)]
struct PlannedSubject {
    /// The id of the scenario without a setting.
    baseline: String,
    proved: Proved,
}

/// Returns the id of the scenario with a setting.
fn trial_id(baseline: &str, key: &str) -> String {
    format!("{baseline}+{key}")
}

/// Plans and measures a proof, and judges the differences.
pub fn prove(args: &ProveArgs, host: &Host) -> exit::Result<Proof> {
    let stop = Arc::default();
    let mut proof_plan = ProofPlan::from_args(args)?;
    let settings = std::mem::take(&mut proof_plan.settings);
    let setting_count = settings.len();
    // The process that it starts must be older than the loads, which end all younger processes.
    interrupt::stop_on_interrupt(&stop)?;
    let mut switch = SettingSwitch::new(settings, &stop)?;
    let switch_time = switch.rehearse(&proof_plan.scenarios, &stop)?;
    let rounds = proof_plan.spread_rounds(args.max_time, switch_time)?;
    let ProofPlan { scenarios, subjects, .. } = proof_plan;
    let seed = args.seed.unwrap_or_else(scenario::draw_seed);
    let plan =
        Plan { seed, scenarios, tuning: tuning::Settings::default(), samples: true, why: None };
    plan.check_memory("a shorter --max-time or fewer subjects")?;
    let mut loads = Loads::start(&plan.scenarios)?;
    let time = plan.expected_duration() + switch_time * u32::try_from(rounds).unwrap_or(u32::MAX);
    let note = format!(
        "{} × {}: about {:.0}s",
        pluralize(setting_count, "setting"),
        pluralize(rounds, "round"),
        time.as_secs_f64()
    );
    terminal::note(args.quiet, &note);

    let progress = Progress::new(plan.rounds(), args.quiet);
    let mut observer = ProofObserver::new(switch, progress, args.max_time);
    let started_utc = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let conditions = Conditions {
        host: host.clone(),
        changes: Vec::new(),
        started_utc,
        starts: StartupCosts::default(),
    };
    let report = record::measure(&plan, conditions, &mut loads, &stop, &mut observer, None);
    loads.end();
    observer.progress.finish();
    if let Some(failure) = observer.failure {
        return Err(Error::measure(failure.to_string()));
    }
    let is_cut = observer.is_cut.get();
    let completed = count_complete_rounds(&report).filter(|_| is_cut).unwrap_or(rounds);
    if completed < rounds {
        let note = format!("--max-time ended the proof after {completed} of {rounds} rounds");
        terminal::note(args.quiet, &note);
    }
    let load = Some(&args.load).filter(|load| !load.is_none()).map(ToString::to_string);
    let mut proof = Proof { load, ..judge(&report, &plan, completed, subjects) };
    if args.tries.is_empty() || args.built_in {
        let allowed = os::affinity().unwrap_or_default();
        proof.warnings.extend(untried_cpus(allowed.len()));
    }
    Ok(proof)
}

/// Returns the subjects to measure; fails if a control is among them.
fn select_subjects(args: &ProveArgs) -> exit::Result<Vec<&'static SubjectInfo>> {
    let subjects = scenario::Subjects::union(args.subject.iter().cloned());
    if let Some(control) = subjects.iter().find(|subject| subject.is_control()) {
        return Err(usage!(
            "{} is a control; name the subject to improve with --subject",
            control.name
        ));
    }
    match subjects.is_empty() {
        true => Ok(defaults_of(DefaultSelection::Prove).collect()),
        false => Ok(subjects),
    }
}

/// Returns a scenario of one round.
fn single_round(
    args: &ProveArgs,
    subject: &'static SubjectInfo,
    load: &Load,
) -> exit::Result<Scenario> {
    let scenario_args = ScenarioArgs {
        subjects: vec![subject],
        loads: vec![load.clone()],
        periods: vec![args.period.unwrap_or(DEFAULT_PERIOD)],
        length: Some(Length::Rounds(1)),
        ..ScenarioArgs::default()
    };
    scenario_args.single_scenario()
}

/// Returns the settings to try with a subject. The first one changes nothing.
fn select_trials(
    args: &ProveArgs,
    subject: &SubjectInfo,
    user_settings: &[TrialCommands],
) -> exit::Result<Vec<SettingTrial>> {
    let allowed = os::affinity().unwrap_or_default();
    let mut trials = list_trials(subject, &allowed, os::timer_slack_ns());
    if !user_settings.is_empty() && !args.built_in {
        trials.truncate(1);
    }
    for commands in user_settings {
        let name = &commands.name;
        if trials.iter().any(|trial| trial.key == *name) {
            return Err(usage!("--try {name}: another setting has this name; choose another name"));
        }
        trials.push(user_trial(commands));
    }
    Ok(trials)
}

/// The scenarios of a proof.
#[derive(Default)]
struct ProofPlan {
    scenarios: Vec<Scenario>,
    /// The setting of each scenario id; baselines and controls have none.
    settings: HashMap<String, SettingTrial>,
    subjects: Vec<PlannedSubject>,
}

impl ProofPlan {
    fn from_args(args: &ProveArgs) -> exit::Result<Self> {
        let mut plan = Self::default();
        let user_settings = user_settings::pair(&args.tries, &args.undo)?;
        for subject in select_subjects(args)? {
            plan.add_subject(args, subject, &user_settings)?;
        }
        // The fitness of the machine is judged by the controls.
        for control in SUBJECTS.iter().filter(|subject| subject.is_control()) {
            plan.scenarios.push(single_round(args, control, &Load::None)?);
        }
        Ok(plan)
    }

    /// Adds a subject with each setting that is permitted.
    fn add_subject(
        &mut self,
        args: &ProveArgs,
        subject: &'static SubjectInfo,
        user_settings: &[TrialCommands],
    ) -> exit::Result<()> {
        let baseline = single_round(args, subject, &args.load)?;
        let mut rows = Vec::new();
        for trial in select_trials(args, subject, user_settings)? {
            let outcome = match trial.setting.hold().and_then(SettingGuard::release) {
                Ok(()) => {
                    self.add_trial(args, &baseline, &trial)?;
                    Outcome::Failed { reason: "no round was measured".to_owned() }
                }
                Err(error) => {
                    let needs = trial.setting.needs().to_owned();
                    Outcome::NotPermitted { reason: error.to_string(), needs }
                }
            };
            let SettingTrial { key, name: setting, keep, commands, .. } = trial;
            let commands = commands.as_ref().map(SettingCommands::from);
            rows.push(Row { key, setting, outcome, keep, commands });
        }
        let subject = subject.name.to_owned();
        let proved = Proved { subject, baseline: Figures::default(), rows };
        self.subjects.push(PlannedSubject { baseline: baseline.id.clone(), proved });
        self.scenarios.push(baseline);
        Ok(())
    }

    /// Adds the scenario of a trial.
    fn add_trial(
        &mut self,
        args: &ProveArgs,
        baseline: &Scenario,
        trial: &SettingTrial,
    ) -> exit::Result<()> {
        let template = match trial.subject {
            None => baseline.clone(),
            Some(name) => single_round(args, parse_subject(name)?, &args.load)?,
        };
        let id = trial_id(&baseline.id, &trial.key);
        self.settings.insert(id.clone(), trial.clone());
        self.scenarios.push(Scenario { id, ..template });
        Ok(())
    }

    /// Gives every scenario as many rounds as fit into `max_time`, and returns their number.
    /// `switch_time` is the time that all settings need in a round.
    fn spread_rounds(&mut self, max_time: Duration, switch_time: Duration) -> exit::Result<u64> {
        let measuring: Duration = self.scenarios.iter().map(Scenario::expected_duration).sum();
        let round = measuring + switch_time;
        let fitting = max_time.as_nanos() / round.as_nanos().max(1);
        let rounds = fitting.min(u128::from(MAX_ROUNDS)) as u64;
        if rounds < MIN_COMPARED_PAIRS as u64 {
            let min_seconds = (round * MIN_COMPARED_PAIRS as u32).as_secs() + 1;
            return Err(usage!(
                "--max-time {} is too short for {} settings in {MIN_COMPARED_PAIRS} rounds; give --max-time {min_seconds}s, or fewer --subject",
                format_exact_duration(max_time),
                self.subjects.iter().map(|subject| subject.proved.rows.len()).sum::<usize>()
            ));
        }
        for scenario in &mut self.scenarios {
            scenario.ticks = scenario.round_ticks * rounds;
        }
        Ok(rounds)
    }
}

/// Applies the setting of a scenario for each of its rounds.
struct ProofObserver {
    switch: SettingSwitch,
    /// Why a setting could not be applied or restored. Rounds after that are not what they seem.
    failure: Option<SwitchError>,
    progress: Progress,
    started: tach::Instant,
    max_time: Duration,
    /// Index of the latest round.
    round: u64,
    /// Whether the time was over before the last round.
    is_cut: Cell<bool>,
}

impl ProofObserver {
    fn new(switch: SettingSwitch, progress: Progress, max_time: Duration) -> Self {
        let started = tach::Instant::now();
        let is_cut = Cell::new(false);
        Self { switch, failure: None, progress, started, max_time, round: 0, is_cut }
    }
}

impl Observer for ProofObserver {
    fn before_round(&mut self, scenario: &Scenario, index: u64) {
        self.round = index;
        self.progress.show(&scenario.id, index);
        let applied = self.switch.apply(&scenario.id);
        self.failure = self.failure.take().or(applied.err());
    }

    fn after_round(&mut self, scenario: &Scenario, _: &RoundResult) {
        let restored = self.switch.restore(&scenario.id);
        self.failure = self.failure.take().or(restored.err());
        self.progress.step();
    }

    /// The commands can take longer than in the rehearsal, and rounds longer than expected.
    fn should_stop(&self) -> bool {
        let has_min_rounds = self.round >= MIN_COMPARED_PAIRS as u64;
        self.is_cut.set(has_min_rounds && self.started.elapsed() >= self.max_time);
        self.failure.is_some() || self.is_cut.get()
    }

    fn changes_settings(&self) -> bool {
        true
    }
}

/// Returns the number of rounds that all subjects had which did not fail; `None` without one.
fn count_complete_rounds(report: &Report) -> Option<u64> {
    let measured = report.subjects.iter().filter(|subject| failure_reason(subject).is_none());
    measured.map(|subject| (subject.rounds.len() + subject.excluded.len()) as u64).min()
}

fn find_subject<'a>(report: &'a Report, id: &str) -> Option<&'a Subject> {
    report.subjects.iter().find(|subject| subject.id == id)
}

/// Compares every measured trial with the baseline of its subject. Returns the differences by the
/// id of the trial.
fn compare_trials<'a>(
    report: &'a Report,
    subjects: &[PlannedSubject],
) -> HashMap<&'a str, Differences> {
    let mut pairs: Vec<(&Subject, &Subject)> = Vec::new();
    for PlannedSubject { baseline, proved } in subjects {
        let ids = proved.rows.iter().map(|row| trial_id(baseline, &row.key));
        let Some(baseline) = find_subject(report, baseline) else { continue };
        let candidates = ids.filter_map(|id| find_subject(report, &id));
        pairs.extend(candidates.map(|candidate| (baseline, candidate)));
    }
    let differences = compare::family(report, &pairs, ALPHA);
    let ids = pairs.iter().map(|(_, candidate)| candidate.id.as_str());
    ids.zip(differences).collect()
}

/// Judges the difference of every setting, and assembles the proof.
fn judge(report: &Report, plan: &Plan, rounds: u64, subjects: Vec<PlannedSubject>) -> Proof {
    let mut differences = compare_trials(report, &subjects);
    let mut results = Vec::with_capacity(subjects.len());
    for PlannedSubject { baseline, mut proved } in subjects {
        let current = find_subject(report, &baseline);
        proved.baseline = current.map(figures).unwrap_or_default();
        let current_failure = current.and_then(failure_reason);
        for row in &mut proved.rows {
            let id = trial_id(&baseline, &row.key);
            let Some(subject) = find_subject(report, &id) else { continue };
            if let Some(reason) = failure_reason(subject).or(current_failure) {
                row.outcome = Outcome::Failed { reason: reason.to_owned() };
            } else if let Some(differences) = differences.remove(id.as_str()) {
                row.outcome = Outcome::Measured { figures: figures(subject), differences };
            }
        }
        results.push(proved);
    }
    let scenario = &plan.scenarios[0];
    Proof {
        seed: plan.seed,
        period_ns: scenario.period_ns(),
        rounds,
        round_ticks: scenario.round_ticks,
        load: None,
        alpha: ALPHA,
        duration_ns: report.duration_ns,
        partial: report.partial,
        fitness: report.fitness.clone(),
        warnings: report.warnings.clone(),
        subjects: results,
    }
}

/// Returns why a subject could not be measured, if it could not.
fn failure_reason(subject: &Subject) -> Option<&str> {
    match &subject.status {
        Status::Failed { reason } => Some(reason),
        _ => None,
    }
}

/// Returns the statistics over all ticks of a subject.
fn figures(subject: &Subject) -> Figures {
    let summary = subject.summary.as_ref();
    let lateness = summary.map(|s| &s.lateness_ns);
    Figures {
        p50_ns: lateness.and_then(|l| l.p50),
        p99_ns: lateness.and_then(|l| l.p99),
        cpu_ns_per_tick: summary.and_then(|s| s.cpu_ns_per_tick),
    }
}
