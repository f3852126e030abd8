//! Medians, of values and of the rounds of each side.

use crate::gate::Sides;
use crate::gate::round::Late;

/// Returns the middle value, or the mean of the two middle values; NaN without values.
#[must_use]
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_unstable_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n => f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2]),
    }
}

/// Returns the median of a number over the rounds of each side.
pub(super) fn side_medians(values: &[Sides<Late>], number: impl Fn(Late) -> f64) -> Sides<f64> {
    Sides {
        base: median(values.iter().map(|pair| number(pair.base))),
        candidate: median(values.iter().map(|pair| number(pair.candidate))),
    }
}
