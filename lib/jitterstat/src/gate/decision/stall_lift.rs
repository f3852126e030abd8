//! The rise of a percentile that stalls cause.

use super::{median, side_medians};
use crate::gate::Sides;
use crate::gate::round::Late;
use crate::stall;

/// By how much stalls raise a percentile, as natural logarithms: medians over the judged pairs of
/// the [lift](stall::lift) of each round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lift {
    /// Lift of each side.
    pub sides: Sides<f64>,
    /// The smaller lift of each pair. A change shows less by this much.
    pub both: f64,
    /// The larger lift of the two sides, counting only rounds that are as late without stalls.
    pub late_anyway: f64,
}

impl Lift {
    /// Computes the lift of the pairs; `None` without a pair.
    #[must_use]
    pub fn from_pairs(used: &[Sides<Late>], period_ns: u64) -> Option<Self> {
        let late = (stall::late_ns(period_ns) as f64).ln();
        let lift = |value: Late| stall::lift(value.ln, value.ln_unstalled, period_ns);
        let late_lift = |value: Late| if value.ln_unstalled >= late { lift(value) } else { 0.0 };
        let late_sides = side_medians(used, late_lift);
        let common = used.iter().map(|pair| lift(pair.base).min(lift(pair.candidate)));
        (!used.is_empty()).then(|| Self {
            sides: side_medians(used, lift),
            both: median(common),
            late_anyway: late_sides.base.max(late_sides.candidate),
        })
    }

    /// Returns whether stalls could mask a relative rise: if those of both sides make up half of it,
    /// or those of a side that is late anyway make up all of it.
    #[must_use]
    pub fn masks_change(&self, relative: f64) -> bool {
        self.both >= (relative / 2.0).ln_1p() || self.late_anyway >= relative.ln_1p()
    }
}
