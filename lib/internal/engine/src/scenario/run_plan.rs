//! The plan of a run: its scenarios and everything that applies to all of them.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use files::report;

use crate::machine::{os, tuning};
use crate::scenario::Scenario;
use cli::exit::{self, usage};
use cli::units::to_ns;

/// Maximum number of rounds that a run without samples keeps per subject.
pub const MAX_ROUNDS_WITHOUT_SAMPLES: u64 = 1_000;
/// Memory per recorded tick while the report is built: samples, sorted copies and JSON text.
const BYTES_PER_TICK: u64 = 160;

/// The plan of a run. A report has a mirror of it, [`report::Plan`], since its schema is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Seed for the round order and the start phases.
    pub seed: u64,
    pub scenarios: Vec<Scenario>,
    pub tuning: tuning::Settings,
    /// Whether the report keeps every sample.
    pub samples: bool,
    /// Diagnosis of late ticks, in as many additional rounds.
    pub why: Option<ProfileOptions>,
}

/// Options of the diagnosis of late ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProfileOptions {
    /// Minimum lateness of a diagnosed tick. Unless set, the worst 1 % are diagnosed.
    pub threshold: Option<Duration>,
}

/// Draws a random seed that every reader of JSON and TOML represents exactly.
pub fn draw_seed() -> u64 {
    // The standard library keys its hash maps at random. The hash of an empty input depends only on
    // the key.
    RandomState::new().build_hasher().finish() >> 32
}

/// Returns the indices of scenarios in groups that run at once. Most groups have one scenario.
pub fn concurrent_groups(scenarios: &[Scenario]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (index, scenario) in scenarios.iter().enumerate() {
        match groups.iter_mut().find(|group| scenarios[group[0]].runs_with(scenario)) {
            Some(group) => group.push(index),
            None => groups.push(vec![index]),
        }
    }
    groups
}

impl Plan {
    /// Returns the expected duration of the run.
    pub fn expected_duration(&self) -> Duration {
        let mut sum = Duration::ZERO;
        for group in concurrent_groups(&self.scenarios) {
            let turn = self.scenarios[group[0]].expected_duration();
            sum = sum.saturating_add(turn.saturating_mul(self.turns()));
        }
        sum
    }

    /// Returns the CPUs of scenarios that run at once.
    ///
    /// # Errors
    ///
    /// Returns an error if another option of the plan does not apply to such scenarios.
    pub fn concurrent_cpus(&self) -> exit::Result<Vec<usize>> {
        let mut cpus: Vec<usize> = self.scenarios.iter().filter_map(|s| s.cpu).collect();
        cpus.sort_unstable();
        cpus.dedup();
        if !cpus.is_empty() && self.tuning.cpu.is_some() {
            return Err(usage!("--each and --cpu exclude each other: list the CPUs with --cpus"));
        }
        if !cpus.is_empty() && self.why.is_some() {
            return Err(usage!(
                "--each and --why exclude each other: explain the ticks of one CPU with --cpu N --why"
            ));
        }
        Ok(cpus)
    }

    /// Returns how often each round runs. With a diagnosis, a profiled round is added to each.
    pub fn turns(&self) -> u32 {
        if self.why.is_some() { 2 } else { 1 }
    }

    /// Returns the number of rounds of all scenarios.
    pub fn rounds(&self) -> u64 {
        let rounds = self.scenarios.iter().map(|s| s.rounds().saturating_mul(self.turns().into()));
        rounds.fold(0, u64::saturating_add)
    }

    /// Checks that the samples fit into memory. `remedy` says which flags of the command need less.
    ///
    /// # Errors
    ///
    /// Returns an error if the samples need more memory than is available.
    pub fn check_memory(&self, remedy: &str) -> exit::Result<()> {
        let needed = self.kept_ticks().and_then(|ticks| ticks.checked_mul(BYTES_PER_TICK));
        let available = os::available_memory();
        let format_gib = |bytes: u64| format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30));
        match (needed, available) {
            (Some(needed), Some(available)) if needed <= available => Ok(()),
            (Some(needed), None) if isize::try_from(needed).is_ok() => Ok(()),
            _ => Err(usage!(
                "the samples need {}, and {} is available; give {remedy}",
                needed.map_or("more memory than there can be".into(), format_gib),
                available.map_or("an unknown amount".into(), format_gib),
            )),
        }
    }

    /// Returns the number of ticks whose samples are kept, or `None` on overflow.
    fn kept_ticks(&self) -> Option<u64> {
        let mut total = 0_u64;
        for scenario in &self.scenarios {
            let max_ticks = match self.samples {
                true => u64::MAX,
                false => scenario.round_ticks.saturating_mul(MAX_ROUNDS_WITHOUT_SAMPLES),
            };
            let kept = scenario.ticks.min(max_ticks).checked_mul(scenario.instances)?;
            total = total.checked_add(kept)?;
        }
        Some(total)
    }

    /// Converts the plan to its form in a report.
    pub fn to_report(&self) -> report::Plan {
        let tuning::Settings { cpu, sched, mlock, timer_slack } = &self.tuning;
        report::Plan {
            seed: self.seed,
            samples: self.samples,
            cpu: *cpu,
            sched: sched.map(|class| class.to_string()),
            mlock: *mlock,
            timer_slack_ns: timer_slack.map(to_ns),
            scenarios: self.scenarios.iter().map(Scenario::to_report).collect(),
            why: self.why.map(|why| report::WhyRequest { threshold_ns: why.threshold.map(to_ns) }),
        }
    }
}
