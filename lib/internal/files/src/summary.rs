//! From the rounds of one subject to its summary.

use std::borrow::Cow;
use std::collections::BTreeMap;

use hdrhistogram::Histogram as Hdr;

use crate::report::{self, Distribution, MedianRound, PERCENTILES, Percentile, Summary};
use jitterstat::sample::{Grid, RoundSamples};
use jitterstat::stats::{Interval, bootstrap, quantile, sign_test};

/// Confidence of every interval in a report.
const CONFIDENCE: f64 = 0.95;
/// Digits of what is pooled, as of every stored histogram.
const DIGITS: u8 = 3;

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
    let all = |f: fn(&RoundSamples) -> u64| samples().map(f).fold(0, u64::saturating_add);
    let lateness: Vec<&[i64]> = samples().map(|r| r.lateness_ns.as_slice()).collect();
    let min_ns = lateness.iter().flat_map(|r| r.iter()).copied().min()?;
    let ticks = all(|r| r.grid.ticks);
    let per_tick = |total: Option<u64>| total.map(|t| t as f64 / ticks as f64);
    let cpu_ns = parts.iter().map(|part| part.cost.cpu_ns).sum::<Option<u64>>();
    let wakeups = parts.iter().map(|part| part.cost.wakeups).sum::<Option<u64>>();

    let consecutive: Vec<Vec<i64>> = samples().map(|r| r.consecutive_ns().collect()).collect();
    let spread: Vec<Vec<i64>> =
        lateness.iter().map(|r| r.iter().map(|l| l.saturating_sub(min_ns)).collect()).collect();
    let until: Vec<Vec<i64>> =
        samples().map(|r| r.until_unpark_ns.iter().flatten().copied().collect()).collect();
    let after: Vec<Vec<i64>> = samples()
        .map(|r| {
            let pairs = r.lateness_ns.iter().zip(&r.until_unpark_ns);
            pairs.filter_map(|(l, u)| u.map(|u| l.saturating_sub(u))).collect()
        })
        .collect();
    let stamped: u64 = until.iter().map(|r| r.len() as u64).sum();
    let (elapsed_ns, ideal_ns) = samples()
        .map(spans)
        .fold((0_i64, 0_i64), |a, b| (a.0.saturating_add(b.0), a.1.saturating_add(b.1)));
    let rounds = by_round(parts);
    let rounds: Vec<&[i64]> = rounds.iter().map(|round| round.as_ref()).collect();
    Some(Summary {
        ticks,
        // Not instance by instance: a report has the coalesced ticks of all in the entry of the
        // first.
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

/// Everything of a subject whose rounds are too many to keep, in an amount of memory that does not
/// depend on them: counts and sums exactly, values to three digits.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    rounds: u64,
    counts: Summary,
    stamped: u64,
    drift: (f64, f64),
    cost: Option<(Option<u64>, Option<u64>)>,
    lateness: Pooled,
    consecutive: Pooled,
    until: Pooled,
    after: Pooled,
}

impl Pool {
    /// Adds what the instances of one round did.
    pub fn add(&mut self, parts: &[InstanceRound<'_>]) {
        self.rounds += 1;
        for part in parts {
            let (samples, sum) = (part.samples, &mut self.counts);
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
            let (cpu, wakeups) = self.cost.unwrap_or((Some(0), Some(0)));
            let more = |sum: Option<u64>, part: Option<u64>| Some(sum?.saturating_add(part?));
            self.cost = Some((more(cpu, part.cost.cpu_ns), more(wakeups, part.cost.wakeups)));
            samples.lateness_ns.iter().for_each(|&value| self.lateness.add(value));
            samples.consecutive_ns().for_each(|value| self.consecutive.add(value));
            for (late, until) in samples.lateness_ns.iter().zip(&samples.until_unpark_ns) {
                if let Some(until) = until {
                    self.stamped += 1;
                    self.until.add(*until);
                    self.after.add(late.saturating_sub(*until));
                }
            }
        }
    }

    /// How many rounds are in it.
    #[must_use]
    pub fn rounds(&self) -> u64 {
        self.rounds
    }

    /// All lateness, as a report keeps it.
    #[must_use]
    pub fn histogram(&self) -> report::Histogram {
        crate::histogram::pack_counts(self.lateness.counts())
    }

    /// The summary of all rounds, with the intervals that the kept ones support; `None` if no tick
    /// of any was delivered or coalesced.
    #[must_use]
    pub fn summary(&self, kept: Option<Summary>, has_runtime: bool) -> Option<Summary> {
        let lateness_ns = self.lateness.distribution(0)?;
        let kept = kept.unwrap_or_default();
        let ticks = self.counts.ticks.max(1);
        let per_tick = |total: Option<u64>| total.map(|total| total as f64 / ticks as f64);
        let (cpu_ns, wakeups) = self.cost.unwrap_or_default();
        Some(Summary {
            no_park: (has_runtime && self.stamped > 0).then(|| self.lateness.n - self.stamped),
            drift_ppb: (self.drift.1 > 0.0).then(|| self.drift.0 / self.drift.1 * 1e9),
            cpu_ns_per_tick: per_tick(cpu_ns),
            wakeups_per_tick: per_tick(wakeups),
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

/// Values of either sign: exact in number, sum, least and largest, and to three digits between.
#[derive(Clone, Debug, Default)]
struct Pooled {
    n: u64,
    sum: i128,
    range: Option<Interval<i64>>,
    /// By distance from zero.
    negative: Option<Hdr<u64>>,
    others: Option<Hdr<u64>>,
}

impl Pooled {
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

    /// Values with their counts, ascending.
    fn counts(&self) -> impl Iterator<Item = (i64, u64)> + '_ {
        let of = |side: &'_ Option<Hdr<u64>>, sign: i64| -> Vec<(i64, u64)> {
            let Interval { lower, upper } = self.range.unwrap_or_default();
            let value = |v: u64| {
                i64::try_from(v).unwrap_or(i64::MAX).saturating_mul(sign).clamp(lower, upper)
            };
            side.iter()
                .flat_map(|h| h.iter_recorded())
                .map(|v| (value(v.value_iterated_to()), v.count_at_value()))
                .collect()
        };
        of(&self.negative, -1).into_iter().rev().chain(of(&self.others, 1))
    }

    /// Of all values, less `origin`; `None` without one.
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
    let (Some((l0, l1)), Some((k0, k1))) =
        (ends(&round.lateness_ns), round.ticks.first().zip(round.ticks.last()))
    else {
        return (0, 0);
    };
    let ideal_ns = round.grid.deadline_ns(*k1).saturating_sub(round.grid.deadline_ns(*k0));
    (ideal_ns.saturating_add(l1).saturating_sub(l0), ideal_ns)
}

/// Slope of lateness over the deadline, in parts per billion (nanoseconds per second): ordinary
/// least squares with an offset of its own for each round, so that a slow round is not taken for a
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

/// The median over the rounds of each percentile that every round supports; empty for a single
/// round.
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
            .map(|round| {
                quantile::nearest_rank(round, q)
                    .filter(|_| quantile::is_supported_by_round(round.len(), q))
            })
            .collect();
        let (value, ci95) = sign_test::median_interval(&values?, CONFIDENCE)?;
        let ci95 = ci95.filter(|_| rounds.len() >= bootstrap::MIN_ROUNDS).map(Into::into);
        Some((key.to_owned(), MedianRound { value, ci95 }))
    };
    if rounds.len() < 2 {
        BTreeMap::new()
    } else {
        PERCENTILES.into_iter().filter_map(of).collect()
    }
}

/// The samples of one round of one instance, from the report that keeps them.
#[must_use]
pub fn stored_samples(subject: &report::Subject, entry: &report::Round) -> RoundSamples {
    let recorded = entry.lateness_ns.len();
    // The summary of a round is of all instances, and stands with the first of them.
    let (asked, coalesced) = entry
        .summary
        .as_ref()
        .map_or((recorded as u64, 0), |s| (s.ticks / subject.instances.max(1), s.coalesced));
    RoundSamples {
        grid: Grid { first_tick: entry.first_tick, ticks: asked, period_ns: subject.period_ns },
        ticks: (0..recorded).map(|i| entry.tick_index(i)).collect(),
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
    fn a_pool_says_what_the_rounds_say() {
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
        for of in [
            |s: &Summary| s.jitter_consecutive_ns.clone(),
            |s: &Summary| s.jitter_spread_ns.clone(),
            |s: &Summary| s.until_unpark_ns.clone(),
            |s: &Summary| s.after_unpark_ns.clone(),
        ] {
            near(&of(&exact).unwrap(), &of(&pooled).unwrap());
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
        assert!(
            of(4).lateness_ns.ci95.is_empty(),
            "four rounds have no interval, however many parts they have"
        );
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
