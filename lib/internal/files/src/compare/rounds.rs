//! From the rounds of a subject to one value a round and percentile.

use std::collections::BTreeMap;

use crate::report::{Report, Round, Scenario, Subject};
use jitterstat::gate::Sides;
use jitterstat::stall;
use jitterstat::stats::Interval;
use jitterstat::stats::bootstrap::MIN_ROUNDS;
use jitterstat::stats::quantile::{is_supported_by_round, nearest_rank};
use jitterstat::stats::shift::Interval95;

/// The percentiles that are compared, as (name, quantile).
pub(super) const QUANTILES: [(&str, f64); 4] =
    [("p50", 0.50), ("p90", 0.90), ("p99", 0.99), ("p99_9", 0.999)];
/// Lateness below this is the clock's grain, and has no meaningful logarithm.
const RESOLUTION_NS: i64 = 10;

/// What one round of a subject comes to, all of its instances together.
#[derive(Clone, Debug, Default)]
pub(super) struct RoundValues {
    /// Which round.
    pub(super) index: u64,
    /// By the order of [`QUANTILES`]; `None` where the round does not carry the percentile.
    pub(super) ns: [Option<i64>; QUANTILES.len()],
    /// The same of every tick, those within a stall included.
    pub(super) all_ns: [Option<i64>; QUANTILES.len()],
    /// By how much stalls raise each, as a logarithm; `None` also where the samples do not tell.
    pub(super) lift: [Option<f64>; QUANTILES.len()],
    /// Ticks that have a lateness.
    pub(super) ticks: u64,
    /// Of those, the ones that belonged to a stall already counted.
    pub(super) same_stall: u64,
    /// Time that the hypervisor took from all CPUs.
    steal_ns: Option<u64>,
    /// Time from the round's first deadline to the one after its last.
    length_ns: u64,
}

/// All rounds of a subject.
#[derive(Clone, Debug)]
pub(super) struct Rounds {
    /// In the order of their index.
    pub(super) values: Vec<RoundValues>,
    /// Whether the report kept the samples: without them a stall counts with each of its ticks.
    pub(super) samples: bool,
}

impl Rounds {
    /// Takes every round but those with less than half of the ticks of a full one: remainders, and
    /// what an interrupt cut short.
    pub(super) fn new(report: &Report, subject: &Subject) -> Self {
        let scenario = report.plan.scenarios.iter().find(|s| s.id == subject.id);
        let samples = subject.rounds.iter().any(|r| !r.lateness_ns.is_empty());
        let mut parts: BTreeMap<u64, Vec<&Round>> = BTreeMap::new();
        for round in &subject.rounds {
            parts.entry(round.index).or_default().push(round);
        }
        let mut values: Vec<RoundValues> =
            parts.values().map(|parts| values(parts, subject, scenario, samples)).collect();
        let full = values.iter().map(|v| v.ticks).max().unwrap_or(0);
        values.retain(|v| v.ticks > 0 && v.ticks >= full / 2);
        Self { values, samples }
    }

    /// Share of the ticks that belonged to a stall already counted; `None` where the samples do not
    /// tell.
    pub(super) fn same_stall_share(&self) -> Option<f64> {
        let sum = |of: fn(&RoundValues) -> u64| self.values.iter().map(of).sum::<u64>() as f64;
        self.samples.then(|| sum(|v| v.same_stall) / sum(|v| v.ticks).max(1.0))
    }

    /// Share of the time of all CPUs that the hypervisor took during the rounds.
    pub(super) fn steal_share(&self, cpus: u64) -> Option<f64> {
        let stolen =
            self.values.iter().map(|v| v.steal_ns.map(|ns| ns as f64)).sum::<Option<f64>>()?;
        let length: f64 = self.values.iter().map(|v| v.length_ns as f64).sum();
        (length > 0.0).then(|| stolen / (length * cpus.max(1) as f64))
    }
}

