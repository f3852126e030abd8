//! The arguments that define scenarios: validation, defaults and expansion.

use std::time::Duration;

use files::report::{self, defaults};

use crate::load::Load;
use crate::machine::cpu_selection::CpuSelection;
use crate::program::Program;
use crate::scenario::round_length::{self, RoundLength};
use crate::scenario::tokio_runtime::Runtime;
use crate::scenario::{Scenario, deduplicate};
use crate::subject::SubjectInfo;
use crate::subject::target::Target;
use cli::exit::{self, usage};
use cli::units;
use cli::words::prefix_or_empty;
use files::subjects::{DefaultSelection, SLEEPING_CONTROL, defaults_of};

pub const DEFAULT_PERIOD: Duration = Duration::from_nanos(defaults::PERIOD_NS);
/// Maximum number of instances. A larger number is probably a typing error.
const MAX_INSTANCES: u64 = 100_000;

/// A request to measure scenarios. Missing values have a default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScenarioArgs {
    /// Subjects, which form a matrix with periods, runtimes and loads. An empty list selects the
    /// default.
    pub subjects: Vec<&'static SubjectInfo>,
    /// Programs to measure in addition to the subjects, or alone if no subject is given.
    pub commands: Vec<Program>,
    pub periods: Vec<Duration>,
    pub runtimes: Vec<Runtime>,
    pub loads: Vec<Load>,
    pub length: Option<Length>,
    pub round_ticks: Option<u64>,
    pub warmup: Option<u64>,
    pub instances: Option<u64>,
    /// CPUs on which each scenario runs at once, with a thread on each.
    pub cpus: Option<CpuSelection>,
}

/// Amount to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    Ticks(u64),
    Time(Duration),
    /// A number of rounds, each as long as those of a long run.
    Rounds(u64),
}

impl ScenarioArgs {
    /// Expands the arguments to every combination, ordered by period, subject, runtime, load and
    /// CPU.
    ///
    /// # Errors
    ///
    /// Returns an error if an argument is invalid or there are too many combinations.
    pub fn scenarios(&self) -> exit::Result<Vec<Scenario>> {
        let targets = self.targets();
        let runtimes = list_or(&self.runtimes, || vec![Runtime::CurrentThread]);
        let periods = list_or(&self.periods, || vec![DEFAULT_PERIOD]);
        let loads = list_or(&self.loads, || vec![Load::None]);
        let cpus = self.cpu_numbers()?;
        let counts = [targets.len(), runtimes.len(), loads.len(), cpus.len()];
        check_scenario_count(counts.iter().fold(periods.len(), |n, m| n.saturating_mul(*m)))?;
        let mut scenarios = Vec::new();
        for period in periods {
            for target in &targets {
                for runtime in &runtimes {
                    for load in &loads {
                        let scenario = self.scenario(target, period, *runtime, load)?;
                        for &cpu in &cpus {
                            let mut bound = Scenario { cpu, ..scenario.clone() };
                            bound.id = scenario_id(&bound);
                            scenarios.push(bound);
                        }
                    }
                }
            }
        }
        check_task_loads(&loads, &scenarios)?;
        Ok(deduplicate(scenarios))
    }

    /// Expands the arguments to a single scenario.
    ///
    /// # Errors
    ///
    /// Returns an error if an argument is invalid or there is more than one combination.
    pub fn single_scenario(&self) -> exit::Result<Scenario> {
        let mut scenarios = self.scenarios()?;
        match scenarios.len() {
            1 => Ok(scenarios.remove(0)),
            count => Err(usage!(
                "expected exactly one scenario, got {count}; select one subject, period and runtime"
            )),
        }
    }

    /// Returns the CPUs on which each scenario runs at once, or `None` as the only element.
    ///
    /// # Errors
    ///
    /// Returns an error if a scenario of these arguments cannot be bound to one CPU.
    fn cpu_numbers(&self) -> exit::Result<Vec<Option<usize>>> {
        let Some(cpus) = &self.cpus else { return Ok(vec![None]) };
        if let Some(program) = self.commands.first() {
            return Err(usage!(
                "--each measures threads of osjitter, and {} is a program; measure it with --cpu N",
                program.text()
            ));
        }
        let has_threads = |runtime: &&Runtime| !matches!(runtime, Runtime::CurrentThread);
        if let Some(runtime) = self.runtimes.iter().find(has_threads) {
            return Err(usage!(
                "--each measures one thread per CPU, and --runtime {runtime} has more; use current-thread"
            ));
        }
        Ok(cpus.numbers()?.into_iter().map(Some).collect())
    }

    /// Returns the given programs and subjects, or the default subjects: for several CPUs at once,
    /// only the control, which shows the CPUs themselves.
    fn targets(&self) -> Vec<Target> {
        let subjects = match &self.subjects[..] {
            [] if !self.commands.is_empty() => Vec::new(),
            [] if self.cpus.is_some() => vec![SLEEPING_CONTROL],
            [] => defaults_of(DefaultSelection::Run).collect(),
            subjects => subjects.to_vec(),
        };
        let programs = self.commands.iter().cloned().map(Target::Program);
        programs.chain(subjects.into_iter().map(Target::Builtin)).collect()
    }

