//! The summary of the rounds of one subject.

use std::borrow::Cow;
use std::collections::BTreeMap;

use hdrhistogram::Histogram as Hdr;

use crate::report::{self, Distribution, MedianRound, PERCENTILES, Percentile, Summary};
use jitterstat::sample::{Grid, RoundSamples};
use jitterstat::stats::{Interval, bootstrap, quantile, sign_test};

/// Confidence of every interval in a report.
const CONFIDENCE: f64 = 0.95;
/// Number of significant digits of pooled values, as in stored histograms.
const DIGITS: u8 = 3;

/// The cost of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundCost {
    /// CPU time of the whole process; `None` if the platform does not report it.
    pub cpu_ns: Option<u64>,
    /// Voluntary and involuntary context switches of the process; `None` if the platform does not
    /// report them.
    pub wakeups: Option<u64>,
}

/// The samples and the cost of one instance of a subject in one round.
#[derive(Clone, Copy, Debug)]
pub struct InstanceRound<'a> {
    /// Index of the round. Instances of one round depend on each other and are resampled together.
    pub round: u64,
    /// The samples.
    pub samples: &'a RoundSamples,
    /// The instance's share of the cost.
    pub cost: RoundCost,
}

/// Summarises the rounds of one subject; `None` if no tick was delivered or coalesced.
#[must_use]
pub fn summarise(parts: &[InstanceRound<'_>], has_runtime: bool) -> Option<Summary> {
    let samples = || parts.iter().map(|part| part.samples);
    let total = |count: fn(&RoundSamples) -> u64| samples().map(count).fold(0, u64::saturating_add);
    let per_round = |values: &dyn Fn(&RoundSamples) -> Vec<i64>| -> Vec<Vec<i64>> {
        samples().map(values).collect()
    };
    let lateness: Vec<&[i64]> = samples().map(|r| r.lateness_ns.as_slice()).collect();
    let min_ns = lateness.iter().flat_map(|r| r.iter()).copied().min()?;
    let spread = per_round(&|r| r.lateness_ns.iter().map(|l| l.saturating_sub(min_ns)).collect());
    let until = per_round(&|r| r.until_unpark_ns.iter().flatten().copied().collect());
    let ticks = total(|r| r.grid.ticks);
    let ticks_with_park: u64 = until.iter().map(|r| r.len() as u64).sum();
    let per_tick = |total: Option<u64>| total.map(|t| t as f64 / ticks as f64);
    let cpu_ns = parts.iter().map(|part| part.cost.cpu_ns).sum::<Option<u64>>();
    let wakeups = parts.iter().map(|part| part.cost.wakeups).sum::<Option<u64>>();
    let (elapsed_ns, ideal_ns) = total_spans(samples());
    let rounds = by_round(parts);
    let rounds: Vec<&[i64]> = rounds.iter().map(|round| round.as_ref()).collect();
    Some(Summary {
        ticks,
        // Computed over all instances: in a report, the entry of the first instance contains the
        // coalesced ticks of all.
        delivered: total(RoundSamples::recorded).saturating_sub(total(|r| r.coalesced)),
        coalesced: total(|r| r.coalesced),
        skipped: total(RoundSamples::skipped),
        missed: total(RoundSamples::missed),
        early: total(RoundSamples::early),
        no_park: (has_runtime && ticks_with_park > 0)
            .then(|| total(RoundSamples::recorded) - ticks_with_park),
        drift_ppb: drift_ppb(samples()),
        elapsed_ns,
        ideal_ns,
        cpu_ns_per_tick: per_tick(cpu_ns),
        wakeups_per_tick: per_tick(wakeups),
        lateness_ns: with_intervals(distribution(&lateness)?, &rounds),
        median_round_ns: median_round(&rounds),
        jitter_consecutive_ns: distribution(&per_round(&|r| r.consecutive_ns().collect())),
        jitter_spread_ns: distribution(&spread),
        until_unpark_ns: distribution(&until),
        after_unpark_ns: distribution(&per_round(&after_unpark_ns)),
    })
}

/// The time from the runtime's return until the task ran, for each tick with a park of its own.
fn after_unpark_ns(round: &RoundSamples) -> Vec<i64> {
    let ticks = round.lateness_ns.iter().zip(&round.until_unpark_ns);
    ticks.filter_map(|(late, until)| Some(late.saturating_sub((*until)?))).collect()
}

/// An accumulator of rounds in bounded memory, for subjects with too many rounds to keep. Counts
/// and sums are exact, values have three significant digits.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    rounds: u64,
    counts: Summary,
    ticks_with_park: u64,
    /// Numerator and denominator of the slope of lateness over time.
    drift: (f64, f64),
    /// Total cost; `None` without a round.
    cost: Option<RoundCost>,
    lateness: ValuePool,
    consecutive: ValuePool,
    until: ValuePool,
    after: ValuePool,
}

