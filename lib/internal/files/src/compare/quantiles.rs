//! The whole range of quantiles of B against A, with a band: the shift function (Doksum, "Empirical
//! Probability Plots and Statistical Inference for Nonlinear Models in the Two-Sample Case", Annals
//! of Statistics, 1974), here as a ratio.
//!
//! The quantiles are those of all ticks together, what a user meets; nothing is left out of them.
//! The band is pointwise and from resampled rounds, as every interval here: rounds that ran in
//! pairs are drawn in pairs.

use std::collections::{BTreeMap, BTreeSet};

use crate::histogram;
use crate::report::Subject;
use jitterstat::stats::Interval;
use jitterstat::stats::bootstrap::MIN_ROUNDS;
use jitterstat::stats::quantile::{is_supported, rank};
use jitterstat::stats::random::SplitMix64;

use super::model::{Quantile, Quantiles, tidy};

/// Points for each nine.
const STEPS: usize = 20;
/// Resamples of rounds, as far as the work allows.
const RESAMPLES: usize = 1_000;
/// But at least these.
const MIN_RESAMPLES: usize = 200;
/// The work: ticks walked over in all resamples together; a second or so.
const WALKED: usize = 400_000_000;
/// Share of the resamples that lies within the band.
const CONFIDENCE: f64 = 0.95;
/// Fixed: the same samples give the same band.
const SEED: u64 = 0x7368_6966_7420_6279;
/// Ratios of times below the clock's grain say nothing.
const RESOLUTION_NS: i64 = 10;

/// All ticks of one side in ascending order, each with its round.
struct Pool {
    lateness_ns: Vec<i64>,
    /// Of a histogram, how many ticks are at or below each value; empty where each value is a tick.
    up_to: Vec<u64>,
    /// Place of each tick's round in `rounds`; empty without samples.
    round_of: Vec<u32>,
    /// Index and size of each round.
    rounds: Vec<(u64, usize)>,
}

impl Pool {
    fn of(subject: &Subject, only: impl Fn(u64) -> bool) -> Self {
        let mut places: BTreeMap<u64, u32> = BTreeMap::new();
        let mut rounds: Vec<(u64, usize)> = Vec::new();
        let mut all: Vec<(i64, u32)> = Vec::new();
        for round in subject.rounds.iter().filter(|r| only(r.index) && !r.lateness_ns.is_empty()) {
            let place = *places.entry(round.index).or_insert_with(|| {
                rounds.push((round.index, 0));
                u32::try_from(rounds.len() - 1).expect("no report has so many rounds")
            });
            rounds[place as usize].1 += round.lateness_ns.len();
            all.extend(round.lateness_ns.iter().map(|&lateness| (lateness, place)));
        }
        all.sort_unstable();
        let (lateness_ns, round_of) = all.into_iter().unzip();
        let pool = Self { lateness_ns, up_to: Vec::new(), round_of, rounds };
        if pool.lateness_ns.is_empty() { Self::of_histogram(subject) } else { pool }
    }

    /// Without samples, the values of the histogram stand for them, and their rounds are not known.
    fn of_histogram(subject: &Subject) -> Self {
        let (mut lateness_ns, mut up_to) = (Vec::new(), Vec::new());
        let mut total = 0_u64;
        if let Some(stored) = subject.histogram.as_ref().and_then(|h| histogram::unpack(h).ok()) {
            for step in stored.iter_recorded() {
                total = total.saturating_add(step.count_at_value());
                lateness_ns.push(i64::try_from(step.value_iterated_to()).unwrap_or(i64::MAX));
                up_to.push(total);
            }
        }
        Self { lateness_ns, up_to, round_of: Vec::new(), rounds: Vec::new() }
    }

    fn ticks(&self) -> usize {
        self.up_to
            .last()
            .map_or(self.lateness_ns.len(), |&n| usize::try_from(n).unwrap_or(usize::MAX))
    }

    fn at(&self, q: f64) -> i64 {
        let rank = rank(self.ticks(), q);
        let place = if self.up_to.is_empty() {
            rank - 1
        } else {
            self.up_to.partition_point(|&n| n < rank as u64)
        };
        self.lateness_ns[place.min(self.lateness_ns.len() - 1)]
    }

    /// The values at the quantiles, which ascend, where round i counts `weights[i]` times.
    fn resampled(&self, weights: &[u32], quantiles: &[f64], values: &mut Vec<i64>) {
        let total: usize =
            self.rounds.iter().zip(weights).map(|(&(_, size), &w)| size * w as usize).sum();
        let (mut walked, mut at) = (0, 0);
        values.clear();
        for &q in quantiles {
            let wanted = rank(total, q);
            while walked < wanted && at < self.round_of.len() {
                walked += weights[self.round_of[at] as usize] as usize;
                at += 1;
            }
            values.push(self.lateness_ns[at.max(1) - 1]);
        }
    }
}

