//! Reduces a long series to few points without averaging away any sample of the tail.

/// The reduced series: the range of values in each column, and every point above a threshold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Envelope {
    /// Middle of the column, minimum, maximum.
    pub band: Vec<(f64, i64, i64)>,
    /// Every point above the threshold.
    pub tail: Vec<(f64, i64)>,
}

/// Reduces points, sorted by x, to `columns` columns between `from` and `to`.
pub fn envelope(points: &[(f64, i64)], from: f64, to: f64, columns: usize, above: i64) -> Envelope {
    let width = (to - from).max(f64::MIN_POSITIVE) / columns as f64;
    let mut ranges: Vec<(usize, i64, i64)> = Vec::new();
    let mut tail = Vec::new();
    for &(x, y) in points {
        if y > above {
            tail.push((x, y));
        }
        let column = (((x - from) / width) as usize).min(columns - 1);
        match ranges.last_mut() {
            Some((last, low, high)) if *last == column => {
                (*low, *high) = (y.min(*low), y.max(*high));
            }
            _ => ranges.push((column, y, y)),
        }
    }
    let mut band = Vec::with_capacity(ranges.len());
    for (column, low, high) in ranges {
        let middle = from + (column as f64 + 0.5) * width;
        band.push((middle, low, high));
    }
    Envelope { band, tail }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn extremes_and_tail_survive(values in proptest::collection::vec(-5_i64..1_000_000, 1..500), above in 0_i64..1_000_000) {
            let points: Vec<(f64, i64)> = values.iter().enumerate().map(|(i, &v)| (i as f64, v)).collect();
            let e = envelope(&points, 0.0, values.len() as f64, 20, above);
            prop_assert_eq!(e.band.iter().map(|b| b.1).min(), values.iter().copied().min());
            prop_assert_eq!(e.band.iter().map(|b| b.2).max(), values.iter().copied().max());
            prop_assert_eq!(e.tail.len(), values.iter().filter(|&&v| v > above).count());
            prop_assert!(e.band.len() <= 20);
        }
    }
}
