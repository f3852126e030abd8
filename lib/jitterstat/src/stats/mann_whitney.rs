//! The distribution of the Mann-Whitney statistic: of two samples without a shift, how many pairs
//! have the value of the second below that of the first (Mann and Whitney, "On a Test of Whether
//! one of Two Random Variables is Stochastically Larger than the Other", Annals of Mathematical
//! Statistics, 1947).

/// U of two samples of `m` and `n` values that come from one distribution.
#[derive(Clone, Debug)]
pub struct RankSum {
    /// P(U ≤ k) for k up to half of the largest value.
    cdf: Vec<f64>,
}

impl RankSum {
    /// The distribution by the recursion over the largest value, which belongs to either sample;
    /// takes time and memory in (m·n)².
    #[must_use]
    pub fn new(m: usize, n: usize) -> Self {
        let half = m * n / 2;
        let none = || {
            let mut p = vec![0.0_f64; half + 1];
            p[0] = 1.0;
            p
        };
        // Of i values of the first sample and 0..=n of the second.
        let mut row: Vec<Vec<f64>> = (0..=n).map(|_| none()).collect();
        for i in 1..=m {
            let mut next = vec![none()];
            for j in 1..=n {
                let (of_first, of_second) = (i as f64 / (i + j) as f64, j as f64 / (i + j) as f64);
                let p = (0..=half.min(i * j)).map(|u| {
                    // With the largest among the first sample, all j of the second lie below it.
                    let first = u.checked_sub(j).map_or(0.0, |less| row[j][less]);
                    of_first * first + of_second * next[j - 1][u]
                });
                let mut p: Vec<f64> = p.collect();
                p.resize(half + 1, 0.0);
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

    /// The largest k with P(U ≤ k) ≤ alpha, for alpha below 1/2; `None` if there is none.
    #[must_use]
    pub fn critical(&self, alpha: f64) -> Option<usize> {
        self.cdf.partition_point(|&p| p <= alpha).checked_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn critical_values_are_those_of_the_published_tables() {
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
    fn small_distributions_are_those_of_counting() {
        // Two of four ranks: the sums of the second sample below the first are 0, 1, 2, 2, 3, 4.
        let cdf = RankSum::new(2, 2).cdf;
        let close = |a: f64, b: f64| (a - b).abs() < 1e-12;
        assert!(
            close(cdf[0], 1.0 / 6.0) && close(cdf[1], 2.0 / 6.0) && close(cdf[2], 4.0 / 6.0),
            "{cdf:?}"
        );
    }
}
