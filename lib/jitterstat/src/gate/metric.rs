//! Judges numbers of whole runs, such as a wall time or a throughput, by the paired test that the
//! gate uses for lateness.

use super::Sides;
use super::decision::{Outcome, Reason, Rules, judge_tail};
use super::round::Late;
use crate::stats::Interval;

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

/// The verdict on a metric at one look. Ratios are B to A.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JudgedMetric {
    /// The outcome.
    pub outcome: Outcome,
    /// The reason, if the outcome is inconclusive.
    pub reason: Option<Reason>,
    /// The estimated ratio; `None` with too few pairs.
    pub ratio: Option<f64>,
    /// The interval of the ratio; `None` if there are too few pairs for one.
    pub ratio_interval: Option<Interval<f64>>,
    /// The largest tolerated ratio, or the smallest if higher values are better.
    pub tolerated_ratio: f64,
    /// Median run of each side in the pairs behind the interval, in the metric's unit.
    pub sides: Sides<f64>,
    /// Number of pairs behind the interval.
    pub pairs: usize,
    /// Number of pairs that would probably decide.
    pub pairs_to_decide: Option<u64>,
}

impl MetricRule {
    /// Judges the values of both sides, pair by pair, all of them above zero. `alpha` is the alpha
    /// of this metric at this look; `last` is whether no further look follows.
    ///
    /// The metric is judged twice, each time with half of the alpha: over the quieter half of the
    /// pairs, in which other work of the machine does not drown a change, and over all pairs,
    /// because a change may show in some runs only. The quieter half has the smallest sums of both
    /// sides; a sum treats both sides alike.
    #[must_use]
    pub fn judge(&self, values: &[Sides<f64>], alpha: f64, last: bool) -> JudgedMetric {
        // Larger logarithms are worse. Runs have no stalls.
        let sign = if self.higher_is_better { -1.0 } else { 1.0 };
        let late = |value: f64| Late { ln: sign * value.ln(), ln_unstalled: sign * value.ln() };
        let rules = self.rules(alpha);
        let judged =
            judge_tail(&values.iter().map(|pair| pair.map(late)).collect::<Vec<_>>(), &rules, last);
        let back = |ratio: f64| if self.higher_is_better { 1.0 / ratio } else { ratio };
        JudgedMetric {
            outcome: judged.outcome,
            reason: judged.reason,
            ratio: judged.ratio().map(back),
            ratio_interval: judged.ratio_interval().map(|interval| {
                let Interval { lower, upper } = interval.map(back);
                Interval { lower: lower.min(upper), upper: lower.max(upper) }
            }),
            tolerated_ratio: back(judged.tolerated_ratio()),
            sides: judged.sides_ns.map(back),
            pairs: judged.pairs,
            pairs_to_decide: judged.pairs_to_decide,
        }
    }

    /// Returns the logarithm of the tolerated change for the worse, given the median run.
    #[must_use]
    pub fn tolerated(&self, median: f64) -> f64 {
        let rules = self.rules(1.0);
        rules.tolerance(rules.tolerance_tail, median)
    }

    /// Returns the rules that give the tail percentile the alpha at a single look: half of their
    /// own.
    fn rules(&self, alpha: f64) -> Rules {
        let rise = if self.higher_is_better {
            1.0 / (1.0 - self.tolerance.min(0.999)) - 1.0
        } else {
            self.tolerance
        };
        Rules {
            alpha: 2.0 * alpha,
            looks: vec![0],
            tolerance_tail: rise,
            floor_ns: self.floor,
            ..Rules::new(1)
        }
    }
}

/// Returns the alpha of one metric at one look, if every metric is judged at every look.
#[must_use]
pub fn alpha_share(alpha: f64, metrics: usize, looks: usize) -> f64 {
    alpha / (metrics * looks).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
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
    fn changes_give_expected_outcomes() {
        let mut random = SplitMix64::new(3);
        for (b, outcome) in
            [(1.0, Outcome::Pass), (1.1, Outcome::Regressed), (0.8, Outcome::Improved)]
        {
            let values = runs(&mut random, 50, b);
            let judged = TIME.judge(&values, SHARE, true);
            assert_eq!((judged.outcome, judged.reason), (outcome, None), "{b}: {judged:?}");
            assert!((judged.ratio.unwrap() / b - 1.0).abs() < 0.03, "{judged:?}");
            // The same runs as rates have the same outcome.
            let rates: Vec<Sides<f64>> =
                values.iter().map(|pair| pair.map(|ns| 1e9 / ns)).collect();
            assert_eq!(RATE.judge(&rates, SHARE, true).outcome, outcome);
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