fn values(
    parts: &[&Round],
    subject: &Subject,
    scenario: Option<&Scenario>,
    samples: bool,
) -> RoundValues {
    let first = parts[0];
    let summary = parts.iter().find_map(|r| r.summary.as_ref());
    let steal_ns = parts.iter().try_fold(0_u64, |sum, r| Some(sum.saturating_add(r.steal_ns?)));
    let asked = summary.map_or(0, |s| s.ticks / subject.instances.max(1));
    let length_ns = asked
        .saturating_add(scenario.map_or(0, |s| s.warmup_ticks))
        .saturating_mul(subject.period_ns);
    let common = RoundValues { index: first.index, steal_ns, length_ns, ..RoundValues::default() };
    if !samples {
        let Some(summary) = summary else { return common };
        let d = &summary.lateness_ns;
        let ticks = summary.ticks.saturating_sub(summary.skipped);
        let ns = [d.p50, d.p90, d.p99, d.p99_9];
        return RoundValues { ns, all_ns: ns, ticks, ..common };
    }
    let ticks = parts.iter().map(|r| r.lateness_ns.len() as u64).sum::<u64>();
    let (mut kept, mut own) = (Vec::new(), Vec::new());
    for part in parts {
        let ticks = part
            .lateness_ns
            .iter()
            .enumerate()
            .map(|(i, &lateness)| (part.tick_index(i), lateness));
        let of_part = stall::kept_lateness(&ticks.collect::<Vec<_>>(), subject.period_ns);
        kept.extend(of_part.0);
        own.extend(of_part.1);
    }
    let same_stall = ticks - kept.len() as u64;
    let at = |mut all: Vec<i64>| {
        all.sort_unstable();
        QUANTILES
            .map(|(_, q)| nearest_rank(&all, q).filter(|_| is_supported_by_round(all.len(), q)))
    };
    let all_ns = at(parts.iter().flat_map(|r| &r.lateness_ns).copied().collect());
    let (ns, own) = (at(kept), at(own));
    let lift =
        std::array::from_fn(|i| Some(stall::lift(ln(ns[i]?), ln(own[i]?), subject.period_ns)));
    RoundValues { ns, all_ns, lift, ticks, same_stall, ..common }
}

/// The logarithm that ratios are made of.
pub(super) fn ln(ns: i64) -> f64 {
    (ns.max(RESOLUTION_NS) as f64).ln()
}

/// The logarithm of the ratio of each pair.
pub(super) fn ln_ratios(pairs: &[Sides<i64>]) -> Vec<f64> {
    pairs.iter().map(|pair| ln(pair.candidate) - ln(pair.base)).collect()
}

/// The times of each side.
pub(super) fn times(pairs: &[Sides<i64>]) -> Sides<Vec<f64>> {
    Sides {
        base: pairs.iter().map(|pair| pair.base as f64).collect(),
        candidate: pairs.iter().map(|pair| pair.candidate as f64).collect(),
    }
}

/// By how much the candidate of each pair is later than the base.
pub(super) fn differences_ns(pairs: &[Sides<i64>]) -> Vec<f64> {
    pairs.iter().map(|pair| pair.candidate.saturating_sub(pair.base) as f64).collect()
}

/// One number of both sides, in the rounds in which both have it.
pub(super) fn common_rounds(
    sides: Sides<&[RoundValues]>,
    number: impl Fn(&RoundValues) -> Option<i64>,
) -> Vec<Sides<i64>> {
    let mut candidates = sides.candidate.iter().peekable();
    let pair = |base: &RoundValues| {
        while candidates.next_if(|candidate| candidate.index < base.index).is_some() {}
        let candidate = candidates.peek().filter(|candidate| candidate.index == base.index)?;
        Some(Sides { base: number(base)?, candidate: number(candidate)? })
    };
    sides.base.iter().filter_map(pair).collect()
}

/// The bounds of an interval; `None` if the smaller side has too few values, or a bound is infinite.
pub(super) fn bounded_interval(interval: &Interval95, values: usize) -> Option<Interval<f64>> {
    interval.shift.interval().filter(|_| values >= MIN_ROUNDS)
}

/// The middle value, or the mean of the two.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2])
}
