//! Diagnosis of a scenario: the sum over its profiled rounds.

use std::time::Instant;

use files::report::why::{Missing, Why};
use files::why::pool::{Pool, ReferenceRound};
use jitterstat::stats::quantile::nearest_rank;

use crate::measure::round::MeasuredRound;
use crate::scenario::{ProfileOptions, Scenario};
use cli::units::to_ns;

/// The profiled rounds of a scenario, and the rounds with which they are compared.
#[derive(Debug)]
pub struct ScenarioDiagnosis {
    pool: Pool,
    reference_rounds: Vec<ReferenceRound>,
    /// The lowest tier that was not available.
    missing: Option<Missing>,
    /// The lowest tier that was not available in a round that lost records.
    missing_after_loss: Option<Missing>,
}

impl ScenarioDiagnosis {
    pub fn new(options: ProfileOptions, scenario: &Scenario) -> Self {
        let planned = scenario.ticks.saturating_mul(scenario.instances);
        Self {
            pool: Pool::new(options.threshold.map(to_ns), planned),
            reference_rounds: Vec::new(),
            missing: None,
            missing_after_loss: None,
        }
    }

    /// Adds a profiled round.
    pub fn add(&mut self, round: &MeasuredRound, started: Instant) {
        let Some(diagnosis) = &round.diagnosis else { return };
        let mut profiled = diagnosis.round.clone();
        profiled.start_ns = round
            .instances
            .first()
            .map_or(0, |i| to_ns(i.start.saturating_duration_since(started)));
        profiled.cpu_ns_per_tick =
            reference_round(round).and_then(|reference| reference.cpu_ns_per_tick);
        let lowest = match profiled.is_complete() {
            true => &mut self.missing,
            false => &mut self.missing_after_loss,
        };
        // The reason for the lowest of the missing tiers is kept.
        if let Some(missing) = &diagnosis.missing
            && lowest.as_ref().is_none_or(|lowest| missing.tier < lowest.tier)
        {
            *lowest = Some(missing.clone());
        }
        self.pool.add(profiled);
    }

    /// Adds a round that was not profiled, as a reference.
    pub fn add_reference(&mut self, round: &MeasuredRound) {
        self.reference_rounds.extend(reference_round(round));
    }

    /// Returns the sum over all rounds. Lost records are the reason for a missing tier only if no
    /// round is complete.
    pub fn finish(&self) -> Why {
        let missing = match self.pool.has_complete_round() {
            true => &self.missing,
            false => &self.missing_after_loss,
        };
        self.pool.clone().finish(&self.reference_rounds, missing.clone())
    }
}

/// Returns the values that are compared between a profiled round and its reference, or `None` if
/// the round has no tick.
fn reference_round(round: &MeasuredRound) -> Option<ReferenceRound> {
    let mut lateness: Vec<i64> =
        round.instances.iter().flat_map(|i| i.samples.lateness_ns.iter().copied()).collect();
    lateness.sort_unstable();
    let cost_ticks: u64 = round.instances.iter().map(|i| i.cost_ticks).sum();
    let cpu_ns_per_tick = round.cost.usage.cpu_ns.map(|cpu| cpu as f64 / cost_ticks.max(1) as f64);
    Some(ReferenceRound { index: round.index, p50: nearest_rank(&lateness, 0.5)?, cpu_ns_per_tick })
}
