//! Target for the gate's arithmetic, on pairs that the input describes.

use cli::exit;
use jitterstat::gate::decision::{Look, NumberVerdict, Outcome, Reason, Rules, look};
use jitterstat::gate::round::{Late, Pair, RoundValue};
use jitterstat::stats::random::SplitMix64;

use crate::fuzz::step_costs::StepCosts;

/// Maximum number of pairs; the running time is quadratic in it.
const MAX_PAIRS: usize = 120;
/// Four values of 16 bits per pair.
const BYTES_PER_PAIR: usize = 8;
/// Rounding error of a difference of logarithms that are added in another order.
const ROUNDING: f64 = 1e-9;

pub fn body(bytes: &[u8], costs: &StepCosts) -> exit::Result<()> {
    let Some((head, rest)) = bytes.split_first_chunk::<4>() else { return Ok(()) };
    let period_ns = 1_u64 << (10 + head[0] % 30);
    let rules = Rules { floor_ns: f64::from(head[1]) * 10.0, ..Rules::new(period_ns) };
    let last = head[2].is_multiple_of(2);
    let pairs: Vec<Pair> = rest
        .chunks_exact(BYTES_PER_PAIR)
        .take(MAX_PAIRS)
        .map(|bytes| pair(bytes, head[3]))
        .collect();
    let judged = costs.measure("look", || look(&pairs, &rules, last));
    check_look(&judged);
    check_equal_sides(&pairs, &rules, last);
    check_swapped_sides(&pairs, &rules, last);
    check_other_order(&pairs, &rules, last, &judged);
    Ok(())
}

/// Reads a pair of 16-bit values. A larger `step` makes them coarser, like those of a clock with a
/// low resolution, whose rounds have ties.
fn pair(bytes: &[u8], step: u8) -> Pair {
    let value = |i: usize| {
        let raw = u16::from_le_bytes([bytes[i], bytes[i + 1]]);
        // From 1 ns to about 1 s.
        (f64::from(raw >> (step % 12) << (step % 12)) / 3_162.0).exp().round().max(1.0)
    };
    let late = |ns: f64, lift: u8| {
        let unstalled = (ns * (1.0 - f64::from(lift % 4) / 4.0)).max(1.0);
        Late { ln: ns.ln(), ln_unstalled: unstalled.ln() }
    };
    let side = |i: usize| RoundValue {
        median: late(value(i), bytes[i] >> 6),
        tail: late(value(i + 2), bytes[i + 2] >> 6),
    };
    Pair { base: side(0), candidate: side(4) }
}

/// Checks that the interval contains the estimate, and that an outcome has its reason.
fn check_look(look: &Look) {
    for judged in [look.median, look.tail] {
        assert_eq!(judged.reason.is_some(), judged.outcome == Outcome::Inconclusive, "{judged:?}");
        if let Some(shift) = judged.shift {
            assert!(shift.lower <= shift.estimate && shift.estimate <= shift.upper, "{judged:?}");
        }
        assert!(
            judged.shift.is_some() || judged.reason == Some(Reason::TooFewRounds),
            "{judged:?}"
        );
    }
    assert_eq!(look.outcome, Outcome::worst_of([look.median.outcome, look.tail.outcome]));
}

/// Checks that a side is neither worse nor better than itself.
fn check_equal_sides(pairs: &[Pair], rules: &Rules, last: bool) {
    let same: Vec<Pair> = pairs.iter().map(|p| Pair { candidate: p.base, ..*p }).collect();
    let judged = look(&same, rules, last);
    for verdict in [judged.median, judged.tail] {
        assert!(matches!(verdict.outcome, Outcome::Pass | Outcome::Inconclusive), "{verdict:?}");
        assert!(verdict.shift.is_none_or(|s| s.estimate == 0.0), "{verdict:?}");
    }
}

