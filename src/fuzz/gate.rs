//! The gate's arithmetic, on pairs that the bytes describe.

use cli::exit;
use jitterstat::gate::decision::{Look, Outcome, PercentileVerdict, Reason, Rules, look};
use jitterstat::gate::round::{Late, Pair, RoundValue};
use jitterstat::stats::random::SplitMix64;

use crate::fuzz::stage::Stages;

/// Most pairs: their number enters as a square.
const MAX_PAIRS: usize = 120;
/// Four values of 16 bits a pair.
const BYTES_PER_PAIR: usize = 8;
/// Of a difference of logarithms that two orders of adding may have.
const ROUNDING: f64 = 1e-9;

pub fn body(bytes: &[u8], stages: &Stages) -> exit::Result<()> {
    let Some((head, rest)) = bytes.split_first_chunk::<4>() else { return Ok(()) };
    let period_ns = 1_u64 << (10 + head[0] % 30);
    let rules = Rules { floor_ns: f64::from(head[1]) * 10.0, ..Rules::new(period_ns) };
    let last = head[2].is_multiple_of(2);
    let pairs: Vec<Pair> =
        rest.chunks_exact(BYTES_PER_PAIR).take(MAX_PAIRS).map(|of| pair(of, head[3])).collect();
    let judged = stages.of("look", || look(&pairs, &rules, last));
    sane(&judged);
    equal_sides(&pairs, &rules, last);
    swapped_sides(&pairs, &rules, last);
    other_order(&pairs, &rules, last, &judged);
    Ok(())
}

/// Values from 16 bits, coarser the larger `step` is: as of a clock with steps, whose rounds have
/// ties.
fn pair(of: &[u8], step: u8) -> Pair {
    let value = |i: usize| {
        let raw = u16::from_le_bytes([of[i], of[i + 1]]);
        // From 1 ns to about 1 s.
        (f64::from(raw >> (step % 12) << (step % 12)) / 3_162.0).exp().round().max(1.0)
    };
    let late = |all: f64, lift: u8| {
        let own = (all * (1.0 - f64::from(lift % 4) / 4.0)).max(1.0);
        Late { ln: all.ln(), ln_unstalled: own.ln() }
    };
    let side = |i: usize| RoundValue {
        median: late(value(i), of[i] >> 6),
        tail: late(value(i + 2), of[i + 2] >> 6),
    };
    Pair { a: side(0), b: side(4) }
}

/// The interval holds the estimate, and the outcome has its reason.
fn sane(look: &Look) {
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

/// A side is neither worse nor better than itself.
fn equal_sides(pairs: &[Pair], rules: &Rules, last: bool) {
    let same: Vec<Pair> = pairs.iter().map(|p| Pair { b: p.a, ..*p }).collect();
    let judged = look(&same, rules, last);
    for of in [judged.median, judged.tail] {
        assert!(matches!(of.outcome, Outcome::Pass | Outcome::Inconclusive), "{of:?}");
        assert!(of.shift.is_none_or(|s| s.estimate == 0.0), "{of:?}");
    }
}

/// With exchanged sides, the difference has the other sign, and not both are worse.
fn swapped_sides(pairs: &[Pair], rules: &Rules, last: bool) {
    let rules = Rules { floor_ns: 0.0, ..rules.clone() };
    let swapped: Vec<Pair> = pairs.iter().map(|p| p.swapped()).collect();
    let (one, other) = (look(pairs, &rules, last), look(&swapped, &rules, last));
    for (x, y) in [(one.median, other.median), (one.tail, other.tail)] {
        assert!([x.outcome, y.outcome] != [Outcome::Regressed; 2], "{x:?}\n{y:?}");
        if let Some((s, t)) = x.shift.zip(y.shift).filter(|_| x.pairs == y.pairs) {
            assert!((s.estimate + t.estimate).abs() < ROUNDING, "{x:?}\n{y:?}");
            assert!(mirrored(s.lower, t.upper) && mirrored(s.upper, t.lower), "{x:?}\n{y:?}");
        }
    }
}

fn mirrored(one: f64, other: f64) -> bool {
    one == -other || (one + other).abs() < ROUNDING
}

/// In which order the pairs ran does not matter; only where the sums of two pairs are the same, and
/// one of them is in the quieter half, it is the one that ran first.
fn other_order(pairs: &[Pair], rules: &Rules, last: bool, before: &Look) {
    let mut shuffled = pairs.to_vec();
    SplitMix64::new(pairs.len() as u64).shuffle(&mut shuffled);
    let after = look(&shuffled, rules, last);
    let figures = |of: &PercentileVerdict| (of.outcome, of.reason, of.pairs);
    let mut sums: Vec<f64> = pairs.iter().map(|p| p.a.tail.ln + p.b.tail.ln).collect();
    sums.sort_by(f64::total_cmp);
    let half = sums.len().div_ceil(2);
    let is_tied = half > 0 && sums.get(half).is_some_and(|next| *next == sums[half - 1]);
    let tails = (!is_tied).then_some((before.tail, after.tail));
    for (x, y) in std::iter::once((before.median, after.median)).chain(tails) {
        assert_eq!(figures(&x), figures(&y), "{x:?}\n{y:?}");
    }
}

/// How many of so many gates between equal sides end as regressed, from gates whose shape the seed
/// draws.
#[cfg(test)]
pub fn alarms(gates: u64, seed: u64) -> u64 {
    let alarm = |gate: &u64| {
        let mut random = SplitMix64::new(seed ^ gate.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        // How far rounds, and pairs, are apart; how coarse the clock; how often a round is
        // disturbed.
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
                pairs.push(Pair { a, b });
            }
            look(&pairs, &rules, i + 1 == rules.looks.len()).outcome == Outcome::Regressed
        })
    };
    (0..gates).filter(alarm).count() as u64
}
