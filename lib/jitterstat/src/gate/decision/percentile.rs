//! The test of one percentile.

use super::Rules;
use super::median::side_medians;
use super::outcome::{Outcome, Reason};
use super::stall_lift::Lift;
use crate::gate::Sides;
use crate::gate::round::Late;
use crate::stats::Interval;
use crate::stats::signed_rank::{HodgesLehmann, Shift};

/// Minimum number of pairs of a test: with fewer, the strictest test has no bound.
pub const MIN_PAIRS: usize = 12;
/// Share of the pairs that [`quiet_half`] keeps.
pub const QUIET_SHARE: f64 = 0.5;
/// Level at which a tail that seems worse before the last look is left open instead of passed.
const DOUBT_ALPHA: f64 = 0.05;

/// The verdict on one percentile. Differences are of natural logarithms, B minus A.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PercentileVerdict {
    /// The outcome.
    pub outcome: Outcome,
    /// The reason, if the outcome is inconclusive.
    pub reason: Option<Reason>,
    /// The estimate and interval that decided; `None` with too few pairs.
    pub shift: Option<Shift>,
    /// The tolerated rise.
    pub tolerance: f64,
    /// Median round of each side in the pairs behind the interval, in nanoseconds.
    pub sides_ns: Sides<f64>,
    /// Number of pairs behind the interval.
    pub pairs: usize,
    /// Number of pairs that would probably decide; `None` if the percentile is decided, or no
    /// number of pairs would decide it.
    pub pairs_to_decide: Option<u64>,
    /// By how much stalls raise the percentile in the judged pairs; `None` without a pair.
    pub lift: Option<Lift>,
}

impl PercentileVerdict {
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

    /// Returns the largest tolerated ratio.
    #[must_use]
    pub fn tolerated_ratio(&self) -> f64 {
        if self.tolerance.is_finite() { self.tolerance.exp() } else { 1.0 }
    }
}

pub(super) fn judge_median(values: &[Sides<Late>], rules: &Rules) -> PercentileVerdict {
    let judge = PercentileJudge::new(values, values.len(), rules.tolerance_median, rules);
    let Some(estimator) = hodges_lehmann(values) else { return judge.too_few_pairs() };
    let shift = estimator.shift(rules.alpha_per_look());
    judge.verdict(judge.outcome(shift), shift, values)
}

/// Judges the tail percentile twice, each time with half of the alpha: over the quieter half of the
/// pairs, in which stalls of the machine do not drown a change, and over all pairs, because a
/// change may show in some rounds only.
///
/// The tolerance and the lift of stalls come from the quieter half.
#[must_use]
pub fn judge_tail(values: &[Sides<Late>], rules: &Rules, last: bool) -> PercentileVerdict {
    let quiet = quiet_half(values);
    let judge = PercentileJudge::new(&quiet, values.len(), rules.tolerance_tail, rules);
    let (Some(all), Some(half)) = (hodges_lehmann(values), hodges_lehmann(&quiet)) else {
        return judge.too_few_pairs();
    };
    let alpha = rules.alpha_per_look() / 2.0;
    let (shift, shift_all) = (half.shift(alpha), all.shift(alpha));
    let is_doubtful = || !last && all.shift(DOUBT_ALPHA).lower > 0.0;
    match judge.outcome(shift) {
        Outcome::Regressed => judge.verdict(Outcome::Regressed, shift, &quiet),
        _ if is_regressed(shift_all, judge.tolerance) => {
            judge.verdict(Outcome::Regressed, shift_all, values)
        }
        Outcome::Pass | Outcome::Improved if is_doubtful() => {
            judge.verdict(Outcome::Inconclusive, shift, &quiet)
        }
        outcome => judge.verdict(outcome, shift, &quiet),
    }
}

