//! The exact distribution of the Mann-Whitney statistic U: the number of pairs in which the value
//! of the second sample is below that of the first (Mann and Whitney, "On a Test of Whether one of
//! Two Random Variables is Stochastically Larger than the Other", Annals of Mathematical
//! Statistics, 1947).

/// The distribution of U for two samples of one distribution.
#[derive(Clone, Debug)]
pub struct RankSum {
    /// P(U ≤ k) for k up to half of the maximum.
    cdf: Vec<f64>,
}

/// Returns the probabilities of 0 to `max` if 0 is certain.
fn certain_zero(max: usize) -> Vec<f64> {
    let mut probabilities = vec![0.0; max + 1];
    probabilities[0] = 1.0;
    probabilities
}

impl RankSum {
    /// Computes the distribution for samples of `m` and `n` values, by recursion over the sample
    /// that the largest value belongs to. Takes time and memory in (m·n)².
    #[must_use]
    pub fn new(m: usize, n: usize) -> Self {
        let half = m * n / 2;
        // Probabilities for i values of the first sample and 0..=n of the second.
        let mut row = vec![certain_zero(half); n + 1];
        for i in 1..=m {
            let mut next = vec![certain_zero(half)];
            for j in 1..=n {
                let in_first = i as f64 / (i + j) as f64;
                let in_second = j as f64 / (i + j) as f64;
                let mut p = vec![0.0; half + 1];
                for u in 0..=half.min(i * j) {
                    // If the largest value is in the first sample, all j of the second are below
                    // it.
                    let first = if u < j { 0.0 } else { row[j][u - j] };
                    p[u] = in_first * first + in_second * next[j - 1][u];
                }
                next.push(p);
            }
            row = next;
        }
        let mut cdf = row.swap_remove(n);
        let mut total = 0.0;
        for value in &mut cdf {
            total += *value;
            *value = total;
        }
        Self { cdf }
    }

    /// Returns the largest k with P(U ≤ k) ≤ alpha, for alpha below 1/2; `None` if there is none.
    #[must_use]
    pub fn critical(&self, alpha: f64) -> Option<usize> {
        self.cdf.partition_point(|&p| p <= alpha).checked_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn critical_values_match_published_tables() {
        // Two-sided 5 %.
        for (m, n, critical) in [
            (4, 4, Some(0)),
            (3, 3, None),
            (5, 5, Some(2)),
            (8, 8, Some(13)),
            (10, 10, Some(23)),
            (10, 15, Some(39)),
            (15, 10, Some(39)),
            (20, 20, Some(127)),
            (12, 18, Some(61)),
        ] {
            assert_eq!(RankSum::new(m, n).critical(0.025), critical, "{m} {n}");
        }
    }

    #[test]
    fn small_distribution_matches_counting() {
        // Two of four ranks: the sums of the second sample below the first are 0, 1, 2, 2, 3, 4.
        let cdf = RankSum::new(2, 2).cdf;
        let close = |a: f64, b: f64| (a - b).abs() < 1e-12;
        assert!(
            close(cdf[0], 1.0 / 6.0) && close(cdf[1], 2.0 / 6.0) && close(cdf[2], 4.0 / 6.0),
            "{cdf:?}"
        );
    }
}
