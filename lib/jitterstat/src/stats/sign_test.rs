//! The median of the rounds, with the exact interval that inverts the sign test (Conover,
//! "Practical Nonparametric Statistics", section 3.2). The only assumption is that the rounds are
//! exchangeable.

use super::Interval;

/// Returns the median and its interval with at least the given confidence; no interval if there are
/// too few values for one, and `None` without values.
///
/// The interval reaches from the k-th smallest to the k-th largest value. k is the largest number
/// for which fewer than k of n fair coins show heads with a probability of at most (1 − confidence)
/// / 2.
#[must_use]
pub fn median_interval(values: &[i64], confidence: f64) -> Option<(i64, Option<Interval<i64>>)> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let median = super::quantile::nearest_rank(&sorted, 0.5)?;
    let k = rank_from_the_end(sorted.len(), (1.0 - confidence) / 2.0);
    let interval =
        (k > 0).then(|| Interval { lower: sorted[k - 1], upper: sorted[sorted.len() - k] });
    Some((median, interval))
}

/// Returns max { k : P(Bin(n, 1/2) ≤ k − 1) ≤ alpha }, zero if there is none.
pub(crate) fn rank_from_the_end(n: usize, alpha: f64) -> usize {
    // In logarithms, because 2^-n underflows from n = 1,075 on.
    let mut ln_term = -(n as f64) * std::f64::consts::LN_2;
    let mut cdf = 0.0;
    for j in 0..n {
        cdf += ln_term.exp();
        if cdf > alpha {
            return j;
        }
        ln_term += ((n - j) as f64 / (j + 1) as f64).ln();
    }
    n
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_match_binomial_table() {
        // P(Bin(10) <= 1) = 0.0107, P(<= 2) = 0.0547; P(Bin(20) <= 5) = 0.0207, P(<= 6) = 0.0577; 5
        // coins: 0.03125.
        for (n, k) in [(5, 0), (6, 1), (10, 2), (20, 6), (40, 14), (100, 40)] {
            assert_eq!(rank_from_the_end(n, 0.025), k, "{n}");
        }
        // By the normal approximation: n/2 - 0.98 sqrt(n).
        assert!((4_899..=4_903).contains(&rank_from_the_end(10_000, 0.025)));
    }

    #[test]
    fn interval_is_symmetric_in_rank() {
        let values: Vec<i64> = (1..=20).rev().collect();
        assert_eq!(
            median_interval(&values, 0.95),
            Some((10, Some(Interval { lower: 6, upper: 15 })))
        );
        assert_eq!(median_interval(&[7, 7], 0.95), Some((7, None)));
        assert_eq!(median_interval(&[], 0.95), None);
    }
}