/// Checks that exchanged sides change the sign of the difference, and that not both sides are
/// worse.
fn check_swapped_sides(pairs: &[Pair], rules: &Rules, last: bool) {
    let rules = Rules { floor_ns: 0.0, ..rules.clone() };
    let swapped: Vec<Pair> = pairs.iter().map(|p| p.swapped()).collect();
    let (straight, exchanged) = (look(pairs, &rules, last), look(&swapped, &rules, last));
    for (x, y) in [(straight.median, exchanged.median), (straight.tail, exchanged.tail)] {
        assert!([x.outcome, y.outcome] != [Outcome::Regressed; 2], "{x:?}\n{y:?}");
        if let Some((s, t)) = x.shift.zip(y.shift).filter(|_| x.pairs == y.pairs) {
            assert!((s.estimate + t.estimate).abs() < ROUNDING, "{x:?}\n{y:?}");
            assert!(is_mirrored(s.lower, t.upper) && is_mirrored(s.upper, t.lower), "{x:?}\n{y:?}");
        }
    }
}

fn is_mirrored(a: f64, b: f64) -> bool {
    a == -b || (a + b).abs() < ROUNDING
}

/// Checks that the order of the pairs does not matter. There is one exception: if two pairs have
/// the same sum and one of them is in the quieter half, the one that ran first is chosen.
fn check_other_order(pairs: &[Pair], rules: &Rules, last: bool, before: &Look) {
    let mut shuffled = pairs.to_vec();
    SplitMix64::new(pairs.len() as u64).shuffle(&mut shuffled);
    let after = look(&shuffled, rules, last);
    let figures = |verdict: &NumberVerdict| (verdict.outcome, verdict.reason, verdict.pairs);
    let mut sums: Vec<f64> = pairs.iter().map(|p| p.base.tail.ln + p.candidate.tail.ln).collect();
    sums.sort_by(f64::total_cmp);
    let half = sums.len().div_ceil(2);
    let is_tied = half > 0 && sums.get(half).is_some_and(|next| *next == sums[half - 1]);
    let tails = (!is_tied).then_some((before.tail, after.tail));
    for (x, y) in std::iter::once((before.median, after.median)).chain(tails) {
        assert_eq!(figures(&x), figures(&y), "{x:?}\n{y:?}");
    }
}

/// Counts the gates between equal sides that end as regressed; the seed determines the shape of
/// each gate.
#[cfg(test)]
pub fn count_alarms(gates: u64, seed: u64) -> u64 {
    let alarm = |gate: &u64| {
        let mut random = SplitMix64::new(seed ^ gate.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        // The spread of rounds and of pairs, the resolution of the clock, and the share of
        // disturbed rounds.
        let (noise, drift) = (0.02 + random.unit(), random.unit());
        let (step, disturbed) = (random.unit() * 5e3, random.unit() * 0.3);
        let rules = Rules {
            tolerance_median: 1e-6,
            tolerance_tail: 1e-6,
            floor_ns: 0.0,
            ..Rules::new(500_000)
        };
        let mut pairs = Vec::new();
        rules.looks.iter().enumerate().any(|(i, &n)| {
            while pairs.len() < n {
                let level = 14e3 * (drift * (random.unit() - 0.5)).exp();
                let mut side = || {
                    let mut late = |base: f64| {
                        let stall =
                            if random.unit() < disturbed { 9.0 * random.unit() } else { 0.0 };
                        let ns =
                            base * level * (noise * (random.unit() - 0.5)).exp() * (1.0 + stall);
                        let ln = (ns / step.max(1.0)).ceil().ln() + step.max(1.0).ln();
                        Late { ln, ln_unstalled: ln }
                    };
                    RoundValue { median: late(1.0), tail: late(3.0) }
                };
                let (a, b) = (side(), side());
                pairs.push(Pair { base: a, candidate: b });
            }
            look(&pairs, &rules, i + 1 == rules.looks.len()).outcome == Outcome::Regressed
        })
    };
    (0..gates).filter(alarm).count() as u64
}
