//! One look at the pairs so far, and what it decides.

use std::fmt;

use super::Sides;
use super::round::{Late, Pair};
use crate::stall;
use crate::stats::Interval;
use crate::stats::signed_rank::{HodgesLehmann, Shift};

/// Pairs at which the gate looks, unless told otherwise.
pub const LOOKS: [usize; 4] = [50, 100, 200, 400];
/// The same where both sides run at once: they share their noise, and half of the pairs say as
/// much.
pub const DUET_LOOKS: [usize; 4] = [25, 50, 100, 200];
/// No test with fewer pairs: the strictest one has no bound below it.
pub const MIN_PAIRS: usize = 12;
/// Before the last look, a tail that seems worse at this level is looked at again rather than
/// passed.
const DOUBT: f64 = 0.05;

/// What the gate promises and tolerates.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// Share of false alarms over the whole gate, at most.
    pub alpha: f64,
    /// Numbers of pairs at which it looks, ascending; planned before anything is measured.
    pub looks: Vec<usize>,
    /// Nominal period.
    pub period_ns: u64,
    /// Relative rise of the median that is tolerated.
    pub tolerance_median: f64,
    /// Relative rise of the tail percentile that is tolerated.
    pub tolerance_tail: f64,
    /// A rise by less than this is tolerated however large it is relatively.
    pub floor_ns: f64,
}

impl Rules {
    /// The rules whose error rates were measured: alpha 0.5 %, +20 % and +50 %, floor 1 us, looks
    /// at 50 to 400 pairs.
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

    /// The same rules for one of several comparisons, which share alpha.
    #[must_use]
    pub fn shared_by(self, comparisons: usize) -> Self {
        Self { alpha: self.alpha / comparisons.max(1) as f64, ..self }
    }

    /// Alpha of one percentile at one look.
    pub fn share(&self) -> f64 {
        self.alpha / (2.0 * self.looks.len().max(1) as f64)
    }

    /// The tolerated rise, as a logarithm, of a percentile whose median round is `median_ns`.
    #[must_use]
    pub fn tolerance(&self, relative: f64, median_ns: f64) -> f64 {
        relative.max(self.floor_ns / median_ns).ln_1p()
    }
}

/// What is said of a percentile, of a limit, or of the whole gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Outcome {
    /// No rise beyond the tolerance.
    Pass,
    /// A pass, and clearly better than before.
    Improved,
    /// A rise that is neither chance nor within the tolerance.
    Regressed,
    /// A limit that was given is broken.
    LimitBroken,
    /// The rounds do not say.
    Inconclusive,
}

impl Outcome {
    /// What several outcomes come to together: the worst of them, and improved only where none is
    /// worse than that.
    ///
    /// ```
    /// use jitterstat::gate::decision::Outcome::{self, Improved, Inconclusive, Pass, Regressed};
    /// assert_eq!(Outcome::worst_of([Pass, Improved]), Improved);
    /// assert_eq!(Outcome::worst_of([Inconclusive, Regressed, Pass]), Regressed);
    /// ```
    #[must_use]
    pub fn worst_of(outcomes: impl IntoIterator<Item = Self>) -> Self {
        let weight = |o: &Self| match o {
            Self::Pass => 0,
            Self::Improved => 1,
            Self::Inconclusive => 2,
            Self::LimitBroken => 3,
            Self::Regressed => 4,
        };
        outcomes.into_iter().max_by_key(weight).unwrap_or(Self::Inconclusive)
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

/// The reason of an inconclusive outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Reason {
    /// The interval is too wide.
    TooNoisy,
    /// Stalls make so much of the percentile that they could hide a change of what is tolerated
    /// ([`Lift`]).
    StallDominated,
    /// Too few rounds for any interval.
    TooFewRounds,
    /// The ticks that were measured do not carry the percentile.
    TooFewTicks,
    /// It was stopped before it could be decided.
    Interrupted,
    /// Something could not be measured.
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

/// One judged percentile. All differences are of natural logarithms, B minus A.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PercentileVerdict {
    /// What it comes to.
    pub outcome: Outcome,
    /// Why, if inconclusive.
    pub reason: Option<Reason>,
    /// The estimate and interval that decided; none with too few pairs.
    pub shift: Option<Shift>,
    /// The tolerated rise.
    pub tolerance: f64,
    /// Median round of each side in the pairs behind the interval, in nanoseconds.
    pub sides_ns: Sides<f64>,
    /// Pairs the deciding interval is of.
    pub pairs: usize,
    /// Pairs of this kind that would probably decide it; none if it is decided, or no number would.
    pub pairs_to_decide: Option<u64>,
    /// By how much stalls raise the percentile in the pairs it is judged by; none without a pair.
    pub lift: Option<Lift>,
}

/// By how much stalls raise a percentile, as natural logarithms, in the pairs it is judged by: the
/// median over them.
///
/// Of a round it is that of [`stall::lift`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lift {
    /// Of side A, and of side B.
    pub sides: Sides<f64>,
    /// Of the side of a pair that is lifted less: so much less of a change would show.
    pub both: f64,
    /// Of the side that is lifted more, counting only rounds that would be as late without stalls.
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

