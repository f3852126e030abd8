//! The decision of the gate: what the pairs measured so far show.
//!
//! [`look`] performs one interim analysis, a *look*. It judges the median and the tail percentile
//! of the rounds by exact tests over pairs, under the [`Rules`] that were fixed before the
//! measurement.

use std::fmt;

use super::Sides;
use super::round::{Late, Pair};
use crate::stall;
use crate::stats::Interval;
use crate::stats::signed_rank::{HodgesLehmann, Shift};

/// Default numbers of pairs at which the gate looks.
pub const LOOKS: [usize; 4] = [50, 100, 200, 400];
/// Default numbers of pairs if both sides run at once. The sides then share their noise, so half as
/// many pairs show as much.
pub const DUET_LOOKS: [usize; 4] = [25, 50, 100, 200];
/// Minimum number of pairs of a test: with fewer, the strictest test has no bound.
pub const MIN_PAIRS: usize = 12;
/// Share of the pairs that [`quiet_half`] keeps.
pub const QUIET_SHARE: f64 = 0.5;
/// Level at which a tail that seems worse before the last look is left open instead of passed.
const DOUBT_ALPHA: f64 = 0.05;

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
            alpha: 0.005,
            looks: LOOKS.to_vec(),
            period_ns,
            tolerance_median: 0.20,
            tolerance_tail: 0.50,
            floor_ns: 1_000.0,
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

    /// Returns the tolerated rise of a percentile as a logarithm, given the relative tolerance and
    /// the median round of the base.
    #[must_use]
    pub fn tolerance(&self, relative: f64, median_ns: f64) -> f64 {
        relative.max(self.floor_ns / median_ns).ln_1p()
    }
}

/// The outcome for a percentile, a limit, or the whole gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Outcome {
    /// No rise beyond the tolerance.
    Pass,
    /// A pass with a clear improvement.
    Improved,
    /// A rise that is neither chance nor within the tolerance.
    Regressed,
    /// A value above a given limit.
    LimitBroken,
    /// The measurement does not decide the question.
    Inconclusive,
}

impl Outcome {
    /// Returns the worst of several outcomes. The result is `Improved` if one outcome is and the
    /// others pass, and `Inconclusive` without an outcome.
    ///
    /// ```
    /// use jitterstat::gate::decision::Outcome::{self, Improved, Inconclusive, Pass, Regressed};
    /// assert_eq!(Outcome::worst_of([Pass, Improved]), Improved);
    /// assert_eq!(Outcome::worst_of([Inconclusive, Regressed, Pass]), Regressed);
    /// ```
    #[must_use]
    pub fn worst_of(outcomes: impl IntoIterator<Item = Self>) -> Self {
        outcomes.into_iter().max_by_key(Self::severity).unwrap_or(Self::Inconclusive)
    }

    fn severity(&self) -> u8 {
        match self {
            Self::Pass => 0,
            Self::Improved => 1,
            Self::Inconclusive => 2,
            Self::LimitBroken => 3,
            Self::Regressed => 4,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pass => "pass",
            Self::Improved => "pass (improved)",
            Self::Regressed => "regressed",
            Self::LimitBroken => "limit broken",
            Self::Inconclusive => "inconclusive",
        })
    }
}

/// The reason for an inconclusive outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Reason {
    /// The interval is too wide.
    TooNoisy,
    /// Stalls raise the percentile by so much that they could mask a change of the tolerated size
    /// ([`Lift`]).
    StallDominated,
    /// There are too few rounds for an interval.
    TooFewRounds,
    /// There are too few ticks for the percentile.
    TooFewTicks,
    /// The measurement was interrupted.
    Interrupted,
    /// A value could not be measured.
    NotMeasured,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooNoisy => "the rounds differ too much among themselves",
            Self::StallDominated => {
                "stalls of the machine make so much of it that they could hide a change"
            }
            Self::TooFewRounds => "there are too few rounds for any interval",
            Self::TooFewTicks => "there are too few ticks for that percentile",
            Self::Interrupted => "it was interrupted",
            Self::NotMeasured => "something could not be measured",
        })
    }
}

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

    /// Whether stalls could mask a relative rise: if those of both sides make up half of it, or
    /// those of a side that is late anyway make up all of it.
    #[must_use]
    pub fn masks_change(&self, relative: f64) -> bool {
        self.both >= (relative / 2.0).ln_1p() || self.late_anyway >= relative.ln_1p()
    }
}

