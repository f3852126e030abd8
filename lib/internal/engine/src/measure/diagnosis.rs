//! What the rounds of a scenario that were asked add up to.

use std::time::{Duration, Instant};

use files::report::why::{Missing, Tier, Why};
use files::why::pool::{Pool, ReferenceRound};
use jitterstat::stats::quantile::nearest_rank;

use crate::measure::round::MeasuredRound;
use crate::scenario::{self, Scenario};

/// Rounds of one scenario that were asked why their ticks are late.
#[derive(Debug)]
pub struct ScenarioDiagnosis {
    pool: Pool,
    beside: Vec<ReferenceRound>,
    missing: Option<Missing>,
}

impl ScenarioDiagnosis {
    pub fn new(why: scenario::ProfileOptions, scenario: &Scenario) -> Self {
        let planned = scenario.ticks.saturating_mul(scenario.instances);
        Self {
            pool: Pool::new(why.threshold.map(nanoseconds), planned),
            beside: Vec::new(),
            missing: None,
        }
    }

    /// Adds one that was asked.
    pub fn add(&mut self, round: &MeasuredRound, started: Instant) {
        let Some(answer) = &round.diagnosis else { return };
        let mut asked = answer.round.clone();
        asked.start_ns = round
            .instances
            .first()
            .map_or(0, |i| nanoseconds(i.start.saturating_duration_since(started)));
        asked.cpu_ns_per_tick = beside(round).and_then(|b| b.cpu_ns_per_tick);
        // The reason for the least that was had.
        let tier = |missing: &Option<Missing>| missing.as_ref().map(|m: &Missing| m.tier);
        let (ours, theirs): (Option<Tier>, Option<Tier>) =
            (tier(&self.missing), tier(&answer.missing));
        if theirs.is_some_and(|theirs| ours.is_none_or(|ours| theirs < ours)) {
            self.missing.clone_from(&answer.missing);
        }
        self.pool.add(asked);
    }

    /// Adds one that was not asked, to compare with.
    pub fn add_beside(&mut self, round: &MeasuredRound) {
        self.beside.extend(beside(round));
    }

    /// What they add up to.
    pub fn finish(&self) -> Why {
        self.pool.clone().finish(&self.beside, self.missing.clone())
    }
}

/// What is compared between a round that was asked and the one beside it; `None` where no tick
/// came.
fn beside(round: &MeasuredRound) -> Option<ReferenceRound> {
    let mut lateness: Vec<i64> =
        round.instances.iter().flat_map(|i| i.samples.lateness_ns.iter().copied()).collect();
    lateness.sort_unstable();
    let ran: u64 = round.instances.iter().map(|i| i.ticks_run).sum();
    let cpu_ns_per_tick = round.cost.cpu_ns.map(|cpu| cpu as f64 / ran.max(1) as f64);
    Some(ReferenceRound { index: round.index, p50: nearest_rank(&lateness, 0.5)?, cpu_ns_per_tick })
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
