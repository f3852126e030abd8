//! The sensitivity of a gate of whole runs, measured with one program against itself. Written as
//! `osjitter.run-calibration/1`.

use super::gates::{RecordedNumber, Recording, tidy};
use super::{CalibratedNumber, DetectableChange, InconclusiveChance, RealGates};
use crate::environment::EnvironmentKey;
use crate::file::{File, Flaw, Invalid};
use crate::gate::verdict::RunPlan;
use crate::model::model;
use crate::report::{Tool, Warning};
use jitterstat::gate::Sides;
use jitterstat::gate::metric::{MetricRule, alpha_share};

/// Value of [`RunCalibration::schema`] that this version writes and reads.
pub const SCHEMA: &str = "osjitter.run-calibration/1";

model! {
    // Most keys are those of `Calibration`. The two formats have other keys between them, and
    // `program` instead of `subject`, so that serde needs a struct for each.

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
        pub plan: RunPlan,
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
        pub smallest_change: Vec<DetectableChange>,
        /// The values of both sides, pair by pair, in the order of the measurement.
        pub values: Vec<[f64; 2]>,
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

/// Creates the recording of the numbers that a gate with these looks judges.
#[must_use]
pub fn recording(
    recorded: &[RecordedMetric],
    alpha: f64,
    looks: &[usize],
    pair_ns: u64,
) -> Recording {
    let number = |metric: &RecordedMetric| RecordedNumber {
        name: metric.name.clone(),
        unit: metric.unit.clone(),
        higher_is_better: metric.rule.higher_is_better,
        rule: metric.rule.number_rule(),
        values: metric.rule.logarithms(&metric.values),
    };
    let numbers = recorded.iter().map(number).collect();
    Recording { numbers, alpha, looks: looks.to_vec(), pair_ns, keeps_outcomes: true }
}

/// Calibrates each number of a [`recording`].
#[must_use]
pub fn metrics(recorded: &[RecordedMetric], recording: &Recording) -> Vec<CalibratedRunMetric> {
    let metric = |(number, metric): (CalibratedNumber, &RecordedMetric)| CalibratedRunMetric {
        name: number.name,
        unit: number.unit,
        higher_is_better: number.higher_is_better,
        tolerance: metric.rule.tolerance,
        floor: metric.rule.floor,
        median: tidy(number.median),
        spread: number.spread,
        spread_quiet_half: number.spread_quiet_half.unwrap_or(number.spread),
        smallest_change: number.changes,
        values: metric.values.iter().map(|&pair| pair.into()).collect(),
    };
    let numbers = recording.calibrate().into_iter().zip(recorded);
    numbers.filter(|(_, metric)| !metric.values.is_empty()).map(metric).collect()
}

impl CalibratedRunMetric {
    /// `alpha` is the alpha of the metric at one look.
    fn number(&self, alpha: f64) -> CalibratedNumber {
        CalibratedNumber {
            name: self.name.clone(),
            unit: self.unit.clone(),
            higher_is_better: self.higher_is_better,
            median: self.median,
            spread: self.spread,
            spread_quiet_half: Some(self.spread_quiet_half),
            stall_dominated: false,
            lift: 0.0,
            alpha,
            changes: self.smallest_change.clone(),
        }
    }
}

impl File for RunCalibration {
    const SCHEMA: &'static str = SCHEMA;
    const IS_INDENTED: bool = true;

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
    /// Returns the calibrated metrics.
    #[must_use]
    pub fn numbers(&self) -> Vec<CalibratedNumber> {
        let alpha = alpha_share(self.plan.alpha, self.metrics.len(), self.plan.looks.len());
        self.metrics.iter().map(|metric| metric.number(alpha)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::calibration::gates::{Label, Relabelled};
    use jitterstat::gate::decision::Outcome;
    use jitterstat::stats::random::SplitMix64;

    const TIME: MetricRule = MetricRule { higher_is_better: false, tolerance: 0.05, floor: 1e3 };
    const RATE: MetricRule = MetricRule { higher_is_better: true, tolerance: 0.05, floor: 0.0 };
    const ALPHA: f64 = 0.005;
    const LOOKS: [usize; 4] = [50, 100, 200, 400];
    const PAIR_NS: u64 = 100_000_000;

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

    fn record(recorded: &[RecordedMetric]) -> Recording {
        recording(recorded, ALPHA, &LOOKS, PAIR_NS)
    }

    fn new_calibration(recorded: &[RecordedMetric]) -> RunCalibration {
        let recording = record(recorded);
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
            plan: RunPlan {
                warmup_runs: 1,
                prepare: None,
                seed: 7,
                cpu: None,
                alpha: ALPHA,
                looks: LOOKS.map(|n| n as u64).into(),
            },
            pairs: recording.pairs() as u64,
            pair_ns: PAIR_NS,
            metrics: metrics(recorded, &recording),
            inconclusive: recording.inconclusive(),
            real_gates: recording.real_gates(),
            warnings: Vec::new(),
        }
    }

    #[test]
    fn smallest_changes_are_detected() {
        let recorded = record_runs(300, 0.06);
        let found = metrics(&recorded, &record(&recorded));
        let [wall, rate] = &found[..] else { panic!() };
        assert!((0.05..0.07).contains(&wall.spread), "{wall:?}");
        let [up, down] = [&wall.smallest_change[3], &rate.smallest_change[3]];
        assert!(up.ratio > 1.0 && down.ratio < 1.0 && up.difference > 0.0 && down.difference < 0.0);
        // The ratios of times and rates of the same runs are reciprocal.
        assert!((up.ratio * down.ratio - 1.0).abs() < 1e-3, "{up:?} {down:?}");
        assert_eq!((up.pairs, up.after_ns), (400, 40_000_000_000));
        let share = alpha_share(ALPHA, 2, 4);
        let mut labels = Relabelled::with_seed(300, 3);
        for (metric, change) in recorded.iter().zip([up, down]) {
            let tolerance = (change.ratio - 1.0).abs();
            let rule = MetricRule { tolerance, floor: 0.0, ..metric.rule };
            let relabelled_pair = |&(i, is_swapped): &Label| {
                let pair = metric.values[i];
                if is_swapped { pair.swapped() } else { pair }
            };
            let mut count = |scale: f64, outcome: Outcome| {
                let gates = (0..100).filter(|_| {
                    let mut values: Vec<Sides<f64>> =
                        labels.gate(400).iter().map(relabelled_pair).collect();
                    for pair in &mut values {
                        pair.candidate *= scale;
                    }
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
        let mut flawed = calibration.clone();
        flawed.metrics[1].smallest_change[2].ratio = 0.0;
        let refused = RunCalibration::from_json(&flawed.to_json()).unwrap_err().to_string();
        assert!(refused.contains("metrics[1].smallest_change[2].ratio"), "{refused}");
        for (number, metric) in calibration.numbers().iter().zip(&calibration.metrics) {
            let share = alpha_share(ALPHA, 2, 4);
            let tolerated = |tolerance: f64| {
                let rule =
                    MetricRule { higher_is_better: metric.higher_is_better, tolerance, floor: 0.0 };
                rule.number_rule().tolerated(metric.median)
            };
            let smallest = number.smallest_detectable(400, share).unwrap();
            let last = &metric.smallest_change[3];
            assert!((number.ratio(smallest) - last.ratio).abs() < 1e-9, "{last:?}");
            let smallest = (last.ratio - 1.0).abs();
            let needed =
                |change: f64, share: f64| number.pairs_to_detect(tolerated(change), share).unwrap();
            assert_eq!(needed(smallest + 1e-9, share), 400, "{}", metric.name);
            assert!(
                needed(smallest / 2.0, share) > 1_400,
                "half of the change needs four times the pairs"
            );
            assert!(needed(smallest, share / 10.0) > 450, "a smaller alpha needs more pairs");
            let noise = number.noise_above(tolerated(smallest * 0.9), 400, share).unwrap();
            assert!((number.ratio(noise) - last.ratio).abs() < 1e-9, "{noise}");
            assert_eq!(number.noise_above(tolerated(smallest * 1.1), 400, share), None);
        }
    }

    #[test]
    fn metrics_of_a_gate_end_together() {
        let shares = |runs: &[RecordedMetric]| -> Vec<f64> {
            let chances = record(runs).inconclusive();
            chances.into_iter().map(|chance| chance.share.unwrap()).collect()
        };
        let quiet = record_runs(400, 0.01);
        let undecided = shares(&quiet);
        assert!(undecided.iter().all(|&share| share < 0.02), "{undecided:?}");
        let real = record(&quiet).real_gates();
        assert_eq!((real.gates, real.passed), (8, 8));
        let undecided = shares(&record_runs(400, 0.5));
        assert!(undecided[0] > 0.5, "{undecided:?}");
    }

    /// The first metric is quiet up to the first look, and the second one from there on.
    #[test]
    fn decided_metrics_keep_their_outcomes() {
        let quiet = |level: f64| vec![Sides { base: level, candidate: level }; 50];
        let noisy = |level: f64| -> Vec<Sides<f64>> {
            let pair = Sides { base: level, candidate: 50.0 * level };
            (0..50).map(|n| if n % 2 == 0 { pair } else { pair.swapped() }).collect()
        };
        // The quieter half of a hundred pairs is the later one.
        let values = [[quiet(1e7), noisy(1e4)].concat(), [noisy(1e7), quiet(1e6)].concat()];
        let metric = |values| RecordedMetric {
            name: "x".into(),
            unit: "u".into(),
            rule: MetricRule { floor: 0.0, ..TIME },
            values,
        };
        let real = record(&values.map(metric)).real_gates();
        assert_eq!((real.gates, real.passed), (1, 1));
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
