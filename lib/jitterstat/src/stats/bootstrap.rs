//! Confidence intervals of pooled percentiles, by resampling whole rounds.
//!
//! This is the cluster bootstrap (Davison and Hinkley, "Bootstrap Methods and their Application",
//! 1997, section 3.8). A resample draws as many rounds as there are, with replacement, and takes
//! the percentile of all their ticks; the interval is the middle of many such values.

use super::Interval;
use super::pooled_ticks::{PooledTicks, RESAMPLES_PER_PASS};
use super::quantile::is_supported;
use super::random::SplitMix64;

/// Minimum number of rounds for an interval.
pub const MIN_ROUNDS: usize = 10;
const RESAMPLES: usize = 1_000;
/// Fixed seed, so that the same samples give the same interval.
const SEED: u64 = 0x6f73_6a69_7474_6572;

/// Returns the interval of each quantile that covers the share `confidence` of the resamples.
///
/// The interval is `None` for a quantile that the samples do not support, and for every quantile
/// with fewer than [`MIN_ROUNDS`] rounds. The quantiles must be in ascending order.
#[must_use]
pub fn percentile_intervals(
    rounds: &[&[i64]],
    quantiles: &[f64],
    confidence: f64,
) -> Vec<Option<Interval<i64>>> {
    debug_assert!(quantiles.is_sorted());
    let n: usize = rounds.iter().map(|r| r.len()).sum();
    let supported = &quantiles[..quantiles.partition_point(|&q| is_supported(n, q))];
    if rounds.len() < MIN_ROUNDS || supported.is_empty() {
        return vec![None; quantiles.len()];
    }
    let parts: Vec<(u32, &[i64])> = (0..).zip(rounds.iter().copied()).collect();
    let pooled = PooledTicks::from_parts(&parts);
    let mut random = SplitMix64::new(SEED);
    let mut values: Vec<Vec<i64>> = vec![Vec::with_capacity(RESAMPLES); supported.len()];
    for first in (0..RESAMPLES).step_by(RESAMPLES_PER_PASS) {
        let count = RESAMPLES_PER_PASS.min(RESAMPLES - first);
        let resamples: Vec<Vec<u32>> =
            (0..count).map(|_| draw_rounds(&mut random, rounds.len())).collect();
        for found in pooled.resample(&resamples, supported) {
            values.iter_mut().zip(found).for_each(|(values, value)| values.push(value));
        }
    }
    let mut intervals = vec![None; quantiles.len()];
    for (interval, mut drawn) in intervals.iter_mut().zip(values) {
        drawn.sort_unstable();
        *interval = middle(&drawn, confidence);
    }
    intervals
}

/// Draws as many rounds as there are, with replacement. Returns how often each one was drawn.
#[must_use]
pub fn draw_rounds(random: &mut SplitMix64, rounds: usize) -> Vec<u32> {
    let mut draws = vec![0; rounds];
    for _ in 0..rounds {
        draws[random.index(rounds)] += 1;
    }
    draws
}

/// Returns the interval of a ratio of two sums over rounds, given the numerator and denominator of
/// each round; `None` with fewer than [`MIN_ROUNDS`] rounds, or if a resampled denominator is zero.
#[must_use]
pub fn ratio_interval(rounds: &[(f64, f64)], confidence: f64) -> Option<Interval<f64>> {
    if rounds.len() < MIN_ROUNDS {
        return None;
    }
    let mut random = SplitMix64::new(SEED);
    let mut drawn = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        let sums = (0..rounds.len()).map(|_| rounds[random.index(rounds.len())]);
        let (over, under) = sums.fold((0.0, 0.0), |sum, r| (sum.0 + r.0, sum.1 + r.1));
        if under <= 0.0 {
            return None;
        }
        drawn.push(over / under);
    }
    drawn.sort_unstable_by(f64::total_cmp);
    middle(&drawn, confidence)
}

/// Returns the bounds that leave out the same share of the values at both ends.
fn middle<T: Copy>(sorted: &[T], confidence: f64) -> Option<Interval<T>> {
    let tail = ((1.0 - confidence) / 2.0 * sorted.len() as f64).floor() as usize;
    let last = sorted.len().checked_sub(1 + tail)?;
    Some(Interval { lower: *sorted.get(tail)?, upper: *sorted.get(last)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn slices(rounds: &[Vec<i64>]) -> Vec<&[i64]> {
        rounds.iter().map(Vec::as_slice).collect()
    }

    #[test]
    fn too_few_samples_have_no_interval() {
        let rounds = vec![(0..100).collect::<Vec<i64>>(); 9];
        assert_eq!(percentile_intervals(&slices(&rounds), &[0.5], 0.95), [None]);
        let rounds = vec![(0..10).collect::<Vec<i64>>(); 10];
        let [p50, p99] = percentile_intervals(&slices(&rounds), &[0.5, 0.99], 0.95)[..] else {
            panic!()
        };
        assert!(p50.is_some() && p99.is_none());
        assert_eq!(percentile_intervals(&slices(&vec![vec![]; 20]), &[0.5], 0.95), [None]);
    }

    #[test]
    fn interval_width_depends_on_rounds() {
        let equal = vec![(0..100).collect::<Vec<i64>>(); 20];
        assert_eq!(
            percentile_intervals(&slices(&equal), &[0.5, 0.9], 0.95),
            [Some(Interval::point(49)), Some(Interval::point(89))]
        );
        let shifted: Vec<Vec<i64>> =
            (0..20).map(|r| (0..100).map(|v| v + 1_000 * r).collect()).collect();
        let Some(found) = percentile_intervals(&slices(&shifted), &[0.5], 0.95)[0] else {
            panic!()
        };
        // The median of the rounds is 9,550; its standard error from 20 rounds is about 1,700.
        assert!(
            (4_000..9_000).contains(&found.lower) && (10_000..16_000).contains(&found.upper),
            "{found:?}"
        );
    }

    #[test]
    fn ratio_interval_reflects_round_spread() {
        assert_eq!(ratio_interval(&[(1.0, 100.0); 9], 0.99), None);
        assert_eq!(ratio_interval(&[(0.0, 0.0); 10], 0.99), None);
        assert_eq!(ratio_interval(&[(1.0, 100.0); 10], 0.99), Some(Interval::point(0.01)));
        let uneven: Vec<(f64, f64)> = (0..40).map(|i| (f64::from(i % 2), 1.0)).collect();
        // A half, with a standard error of 0.079.
        let found = ratio_interval(&uneven, 0.99).unwrap();
        assert!(
            (0.2..0.4).contains(&found.lower) && (0.6..0.8).contains(&found.upper),
            "{found:?}"
        );
    }

    proptest! {
        #[test]
        fn bounds_are_measured_and_ordered(
            rounds in proptest::collection::vec(proptest::collection::vec(-50_i64..1_000, 1..40), 10..25)
        ) {
            let ticks: Vec<i64> = rounds.iter().flatten().copied().collect();
            for interval in percentile_intervals(&slices(&rounds), &[0.5, 0.9], 0.95).into_iter().flatten() {
                prop_assert!(interval.lower <= interval.upper);
                prop_assert!(ticks.contains(&interval.lower) && ticks.contains(&interval.upper));
            }
        }
    }
}
