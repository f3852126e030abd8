//! The exact interval of a share (Clopper and Pearson, Biometrika 26, 1934). In contrast to
//! resampling, it accounts for events that have not happened yet.

use super::Interval;

/// Returns the interval of the share of events after `k` of `n` trials, with at least the given
/// confidence; 0 to 1 without a trial.
///
/// ```
/// use jitterstat::stats::binomial::share_interval;
/// let share = share_interval(0, 1_000, 0.95);
/// assert!(share.lower == 0.0 && (share.upper - 0.003_68).abs() < 1e-5);
/// ```
#[must_use]
pub fn share_interval(k: u64, n: u64, confidence: f64) -> Interval<f64> {
    let alpha = (1.0 - confidence) / 2.0;
    Interval {
        lower: if k == 0 { 0.0 } else { share_with(k - 1, n, 1.0 - alpha) },
        upper: if k >= n { 1.0 } else { share_with(k, n, alpha) },
    }
}

/// Returns the share of events at which at most `k` of `n` have the probability `wanted`.
fn share_with(k: u64, n: u64, wanted: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..50 {
        let middle = f64::midpoint(low, high);
        if at_most(k, n, middle) > wanted { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

/// P(Bin(n, p) ≤ k).
fn at_most(k: u64, n: u64, p: f64) -> f64 {
    // In logarithms, because (1 - p)^n underflows.
    let mut ln_term = n as f64 * (-p).ln_1p();
    let mut sum = ln_term.exp();
    let odds = p.ln() - (-p).ln_1p();
    for j in 0..k {
        ln_term += ((n - j) as f64 / (j + 1) as f64).ln() + odds;
        sum += ln_term.exp();
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_match_published_tables() {
        for (k, n, [lower, upper]) in [
            (0, 10, [0.0, 0.3085]),
            (1, 10, [0.0025, 0.4450]),
            (5, 10, [0.1871, 0.8129]),
            (10, 10, [0.6915, 1.0]),
        ] {
            let found = share_interval(k, n, 0.95);
            assert!(
                (found.lower - lower).abs() < 1e-4 && (found.upper - upper).abs() < 1e-4,
                "{k} of {n}: {found:?}"
            );
        }
        let Interval { lower, upper } = share_interval(5_000, 10_000, 0.95);
        assert!((lower - 0.4902).abs() < 2e-4 && (upper - 0.5098).abs() < 2e-4, "{lower} {upper}");
        assert_eq!(share_interval(0, 0, 0.95), Interval { lower: 0.0, upper: 1.0 });
    }
}
