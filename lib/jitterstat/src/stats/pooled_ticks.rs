//! Quantiles of resampled rounds. The ticks of all rounds are sorted once, each with its round, so
//! that a resample is a pass over them that adds up how often the round of each tick was drawn.
//!
//! Access to the ticks is the largest cost, so one pass computes several resamples.

use super::quantile::rank;

/// Number of resamples that one pass over the ticks computes.
pub const RESAMPLES_PER_PASS: usize = 16;
/// Number of ticks between two searches for quantiles.
const BLOCK_TICKS: usize = 64;

/// How often each resample of a pass draws a round.
type Draws = [u32; RESAMPLES_PER_PASS];

/// The ticks of several rounds in ascending order.
#[derive(Clone, Debug, Default)]
pub struct PooledTicks {
    values: Vec<i64>,
    /// Position of the round of each tick.
    rounds: Vec<u32>,
    round_lengths: Vec<usize>,
}

impl PooledTicks {
    /// Pools parts of rounds, each with the position of its round.
    #[must_use]
    pub fn from_parts(parts: &[(u32, &[i64])]) -> Self {
        let rounds = parts.iter().map(|&(position, _)| position as usize + 1).max();
        let mut round_lengths = vec![0; rounds.unwrap_or(0)];
        let mut ticks = Vec::with_capacity(parts.iter().map(|(_, part)| part.len()).sum());
        for &(position, part) in parts {
            ticks.extend(part.iter().map(|&value| (value, position)));
            round_lengths[position as usize] += part.len();
        }
        // The order of equal ticks does not matter.
        ticks.sort_unstable_by_key(|&(value, _)| value);
        let (values, rounds) = ticks.into_iter().unzip();
        Self { values, rounds, round_lengths }
    }

    /// Returns the ticks in ascending order.
    #[must_use]
    pub fn values(&self) -> &[i64] {
        &self.values
    }

    /// Returns the values at ascending quantiles for each resample, which states how often each
    /// round is drawn. A resample without ticks has the largest value at every quantile, and one of
    /// an empty pool has no values.
    #[must_use]
    pub fn resample(&self, resamples: &[Vec<u32>], quantiles: &[f64]) -> Vec<Vec<i64>> {
        debug_assert!(quantiles.is_sorted());
        let mut found = Vec::with_capacity(resamples.len());
        for resamples in resamples.chunks(RESAMPLES_PER_PASS) {
            let mut searches: Vec<QuantileSearch> = Vec::with_capacity(resamples.len());
            for resample in resamples {
                searches.push(QuantileSearch::new(self.count(resample), quantiles));
            }
            self.pass(&self.draws_by_round(resamples), &mut searches);
            found.extend(searches.into_iter().map(|search| search.values));
        }
        found
    }

    /// Returns the number of ticks of a resample.
    fn count(&self, resample: &[u32]) -> usize {
        let lengths = self.round_lengths.iter().zip(resample);
        lengths.map(|(length, &drawn)| length * drawn as usize).sum()
    }

    fn draws_by_round(&self, resamples: &[Vec<u32>]) -> Vec<Draws> {
        let mut by_round = vec![[0; RESAMPLES_PER_PASS]; self.round_lengths.len()];
        for (i, resample) in resamples.iter().enumerate() {
            for (draws, &drawn) in by_round.iter_mut().zip(resample) {
                draws[i] = drawn;
            }
        }
        by_round
    }

    /// Passes over all ticks. A block is visited again only for a resample with a quantile in it.
    fn pass(&self, draws: &[Draws], searches: &mut [QuantileSearch]) {
        let blocks = self.rounds.chunks(BLOCK_TICKS).zip(self.values.chunks(BLOCK_TICKS));
        for (rounds, values) in blocks {
            let sums = sum_draws(rounds, draws);
            for (i, (search, sum)) in searches.iter_mut().zip(sums).enumerate() {
                let passed = search.passed + sum as usize;
                if search.next_rank <= passed {
                    let drawn = rounds.iter().map(|&round| draws[round as usize][i]);
                    search.find(drawn.zip(values));
                }
                search.passed = passed;
            }
        }
        if let Some(&largest) = self.values.last() {
            searches.iter_mut().for_each(|search| search.fill(largest));
        }
    }
}

