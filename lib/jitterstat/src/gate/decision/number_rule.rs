//! The test of one number of the rounds or runs of each pair.

use std::borrow::Cow;
use std::fmt;

use super::outcome::{Outcome, Reason};
use super::side_medians;
use super::stall_lift::Lift;
use crate::gate::Sides;
use crate::gate::round::Late;
use crate::stats::Interval;
use crate::stats::signed_rank::{HodgesLehmann, Shift};

/// Minimum number of pairs of a test: with fewer, the strictest test has no bound.
pub const MIN_PAIRS: usize = 12;
/// Share of the pairs in the quieter half.
pub const QUIET_SHARE: f64 = 0.5;
/// Level at which a tail that seems worse before the last look is left open instead of passed.
const DOUBT_ALPHA: f64 = 0.05;

/// Share of alpha with which a screen reports a regression. A screen runs on every push, so its
/// alarms must be rarer than those of a gate.
pub const CLEAR_ALPHA_SHARE: f64 = 0.1;

/// The rule by which a number is judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NumberRule {
    /// Whether the number is tested twice, each time with half of the alpha: over the quieter half
    /// of the pairs, in which stalls of the machine do not drown a change, and over all pairs,
    /// because a change may show in some rounds only. Otherwise, it is tested over all pairs.
    pub uses_quiet_half: bool,
    /// Tolerated relative rise.
    pub tolerance: f64,
    /// Absolute rise that is always tolerated, whatever it is relatively.
    pub floor: f64,
    /// Nominal period, on which the lateness that stalls cause depends.
    pub period_ns: u64,
}

impl NumberRule {
    /// Returns the tolerated rise as a logarithm, given the median of the base.
    #[must_use]
    pub fn tolerated(&self, median: f64) -> f64 {
        self.tolerance.max(self.floor / median).ln_1p()
    }

    /// Returns the pairs from which the tolerance and the lift of stalls come: the quieter half, if
    /// the rule uses it.
    #[must_use]
    pub fn used_pairs<'a>(&self, values: &'a [Sides<Late>]) -> Cow<'a, [Sides<Late>]> {
        if self.uses_quiet_half { quiet_half(values).into() } else { values.into() }
    }

    /// Returns the shift in the used pairs, with the bounds of a look; `None` with too few pairs.
    /// `alpha` is the alpha of the number at that look.
    #[must_use]
    pub fn shift(&self, values: &[Sides<Late>], alpha: f64) -> Option<Shift> {
        Some(hodges_lehmann(&self.used_pairs(values))?.shift(self.test_alpha(alpha)))
    }

    /// Returns the alpha of one test.
    fn test_alpha(&self, alpha: f64) -> f64 {
        if self.uses_quiet_half { alpha / 2.0 } else { alpha }
    }

    /// Judges the values of both sides, pair by pair. `alpha` is the alpha of the number at this
    /// look; `last` is whether no further look follows.
    #[must_use]
    pub fn judge(&self, values: &[Sides<Late>], alpha: f64, last: bool) -> NumberVerdict {
        let premises = TestPremises::new(self, values);
        let used = &premises.used[..];
        let (Some(in_used), Some(in_all)) = (hodges_lehmann(used), hodges_lehmann(values)) else {
            return premises.verdict_without_test();
        };

        // The used pairs decide first. A regression takes precedence over stalls: they can mask
        // one, but cannot cause one between sides that share them.
        let test_alpha = self.test_alpha(alpha);
        let shift = in_used.shift(test_alpha);
        let outcome = match judge_shift(shift, premises.tolerance, premises.lift_of_both()) {
            Outcome::Pass | Outcome::Improved if premises.is_masked => Outcome::Inconclusive,
            outcome => outcome,
        };
        if !self.uses_quiet_half || outcome == Outcome::Regressed {
            return premises.verdict(outcome, shift, used);
        }

        // All pairs can only change the outcome for the worse.
        let shift_in_all = in_all.shift(test_alpha);
        if is_regressed(shift_in_all, premises.tolerance) {
            return premises.verdict(Outcome::Regressed, shift_in_all, values);
        }
        let is_passed = matches!(outcome, Outcome::Pass | Outcome::Improved);
        let is_doubtful = is_passed && !last && in_all.shift(DOUBT_ALPHA).lower > 0.0;
        let outcome = if is_doubtful { Outcome::Inconclusive } else { outcome };
        premises.verdict(outcome, shift, used)
    }

    /// Judges the values as a screen, which takes a single look and only reports what is clear. For a
    /// regression, the whole interval at [`CLEAR_ALPHA_SHARE`] of `alpha` must be beyond the
    /// tolerance. An improvement counts as a pass.
    #[must_use]
    pub fn screen(&self, values: &[Sides<Late>], alpha: f64) -> NumberVerdict {
        let judged = self.judge(values, alpha, true);
        match judged.outcome {
            Outcome::Improved => NumberVerdict { outcome: Outcome::Pass, ..judged },
            Outcome::Regressed => {
                let strict = self.judge(values, alpha * CLEAR_ALPHA_SHARE, true);
                let is_beyond = |shift: Shift| shift.lower > strict.tolerance;
                if strict.outcome == Outcome::Regressed && strict.shift.is_some_and(is_beyond) {
                    return strict;
                }
                NumberVerdict {
                    outcome: Outcome::Inconclusive,
                    reason: Some(Reason::NotClear),
                    pairs_to_decide: None,
                    ..judged
                }
            }
            _ => judged,
        }
    }
}

