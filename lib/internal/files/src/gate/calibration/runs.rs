//! The sensitivity of a gate of whole runs, measured with one program against itself. Written as
//! `osjitter.run-calibration/1`.

use super::gates::{
    self, Label, RELABELLED, Relabelled, Sensitivity, power_bound, spread, tidy, widening,
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
/// Tolerance of any change, with which a look only measures.
const UNLIMITED_TOLERANCE: f64 = 1e30;

model! {
    /// The sensitivity of a gate of whole runs on one machine, for one program.
    pub struct RunCalibration {
        /// Always [`SCHEMA`].
        pub schema: String,
        /// The program that wrote it.
        pub tool: Tool,
        /// Start, RFC 3339, UTC.
        pub started_utc: String,
        /// Wall time of the measurement.
        pub duration_ns: u64,
        /// Whether the calibration was interrupted. The numbers then use the pairs measured until
        /// then.
        pub partial: bool,
        /// Reason for which the calibration could not continue, if so.
        pub failure: Option<String>,
        /// The machine for which the calibration is valid.
        pub environment: EnvironmentKey,
        /// The program on both sides.
        pub program: String,
        /// The plan of the measurement.
        pub plan: RunCalibrationPlan,
        /// Number of measured pairs of runs.
        pub pairs: u64,
        /// Wall time of one pair, including its preparation.
        pub pair_ns: u64,
        /// One entry for each judged number.
        pub metrics: Vec<CalibratedRunMetric>,
        /// How often a gate with the tolerances of the metrics ends undecided, by its time limit.
        pub inconclusive: Vec<InconclusiveChance>,
        /// The real gates in the recording, one after the other.
        pub real_gates: RealGates,
        /// Warnings to consider before trusting the numbers.
        pub warnings: Vec<Warning>,
    }

    /// The plan of a calibration of whole runs, and the rules for which it is valid.
    pub struct RunCalibrationPlan {
        /// Number of runs of each side before the first pair, which were dropped.
        pub warmup_runs: u64,
        /// Command that ran before each run, outside of the measured time.
        pub prepare: Option<String>,
        /// Seed of the order within pairs.
        pub seed: u64,
        /// CPU that both sides were bound to; null without one.
        pub cpu: Option<usize>,
        /// Maximum share of false alarms of a gate over all of its metrics, by design.
        pub alpha: f64,
        /// Numbers of pairs at which a gate may look.
        pub looks: Vec<u64>,
    }

    /// The sensitivity of a gate to changes of one number of whole runs.
    pub struct CalibratedRunMetric {
        /// `wall`, `cpu`, `instructions`, `max-rss`, or the name of a metric of the program with
        /// the percentile of its samples.
        pub name: String,
        /// `ns`, `bytes`, or the unit that the program declares.
        pub unit: String,
        /// Whether higher values are better, so that a fall is a regression.
        pub higher_is_better: bool,
        /// Tolerated relative change for the worse.
        pub tolerance: f64,
        /// Absolute rise that is always tolerated, whatever it is relatively.
        pub floor: f64,
        /// Median run of both sides in the quieter half of the pairs, by which it is judged.
        pub median: f64,
        /// Robust standard deviation of the difference between the natural logarithms of the two
        /// runs of a pair: 0.02 is about 2 %.
        pub spread: f64,
        /// Spread in the quieter half of the pairs.
        pub spread_quiet_half: f64,
        /// At each look, the smallest change for the worse that a gate detects with 95 %
        /// probability; empty with too few pairs.
        pub smallest_change: Vec<SmallestRunChange>,
        /// The values of both sides, pair by pair, in the order of the measurement.
        pub values: Vec<[f64; 2]>,
    }

    /// The smallest detectable change at one look.
    pub struct SmallestRunChange {
        /// Number of pairs at the look.
        pub pairs: u64,
        /// Time to measure these pairs.
        pub after_ns: u64,
        /// Ratio of B to A; below 1 if higher values are better.
        pub ratio: f64,
        /// B minus A, in the metric's unit.
        pub difference: f64,
    }
}

/// A number of whole runs with its values on both sides, all of them above zero.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedMetric {
    /// Name of the metric.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// The rule by which a gate judges it.
    pub rule: MetricRule,
    /// The values of both sides, pair by pair.
    pub values: Vec<Sides<f64>>,
}