/// B against A over the range of quantiles that both have; `None` where one has no tick.
pub(super) fn compare(a: &Subject, b: &Subject, paired: bool) -> Option<Quantiles> {
    let indices = |s: &Subject| -> BTreeSet<u64> {
        s.rounds.iter().filter(|r| !r.lateness_ns.is_empty()).map(|r| r.index).collect()
    };
    let common: BTreeSet<u64> = indices(a).intersection(&indices(b)).copied().collect();
    let only = |index: u64| !paired || common.contains(&index);
    let (a, b) = (Pool::of(a, only), Pool::of(b, only));
    let fewest = a.ticks().min(b.ticks());
    if fewest == 0 {
        return None;
    }
    let grid = grid(fewest);
    let carried = grid.iter().take_while(|&&q| is_supported(fewest, q)).count();
    let (band, resamples) = band(&a, &b, &grid[..carried], paired);
    let point = |(i, &quantile): (usize, &f64)| {
        let (a_ns, b_ns) = (a.at(quantile), b.at(quantile));
        Quantile {
            quantile,
            a_ns,
            b_ns,
            ratio: tidy(ratio(a_ns, b_ns)),
            ratio_ci95: band.get(i).map(|&interval| interval.into()),
        }
    };
    Some(Quantiles {
        ticks_a: a.ticks() as u64,
        ticks_b: b.ticks() as u64,
        resamples: resamples as u64,
        points: grid.iter().enumerate().map(point).collect(),
    })
}

fn ratio(a_ns: i64, b_ns: i64) -> f64 {
    b_ns.max(RESOLUTION_NS) as f64 / a_ns.max(RESOLUTION_NS) as f64
}

/// Evenly spaced in nines, from the least tick to the middle of the last one's share.
fn grid(ticks: usize) -> Vec<f64> {
    let end = (2.0 * ticks as f64).log10();
    let inner = (0..).map(|i| f64::from(i) / STEPS as f64).take_while(|&x| x < end);
    // Twelve digits, which a reader of JSON keeps exactly.
    let quantile = |x: f64| ((1.0 - 10_f64.powf(-x)) * 1e12).round() / 1e12;
    inner.chain([end]).map(quantile).collect()
}

/// The pointwise band at each quantile, and from how many resamples; nothing where there are too
/// few rounds.
fn band(a: &Pool, b: &Pool, quantiles: &[f64], paired: bool) -> (Vec<Interval<f64>>, usize) {
    if a.rounds.len().min(b.rounds.len()) < MIN_ROUNDS || quantiles.is_empty() {
        return (Vec::new(), 0);
    }
    let resamples =
        (WALKED / (a.lateness_ns.len() + b.lateness_ns.len())).clamp(MIN_RESAMPLES, RESAMPLES);
    // Where the rounds of B are among those of A: a pair is drawn whole.
    let places: BTreeMap<u64, usize> =
        b.rounds.iter().enumerate().map(|(place, r)| (r.0, place)).collect();
    let partner: Vec<Option<usize>> = a.rounds.iter().map(|r| places.get(&r.0).copied()).collect();
    let mut random = SplitMix64::new(SEED);
    let mut draw = |weights: &mut [u32]| {
        weights.fill(0);
        (0..weights.len()).for_each(|_| weights[random.index(weights.len())] += 1);
    };
    let (mut of_a, mut of_b) = (vec![0; a.rounds.len()], vec![0; b.rounds.len()]);
    let (mut at_a, mut at_b) = (Vec::new(), Vec::new());
    let mut ratios: Vec<Vec<f64>> = vec![Vec::with_capacity(resamples); quantiles.len()];
    for _ in 0..resamples {
        draw(&mut of_a);
        if paired {
            for (place, &weight) in partner.iter().zip(&of_a) {
                if let Some(place) = *place {
                    of_b[place] = weight;
                }
            }
        } else {
            draw(&mut of_b);
        }
        a.resampled(&of_a, quantiles, &mut at_a);
        b.resampled(&of_b, quantiles, &mut at_b);
        for ((all, &x), &y) in ratios.iter_mut().zip(&at_a).zip(&at_b) {
            all.push(ratio(x, y));
        }
    }
    let middle = |mut all: Vec<f64>| {
        all.sort_unstable_by(f64::total_cmp);
        let tail = ((1.0 - CONFIDENCE) / 2.0 * all.len() as f64).floor() as usize;
        Interval { lower: all[tail], upper: all[all.len() - 1 - tail] }.map(tidy)
    };
    (ratios.into_iter().map(middle).collect(), resamples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_goes_from_the_least_to_the_last_tick() {
        let grid = grid(1_000);
        assert_eq!(grid[0], 0.0);
        assert!((grid[STEPS] - 0.9).abs() < 1e-12 && (grid.last().unwrap() - 0.9995).abs() < 1e-9);
        assert!(grid.is_sorted_by(|x, y| x < y));
    }
}