/// Returns the half of the pairs with the smallest sums. A sum treats both sides alike, so the
/// choice favours neither.
#[must_use]
pub fn quiet_half(values: &[Sides<Late>]) -> Vec<Sides<Late>> {
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

/// The median of each side's rounds, in nanoseconds.
fn median_rounds(values: &[Sides<Late>]) -> Sides<f64> {
    side_medians(values, |late| late.ln).map(f64::exp)
}

/// The inputs that all tests of one percentile share.
struct PercentileJudge {
    tolerance: f64,
    lift: Option<Lift>,
    /// Whether stalls could mask a change of the tolerated size.
    is_stalled: bool,
    sides_ns: Sides<f64>,
    all_pairs: usize,
}

impl PercentileJudge {
    /// `used` are the pairs by which the percentile is judged, out of `all_pairs`.
    fn new(used: &[Sides<Late>], all_pairs: usize, relative: f64, rules: &Rules) -> Self {
        let (sides_ns, lift) = (median_rounds(used), Lift::from_pairs(used, rules.period_ns));
        let is_stalled = lift.is_some_and(|lift| lift.masks_change(relative));
        let tolerance = rules.tolerance(relative, sides_ns.base);
        Self { tolerance, lift, is_stalled, sides_ns, all_pairs }
    }

    /// A regression takes precedence over stalls: they can mask one, but cannot cause one between
    /// sides that share them.
    fn outcome(&self, shift: Shift) -> Outcome {
        match judge_shift(shift, self.tolerance, self.lift_of_both()) {
            Outcome::Pass | Outcome::Improved if self.is_stalled => Outcome::Inconclusive,
            outcome => outcome,
        }
    }

    fn lift_of_both(&self) -> f64 {
        self.lift.map_or(0.0, |lift| lift.both)
    }

    /// The verdict from a shift of the pairs `judged`.
    fn verdict(&self, outcome: Outcome, shift: Shift, judged: &[Sides<Late>]) -> PercentileVerdict {
        let open = if self.is_stalled { Reason::StallDominated } else { Reason::TooNoisy };
        let reason = (outcome == Outcome::Inconclusive).then_some(open);
        let pairs_to_decide =
            reason.filter(|r| *r == Reason::TooNoisy).and_then(|_| self.pairs_to_decide(shift));
        PercentileVerdict {
            outcome,
            reason,
            shift: Some(shift),
            sides_ns: median_rounds(judged),
            pairs: judged.len(),
            pairs_to_decide,
            ..self.too_few_pairs()
        }
    }

    fn too_few_pairs(&self) -> PercentileVerdict {
        PercentileVerdict {
            outcome: Outcome::Inconclusive,
            reason: Some(Reason::TooFewRounds),
            shift: None,
            tolerance: self.tolerance,
            sides_ns: self.sides_ns,
            pairs: self.all_pairs,
            // The tail is judged on half of them.
            pairs_to_decide: Some(2 * MIN_PAIRS as u64),
            lift: self.lift,
        }
    }

    /// The number of pairs at which the interval would exclude the tolerance less the lift, or
    /// zero.
    fn pairs_to_decide(&self, Shift { estimate, lower, upper }: Shift) -> Option<u64> {
        let clear = self.tolerance - self.lift_of_both();
        let narrowing = if estimate >= self.tolerance / 2.0 && lower <= 0.0 {
            (estimate - lower) / estimate
        } else if estimate < clear {
            (upper - estimate) / (clear - estimate)
        } else {
            return None;
        };
        count_to_narrow(self.all_pairs as f64, narrowing)
    }
}

/// Returns how many values make an interval over `have` values narrower by the factor `narrowing`:
/// its width falls with the root of their number. `None` if no practical number would.
#[must_use]
pub fn count_to_narrow(have: f64, narrowing: f64) -> Option<u64> {
    let factor = (narrowing * narrowing).max(1.0);
    (factor.is_finite() && factor < 1e6).then(|| (have * factor).ceil() as u64 + 1)
}
