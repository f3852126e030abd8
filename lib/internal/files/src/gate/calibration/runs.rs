//! What a gate of whole runs can see: one program against itself, by any number. Written as
//! `osjitter.run-calibration/1`.

use super::gates::{
    self, Label, RELABELLED, Relabelled, Sight, seen_by_most, spread, tidy, widening,
};
use super::{InconclusiveChance, MIN_CALIBRATION_PAIRS, RealGates, ToleranceBelowNoise};
use crate::environment::{Difference, EnvironmentKey};
use crate::file::{File, Flaw, Invalid};
use crate::model::model;
use crate::report::{Tool, Warning};
use jitterstat::gate::Sides;
use jitterstat::gate::decision::{self, Outcome};
use jitterstat::gate::metric::{MetricRule, alpha_share};

/// Value of [`RunCalibration::schema`] that this version writes and reads.
pub const SCHEMA: &str = "osjitter.run-calibration/1";
/// Tolerates whatever is there: with nothing to judge, a look only measures.
const ALL_OF_IT: f64 = 1e30;

model! {
    /// What a gate of whole runs can see on one machine, of one program.
    pub struct RunCalibration {
        /// Always [`SCHEMA`].
        pub schema: String,
        /// The program that wrote it.
        pub tool: Tool,
        /// Start, RFC 3339, UTC.
        pub started_utc: String,
        /// Wall time of the measurement.
        pub duration_ns: u64,
        /// It was interrupted: the figures are of the pairs there were.
        pub partial: bool,
        /// Why it could not go on, if it could not.
        pub failure: Option<String>,
        /// The machine that it holds for.
        pub environment: EnvironmentKey,
        /// The program, on both sides.
        pub program: String,
        /// How it was measured.
        pub plan: RunCalibrationPlan,
        /// Pairs of runs measured.
        pub pairs: u64,
        /// Wall time of one pair, with what is prepared before it.
        pub pair_ns: u64,
        /// One entry for each number that a gate judges.
        pub metrics: Vec<CalibratedRunMetric>,
        /// How often a gate with the tolerances of the metrics ends undecided, by the time it is
        /// given.
        pub inconclusive: Vec<InconclusiveChance>,
        /// Gates that were really measured here, one after the other.
        pub real_gates: RealGates,
        /// What a reader should know before trusting it.
        pub warnings: Vec<Warning>,
    }

    /// How a calibration of whole runs was measured, and the rules that it holds for.
    pub struct RunCalibrationPlan {
        /// Runs of each side before the first pair, which were dropped.
        pub warmup_runs: u64,
        /// What ran before each run, outside of the time.
        pub prepare: Option<String>,
        /// Seed of the order.
        pub seed: u64,
        /// The CPU that both sides were bound to.
        pub cpu: Option<usize>,
        /// Share of false alarms of a gate, by design; its metrics share it.
        pub alpha: f64,
        /// The numbers of pairs at which a gate may look.
        pub looks: Vec<u64>,
    }

    /// One number of whole runs.
    pub struct CalibratedRunMetric {
        /// `wall`, `cpu`, `instructions`, `max-rss`, or what the program calls it, with the
        /// percentile of its samples.
        pub name: String,
        /// `ns`, `bytes`, or what the program states.
        pub unit: String,
        /// More is better, and a fall is what a gate looks for.
        pub higher_is_better: bool,
        /// Tolerated relative rise, or fall.
        pub tolerance: f64,
        /// A rise by less than this is tolerated however large it is relatively.
        pub floor: f64,
        /// Median run of both sides, in the quieter half of the pairs, by which it is judged.
        pub median: f64,
        /// How far the two runs of a pair are apart: robust standard deviation of the difference of
        /// their natural logarithms, so that 0.02 is about 2 %.
        pub spread: f64,
        /// The same in the quieter half of the pairs.
        pub spread_quiet_half: f64,
        /// At each look, the smallest change for the worse that a gate sees with 95 % probability;
        /// empty with too few pairs.
        pub smallest_change: Vec<SmallestRunChange>,
        /// The values of both sides, pair by pair, in the order they were measured.
        pub values: Vec<[f64; 2]>,
    }

    /// The smallest change at one look.
    pub struct SmallestRunChange {
        /// Pairs that the look is at.
        pub pairs: u64,
        /// The time that they take.
        pub after_ns: u64,
        /// B as a multiple of A: below 1 where more is better.
        pub ratio: f64,
        /// B minus A, in the metric's unit.
        pub difference: f64,
    }
}