impl Pool {
    /// Adds the instances of one round.
    pub fn add(&mut self, parts: &[InstanceRound<'_>]) {
        self.rounds += 1;
        for part in parts {
            self.add_counts(part.samples);
            self.add_cost(part.cost);
            self.add_values(part.samples);
        }
    }

    fn add_counts(&mut self, samples: &RoundSamples) {
        let sum = &mut self.counts;
        for (count, more) in [
            (&mut sum.ticks, samples.grid.ticks),
            (&mut sum.delivered, samples.delivered()),
            (&mut sum.coalesced, samples.coalesced),
            (&mut sum.skipped, samples.skipped()),
            (&mut sum.missed, samples.missed()),
            (&mut sum.early, samples.early()),
        ] {
            *count = count.saturating_add(more);
        }
        let (elapsed_ns, ideal_ns) = spans(samples);
        sum.elapsed_ns = sum.elapsed_ns.saturating_add(elapsed_ns);
        sum.ideal_ns = sum.ideal_ns.saturating_add(ideal_ns);
        if samples.recorded() > 0 {
            let (sxy, sxx) = samples.drift_sums();
            self.drift = (self.drift.0 + sxy, self.drift.1 + sxx);
        }
    }

    fn add_cost(&mut self, cost: RoundCost) {
        let add = |sum: Option<u64>, part: Option<u64>| Some(sum?.saturating_add(part?));
        let sum = self.cost.unwrap_or(RoundCost { cpu_ns: Some(0), wakeups: Some(0) });
        self.cost = Some(RoundCost {
            cpu_ns: add(sum.cpu_ns, cost.cpu_ns),
            wakeups: add(sum.wakeups, cost.wakeups),
        });
    }

    fn add_values(&mut self, samples: &RoundSamples) {
        samples.lateness_ns.iter().for_each(|&value| self.lateness.add(value));
        samples.consecutive_ns().for_each(|value| self.consecutive.add(value));
        for (late, until) in samples.lateness_ns.iter().zip(&samples.until_unpark_ns) {
            if let Some(until) = until {
                self.ticks_with_park += 1;
                self.until.add(*until);
                self.after.add(late.saturating_sub(*until));
            }
        }
    }

    /// Returns the number of added rounds.
    #[must_use]
    pub fn rounds(&self) -> u64 {
        self.rounds
    }

    /// Returns the histogram of all lateness, as stored in a report.
    #[must_use]
    pub fn histogram(&self) -> report::Histogram {
        crate::histogram::pack_counts(self.lateness.counts())
    }

    /// Returns the summary of all rounds, with the intervals from the summary of the kept rounds;
    /// `None` if no tick was delivered or coalesced.
    #[must_use]
    pub fn summary(&self, kept: Option<Summary>, has_runtime: bool) -> Option<Summary> {
        let lateness_ns = self.lateness.distribution(0)?;
        let kept = kept.unwrap_or_default();
        let ticks = self.counts.ticks.max(1);
        let per_tick = |total: Option<u64>| total.map(|total| total as f64 / ticks as f64);
        let cost = self.cost.unwrap_or_default();
        Some(Summary {
            no_park: (has_runtime && self.ticks_with_park > 0)
                .then(|| self.lateness.n - self.ticks_with_park),
            drift_ppb: (self.drift.1 > 0.0).then(|| self.drift.0 / self.drift.1 * 1e9),
            cpu_ns_per_tick: per_tick(cost.cpu_ns),
            wakeups_per_tick: per_tick(cost.wakeups),
            jitter_spread_ns: self.lateness.distribution(lateness_ns.min),
            lateness_ns: Distribution { ci95: kept.lateness_ns.ci95, ..lateness_ns },
            median_round_ns: kept.median_round_ns,
            jitter_consecutive_ns: self.consecutive.distribution(0),
            until_unpark_ns: self.until.distribution(0),
            after_unpark_ns: self.after.distribution(0),
            ..self.counts.clone()
        })
    }
}

/// Values of either sign. Number, sum, minimum and maximum are exact; the values have three
/// significant digits.
#[derive(Clone, Debug, Default)]
struct ValuePool {
    n: u64,
    sum: i128,
    range: Option<Interval<i64>>,
    /// Magnitudes of the negative values.
    negative: Option<Hdr<u64>>,
    others: Option<Hdr<u64>>,
}

impl ValuePool {
    fn add(&mut self, value: i64) {
        self.n += 1;
        self.sum += i128::from(value);
        let range = self.range.unwrap_or(Interval::point(value));
        self.range =
            Some(Interval { lower: range.lower.min(value), upper: range.upper.max(value) });
        let side = if value < 0 { &mut self.negative } else { &mut self.others };
        let side =
            side.get_or_insert_with(|| Hdr::new(DIGITS).expect("3 digits are within the bounds"));
        side.record(value.unsigned_abs()).expect("an auto-resizing histogram takes any i64");
    }