/// Returns how many ticks of a block each resample has. `rounds` are those of the ticks.
#[allow(clippy::needless_range_loop, reason = "this loop becomes vector instructions")]
fn sum_draws(rounds: &[u32], draws: &[Draws]) -> Draws {
    let mut sums = [0; RESAMPLES_PER_PASS];
    for &round in rounds {
        let draws = &draws[round as usize];
        for i in 0..RESAMPLES_PER_PASS {
            sums[i] += draws[i];
        }
    }
    sums
}

/// The search for the quantiles of a resample.
struct QuantileSearch {
    /// Number of ticks of the resample so far.
    passed: usize,
    /// Rank of the next quantile, or `usize::MAX` after the last one.
    next_rank: usize,
    later_ranks: std::vec::IntoIter<usize>,
    values: Vec<i64>,
}

impl QuantileSearch {
    /// Starts the search in a resample of `count` ticks.
    fn new(count: usize, quantiles: &[f64]) -> Self {
        let ranks: Vec<usize> = quantiles.iter().map(|&q| rank(count, q)).collect();
        let values = Vec::with_capacity(ranks.len());
        let mut search = Self { passed: 0, next_rank: 0, later_ranks: ranks.into_iter(), values };
        search.advance();
        search
    }

    fn advance(&mut self) {
        self.next_rank = self.later_ranks.next().unwrap_or(usize::MAX);
    }

    /// Finds the quantiles among ticks, each of which counts as often as it was drawn.
    fn find<'a>(&mut self, ticks: impl Iterator<Item = (u32, &'a i64)>) {
        let mut passed = self.passed;
        for (drawn, &value) in ticks {
            passed += drawn as usize;
            while self.next_rank <= passed {
                self.values.push(value);
                self.advance();
            }
        }
    }

    /// Uses a value for all quantiles that were not found.
    fn fill(&mut self, value: i64) {
        let missing = usize::from(self.next_rank < usize::MAX) + self.later_ranks.len();
        self.values.resize(self.values.len() + missing, value);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::stats::quantile::nearest_rank;

    /// Returns the ticks of a resample, each as often as its round was drawn.
    fn drawn_ticks(rounds: &[Vec<i64>], resample: &[u32]) -> Vec<i64> {
        let mut ticks = Vec::new();
        for (round, &drawn) in rounds.iter().zip(resample) {
            for _ in 0..drawn {
                ticks.extend(round);
            }
        }
        ticks.sort_unstable();
        ticks
    }

    proptest! {
        #[test]
        fn values_are_those_of_copied_rounds(
            rounds in prop::collection::vec(prop::collection::vec(-50_i64..200, 0..90), 1..20),
            draws in prop::collection::vec(prop::collection::vec(0_u32..4, 20), 0..40),
        ) {
            const QUANTILES: [f64; 7] = [0.0, 0.01, 0.5, 0.5, 0.9, 0.99, 1.0];
            let mut halves = Vec::new();
            for (position, round) in (0..).zip(&rounds) {
                let (first, second) = round.split_at(round.len() / 2);
                halves.extend([(position, first), (position, second)]);
            }
            let pooled = PooledTicks::from_parts(&halves);
            let found = pooled.resample(&draws, &QUANTILES);
            prop_assert_eq!(found.len(), draws.len());
            for (found, resample) in found.into_iter().zip(&draws) {
                let mut ticks = drawn_ticks(&rounds, resample);
                if ticks.is_empty() {
                    ticks.extend(pooled.values().last());
                }
                let expected = QUANTILES.map(|q| nearest_rank(&ticks, q));
                prop_assert_eq!(found, expected.into_iter().flatten().collect::<Vec<i64>>());
            }
        }
    }
}
