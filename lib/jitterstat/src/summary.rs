//! From the rounds of one subject to its summary.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::report::{self, Distribution, MedianRound, PERCENTILES, Percentile, Summary};
use crate::sample::{Grid, RoundSamples};
use crate::stats::{bootstrap, quantile, sign_test};

/// Confidence of every interval in a report.
const CONFIDENCE: f64 = 0.95;

/// What a round cost, beside its samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundCost {
    /// CPU time of the whole process, where the platform reports it.
    pub cpu_ns: Option<u64>,
    /// Voluntary and involuntary context switches of the process, where the platform reports them.
    pub wakeups: Option<u64>,
}

/// What one instance of a subject did in one round.
#[derive(Clone, Copy, Debug)]
pub struct InstanceRound<'a> {
    /// Which round: what runs in one round shares its fate, and is resampled together.
    pub round: u64,
    /// The samples.
    pub samples: &'a RoundSamples,
    /// Its share of the cost.
    pub cost: RoundCost,
}

/// Summarises the rounds of one subject; `None` if no tick of any round was delivered or coalesced.
#[must_use]
pub fn summarise(parts: &[InstanceRound<'_>], has_runtime: bool) -> Option<Summary> {
    let samples = || parts.iter().map(|part| part.samples);
    let all = |f: fn(&RoundSamples) -> u64| samples().map(f).sum::<u64>();
    let lateness: Vec<&[i64]> = samples().map(|r| r.lateness_ns.as_slice()).collect();
    let min_ns = lateness.iter().flat_map(|r| r.iter()).copied().min()?;
    let ticks = all(|r| r.grid.ticks);
    let per_tick = |total: Option<u64>| total.map(|t| t as f64 / ticks as f64);
    let cpu_ns = parts.iter().map(|part| part.cost.cpu_ns).sum::<Option<u64>>();
    let wakeups = parts.iter().map(|part| part.cost.wakeups).sum::<Option<u64>>();

    let consecutive: Vec<Vec<i64>> = samples().map(|r| r.consecutive_ns().collect()).collect();
    let spread: Vec<Vec<i64>> = lateness.iter().map(|r| r.iter().map(|l| l - min_ns).collect()).collect();
    let until: Vec<Vec<i64>> = samples().map(|r| r.until_unpark_ns.iter().flatten().copied().collect()).collect();
    let after: Vec<Vec<i64>> = samples()
        .map(|r| {
            let pairs = r.lateness_ns.iter().zip(&r.until_unpark_ns);
            pairs.filter_map(|(l, u)| u.map(|u| l - u)).collect()
        })
        .collect();
    let stamped: u64 = until.iter().map(|r| r.len() as u64).sum();
    let (elapsed_ns, ideal_ns) = samples().map(spans).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    let rounds = by_round(parts);
    let rounds: Vec<&[i64]> = rounds.iter().map(|round| round.as_ref()).collect();
    Some(Summary {
        ticks,
        // Not instance by instance: a report has the coalesced ticks of all in the entry of the first.
        delivered: all(RoundSamples::recorded).saturating_sub(all(|r| r.coalesced)),
        coalesced: all(|r| r.coalesced),
        skipped: all(RoundSamples::skipped),
        missed: all(RoundSamples::missed),
        early: all(RoundSamples::early),
        no_park: (has_runtime && stamped > 0).then(|| all(RoundSamples::recorded) - stamped),
        drift_ppb: drift_ppb(samples()),
        elapsed_ns,
        ideal_ns,
        cpu_ns_per_tick: per_tick(cpu_ns),
        wakeups_per_tick: per_tick(wakeups),
        lateness_ns: with_intervals(distribution(&lateness)?, &rounds),
        median_round_ns: median_round(&rounds),
        jitter_consecutive_ns: distribution(&consecutive),
        jitter_spread_ns: distribution(&spread),
        until_unpark_ns: distribution(&until),
        after_unpark_ns: distribution(&after),
    })
}

/// The lateness of each round, all of its parts together.
fn by_round<'a>(parts: &[InstanceRound<'a>]) -> Vec<Cow<'a, [i64]>> {
    let mut rounds: Vec<(u64, Cow<'a, [i64]>)> = Vec::new();
    for part in parts {
        let lateness = part.samples.lateness_ns.as_slice();
        match rounds.last_mut() {
            Some((round, all)) if *round == part.round => all.to_mut().extend_from_slice(lateness),
            _ => rounds.push((part.round, Cow::Borrowed(lateness))),
        }
    }
    rounds.into_iter().map(|(_, all)| all).collect()
}