/// The premises of the test of a number. Differences are of natural logarithms, B minus A.
struct TestPremises<'a> {
    /// The pairs from which the tolerance and the lift of stalls come.
    used: Cow<'a, [Sides<Late>]>,
    /// Number of pairs, used or not.
    pairs: usize,
    /// The tolerated rise.
    tolerance: f64,
    /// By how much stalls raise the number; `None` without a pair.
    lift: Option<Lift>,
    /// Whether stalls could mask a change of the tolerated size.
    is_masked: bool,
}

impl<'a> TestPremises<'a> {
    fn new(rule: &NumberRule, values: &'a [Sides<Late>]) -> Self {
        let used = rule.used_pairs(values);
        let tolerance = rule.tolerated(side_values(&used).base);
        let lift = Lift::from_pairs(&used, rule.period_ns);
        let is_masked = lift.is_some_and(|lift| lift.masks_change(rule.tolerance));
        Self { used, pairs: values.len(), tolerance, lift, is_masked }
    }

    fn lift_of_both(&self) -> f64 {
        self.lift.map_or(0.0, |lift| lift.both)
    }

    /// Creates the verdict on pairs that are too few for a test.
    fn verdict_without_test(&self) -> NumberVerdict {
        NumberVerdict {
            outcome: Outcome::Inconclusive,
            reason: Some(Reason::TooFewRounds),
            shift: None,
            tolerance: self.tolerance,
            sides: side_values(&self.used),
            pairs: self.pairs,
            // The quieter half needs as many.
            pairs_to_decide: Some(2 * MIN_PAIRS as u64),
            lift: self.lift,
        }
    }

    /// Creates the verdict from the outcome of a test, the shift of the pairs `judged`.
    fn verdict(&self, outcome: Outcome, shift: Shift, judged: &[Sides<Late>]) -> NumberVerdict {
        let (reason, pairs_to_decide) = match outcome {
            Outcome::Inconclusive if self.is_masked => (Some(Reason::StallDominated), None),
            Outcome::Inconclusive => (Some(Reason::TooNoisy), self.pairs_to_narrow(shift)),
            _ => (None, None),
        };
        NumberVerdict {
            outcome,
            reason,
            shift: Some(shift),
            tolerance: self.tolerance,
            sides: side_values(judged),
            pairs: judged.len(),
            pairs_to_decide,
            lift: self.lift,
        }
    }

    /// Returns the number of pairs at which the interval would exclude the tolerance less the lift,
    /// or zero.
    fn pairs_to_narrow(&self, Shift { estimate, lower, upper }: Shift) -> Option<u64> {
        let clear = self.tolerance - self.lift_of_both();
        let narrowing = if estimate >= self.tolerance / 2.0 && lower <= 0.0 {
            (estimate - lower) / estimate
        } else if estimate < clear {
            (upper - estimate) / (clear - estimate)
        } else {
            return None;
        };
        count_to_narrow(self.pairs as f64, narrowing)
    }
}

/// The verdict on a number. Differences are of natural logarithms, B minus A.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NumberVerdict {
    /// The outcome.
    pub outcome: Outcome,
    /// The reason, if the outcome is inconclusive.
    pub reason: Option<Reason>,
    /// The estimate and interval that decided; `None` with too few pairs.
    pub shift: Option<Shift>,
    /// The tolerated rise.
    pub tolerance: f64,
    /// Median of each side in the pairs behind the interval.
    pub sides: Sides<f64>,
    /// Number of pairs behind the interval.
    pub pairs: usize,
    /// Number of pairs that would probably decide; `None` if the number is decided, or no number
    /// of pairs would decide it.
    pub pairs_to_decide: Option<u64>,
    /// By how much stalls raise the number in the judged pairs; `None` without a pair.
    pub lift: Option<Lift>,
}