    fn scenario(
        &self,
        target: &Target,
        period: Duration,
        runtime: Runtime,
        load: &Load,
    ) -> exit::Result<Scenario> {
        round_length::check_period(period)?;
        let default_round_ticks = round_length::default_ticks(period);
        let ticks = self.ticks(period, default_round_ticks)?;
        let round_ticks = self.round_ticks(period, ticks, default_round_ticks);
        let round = RoundLength::new(period, Some(round_ticks), self.warmup)?;
        let has_runtime = target.as_builtin().is_some_and(|e| e.runtime_kind.has_runtime());
        let runtime = has_runtime.then_some(runtime);
        // A bare thread is a control, and a program belongs to the user: one instance is enough.
        let instances = if has_runtime { self.checked_instances()? } else { 1 };
        // A load of tasks needs a runtime. Other subjects are measured once, without it.
        let has_load = load.tasks().is_none() || has_runtime;
        let load = if has_load { load.clone() } else { Load::None };
        let mut scenario = Scenario {
            id: String::new(),
            subject: target.clone(),
            period,
            runtime,
            ticks,
            round_ticks: round.ticks,
            warmup_ticks: round.warmup_ticks,
            instances,
            load,
            cpu: None,
        };
        scenario.id = scenario_id(&scenario);
        Ok(scenario)
    }

    fn checked_instances(&self) -> exit::Result<u64> {
        match self.instances.unwrap_or(1) {
            instances @ 1..=MAX_INSTANCES => Ok(instances),
            instances => {
                Err(usage!("invalid --instances {instances}: expected 1 to {MAX_INSTANCES}"))
            }
        }
    }

    /// Returns the number of ticks to record.
    fn ticks(&self, period: Duration, default_round_ticks: u64) -> exit::Result<u64> {
        match self.length.unwrap_or(Length::Ticks(defaults::TICKS)) {
            Length::Ticks(0) => Err(usage!("invalid --ticks 0: expected at least 1")),
            Length::Ticks(ticks) => Ok(ticks),
            Length::Time(time) => match round_length::ticks_in(time, period) {
                0 => {
                    let [time, period] = [time, period].map(units::format_exact_duration);
                    Err(usage!(
                        "--duration {time} contains no tick of --period {period}; give a longer --duration"
                    ))
                }
                ticks => Ok(ticks),
            },
            Length::Rounds(rounds) => {
                Ok(self.round_ticks.unwrap_or(default_round_ticks).saturating_mul(rounds))
            }
        }
    }

    /// Returns the number of recorded ticks of a full round.
    fn round_ticks(&self, period: Duration, ticks: u64, default_round_ticks: u64) -> u64 {
        match (self.round_ticks, self.length) {
            (Some(n), _) => n.min(ticks),
            (None, Some(Length::Rounds(_))) => default_round_ticks,
            (None, _) => defaults::round_ticks(units::to_ns(period), ticks),
        }
    }
}

/// Returns `given`, or the default if it is empty.
fn list_or<T: Clone>(given: &[T], default: impl FnOnce() -> Vec<T>) -> Vec<T> {
    if given.is_empty() { default() } else { given.to_vec() }
}

/// Checks that every load of tasks applies to at least one scenario.
fn check_task_loads(loads: &[Load], scenarios: &[Scenario]) -> exit::Result<()> {
    let is_unused =
        |load: &&Load| load.tasks().is_some() && scenarios.iter().all(|s| s.load != **load);
    match loads.iter().find(is_unused) {
        None => Ok(()),
        Some(load) => Err(usage!(
            "--load {load} is tasks on the runtime of a tokio subject; none of these subjects has one"
        )),
    }
}

/// Formats the id of a scenario, such as `os-interval*2@500us/current-thread/cpu-1+cpu:2`.
pub(super) fn scenario_id(scenario: &Scenario) -> String {
    let Scenario { subject, period, runtime, instances, load, cpu, .. } = scenario;
    let instances = if *instances > 1 { format!("*{instances}") } else { String::new() };
    let period = units::format_exact_duration(*period);
    let runtime = prefix_or_empty("/", *runtime);
    let cpu = prefix_or_empty("/cpu-", *cpu);
    let load = if load.is_none() { String::new() } else { format!("+{load}") };
    format!("{}{instances}@{period}{runtime}{cpu}{load}", subject.name())
}

/// Checks that a report can hold this many scenarios.
///
/// # Errors
///
/// Returns an error if there are more than [`report::MAX_SUBJECTS`].
pub fn check_scenario_count(count: usize) -> exit::Result<()> {
    let max = report::MAX_SUBJECTS;
    if count > max { Err(usage!("{count} scenarios; a plan has at most {max}")) } else { Ok(()) }
}
