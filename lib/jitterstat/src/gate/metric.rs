//! Judges numbers of whole runs, such as a wall time or a throughput, by the paired test that the
//! gate uses for lateness.

use super::Sides;
use super::decision::{ALPHA, LOOKS, MIN_PAIRS, NumberRule, NumberVerdict};
use super::round::Late;

/// The direction and the tolerance of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricRule {
    /// Whether higher values are better, so that a fall is a regression.
    pub higher_is_better: bool,
    /// Tolerated relative change for the worse: 0.05 for 5 %. Below 1 if higher values are better.
    pub tolerance: f64,
    /// Rise that is always tolerated, in the metric's unit; not used if higher values are better.
    pub floor: f64,
}

impl MetricRule {
    /// Judges the values of both sides, pair by pair, all of them above zero, by the quieter half of
    /// the pairs and by all of them ([`NumberRule::uses_quiet_half`]). `alpha` is the alpha of this
    /// metric at this look; `last` is whether no further look follows.
    #[must_use]
    pub fn judge(&self, values: &[Sides<f64>], alpha: f64, last: bool) -> NumberVerdict {
        let judged = self.number_rule().judge(&self.logarithms(values), alpha, last);
        if self.higher_is_better { judged.reciprocal() } else { judged }
    }

    /// Judges the values as a screen, see [`NumberRule::screen`]. `alpha` is the alpha of this metric.
    #[must_use]
    pub fn screen(&self, values: &[Sides<f64>], alpha: f64) -> NumberVerdict {
        let judged = self.number_rule().screen(&self.logarithms(values), alpha);
        if self.higher_is_better { judged.reciprocal() } else { judged }
    }

    /// Returns the rule for the [logarithms](Self::logarithms) of the values.
    #[must_use]
    pub fn number_rule(&self) -> NumberRule {
        // The floor is a rise of the value, and not of the reciprocal that is judged.
        let (tolerance, floor) = if self.higher_is_better {
            (1.0 / (1.0 - self.tolerance.min(0.999)) - 1.0, 0.0)
        } else {
            (self.tolerance, self.floor)
        };
        NumberRule { uses_quiet_half: true, tolerance, floor, period_ns: 1 }
    }

    /// Returns the logarithms of the values. Larger ones are worse, and runs have no stalls.
    #[must_use]
    pub fn logarithms(&self, values: &[Sides<f64>]) -> Vec<Sides<Late>> {
        let sign = if self.higher_is_better { -1.0 } else { 1.0 };
        let late = |value: f64| Late { ln: sign * value.ln(), ln_unstalled: sign * value.ln() };
        values.iter().map(|pair| pair.map(late)).collect()
    }
}

/// Returns the alpha of one metric at one look, if every metric is judged at every look.
#[must_use]
pub fn alpha_share(alpha: f64, metrics: usize, looks: usize) -> f64 {
    alpha / (metrics as f64 * looks as f64).max(1.0)
}

/// Returns the numbers of pairs at which a gate judges `metrics` metrics of runs, with at most
/// `max_pairs` pairs.
///
/// The last look is at `max_pairs`. The others are at 50, 100, 200 and so on, and the first of all
/// comes as soon as the test can decide. Most changes of a size that matters are decided there.
#[must_use]
pub fn run_looks(metrics: usize, max_pairs: usize) -> Vec<usize> {
    let mut looks: Vec<usize> = std::iter::successors(Some(LOOKS[0]), |pairs| pairs.checked_mul(2))
        .take_while(|&pairs| pairs < max_pairs)
        .chain([max_pairs])
        .collect();
    let first = fewest_pairs(alpha_share(ALPHA, metrics, looks.len() + 1));
    if first < looks[0] {
        looks.insert(0, first);
    }
    looks
}

