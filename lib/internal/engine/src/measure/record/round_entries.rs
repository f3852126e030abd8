//! The entries of a round in a report, and its contributions to a summary.

use std::time::Instant;

use cli::units::to_ns;
use files::report::Round;
use files::round_costs::RoundCost;
use files::summary::{InstanceRound, summarise};
use jitterstat::sample::RoundSamples;

use crate::measure::round::{Instance, MeasuredRound};

/// Returns the contributions of the instances of a round to a summary.
pub(super) fn instance_rounds(round: &MeasuredRound) -> impl Iterator<Item = InstanceRound<'_>> {
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
pub(super) fn report_entries(
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_cost() {
        for (total, instances) in [(0, 3), (1, 100), (199, 100), (u64::MAX, 7)] {
            let share = |instance| share_of_cost(total, instance, instances);
            assert_eq!((0..instances).map(share).sum::<u64>(), total);
            assert!(share(0) - share(instances - 1) <= 1, "{total} {instances}");
        }
    }
}
