//! The scenarios that are measured.
//!
//! Commands fill [`ScenarioArgs`], which expand to [`Scenario`]s.
//! The measuring loop, the gate and the report depend on the scenarios only.

use std::collections::BTreeMap;
use std::time::Duration;

use files::report;

use crate::load::Load;
pub use crate::machine::cpu_selection::CpuSelection;
use crate::program::{self, Program};
use crate::subject::target::Target;

mod round_length;
mod run_plan;
mod scenario_args;
mod scenario_error;
mod subject_pattern;
mod tokio_runtime;

pub use round_length::RoundLength;
pub use run_plan::{
    MAX_ROUNDS_WITHOUT_SAMPLES, Plan, ProfileOptions, concurrent_groups, draw_seed,
};
pub use scenario_args::{DEFAULT_PERIOD, Length, ScenarioArgs, check_scenario_count};
pub use scenario_error::ScenarioError;
pub use subject_pattern::{
    Subjects, SubjectsParser, matches_glob, parse_subject, select_by_pattern, subject_name_parser,
    subject_parser,
};
pub use tokio_runtime::{MAX_WORKERS, Runtime, runtime_parser};

/// One thing to measure. A report has a mirror of it, [`report::Scenario`], since its schema is
/// published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Identifier within a plan, for example `os-interval@500us/current-thread`.
    pub id: String,
    pub subject: Target,
    pub period: Duration,
    /// Runtime of a tokio subject.
    pub runtime: Option<Runtime>,
    /// Ticks to record over all rounds.
    pub ticks: u64,
    /// Recorded ticks of a full round.
    pub round_ticks: u64,
    /// Leading ticks of each round that are not recorded.
    pub warmup_ticks: u64,
    /// Number of concurrent tickers, each of which records `ticks`.
    pub instances: u64,
    /// Load that runs during the rounds.
    pub load: Load,
    /// CPU to which the thread is bound. Scenarios that differ only in the CPU run at once.
    pub cpu: Option<usize>,
}

impl Scenario {
    /// Returns the number of rounds. If `round_ticks` does not divide the ticks, the last round is
    /// shorter.
    pub fn rounds(&self) -> u64 {
        self.ticks.div_ceil(self.round_ticks)
    }

    /// Returns the number of ticks that round `index` records.
    pub fn ticks_of_round(&self, index: u64) -> u64 {
        self.round_ticks.min(self.ticks - index * self.round_ticks)
    }

    /// Returns the length of a full round.
    pub fn round_length(&self) -> RoundLength {
        let Self { period, round_ticks: ticks, warmup_ticks, .. } = *self;
        RoundLength { period, ticks, warmup_ticks }
    }

    /// Returns whether two scenarios run at once, because they differ only in their CPU.
    pub fn runs_with(&self, other: &Self) -> bool {
        let is_bound = self.cpu.is_some() && other.cpu.is_some();
        is_bound && *self == Self { id: self.id.clone(), cpu: self.cpu, ..other.clone() }
    }

    pub fn period_ns(&self) -> u64 {
        self.round_length().period_ns()
    }

    /// Returns the expected duration of all rounds, including the warm-up and an estimate of the
    /// set-up.
    pub fn expected_duration(&self) -> Duration {
        const SET_UP: Duration = Duration::from_millis(4);
        let ticks =
            u128::from(self.ticks) + u128::from(self.rounds()) * u128::from(self.warmup_ticks);
        let ns = ticks * self.period.as_nanos() + u128::from(self.rounds()) * SET_UP.as_nanos();
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// Converts the scenario to its form in a report.
    pub fn to_report(&self) -> report::Scenario {
        report::Scenario {
            id: self.id.clone(),
            subject: self.subject.name(),
            command: self.subject.program().map(|program| program.words().to_vec()),
            meter: self.subject.program().and_then(|p| p.meter()).map(str::to_owned),
            period_ns: self.period_ns(),
            ticks: self.ticks,
            round_ticks: self.round_ticks,
            warmup_ticks: self.warmup_ticks,
            runtime: self.runtime.map(|r| r.to_string()),
            instances: self.instances,
            load: self.reported_load(),
            cpu: self.cpu.map(|cpu| cpu as u64),
        }
    }

    /// Returns the load in its form in a report.
    pub fn reported_load(&self) -> Option<String> {
        if !self.load.is_none() { Some(self.load.to_string()) } else { None }
    }
}

/// Names the programs by their differences, and updates the ids of their scenarios.
fn name_programs(scenarios: &mut [Scenario]) {
    let mut programs: Vec<&mut Program> = Vec::new();
    for scenario in scenarios.iter_mut() {
        programs.extend(scenario.subject.program_mut());
    }
    program::name_programs(&mut programs);
    for scenario in scenarios.iter_mut().filter(|scenario| scenario.subject.program().is_some()) {
        scenario.id = scenario_args::scenario_id(scenario);
    }
}

/// Names the programs, removes duplicates, and numbers different scenarios that have the same id.
pub fn deduplicate(mut scenarios: Vec<Scenario>) -> Vec<Scenario> {
    name_programs(&mut scenarios);
    let mut kept: Vec<Scenario> = Vec::new();
    let mut by_id: BTreeMap<String, Vec<Scenario>> = BTreeMap::new();
    for scenario in scenarios {
        let twins = by_id.entry(scenario.id.clone()).or_default();
        if twins.contains(&scenario) {
            continue;
        }
        twins.push(scenario.clone());
        let id = match twins.len() {
            1 => scenario.id.clone(),
            number => format!("{}#{number}", scenario.id),
        };
        kept.push(Scenario { id, ..scenario });
    }
    kept
}

#[cfg(test)]
mod tests;
