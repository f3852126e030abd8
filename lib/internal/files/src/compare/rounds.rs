//! The values of the rounds of a subject: one for each round and percentile.

use std::collections::BTreeMap;

use crate::report::{Report, Round, Scenario, Subject};
use crate::window::TimeInWindow;
use jitterstat::gate::Sides;
use jitterstat::stall;
use jitterstat::stats::Interval;
use jitterstat::stats::bootstrap::MIN_ROUNDS;
use jitterstat::stats::quantile::round_nearest_rank;
use jitterstat::stats::shift::Interval95;

/// The compared percentiles with their names.
pub(super) const QUANTILES: [(&str, f64); 4] =
    [("p50", 0.50), ("p90", 0.90), ("p99", 0.99), ("p99_9", 0.999)];
/// Minimum lateness for logarithms: less is below the resolution of clocks.
const RESOLUTION_NS: i64 = 10;

/// The values of one round of a subject, over all of its instances.
#[derive(Clone, Debug, Default)]
pub(super) struct RoundValues {
    /// Index of the round.
    pub(super) index: u64,
    /// The percentiles in the order of [`QUANTILES`]; `None` if the round has too few ticks for
    /// one.
    pub(super) ns: [Option<i64>; QUANTILES.len()],
    /// The percentiles over all ticks, including those within a stall.
    pub(super) all_ns: [Option<i64>; QUANTILES.len()],
    /// Logarithm of the ratio by which stalls raise each percentile; also `None` without samples.
    pub(super) lift: [Option<f64>; QUANTILES.len()],
    /// Number of planned ticks.
    pub(super) planned: u64,
    /// Number of ticks with a lateness.
    pub(super) ticks: u64,
    /// Number of these ticks that belong to an already counted stall.
    pub(super) same_stall: u64,
    /// Time that the hypervisor took from all CPUs while the round was measured.
    pub(super) stolen: Option<TimeInWindow>,
}

/// The rounds of a subject.
#[derive(Clone, Debug)]
pub(super) struct Rounds {
    /// Values of the rounds, in the order of their index.
    pub(super) values: Vec<RoundValues>,
    /// Whether the report contains samples. Without them every tick of a stall is counted.
    pub(super) has_samples: bool,
}

impl Rounds {
    /// Collects the rounds of a subject. Rounds with less than half of the planned ticks of a full
    /// round are left out: they are remainders or were interrupted. A round that skipped ticks is
    /// kept, and so is an interval of another tool's log, which plans no number of values: a load
    /// generator records fewer while the service is slow.
    pub(super) fn new(report: &Report, subject: &Subject) -> Self {
        let scenario = report.plan.scenarios.iter().find(|s| s.id == subject.id);
        let has_samples = subject.has_samples();
        let mut parts: BTreeMap<u64, Vec<&Round>> = BTreeMap::new();
        for round in &subject.rounds {
            parts.entry(round.index).or_default().push(round);
        }
        let mut values: Vec<RoundValues> = parts
            .values()
            .map(|parts| round_values(parts, subject, scenario, has_samples))
            .collect();
        let full = values.iter().map(|v| v.planned).max().unwrap_or(0);
        values.retain(|v| v.ticks > 0 && (v.planned >= full / 2 || !report.is_own()));
        Self { values, has_samples }
    }

    /// Returns the share of the ticks that belong to an already counted stall; `None` without
    /// samples.
    pub(super) fn same_stall_share(&self) -> Option<f64> {
        if !self.has_samples {
            return None;
        }
        let same_stall: u64 = self.values.iter().map(|v| v.same_stall).sum();
        let ticks: u64 = self.values.iter().map(|v| v.ticks).sum();
        Some(same_stall as f64 / (ticks as f64).max(1.0))
    }

    /// Returns the share of the time of all CPUs that the hypervisor stole during the rounds.
    pub(super) fn steal_share(&self, cpus: u64) -> Option<f64> {
        let stolen: Option<TimeInWindow> = self.values.iter().map(|round| round.stolen).sum();
        stolen?.share_of_cpus(cpus)
    }
}