    /// Returns the values with their counts, in ascending order.
    fn counts(&self) -> impl Iterator<Item = (i64, u64)> + '_ {
        let negative = self.signed_counts(self.negative.as_ref(), -1);
        negative.into_iter().rev().chain(self.signed_counts(self.others.as_ref(), 1))
    }

    /// Returns the values of one histogram of magnitudes, with their counts.
    fn signed_counts(&self, magnitudes: Option<&Hdr<u64>>, sign: i64) -> Vec<(i64, u64)> {
        let Interval { lower, upper } = self.range.unwrap_or_default();
        let value = |magnitude: u64| {
            i64::try_from(magnitude).unwrap_or(i64::MAX).saturating_mul(sign).clamp(lower, upper)
        };
        let recorded = magnitudes.into_iter().flat_map(Hdr::iter_recorded);
        recorded.map(|v| (value(v.value_iterated_to()), v.count_at_value())).collect()
    }

    /// Returns the distribution of all values less `origin`; `None` without a value.
    fn distribution(&self, origin: i64) -> Option<Distribution> {
        let range = self.range?.map(|end| end.saturating_sub(origin));
        let counts: Vec<(i64, u64)> = self.counts().collect();
        let n = usize::try_from(self.n).unwrap_or(usize::MAX);
        let at = |q: f64| {
            let rank = quantile::rank(n, q) as u64;
            let mut seen = 0;
            let found = counts.iter().find(|(_, count)| {
                seen += count;
                seen >= rank
            });
            found
                .filter(|_| quantile::is_supported(n, q))
                .map(|(value, _)| value.saturating_sub(origin))
        };
        let mean =
            i64::try_from(self.sum / i128::from(self.n)).unwrap_or(i64::MAX).saturating_sub(origin);
        Some(Distribution::new(range, mean, at))
    }
}

/// The lateness of each round over all of its instances.
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

/// The sum of the [spans](spans) of all rounds.
fn total_spans<'a>(rounds: impl Iterator<Item = &'a RoundSamples>) -> (i64, i64) {
    rounds.map(spans).fold((0_i64, 0_i64), |sum, span| {
        (sum.0.saturating_add(span.0), sum.1.saturating_add(span.1))
    })
}

/// The time from the first to the last recorded tick, as measured and on the grid.
fn spans(round: &RoundSamples) -> (i64, i64) {
    let ends = |v: &[i64]| v.first().copied().zip(v.last().copied());
    let (Some((l0, l1)), Some((k0, k1))) =
        (ends(&round.lateness_ns), round.ticks.first().zip(round.ticks.last()))
    else {
        return (0, 0);
    };
    let ideal_ns = round.grid.deadline_ns(*k1).saturating_sub(round.grid.deadline_ns(*k0));
    (ideal_ns.saturating_add(l1).saturating_sub(l0), ideal_ns)
}

/// The slope of lateness over the deadline, in parts per billion (nanoseconds per second). Ordinary
/// least squares with a separate offset for each round, so that a slow round does not count as
/// drift.
fn drift_ppb<'a>(rounds: impl Iterator<Item = &'a RoundSamples>) -> Option<f64> {
    let sums = rounds.map(RoundSamples::drift_sums);
    let (sxy, sxx) = sums.fold((0.0, 0.0), |sum, round| (sum.0 + round.0, sum.1 + round.1));
    (sxx > 0.0).then(|| sxy / sxx * 1e9)
}

