//! The comparison of the whole range of quantiles, with a band: the shift function (Doksum,
//! "Empirical Probability Plots and Statistical Inference for Nonlinear Models in the Two-Sample
//! Case", Annals of Statistics, 1974), here as a ratio.
//!
//! The quantiles are those of all ticks, as a user experiences them, including stalls. The band is
//! pointwise and comes from resampled rounds. Rounds that ran in pairs are drawn in pairs.

use std::collections::{BTreeMap, BTreeSet};

use crate::histogram;
use crate::report::Subject;
use jitterstat::stats::Interval;
use jitterstat::stats::bootstrap::MIN_ROUNDS;
use jitterstat::stats::quantile::{is_supported, rank};
use jitterstat::stats::random::SplitMix64;

use super::model::{Quantile, Quantiles, tidy};

/// Number of points per nine.
const STEPS_PER_NINE: usize = 20;
/// Maximum number of resamples.
const MAX_RESAMPLES: usize = 1_000;
/// Minimum number of resamples.
const MIN_RESAMPLES: usize = 200;
/// Maximum number of ticks that all resamples visit together, which takes about a second.
const MAX_VISITED_TICKS: usize = 400_000_000;
/// Share of the resamples within the band.
const CONFIDENCE: f64 = 0.95;
/// Fixed seed, so that the same samples give the same band.
const SEED: u64 = 0x7368_6966_7420_6279;
/// Minimum time for ratios: less is below the resolution of clocks.
const RESOLUTION_NS: i64 = 10;

/// The ticks of one side in ascending order, each with its round.
struct PooledTicks {
    lateness_ns: Vec<i64>,
    /// For a histogram, the number of ticks up to each value; empty if each value is a tick.
    up_to: Vec<u64>,
    /// Position in `rounds` of each tick's round; empty without samples.
    tick_rounds: Vec<u32>,
    rounds: Vec<PooledRound>,
}

struct PooledRound {
    index: u64,
    ticks: usize,
}

impl PooledTicks {
    /// Collects the samples of the selected rounds, or the values of the histogram without samples.
    fn new(subject: &Subject, is_selected: impl Fn(u64) -> bool) -> Self {
        let mut positions: BTreeMap<u64, u32> = BTreeMap::new();
        let mut rounds: Vec<PooledRound> = Vec::new();
        let mut ticks: Vec<(i64, u32)> = Vec::new();
        for round in &subject.rounds {
            if !is_selected(round.index) || round.lateness_ns.is_empty() {
                continue;
            }
            let next = u32::try_from(rounds.len()).expect("reports have fewer rounds");
            let position = *positions.entry(round.index).or_insert(next);
            if position == next {
                rounds.push(PooledRound { index: round.index, ticks: 0 });
            }
            rounds[position as usize].ticks += round.lateness_ns.len();
            ticks.extend(round.lateness_ns.iter().map(|&lateness| (lateness, position)));
        }
        if ticks.is_empty() {
            return Self::from_histogram(subject);
        }
        ticks.sort_unstable();
        let (lateness_ns, tick_rounds) = ticks.into_iter().unzip();
        Self { lateness_ns, up_to: Vec::new(), tick_rounds, rounds }
    }

    /// Collects the values of the histogram, whose rounds are unknown.
    fn from_histogram(subject: &Subject) -> Self {
        let (mut lateness_ns, mut up_to) = (Vec::new(), Vec::new());
        let mut total = 0_u64;
        if let Some(stored) = subject.histogram.as_ref().and_then(|h| histogram::unpack(h).ok()) {
            for step in stored.iter_recorded() {
                total = total.saturating_add(step.count_at_value());
                lateness_ns.push(i64::try_from(step.value_iterated_to()).unwrap_or(i64::MAX));
                up_to.push(total);
            }
        }
        Self { lateness_ns, up_to, tick_rounds: Vec::new(), rounds: Vec::new() }
    }

    /// Returns the number of ticks.
    fn count(&self) -> usize {
        let last = self.up_to.last();
        last.map_or(self.lateness_ns.len(), |&n| usize::try_from(n).unwrap_or(usize::MAX))
    }

    fn quantile(&self, q: f64) -> i64 {
        let rank = rank(self.count(), q);
        let position = if self.up_to.is_empty() {
            rank - 1
        } else {
            self.up_to.partition_point(|&n| n < rank as u64)
        };
        self.lateness_ns[position.min(self.lateness_ns.len() - 1)]
    }

    /// Computes the values at ascending quantiles if round i counts `weights[i]` times.
    fn resample(&self, weights: &[u32], quantiles: &[f64], values: &mut Vec<i64>) {
        let weighted = self.rounds.iter().zip(weights);
        let total: usize = weighted.map(|(round, &weight)| round.ticks * weight as usize).sum();
        let (mut passed, mut at) = (0, 0);
        values.clear();
        for &q in quantiles {
            let rank = rank(total, q);
            while passed < rank && at < self.tick_rounds.len() {
                passed += weights[self.tick_rounds[at] as usize] as usize;
                at += 1;
            }
            values.push(self.lateness_ns[at.max(1) - 1]);
        }
    }
}

