//! The shift of one side against the other: the Hodges-Lehmann estimate and its 95 % interval, for
//! rounds that ran in pairs and for independent rounds.
//!
//! For pairs, the estimate is the median of the averages of any two differences, with the interval
//! that inverts Wilcoxon's signed-rank test. For independent samples, it is the median of the
//! differences of all pairs of values, with the interval that inverts the Mann-Whitney test
//! (Hollander and Wolfe, "Nonparametric Statistical Methods", sections 3.2 and 3.3, 4.2 and 4.3).
//! For large samples, the normal distribution of the same mean and variance replaces the exact one;
//! the critical ranks then differ by two or three among thousands.

use super::mann_whitney::RankSum;
use super::pairwise::{nth_average, nth_difference};
use super::signed_rank::{Shift, cached_distribution, sorted_finite};

/// Probability with which each bound of a 95 % interval errs.
const ALPHA: f64 = 0.025;
/// The standard normal distribution's quantile 1 − [`ALPHA`].
const Z: f64 = 1.959_963_984_540_054;
/// Maximum number of pairs for the exact distribution of the signed-rank statistic.
const MAX_EXACT_PAIRS: usize = 400;
/// Maximum product of the sample sizes for the exact distribution of the Mann-Whitney statistic.
const MAX_EXACT_PRODUCT: usize = 2_500;

/// A shift with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval95 {
    /// Estimate and bounds; the bounds are infinite if there are too few values.
    pub shift: Shift,
    /// Whether the bounds come from the exact distribution or from its normal approximation.
    pub exact: bool,
}

/// Returns the shift of paired values from their differences; `None` if there are none, or one is
/// not finite.
#[must_use]
pub fn paired(differences: &[f64]) -> Option<Interval95> {
    let sorted = sorted_finite(differences)?;
    let n = sorted.len();
    let averages = n * (n + 1) / 2;
    let exact = n <= MAX_EXACT_PAIRS;
    let critical = if exact {
        cached_distribution(n).critical(ALPHA)
    } else {
        let (size, variance) = (n as f64, averages as f64 * (2.0 * n as f64 + 1.0) / 12.0);
        normal_critical(size * (size + 1.0) / 4.0, variance)
    };
    Some(Interval95 {
        shift: Shift::from_ranks(averages, critical, |k| nth_average(&sorted, k)),
        exact,
    })
}

/// Returns the shift of `b` against `a`; `None` if one of them is empty, or a value is not finite.
#[must_use]
pub fn unpaired(a: &[f64], b: &[f64]) -> Option<Interval95> {
    let (a, b) = (sorted_finite(a)?, sorted_finite(b)?);
    let differences = a.len() * b.len();
    let exact = differences <= MAX_EXACT_PRODUCT;
    let critical = if exact {
        RankSum::new(a.len(), b.len()).critical(ALPHA)
    } else {
        normal_critical(
            differences as f64 / 2.0,
            differences as f64 * (a.len() + b.len() + 1) as f64 / 12.0,
        )
    };
    Some(Interval95 {
        shift: Shift::from_ranks(differences, critical, |k| nth_difference(&a, &b, k)),
        exact,
    })
}