/// Adds the confidence intervals over rounds to a pooled distribution.
fn with_intervals(distribution: Distribution, rounds: &[&[i64]]) -> Distribution {
    let intervals =
        bootstrap::percentile_intervals(rounds, &PERCENTILES.map(|p| p.quantile), CONFIDENCE);
    let named = PERCENTILES.iter().zip(intervals);
    let ci95 =
        named.filter_map(|(p, interval)| Some((p.key.to_owned(), interval?.into()))).collect();
    Distribution { ci95, ..distribution }
}

/// The median over the rounds of each percentile for which every round has enough ticks; empty for
/// a single round.
fn median_round(rounds: &[&[i64]]) -> BTreeMap<String, MedianRound> {
    if rounds.len() < 2 {
        return BTreeMap::new();
    }
    let mut sorted: Vec<Vec<i64>> = rounds.iter().map(|round| round.to_vec()).collect();
    sorted.iter_mut().for_each(|round| round.sort_unstable());
    let median = |Percentile { key, quantile: q, .. }| {
        let values: Option<Vec<i64>> =
            sorted.iter().map(|round| round_percentile(round, q)).collect();
        let (value, ci95) = sign_test::median_interval(&values?, CONFIDENCE)?;
        let ci95 = ci95.filter(|_| rounds.len() >= bootstrap::MIN_ROUNDS).map(Into::into);
        Some((key.to_owned(), MedianRound { value, ci95 }))
    };
    PERCENTILES.into_iter().filter_map(median).collect()
}

/// A percentile of a sorted round; `None` if the round has too few ticks.
fn round_percentile(sorted: &[i64], q: f64) -> Option<i64> {
    let is_supported = quantile::is_supported_by_round(sorted.len(), q);
    quantile::nearest_rank(sorted, q).filter(|_| is_supported)
}

/// Returns the samples of one instance in one round from a report.
#[must_use]
pub fn stored_samples(subject: &report::Subject, entry: &report::Round) -> RoundSamples {
    let recorded = entry.lateness_ns.len();
    // The entry of the first instance contains the summary of the whole round.
    let (planned, coalesced) = entry
        .summary
        .as_ref()
        .map_or((recorded as u64, 0), |s| (s.ticks / subject.instances.max(1), s.coalesced));
    RoundSamples {
        grid: Grid { first_tick: entry.first_tick, ticks: planned, period_ns: subject.period_ns },
        ticks: (0..recorded).map(|i| entry.tick_index(i)).collect(),
        lateness_ns: entry.lateness_ns.clone(),
        until_unpark_ns: entry.until_unpark_ns.clone().unwrap_or_else(|| vec![None; recorded]),
        coalesced,
    }
}

