//! `osjitter doctor --prove`: each setting that this process may change for itself, against leaving
//! everything as it is, in the same rounds.
//!
//! A setting is a scenario of one plan, which the measuring loop runs as any other; it is put in
//! force before each of its rounds, on the thread that measures, and put back after it. What
//! differs is judged by [`files::compare::family`].

mod settings;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use cli::exit::{self, Error, usage};
use cli::units::format_exact_duration;
use engine::machine::os;
use engine::machine::setting::{Setting, SettingGuard};
use engine::machine::tuning;
use engine::measure::load::Loads;
use engine::measure::order::Observer;
use engine::measure::program::StartupCosts;
use engine::measure::record::{self, Conditions};
use engine::measure::round::MeasuredRound;
use engine::scenario::{self, DEFAULT_PERIOD, Length, Plan, Scenario, ScenarioArgs, parse_subject};
use engine::subject::{RuntimeKind, SubjectInfo};
use files::compare::{self, MIN_COMPARED_PAIRS};
use files::report::{Host, Report, Status, Subject};

use crate::doctor::args::ProveArgs;
use crate::doctor::file::{Figures, Outcome, Proof, Proved, Row};
use crate::interrupt;
use crate::terminal::{self, Progress};

use settings::{Tried, tried};

/// All intervals of a proof hold what they are of, but in so many of the proofs.
const ALPHA: f64 = 0.05;
/// More rounds than this say nothing more; the exact distribution takes long.
const MAX_ROUNDS: u64 = 400;
/// What is measured unless told otherwise: the kernel's timer, and tokio's own.
const SUBJECTS: [&str; 2] = ["os-interval", "tokio-interval"];
/// What the machine could give meanwhile; by them its fitness is judged.
const CONTROLS: [&str; 2] = ["nanosleep", "spin"];

/// A subject with what is tried of it: the scenario as it is, and those with a setting.
struct Trial {
    subject: &'static SubjectInfo,
    baseline: String,
    /// With the id of the scenario, or why it was refused.
    rows: Vec<(Tried, Result<String, String>)>,
}

/// Tries, measures, judges.
pub fn prove(args: &ProveArgs, host: &Host) -> exit::Result<Proof> {
    let stop = Arc::default();
    let subjects = subjects(args)?;
    let scenario = |subject: &'static SubjectInfo, rounds: u64| {
        let stated = ScenarioArgs {
            subjects: vec![subject],
            periods: vec![args.period.unwrap_or(DEFAULT_PERIOD)],
            length: Some(Length::Rounds(rounds)),
            ..ScenarioArgs::default()
        };
        stated.single_scenario()
    };
    let mut planned = Planned::default();
    for subject in subjects {
        planned.add(subject, scenario(subject, 1)?, |name| {
            scenario(parse_subject(name).map_err(Error::usage)?, 1)
        })?;
    }
    for control in CONTROLS {
        planned.scenarios.push(scenario(parse_subject(control).map_err(Error::usage)?, 1)?);
    }
    let round: Duration = planned.scenarios.iter().map(Scenario::expected_duration).sum();
    let rounds =
        (args.max_time.as_nanos() / round.as_nanos().max(1)).min(u128::from(MAX_ROUNDS)) as u64;
    if rounds < MIN_COMPARED_PAIRS as u64 {
        let least = (round * MIN_COMPARED_PAIRS as u32).as_secs() + 1;
        return Err(usage!(
            "--max-time {} is too short for {} settings in {MIN_COMPARED_PAIRS} rounds; give --max-time {least}s, or fewer --subject",
            format_exact_duration(args.max_time),
            planned.held.len()
        ));
    }
    for scenario in &mut planned.scenarios {
        scenario.ticks = scenario.round_ticks * rounds;
    }
    let Planned { scenarios, held, trials } = planned;
    let seed = args.seed.unwrap_or_else(scenario::draw_seed);
    let plan =
        Plan { seed, scenarios, tuning: tuning::Settings::default(), samples: true, why: None };
    plan.check_memory()?;
    interrupt::stop_on_interrupt(&stop)?;
    let said = format!(
        "{} settings × {rounds} rounds: about {:.0}s",
        held.len(),
        plan.expected_duration().as_secs_f64()
    );
    terminal::note(args.quiet, &said);

    let mut trying = Trying {
        settings: held,
        held: None,
        failure: None,
        stop: Arc::clone(&stop),
        progress: Progress::new(plan.rounds(), args.quiet),
    };
    let started_utc = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let conditions = Conditions {
        host: host.clone(),
        changes: Vec::new(),
        started_utc,
        starts: StartupCosts::default(),
    };
    let report =
        record::measure(&plan, conditions, &mut Loads::default(), &stop, &mut trying, None);
    trying.progress.finish();
    if let Some(failure) = trying.failure {
        return Err(Error::measure(failure));
    }
    Ok(proof(&report, &plan, rounds, &trials))
}

fn subjects(args: &ProveArgs) -> exit::Result<Vec<&'static SubjectInfo>> {
    let asked = scenario::Subjects::union(args.subject.iter().cloned());
    if let Some(control) = asked.iter().find(|e| e.runtime_kind == RuntimeKind::Thread) {
        return Err(usage!(
            "{} is a control; name what is to be improved with --subject",
            control.name
        ));
    }
    match asked.is_empty() {
        true => SUBJECTS.iter().map(|name| parse_subject(name).map_err(Error::usage)).collect(),
        false => Ok(asked),
    }
}

