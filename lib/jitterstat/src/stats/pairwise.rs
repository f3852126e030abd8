//! Selects the k-th smallest of all pairwise averages or differences without computing all of them:
//! a thousand rounds have half a million averages, and an interval needs three of these.
//!
//! The selection is a bisection. A single pass over the sorted numbers counts the averages up to a
//! limit (Johnson and Mizoguchi, "Selecting the Kth Element in X + Y", SIAM Journal on Computing,
//! 1978, use the same order). The bisection runs over the bit patterns of floating-point numbers,
//! so it ends for any input. Once there are as few candidates as numbers, they are computed and
//! sorted.

use super::Interval;

/// Returns the `k`-th smallest average, from 0, of any two of the sorted `values`, including each
/// value with itself.
///
/// # Panics
/// Panics if there are at most `k` averages.
#[must_use]
pub fn nth_average(values: &[f64], k: usize) -> f64 {
    let n = values.len();
    let total = n * (n + 1) / 2;
    assert!(k < total, "invalid rank {k}: {n} values have {total} averages");
    Averages(values).nth(k)
}

/// The averages of any two of some sorted values, including each value with itself.
struct Averages<'a>(&'a [f64]);

impl Candidates for Averages<'_> {
    fn total(&self) -> usize {
        self.0.len() * (self.0.len() + 1) / 2
    }

    fn few(&self) -> usize {
        self.0.len()
    }

    fn range(&self) -> Interval<f64> {
        Interval { lower: self.0[0], upper: self.0[self.0.len() - 1] }
    }

    fn count_at_most(&self, limit: f64) -> usize {
        let (mut count, mut end) = (0, self.0.len());
        for (i, a) in self.0.iter().enumerate() {
            while end > i && f64::midpoint(*a, self.0[end - 1]) > limit {
                end -= 1;
            }
            if end <= i {
                break;
            }
            count += end - i;
        }
        count
    }

    fn between(&self, low: f64, high: f64) -> Vec<f64> {
        let (mut found, mut from) = (Vec::with_capacity(self.0.len()), self.0.len());
        for (i, a) in self.0.iter().enumerate() {
            while from > 0 && f64::midpoint(*a, self.0[from - 1]) >= low {
                from -= 1;
            }
            let averages = self.0[from.max(i)..].iter().map(|b| f64::midpoint(*a, *b));
            found.extend(averages.take_while(|average| *average <= high));
        }
        found
    }
}

/// Returns the `k`-th smallest difference, from 0, of a value of `b` minus one of `a`. Both must be
/// sorted.
///
/// # Panics
/// Panics if there are at most `k` differences.
#[must_use]
pub fn nth_difference(a: &[f64], b: &[f64], k: usize) -> f64 {
    let total = a.len() * b.len();
    assert!(
        k < total,
        "invalid rank {k}: {} by {} values have {total} differences",
        a.len(),
        b.len()
    );
    Differences { a, b }.nth(k)
}

/// The differences of each value of `b` and each of `a`, both sorted.
struct Differences<'a> {
    a: &'a [f64],
    b: &'a [f64],
}

impl Candidates for Differences<'_> {
    fn total(&self) -> usize {
        self.a.len() * self.b.len()
    }

    fn few(&self) -> usize {
        self.a.len() + self.b.len()
    }

    fn range(&self) -> Interval<f64> {
        let (a, b) = (self.a, self.b);
        Interval { lower: b[0] - a[a.len() - 1], upper: b[b.len() - 1] - a[0] }
    }

    fn count_at_most(&self, limit: f64) -> usize {
        let (mut count, mut end) = (0, 0);
        for x in self.a {
            while end < self.b.len() && self.b[end] - x <= limit {
                end += 1;
            }
            count += end;
        }
        count
    }

    fn between(&self, low: f64, high: f64) -> Vec<f64> {
        let (mut found, mut from) = (Vec::with_capacity(self.few()), 0);
        for x in self.a {
            while from < self.b.len() && self.b[from] - x < low {
                from += 1;
            }
            let differences = self.b[from..].iter().map(|y| y - x);
            found.extend(differences.take_while(|difference| *difference <= high));
        }
        found
    }
}

/// Numbers of which one is selected without computing all of them.
trait Candidates {
    /// Returns the number of candidates.
    fn total(&self) -> usize;

    /// Returns the number of candidates that are computed and sorted.
    fn few(&self) -> usize;

    /// Returns the smallest and the largest candidate.
    fn range(&self) -> Interval<f64>;

    /// Counts the candidates up to a limit.
    fn count_at_most(&self, limit: f64) -> usize;

    /// Computes the candidates from one limit to another.
    fn between(&self, low: f64, high: f64) -> Vec<f64>;

    /// Returns the `k`-th smallest candidate.
    fn nth(&self, k: usize) -> f64 {
        let Interval { lower: mut low, upper: mut high } = self.range().map(ordinal);
        let (mut below, mut up_to) = (0, self.total());
        while low < high && up_to - below > self.few() {
            let middle = low + (high - low) / 2;
            let count = self.count_at_most(number(middle));
            if count > k {
                (high, up_to) = (middle, count);
            } else {
                (low, below) = (middle + 1, count);
            }
        }
        if low == high {
            // The addition makes a negative zero positive.
            return number(low) + 0.0;
        }
        let mut candidates = self.between(number(low), number(high));
        candidates.sort_unstable_by(f64::total_cmp);
        // Counted from the end: the two zeros are one value with two bit patterns, so there may be
        // additional candidates at the lower end.
        candidates[candidates.len() - (up_to - k)] + 0.0
    }
}

/// Returns the rank of a number among all floating-point numbers.
fn ordinal(number: f64) -> u64 {
    let bits = number.to_bits();
    if number.is_sign_negative() { !bits } else { bits | SIGN }
}

/// Returns the number with a rank: the inverse of [`ordinal`].
fn number(ordinal: u64) -> f64 {
    f64::from_bits(if ordinal & SIGN == 0 { !ordinal } else { ordinal & !SIGN })
}

const SIGN: u64 = 1 << 63;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sorted(mut values: Vec<f64>) -> Vec<f64> {
        values.sort_unstable_by(f64::total_cmp);
        values
    }

    /// Numbers with many ties or with few.
    fn values() -> impl Strategy<Value = Vec<f64>> {
        let coarse = proptest::collection::vec((-3_i32..3).prop_map(f64::from), 1..30);
        let fine = proptest::collection::vec(-1e3_f64..1e3, 1..30);
        prop_oneof![coarse, fine].prop_map(sorted)
    }

    proptest! {
        #[test]
        fn averages_match_sorting(values in values()) {
            let averages: Vec<f64> = (0..values.len())
                .flat_map(|i| values[i..].iter().map(|b| f64::midpoint(values[i], *b)).collect::<Vec<_>>())
                .collect();
            for (k, expected) in sorted(averages).into_iter().enumerate() {
                prop_assert_eq!(nth_average(&values, k), expected);
            }
        }

        #[test]
        fn differences_match_sorting(a in values(), b in values()) {
            let differences: Vec<f64> = a.iter().flat_map(|x| b.iter().map(move |y| y - x)).collect();
            for (k, expected) in sorted(differences).into_iter().enumerate() {
                prop_assert_eq!(nth_difference(&a, &b, k), expected);
            }
        }
    }
}
