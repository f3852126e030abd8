//! One look at the pairs so far, and what it decides.

use serde::{Deserialize, Serialize};

use super::round::Pair;
use crate::stats::signed_rank::{HodgesLehmann, Shift};

/// Pairs at which the gate looks, unless told otherwise.
pub const LOOKS: [usize; 4] = [50, 100, 200, 400];
/// The same where both sides run at once: they share their noise, and half of the pairs say as much.
pub const DUET_LOOKS: [usize; 4] = [25, 50, 100, 200];
/// No test with fewer pairs: the strictest one has no bound below it.
pub const MIN_PAIRS: usize = 12;
/// A percentile this late on both sides measures the machine's stalls, not the program.
const STALL_NS: f64 = 1e6;
/// Before the last look, a tail that seems worse at this level is looked at again rather than passed.
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
    /// The rules whose error rates were measured: alpha 0.5 %, +20 % and +50 %, floor 1 us, looks at 50 to 400 pairs.
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
    pub fn one_of(self, comparisons: usize) -> Self {
        Self { alpha: self.alpha / comparisons.max(1) as f64, ..self }
    }

    /// Alpha of one percentile at one look.
    fn share(&self) -> f64 {
        self.alpha / (2.0 * self.looks.len().max(1) as f64)
    }

    /// The tolerated rise, as a logarithm, of a percentile whose median round is `median_ns`.
    pub(super) fn tolerance(&self, relative: f64, median_ns: f64) -> f64 {
        relative.max(self.floor_ns / median_ns).ln_1p()
    }
}

/// What is said of a percentile, of a limit, or of the whole gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
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
    /// What several outcomes come to together: the worst of them, and improved only where none is worse than that.
    ///
    /// ```
    /// use jitterstat::gate::look::Outcome::{self, Improved, Inconclusive, Pass, Regressed};
    /// assert_eq!(Outcome::of_all([Pass, Improved]), Improved);
    /// assert_eq!(Outcome::of_all([Inconclusive, Regressed, Pass]), Regressed);
    /// ```
    #[must_use]
    pub fn of_all(outcomes: impl IntoIterator<Item = Self>) -> Self {
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

/// Why the rounds do not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The interval is too wide.
    TooNoisy,
    /// On both sides the percentile is half a period or more, at most a millisecond: as late as stalls of a machine make
    /// a task. That may be the machine's doing, or how the program runs, as on a timer wheel of milliseconds.
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

/// One judged percentile. All differences are of natural logarithms, B minus A.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    /// What it comes to.
    pub outcome: Outcome,
    /// Why, if inconclusive.
    pub reason: Option<Reason>,
    /// The estimate and interval that decided; none with too few pairs.
    pub shift: Option<Shift>,
    /// The tolerated rise.
    pub tolerance: f64,
    /// Median round of side A, in nanoseconds.
    pub a_ns: f64,
    /// Median round of side B, in nanoseconds.
    pub b_ns: f64,
    /// Pairs the deciding interval is of.
    pub pairs: usize,
    /// Pairs of this kind that would probably decide it; none if it is decided, or no number would.
    pub pairs_to_decide: Option<u64>,
}

impl Judged {
    pub(super) fn ratio(&self) -> Option<f64> {
        self.shift.map(|s| s.estimate.exp())
    }

    pub(super) fn ratio_interval(&self) -> Option<[f64; 2]> {
        let bounded = self.shift.filter(|s| s.lower.is_finite() && s.upper.is_finite());
        bounded.map(|s| [s.lower.exp(), s.upper.exp()])
    }

    pub(super) fn tolerated_ratio(&self) -> f64 {
        if self.tolerance.is_finite() { self.tolerance.exp() } else { 1.0 }
    }
}

/// A look at all pairs so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look {
    /// Any regressed: regressed; else any inconclusive: inconclusive; else pass.
    pub outcome: Outcome,
    /// The median of a round.
    pub median: Judged,
    /// The tail percentile of a round.
    pub tail: Judged,
}

/// Judges the pairs. `last` tells that no further look will follow.
#[must_use]
pub fn look(pairs: &[Pair], rules: &Rules, last: bool) -> Look {
    let median = judge_median(&medians(pairs), rules);
    let tail = judge_tail(&tails(pairs), rules, last);
    let outcome = Outcome::of_all([median.outcome, tail.outcome]);
    Look { outcome, median, tail }
}

