//! Tests of the error rates of the gate, with simulated rounds that resemble real ones: heavy
//! tails, stalls, and a level that drifts from round to round. One simulated loop is punctual, the
//! other one is on a timer wheel and always late.

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
    /// On a timer wheel that turns once per millisecond: two ticks per turn, at least one turn
    /// late.
    Wheel,
}

struct Machine {
    random: SplitMix64,
    subject: Loop,
    /// Logarithm of the level, which is an autoregressive process.
    level: f64,
}

impl Machine {
    fn new(subject: Loop, seed: u64) -> Self {
        Self { random: SplitMix64::new(seed), subject, level: 0.0 }
    }

    fn uniform(&mut self) -> f64 {
        self.random.unit()
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }

    /// A round whose ticks are `scale` times as late, and `tail` times in addition above the 95th
    /// percentile. `phase_ns` is its phase relative to the timer wheel.
    fn round(&mut self, phase_ns: f64, scale: f64, tail: f64) -> RoundValue {
        self.level = 0.9 * self.level + 0.1 * self.normal();
        let mut lateness = Vec::with_capacity(TICKS);
        let mut stall_ends_ns = 0.0_f64;
        for tick in 0..TICKS {
            let deadline_ns = tick as f64 * PERIOD_NS as f64;
            let noise = self.normal();
            let turn_ns = match self.subject {
                Loop::Punctual => 0.0,
                Loop::Wheel => 2e6 - (deadline_ns + phase_ns) % 1e6,
            };
            let wake_ns = 14e3 * (self.level + 0.3 * noise).exp();
            let unstalled_ns = (turn_ns + wake_ns) * scale * if noise > 1.645 { tail } else { 1.0 };
            if self.uniform() < 0.002 {
                // Pareto with an infinite variance.
                let stall_ns = 300e3 / (1.0 - self.uniform()).powf(1.0 / 1.5);
                stall_ends_ns = stall_ends_ns.max(deadline_ns + unstalled_ns + stall_ns);
            }
            lateness.push(unstalled_ns.max(stall_ends_ns - deadline_ns) as i64);
        }
        let record =
            RoundRecord::from_ticks((0..).zip(lateness), PERIOD_NS).expect("a round has ticks");
        record.value(tail_quantile(TICKS as u64), 1)
    }

    fn gate(&mut self, scale: f64, tail: f64) -> Outcome {
        let rules = Rules::new(PERIOD_NS);
        let mut pairs = Vec::new();
        for (i, &n) in rules.looks.iter().enumerate() {
            while pairs.len() < n {
                let b_first = self.uniform() < 0.5;
                // The rounds of a pair share the phase.
                let phase_ns = 1e6 * self.uniform();
                let mut round = |is_changed: bool| match is_changed {
                    true => self.round(phase_ns, scale, tail),
                    false => self.round(phase_ns, 1.0, 1.0),
                };
                let (first, second) = (round(b_first), round(!b_first));
                pairs.push(if b_first {
                    Pair { base: second, candidate: first }
                } else {
                    Pair { base: first, candidate: second }
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

/// Counts the gates that end with an outcome. The ticks of the candidate are `scale` times as late,
/// and those of its tail `tail` times in addition.
fn count_outcomes(outcome: Outcome, subject: Loop, gates: u64, scale: f64, tail: f64) -> u64 {
    let has_outcome = |&seed: &u64| Machine::new(subject, seed + 1).gate(scale, tail) == outcome;
    (0..gates).filter(has_outcome).count() as u64
}

/// Fails unless gates of each loop detect a candidate that is later, and one with a longer tail.
fn assert_changes_are_detected(gates: u64) {
    for subject in [Loop::Punctual, Loop::Wheel] {
        for (scale, tail) in [(1.3, 1.0), (1.0, 2.0)] {
            let detected = count_outcomes(Outcome::Regressed, subject, gates, scale, tail);
            assert!(detected * 20 >= gates * 19, "{scale} {tail}: {detected} of {gates}");
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
fn changes_beyond_tolerance_are_detected() {
    assert_changes_are_detected(10);
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
    fn changes_beyond_tolerance_are_detected() {
        assert_changes_are_detected(30);
        let passed = count_outcomes(Outcome::Pass, Loop::Wheel, 40, 1.0, 1.0);
        assert!(passed >= 38, "{passed}");
    }
}