/// Returns the pooled distribution over rounds; `None` without a sample.
#[must_use]
pub fn distribution<R: AsRef<[i64]>>(rounds: &[R]) -> Option<Distribution> {
    let mut sorted: Vec<i64> = rounds.iter().flat_map(|r| r.as_ref()).copied().collect();
    sorted.sort_unstable();
    let (min, max) = (*sorted.first()?, *sorted.last()?);
    let sum: i128 = sorted.iter().map(|&v| i128::from(v)).sum();
    let mean = i64::try_from(sum / sorted.len() as i128).unwrap_or(i64::MAX);
    let at = |q: f64| {
        quantile::nearest_rank(&sorted, q).filter(|_| quantile::is_supported(sorted.len(), q))
    };
    Some(Distribution::new(Interval { lower: min, upper: max }, mean, at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitterstat::sample::Wakeup;

    #[test]
    fn unsupported_percentiles_are_omitted() {
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
    fn pooled_summary_matches_exact_one() {
        let grid = Grid { period_ns: 1_000_000, first_tick: 3, ticks: 250 };
        let mut random = jitterstat::stats::random::SplitMix64::new(7);
        let mut round = || {
            let late = |k: i64, random: &mut jitterstat::stats::random::SplitMix64| {
                k * 1_000_000 + (random.next_u64() % 900_000) as i64 - 40
            };
            let wakeups: Vec<Wakeup> = (3..250)
                .filter(|k| k % 50 != 0)
                .map(|k| Wakeup {
                    tick: k,
                    expirations: 1,
                    wake_ns: late(k as i64, &mut random),
                    unpark_ns: (k % 3 == 0).then_some(k as i64 * 1_000_000),
                })
                .collect();
            RoundSamples::from_wakeups(grid, &wakeups).unwrap()
        };
        let rounds: Vec<RoundSamples> = (0..40).map(|_| round()).collect();
        let cost = RoundCost { cpu_ns: Some(5_000), wakeups: Some(250) };
        let parts: Vec<InstanceRound<'_>> = (0..)
            .zip(&rounds)
            .map(|(round, samples)| InstanceRound { round, samples, cost })
            .collect();
        let exact = summarise(&parts, true).unwrap();
        let mut pool = Pool::default();
        parts.iter().for_each(|part| pool.add(std::slice::from_ref(part)));
        let pooled = pool.summary(Some(exact.clone()), true).unwrap();
        assert_eq!(
            pool.histogram(),
            crate::histogram::pack(rounds.iter().flat_map(|r| r.lateness_ns.iter().copied()))
        );
        let near = |a: &Distribution, b: &Distribution| {
            assert_eq!((a.min, a.mean, a.max), (b.min, b.mean, b.max));
            for ((p, x), (_, y)) in a.percentiles().into_iter().zip(b.percentiles()) {
                let (Some(x), Some(y)) = (x, y) else { return assert_eq!(x, y) };
                assert!(
                    (x - y).abs() <= x.abs().max(y.abs()) / 500 + 80,
                    "{}: {x} and {y}",
                    p.label
                );
            }
        };
        near(&exact.lateness_ns, &pooled.lateness_ns);
        for distribution in [
            |s: &Summary| s.jitter_consecutive_ns.clone(),
            |s: &Summary| s.jitter_spread_ns.clone(),
            |s: &Summary| s.until_unpark_ns.clone(),
            |s: &Summary| s.after_unpark_ns.clone(),
        ] {
            near(&distribution(&exact).unwrap(), &distribution(&pooled).unwrap());
        }
        let counts = |s: &Summary| {
            let times = (s.elapsed_ns, s.ideal_ns, s.no_park);
            (
                s.ticks,
                s.delivered,
                s.coalesced,
                s.skipped,
                s.missed,
                s.early,
                times,
                s.cpu_ns_per_tick,
                s.wakeups_per_tick,
            )
        };
        assert_eq!(counts(&exact), counts(&pooled));
        assert!((exact.drift_ppb.unwrap() / pooled.drift_ppb.unwrap() - 1.0).abs() < 1e-9);
        assert!(Pool::default().summary(None, true).is_none());
    }

    #[test]
    fn instances_are_resampled_together() {
        let grid = Grid { period_ns: 1_000, first_tick: 0, ticks: 1 };
        let wakeup = |ns| Wakeup { tick: 0, expirations: 1, wake_ns: ns, unpark_ns: None };
        let samples: Vec<RoundSamples> =
            (0..40).map(|i| RoundSamples::from_wakeups(grid, &[wakeup(i)]).unwrap()).collect();
        let summarise_as = |rounds: u64| {
            let parts: Vec<InstanceRound<'_>> = (0..)
                .zip(&samples)
                .map(|(i, samples)| InstanceRound { round: i * rounds / 40, ..part(samples) })
                .collect();
            summarise(&parts, false).unwrap()
        };
        assert_eq!(summarise_as(40).lateness_ns.p50, summarise_as(4).lateness_ns.p50);
        assert!(summarise_as(40).lateness_ns.ci95.contains_key("p50"));
        assert!(summarise_as(4).lateness_ns.ci95.is_empty(), "four rounds have no interval");
    }

    #[test]
    fn only_slipping_is_drift() {
        let round = |late: &dyn Fn(i64) -> i64| {
            let wakeups: Vec<_> = (0..100)
                .map(|k| Wakeup {
                    tick: k,
                    expirations: 1,
                    wake_ns: 1_000 * k as i64 + late(k as i64),
                    unpark_ns: None,
                })
                .collect();
            RoundSamples::from_wakeups(
                Grid { period_ns: 1_000, first_tick: 0, ticks: 100 },
                &wakeups,
            )
            .unwrap()
        };
        let late = summarise(&[part(&round(&|_| 700))], false).unwrap();
        assert_eq!((late.drift_ppb, late.elapsed_ns - late.ideal_ns), (Some(0.0), 0));
        let slipping = summarise(&[part(&round(&|k| k))], false).unwrap();
        assert!((slipping.drift_ppb.unwrap() - 1e6).abs() < 1.0);
        assert_eq!(slipping.elapsed_ns - slipping.ideal_ns, 99);
    }
}
