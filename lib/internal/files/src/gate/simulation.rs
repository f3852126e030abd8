//! The gate's own error rates, on generated rounds that are as unpleasant as real ones: heavy
//! tails, stalls, and a level that wanders from round to round. Of a loop that is little late, and
//! of one on a wheel that is always late.

use jitterstat::gate::decision::{Outcome, Rules, look};
use jitterstat::gate::round::{Pair, RoundValue, tail_quantile};

use super::round_record::RoundRecord;
use jitterstat::stats::random::SplitMix64;

const PERIOD_NS: u64 = 500_000;
const TICKS: usize = 250;

#[derive(Clone, Copy)]
enum Loop {
    /// About 14 us late.
    Punctual,
    /// On a wheel that turns once a millisecond: two ticks a turn, at least one turn late.
    Wheel,
}

struct Machine {
    random: SplitMix64,
    of: Loop,
    /// Logarithm of the level, an autoregressive walk.
    level: f64,
}

impl Machine {
    fn new(of: Loop, seed: u64) -> Self {
        Self { random: SplitMix64::new(seed), of, level: 0.0 }
    }

    fn uniform(&mut self) -> f64 {
        self.random.unit()
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }

    /// A round from a phase to the wheel on, whose ticks above its 95th percentile are `tail` times
    /// as late, and all `all` times.
    fn round(&mut self, phase_ns: f64, all: f64, tail: f64) -> RoundValue {
        self.level = 0.9 * self.level + 0.1 * self.normal();
        let mut lateness = Vec::with_capacity(TICKS);
        let mut stall_ends_ns = 0.0_f64;
        for tick in 0..TICKS {
            let deadline_ns = tick as f64 * PERIOD_NS as f64;
            let noise = self.normal();
            let turn_ns = match self.of {
                Loop::Punctual => 0.0,
                Loop::Wheel => 2e6 - (deadline_ns + phase_ns) % 1e6,
            };
            let wake_ns = 14e3 * (self.level + 0.3 * noise).exp();
            let own_ns = (turn_ns + wake_ns) * all * if noise > 1.645 { tail } else { 1.0 };
            if self.uniform() < 0.002 {
                // Pareto with an infinite variance.
                let stall_ns = 300e3 / (1.0 - self.uniform()).powf(1.0 / 1.5);
                stall_ends_ns = stall_ends_ns.max(deadline_ns + own_ns + stall_ns);
            }
            lateness.push(own_ns.max(stall_ends_ns - deadline_ns) as i64);
        }
        let record =
            RoundRecord::from_ticks((0..).zip(lateness), PERIOD_NS).expect("a round has ticks");
        record.value(tail_quantile(TICKS as u64), 1)
    }

    fn gate(&mut self, all: f64, tail: f64) -> Outcome {
        let rules = Rules::new(PERIOD_NS);
        let mut pairs = Vec::new();
        for (i, &n) in rules.looks.iter().enumerate() {
            while pairs.len() < n {
                let b_first = self.uniform() < 0.5;
                // The rounds of a pair share the phase.
                let phase_ns = 1e6 * self.uniform();
                let mut of = |changed: bool| match changed {
                    true => self.round(phase_ns, all, tail),
                    false => self.round(phase_ns, 1.0, 1.0),
                };
                let (first, second) = (of(b_first), of(!b_first));
                pairs.push(if b_first {
                    Pair { a: second, b: first }
                } else {
                    Pair { a: first, b: second }
                });
            }
            let outcome = look(&pairs, &rules, i + 1 == rules.looks.len()).outcome;
            if outcome != Outcome::Inconclusive {
                return outcome;
            }
        }
        Outcome::Inconclusive
    }
}

/// Gates that end with an outcome, with a candidate whose ticks are `all` times as late and whose
/// tail is `tail` times so.
fn count_outcomes(outcome: Outcome, subject: Loop, gates: u64, all: f64, tail: f64) -> u64 {
    let ends_so = |&seed: &u64| Machine::new(subject, seed + 1).gate(all, tail) == outcome;
    (0..gates).filter(ends_so).count() as u64
}

/// Fails unless gates of each loop see a candidate that is later, and one with a longer tail.
fn assert_changes_are_seen(gates: u64) {
    for subject in [Loop::Punctual, Loop::Wheel] {
        for (all, tail) in [(1.3, 1.0), (1.0, 2.0)] {
            let seen = count_outcomes(Outcome::Regressed, subject, gates, all, tail);
            assert!(seen * 20 >= gates * 19, "{all} {tail}: {seen} of {gates}");
        }
    }
}

#[test]
fn false_alarms_stay_below_alpha() {
    // With alpha 0.005, more than 2 of 40 would happen by chance once in 900 times, more than 2 of
    // 20 once in 7,000.
    let alarms = count_outcomes(Outcome::Regressed, Loop::Punctual, 40, 1.0, 1.0);
    assert!(alarms <= 2, "{alarms}");
    let alarms = count_outcomes(Outcome::Regressed, Loop::Wheel, 20, 1.0, 1.0);
    assert!(alarms <= 2, "{alarms}");
}

#[test]
fn changes_beyond_tolerance_are_seen() {
    assert_changes_are_seen(10);
}

#[test]
fn an_unchanged_late_loop_passes() {
    let passed = count_outcomes(Outcome::Pass, Loop::Wheel, 20, 1.0, 1.0);
    assert!(passed >= 19, "{passed}");
}

mod nightly {
    use super::*;

    #[test]
    #[ignore = "nightly: 300 gates take five seconds"]
    fn false_alarms_stay_below_alpha() {
        // With alpha 0.005, more than 5 of 200 would happen by chance once in 1,700 times, more
        // than 3 of 100 once in 600.
        let alarms = count_outcomes(Outcome::Regressed, Loop::Punctual, 200, 1.0, 1.0);
        assert!(alarms <= 5, "{alarms}");
        let alarms = count_outcomes(Outcome::Regressed, Loop::Wheel, 100, 1.0, 1.0);
        assert!(alarms <= 3, "{alarms}");
    }

    #[test]
    #[ignore = "nightly: 160 gates take four seconds"]
    fn changes_beyond_tolerance_are_seen() {
        assert_changes_are_seen(30);
        let passed = count_outcomes(Outcome::Pass, Loop::Wheel, 40, 1.0, 1.0);
        assert!(passed >= 38, "{passed}");
    }
}