impl RecordedMetric {
    fn relabel(&self, labels: &[Label]) -> Vec<Sides<f64>> {
        let value = |&(i, is_swapped): &Label| {
            let pair = self.values[i];
            if is_swapped { pair.swapped() } else { pair }
        };
        labels.iter().map(value).collect()
    }
}

/// Calibrates each number for a gate with these looks.
#[must_use]
pub fn metrics(
    recorded: &[RecordedMetric],
    alpha: f64,
    looks: &[usize],
    pair_ns: u64,
) -> Vec<CalibratedRunMetric> {
    let alpha = alpha_share(alpha, recorded.len(), looks.len());
    let measured = recorded.iter().filter(|metric| !metric.values.is_empty());
    measured.map(|metric| metric.calibrate(alpha, looks, pair_ns)).collect()
}

impl RecordedMetric {
    /// `alpha` is the alpha of this metric at one look.
    fn calibrate(&self, alpha: f64, looks: &[usize], pair_ns: u64) -> CalibratedRunMetric {
        let quiet = self.quiet_half();
        let logarithms = quiet.iter().flatten().map(|value| value.ln());
        let median = decision::median(logarithms).exp();
        let has_enough_pairs = self.values.len() >= MIN_CALIBRATION_PAIRS;
        let change = |&n: &usize| {
            let change = smallest_change(self, n, alpha)?;
            let ratio =
                tidy(if self.rule.higher_is_better { (-change).exp() } else { change.exp() });
            let difference = tidy(median * (ratio - 1.0));
            let after_ns = pair_ns.saturating_mul(n as u64);
            Some(SmallestRunChange { pairs: n as u64, after_ns, ratio, difference })
        };
        CalibratedRunMetric {
            name: self.name.clone(),
            unit: self.unit.clone(),
            higher_is_better: self.rule.higher_is_better,
            tolerance: self.rule.tolerance,
            floor: self.rule.floor,
            median: tidy(median),
            spread: pair_spread(&self.values),
            spread_quiet_half: pair_spread(&quiet),
            smallest_change: looks.iter().filter(|_| has_enough_pairs).filter_map(change).collect(),
            values: self.values.iter().map(|&pair| pair.into()).collect(),
        }
    }

    /// The half of the pairs with the better values. The product treats both sides alike.
    fn quiet_half(&self) -> Vec<Sides<f64>> {
        let mut sorted = self.values.clone();
        let product = |pair: &Sides<f64>| pair.base * pair.candidate;
        sorted.sort_by(|x, y| product(x).total_cmp(&product(y)));
        if self.rule.higher_is_better {
            sorted.reverse();
        }
        sorted.truncate(sorted.len().div_ceil(2));
        sorted
    }
}

fn pair_spread(values: &[Sides<f64>]) -> f64 {
    tidy(spread(values.iter().map(|pair| (pair.candidate / pair.base).ln())))
}

/// Computes the bound below which the intervals of most relabelled gates stay, as a logarithm.
/// Without a change, the intervals are symmetric around zero.
fn smallest_change(metric: &RecordedMetric, n: usize, alpha: f64) -> Option<f64> {
    let rule = MetricRule { tolerance: UNLIMITED_TOLERANCE, floor: 0.0, ..metric.rule };
    let mut relabelled = Relabelled::new(metric.values.len());
    let intervals = (0..RELABELLED).filter_map(|_| {
        let judged = rule.judge(&metric.relabel(&relabelled.gate(n)), alpha, true);
        judged.ratio_interval().map(|interval| [interval.upper.ln(), -interval.lower.ln()])
    });
    power_bound(intervals.flatten().collect())
}

