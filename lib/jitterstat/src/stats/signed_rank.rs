//! The exact distribution of Wilcoxon's signed-rank statistic, and the Hodges-Lehmann estimate with
//! the interval that inverts the test (Hollander and Wolfe, "Nonparametric Statistical Methods",
//! chapter 3; Lehmann, "Nonparametrics", chapter 4). The only assumption is that the differences
//! are symmetric around their centre; ties widen the interval.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::Interval;
use super::pairwise::nth_average;

/// The distribution of W⁺ for differences without a shift: each rank from 1 to n counts with
/// probability 1/2.
#[derive(Clone, Debug)]
pub struct SignedRank {
    /// P(W⁺ ≤ k) for k up to half of the maximum.
    cdf: Vec<f64>,
}

impl SignedRank {
    /// Computes the distribution for `n` differences. Takes time in n³: milliseconds for 400.
    #[must_use]
    pub fn new(n: usize) -> Self {
        let half = n * (n + 1) / 4;
        let mut p = vec![0.0_f64; half + 1];
        p[0] = 1.0;
        for rank in 1..=n {
            let mut top = (rank * (rank + 1) / 2).min(half) + 1;
            // Downwards, so that the added values do not include this rank yet, and in pieces of at
            // most `rank` values, which do not overlap with the values they add.
            while top > rank {
                let from = top.saturating_sub(rank).max(rank);
                let (below, piece) = p[from - rank..top].split_at_mut(rank);
                piece
                    .iter_mut()
                    .zip(below)
                    .for_each(|(value, less)| *value = (*value + *less) / 2.0);
                top = from;
            }
            for low in &mut p[..rank.min(half + 1)] {
                *low /= 2.0;
            }
        }
        let mut total = 0.0;
        for value in &mut p {
            total += *value;
            *value = total;
        }
        Self { cdf: p }
    }

    /// Returns P(W⁺ ≤ k) for k in the lower half of the distribution; `None` above it.
    #[must_use]
    pub fn cdf(&self, k: usize) -> Option<f64> {
        self.cdf.get(k).copied()
    }

    /// Returns the largest k with P(W⁺ ≤ k) ≤ alpha, for alpha below 1/2; `None` if there is none.
    #[must_use]
    pub fn critical(&self, alpha: f64) -> Option<usize> {
        self.cdf.partition_point(|&p| p <= alpha).checked_sub(1)
    }
}

/// Distributions that a thread caches: the looks of a gate use the same numbers of pairs
/// repeatedly.
const MAX_CACHED: usize = 8;

type DistributionCache = BTreeMap<usize, Arc<SignedRank>>;

thread_local! {
    static DISTRIBUTIONS: RefCell<DistributionCache> = const { RefCell::new(BTreeMap::new()) };
}

/// Returns the distribution for `n` differences, from the cache if possible.
pub(super) fn cached_distribution(n: usize) -> Arc<SignedRank> {
    DISTRIBUTIONS.with_borrow_mut(|cache| get_or_compute(cache, n))
}

fn get_or_compute(cache: &mut DistributionCache, n: usize) -> Arc<SignedRank> {
    if cache.len() >= MAX_CACHED && !cache.contains_key(&n) {
        cache.clear();
    }
    Arc::clone(cache.entry(n).or_insert_with(|| Arc::new(SignedRank::new(n))))
}

/// A shift with its bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// The Hodges-Lehmann estimate.
    pub estimate: f64,
    /// Lower bound: the shift is below with a probability of at most alpha. Minus infinity if there
    /// are too few values for a bound.
    pub lower: f64,
    /// Upper bound: the shift is above with a probability of at most alpha. Infinity if there are
    /// too few values for a bound.
    pub upper: f64,
}

impl Shift {
    /// Creates the interval of the median of `n` candidates, bounded by the candidates at rank
    /// `critical` from both ends.
    pub(super) fn from_ranks(
        n: usize,
        critical: Option<usize>,
        nth: impl Fn(usize) -> f64,
    ) -> Self {
        let estimate = f64::midpoint(nth((n - 1) / 2), nth(n / 2));
        let (lower, upper) = match critical {
            Some(c) => (nth(c), nth(n - 1 - c)),
            None => (f64::NEG_INFINITY, f64::INFINITY),
        };
        Self { estimate, lower, upper }
    }

    /// Returns the bounds; `None` if one of them is infinite.
    #[must_use]
    pub fn interval(&self) -> Option<Interval<f64>> {
        let is_bounded = self.lower.is_finite() && self.upper.is_finite();
        is_bounded.then_some(Interval { lower: self.lower, upper: self.upper })
    }
}

/// Sorts the values; `None` if there are none, or one is not finite.
pub(super) fn sorted_finite(values: &[f64]) -> Option<Vec<f64>> {
    let usable = !values.is_empty() && values.iter().all(|v| v.is_finite());
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    usable.then_some(sorted)
}

