//! The summary of the rounds of one subject.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;

use hdrhistogram::Histogram as Hdr;

use crate::histogram;
use crate::report::{self, Distribution, MedianRound, PERCENTILES, Percentile, Summary};
use crate::round_costs::RoundCost;
use crate::tick_counts::TickCounts;
use jitterstat::sample::{Grid, RoundSamples};
use jitterstat::stats::{Interval, bootstrap, quantile, sign_test};

/// Confidence of every interval in a report.
const CONFIDENCE: f64 = 0.95;
/// Factor from a slope to parts per billion: nanoseconds per second.
pub(crate) const PPB: f64 = 1e9;

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
    let lateness_ns = distribution(&per_instance(parts, |r| r.lateness_ns.as_slice()))?;
    let min_ns = lateness_ns.min;
    let rounds = by_round(parts);
    let rounds: Vec<&[i64]> = rounds.iter().map(AsRef::as_ref).collect();
    let mut totals = Totals::default();
    for part in parts {
        totals.add(part);
    }
    Some(Summary {
        drift_ppb_ci95: drift_interval(parts),
        lateness_ns: with_intervals(lateness_ns, &rounds),
        median_round_ns: median_round(&rounds),
        jitter_consecutive_ns: distribution(&per_instance(parts, consecutive_ns)),
        jitter_spread_ns: distribution(&per_instance(parts, |r| spread_ns(r, min_ns))),
        until_unpark_ns: distribution(&per_instance(parts, until_unpark_ns)),
        after_unpark_ns: distribution(&per_instance(parts, after_unpark_ns)),
        ..totals.summary(has_runtime)
    })
}