/// Estimates the probability that a gate ends undecided without a change, for several time limits.
#[must_use]
pub fn inconclusive(
    recorded: &[RecordedMetric],
    alpha: f64,
    looks: &[usize],
    pair_ns: u64,
) -> Vec<InconclusiveChance> {
    gates::inconclusive(pair_count(recorded), looks, pair_ns, |looks, labels| {
        let values: Vec<Vec<Sides<f64>>> =
            recorded.iter().map(|metric| metric.relabel(labels)).collect();
        let values: Vec<&[Sides<f64>]> = values.iter().map(Vec::as_slice).collect();
        decide(recorded, &values, alpha, looks).0
    })
}

/// Counts the outcomes of the real gates: consecutive ones from the pairs in their order. Remaining
/// pairs are ignored.
#[must_use]
pub fn real_gates(recorded: &[RecordedMetric], alpha: f64, looks: &[usize]) -> RealGates {
    gates::real_gates(pair_count(recorded), |from| {
        let values: Vec<&[Sides<f64>]> =
            recorded.iter().map(|metric| &metric.values[from..]).collect();
        decide(recorded, &values, alpha, looks)
    })
}

fn pair_count(recorded: &[RecordedMetric]) -> usize {
    recorded.iter().map(|metric| metric.values.len()).min().unwrap_or(0)
}

/// Performs a gate over the pairs in their order, and returns its outcome and number of pairs.
fn decide(
    recorded: &[RecordedMetric],
    values: &[&[Sides<f64>]],
    alpha: f64,
    looks: &[usize],
) -> (Outcome, usize) {
    let alpha = alpha_share(alpha, recorded.len(), looks.len());
    let pairs = values.iter().map(|values| values.len()).min().unwrap_or(0);
    gates::decide(looks, pairs, |n, last| {
        let metrics = recorded.iter().zip(values);
        let outcomes =
            metrics.map(|(metric, values)| metric.rule.judge(&values[..n], alpha, last).outcome);
        Outcome::worst_of(outcomes)
    })
}

impl File for RunCalibration {
    const SCHEMA: &'static str = SCHEMA;
    const PRETTY: bool = true;

    /// Checks the numbers of which logarithms are taken.
    fn check(&self) -> Result<(), Invalid> {
        for (i, metric) in self.metrics.iter().enumerate() {
            check_logarithm(metric.median, || format!("metrics[{i}].median"))?;
            for (k, change) in metric.smallest_change.iter().enumerate() {
                let at = || format!("metrics[{i}].smallest_change[{k}].ratio");
                check_logarithm(change.ratio, at)?;
            }
        }
        Ok(())
    }
}

fn check_logarithm(number: f64, at: impl FnOnce() -> String) -> Result<(), Invalid> {
    if number.is_normal() && number > 0.0 {
        return Ok(());
    }
    Err(Invalid { at: at(), flaw: Flaw::Number(number) })
}

impl RunCalibration {
    /// Returns the differences that make the calibration invalid on this machine, with the
    /// calibration as side A.
    #[must_use]
    pub fn differences(&self, environment: &EnvironmentKey) -> Vec<Difference> {
        self.environment.differences(environment)
    }

