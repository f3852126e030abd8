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
            Pair { base: side(14e3 * x, 40e3 * x), candidate: side(b_median * y, b_tail * y) }
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
fn screens_report_only_clear_changes() {
    let rules = Rules::new(PERIOD_NS);
    let not_clear = Some(Reason::NotClear);
    for (median, tail, outcome, reason) in [
        (14e3, 40e3, Outcome::Pass, None),
        (9e3, 20e3, Outcome::Pass, None),
        // The estimate is beyond the tolerance of 20 %, and its interval reaches below that.
        (17e3, 40e3, Outcome::Inconclusive, not_clear),
        (20e3, 40e3, Outcome::Regressed, None),
        (14e3, 80e3, Outcome::Regressed, None),
    ] {
        let full = look(&pairs(50, median, tail), &rules, true);
        let screened = screen(&pairs(50, median, tail), &rules);
        assert_eq!((screened.outcome, screened.median.reason), (outcome, reason), "{median}");
        assert_eq!(full.outcome == Outcome::Regressed, median > 14e3 || tail > 40e3);
    }
}

#[test]
fn comparisons_share_alpha() {
    assert_eq!(Rules::new(PERIOD_NS).shared_by(4).alpha, 0.005 / 4.0);
    // With a smaller alpha an interval is never narrower.
    let uneven = |i| Pair { base: side(14e3 * wobble(i).exp(), 40e3), candidate: side(14e3, 40e3) };
    let pairs: Vec<Pair> = (0..50).map(uneven).collect();
    let width =
        |rules: &Rules| look(&pairs, rules, true).median.shift.map(|s| s.upper - s.lower).unwrap();
    assert!(width(&Rules::new(PERIOD_NS).shared_by(4)) > width(&Rules::new(PERIOD_NS)));
}

#[test]
fn small_rises_are_below_the_floor() {
    // 60 ns against 600 ns is ten times as much, and half a microsecond.
    let small: Vec<Pair> =
        (0..50).map(|_| Pair { base: side(60.0, 90.0), candidate: side(600.0, 900.0) }).collect();
    assert_eq!(look(&small, &Rules::new(PERIOD_NS), true).outcome, Outcome::Pass);
    let large: Vec<Pair> = (0..50)
        .map(|_| Pair { base: side(60.0, 90.0), candidate: side(2_000.0, 3_000.0) })
        .collect();
    assert_eq!(look(&large, &Rules::new(PERIOD_NS), true).outcome, Outcome::Regressed);
}

#[test]
fn inconclusive_outcomes_have_a_reason() {
    let rules = Rules::new(PERIOD_NS);
    let reason = |pairs: &[Pair]| look(pairs, &rules, true).tail.reason;
    assert_eq!(reason(&pairs(22, 14e3, 40e3)), Some(Reason::TooFewRounds));
    let stalled: Vec<Pair> = (0..50)
        .map(|_| Pair { base: stalled_side(14e3, 300e3), candidate: stalled_side(14e3, 300e3) })
        .collect();
    assert_eq!(reason(&stalled), Some(Reason::StallDominated));
    let noisy: Vec<Pair> = (0..50)
        .map(|i| Pair {
            base: side(14e3, 40e3 * (2.0 * wobble(i)).exp()),
            candidate: side(14e3, 40e3 * (2.0 * wobble(i + 9)).exp()),
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
        base: stalled_side(14e3, 900e3 * p.base.median.ln.exp() / 14e3),
        candidate: stalled_side(14e3, 900e3),
    };
    let quiet = pairs(24, 14e3, b_tail).into_iter().map(|p| Pair { base: side(14e3, a_tail), ..p });
    quiet.chain(pairs(26, 14e3, 40e3).iter().map(stalled)).collect()
}

#[test]
fn stalls_in_unused_half_are_ignored() {
    let look = look(&half_stalled(40e3, 40e3), &Rules::new(PERIOD_NS), true);
    assert_eq!((look.tail.outcome, look.tail.reason, look.tail.pairs), (Outcome::Pass, None, 25));
}

#[test]
fn tail_tolerance_comes_from_quiet_half() {
    // The floor of 1 us doubles a tail of 1 us in the quieter half, and is negligible relative
    // to 900 us in the other.
    let tail = look(&half_stalled(1e3, 1e3), &Rules::new(PERIOD_NS), true).tail;
    assert!((tail.tolerance - 2_f64.ln()).abs() < 1e-9, "{tail:?}");
    assert!(
        (tail.sides.base - 1e3).abs() < 1e-6,
        "the medians come from the judged pairs: {tail:?}"
    );
}

/// 24 equal pairs. A side is given by its tail in milliseconds, with and without stalls.
fn judge_equal_pairs(a: (f64, f64), b: (f64, f64)) -> NumberVerdict {
    let side = |(late, unstalled): (f64, f64)| RoundValue {
        tail: Late { ln: (late * 1e6).ln(), ln_unstalled: (unstalled * 1e6).ln() },
        ..side(14e3, 14e3)
    };
    look(&[Pair { base: side(a), candidate: side(b) }; 24], &Rules::new(PERIOD_NS), true).tail
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
        look(
            &[Pair { base: side(1.2e6, 1.2e6), candidate: side(b, b) }; 24],
            &Rules::new(PERIOD_NS),
            true,
        )
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
        (9.0_f64..15.0, 0.0_f64..2.0).prop_map(|(ln, lift)| Late { ln, ln_unstalled: ln - lift })
    };
    (late(), late()).prop_map(|(median, tail)| RoundValue { median, tail })
}