/// Returns the smallest number of pairs with which a metric can be decided at an alpha, with one
/// pair to spare in the quieter half.
///
/// If all n differences of the half have one sign, the probability of that is 2^-n. Each of the two
/// tests has half of the alpha.
fn fewest_pairs(alpha: f64) -> usize {
    let pairs = (2.0 / alpha).log2().ceil() as usize + 1;
    2 * pairs.max(MIN_PAIRS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::decision::{Outcome, Reason};
    use crate::stats::random::SplitMix64;
    use proptest::prelude::*;

    const TIME: MetricRule = MetricRule { higher_is_better: false, tolerance: 0.05, floor: 1e3 };
    const RATE: MetricRule = MetricRule { higher_is_better: true, tolerance: 0.05, floor: 0.0 };
    /// Alpha for one metric at one of the four interim analyses.
    const SHARE: f64 = 0.005 / 4.0;

    /// Runs of about 50 ms, some of which are disturbed.
    fn runs(random: &mut SplitMix64, n: usize, b: f64) -> Vec<Sides<f64>> {
        let mut run = |scale: f64| {
            let disturbed = if random.unit() < 0.2 { random.unit() } else { 0.0 };
            5e7 * scale * (1.0 + 0.04 * random.unit() + disturbed)
        };
        (0..n).map(|_| Sides { base: run(1.0), candidate: run(b) }).collect()
    }

    #[test]
    fn first_look_can_decide() {
        assert_eq!(run_looks(1, 400), [24, 50, 100, 200, 400]);
        assert_eq!(run_looks(14, 400), [32, 50, 100, 200, 400]);
        assert_eq!(run_looks(1, 24), [24]);
        assert_eq!(run_looks(1, 30), [24, 30]);
        assert_eq!(run_looks(1, 12), [12]);
        assert_eq!(run_looks(3_000_000, 100), [50, 100]);
        assert_eq!(run_looks(usize::MAX, 100), [50, 100]);
        // The strictest interval of the first look is finite for any number of metrics.
        for metrics in [1, 2, 14, 100, 1_000] {
            let looks = run_looks(metrics, 400);
            let alpha = alpha_share(ALPHA, metrics, looks.len());
            let equal = vec![Sides { base: 5e7, candidate: 5e7 }; looks[0]];
            assert_eq!(TIME.judge(&equal, alpha, false).outcome, Outcome::Pass, "{metrics}");
        }
    }

    #[test]
    fn changes_give_expected_outcomes() {
        let mut random = SplitMix64::new(3);
        for (b, outcome) in
            [(1.0, Outcome::Pass), (1.1, Outcome::Regressed), (0.8, Outcome::Improved)]
        {
            let values = runs(&mut random, 50, b);
            let judged = TIME.judge(&values, SHARE, true);
            assert_eq!((judged.outcome, judged.reason), (outcome, None), "{b}: {judged:?}");
            assert!((judged.ratio().unwrap() / b - 1.0).abs() < 0.03, "{judged:?}");
            // The same runs as rates have the same outcome.
            let rates: Vec<Sides<f64>> =
                values.iter().map(|pair| pair.map(|ns| 1e9 / ns)).collect();
            assert_eq!(RATE.judge(&rates, SHARE, true).outcome, outcome);
        }
    }

    #[test]
    fn screens_report_only_clear_changes() {
        let mut random = SplitMix64::new(6);
        for (b, outcome) in [
            (1.0, Outcome::Pass),
            (0.8, Outcome::Pass),
            (1.052, Outcome::Inconclusive),
            (1.2, Outcome::Regressed),
        ] {
            let values = runs(&mut random, 50, b);
            let rates: Vec<Sides<f64>> =
                values.iter().map(|pair| pair.map(|ns| 1e9 / ns)).collect();
            for judged in [TIME.screen(&values, SHARE), RATE.screen(&rates, SHARE)] {
                assert_eq!(judged.outcome, outcome, "{b}: {judged:?}");
            }
        }
    }

    #[test]
    fn inconclusive_outcomes_have_a_reason() {
        let mut random = SplitMix64::new(4);
        let judged = TIME.judge(&runs(&mut random, 22, 2.0), SHARE, true);
        assert_eq!(
            (judged.outcome, judged.reason),
            (Outcome::Inconclusive, Some(Reason::TooFewRounds))
        );
        let wild: Vec<Sides<f64>> = (0..50)
            .map(|_| Sides { base: 1e6, candidate: 1e6 }.map(|x| x * (6.0 * random.unit()).exp()))
            .collect();
        let judged = TIME.judge(&wild, SHARE, true);
        assert_eq!(
            (judged.outcome, judged.reason),
            (Outcome::Inconclusive, Some(Reason::TooNoisy))
        );
        assert!(judged.pairs_to_decide.is_some_and(|n| n > 50));
    }

    #[test]
    fn changes_below_the_floor_pass() {
        let small: Vec<Sides<f64>> =
            (0..50).map(|_| Sides { base: 400.0, candidate: 900.0 }).collect();
        assert_eq!(TIME.judge(&small, SHARE, true).outcome, Outcome::Pass);
        assert_eq!(
            TIME.judge(&small.iter().map(|p| p.map(|x| x * 1e3)).collect::<Vec<_>>(), SHARE, true)
                .outcome,
            Outcome::Regressed
        );
        // Rates have no floor.
        let half = vec![Sides { base: 1e3, candidate: 500.0 }; 50];
        let rate = MetricRule { floor: 1e3, ..RATE };
        assert_eq!(rate.judge(&half, SHARE, true).outcome, Outcome::Regressed);
    }

    #[test]
    fn false_alarms_stay_below_alpha() {
        let mut random = SplitMix64::new(5);
        let alpha = 0.02;
        let alarms = (0..1_000).filter(|_| {
            let judged = MetricRule { tolerance: 1e-6, floor: 0.0, ..TIME }.judge(
                &runs(&mut random, 40, 1.0),
                alpha,
                true,
            );
            judged.outcome == Outcome::Regressed
        });
        // Four standard deviations above the level.
        let alarms = alarms.count();
        assert!((1..=38).contains(&alarms), "{alarms} of 1000 at {alpha}");
    }

    proptest! {
        #[test]
        fn swapped_sides_are_not_both_worse(noise in proptest::collection::vec((0.5_f64..2.0, 0.5_f64..2.0), 24..80)) {
            let values: Vec<Sides<f64>> = noise.iter().map(|&(base, candidate)| Sides { base, candidate }).collect();
            let swapped: Vec<Sides<f64>> = values.iter().map(|pair| pair.swapped()).collect();
            for rule in [MetricRule { floor: 0.0, ..TIME }, RATE] {
                let both = [&values, &swapped].map(|v| rule.judge(v, SHARE, true).outcome == Outcome::Regressed);
                prop_assert!(both != [true, true]);
            }
        }
    }
}