    /// Finds a metric by its whole name.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<&CalibratedRunMetric> {
        self.metrics.iter().find(|metric| metric.name == name)
    }

    /// Returns the number of pairs with which a gate detects a relative change for the worse: 0.05
    /// for 5 %. `alpha` is the alpha of the metric at one look ([`alpha_share`]). `None` if the
    /// calibration did not reach a look.
    #[must_use]
    pub fn pairs_to_detect(
        &self,
        metric: &CalibratedRunMetric,
        change: f64,
        alpha: f64,
    ) -> Option<u64> {
        let rule = metric.rule(change).number_rule();
        self.sensitivity(metric, alpha).pairs_for(rule.tolerated(metric.median))
    }

    /// Returns the smallest relative change for the worse that a gate detects with this number of
    /// pairs.
    #[must_use]
    pub fn smallest_detectable(
        &self,
        metric: &CalibratedRunMetric,
        pairs: u64,
        alpha: f64,
    ) -> Option<f64> {
        let change = self.sensitivity(metric, alpha).at(pairs)?;
        Some(if metric.higher_is_better { -(-change).exp_m1() } else { change.exp_m1() })
    }

    /// Returns the tolerance of a rule if it is smaller than the changes that the last look of a
    /// gate detects. The gate would often end undecided.
    #[must_use]
    pub fn below_noise(
        &self,
        metric: &CalibratedRunMetric,
        rule: &MetricRule,
        last: u64,
        alpha: f64,
    ) -> Option<ToleranceBelowNoise> {
        let (tolerated, smallest) = (
            rule.number_rule().tolerated(metric.median),
            self.sensitivity(metric, alpha).at(last)?,
        );
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

    fn sensitivity(&self, metric: &CalibratedRunMetric, alpha: f64) -> Sensitivity {
        Sensitivity {
            looks: metric.smallest_change.iter().map(|c| (c.pairs, c.ratio.ln().abs())).collect(),
            lift: 0.0,
            widening: widening(
                alpha,
                alpha_share(self.plan.alpha, self.metrics.len(), self.plan.looks.len()),
            ),
        }
    }
}

impl CalibratedRunMetric {
    /// Creates a rule with this tolerance and without a floor.
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

    /// Runs of 50 ms, as times and as rates. The logarithms of a pair differ with a standard
    /// deviation of `noise`.
    fn record_runs(n: usize, noise: f64) -> Vec<RecordedMetric> {
        let mut random = SplitMix64::new(17);
        let mut run = || {
            let normal = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
            5e7 * (normal * noise / 2_f64.sqrt()).exp()
        };
        let times: Vec<Sides<f64>> =
            (0..n).map(|_| Sides { base: run(), candidate: run() }).collect();
        let rates = times.iter().map(|pair| pair.map(|ns| 1e9 / ns)).collect();
        let metric = |name: &str, unit: &str, rule, values| RecordedMetric {
            name: name.into(),
            unit: unit.into(),
            rule,
            values,
        };
        vec![metric("wall", "ns", TIME, times), metric("throughput", "/s", RATE, rates)]
    }