#[derive(Default)]
struct Planned {
    scenarios: Vec<Scenario>,
    /// By the id of the scenario.
    held: HashMap<String, Setting>,
    trials: Vec<Trial>,
}

impl Planned {
    /// Adds a subject with all that is permitted of what can be tried.
    fn add(
        &mut self,
        subject: &'static SubjectInfo,
        baseline: Scenario,
        other: impl Fn(&str) -> exit::Result<Scenario>,
    ) -> exit::Result<()> {
        let allowed = os::affinity().unwrap_or_default();
        let mut rows = Vec::new();
        for tried in tried(subject.name, &allowed, os::timer_slack_ns()) {
            let permitted = tried.setting.hold().and_then(SettingGuard::release);
            let row = match permitted {
                Err(error) => Err(error.to_string()),
                Ok(()) => {
                    let like = tried.subject.map_or_else(|| Ok(baseline.clone()), &other)?;
                    let id = format!("{}+{}", baseline.id, tried.key);
                    self.held.insert(id.clone(), tried.setting);
                    self.scenarios.push(Scenario { id: id.clone(), ..like });
                    Ok(id)
                }
            };
            rows.push((tried, row));
        }
        self.trials.push(Trial { subject, baseline: baseline.id.clone(), rows });
        self.scenarios.push(baseline);
        Ok(())
    }
}

/// Puts the setting of a scenario in force for each of its rounds.
struct Trying {
    settings: HashMap<String, Setting>,
    held: Option<SettingGuard>,
    /// Why a setting could not be put in force, or back: what was measured since is not what it
    /// seems.
    failure: Option<String>,
    stop: Arc<AtomicBool>,
    progress: Progress,
}

impl Trying {
    fn fail(&mut self, id: &str, error: &std::io::Error) {
        self.failure.get_or_insert_with(|| {
            format!("{id}: the setting could not be changed any more: {error}")
        });
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Observer for Trying {
    fn before_round(&mut self, scenario: &Scenario, index: u64) {
        self.progress.show(&scenario.id, index);
        match self.settings.get(&scenario.id).map(|setting| setting.hold()) {
            Some(Ok(held)) => self.held = Some(held),
            Some(Err(error)) => self.fail(&scenario.id, &error),
            None => {}
        }
    }

    fn after_round(&mut self, scenario: &Scenario, _: &Result<MeasuredRound, String>) {
        if let Some(Err(error)) = self.held.take().map(SettingGuard::release) {
            self.fail(&scenario.id, &error);
        }
        self.progress.step();
    }
}

fn proof(report: &Report, plan: &Plan, rounds: u64, trials: &[Trial]) -> Proof {
    let of = |id: &str| report.subjects.iter().find(|s| s.id == id);
    let members: Vec<(&Subject, &Subject)> = trials
        .iter()
        .flat_map(|trial| {
            trial
                .rows
                .iter()
                .filter_map(|(_, id)| Some((of(&trial.baseline)?, of(id.as_ref().ok()?)?)))
        })
        .collect();
    let differences = compare::family(report, &members, ALPHA);
    let mut judged: HashMap<&str, _> =
        members.iter().map(|(_, s)| s.id.as_str()).zip(differences).collect();
    let mut row = |(tried, id): &(Tried, Result<String, String>)| {
        let outcome = match id {
            Err(reason) => Outcome::NotPermitted {
                reason: reason.clone(),
                needs: tried.setting.needs().to_owned(),
            },
            Ok(id) => match (of(id), judged.remove(id.as_str())) {
                (Some(Subject { status: Status::Failed { reason }, .. }), _) => {
                    Outcome::Failed { reason: reason.clone() }
                }
                (Some(subject), Some(differences)) => {
                    Outcome::Measured { figures: figures(subject), differences }
                }
                _ => Outcome::Failed { reason: "no round was measured".to_owned() },
            },
        };
        Row {
            key: tried.key.clone(),
            setting: tried.name.clone(),
            outcome,
            keep: tried.keep.clone(),
        }
    };
    let proved = trials.iter().map(|trial| Proved {
        subject: trial.subject.name.to_owned(),
        baseline: of(&trial.baseline).map(figures).unwrap_or_default(),
        rows: trial.rows.iter().map(&mut row).collect(),
    });
    let proved = proved.collect();
    let one = &plan.scenarios[0];
    Proof {
        seed: plan.seed,
        period_ns: one.period_ns(),
        rounds,
        round_ticks: one.round_ticks,
        alpha: ALPHA,
        duration_ns: report.duration_ns,
        partial: report.partial,
        fitness: report.fitness.clone(),
        subjects: proved,
    }
}

/// What all ticks of a subject come to.
fn figures(subject: &Subject) -> Figures {
    let summary = subject.summary.as_ref();
    let lateness = summary.map(|s| &s.lateness_ns);
    Figures {
        p50_ns: lateness.and_then(|l| l.p50),
        p99_ns: lateness.and_then(|l| l.p99),
        cpu_ns_per_tick: summary.and_then(|s| s.cpu_ns_per_tick),
    }
}