/// The median of each side's round, pair by pair.
pub(super) fn medians(pairs: &[Pair]) -> Vec<[f64; 2]> {
    pairs.iter().map(|p| [p.a.ln_median, p.b.ln_median]).collect()
}

/// The tail percentile of each side's round, pair by pair.
pub(super) fn tails(pairs: &[Pair]) -> Vec<[f64; 2]> {
    pairs.iter().map(|p| [p.a.ln_tail, p.b.ln_tail]).collect()
}

fn judge_median(values: &[[f64; 2]], rules: &Rules) -> Judged {
    let judge = Judge::of(values, rules.tolerance_median, rules);
    let Some(all) = intervals(values) else { return judge.too_few() };
    let shift = all.shift(rules.share());
    judge.judged(judge.outcome(shift), shift, values.len())
}

/// The tail is judged twice, each with half of the alpha: on the quieter half of the pairs, where stalls of the machine
/// do not drown it, and on all, because a change may show only in some rounds.
fn judge_tail(values: &[[f64; 2]], rules: &Rules, last: bool) -> Judged {
    let judge = Judge::of(values, rules.tolerance_tail, rules);
    let quiet = quiet_half(values);
    let (Some(all), Some(half)) = (intervals(values), intervals(&quiet)) else { return judge.too_few() };
    let (shift, shift_all) = (half.shift(rules.share() / 2.0), all.shift(rules.share() / 2.0));
    let doubtful = || !last && all.shift(DOUBT).lower > 0.0;
    match judge.outcome(shift) {
        Outcome::Regressed => judge.judged(Outcome::Regressed, shift, quiet.len()),
        _ if judge.outcome(shift_all) == Outcome::Regressed => {
            judge.judged(Outcome::Regressed, shift_all, values.len())
        }
        Outcome::Pass | Outcome::Improved if doubtful() => judge.judged(Outcome::Inconclusive, shift, quiet.len()),
        outcome => judge.judged(outcome, shift, quiet.len()),
    }
}

/// Share of the pairs that [`quiet_half`] keeps.
pub(super) const QUIET_SHARE: f64 = 0.5;

/// The half with the smallest sums. The sum does not know which side is which, so that choosing by it favours neither.
pub(super) fn quiet_half(values: &[[f64; 2]]) -> Vec<[f64; 2]> {
    let mut sorted = values.to_vec();
    sorted.sort_by(|x, y| (x[0] + x[1]).total_cmp(&(y[0] + y[1])));
    sorted.truncate(values.len().div_ceil(2));
    sorted
}

/// The intervals of B over A, at any alpha; `None` with too few pairs for any test.
pub(super) fn intervals(values: &[[f64; 2]]) -> Option<HodgesLehmann> {
    let differences: Vec<f64> = values.iter().map(|v| v[1] - v[0]).collect();
    (values.len() >= MIN_PAIRS).then(|| HodgesLehmann::new(&differences)).flatten()
}

/// Whether a percentile lies inside the machine's stalls on both sides.
pub(super) fn is_stalled(values: &[[f64; 2]], rules: &Rules) -> bool {
    median(values.iter().map(|v| v[0].min(v[1]))) >= (rules.period_ns as f64 / 2.0).min(STALL_NS).ln()
}

/// What an interval shows against a tolerance, stalls aside.
pub(super) fn outcome(shift: Shift, tolerance: f64) -> Outcome {
    if shift.lower > 0.0 && shift.estimate >= tolerance / 2.0 && shift.upper >= tolerance {
        Outcome::Regressed
    } else if shift.upper >= tolerance {
        Outcome::Inconclusive
    } else if shift.estimate <= -tolerance / 2.0 && shift.upper < 0.0 {
        Outcome::Improved
    } else {
        Outcome::Pass
    }
}

/// What is the same for all tests of a percentile.
struct Judge {
    tolerance: f64,
    stalled: bool,
    a_ns: f64,
    b_ns: f64,
    all_pairs: usize,
}

impl Judge {
    fn of(values: &[[f64; 2]], relative: f64, rules: &Rules) -> Self {
        let a_ns = median(values.iter().map(|v| v[0])).exp();
        let b_ns = median(values.iter().map(|v| v[1])).exp();
        let stalled = is_stalled(values, rules);
        Self { tolerance: rules.tolerance(relative, a_ns), stalled, a_ns, b_ns, all_pairs: values.len() }
    }

