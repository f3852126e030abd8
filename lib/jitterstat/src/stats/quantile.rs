//! Percentiles by nearest rank.

/// Minimum number of samples above a percentile that is reported.
pub const MIN_SAMPLES_ABOVE: f64 = 5.0;

/// Rounding margin: a quantile such as 0.99 has no exact binary form.
const MARGIN: f64 = 1e-6;

/// Returns whether `n` samples are enough for the quantile `q`.
///
/// ```
/// use jitterstat::stats::quantile::is_supported;
/// assert!(is_supported(500, 0.99) && !is_supported(499, 0.99));
/// ```
#[must_use]
pub fn is_supported(n: usize, q: f64) -> bool {
    n as f64 * (1.0 - q) + MARGIN >= MIN_SAMPLES_ABOVE
}

/// Minimum number of ticks of a round for a p99, if only the median of many such values matters.
const MIN_TICKS_FOR_ROUND_P99: usize = 180;

/// Returns whether a round of `n` ticks is long enough for the quantile `q`, if only the median over
/// many rounds is used.
///
/// ```
/// use jitterstat::stats::quantile::is_supported_by_round;
/// assert!(is_supported_by_round(180, 0.99) && !is_supported_by_round(179, 0.99));
/// assert!(!is_supported_by_round(250, 0.999));
/// ```
#[must_use]
pub fn is_supported_by_round(n: usize, q: f64) -> bool {
    is_supported(n, q) || (q <= 0.99 && n >= MIN_TICKS_FOR_ROUND_P99)
}

/// Returns the rank of the quantile `q` among `n` samples, from 1 to `n`: the smallest rank that
/// covers at least the share `q` of them.
#[must_use]
pub fn rank(n: usize, q: f64) -> usize {
    ((q * n as f64 - MARGIN).ceil().max(1.0) as usize).min(n.max(1))
}

/// Returns the sample at the rank of the quantile `q`; `None` without samples.
#[must_use]
pub fn nearest_rank(sorted: &[i64], q: f64) -> Option<i64> {
    sorted.get(rank(sorted.len(), q) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_minimal() {
        for (n, q, expected) in [
            (1, 0.5, 1),
            (2, 0.5, 1),
            (3, 0.5, 2),
            (100, 0.99, 99),
            (101, 0.99, 100),
            (10, 1.0, 10),
        ] {
            assert_eq!(rank(n, q), expected, "{n} {q}");
        }
        assert_eq!(nearest_rank(&[], 0.5), None);
        assert_eq!(nearest_rank(&[3, 5, 9], 0.5), Some(5));
    }
}