/// Returns the largest whole number that a normal variable does not exceed with the probability
/// [`ALPHA`], with continuity correction.
fn normal_critical(mean: f64, variance: f64) -> Option<usize> {
    let critical = (mean - 0.5 - Z * variance.sqrt()).floor();
    (critical >= 0.0).then_some(critical as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::random::SplitMix64;
    use crate::stats::signed_rank::{HodgesLehmann, SignedRank};
    use proptest::prelude::*;

    /// Draws from a heavy-tailed distribution around `centre`: the ratio of two uniform numbers.
    fn draw(random: &mut SplitMix64, centre: f64) -> f64 {
        let uniform = |r: &mut SplitMix64| r.unit() + 1e-3;
        centre + (uniform(random) / uniform(random)).ln()
    }

    #[test]
    fn two_samples_match_textbook() {
        // Hollander and Wolfe, table 4.1, permeability of membranes: estimate -0.305, interval from
        // -0.76 to 0.15.
        let a = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
        let b = [1.15, 0.88, 0.90, 0.74, 1.21];
        let found = unpaired(&a, &b).unwrap();
        let close = |x: f64, y: f64| (x - y).abs() < 1e-9;
        assert!(found.exact && close(found.shift.estimate, -0.305), "{found:?}");
        assert!(close(found.shift.lower, -0.76) && close(found.shift.upper, 0.15), "{found:?}");
    }

    #[test]
    fn few_values_have_no_bounds() {
        for shift in [
            paired(&[1.0, 2.0, 3.0]).unwrap().shift,
            unpaired(&[0.0, 1.0], &[2.0, 3.0]).unwrap().shift,
        ] {
            assert_eq!(
                (shift.estimate, shift.lower, shift.upper),
                (2.0, f64::NEG_INFINITY, f64::INFINITY)
            );
        }
        assert!(
            paired(&[]).is_none()
                && unpaired(&[1.0], &[]).is_none()
                && paired(&[f64::NAN]).is_none()
        );
    }

    #[test]
    fn normal_approximation_is_close() {
        let n = MAX_EXACT_PAIRS as f64;
        let approximate =
            normal_critical(n * (n + 1.0) / 4.0, n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).unwrap();
        let exact = SignedRank::new(MAX_EXACT_PAIRS).critical(ALPHA).unwrap();
        assert!(exact.abs_diff(approximate) <= 3, "{exact} {approximate}");
        for (m, n) in [(50, 50), (10, 250), (125, 20)] {
            let product = (m * n) as f64;
            let approximate =
                normal_critical(product / 2.0, product * (m + n + 1) as f64 / 12.0).unwrap();
            assert!(
                RankSum::new(m, n).critical(ALPHA).unwrap().abs_diff(approximate) <= 3,
                "{m} {n}"
            );
        }
    }

    #[test]
    fn intervals_have_stated_coverage() {
        const RUNS: u32 = 400;
        let mut random = SplitMix64::new(5);
        let holds = |shift: Shift| u32::from(shift.lower <= 1.0 && 1.0 <= shift.upper);
        let (mut paired_hits, mut sample_hits, mut large_hits) = (0, 0, 0);
        for _ in 0..RUNS {
            let mut many = |n: usize, centre: f64| {
                (0..n).map(|_| draw(&mut random, centre)).collect::<Vec<f64>>()
            };
            paired_hits += holds(paired(&many(25, 1.0)).unwrap().shift);
            sample_hits += holds(unpaired(&many(12, 0.0), &many(15, 1.0)).unwrap().shift);
            large_hits += holds(unpaired(&many(60, 0.0), &many(60, 1.0)).unwrap().shift);
        }
        for covered in [paired_hits, sample_hits, large_hits] {
            // Four standard deviations around 95 %; exact intervals are slightly wider by design.
            assert!((362..=397).contains(&covered), "{paired_hits} {sample_hits} {large_hits}");
        }
    }

    proptest! {
        #[test]
        fn paired_interval_matches_hodges_lehmann(d in proptest::collection::vec(-1.0_f64..1.0, 6..80)) {
            prop_assert_eq!(paired(&d).unwrap().shift, HodgesLehmann::new(&d).unwrap().shift(ALPHA));
        }

        #[test]
        fn swapped_samples_mirror_the_interval(
            a in proptest::collection::vec(-1.0_f64..1.0, 4..70), b in proptest::collection::vec(-1.0_f64..1.0, 4..70)
        ) {
            let (forward, backward) = (unpaired(&a, &b).unwrap().shift, unpaired(&b, &a).unwrap().shift);
            prop_assert!((forward.estimate + backward.estimate).abs() < 1e-12);
            prop_assert!((forward.lower + backward.upper).abs() < 1e-12 && forward.lower <= forward.estimate);
        }
    }
}