/// The result of an interim analysis of all pairs so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look {
    /// The worse outcome of the two percentiles.
    pub outcome: Outcome,
    /// The median of a round.
    pub median: PercentileVerdict,
    /// The tail percentile of a round.
    pub tail: PercentileVerdict,
}

/// Judges the pairs measured so far. `last` is whether no further look follows.
#[must_use]
pub fn look(pairs: &[Pair], rules: &Rules, last: bool) -> Look {
    let median = judge_median(&medians(pairs), rules);
    let tail = judge_tail(&tails(pairs), rules, last);
    let outcome = Outcome::worst_of([median.outcome, tail.outcome]);
    Look { outcome, median, tail }
}

/// Returns the medians of both rounds of each pair.
#[must_use]
pub fn medians(pairs: &[Pair]) -> Vec<Sides<Late>> {
    pairs.iter().map(|p| Sides { base: p.a.median, candidate: p.b.median }).collect()
}

/// Returns the tail percentiles of both rounds of each pair.
#[must_use]
pub fn tails(pairs: &[Pair]) -> Vec<Sides<Late>> {
    pairs.iter().map(|p| Sides { base: p.a.tail, candidate: p.b.tail }).collect()
}

fn judge_median(values: &[Sides<Late>], rules: &Rules) -> PercentileVerdict {
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

/// The median of a number over the rounds of each side.
fn side_medians(values: &[Sides<Late>], number: impl Fn(Late) -> f64) -> Sides<f64> {
    Sides {
        base: median(values.iter().map(|pair| number(pair.base))),
        candidate: median(values.iter().map(|pair| number(pair.candidate))),
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::round::RoundValue;
    use proptest::prelude::*;

    const PERIOD_NS: u64 = 500_000;

    /// A lateness without stalls.
    fn late(ns: f64) -> Late {
        Late { ln: ns.ln(), ln_unstalled: ns.ln() }
    }

    fn side(median_ns: f64, tail_ns: f64) -> RoundValue {
        RoundValue { median: late(median_ns), tail: late(tail_ns) }
    }

    /// A side whose tail is 40 us without stalls.
    fn stalled_side(median_ns: f64, tail_ns: f64) -> RoundValue {
        RoundValue {
            tail: Late { ln_unstalled: 40e3_f64.ln(), ..late(tail_ns) },
            ..side(median_ns, tail_ns)
        }
    }

    /// Deterministic noise from -1 to 1: fractions of multiples of the golden ratio.
    fn wobble(i: usize) -> f64 {
        (i as f64 * 0.618_033_988_749_895).fract() * 2.0 - 1.0
    }

    fn pairs(n: usize, b_median: f64, b_tail: f64) -> Vec<Pair> {
        (0..n)
            .map(|i| {
                let (x, y) = ((0.1 * wobble(i)).exp(), (0.1 * wobble(i + 77)).exp());
                Pair { a: side(14e3 * x, 40e3 * x), b: side(b_median * y, b_tail * y) }
            })
            .collect()
    }

    #[test]
    fn percentiles_are_judged_separately() {
        let rules = Rules::new(PERIOD_NS);
        for (median, tail, expected) in [
            (14e3, 40e3, [Outcome::Pass, Outcome::Pass, Outcome::Pass]),
            (20e3, 40e3, [Outcome::Regressed, Outcome::Pass, Outcome::Regressed]),
            (14e3, 80e3, [Outcome::Pass, Outcome::Regressed, Outcome::Regressed]),
            (9e3, 20e3, [Outcome::Improved, Outcome::Improved, Outcome::Improved]),
        ] {
            let look = look(&pairs(100, median, tail), &rules, true);
            assert_eq!(
                [look.median.outcome, look.tail.outcome, look.outcome],
                expected,
                "{median} {tail}"
            );
        }
    }

    #[test]
    fn comparisons_share_alpha() {
        assert_eq!(Rules::new(PERIOD_NS).shared_by(4).alpha, 0.005 / 4.0);
        // With a smaller alpha an interval is never narrower.
        let uneven = |i| Pair { a: side(14e3 * wobble(i).exp(), 40e3), b: side(14e3, 40e3) };
        let pairs: Vec<Pair> = (0..50).map(uneven).collect();
        let width = |rules: &Rules| {
            look(&pairs, rules, true).median.shift.map(|s| s.upper - s.lower).unwrap()
        };
        assert!(width(&Rules::new(PERIOD_NS).shared_by(4)) > width(&Rules::new(PERIOD_NS)));
    }

    #[test]
    fn small_rises_are_below_the_floor() {
        // 60 ns against 600 ns is ten times as much, and half a microsecond.
        let small: Vec<Pair> =
            (0..50).map(|_| Pair { a: side(60.0, 90.0), b: side(600.0, 900.0) }).collect();
        assert_eq!(look(&small, &Rules::new(PERIOD_NS), true).outcome, Outcome::Pass);
        let large: Vec<Pair> =
            (0..50).map(|_| Pair { a: side(60.0, 90.0), b: side(2_000.0, 3_000.0) }).collect();
        assert_eq!(look(&large, &Rules::new(PERIOD_NS), true).outcome, Outcome::Regressed);
    }

    #[test]
    fn inconclusive_outcomes_have_a_reason() {
        let rules = Rules::new(PERIOD_NS);
        let reason = |pairs: &[Pair]| look(pairs, &rules, true).tail.reason;
        assert_eq!(reason(&pairs(22, 14e3, 40e3)), Some(Reason::TooFewRounds));
        let stalled: Vec<Pair> = (0..50)
            .map(|_| Pair { a: stalled_side(14e3, 300e3), b: stalled_side(14e3, 300e3) })
            .collect();
        assert_eq!(reason(&stalled), Some(Reason::StallDominated));
        let noisy: Vec<Pair> = (0..50)
            .map(|i| Pair {
                a: side(14e3, 40e3 * (2.0 * wobble(i)).exp()),
                b: side(14e3, 40e3 * (2.0 * wobble(i + 9)).exp()),
            })
            .collect();
        let judged = look(&noisy, &rules, true).tail;
        assert_eq!(judged.reason, Some(Reason::TooNoisy));
        assert!(judged.pairs_to_decide.is_some_and(|n| n > 50), "{judged:?}");
        assert_eq!(look(&[], &rules, true).outcome, Outcome::Inconclusive);
    }

    /// 24 quiet pairs, and 26 whose tail is late because of stalls.
    fn half_stalled(a_tail: f64, b_tail: f64) -> Vec<Pair> {
        let stalled = |p: &Pair| Pair {
            a: stalled_side(14e3, 900e3 * p.a.median.ln.exp() / 14e3),
            b: stalled_side(14e3, 900e3),
        };
        let quiet =
            pairs(24, 14e3, b_tail).into_iter().map(|p| Pair { a: side(14e3, a_tail), ..p });
        quiet.chain(pairs(26, 14e3, 40e3).iter().map(stalled)).collect()
    }

    #[test]
    fn stalls_in_unused_half_are_ignored() {
        let look = look(&half_stalled(40e3, 40e3), &Rules::new(PERIOD_NS), true);
        assert_eq!(
            (look.tail.outcome, look.tail.reason, look.tail.pairs),
            (Outcome::Pass, None, 25)
        );
    }

    #[test]
    fn tail_tolerance_comes_from_quiet_half() {
        // The floor of 1 us doubles a tail of 1 us in the quieter half, and is negligible relative
        // to 900 us in the other.
        let tail = look(&half_stalled(1e3, 1e3), &Rules::new(PERIOD_NS), true).tail;
        assert!((tail.tolerance - 2_f64.ln()).abs() < 1e-9, "{tail:?}");
        assert!(
            (tail.sides_ns.base - 1e3).abs() < 1e-6,
            "the medians come from the judged pairs: {tail:?}"
        );
    }

    /// 24 equal pairs. A side is given by its tail in milliseconds, with and without stalls.
    fn judge_equal_pairs(a: (f64, f64), b: (f64, f64)) -> PercentileVerdict {
        let side = |(late, unstalled): (f64, f64)| RoundValue {
            tail: Late { ln: (late * 1e6).ln(), ln_unstalled: (unstalled * 1e6).ln() },
            ..side(14e3, 14e3)
        };
        look(&[Pair { a: side(a), b: side(b) }; 24], &Rules::new(PERIOD_NS), true).tail
    }

    #[test]
    fn stalls_withhold_passes_but_not_regressions() {
        use Outcome::{Improved, Inconclusive, Pass, Regressed};
        let (stalls, noise) = (Some(Reason::StallDominated), Some(Reason::TooNoisy));
        for (a, b, expected) in [
            ((2.0, 1.8), (2.0, 1.8), (Pass, None)),
            ((2.4, 1.8), (2.4, 1.8), (Inconclusive, stalls)),
            ((2.4, 1.8), (2.2, 1.9), (Pass, None)),
            ((3.0, 1.8), (3.3, 3.2), (Inconclusive, stalls)),
            ((2.0, 1.8), (2.75, 2.45), (Inconclusive, noise)),
            ((0.9, 0.04), (0.9, 0.04), (Inconclusive, stalls)),
            ((0.9, 0.04), (0.2, 0.04), (Improved, None)),
            ((3.0, 1.8), (4.6, 1.8), (Regressed, None)),
        ] {
            let judged = judge_equal_pairs(a, b);
            assert_eq!(
                (judged.outcome, judged.reason, judged.pairs),
                (expected.0, expected.1, 12),
                "{a:?} {b:?}"
            );
        }
        let lift = |a, b| judge_equal_pairs(a, b).lift.unwrap();
        let close = |x: f64, y: f64| (x - y).abs() < 5e-5;
        assert!(
            close(lift((2.4, 1.8), (2.4, 1.8)).both, 0.2877)
                && close(lift((2.4, 1.8), (2.2, 1.9)).both, 0.1466)
        );
        assert!(close(lift((3.0, 1.8), (3.3, 3.2)).late_anyway, 0.5108));
        let clear = judge_equal_pairs((2.0, 1.8), (2.75, 2.45));
        assert!(
            close(clear.shift.unwrap().upper, 0.3185) && close(clear.tolerance, 0.4055),
            "{clear:?}"
        );
        assert_eq!(clear.pairs_to_decide, None, "more pairs would not remove the stalls");
    }

    #[test]
    fn late_loop_is_judged_without_stalls() {
        // Every tick is late by more than twice the period, without a stall.
        let look_at = |b: f64| {
            look(&[Pair { a: side(1.2e6, 1.2e6), b: side(b, b) }; 24], &Rules::new(PERIOD_NS), true)
        };
        assert_eq!(
            [1.2e6, 1.5e6, 2.0e6].map(|b| look_at(b).median.outcome),
            [Outcome::Pass, Outcome::Regressed, Outcome::Regressed]
        );
        assert_eq!(look_at(1.2e6).tail.lift.unwrap().sides, Sides::default());
    }

    /// A side with any lateness, with and without stalls.
    fn any_side() -> impl Strategy<Value = RoundValue> {
        let late = || {
            (9.0_f64..15.0, 0.0_f64..2.0)
                .prop_map(|(ln, lift)| Late { ln, ln_unstalled: ln - lift })
        };
        (late(), late()).prop_map(|(median, tail)| RoundValue { median, tail })
    }

    proptest! {
        #[test]
        fn swapped_sides_share_their_stalls(pairs in proptest::collection::vec((any_side(), any_side()), 24..60)) {
            let pairs: Vec<Pair> = pairs.into_iter().map(|(a, b)| Pair { a, b }).collect();
            let swapped: Vec<Pair> = pairs.iter().map(|p| p.swapped()).collect();
            let rules = Rules { floor_ns: 0.0, ..Rules::new(PERIOD_NS) };
            let (forward, backward) = (look(&pairs, &rules, true), look(&swapped, &rules, true));
            for (x, y) in [(forward.median, backward.median), (forward.tail, backward.tail)] {
                let (lift, mirrored) = (x.lift.unwrap(), y.lift.unwrap());
                prop_assert_eq!((lift.both, lift.late_anyway), (mirrored.both, mirrored.late_anyway));
                prop_assert_eq!(lift.sides, mirrored.sides.swapped());
                // Whether stalls mask a change does not depend on the order of the sides, except
                // for a regression, which takes precedence.
                let stalled = |j: &PercentileVerdict| j.reason == Some(Reason::StallDominated);
                prop_assert!(stalled(&x) == stalled(&y) || [x.outcome, y.outcome].contains(&Outcome::Regressed));
                prop_assert!([x.outcome, y.outcome] != [Outcome::Regressed; 2]);
            }
        }

        #[test]
        fn stalls_only_withhold_a_pass(pairs in proptest::collection::vec((any_side(), any_side()), 24..60)) {
            let pairs: Vec<Pair> = pairs.into_iter().map(|(a, b)| Pair { a, b }).collect();
            let unstalled = |late: Late| Late { ln_unstalled: late.ln, ..late };
            let side = |value: RoundValue| RoundValue {
                median: unstalled(value.median),
                tail: unstalled(value.tail),
            };
            let without: Vec<Pair> = pairs.iter().map(|p| Pair { a: side(p.a), b: side(p.b) }).collect();
            let rules = Rules::new(PERIOD_NS);
            let (with, without) = (look(&pairs, &rules, true), look(&without, &rules, true));
            for (with, without) in [(with.median, without.median), (with.tail, without.tail)] {
                prop_assert_eq!(with.outcome == Outcome::Regressed, without.outcome == Outcome::Regressed);
                let passed = |j: &PercentileVerdict| matches!(j.outcome, Outcome::Pass | Outcome::Improved);
                prop_assert!(!passed(&with) || with.outcome == without.outcome);
            }
        }

        #[test]
        fn more_lateness_keeps_a_regression(
            noise in proptest::collection::vec((-0.3_f64..0.3, -0.3_f64..0.3), 50), by in 0.0_f64..0.6, more in 0.0_f64..0.6
        ) {
            let shifted = |by: f64| -> Outcome {
                let pairs: Vec<Pair> = noise.iter().map(|(x, y)| Pair {
                    a: side(14e3 * x.exp(), 40e3 * x.exp()),
                    b: side(14e3 * (y + by).exp(), 40e3 * (y + by).exp()),
                }).collect();
                look(&pairs, &Rules::new(PERIOD_NS), true).median.outcome
            };
            if shifted(by) == Outcome::Regressed {
                prop_assert_eq!(shifted(by + more), Outcome::Regressed);
            }
        }

        #[test]
        fn swapped_sides_are_not_both_worse(noise in proptest::collection::vec((-1.0_f64..1.0, -1.0_f64..1.0), 24..80)) {
            let pairs: Vec<Pair> = noise.iter().map(|(x, y)| Pair {
                a: side(14e3 * x.exp(), 40e3 * x.exp()), b: side(14e3 * y.exp(), 40e3 * y.exp()),
            }).collect();
            let swapped: Vec<Pair> = pairs.iter().map(|p| p.swapped()).collect();
            let rules = Rules::new(PERIOD_NS);
            let (forward, backward) = (look(&pairs, &rules, true).median, look(&swapped, &rules, true).median);
            prop_assert!(!(forward.outcome == Outcome::Regressed && backward.outcome == Outcome::Regressed));
            prop_assert!((forward.shift.unwrap().estimate + backward.shift.unwrap().estimate).abs() < 1e-9);
        }
    }
}