proptest! {
    #[test]
    fn swapped_sides_share_their_stalls(pairs in proptest::collection::vec((any_side(), any_side()), 24..60)) {
        let pairs: Vec<Pair> = pairs.into_iter().map(|(a, b)| Pair { base: a, candidate: b }).collect();
        let swapped: Vec<Pair> = pairs.iter().map(|p| p.swapped()).collect();
        let rules = Rules { floor_ns: 0.0, ..Rules::new(PERIOD_NS) };
        let (forward, backward) = (look(&pairs, &rules, true), look(&swapped, &rules, true));
        for (x, y) in [(forward.median, backward.median), (forward.tail, backward.tail)] {
            let (lift, mirrored) = (x.lift.unwrap(), y.lift.unwrap());
            prop_assert_eq!((lift.both, lift.late_anyway), (mirrored.both, mirrored.late_anyway));
            prop_assert_eq!(lift.sides, mirrored.sides.swapped());
            // Whether stalls mask a change does not depend on the order of the sides, except
            // for a regression, which takes precedence.
            let stalled = |j: &NumberVerdict| j.reason == Some(Reason::StallDominated);
            prop_assert!(stalled(&x) == stalled(&y) || [x.outcome, y.outcome].contains(&Outcome::Regressed));
            prop_assert!([x.outcome, y.outcome] != [Outcome::Regressed; 2]);
        }
    }

    #[test]
    fn stalls_only_withhold_a_pass(pairs in proptest::collection::vec((any_side(), any_side()), 24..60)) {
        let pairs: Vec<Pair> = pairs.into_iter().map(|(a, b)| Pair { base: a, candidate: b }).collect();
        let unstalled = |late: Late| Late { ln_unstalled: late.ln, ..late };
        let side = |value: RoundValue| RoundValue {
            median: unstalled(value.median),
            tail: unstalled(value.tail),
        };
        let without: Vec<Pair> = pairs.iter().map(|p| Pair { base: side(p.base), candidate: side(p.candidate) }).collect();
        let rules = Rules::new(PERIOD_NS);
        let (with, without) = (look(&pairs, &rules, true), look(&without, &rules, true));
        for (with, without) in [(with.median, without.median), (with.tail, without.tail)] {
            prop_assert_eq!(with.outcome == Outcome::Regressed, without.outcome == Outcome::Regressed);
            let passed = |j: &NumberVerdict| matches!(j.outcome, Outcome::Pass | Outcome::Improved);
            prop_assert!(!passed(&with) || with.outcome == without.outcome);
        }
    }

    #[test]
    fn more_lateness_keeps_a_regression(
        noise in proptest::collection::vec((-0.3_f64..0.3, -0.3_f64..0.3), 50), by in 0.0_f64..0.6, more in 0.0_f64..0.6
    ) {
        let shifted = |by: f64| -> Outcome {
            let pairs: Vec<Pair> = noise.iter().map(|(x, y)| Pair {
                base: side(14e3 * x.exp(), 40e3 * x.exp()),
                candidate: side(14e3 * (y + by).exp(), 40e3 * (y + by).exp()),
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
            base: side(14e3 * x.exp(), 40e3 * x.exp()), candidate: side(14e3 * y.exp(), 40e3 * y.exp()),
        }).collect();
        let swapped: Vec<Pair> = pairs.iter().map(|p| p.swapped()).collect();
        let rules = Rules::new(PERIOD_NS);
        let (forward, backward) = (look(&pairs, &rules, true).median, look(&swapped, &rules, true).median);
        prop_assert!(!(forward.outcome == Outcome::Regressed && backward.outcome == Outcome::Regressed));
        prop_assert!((forward.shift.unwrap().estimate + backward.shift.unwrap().estimate).abs() < 1e-9);
    }
}