/// The estimator of the shift of paired differences, for bounds at any alpha.
#[derive(Clone, Debug)]
pub struct HodgesLehmann {
    sorted: Vec<f64>,
    distribution: Arc<SignedRank>,
}

impl HodgesLehmann {
    /// Creates an estimator from differences in any order; `None` if there are none, or one is not
    /// finite.
    #[must_use]
    pub fn new(differences: &[f64]) -> Option<Self> {
        let sorted = sorted_finite(differences)?;
        let distribution = cached_distribution(sorted.len());
        Some(Self { sorted, distribution })
    }

    /// Returns the estimate, with bounds that each err with a probability of at most `alpha`.
    #[must_use]
    pub fn shift(&self, alpha: f64) -> Shift {
        let averages = self.sorted.len() * (self.sorted.len() + 1) / 2;
        Shift::from_ranks(averages, self.distribution.critical(alpha), |k| {
            nth_average(&self.sorted, k)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const D: [f64; 14] =
        [0.31, 0.12, -0.05, 0.22, 0.40, 0.08, 0.15, 0.27, -0.11, 0.19, 0.33, 0.05, 0.24, 0.18];

    #[test]
    fn critical_values_match_exact_distribution() {
        for (n, alpha, c) in [
            (12, 0.000_312_5, 0),
            (25, 0.000_625, 47),
            (50, 0.000_625, 310),
            (100, 0.000_625, 1_596),
            (200, 0.000_625, 7_419),
            (400, 0.000_625, 32_653),
            (25, 0.000_312_5, 41),
            (50, 0.000_312_5, 292),
            (200, 0.000_312_5, 7_264),
            (50, 0.05, 466),
            (14, 0.005, 12),
            (14, 0.025, 21),
        ] {
            assert_eq!(SignedRank::new(n).critical(alpha), Some(c), "{n} {alpha}");
        }
    }

    #[test]
    fn few_differences_have_no_bounds() {
        for (alpha, min) in [(0.000_625, 11), (0.000_312_5, 12)] {
            assert_eq!(SignedRank::new(min - 1).critical(alpha), None);
            assert_eq!(SignedRank::new(min).critical(alpha), Some(0));
        }
        let shift = HodgesLehmann::new(&[1.0, 2.0]).unwrap().shift(0.005);
        assert_eq!((shift.lower, shift.upper), (f64::NEG_INFINITY, f64::INFINITY));
        assert!(HodgesLehmann::new(&[]).is_none() && HodgesLehmann::new(&[f64::NAN]).is_none());
    }

    #[test]
    fn estimate_matches_hand_calculation() {
        let hl = HodgesLehmann::new(&D).unwrap();
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        let strict = hl.shift(0.005);
        assert!(
            close(strict.estimate, 0.18) && close(strict.lower, 0.05) && close(strict.upper, 0.29),
            "{strict:?}"
        );
        let wide = hl.shift(0.025);
        assert!(close(wide.lower, 0.085) && close(wide.upper, 0.255), "{wide:?}");
        // The negative ones have ranks 1.5 (tied) and 4: rounded up, 6.
        assert!((SignedRank::new(14).cdf(6).unwrap() - 0.000_854).abs() < 1e-6);
    }

    proptest! {
        #[test]
        fn negated_differences_mirror_the_interval(d in proptest::collection::vec(-1.0_f64..1.0, 12..40)) {
            let mirrored: Vec<f64> = d.iter().map(|x| -x).collect();
            let (a, b) = (HodgesLehmann::new(&d).unwrap().shift(0.005), HodgesLehmann::new(&mirrored).unwrap().shift(0.005));
            prop_assert!((a.estimate + b.estimate).abs() < 1e-12);
            prop_assert!((a.lower + b.upper).abs() < 1e-12 && (a.upper + b.lower).abs() < 1e-12);
            prop_assert!(a.lower <= a.estimate && a.estimate <= a.upper);
        }

        #[test]
        fn shifted_differences_shift_the_interval(d in proptest::collection::vec(-1.0_f64..1.0, 12..40), by in -3.0_f64..3.0) {
            let moved: Vec<f64> = d.iter().map(|x| x + by).collect();
            let (a, b) = (HodgesLehmann::new(&d).unwrap().shift(0.025), HodgesLehmann::new(&moved).unwrap().shift(0.025));
            prop_assert!((a.lower + by - b.lower).abs() < 1e-9 && (a.upper + by - b.upper).abs() < 1e-9);
        }

        #[test]
        fn constant_differences_give_a_point(value in -1.0_f64..1.0, n in 12_usize..60) {
            let shift = HodgesLehmann::new(&vec![value; n]).unwrap().shift(0.005);
            prop_assert_eq!((shift.lower, shift.estimate, shift.upper), (value, value, value));
        }
    }
}