    /// Whether stalls may hide a rise by that much: those of both sides half of it, or those of a
    /// side that is late by itself the whole.
    pub fn masks_change(&self, relative: f64) -> bool {
        self.both >= (relative / 2.0).ln_1p() || self.late_anyway >= relative.ln_1p()
    }
}

impl PercentileVerdict {
    /// The estimated ratio of B over A.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        self.shift.map(|s| s.estimate.exp())
    }

    /// The interval of the ratio, if it is bounded.
    #[must_use]
    pub fn ratio_interval(&self) -> Option<Interval<f64>> {
        Some(self.shift?.interval()?.map(f64::exp))
    }

    /// The ratio up to which a rise is tolerated.
    #[must_use]
    pub fn tolerated_ratio(&self) -> f64 {
        if self.tolerance.is_finite() { self.tolerance.exp() } else { 1.0 }
    }
}

/// A look at all pairs so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look {
    /// Any regressed: regressed; else any inconclusive: inconclusive; else pass.
    pub outcome: Outcome,
    /// The median of a round.
    pub median: PercentileVerdict,
    /// The tail percentile of a round.
    pub tail: PercentileVerdict,
}

/// Judges the pairs. `last` tells that no further look will follow.
#[must_use]
pub fn look(pairs: &[Pair], rules: &Rules, last: bool) -> Look {
    let median = judge_median(&medians(pairs), rules);
    let tail = judge_tail(&tails(pairs), rules, last);
    let outcome = Outcome::worst_of([median.outcome, tail.outcome]);
    Look { outcome, median, tail }
}

/// The median of each side's round, pair by pair.
pub fn medians(pairs: &[Pair]) -> Vec<Sides<Late>> {
    pairs.iter().map(|p| Sides { base: p.a.median, candidate: p.b.median }).collect()
}

/// The tail percentile of each side's round, pair by pair.
pub fn tails(pairs: &[Pair]) -> Vec<Sides<Late>> {
    pairs.iter().map(|p| Sides { base: p.a.tail, candidate: p.b.tail }).collect()
}

fn judge_median(values: &[Sides<Late>], rules: &Rules) -> PercentileVerdict {
    let judge = Judge::of(values, values.len(), rules.tolerance_median, rules);
    let Some(all) = intervals(values) else { return judge.too_few() };
    let shift = all.shift(rules.share());
    judge.judged(judge.outcome(shift), shift, values)
}

/// The tail is judged twice, each with half of the alpha: on the quieter half of the pairs, where
/// stalls of the machine do not drown it, and on all, because a change may show only in some
/// rounds. How late the sides are, for the tolerance and for the question of stalls, is asked of
/// the quieter half.
pub fn judge_tail(values: &[Sides<Late>], rules: &Rules, last: bool) -> PercentileVerdict {
    let quiet = quiet_half(values);
    let judge = Judge::of(&quiet, values.len(), rules.tolerance_tail, rules);
    let (Some(all), Some(half)) = (intervals(values), intervals(&quiet)) else {
        return judge.too_few();
    };
    let (shift, shift_all) = (half.shift(rules.share() / 2.0), all.shift(rules.share() / 2.0));
    let doubtful = || !last && all.shift(DOUBT).lower > 0.0;
    match judge.outcome(shift) {
        Outcome::Regressed => judge.judged(Outcome::Regressed, shift, &quiet),
        _ if is_regressed(shift_all, judge.tolerance) => {
            judge.judged(Outcome::Regressed, shift_all, values)
        }
        Outcome::Pass | Outcome::Improved if doubtful() => {
            judge.judged(Outcome::Inconclusive, shift, &quiet)
        }
        outcome => judge.judged(outcome, shift, &quiet),
    }
}

/// Share of the pairs that [`quiet_half`] keeps.
pub const QUIET_SHARE: f64 = 0.5;

