//! The rounds of a scenario that a report keeps, and the pool of all of them.

use files::histogram;
use files::report::{Change, ExcludedRound, Histogram, Summary};
use files::summary::{InstanceRound, Pool, summarise};
use jitterstat::stats::random::SplitMix64;

use crate::measure::diagnosis::ScenarioDiagnosis;
use crate::measure::round::MeasuredRound;
use crate::scenario::{MAX_ROUNDS_WITHOUT_SAMPLES, Plan, Scenario};

use super::round_entries::instance_rounds;

/// Maximum number of rounds that are kept per subject with `--no-samples`.
pub(super) const MAX_KEPT_ROUNDS: usize = MAX_ROUNDS_WITHOUT_SAMPLES as usize;

/// The rounds of a scenario.
///
/// A long run without samples keeps a random sample of the rounds and a pool of all of them, so its
/// memory does not grow with the length of the run.
pub(super) struct ScenarioRounds {
    pub(super) kept: Vec<MeasuredRound>,
    /// Pool of all rounds, if not all of them are kept.
    pub(super) pool: Option<Pool>,
    /// Number of measured rounds.
    pub(super) measured: u64,
    /// Number of processes that the program left running, and that were killed.
    pub(super) killed_processes: u64,
    /// Rounds during which a setting changed, without the profiled ones.
    pub(super) excluded: Vec<ExcludedRound>,
    /// Changes of settings during each profiled round that has no diagnosis because of them.
    pub(super) changes_while_profiled: Vec<Vec<Change>>,
    /// Whether no round was stopped.
    pub(super) complete: bool,
    pub(super) error_bound_ns: u64,
    keep_all: bool,
    random: SplitMix64,
    /// Diagnosis of late ticks, if it was requested.
    pub(super) diagnosis: Option<ScenarioDiagnosis>,
}

impl ScenarioRounds {
    pub(super) fn new(plan: &Plan, scenario: &Scenario) -> Self {
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

    pub(super) fn add(&mut self, round: MeasuredRound) {
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

    /// Returns the summary and the histogram of all rounds, or `None` without a recorded tick.
    pub(super) fn summary(&self, has_runtime: bool) -> Option<(Summary, Histogram)> {
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