/// Compares B with A over the range of quantiles of both; `None` if one of them has no tick.
pub(super) fn compare(a: &Subject, b: &Subject, paired: bool) -> Option<Quantiles> {
    let common: BTreeSet<u64> =
        sampled_rounds(a).intersection(&sampled_rounds(b)).copied().collect();
    let is_selected = |index: u64| !paired || common.contains(&index);
    let (a, b) = (PooledTicks::new(a, is_selected), PooledTicks::new(b, is_selected));
    let fewer = a.count().min(b.count());
    if fewer == 0 {
        return None;
    }
    let grid = grid(fewer);
    let supported = grid.iter().take_while(|&&q| is_supported(fewer, q)).count();
    let (band, resamples) = band(&a, &b, &grid[..supported], paired);
    let mut points = Vec::with_capacity(grid.len());
    for (i, quantile) in grid.into_iter().enumerate() {
        let (a_ns, b_ns) = (a.quantile(quantile), b.quantile(quantile));
        let ratio_ci95 = band.get(i).map(|&interval| interval.into());
        points.push(Quantile { quantile, a_ns, b_ns, ratio: tidy(ratio(a_ns, b_ns)), ratio_ci95 });
    }
    Some(Quantiles {
        ticks_a: a.count() as u64,
        ticks_b: b.count() as u64,
        resamples: resamples as u64,
        points,
    })
}

/// Returns the indices of the rounds that have samples.
fn sampled_rounds(subject: &Subject) -> BTreeSet<u64> {
    let sampled = subject.rounds.iter().filter(|round| !round.lateness_ns.is_empty());
    sampled.map(|round| round.index).collect()
}

fn ratio(a_ns: i64, b_ns: i64) -> f64 {
    b_ns.max(RESOLUTION_NS) as f64 / a_ns.max(RESOLUTION_NS) as f64
}

/// Quantiles that are evenly spaced in nines, from the first tick to the middle of the last one's
/// share.
fn grid(ticks: usize) -> Vec<f64> {
    let end = (2.0 * ticks as f64).log10();
    let inner = (0..).map(|i| f64::from(i) / STEPS_PER_NINE as f64).take_while(|&x| x < end);
    // Twelve digits survive JSON exactly.
    let quantile = |x: f64| ((1.0 - 10_f64.powf(-x)) * 1e12).round() / 1e12;
    inner.chain([end]).map(quantile).collect()
}

/// The pointwise band at each quantile with the number of resamples; empty with too few rounds.
fn band(
    a: &PooledTicks,
    b: &PooledTicks,
    quantiles: &[f64],
    paired: bool,
) -> (Vec<Interval<f64>>, usize) {
    if a.rounds.len().min(b.rounds.len()) < MIN_ROUNDS || quantiles.is_empty() {
        return (Vec::new(), 0);
    }
    let visited = a.lateness_ns.len() + b.lateness_ns.len();
    let resamples = (MAX_VISITED_TICKS / visited).clamp(MIN_RESAMPLES, MAX_RESAMPLES);
    let mut drawing = RoundDrawing::new(a, b, paired);
    let (mut a_ns, mut b_ns) = (Vec::new(), Vec::new());
    let mut ratios: Vec<Vec<f64>> = vec![Vec::with_capacity(resamples); quantiles.len()];
    for _ in 0..resamples {
        drawing.draw();
        a.resample(&drawing.a_weights, quantiles, &mut a_ns);
        b.resample(&drawing.b_weights, quantiles, &mut b_ns);
        for ((ratios, &a_ns), &b_ns) in ratios.iter_mut().zip(&a_ns).zip(&b_ns) {
            ratios.push(ratio(a_ns, b_ns));
        }
    }
    (ratios.into_iter().map(middle).collect(), resamples)
}

/// Random weights of the rounds of both sides.
struct RoundDrawing {
    random: SplitMix64,
    /// For pairs, the position in B of each round of A.
    partners: Option<Vec<Option<usize>>>,
    a_weights: Vec<u32>,
    b_weights: Vec<u32>,
}

impl RoundDrawing {
    fn new(a: &PooledTicks, b: &PooledTicks, paired: bool) -> Self {
        let positions: BTreeMap<u64, usize> =
            b.rounds.iter().enumerate().map(|(position, round)| (round.index, position)).collect();
        let partner = |round: &PooledRound| positions.get(&round.index).copied();
        Self {
            random: SplitMix64::new(SEED),
            partners: paired.then(|| a.rounds.iter().map(partner).collect()),
            a_weights: vec![0; a.rounds.len()],
            b_weights: vec![0; b.rounds.len()],
        }
    }

    /// Draws as many rounds of each side as there are, with replacement. Pairs are drawn together.
    fn draw(&mut self) {
        draw_weights(&mut self.random, &mut self.a_weights);
        let Some(partners) = &self.partners else {
            return draw_weights(&mut self.random, &mut self.b_weights);
        };
        for (position, &weight) in partners.iter().zip(&self.a_weights) {
            if let Some(position) = *position {
                self.b_weights[position] = weight;
            }
        }
    }
}

fn draw_weights(random: &mut SplitMix64, weights: &mut [u32]) {
    weights.fill(0);
    for _ in 0..weights.len() {
        weights[random.index(weights.len())] += 1;
    }
}

/// The middle of the resampled ratios.
fn middle(mut ratios: Vec<f64>) -> Interval<f64> {
    ratios.sort_unstable_by(f64::total_cmp);
    let tail = ((1.0 - CONFIDENCE) / 2.0 * ratios.len() as f64).floor() as usize;
    Interval { lower: ratios[tail], upper: ratios[ratios.len() - 1 - tail] }.map(tidy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grid_covers_all_ticks() {
        let grid = grid(1_000);
        assert_eq!(grid[0], 0.0);
        assert!(
            (grid[STEPS_PER_NINE] - 0.9).abs() < 1e-12
                && (grid.last().unwrap() - 0.9995).abs() < 1e-9
        );
        assert!(grid.is_sorted_by(|x, y| x < y));
    }
}