impl NumberVerdict {
    /// Returns an inconclusive verdict on the same values.
    pub(in crate::gate) fn leave_open(self, reason: Reason) -> Self {
        let outcome = Outcome::Inconclusive;
        Self { outcome, reason: Some(reason), pairs_to_decide: None, ..self }
    }

    /// Returns the verdict on the reciprocals of the values, of which the smaller ones are worse.
    pub(in crate::gate) fn reciprocal(self) -> Self {
        let negative = |Shift { estimate, lower, upper }| Shift {
            estimate: -estimate,
            lower: -upper,
            upper: -lower,
        };
        Self {
            shift: self.shift.map(negative),
            tolerance: -self.tolerance,
            sides: self.sides.map(|value| 1.0 / value),
            ..self
        }
    }

    /// Returns the estimated ratio of B to A.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        self.shift.map(|s| s.estimate.exp())
    }

    /// Returns the interval of the ratio, if it is bounded.
    #[must_use]
    pub fn ratio_interval(&self) -> Option<Interval<f64>> {
        Some(self.shift?.interval()?.map(f64::exp))
    }

    /// Returns the largest tolerated ratio, or the smallest if higher values are better.
    #[must_use]
    pub fn tolerated_ratio(&self) -> f64 {
        if self.tolerance.is_finite() { self.tolerance.exp() } else { 1.0 }
    }
}

/// Writes the tolerated ratio behind the interval of the ratio, with a number of decimals.
///
/// An interval that reaches the tolerance can be a regression although its estimate is tolerated.
pub(in crate::gate) fn write_tolerated(
    f: &mut fmt::Formatter<'_>,
    tolerated: f64,
    outcome: Outcome,
    interval: Option<Interval<f64>>,
    digits: usize,
) -> fmt::Result {
    let reaches_it = interval.is_some_and(|interval| interval.contains(tolerated));
    let verb = if outcome == Outcome::Regressed && reaches_it { "which reaches the " } else { "" };
    write!(f, ", {verb}tolerated {tolerated:.digits$}")
}

/// Returns the half of the pairs with the smallest sums. A sum treats both sides alike, so the
/// choice favours neither.
fn quiet_half(values: &[Sides<Late>]) -> Vec<Sides<Late>> {
    let mut sorted = values.to_vec();
    let sum = |pair: &Sides<Late>| pair.base.ln + pair.candidate.ln;
    sorted.sort_by(|x, y| sum(x).total_cmp(&sum(y)));
    sorted.truncate(values.len().div_ceil(2));
    sorted
}

/// Returns the estimator of the shift of B against A; `None` with too few pairs for any test.
#[must_use]
pub fn hodges_lehmann(values: &[Sides<Late>]) -> Option<HodgesLehmann> {
    let differences: Vec<f64> =
        values.iter().map(|pair| pair.candidate.ln - pair.base.ln).collect();
    (values.len() >= MIN_PAIRS).then(|| HodgesLehmann::new(&differences)).flatten()
}

/// Returns the median of each side.
fn side_values(values: &[Sides<Late>]) -> Sides<f64> {
    side_medians(values, |late| late.ln).map(f64::exp)
}

fn is_regressed(shift: Shift, tolerance: f64) -> bool {
    shift.lower > 0.0 && shift.estimate >= tolerance / 2.0 && shift.upper >= tolerance
}

/// Compares an interval with a tolerance. A pass must be clear of the tolerance by `lift`, the lift
/// of stalls on both sides.
#[must_use]
pub fn judge_shift(shift: Shift, tolerance: f64, lift: f64) -> Outcome {
    if is_regressed(shift, tolerance) {
        Outcome::Regressed
    } else if shift.upper >= tolerance - lift {
        Outcome::Inconclusive
    } else if shift.estimate <= -tolerance / 2.0 && shift.upper < 0.0 {
        Outcome::Improved
    } else {
        Outcome::Pass
    }
}

/// Returns how many values make an interval over `have` values narrower by the factor `narrowing`:
/// its width falls with the root of their number. `None` if no practical number would.
#[must_use]
pub fn count_to_narrow(have: f64, narrowing: f64) -> Option<u64> {
    let factor = (narrowing * narrowing).max(1.0);
    if factor.is_finite() && factor < 1e6 { Some((have * factor).ceil() as u64 + 1) } else { None }
}