/// The half with the smallest sums. The sum does not know which side is which, so that choosing by
/// it favours neither.
pub fn quiet_half(values: &[Sides<Late>]) -> Vec<Sides<Late>> {
    let mut sorted = values.to_vec();
    let sum = |pair: &Sides<Late>| pair.base.ln + pair.candidate.ln;
    sorted.sort_by(|x, y| sum(x).total_cmp(&sum(y)));
    sorted.truncate(values.len().div_ceil(2));
    sorted
}

/// The intervals of B over A, at any alpha; `None` with too few pairs for any test.
pub fn intervals(values: &[Sides<Late>]) -> Option<HodgesLehmann> {
    let differences: Vec<f64> =
        values.iter().map(|pair| pair.candidate.ln - pair.base.ln).collect();
    (values.len() >= MIN_PAIRS).then(|| HodgesLehmann::new(&differences)).flatten()
}

fn is_regressed(shift: Shift, tolerance: f64) -> bool {
    shift.lower > 0.0 && shift.estimate >= tolerance / 2.0 && shift.upper >= tolerance
}

/// What an interval shows against a tolerance, where stalls of both sides lift the percentile by so
/// much: a pass must be clear by as much.
pub fn outcome(shift: Shift, tolerance: f64, lift: f64) -> Outcome {
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

/// The median over the rounds of each side.
fn side_medians(values: &[Sides<Late>], number: impl Fn(Late) -> f64) -> Sides<f64> {
    Sides {
        base: median(values.iter().map(|pair| number(pair.base))),
        candidate: median(values.iter().map(|pair| number(pair.candidate))),
    }
}

/// What is the same for all tests of a percentile.
struct Judge {
    tolerance: f64,
    lift: Option<Lift>,
    /// Stalls may hide what is tolerated.
    stalled: bool,
    sides_ns: Sides<f64>,
    all_pairs: usize,
}

impl Judge {
    /// `used` are the pairs that the percentile is judged by, out of so many.
    fn of(used: &[Sides<Late>], all_pairs: usize, relative: f64, rules: &Rules) -> Self {
        let (sides_ns, lift) = (median_rounds(used), Lift::from_pairs(used, rules.period_ns));
        let stalled = lift.is_some_and(|lift| lift.masks_change(relative));
        Self {
            tolerance: rules.tolerance(relative, sides_ns.base),
            lift,
            stalled,
            sides_ns,
            all_pairs,
        }
    }

    /// A regression is looked for first: stalls can keep it from showing, never make one between
    /// sides that share them.
    fn outcome(&self, shift: Shift) -> Outcome {
        match outcome(shift, self.tolerance, self.lift()) {
            Outcome::Pass | Outcome::Improved if self.stalled => Outcome::Inconclusive,
            outcome => outcome,
        }
    }

    fn lift(&self) -> f64 {
        self.lift.map_or(0.0, |lift| lift.both)
    }

    /// `by` are the pairs that the shift is of.
    fn judged(&self, outcome: Outcome, shift: Shift, by: &[Sides<Late>]) -> PercentileVerdict {
        let open = if self.stalled { Reason::StallDominated } else { Reason::TooNoisy };
        let reason = (outcome == Outcome::Inconclusive).then_some(open);
        let pairs_to_decide =
            reason.filter(|r| *r == Reason::TooNoisy).and_then(|_| self.pairs_to_decide(shift));
        PercentileVerdict {
            outcome,
            reason,
            shift: Some(shift),
            sides_ns: median_rounds(by),
            pairs: by.len(),
            pairs_to_decide,
            ..self.too_few()
        }
    }

    fn too_few(&self) -> PercentileVerdict {
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

    /// An interval narrows with the root of the pairs: how many until it excludes what a pass must
    /// be clear of, or zero.
    fn pairs_to_decide(&self, Shift { estimate, lower, upper }: Shift) -> Option<u64> {
        let clear = self.tolerance - self.lift();
        let room = if estimate >= self.tolerance / 2.0 && lower <= 0.0 {
            (estimate - lower) / estimate
        } else if estimate < clear {
            (upper - estimate) / (clear - estimate)
        } else {
            return None;
        };
        to_decide(self.all_pairs as f64, room)
    }
}

/// So much more narrows an interval by the factor `room`, with the root of the number; `None` where
/// no number would.
pub fn to_decide(have: f64, room: f64) -> Option<u64> {
    let factor = (room * room).max(1.0);
    (factor.is_finite() && factor < 1e6).then(|| (have * factor).ceil() as u64 + 1)
}

/// The middle value, or the mean of the two; not a number without values.
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

    /// Nothing of it by stalls.
    fn late(ns: f64) -> Late {
        Late { ln: ns.ln(), ln_unstalled: ns.ln() }
    }

    fn side(median_ns: f64, tail_ns: f64) -> RoundValue {
        RoundValue { median: late(median_ns), tail: late(tail_ns) }
    }

    /// A side with a tail that stalls lift from 40 us.
    fn stalled_side(median_ns: f64, tail_ns: f64) -> RoundValue {
        RoundValue {
            tail: Late { ln_unstalled: 40e3_f64.ln(), ..late(tail_ns) },
            ..side(median_ns, tail_ns)
        }
    }

    /// Noise that no generator is needed for: the golden ratio's multiples, from -1 to 1.
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
    fn each_percentile_is_judged_by_itself() {
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
    fn comparisons_of_a_family_share_alpha() {
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
    fn a_small_time_has_an_absolute_floor() {
        // 60 ns against 600 ns is ten times as much, and half a microsecond.
        let small: Vec<Pair> =
            (0..50).map(|_| Pair { a: side(60.0, 90.0), b: side(600.0, 900.0) }).collect();
        assert_eq!(look(&small, &Rules::new(PERIOD_NS), true).outcome, Outcome::Pass);
        let large: Vec<Pair> =
            (0..50).map(|_| Pair { a: side(60.0, 90.0), b: side(2_000.0, 3_000.0) }).collect();
        assert_eq!(look(&large, &Rules::new(PERIOD_NS), true).outcome, Outcome::Regressed);
    }

    #[test]
    fn inconclusive_has_a_reason() {
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

    /// 24 quiet pairs, and 26 with a tail as late as stalls make it.
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
    fn the_tail_is_asked_for_stalls_only_in_the_half_that_judges_it() {
        let look = look(&half_stalled(40e3, 40e3), &Rules::new(PERIOD_NS), true);
        assert_eq!(
            (look.tail.outcome, look.tail.reason, look.tail.pairs),
            (Outcome::Pass, None, 25)
        );
    }

    #[test]
    fn the_tolerance_of_the_tail_is_of_the_half_that_judges_it() {
        // The floor is as much again as 1 us in the quieter half, and next to nothing against 900
        // us in the other.
        let tail = look(&half_stalled(1e3, 1e3), &Rules::new(PERIOD_NS), true).tail;
        assert!((tail.tolerance - 2_f64.ln()).abs() < 1e-9, "{tail:?}");
        assert!(
            (tail.sides_ns.base - 1e3).abs() < 1e-6,
            "the columns are of the pairs that judge: {tail:?}"
        );
    }

    /// 24 pairs alike, tails in milliseconds: the lateness and the own parts of A, and of B.
    fn alike(a: [f64; 2], b: [f64; 2]) -> PercentileVerdict {
        let side = |[q, w]: [f64; 2]| RoundValue {
            tail: Late { ln: (q * 1e6).ln(), ln_unstalled: (w * 1e6).ln() },
            ..side(14e3, 14e3)
        };
        look(&[Pair { a: side(a), b: side(b) }; 24], &Rules::new(PERIOD_NS), true).tail
    }

    #[test]
    fn a_regression_is_looked_for_first_and_a_pass_is_clear_of_the_stalls() {
        use Outcome::{Improved, Inconclusive, Pass, Regressed};
        let (stalls, noise) = (Some(Reason::StallDominated), Some(Reason::TooNoisy));
        for (a, b, expected) in [
            ([2.0, 1.8], [2.0, 1.8], (Pass, None)),
            ([2.4, 1.8], [2.4, 1.8], (Inconclusive, stalls)),
            ([2.4, 1.8], [2.2, 1.9], (Pass, None)),
            ([3.0, 1.8], [3.3, 3.2], (Inconclusive, stalls)),
            ([2.0, 1.8], [2.75, 2.45], (Inconclusive, noise)),
            ([0.9, 0.04], [0.9, 0.04], (Inconclusive, stalls)),
            ([0.9, 0.04], [0.2, 0.04], (Improved, None)),
            ([3.0, 1.8], [4.6, 1.8], (Regressed, None)),
        ] {
            let judged = alike(a, b);
            assert_eq!(
                (judged.outcome, judged.reason, judged.pairs),
                (expected.0, expected.1, 12),
                "{a:?} {b:?}"
            );
        }
        let lift = |a, b| alike(a, b).lift.unwrap();
        let close = |x: f64, y: f64| (x - y).abs() < 5e-5;
        assert!(
            close(lift([2.4, 1.8], [2.4, 1.8]).both, 0.2877)
                && close(lift([2.4, 1.8], [2.2, 1.9]).both, 0.1466)
        );
        assert!(close(lift([3.0, 1.8], [3.3, 3.2]).late_anyway, 0.5108));
        let clear = alike([2.0, 1.8], [2.75, 2.45]);
        assert!(
            close(clear.shift.unwrap().upper, 0.3185) && close(clear.tolerance, 0.4055),
            "{clear:?}"
        );
        assert_eq!(clear.pairs_to_decide, None, "more of the same would not take the stalls away");
    }

    #[test]
    fn a_wheel_without_stalls_is_judged_like_any_loop() {
        // Late by more than twice the period at every tick, and none of it by a stall.
        let of = |b: f64| {
            look(&[Pair { a: side(1.2e6, 1.2e6), b: side(b, b) }; 24], &Rules::new(PERIOD_NS), true)
        };
        assert_eq!(
            [1.2e6, 1.5e6, 2.0e6].map(|b| of(b).median.outcome),
            [Outcome::Pass, Outcome::Regressed, Outcome::Regressed]
        );
        assert_eq!(of(1.2e6).tail.lift.unwrap().sides, Sides::default());
    }

    /// A side with any lateness, part of which stalls may have made.
    fn any_side() -> impl Strategy<Value = RoundValue> {
        let late = || {
            (9.0_f64..15.0, 0.0_f64..2.0)
                .prop_map(|(ln, lift)| Late { ln, ln_unstalled: ln - lift })
        };
        (late(), late()).prop_map(|(median, tail)| RoundValue { median, tail })
    }

    proptest! {
        #[test]
        fn exchanged_sides_share_their_stalls(pairs in proptest::collection::vec((any_side(), any_side()), 24..60)) {
            let pairs: Vec<Pair> = pairs.into_iter().map(|(a, b)| Pair { a, b }).collect();
            let swapped: Vec<Pair> = pairs.iter().map(|p| p.swapped()).collect();
            let rules = Rules { floor_ns: 0.0, ..Rules::new(PERIOD_NS) };
            let (one, other) = (look(&pairs, &rules, true), look(&swapped, &rules, true));
            for (x, y) in [(one.median, other.median), (one.tail, other.tail)] {
                let (lift, mirrored) = (x.lift.unwrap(), y.lift.unwrap());
                prop_assert_eq!((lift.both, lift.late_anyway), (mirrored.both, mirrored.late_anyway));
                prop_assert_eq!(lift.sides, mirrored.sides.swapped());
                // Whether stalls hide it does not depend on which side is which; a regression shows
                // all the same.
                let stalled = |j: &PercentileVerdict| j.reason == Some(Reason::StallDominated);
                prop_assert!(stalled(&x) == stalled(&y) || [x.outcome, y.outcome].contains(&Outcome::Regressed));
                prop_assert!([x.outcome, y.outcome] != [Outcome::Regressed; 2]);
            }
        }

        #[test]
        fn stalls_only_ever_withhold_a_pass(pairs in proptest::collection::vec((any_side(), any_side()), 24..60)) {
            let pairs: Vec<Pair> = pairs.into_iter().map(|(a, b)| Pair { a, b }).collect();
            let own = |of: Late| Late { ln_unstalled: of.ln, ..of };
            let side = |of: RoundValue| RoundValue { median: own(of.median), tail: own(of.tail) };
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
        fn more_lateness_never_turns_a_regression_into_a_pass(
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
        fn with_exchanged_sides_not_both_are_worse(noise in proptest::collection::vec((-1.0_f64..1.0, -1.0_f64..1.0), 24..80)) {
            let pairs: Vec<Pair> = noise.iter().map(|(x, y)| Pair {
                a: side(14e3 * x.exp(), 40e3 * x.exp()), b: side(14e3 * y.exp(), 40e3 * y.exp()),
            }).collect();
            let swapped: Vec<Pair> = pairs.iter().map(|p| p.swapped()).collect();
            let rules = Rules::new(PERIOD_NS);
            let (one, other) = (look(&pairs, &rules, true).median, look(&swapped, &rules, true).median);
            prop_assert!(!(one.outcome == Outcome::Regressed && other.outcome == Outcome::Regressed));
            prop_assert!((one.shift.unwrap().estimate + other.shift.unwrap().estimate).abs() < 1e-9);
        }
    }
}