/// A number of whole runs that was measured on both sides, all of its values above zero.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedMetric {
    /// What it is called.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// How a gate judges it.
    pub rule: MetricRule,
    /// The values of both sides, pair by pair.
    pub values: Vec<Sides<f64>>,
}

impl RecordedMetric {
    fn labelled(&self, labels: &[Label]) -> Vec<Sides<f64>> {
        let value = |&(i, is_swapped): &Label| {
            let pair = self.values[i];
            if is_swapped { pair.swapped() } else { pair }
        };
        labels.iter().map(value).collect()
    }
}

/// What a gate at these looks can see of each number.
#[must_use]
pub fn metrics(
    recorded: &[RecordedMetric],
    alpha: f64,
    looks: &[usize],
    pair_ns: u64,
) -> Vec<CalibratedRunMetric> {
    let share = alpha_share(alpha, recorded.len(), looks.len());
    let metric = |of: &RecordedMetric| {
        let mut by_sum = of.values.clone();
        let product = |pair: &Sides<f64>| pair.base * pair.candidate;
        by_sum.sort_by(|x, y| product(x).total_cmp(&product(y)));
        // Where more is better, the quieter runs are those with more.
        if of.rule.higher_is_better {
            by_sum.reverse();
        }
        let quiet = &by_sum[..by_sum.len().div_ceil(2)];
        let apart = |values: &[Sides<f64>]| tidy(spread(values.iter().map(ln_ratio)));
        let median = decision::median(quiet.iter().flatten().map(|value| value.ln())).exp();
        let enough = of.values.len() >= MIN_CALIBRATION_PAIRS;
        let change = |&n: &usize| {
            let change = smallest_change(of, n, share)?;
            let ratio = tidy(if of.rule.higher_is_better { (-change).exp() } else { change.exp() });
            let (pairs, after_ns) = (n as u64, pair_ns.saturating_mul(n as u64));
            Some(SmallestRunChange {
                pairs,
                after_ns,
                ratio,
                difference: tidy(median * (ratio - 1.0)),
            })
        };
        CalibratedRunMetric {
            name: of.name.clone(),
            unit: of.unit.clone(),
            higher_is_better: of.rule.higher_is_better,
            tolerance: of.rule.tolerance,
            floor: of.rule.floor,
            median: tidy(median),
            spread: apart(&of.values),
            spread_quiet_half: apart(quiet),
            smallest_change: looks.iter().filter(|_| enough).filter_map(change).collect(),
            values: of.values.iter().map(|&pair| pair.into()).collect(),
        }
    };
    recorded.iter().filter(|of| !of.values.is_empty()).map(metric).collect()
}

/// The bound of the interval that most relabelled gates stay below, as a logarithm: without a
/// change, the interval is as likely to lie so far above as below.
fn smallest_change(of: &RecordedMetric, n: usize, share: f64) -> Option<f64> {
    let rule = MetricRule { tolerance: ALL_OF_IT, floor: 0.0, ..of.rule };
    let mut relabelled = Relabelled::new(of.values.len());
    let intervals = (0..RELABELLED).filter_map(|_| {
        let judged = rule.judge(&of.labelled(&relabelled.gate(n)), share, true);
        judged.ratio_interval.map(|interval| [interval.upper.ln(), -interval.lower.ln()])
    });
    seen_by_most(intervals.flatten().collect())
}

/// The chance that a gate ends undecided although nothing has changed, for each of the times.
#[must_use]
pub fn inconclusive(
    recorded: &[RecordedMetric],
    alpha: f64,
    looks: &[usize],
    pair_ns: u64,
) -> Vec<InconclusiveChance> {
    gates::inconclusive(pairs(recorded), looks, pair_ns, |looks, labels| {
        let values: Vec<Vec<Sides<f64>>> = recorded.iter().map(|of| of.labelled(labels)).collect();
        let values: Vec<&[Sides<f64>]> = values.iter().map(Vec::as_slice).collect();
        decide(recorded, &values, alpha, looks).0
    })
}