/// Time from the first to the last recorded tick: as measured, and on the grid.
fn spans(round: &RoundSamples) -> (i64, i64) {
    let ends = |v: &[i64]| v.first().copied().zip(v.last().copied());
    let (Some((l0, l1)), Some((k0, k1))) = (ends(&round.lateness_ns), round.ticks.first().zip(round.ticks.last()))
    else {
        return (0, 0);
    };
    let ideal_ns = round.grid.deadline_ns(*k1) - round.grid.deadline_ns(*k0);
    (ideal_ns + l1 - l0, ideal_ns)
}

/// Slope of lateness over the deadline, in parts per billion (nanoseconds per second): ordinary least squares with
/// an offset of its own for each round, so that a slow round is not taken for a drift.
fn drift_ppb<'a>(rounds: impl Iterator<Item = &'a RoundSamples>) -> Option<f64> {
    let sums = rounds.map(RoundSamples::drift_sums);
    let (sxy, sxx) = sums.fold((0.0, 0.0), |sum, round| (sum.0 + round.0, sum.1 + round.1));
    (sxx > 0.0).then(|| sxy / sxx * 1e9)
}

/// Adds the confidence intervals over rounds to a pooled distribution.
fn with_intervals(distribution: Distribution, rounds: &[&[i64]]) -> Distribution {
    let intervals = bootstrap::percentile_intervals(rounds, &PERCENTILES.map(|p| p.quantile), CONFIDENCE);
    let named = PERCENTILES.iter().zip(intervals);
    let ci95 = named.filter_map(|(p, interval)| Some((p.key.to_owned(), interval?))).collect();
    Distribution { ci95, ..distribution }
}

/// The median over the rounds of each percentile that every round supports; empty for a single round.
fn median_round(rounds: &[&[i64]]) -> BTreeMap<String, MedianRound> {
    let sorted: Vec<Vec<i64>> = rounds
        .iter()
        .map(|r| {
            let mut round = r.to_vec();
            round.sort_unstable();
            round
        })
        .collect();
    let of = |Percentile { key, quantile: q, .. }| {
        let values: Option<Vec<i64>> = sorted
            .iter()
            .map(|round| quantile::nearest_rank(round, q).filter(|_| quantile::is_supported_by_round(round.len(), q)))
            .collect();
        let (value, ci95) = sign_test::median_interval(&values?, CONFIDENCE)?;
        let ci95 = ci95.filter(|_| rounds.len() >= bootstrap::MIN_ROUNDS);
        Some((key.to_owned(), MedianRound { value, ci95 }))
    };
    if rounds.len() < 2 { BTreeMap::new() } else { PERCENTILES.into_iter().filter_map(of).collect() }
}

/// The samples of one round of one instance, from the report that keeps them.
#[must_use]
pub fn stored_samples(subject: &report::Subject, entry: &report::Round) -> RoundSamples {
    let recorded = entry.lateness_ns.len();
    // The summary of a round is of all instances, and stands with the first of them.
    let (asked, coalesced) =
        entry.summary.as_ref().map_or((recorded as u64, 0), |s| (s.ticks / subject.instances.max(1), s.coalesced));
    RoundSamples {
        grid: Grid { first_tick: entry.first_tick, ticks: asked, period_ns: subject.period_ns },
        ticks: (0..recorded).map(|i| entry.tick_of(i)).collect(),
        lateness_ns: entry.lateness_ns.clone(),
        until_unpark_ns: entry.until_unpark_ns.clone().unwrap_or_else(|| vec![None; recorded]),
        coalesced,
    }
}