/// Computes the values of a round from the entries of its instances.
fn round_values(
    parts: &[&Round],
    subject: &Subject,
    scenario: Option<&Scenario>,
    has_samples: bool,
) -> RoundValues {
    let summary = parts.iter().find_map(|r| r.summary.as_ref());
    let recorded: u64 = parts.iter().map(|r| r.lateness_ns.len() as u64).sum();
    let planned = summary.map_or(recorded, |s| s.ticks);
    let warmup = scenario.map_or(0, |s| s.warmup_ticks);
    let instance_ticks = planned / subject.instances.max(1);
    let planned_ns = instance_ticks.saturating_add(warmup).saturating_mul(subject.period_ns);
    // Old and imported reports have no window.
    let window_ns = parts[0].window_ns.unwrap_or(planned_ns);
    let steal_ns = parts.iter().try_fold(0_u64, |sum, r| Some(sum.saturating_add(r.steal_ns?)));
    let common = RoundValues {
        index: parts[0].index,
        planned,
        stolen: steal_ns.map(|ns| TimeInWindow::new(ns, window_ns)),
        ..RoundValues::default()
    };
    match summary {
        _ if has_samples => values_from_samples(parts, subject.period_ns, common),
        Some(summary) => {
            // The percentiles of a round without samples are those of all ticks.
            let d = &summary.lateness_ns;
            let ns = [d.p50, d.p90, d.p99, d.p99_9];
            RoundValues { ns, all_ns: ns, ticks: summary.came(), ..common }
        }
        None => common,
    }
}

/// Adds the percentiles of the samples of all instances, with each stall counted once.
fn values_from_samples(parts: &[&Round], period_ns: u64, common: RoundValues) -> RoundValues {
    let (mut lateness, mut kept, mut unstalled) = (Vec::new(), Vec::new(), Vec::new());
    for part in parts {
        let indexed = (0..).zip(&part.lateness_ns);
        let ticks: Vec<(u64, i64)> = indexed.map(|(i, &ns)| (part.tick_index(i), ns)).collect();
        let (late, late_unstalled) = stall::kept_lateness(&ticks, period_ns);
        lateness.extend(&part.lateness_ns);
        kept.extend(late);
        unstalled.extend(late_unstalled);
    }
    let (ticks, kept_ticks) = (lateness.len() as u64, kept.len() as u64);
    let (ns, unstalled) = (percentiles(kept), percentiles(unstalled));
    // Most rounds have no stall, and sorting them again would take a third of the time.
    let all_ns = if kept_ticks == ticks { ns } else { percentiles(lateness) };
    let lift = |i| Some(stall::lift(ln(ns[i]?), ln(unstalled[i]?), period_ns));
    RoundValues {
        ns,
        all_ns,
        lift: std::array::from_fn(lift),
        ticks,
        same_stall: ticks - kept_ticks,
        ..common
    }
}

/// Returns each of [`QUANTILES`]; `None` if there are too few values for one.
fn percentiles(mut values: Vec<i64>) -> [Option<i64>; QUANTILES.len()] {
    values.sort_unstable();
    QUANTILES.map(|(_, q)| round_nearest_rank(&values, q))
}

/// Returns the logarithm of a time, for ratios.
pub(super) fn ln(ns: i64) -> f64 {
    (ns.max(RESOLUTION_NS) as f64).ln()
}

/// Returns the logarithm of the ratio of each pair.
pub(super) fn ln_ratios(pairs: &[Sides<i64>]) -> Vec<f64> {
    pairs.iter().map(|pair| ln(pair.candidate) - ln(pair.base)).collect()
}

/// Returns the times of each side.
pub(super) fn times(pairs: &[Sides<i64>]) -> Sides<Vec<f64>> {
    Sides {
        base: pairs.iter().map(|pair| pair.base as f64).collect(),
        candidate: pairs.iter().map(|pair| pair.candidate as f64).collect(),
    }
}

/// Returns by how much the candidate of each pair is later than the base.
pub(super) fn differences_ns(pairs: &[Sides<i64>]) -> Vec<f64> {
    pairs.iter().map(|pair| pair.candidate.saturating_sub(pair.base) as f64).collect()
}

/// Returns one number of both sides, in the rounds in which both have it.
pub(super) fn common_rounds(
    sides: Sides<&[RoundValues]>,
    number: impl Fn(&RoundValues) -> Option<i64>,
) -> Vec<Sides<i64>> {
    let mut candidates = sides.candidate.iter().peekable();
    let mut pairs = Vec::new();
    for base in sides.base {
        while candidates.next_if(|candidate| candidate.index < base.index).is_some() {}
        let Some(candidate) = candidates.next_if(|candidate| candidate.index == base.index) else {
            continue;
        };
        if let (Some(base), Some(candidate)) = (number(base), number(candidate)) {
            pairs.push(Sides { base, candidate });
        }
    }
    pairs
}

/// Returns the bounds of an interval; `None` if the smaller side has too few values, or a bound is
/// infinite.
pub(super) fn bounded_interval(interval: &Interval95, values: usize) -> Option<Interval<f64>> {
    interval.shift.interval().filter(|_| values >= MIN_ROUNDS)
}
