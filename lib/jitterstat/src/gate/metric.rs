//! Any number of a whole run, judged: the same paired test as of lateness, without what only ticks
//! have.

use super::Sides;
use super::decision::{Outcome, Reason, Rules, judge_tail};
use super::round::Late;
use crate::stats::Interval;

/// What is tolerated of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricRule {
    /// More is better, and a fall is the regression.
    pub higher_is_better: bool,
    /// As a share: 0.05 for 5 %. Where more is better, below 1.
    pub tolerance: f64,
    /// In the metric's unit: a rise by less is always tolerated. None where more is better.
    pub floor: f64,
}

/// A metric at a look. The ratios are of B over A.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JudgedMetric {
    /// What it comes to.
    pub outcome: Outcome,
    /// Why, if inconclusive.
    pub reason: Option<Reason>,
    /// The estimate that decided; none with too few pairs.
    pub ratio: Option<f64>,
    /// Its interval; none where the pairs give none.
    pub ratio_interval: Option<Interval<f64>>,
    /// The ratio up to which, or down to which, it is tolerated.
    pub tolerated_ratio: f64,
    /// Median of the runs of each side that the interval is of, in the metric's unit.
    pub sides: Sides<f64>,
    /// Pairs the interval is of.
    pub pairs: usize,
    /// Pairs that would probably decide it.
    pub pairs_to_decide: Option<u64>,
}

impl MetricRule {
    /// Judges the values of A and B, run by run, all above zero. `share` is the alpha of this
    /// metric at this look; `last` tells that no further look will follow.
    ///
    /// It is judged twice, each with half of the share: on the quieter half of the pairs, where the
    /// machine's other work does not drown a change, and on all, because a change may show only in
    /// some runs. Which half is quieter is asked of the sum of both sides, which does not know
    /// which is which.
    #[must_use]
    pub fn judge(&self, values: &[Sides<f64>], share: f64, last: bool) -> JudgedMetric {
        // The larger, the worse; nothing of a run is a stall.
        let sign = if self.higher_is_better { -1.0 } else { 1.0 };
        let late = |value: f64| Late { ln: sign * value.ln(), ln_unstalled: sign * value.ln() };
        let rules = self.rules(share);
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

    /// What is tolerated where the median run has such a value: the logarithm of a rise, or of a
    /// fall where more is better.
    #[must_use]
    pub fn tolerated(&self, median: f64) -> f64 {
        let rules = self.rules(1.0);
        rules.tolerance(rules.tolerance_tail, median)
    }

    /// Those by which a percentile of lateness would have such a share, of two, at one look.
    fn rules(&self, share: f64) -> Rules {
        let rise = if self.higher_is_better {
            1.0 / (1.0 - self.tolerance.min(0.999)) - 1.0
        } else {
            self.tolerance
        };
        Rules {
            alpha: 2.0 * share,
            looks: vec![0],
            tolerance_tail: rise,
            floor_ns: self.floor,
            ..Rules::new(1)
        }
    }
}

/// Alpha of one metric at one look, if every metric is judged at every look.
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
    /// Of one metric at one of four looks.
    const SHARE: f64 = 0.005 / 4.0;

    /// Runs of about 50 ms, of which now and then one is disturbed.
    fn runs(random: &mut SplitMix64, n: usize, b: f64) -> Vec<Sides<f64>> {
        let mut run = |scale: f64| {
            let disturbed = if random.unit() < 0.2 { random.unit() } else { 0.0 };
            5e7 * scale * (1.0 + 0.04 * random.unit() + disturbed)
        };
        (0..n).map(|_| Sides { base: run(1.0), candidate: run(b) }).collect()
    }

    #[test]
    fn a_tenth_more_is_a_regression_and_the_same_a_pass() {
        let mut random = SplitMix64::new(3);
        for (b, outcome) in
            [(1.0, Outcome::Pass), (1.1, Outcome::Regressed), (0.8, Outcome::Improved)]
        {
            let values = runs(&mut random, 50, b);
            let judged = TIME.judge(&values, SHARE, true);
            assert_eq!((judged.outcome, judged.reason), (outcome, None), "{b}: {judged:?}");
            assert!((judged.ratio.unwrap() / b - 1.0).abs() < 0.03, "{judged:?}");
            // As rates, the same runs say the same.
            let rates: Vec<Sides<f64>> =
                values.iter().map(|pair| pair.map(|ns| 1e9 / ns)).collect();
            assert_eq!(RATE.judge(&rates, SHARE, true).outcome, outcome);
        }
    }

    #[test]
    fn too_few_pairs_and_too_much_noise_are_named() {
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
    fn a_change_below_the_floor_is_tolerated() {
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
    fn equal_sides_raise_no_more_alarms_than_their_share() {
        let mut random = SplitMix64::new(5);
        let level = 0.02;
        let alarms = (0..1_000).filter(|_| {
            let judged = MetricRule { tolerance: 1e-6, floor: 0.0, ..TIME }.judge(
                &runs(&mut random, 40, 1.0),
                level,
                true,
            );
            judged.outcome == Outcome::Regressed
        });
        // Four standard deviations above the level.
        let alarms = alarms.count();
        assert!((1..=38).contains(&alarms), "{alarms} of 1000 at {level}");
    }

    proptest! {
        #[test]
        fn exchanged_sides_are_not_both_worse(noise in proptest::collection::vec((0.5_f64..2.0, 0.5_f64..2.0), 24..80)) {
            let values: Vec<Sides<f64>> = noise.iter().map(|&(base, candidate)| Sides { base, candidate }).collect();
            let swapped: Vec<Sides<f64>> = values.iter().map(|pair| pair.swapped()).collect();
            for rule in [MetricRule { floor: 0.0, ..TIME }, RATE] {
                let both = [&values, &swapped].map(|v| rule.judge(v, SHARE, true).outcome == Outcome::Regressed);
                prop_assert!(both != [true, true]);
            }
        }
    }
}