/// The gates that the pairs really were, one after the other; what is left at the end is none.
#[must_use]
pub fn real_gates(recorded: &[RecordedMetric], alpha: f64, looks: &[usize]) -> RealGates {
    gates::real_gates(pairs(recorded), |from| {
        let values: Vec<&[Sides<f64>]> = recorded.iter().map(|of| &of.values[from..]).collect();
        decide(recorded, &values, alpha, looks)
    })
}

fn ln_ratio(pair: &Sides<f64>) -> f64 {
    (pair.candidate / pair.base).ln()
}

fn pairs(recorded: &[RecordedMetric]) -> usize {
    recorded.iter().map(|of| of.values.len()).min().unwrap_or(0)
}

/// A gate over the pairs in their order: its outcome, and the pairs it took.
fn decide(
    recorded: &[RecordedMetric],
    values: &[&[Sides<f64>]],
    alpha: f64,
    looks: &[usize],
) -> (Outcome, usize) {
    let share = alpha_share(alpha, recorded.len(), looks.len());
    let pairs = values.iter().map(|values| values.len()).min().unwrap_or(0);
    gates::decide(looks, pairs, |n, last| {
        Outcome::worst_of(
            recorded
                .iter()
                .zip(values)
                .map(|(of, values)| of.rule.judge(&values[..n], share, last).outcome),
        )
    })
}

impl File for RunCalibration {
    const SCHEMA: &'static str = SCHEMA;
    const PRETTY: bool = true;

    /// What has a logarithm must have one.
    fn check(&self) -> Result<(), Invalid> {
        let numbers = self.metrics.iter().enumerate().flat_map(|(i, metric)| {
            let ratios = metric.smallest_change.iter().enumerate();
            let ratios = ratios
                .map(move |(k, c)| (format!("metrics[{i}].smallest_change[{k}].ratio"), c.ratio));
            std::iter::once((format!("metrics[{i}].median"), metric.median)).chain(ratios)
        });
        match { numbers }.find(|(_, number)| !(number.is_normal() && *number > 0.0)) {
            Some((at, number)) => Err(Invalid { at, flaw: Flaw::Number(number) }),
            None => Ok(()),
        }
    }
}

impl RunCalibration {
    /// What keeps it from holding on such a machine; the calibration as side A.
    #[must_use]
    pub fn differences(&self, environment: &EnvironmentKey) -> Vec<Difference> {
        self.environment.differences(environment)
    }

    /// A metric by its whole name.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<&CalibratedRunMetric> {
        self.metrics.iter().find(|metric| metric.name == name)
    }

    /// The pairs at whose look a gate with such a share of alpha ([`share`]) sees a change by
    /// `change`, above zero: 0.05 for 5 % more, or 5 % less where more is better. `None` where the
    /// calibration did not come to a look.
    #[must_use]
    pub fn pairs_to_see(
        &self,
        metric: &CalibratedRunMetric,
        change: f64,
        share: f64,
    ) -> Option<u64> {
        self.sight(metric, share).pairs_for(metric.rule(change).tolerated(metric.median))
    }

    /// The smallest change that such a gate sees at so many pairs, as a share above zero.
    #[must_use]
    pub fn seen_at(&self, metric: &CalibratedRunMetric, pairs: u64, share: f64) -> Option<f64> {
        let change = self.sight(metric, share).at(pairs)?;
        Some(if metric.higher_is_better { -(-change).exp_m1() } else { change.exp_m1() })
    }

    /// Whether a gate with such a rule for it often ends undecided: it tolerates less than its last
    /// look can see.
    #[must_use]
    pub fn below_noise(
        &self,
        metric: &CalibratedRunMetric,
        rule: &MetricRule,
        last: u64,
        share: f64,
    ) -> Option<ToleranceBelowNoise> {
        let (tolerated, smallest) =
            (rule.tolerated(metric.median), self.sight(metric, share).at(last)?);
        let name = metric.name.clone();
        let ratio =
            |change: f64| if metric.higher_is_better { (-change).exp() } else { change.exp() };
        (tolerated < smallest - 1e-6).then(|| ToleranceBelowNoise {
            name,
            tolerated: ratio(tolerated),
            smallest: ratio(smallest),
            pairs: last,
        })
    }

    fn sight(&self, metric: &CalibratedRunMetric, gates: f64) -> Sight {
        Sight {
            looks: metric.smallest_change.iter().map(|c| (c.pairs, c.ratio.ln().abs())).collect(),
            lift: 0.0,
            widening: widening(
                gates,
                alpha_share(self.plan.alpha, self.metrics.len(), self.plan.looks.len()),
            ),
        }
    }
}

