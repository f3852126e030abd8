//! The k-th smallest of all sums of two, without making them: a thousand rounds have half a million
//! averages of pairs, and only three of those are wanted.
//!
//! The value is found by bisection. How many averages lie at or below a value is counted in one
//! walk over the sorted numbers (Johnson and Mizoguchi, "Selecting the Kth Element in X + Y", SIAM
//! Journal on Computing, 1978, use the same order); the bisection runs over the bit patterns of
//! floating-point numbers, so that it ends whatever the numbers are, and as soon as no more
//! candidates are left than there are numbers, those are made and sorted.

use super::Interval;

/// The `k`-th smallest, from 0, of the averages of any two of the sorted `values`, each with itself
/// included.
///
/// # Panics
/// Without values, or for a `k` that there is not.
#[must_use]
pub fn nth_average(values: &[f64], k: usize) -> f64 {
    let n = values.len();
    let all = n * (n + 1) / 2;
    assert!(k < all, "there is no average number {k} of {n} values");
    let at_most = |limit: f64| {
        let (mut count, mut end) = (0, n);
        for (i, a) in values.iter().enumerate() {
            while end > i && f64::midpoint(*a, values[end - 1]) > limit {
                end -= 1;
            }
            if end <= i {
                break;
            }
            count += end - i;
        }
        count
    };
    let between = |low: f64, high: f64| {
        let (mut found, mut from) = (Vec::with_capacity(n), n);
        for (i, a) in values.iter().enumerate() {
            while from > 0 && f64::midpoint(*a, values[from - 1]) >= low {
                from -= 1;
            }
            let partners = values[from.max(i)..].iter().map(|b| f64::midpoint(*a, *b));
            found.extend(partners.take_while(|average| *average <= high));
        }
        found
    };
    Selection { all, few: n }.nth(
        k,
        Interval { lower: values[0], upper: values[n - 1] },
        at_most,
        between,
    )
}

/// The `k`-th smallest, from 0, of the differences `b` − `a` of all pairs; both sorted.
///
/// # Panics
/// Where one side is empty, or for a `k` that there is not.
#[must_use]
pub fn nth_difference(a: &[f64], b: &[f64], k: usize) -> f64 {
    let all = a.len() * b.len();
    assert!(k < all, "there is no difference number {k} of {} by {}", a.len(), b.len());
    let at_most = |limit: f64| {
        let (mut count, mut end) = (0, 0);
        for x in a {
            while end < b.len() && b[end] - x <= limit {
                end += 1;
            }
            count += end;
        }
        count
    };
    let between = |low: f64, high: f64| {
        let (mut found, mut from) = (Vec::with_capacity(a.len() + b.len()), 0);
        for x in a {
            while from < b.len() && b[from] - x < low {
                from += 1;
            }
            found.extend(
                b[from..].iter().map(|y| y - x).take_while(|difference| *difference <= high),
            );
        }
        found
    };
    Selection { all, few: a.len() + b.len() }.nth(
        k,
        Interval { lower: b[0] - a[a.len() - 1], upper: b[b.len() - 1] - a[0] },
        at_most,
        between,
    )
}

/// A choice among so many candidates, which are made when only a few are left.
struct Selection {
    all: usize,
    few: usize,
}

impl Selection {
    /// The `k`-th smallest; `at_most` counts the candidates up to a limit, `between` makes those
    /// from one to another.
    fn nth(
        &self,
        k: usize,
        range: Interval<f64>,
        at_most: impl Fn(f64) -> usize,
        between: impl Fn(f64, f64) -> Vec<f64>,
    ) -> f64 {
        let Interval { lower: mut low, upper: mut high } = range.map(ordinal);
        let (mut below, mut up_to) = (0, self.all);
        while low < high && up_to - below > self.few {
            let middle = low + (high - low) / 2;
            let count = at_most(number(middle));
            if count > k {
                (high, up_to) = (middle, count);
            } else {
                (low, below) = (middle + 1, count);
            }
        }
        if low == high {
            // A zero without a sign.
            return number(low) + 0.0;
        }
        let mut left = between(number(low), number(high));
        left.sort_unstable_by(f64::total_cmp);
        // Counted from the end: the two zeros are one value and two patterns, so that the lower end
        // may hold some more.
        left[left.len() - (up_to - k)] + 0.0
    }
}

/// Place of a number among all of its kind, in ascending order.
fn ordinal(number: f64) -> u64 {
    let bits = number.to_bits();
    if number.is_sign_negative() { !bits } else { bits | SIGN }
}

/// The inverse of [`ordinal`].
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

    /// Numbers of few distinct values, so that ties are the rule, and of many.
    fn some() -> impl Strategy<Value = Vec<f64>> {
        let coarse = proptest::collection::vec((-3_i32..3).prop_map(f64::from), 1..30);
        let fine = proptest::collection::vec(-1e3_f64..1e3, 1..30);
        prop_oneof![coarse, fine].prop_map(sorted)
    }

    proptest! {
        #[test]
        fn averages_are_those_that_sorting_finds(values in some()) {
            let all: Vec<f64> = (0..values.len())
                .flat_map(|i| values[i..].iter().map(|b| f64::midpoint(values[i], *b)).collect::<Vec<_>>())
                .collect();
            for (k, expected) in sorted(all).into_iter().enumerate() {
                prop_assert_eq!(nth_average(&values, k), expected);
            }
        }

        #[test]
        fn differences_are_those_that_sorting_finds(a in some(), b in some()) {
            let all: Vec<f64> = a.iter().flat_map(|x| b.iter().map(move |y| y - x)).collect();
            for (k, expected) in sorted(all).into_iter().enumerate() {
                prop_assert_eq!(nth_difference(&a, &b, k), expected);
            }
        }
    }
}