/// Returns the values of each instance in each round.
fn per_instance<'a, V>(
    parts: &[InstanceRound<'a>],
    values: impl Fn(&'a RoundSamples) -> V,
) -> Vec<V> {
    parts.iter().map(|part| values(part.samples)).collect()
}

fn consecutive_ns(round: &RoundSamples) -> Vec<i64> {
    round.consecutive_ns().collect()
}

/// The lateness of each tick less that of the earliest tick of all rounds.
fn spread_ns(round: &RoundSamples, min_ns: i64) -> Vec<i64> {
    round.lateness_ns.iter().map(|late| late.saturating_sub(min_ns)).collect()
}

/// The time from the deadline until the runtime's return, for each tick with a park of its own.
fn until_unpark_ns(round: &RoundSamples) -> Vec<i64> {
    round.until_unpark_ns.iter().copied().flatten().collect()
}

/// The time from the runtime's return until the task ran, for each tick with a park of its own.
fn after_unpark_ns(round: &RoundSamples) -> Vec<i64> {
    let ticks = round.lateness_ns.iter().zip(&round.until_unpark_ns);
    ticks.filter_map(|(late, until)| Some(late.saturating_sub((*until)?))).collect()
}

/// Counts and sums over the instances of all rounds.
#[derive(Clone, Debug, Default)]
struct Totals {
    /// The counts of the ticks, of which those with a wake-up of their own are not yet known.
    ticks: TickCounts,
    elapsed_ns: i64,
    ideal_ns: i64,
    recorded: u64,
    ticks_with_park: u64,
    /// Numerator and denominator of the slope of lateness over time.
    drift: (f64, f64),
    /// Total cost; `None` without a round.
    cost: Option<RoundCost>,
}

impl Totals {
    fn add(&mut self, part: &InstanceRound<'_>) {
        let samples = part.samples;
        self.ticks += TickCounts {
            planned: samples.grid.ticks,
            delivered: 0,
            coalesced: Some(samples.coalesced),
            skipped: Some(samples.skipped()),
            missed: Some(samples.missed()),
            early: Some(samples.early()),
        };
        self.recorded = self.recorded.saturating_add(samples.recorded());
        let ticks_with_park = samples.until_unpark_ns.iter().flatten().count() as u64;
        self.ticks_with_park = self.ticks_with_park.saturating_add(ticks_with_park);
        let (elapsed_ns, ideal_ns) = spans(samples);
        self.elapsed_ns = self.elapsed_ns.saturating_add(elapsed_ns);
        self.ideal_ns = self.ideal_ns.saturating_add(ideal_ns);
        // The slope of lateness over the deadline: ordinary least squares with a separate offset
        // for each round, so that a slow round does not count as drift.
        let (sxy, sxx) = samples.drift_sums();
        self.drift = (self.drift.0 + sxy, self.drift.1 + sxx);
        // A round that was stopped before its window ended has no cost.
        if part.cost != RoundCost::default() {
            self.cost = Some(self.cost.map_or(part.cost, |sum| sum + part.cost));
        }
    }

    /// Returns everything in a summary that is not a distribution.
    fn summary(&self, has_runtime: bool) -> Summary {
        let (sxy, sxx) = self.drift;
        let cost = self.cost.unwrap_or_default();
        let has_parks = has_runtime && self.ticks_with_park > 0;
        // Computed over all instances: in a report, the entry of the first instance contains the
        // coalesced ticks of all.
        let delivered = self.recorded.saturating_sub(self.ticks.coalesced.unwrap_or(0));
        Summary {
            elapsed_ns: self.elapsed_ns,
            ideal_ns: self.ideal_ns,
            no_park: has_parks.then_some(self.recorded.saturating_sub(self.ticks_with_park)),
            drift_ppb: (sxx > 0.0).then(|| sxy / sxx * PPB),
            cpu_ns_per_tick: cost.per_tick(cost.cpu_ns),
            wakeups_per_tick: cost.per_tick(cost.wakeups),
            core_share: cost.core_share(),
            cost_ticks: self.cost.map(|cost| cost.ticks),
            ..TickCounts { delivered, ..self.ticks }.into()
        }
    }
}

/// An accumulator of rounds in bounded memory, for subjects with too many rounds to keep. Counts
/// and sums are exact, values have three significant digits.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    rounds: u64,
    totals: Totals,
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
            self.totals.add(part);
            self.add_values(part.samples);
        }
    }

    fn add_values(&mut self, samples: &RoundSamples) {
        for &late in &samples.lateness_ns {
            self.lateness.add(late);
        }
        for value in samples.consecutive_ns() {
            self.consecutive.add(value);
        }
        for (late, until) in samples.lateness_ns.iter().zip(&samples.until_unpark_ns) {
            if let Some(until) = until {
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
        histogram::pack_counts(self.lateness.counts())
    }

    /// Returns the summary of all rounds, with the intervals from the summary of the kept rounds;
    /// `None` if no tick was delivered or coalesced.
    #[must_use]
    pub fn summary(&self, kept: Option<Summary>, has_runtime: bool) -> Option<Summary> {
        let lateness_ns = self.lateness.distribution(0)?;
        let kept = kept.unwrap_or_default();
        Some(Summary {
            jitter_spread_ns: self.lateness.distribution(lateness_ns.min),
            drift_ppb_ci95: kept.drift_ppb_ci95,
            lateness_ns: Distribution { ci95: kept.lateness_ns.ci95, ..lateness_ns },
            median_round_ns: kept.median_round_ns,
            jitter_consecutive_ns: self.consecutive.distribution(0),
            until_unpark_ns: self.until.distribution(0),
            after_unpark_ns: self.after.distribution(0),
            ..self.totals.summary(has_runtime)
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
        let side = side.get_or_insert_with(histogram::empty);
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
        let at = |q: f64| Some(self.quantile(&counts, q)?.saturating_sub(origin));
        let mean = i64::try_from(self.sum / i128::from(self.n)).unwrap_or(i64::MAX);
        Some(Distribution::new(range, Some(mean.saturating_sub(origin)), at))
    }

    /// Returns a quantile of counted values; `None` if there are too few values.
    fn quantile(&self, counts: &[(i64, u64)], q: f64) -> Option<i64> {
        let n = usize::try_from(self.n).unwrap_or(usize::MAX);
        if !quantile::is_supported(n, q) {
            return None;
        }
        quantile::nearest_rank_of_counts(counts.iter().copied(), self.n, q)
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

/// The confidence interval over rounds of the slope of lateness, in parts per billion; `None` if
/// there are too few rounds.
fn drift_interval(parts: &[InstanceRound<'_>]) -> Option<[f64; 2]> {
    let mut rounds: Vec<(f64, f64)> = Vec::new();
    let mut last = None;
    for part in parts {
        let (sxy, sxx) = part.samples.drift_sums();
        match rounds.last_mut() {
            Some(sums) if last == Some(part.round) => *sums = (sums.0 + sxy, sums.1 + sxx),
            _ => rounds.push((sxy, sxx)),
        }
        last = Some(part.round);
    }
    let interval = bootstrap::ratio_interval(&rounds, CONFIDENCE)?;
    Some(interval.map(|slope| slope * PPB).into())
}

/// The time from the first to the last recorded tick, as measured and on the grid.
fn spans(round: &RoundSamples) -> (i64, i64) {
    let ([first, ..], [.., last]) = (&round.ticks[..], &round.ticks[..]) else { return (0, 0) };
    let ([first_late, ..], [.., last_late]) = (&round.lateness_ns[..], &round.lateness_ns[..])
    else {
        return (0, 0);
    };
    let ideal_ns = round.grid.deadline_ns(*last).saturating_sub(round.grid.deadline_ns(*first));
    (ideal_ns.saturating_add(*last_late).saturating_sub(*first_late), ideal_ns)
}

/// Adds the confidence intervals over rounds to a pooled distribution.
fn with_intervals(distribution: Distribution, rounds: &[&[i64]]) -> Distribution {
    let quantiles = PERCENTILES.map(|percentile| percentile.quantile);
    let intervals = bootstrap::percentile_intervals(rounds, &quantiles, CONFIDENCE);
    let mut ci95 = BTreeMap::new();
    for (percentile, interval) in PERCENTILES.iter().zip(intervals) {
        if let Some(interval) = interval {
            ci95.insert(percentile.key.to_owned(), interval.into());
        }
    }
    Distribution { ci95, ..distribution }
}

/// The median over the rounds of each percentile for which every round has enough ticks; empty for
/// a single round.
fn median_round(rounds: &[&[i64]]) -> BTreeMap<String, MedianRound> {
    if rounds.len() < 2 {
        return BTreeMap::new();
    }
    let mut sorted: Vec<Vec<i64>> = rounds.iter().map(|round| round.to_vec()).collect();
    for round in &mut sorted {
        round.sort_unstable();
    }
    let mut medians = BTreeMap::new();
    for Percentile { key, quantile, .. } in PERCENTILES {
        if let Some(median) = median_percentile(&sorted, quantile) {
            medians.insert(key.to_owned(), median);
        }
    }
    medians
}

/// The median of a percentile over sorted rounds; `None` if a round has too few ticks.
fn median_percentile(rounds: &[Vec<i64>], q: f64) -> Option<MedianRound> {
    let values: Option<Vec<i64>> =
        rounds.iter().map(|round| quantile::round_nearest_rank(round, q)).collect();
    let (value, interval) = sign_test::median_interval(&values?, CONFIDENCE)?;
    let ci95 = interval.filter(|_| rounds.len() >= bootstrap::MIN_ROUNDS).map(Into::into);
    Some(MedianRound { value, ci95 })
}

/// Returns the samples of each instance of a round from its entries in a report.
#[must_use]
pub fn stored_samples(subject: &report::Subject, entries: &[report::Round]) -> Vec<RoundSamples> {
    // The entry of the first instance contains the summary of the whole round.
    let summary = entries.first().and_then(|entry| entry.summary.as_ref());
    let recorded: Vec<u64> = entries.iter().map(|entry| entry.lateness_ns.len() as u64).collect();
    let total = summary.map_or_else(|| recorded.iter().sum(), |summary| summary.ticks);
    let planned = distribute_ticks(total, subject.instances, &recorded);
    let mut coalesced = summary.and_then(|summary| summary.coalesced).unwrap_or(0);
    let mut samples = Vec::with_capacity(entries.len());
    for (entry, ticks) in entries.iter().zip(planned) {
        let recorded = entry.lateness_ns.len();
        samples.push(RoundSamples {
            grid: Grid { first_tick: entry.first_tick, ticks, period_ns: subject.period_ns },
            ticks: (0..recorded).map(|i| entry.tick_index(i)).collect(),
            lateness_ns: entry.lateness_ns.clone(),
            until_unpark_ns: entry.until_unpark_ns.clone().unwrap_or_else(|| vec![None; recorded]),
            coalesced: std::mem::take(&mut coalesced),
        });
    }
    samples
}

/// Distributes the planned ticks of a round over its instances, as evenly as their recorded ticks
/// allow: in a stopped round, each instance has planned another number of ticks.
pub(crate) fn distribute_ticks(total: u64, instances: u64, recorded: &[u64]) -> Vec<u64> {
    let mut by_length: Vec<usize> = (0..recorded.len()).collect();
    by_length.sort_by_key(|&i| Reverse(recorded[i]));
    let mut planned = vec![0; recorded.len()];
    let mut rest = total;
    let mut rest_instances = instances.max(recorded.len() as u64);
    for i in by_length {
        planned[i] = rest.div_ceil(rest_instances).max(recorded[i]);
        rest = rest.saturating_sub(planned[i]);
        rest_instances -= 1;
    }
    planned
}

/// Returns the pooled distribution over rounds; `None` without a sample.
#[must_use]
pub fn distribution<R: AsRef<[i64]>>(rounds: &[R]) -> Option<Distribution> {
    let mut sorted: Vec<i64> = rounds.iter().flat_map(|r| r.as_ref()).copied().collect();
    sorted.sort_unstable();
    let (min, max) = (*sorted.first()?, *sorted.last()?);
    let sum: i128 = sorted.iter().map(|&v| i128::from(v)).sum();
    let mean = i64::try_from(sum / sorted.len() as i128).unwrap_or(i64::MAX);
    let range = Interval { lower: min, upper: max };
    Some(Distribution::new(range, Some(mean), |q| quantile::supported_nearest_rank(&sorted, q)))
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
    fn planned_ticks_cover_recorded_ones() {
        // A full round, whose second instance skipped ten ticks.
        assert_eq!(distribute_ticks(200, 2, &[100, 90]), [100, 100]);
        // Stopped rounds, whose instances ended at different ticks.
        assert_eq!(distribute_ticks(199, 2, &[100, 99]), [100, 99]);
        assert_eq!(distribute_ticks(199, 2, &[99, 100]), [99, 100]);
        assert_eq!(distribute_ticks(297, 3, &[98, 100, 99]), [98, 100, 99]);
        assert_eq!(distribute_ticks(299, 3, &[98, 100, 99]), [99, 100, 100]);
        // A lost round, and a file without the entry of the other instance.
        assert_eq!(distribute_ticks(199, 2, &[0, 0]), [100, 99]);
        assert_eq!(distribute_ticks(200, 2, &[90]), [100]);
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
        let cost = RoundCost {
            ticks: 249,
            window_ns: Some(249_000_000),
            cpu_ns: Some(5_000),
            wakeups: Some(250),
        };
        let parts: Vec<InstanceRound<'_>> = (0..)
            .zip(&rounds)
            .map(|(round, samples)| InstanceRound { round, samples, cost })
            .collect();
        let exact = summarise(&parts, true).unwrap();
        let mut pool = Pool::default();
        for part in &parts {
            pool.add(std::slice::from_ref(part));
        }
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
                (s.cpu_ns_per_tick, s.wakeups_per_tick, s.core_share),
            )
        };
        assert_eq!(counts(&exact), counts(&pooled));
        assert!((exact.drift_ppb.unwrap() / pooled.drift_ppb.unwrap() - 1.0).abs() < 1e-9);
        assert!(Pool::default().summary(None, true).is_none());
    }

    #[test]
    fn cost_belongs_to_its_window() {
        let grid = Grid { period_ns: 1_000, first_tick: 20, ticks: 11 };
        let wakeup =
            |k: u64| Wakeup { tick: k, expirations: 1, wake_ns: 1_000 * k as i64, unpark_ns: None };
        let wakeups: Vec<Wakeup> = (0..31).map(wakeup).collect();
        let samples = RoundSamples::from_wakeups(grid, &wakeups).unwrap();
        let summarise_with = |costs: &[RoundCost]| {
            let parts: Vec<InstanceRound<'_>> = (0..)
                .zip(costs)
                .map(|(round, &cost)| InstanceRound { round, samples: &samples, cost })
                .collect();
            let summary = summarise(&parts, false).unwrap();
            (summary.cpu_ns_per_tick, summary.wakeups_per_tick, summary.core_share)
        };
        let cost = RoundCost {
            ticks: 10,
            window_ns: Some(20_000),
            cpu_ns: Some(5_000),
            wakeups: Some(20),
        };
        let expected = (Some(500.0), Some(2.0), Some(0.25));
        assert_eq!(summarise_with(&[cost, cost]), expected);
        // A round that was stopped early has no window.
        assert_eq!(summarise_with(&[cost, RoundCost::default()]), expected);
        // An instance without a tick in the window has its share of the cost.
        let idle = RoundCost { ticks: 0, ..cost };
        assert_eq!(summarise_with(&[cost, idle]), (Some(1_000.0), Some(4.0), Some(0.25)));
        // The CPU time of one round is unknown.
        let unknown = RoundCost { cpu_ns: None, ..cost };
        assert_eq!(summarise_with(&[cost, unknown]), (None, Some(2.0), None));
        let program = RoundCost { window_ns: None, ..cost };
        assert_eq!(summarise_with(&[program]), (Some(500.0), Some(2.0), None));
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