impl CalibratedRunMetric {
    /// A rule that tolerates so much of it, and has no floor.
    fn rule(&self, tolerance: f64) -> MetricRule {
        MetricRule { higher_is_better: self.higher_is_better, tolerance, floor: 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitterstat::stats::random::SplitMix64;

    const TIME: MetricRule = MetricRule { higher_is_better: false, tolerance: 0.05, floor: 1e3 };
    const RATE: MetricRule = MetricRule { higher_is_better: true, tolerance: 0.05, floor: 0.0 };
    const ALPHA: f64 = 0.005;
    const LOOKS: [usize; 4] = [50, 100, 200, 400];

    /// Runs of 50 ms whose logarithms have a standard deviation of `noise` within a pair, as times
    /// and as rates.
    fn recorded(n: usize, noise: f64) -> [RecordedMetric; 2] {
        let mut random = SplitMix64::new(17);
        let mut run = || {
            let normal = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
            5e7 * (normal * noise / 2_f64.sqrt()).exp()
        };
        let times: Vec<Sides<f64>> =
            (0..n).map(|_| Sides { base: run(), candidate: run() }).collect();
        let rates = times.iter().map(|pair| pair.map(|ns| 1e9 / ns)).collect();
        let of = |name: &str, unit: &str, rule, values| RecordedMetric {
            name: name.into(),
            unit: unit.into(),
            rule,
            values,
        };
        [of("wall", "ns", TIME, times), of("throughput", "/s", RATE, rates)]
    }

    fn calibration(of: &[RecordedMetric]) -> RunCalibration {
        RunCalibration {
            schema: SCHEMA.into(),
            tool: Tool { name: "osjitter".into(), version: "0".into(), commit: None },
            started_utc: "then".into(),
            duration_ns: 1,
            partial: false,
            failure: None,
            environment: serde_json::from_str(
                r#"{"os": "linux", "arch": "x86_64", "kernel": "6.1", "cpus": 4}"#,
            )
            .unwrap(),
            program: "./bench".into(),
            plan: RunCalibrationPlan {
                warmup_runs: 1,
                prepare: None,
                seed: 7,
                cpu: None,
                alpha: ALPHA,
                looks: LOOKS.map(|n| n as u64).into(),
            },
            pairs: pairs(of) as u64,
            pair_ns: 100_000_000,
            metrics: metrics(of, ALPHA, &LOOKS, 100_000_000),
            inconclusive: inconclusive(of, ALPHA, &LOOKS, 100_000_000),
            real_gates: real_gates(of, ALPHA, &LOOKS),
            warnings: Vec::new(),
        }
    }

    #[test]
    fn the_smallest_change_is_one_that_gates_see_in_both_directions() {
        let of = recorded(300, 0.06);
        let found = metrics(&of, ALPHA, &LOOKS, 100_000_000);
        let [wall, rate] = &found[..] else { panic!() };
        assert!((0.05..0.07).contains(&wall.spread), "{wall:?}");
        let [up, down] = [&wall.smallest_change[3], &rate.smallest_change[3]];
        assert!(up.ratio > 1.0 && down.ratio < 1.0 && up.difference > 0.0 && down.difference < 0.0);
        // The same runs: as many times more is as many times less.
        assert!((up.ratio * down.ratio - 1.0).abs() < 1e-3, "{up:?} {down:?}");
        assert_eq!((up.pairs, up.after_ns), (400, 40_000_000_000));
        let share = alpha_share(ALPHA, 2, 4);
        let mut relabelled = Relabelled::seeded(300, 3);
        for (recorded, change) in of.iter().zip([up, down]) {
            let tolerance = (change.ratio - 1.0).abs();
            let rule = MetricRule { tolerance, floor: 0.0, ..recorded.rule };
            let mut ends = |scale: f64, outcome: Outcome| {
                let gates = (0..100).filter(|_| {
                    let mut values = recorded.labelled(&relabelled.gate(400));
                    values.iter_mut().for_each(|pair| pair.candidate *= scale);
                    rule.judge(&values, share, true).outcome == outcome
                });
                gates.count()
            };
            // 95 of 100, and three standard deviations.
            assert!(ends(change.ratio, Outcome::Regressed) >= 88, "{}", recorded.name);
            assert!(ends(1.0, Outcome::Pass) >= 88, "{}", recorded.name);
        }
    }

    #[test]
    fn it_survives_json_plans_pairs_and_names_what_is_below_noise() {
        let of = calibration(&recorded(200, 0.1));
        let again = RunCalibration::from_json(&of.to_json()).unwrap();
        assert!(
            again.metrics[0].smallest_change == of.metrics[0].smallest_change
                && again.plan == of.plan
        );
        assert!(of.differences(&of.environment).is_empty());
        let mut flawed = of.clone();
        flawed.metrics[1].smallest_change[2].ratio = 0.0;
        let refused = RunCalibration::from_json(&flawed.to_json()).unwrap_err().to_string();
        assert!(refused.contains("metrics[1].smallest_change[2].ratio"), "{refused}");
        for metric in &of.metrics {
            let share = alpha_share(ALPHA, 2, 4);
            let seen = of.seen_at(metric, 400, share).unwrap();
            assert_eq!(of.pairs_to_see(metric, seen + 1e-9, share), Some(400), "{}", metric.name);
            assert!(
                of.pairs_to_see(metric, seen / 2.0, share).unwrap() > 1_400,
                "a fourth of the variance"
            );
            assert!(
                of.pairs_to_see(metric, seen, share / 10.0).unwrap() > 450,
                "a smaller alpha takes more"
            );
            let rule = MetricRule {
                higher_is_better: metric.higher_is_better,
                tolerance: seen * 0.9,
                floor: 0.0,
            };
            let below = of.below_noise(metric, &rule, 400, share).unwrap();
            assert!(
                (below.smallest - 1.0).abs() > (below.tolerated - 1.0).abs() && below.pairs == 400,
                "{below:?}"
            );
            let wide = MetricRule { tolerance: seen * 1.1, ..rule };
            assert_eq!(of.below_noise(metric, &wide, 400, share), None);
        }
    }

    #[test]
    fn gates_of_several_metrics_end_together() {
        let shares = |runs: &[RecordedMetric]| -> Vec<f64> {
            let chances = inconclusive(runs, ALPHA, &LOOKS, 100_000_000);
            chances.into_iter().map(|chance| chance.share.unwrap()).collect()
        };
        let quiet = recorded(400, 0.01);
        let undecided = shares(&quiet);
        assert!(undecided.iter().all(|&share| share < 0.02), "{undecided:?}");
        let real = real_gates(&quiet, ALPHA, &LOOKS);
        assert_eq!((real.gates, real.passed), (8, 8));
        let undecided = shares(&recorded(400, 0.5));
        assert!(undecided[0] > 0.5, "{undecided:?}");
    }

    #[test]
    fn few_pairs_say_nothing() {
        let of = calibration(&recorded(23, 0.1));
        assert!(of.metrics.iter().all(|m| m.smallest_change.is_empty() && m.values.len() == 23));
        assert!(of.inconclusive.iter().all(|c| c.share.is_none()));
        assert!(calibration(&recorded(0, 0.1)).metrics.is_empty());
    }
}
