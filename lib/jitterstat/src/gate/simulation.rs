//! The gate's own error rates, on generated rounds that are as unpleasant as real ones: heavy tails, stalls, and a level
//! that wanders from round to round.

use super::look::{Outcome, Rules, look};
use super::round::{Pair, RoundValue, tail_quantile};
use crate::stats::random::SplitMix64;

const PERIOD_NS: u64 = 500_000;
const TICKS: usize = 250;

struct Machine {
    random: SplitMix64,
    /// Logarithm of the level, an autoregressive walk.
    level: f64,
}

impl Machine {
    fn new(seed: u64) -> Self {
        Self { random: SplitMix64::new(seed), level: 0.0 }
    }

    fn uniform(&mut self) -> f64 {
        self.random.unit()
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }

    /// A round whose ticks above its 95th percentile are `tail` times as late, and all `all` times.
    fn round(&mut self, all: f64, tail: f64) -> RoundValue {
        self.level = 0.9 * self.level + 0.1 * self.normal();
        let mut lateness = Vec::with_capacity(TICKS);
        let mut stall_ns = 0.0_f64;
        for _ in 0..TICKS {
            stall_ns = (stall_ns - PERIOD_NS as f64).max(0.0);
            if self.uniform() < 0.002 {
                // Pareto with an infinite variance.
                stall_ns = 300e3 / (1.0 - self.uniform()).powf(1.0 / 1.5);
            }
            let noise = self.normal();
            let own_ns = 14e3 * (self.level + 0.3 * noise).exp() * all * if noise > 1.645 { tail } else { 1.0 };
            lateness.push((own_ns + stall_ns) as i64);
        }
        RoundValue::of(&lateness, PERIOD_NS, tail_quantile(TICKS as u64), 1).expect("a round has ticks")
    }

    fn gate(&mut self, all: f64, tail: f64) -> Outcome {
        let rules = Rules::new(PERIOD_NS);
        let mut pairs = Vec::new();
        for (i, &n) in rules.looks.iter().enumerate() {
            while pairs.len() < n {
                let b_first = self.uniform() < 0.5;
                let first = if b_first { self.round(all, tail) } else { self.round(1.0, 1.0) };
                let second = if b_first { self.round(1.0, 1.0) } else { self.round(all, tail) };
                pairs.push(if b_first { Pair { a: second, b: first } } else { Pair { a: first, b: second } });
            }
            let outcome = look(&pairs, &rules, i + 1 == rules.looks.len()).outcome;
            if outcome != Outcome::Inconclusive {
                return outcome;
            }
        }
        Outcome::Inconclusive
    }
}

fn share_regressed(gates: u64, all: f64, tail: f64) -> f64 {
    let regressed = (0..gates).filter(|&seed| Machine::new(seed + 1).gate(all, tail) == Outcome::Regressed).count();
    regressed as f64 / gates as f64
}

#[test]
fn false_alarms_stay_below_alpha() {
    // With alpha 0.005, more than 5 of 200 would happen by chance once in 1,700 times.
    let share = share_regressed(200, 1.0, 1.0);
    assert!(share <= 5.0 / 200.0, "{share}");
}

#[test]
fn changes_beyond_the_tolerance_are_seen() {
    for (all, tail) in [(1.3, 1.0), (1.0, 2.0)] {
        let share = share_regressed(30, all, tail);
        assert!(share >= 0.95, "{all} {tail}: {share}");
    }
}