/// Pooled distribution over rounds; `None` where there is no sample.
#[must_use]
pub fn distribution<R: AsRef<[i64]>>(rounds: &[R]) -> Option<Distribution> {
    let mut sorted: Vec<i64> = rounds.iter().flat_map(|r| r.as_ref()).copied().collect();
    sorted.sort_unstable();
    let (min, max) = (*sorted.first()?, *sorted.last()?);
    let sum: i128 = sorted.iter().map(|&v| i128::from(v)).sum();
    let mean = i64::try_from(sum / sorted.len() as i128).unwrap_or(i64::MAX);
    let at = |q: f64| quantile::nearest_rank(&sorted, q).filter(|_| quantile::is_supported(sorted.len(), q));
    Some(Distribution::new([min, max], mean, at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Wakeup;

    #[test]
    fn percentiles_are_nearest_rank_and_only_where_the_sample_supports_them() {
        let hundred: Vec<i64> = (1..=100).collect();
        let d = distribution(&[hundred]).unwrap();
        assert_eq!((d.p50, d.p90, d.p99), (Some(50), Some(90), None));
        let five_hundred: Vec<i64> = (1..=500).collect();
        let d = distribution(&[five_hundred]).unwrap();
        assert_eq!((d.p99, d.p99_9, d.max), (Some(495), None, 500));
        assert!(distribution::<Vec<i64>>(&[]).is_none());
    }

    fn part(samples: &RoundSamples) -> InstanceRound<'_> {
        InstanceRound { round: 0, samples, cost: RoundCost::default() }
    }

    #[test]
    fn parts_of_one_round_are_one_round() {
        let grid = Grid { period_ns: 1_000, first_tick: 0, ticks: 1 };
        let wakeup = |ns| Wakeup { tick: 0, expirations: 1, wake_ns: ns, unpark_ns: None };
        let samples: Vec<RoundSamples> =
            (0..40).map(|i| RoundSamples::from_wakeups(grid, &[wakeup(i)]).unwrap()).collect();
        let of = |rounds: u64| {
            let parts: Vec<InstanceRound<'_>> = (0..)
                .zip(&samples)
                .map(|(i, samples)| InstanceRound { round: i * rounds / 40, ..part(samples) })
                .collect();
            summarise(&parts, false).unwrap()
        };
        assert_eq!(of(40).lateness_ns.p50, of(4).lateness_ns.p50);
        assert!(of(40).lateness_ns.ci95.contains_key("p50"));
        assert!(of(4).lateness_ns.ci95.is_empty(), "four rounds have no interval, however many parts they have");
    }

    #[test]
    fn a_slipping_schedule_is_drift_and_a_late_one_is_not() {
        let round = |late: &dyn Fn(i64) -> i64| {
            let wakeups: Vec<_> = (0..100)
                .map(|k| Wakeup {
                    tick: k,
                    expirations: 1,
                    wake_ns: 1_000 * k as i64 + late(k as i64),
                    unpark_ns: None,
                })
                .collect();
            RoundSamples::from_wakeups(Grid { period_ns: 1_000, first_tick: 0, ticks: 100 }, &wakeups).unwrap()
        };
        let late = summarise(&[part(&round(&|_| 700))], false).unwrap();
        assert_eq!((late.drift_ppb, late.elapsed_ns - late.ideal_ns), (Some(0.0), 0));
        let slipping = summarise(&[part(&round(&|k| k))], false).unwrap();
        assert!((slipping.drift_ppb.unwrap() - 1e6).abs() < 1.0);
        assert_eq!(slipping.elapsed_ns - slipping.ideal_ns, 99);
    }
}
