//! By how much one side lies above the other: the Hodges-Lehmann estimate and its 95 % interval,
//! for rounds that ran in pairs and for rounds that did not.
//!
//! Paired: the median of the averages of any two differences, with the interval that inverts
//! Wilcoxon's signed-rank test. Unpaired: the median of the differences of all pairs of values,
//! with the interval that inverts the Mann-Whitney test (Hollander and Wolfe, "Nonparametric
//! Statistical Methods", sections 3.2 and 3.3, 4.2 and 4.3). Where the exact distribution would
//! take long, it is replaced by the normal one of the same mean and variance, as there; by then the
//! two differ by two or three places among thousands.

use super::mann_whitney::RankSum;
use super::pairwise::{nth_average, nth_difference};
use super::signed_rank::{Shift, SignedRank, sorted_finite};

/// Each bound of a 95 % interval errs in so many cases.
const ALPHA: f64 = 0.025;
/// The standard normal distribution's quantile 1 − [`ALPHA`].
const Z: f64 = 1.959_963_984_540_054;
/// With more pairs, the normal distribution stands for the signed-rank statistic's.
const EXACT_PAIRS: usize = 400;
/// With more products of the sizes, the normal distribution stands for the Mann-Whitney
/// statistic's.
const EXACT_PRODUCT: usize = 2_500;

/// A shift with the way its bounds were found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval95 {
    /// Estimate and bounds; infinite bounds where there are too few values for any.
    pub shift: Shift,
    /// Whether the bounds are of the exact distribution, not of its normal approximation.
    pub exact: bool,
}

/// The shift of paired values by their differences; `None` without any, or where one is not finite.
#[must_use]
pub fn paired(differences: &[f64]) -> Option<Interval95> {
    let sorted = sorted_finite(differences)?;
    let n = sorted.len();
    let all = n * (n + 1) / 2;
    let exact = n <= EXACT_PAIRS;
    let critical = if exact {
        SignedRank::new(n).critical(ALPHA)
    } else {
        let (size, variance) = (n as f64, all as f64 * (2.0 * n as f64 + 1.0) / 12.0);
        below(size * (size + 1.0) / 4.0, variance)
    };
    Some(Interval95 { shift: Shift::by_rank(all, critical, |k| nth_average(&sorted, k)), exact })
}

/// The shift of `b` against `a`; `None` where one of them is empty or holds a value that is not
/// finite.
#[must_use]
pub fn unpaired(a: &[f64], b: &[f64]) -> Option<Interval95> {
    let (a, b) = (sorted_finite(a)?, sorted_finite(b)?);
    let all = a.len() * b.len();
    let exact = all <= EXACT_PRODUCT;
    let critical = if exact {
        RankSum::new(a.len(), b.len()).critical(ALPHA)
    } else {
        below(all as f64 / 2.0, all as f64 * (a.len() + b.len() + 1) as f64 / 12.0)
    };
    Some(Interval95 { shift: Shift::by_rank(all, critical, |k| nth_difference(&a, &b, k)), exact })
}

/// The largest whole number that a normal variable stays at or below with the probability
/// [`ALPHA`], each whole number standing for the half on both sides of it.
fn below(mean: f64, variance: f64) -> Option<usize> {
    let critical = (mean - 0.5 - Z * variance.sqrt()).floor();
    (critical >= 0.0).then_some(critical as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::random::SplitMix64;
    use crate::stats::signed_rank::HodgesLehmann;
    use proptest::prelude::*;

    /// Heavy-tailed: the ratio of two uniform draws, about `centre`.
    fn draw(random: &mut SplitMix64, centre: f64) -> f64 {
        let uniform = |r: &mut SplitMix64| r.unit() + 1e-3;
        centre + (uniform(random) / uniform(random)).ln()
    }

    #[test]
    fn the_textbook_example_of_two_samples() {
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
    fn few_values_have_an_estimate_and_no_bound() {
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
    fn the_normal_approximation_is_within_a_few_places_of_the_exact_order() {
        let n = EXACT_PAIRS as f64;
        let approximate =
            below(n * (n + 1.0) / 4.0, n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).unwrap();
        let exact = SignedRank::new(EXACT_PAIRS).critical(ALPHA).unwrap();
        assert!(exact.abs_diff(approximate) <= 3, "{exact} {approximate}");
        for (m, n) in [(50, 50), (10, 250), (125, 20)] {
            let product = (m * n) as f64;
            let approximate = below(product / 2.0, product * (m + n + 1) as f64 / 12.0).unwrap();
            assert!(
                RankSum::new(m, n).critical(ALPHA).unwrap().abs_diff(approximate) <= 3,
                "{m} {n}"
            );
        }
    }

    #[test]
    fn ninety_five_of_a_hundred_intervals_hold_the_shift() {
        const RUNS: u32 = 400;
        let mut random = SplitMix64::new(5);
        let holds = |shift: Shift| u32::from(shift.lower <= 1.0 && 1.0 <= shift.upper);
        let (mut of_pairs, mut of_samples, mut of_large) = (0, 0, 0);
        for _ in 0..RUNS {
            let mut many = |n: usize, centre: f64| {
                (0..n).map(|_| draw(&mut random, centre)).collect::<Vec<f64>>()
            };
            of_pairs += holds(paired(&many(25, 1.0)).unwrap().shift);
            of_samples += holds(unpaired(&many(12, 0.0), &many(15, 1.0)).unwrap().shift);
            of_large += holds(unpaired(&many(60, 0.0), &many(60, 1.0)).unwrap().shift);
        }
        for covered in [of_pairs, of_samples, of_large] {
            // Four standard deviations about 95 %; the exact ones are a little wider by design.
            assert!((362..=397).contains(&covered), "{of_pairs} {of_samples} {of_large}");
        }
    }

    proptest! {
        #[test]
        fn both_ways_to_the_paired_interval_agree(d in proptest::collection::vec(-1.0_f64..1.0, 6..80)) {
            prop_assert_eq!(paired(&d).unwrap().shift, HodgesLehmann::new(&d).unwrap().shift(ALPHA));
        }

        #[test]
        fn exchanged_sides_mirror_the_interval(
            a in proptest::collection::vec(-1.0_f64..1.0, 4..70), b in proptest::collection::vec(-1.0_f64..1.0, 4..70)
        ) {
            let (one, other) = (unpaired(&a, &b).unwrap().shift, unpaired(&b, &a).unwrap().shift);
            prop_assert!((one.estimate + other.estimate).abs() < 1e-12);
            prop_assert!((one.lower + other.upper).abs() < 1e-12 && one.lower <= one.estimate);
        }
    }
}
