//! The decision of the gate: what the pairs measured so far show.
//!
//! [`look`] performs one interim analysis, a *look*. It judges the median and the tail percentile
//! of the rounds, each by an exact test over pairs ([`NumberRule`]), under the [`Rules`] that were
//! fixed before the measurement.

mod number_rule;
mod outcome;
#[cfg(test)]
mod screen_simulation;
mod stall_lift;
#[cfg(test)]
mod tests;

pub(super) use number_rule::write_tolerated;
pub use number_rule::{
    CLEAR_ALPHA_SHARE, MIN_PAIRS, NumberRule, NumberVerdict, QUIET_SHARE, count_to_narrow,
    hodges_lehmann, judge_shift,
};
pub use outcome::{Outcome, Reason};
pub use stall_lift::Lift;

pub use crate::stats::quantile::median;

use super::Sides;
use super::round::{Late, Pair};

/// Default numbers of pairs at which the gate looks.
pub const LOOKS: [usize; 4] = [50, 100, 200, 400];
/// Default numbers of pairs if both sides run at once. The sides then share their noise, so half as
/// many pairs show as much.
pub const DUET_LOOKS: [usize; 4] = [25, 50, 100, 200];
/// Default maximum share of false alarms over the whole gate.
pub const ALPHA: f64 = 0.005;
/// Default of the absolute rise that is always tolerated.
pub const FLOOR_NS: f64 = 1_000.0;

/// The error rate and the tolerances of a gate.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// Maximum share of false alarms over the whole gate.
    pub alpha: f64,
    /// Numbers of pairs at which the gate looks, ascending; planned before anything is measured.
    pub looks: Vec<usize>,
    /// Nominal period.
    pub period_ns: u64,
    /// Tolerated relative rise of the median.
    pub tolerance_median: f64,
    /// Tolerated relative rise of the tail percentile.
    pub tolerance_tail: f64,
    /// Absolute rise that is always tolerated, whatever it is relatively.
    pub floor_ns: f64,
}

impl Rules {
    /// Creates the rules whose error rates were measured: alpha 0.5 %, tolerances +20 % and +50 %,
    /// floor 1 us, looks at 50 to 400 pairs.
    #[must_use]
    pub fn new(period_ns: u64) -> Self {
        Self {
            alpha: ALPHA,
            looks: LOOKS.to_vec(),
            period_ns,
            tolerance_median: 0.20,
            tolerance_tail: 0.50,
            floor_ns: FLOOR_NS,
        }
    }

    /// Divides alpha among a number of comparisons and returns the rules of each.
    #[must_use]
    pub fn shared_by(self, comparisons: usize) -> Self {
        Self { alpha: self.alpha / comparisons.max(1) as f64, ..self }
    }

    /// Returns the alpha of one percentile at one look.
    #[must_use]
    pub fn alpha_per_look(&self) -> f64 {
        self.alpha / (2.0 * self.looks.len().max(1) as f64)
    }

    /// Returns the rule of the median.
    #[must_use]
    pub fn median(&self) -> NumberRule {
        NumberRule {
            uses_quiet_half: false,
            tolerance: self.tolerance_median,
            floor: self.floor_ns,
            period_ns: self.period_ns,
        }
    }

    /// Returns the rule of the tail percentile.
    #[must_use]
    pub fn tail(&self) -> NumberRule {
        NumberRule { uses_quiet_half: true, tolerance: self.tolerance_tail, ..self.median() }
    }
}

/// The result of an interim analysis of all pairs so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look {
    /// The worse outcome of the two percentiles.
    pub outcome: Outcome,
    /// The median of a round.
    pub median: NumberVerdict,
    /// The tail percentile of a round.
    pub tail: NumberVerdict,
}

/// Judges the pairs measured so far. `last` is whether no further look follows.
#[must_use]
pub fn look(pairs: &[Pair], rules: &Rules, last: bool) -> Look {
    let alpha = rules.alpha_per_look();
    let median = rules.median().judge(&medians(pairs), alpha, last);
    let tail = rules.tail().judge(&tails(pairs), alpha, last);
    let outcome = Outcome::worst_of([median.outcome, tail.outcome]);
    Look { outcome, median, tail }
}

/// Judges the pairs of a screen by its only look, see [`NumberRule::screen`].
#[must_use]
pub fn screen(pairs: &[Pair], rules: &Rules) -> Look {
    let alpha = rules.alpha_per_look();
    let median = rules.median().screen(&medians(pairs), alpha);
    let tail = rules.tail().screen(&tails(pairs), alpha);
    let outcome = Outcome::worst_of([median.outcome, tail.outcome]);
    Look { outcome, median, tail }
}

/// Returns the medians of both rounds of each pair.
#[must_use]
pub fn medians(pairs: &[Pair]) -> Vec<Sides<Late>> {
    pairs.iter().map(|pair| pair.map(|round| round.median)).collect()
}

/// Returns the tail percentiles of both rounds of each pair.
#[must_use]
pub fn tails(pairs: &[Pair]) -> Vec<Sides<Late>> {
    pairs.iter().map(|pair| pair.map(|round| round.tail)).collect()
}

/// Returns the median of a number over the rounds of each side.
fn side_medians(values: &[Sides<Late>], number: impl Fn(Late) -> f64) -> Sides<f64> {
    Sides {
        base: median(values.iter().map(|pair| number(pair.base))),
        candidate: median(values.iter().map(|pair| number(pair.candidate))),
    }
}
