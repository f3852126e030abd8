//! Reduces a long series to the columns of a picture.

/// The values of all points in one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Index of the column. Columns without a point are left out.
    pub index: usize,
    pub min: i64,
    /// The 90th percentile by nearest rank.
    pub p90: i64,
    pub max: i64,
}

/// Reduces points, sorted by x, to at most `count` columns between `from` and `to`.
pub fn reduce(points: &[(f64, i64)], from: f64, to: f64, count: usize) -> Vec<Column> {
    let width = (to - from).max(f64::MIN_POSITIVE) / count as f64;
    let index = |x: f64| (((x - from) / width) as usize).min(count.saturating_sub(1));
    let groups = points.chunk_by(|a, b| index(a.0) == index(b.0));
    groups.map(|group| Column::new(index(group[0].0), group)).collect()
}

impl Column {
    /// Creates the column of at least one point.
    fn new(index: usize, points: &[(f64, i64)]) -> Self {
        let mut values: Vec<i64> = points.iter().map(|point| point.1).collect();
        values.sort_unstable();
        let rank = (values.len() * 9).div_ceil(10);
        Self { index, min: values[0], p90: values[rank - 1], max: values[values.len() - 1] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn columns_have_nearest_rank_percentiles() {
        let points: Vec<(f64, i64)> = (1..=20).map(|i| (f64::from(i), i64::from(i))).collect();
        let column = |index, min, p90, max| Column { index, min, p90, max };
        assert_eq!(reduce(&points, 1.0, 21.0, 2), [column(0, 1, 9, 10), column(1, 11, 19, 20)]);
        assert_eq!(reduce(&points[..1], 0.0, 100.0, 10), [column(0, 1, 1, 1)]);
        assert_eq!(reduce(&[], 0.0, 1.0, 10), []);
    }

    proptest! {
        #[test]
        fn extremes_survive(values in proptest::collection::vec(-5_i64..1_000_000, 1..500), count in 1_usize..40) {
            let points: Vec<(f64, i64)> = values.iter().enumerate().map(|(i, &v)| (i as f64, v)).collect();
            let columns = reduce(&points, 0.0, values.len() as f64, count);
            prop_assert!(columns.len() <= count);
            prop_assert!(columns.is_sorted_by(|a, b| a.index < b.index));
            prop_assert_eq!(columns.iter().map(|c| c.min).min(), values.iter().copied().min());
            prop_assert_eq!(columns.iter().map(|c| c.max).max(), values.iter().copied().max());
            prop_assert!(columns.iter().all(|c| c.min <= c.p90 && c.p90 <= c.max));
        }
    }
}