    fn outcome(&self, shift: Shift) -> Outcome {
        if self.stalled { Outcome::Inconclusive } else { outcome(shift, self.tolerance) }
    }

    fn judged(&self, outcome: Outcome, shift: Shift, pairs: usize) -> Judged {
        let open = if self.stalled { Reason::StallDominated } else { Reason::TooNoisy };
        let reason = (outcome == Outcome::Inconclusive).then_some(open);
        let pairs_to_decide = reason.filter(|r| *r == Reason::TooNoisy).and_then(|_| self.pairs_to_decide(shift));
        Judged { outcome, reason, shift: Some(shift), pairs, pairs_to_decide, ..self.too_few() }
    }

    fn too_few(&self) -> Judged {
        Judged {
            outcome: Outcome::Inconclusive,
            reason: Some(Reason::TooFewRounds),
            shift: None,
            tolerance: self.tolerance,
            a_ns: self.a_ns,
            b_ns: self.b_ns,
            pairs: self.all_pairs,
            // The tail is judged on half of them.
            pairs_to_decide: Some(2 * MIN_PAIRS as u64),
        }
    }

    /// An interval narrows with the root of the pairs: how many until it excludes the tolerance, or zero.
    fn pairs_to_decide(&self, shift: Shift) -> Option<u64> {
        let room = if shift.estimate < self.tolerance / 2.0 {
            (shift.upper - shift.estimate) / (self.tolerance - shift.estimate)
        } else {
            (shift.estimate - shift.lower) / shift.estimate
        };
        to_decide(self.all_pairs as f64, room)
    }
}

/// So much more narrows an interval by the factor `room`, with the root of the number; `None` where no number would.
pub(super) fn to_decide(have: f64, room: f64) -> Option<u64> {
    let factor = (room * room).max(1.0);
    (factor.is_finite() && factor < 1e6).then(|| (have * factor).ceil() as u64 + 1)
}

/// The middle value, or the mean of the two; not a number without values.
pub(super) fn median(values: impl Iterator<Item = f64>) -> f64 {
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

    fn side(median_ns: f64, tail_ns: f64) -> RoundValue {
        RoundValue { ln_median: median_ns.ln(), ln_tail: tail_ns.ln(), kept: 250, same_stall: 0 }
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
            assert_eq!([look.median.outcome, look.tail.outcome, look.outcome], expected, "{median} {tail}");
        }
    }

    #[test]
    fn comparisons_of_a_family_share_alpha() {
        assert_eq!(Rules::new(PERIOD_NS).one_of(4).alpha, 0.005 / 4.0);
        // With a smaller alpha an interval is never narrower.
        let uneven = |i| Pair { a: side(14e3 * wobble(i).exp(), 40e3), b: side(14e3, 40e3) };
        let pairs: Vec<Pair> = (0..50).map(uneven).collect();
        let width = |rules: &Rules| look(&pairs, rules, true).median.shift.map(|s| s.upper - s.lower).unwrap();
        assert!(width(&Rules::new(PERIOD_NS).one_of(4)) > width(&Rules::new(PERIOD_NS)));
    }

    #[test]
    fn a_small_time_has_an_absolute_floor() {
        // 60 ns against 600 ns is ten times as much, and half a microsecond.
        let small: Vec<Pair> = (0..50).map(|_| Pair { a: side(60.0, 90.0), b: side(600.0, 900.0) }).collect();
        assert_eq!(look(&small, &Rules::new(PERIOD_NS), true).outcome, Outcome::Pass);
        let large: Vec<Pair> = (0..50).map(|_| Pair { a: side(60.0, 90.0), b: side(2_000.0, 3_000.0) }).collect();
        assert_eq!(look(&large, &Rules::new(PERIOD_NS), true).outcome, Outcome::Regressed);
    }

    #[test]
    fn inconclusive_has_a_reason() {
        let rules = Rules::new(PERIOD_NS);
        let reason = |pairs: &[Pair]| look(pairs, &rules, true).tail.reason;
        assert_eq!(reason(&pairs(22, 14e3, 40e3)), Some(Reason::TooFewRounds));
        let stalled: Vec<Pair> =
            pairs(50, 14e3, 300e3).into_iter().map(|p| Pair { a: side(14e3, 300e3), ..p }).collect();
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

    proptest! {
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
