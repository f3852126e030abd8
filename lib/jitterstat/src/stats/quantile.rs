//! Percentiles by nearest rank, of samples and of counted values, and medians.

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
///
/// ```
/// use jitterstat::stats::quantile::nearest_rank;
/// assert_eq!(nearest_rank(&[13, 14, 18], 0.5), Some(14));
/// ```
#[must_use]
pub fn nearest_rank<T: Copy>(sorted: &[T], q: f64) -> Option<T> {
    sorted.get(rank(sorted.len(), q) - 1).copied()
}

/// Returns the sample at the rank of the quantile `q`; `None` if there are too few samples for it.
#[must_use]
pub fn supported_nearest_rank<T: Copy>(sorted: &[T], q: f64) -> Option<T> {
    if is_supported(sorted.len(), q) { nearest_rank(sorted, q) } else { None }
}

/// Returns the sample of a round at the rank of the quantile `q`; `None` if the round is too short
/// for it, even if only the median over many rounds is used.
#[must_use]
pub fn round_nearest_rank<T: Copy>(sorted: &[T], q: f64) -> Option<T> {
    if is_supported_by_round(sorted.len(), q) { nearest_rank(sorted, q) } else { None }
}

/// Returns the value at the rank of the quantile `q` among `n` counted values, which ascend; `None`
/// if there are fewer.
///
/// ```
/// use jitterstat::stats::quantile::nearest_rank_of_counts;
/// let (bins, n) = ([(13, 2), (14, 5), (18, 3)], 10);
/// assert_eq!(nearest_rank_of_counts(bins, n, 0.5), Some(14));
/// ```
#[must_use]
pub fn nearest_rank_of_counts<T>(
    counts: impl IntoIterator<Item = (T, u64)>,
    n: u64,
    q: f64,
) -> Option<T> {
    let rank = rank(usize::try_from(n).unwrap_or(usize::MAX), q);
    value_at_rank(counts, rank as u64)
}

/// Returns the value at a rank, from 1, among counted values, which ascend; `None` if there are
/// fewer.
#[must_use]
pub fn value_at_rank<T>(counts: impl IntoIterator<Item = (T, u64)>, rank: u64) -> Option<T> {
    let mut seen = 0_u64;
    for (value, count) in counts {
        seen = seen.saturating_add(count);
        if seen >= rank {
            return Some(value);
        }
    }
    None
}

/// Returns the middle value, or the mean of the two middle values; NaN without values.
///
/// ```
/// use jitterstat::stats::quantile::median;
/// assert_eq!(median([3.0, 9.0, 5.0, 6.0]), 5.5);
/// ```
#[must_use]
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_unstable_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n => f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2]),
    }
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
        assert_eq!(nearest_rank::<i64>(&[], 0.5), None);
        assert_eq!(nearest_rank(&[3, 5, 9], 0.5), Some(5));
    }

    #[test]
    fn counted_values_have_same_percentiles() {
        let samples = [3, 3, 5, 9, 9, 9, 12];
        let counts = [(3, 2), (5, 1), (7, 0), (9, 3), (12, 1)];
        for q in [0.0, 0.1, 0.3, 0.5, 0.9, 1.0] {
            let expected = nearest_rank(&samples, q);
            assert_eq!(nearest_rank_of_counts(counts, 7, q), expected, "{q}");
        }
        assert_eq!(value_at_rank(counts, 8), None);
        assert_eq!(nearest_rank_of_counts([(3, 0)], 0, 0.5), None);
    }

    #[test]
    fn median_of_even_count_is_mean() {
        assert!(median([]).is_nan());
        assert_eq!(median([7.0]), 7.0);
        assert_eq!(median([9.0, -1.0, 4.0]), 4.0);
        assert_eq!(median([9.0, -1.0]), 4.0);
    }
}
