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
use jitterstat::stats::bootstrap::{MIN_ROUNDS, draw_rounds};
use jitterstat::stats::pooled_ticks::{PooledTicks, RESAMPLES_PER_PASS};
use jitterstat::stats::quantile::{is_supported, rank};
use jitterstat::stats::random::SplitMix64;

use super::model::{Quantile, Quantiles, tidy};

/// Number of points per nine.
const STEPS_PER_NINE: usize = 20;
/// Maximum number of resamples.
const MAX_RESAMPLES: usize = 1_000;
/// Minimum number of resamples.
const MIN_RESAMPLES: usize = 200;
/// Maximum number of ticks that all resamples visit together.
const MAX_VISITED_TICKS: usize = 400_000_000;
/// Share of the resamples within the band.
const CONFIDENCE: f64 = 0.95;
/// Fixed seed, so that the same samples give the same band.
const SEED: u64 = 0x7368_6966_7420_6279;
/// Minimum time for ratios: less is below the resolution of clocks.
const RESOLUTION_NS: i64 = 10;

/// The ticks of one side.
enum SideTicks {
    /// Samples, with the indices of their rounds.
    Samples { pooled: PooledTicks, rounds: Vec<u64> },
    /// Values of a histogram in ascending order, with the number of ticks up to each. Their rounds
    /// are unknown.
    Histogram { lateness_ns: Vec<i64>, up_to: Vec<u64> },
}

impl SideTicks {
    /// Collects the samples of the selected rounds, or the values of the histogram without samples.
    fn new(subject: &Subject, is_selected: impl Fn(u64) -> bool) -> Self {
        let mut positions: BTreeMap<u64, u32> = BTreeMap::new();
        let (mut rounds, mut parts) = (Vec::new(), Vec::new());
        for round in &subject.rounds {
            if !is_selected(round.index) || round.lateness_ns.is_empty() {
                continue;
            }
            let next = u32::try_from(rounds.len()).expect("reports have fewer rounds");
            let position = *positions.entry(round.index).or_insert(next);
            if position == next {
                rounds.push(round.index);
            }
            parts.push((position, &round.lateness_ns[..]));
        }
        if parts.is_empty() {
            return Self::from_histogram(subject);
        }
        Self::Samples { pooled: PooledTicks::from_parts(&parts), rounds }
    }

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
        Self::Histogram { lateness_ns, up_to }
    }

    /// Returns the number of ticks.
    fn count(&self) -> usize {
        match self {
            Self::Samples { pooled, .. } => pooled.values().len(),
            Self::Histogram { up_to, .. } => {
                usize::try_from(up_to.last().copied().unwrap_or(0)).unwrap_or(usize::MAX)
            }
        }
    }

    /// Returns the value at a quantile. There must be a tick.
    fn quantile(&self, q: f64) -> i64 {
        let rank = rank(self.count(), q);
        match self {
            Self::Samples { pooled, .. } => pooled.values()[rank - 1],
            Self::Histogram { lateness_ns, up_to } => {
                let position = up_to.partition_point(|&n| n < rank as u64);
                lateness_ns[position.min(lateness_ns.len() - 1)]
            }
        }
    }
}

/// Compares B with A over the range of quantiles of both; `None` if one of them has no tick.
pub(super) fn compare(a: &Subject, b: &Subject, paired: bool) -> Option<Quantiles> {
    let common: BTreeSet<u64> =
        sampled_rounds(a).intersection(&sampled_rounds(b)).copied().collect();
    let is_selected = |index: u64| !paired || common.contains(&index);
    let (a, b) = (SideTicks::new(a, is_selected), SideTicks::new(b, is_selected));
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
    a: &SideTicks,
    b: &SideTicks,
    quantiles: &[f64],
    paired: bool,
) -> (Vec<Interval<f64>>, usize) {
    use SideTicks::Samples;
    let (Samples { pooled: a, rounds: a_rounds }, Samples { pooled: b, rounds: b_rounds }) = (a, b)
    else {
        return (Vec::new(), 0);
    };
    if a_rounds.len().min(b_rounds.len()) < MIN_ROUNDS || quantiles.is_empty() {
        return (Vec::new(), 0);
    }
    let visited = a.values().len() + b.values().len();
    let resamples = (MAX_VISITED_TICKS / visited).clamp(MIN_RESAMPLES, MAX_RESAMPLES);
    let mut drawing = RoundDrawing::new(a_rounds, b_rounds, paired);
    let mut ratios: Vec<Vec<f64>> = vec![Vec::with_capacity(resamples); quantiles.len()];
    for first in (0..resamples).step_by(RESAMPLES_PER_PASS) {
        let count = RESAMPLES_PER_PASS.min(resamples - first);
        let (a_draws, b_draws): (Vec<_>, Vec<_>) = (0..count).map(|_| drawing.draw()).unzip();
        let (a_ns, b_ns) = (a.resample(&a_draws, quantiles), b.resample(&b_draws, quantiles));
        for (a_ns, b_ns) in a_ns.into_iter().zip(b_ns) {
            for ((ratios, a_ns), b_ns) in ratios.iter_mut().zip(a_ns).zip(b_ns) {
                ratios.push(ratio(a_ns, b_ns));
            }
        }
    }
    (ratios.into_iter().map(middle).collect(), resamples)
}

/// Draws rounds of both sides. Pairs are drawn together.
struct RoundDrawing {
    random: SplitMix64,
    a_count: usize,
    b_count: usize,
    /// For pairs, the position in A of each round of B.
    partners: Option<Vec<usize>>,
}

impl RoundDrawing {
    fn new(a: &[u64], b: &[u64], paired: bool) -> Self {
        let positions: BTreeMap<u64, usize> =
            a.iter().enumerate().map(|(position, &index)| (index, position)).collect();
        Self {
            random: SplitMix64::new(SEED),
            a_count: a.len(),
            b_count: b.len(),
            partners: paired.then(|| b.iter().map(|index| positions[index]).collect()),
        }
    }

    /// Draws as many rounds of each side as there are, with replacement. Returns how often each one
    /// was drawn.
    fn draw(&mut self) -> (Vec<u32>, Vec<u32>) {
        let a = draw_rounds(&mut self.random, self.a_count);
        let b = match &self.partners {
            Some(partners) => partners.iter().map(|&position| a[position]).collect(),
            None => draw_rounds(&mut self.random, self.b_count),
        };
        (a, b)
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