    fn new_calibration(recorded: &[RecordedMetric]) -> RunCalibration {
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
            pairs: pair_count(recorded) as u64,
            pair_ns: 100_000_000,
            metrics: metrics(recorded, ALPHA, &LOOKS, 100_000_000),
            inconclusive: inconclusive(recorded, ALPHA, &LOOKS, 100_000_000),
            real_gates: real_gates(recorded, ALPHA, &LOOKS),
            warnings: Vec::new(),
        }
    }

    #[test]
    fn smallest_changes_are_detected() {
        let recorded = record_runs(300, 0.06);
        let found = metrics(&recorded, ALPHA, &LOOKS, 100_000_000);
        let [wall, rate] = &found[..] else { panic!() };
        assert!((0.05..0.07).contains(&wall.spread), "{wall:?}");
        let [up, down] = [&wall.smallest_change[3], &rate.smallest_change[3]];
        assert!(up.ratio > 1.0 && down.ratio < 1.0 && up.difference > 0.0 && down.difference < 0.0);
        // The ratios of times and rates of the same runs are reciprocal.
        assert!((up.ratio * down.ratio - 1.0).abs() < 1e-3, "{up:?} {down:?}");
        assert_eq!((up.pairs, up.after_ns), (400, 40_000_000_000));
        let share = alpha_share(ALPHA, 2, 4);
        let mut relabelled = Relabelled::with_seed(300, 3);
        for (metric, change) in recorded.iter().zip([up, down]) {
            let tolerance = (change.ratio - 1.0).abs();
            let rule = MetricRule { tolerance, floor: 0.0, ..metric.rule };
            let mut count = |scale: f64, outcome: Outcome| {
                let gates = (0..100).filter(|_| {
                    let mut values = metric.relabel(&relabelled.gate(400));
                    values.iter_mut().for_each(|pair| pair.candidate *= scale);
                    rule.judge(&values, share, true).outcome == outcome
                });
                gates.count()
            };
            // 95 of 100, and three standard deviations.
            assert!(count(change.ratio, Outcome::Regressed) >= 88, "{}", metric.name);
            assert!(count(1.0, Outcome::Pass) >= 88, "{}", metric.name);
        }
    }

    #[test]
    fn calibration_plans_pairs_after_json() {
        let calibration = new_calibration(&record_runs(200, 0.1));
        let again = RunCalibration::from_json(&calibration.to_json()).unwrap();
        assert!(
            again.metrics[0].smallest_change == calibration.metrics[0].smallest_change
                && again.plan == calibration.plan
        );
        assert!(calibration.differences(&calibration.environment).is_empty());
        let mut flawed = calibration.clone();
        flawed.metrics[1].smallest_change[2].ratio = 0.0;
        let refused = RunCalibration::from_json(&flawed.to_json()).unwrap_err().to_string();
        assert!(refused.contains("metrics[1].smallest_change[2].ratio"), "{refused}");
        for metric in &calibration.metrics {
            let share = alpha_share(ALPHA, 2, 4);
            let smallest = calibration.smallest_detectable(metric, 400, share).unwrap();
            assert_eq!(
                calibration.pairs_to_detect(metric, smallest + 1e-9, share),
                Some(400),
                "{}",
                metric.name
            );
            assert!(
                calibration.pairs_to_detect(metric, smallest / 2.0, share).unwrap() > 1_400,
                "half of the change needs four times the pairs"
            );
            assert!(
                calibration.pairs_to_detect(metric, smallest, share / 10.0).unwrap() > 450,
                "a smaller alpha needs more pairs"
            );
            let rule = MetricRule {
                higher_is_better: metric.higher_is_better,
                tolerance: smallest * 0.9,
                floor: 0.0,
            };
            let below = calibration.below_noise(metric, &rule, 400, share).unwrap();
            assert!(
                (below.smallest - 1.0).abs() > (below.tolerated - 1.0).abs() && below.pairs == 400,
                "{below:?}"
            );
            let wide = MetricRule { tolerance: smallest * 1.1, ..rule };
            assert_eq!(calibration.below_noise(metric, &wide, 400, share), None);
        }
    }

    #[test]
    fn metrics_of_a_gate_end_together() {
        let shares = |runs: &[RecordedMetric]| -> Vec<f64> {
            let chances = inconclusive(runs, ALPHA, &LOOKS, 100_000_000);
            chances.into_iter().map(|chance| chance.share.unwrap()).collect()
        };
        let quiet = record_runs(400, 0.01);
        let undecided = shares(&quiet);
        assert!(undecided.iter().all(|&share| share < 0.02), "{undecided:?}");
        let real = real_gates(&quiet, ALPHA, &LOOKS);
        assert_eq!((real.gates, real.passed), (8, 8));
        let undecided = shares(&record_runs(400, 0.5));
        assert!(undecided[0] > 0.5, "{undecided:?}");
    }

    #[test]
    fn few_pairs_give_no_results() {
        let calibration = new_calibration(&record_runs(23, 0.1));
        assert!(
            calibration
                .metrics
                .iter()
                .all(|m| m.smallest_change.is_empty() && m.values.len() == 23)
        );
        assert!(calibration.inconclusive.iter().all(|c| c.share.is_none()));
        assert!(new_calibration(&record_runs(0, 0.1)).metrics.is_empty());
    }
}
