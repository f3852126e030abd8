//! Tests of the rate of false alarms of a gate of benchmarks: over all benchmarks and looks, with
//! benchmarks that leave once they are decided.
//!
//! The values were recorded: 100 pairs of runs of 14 benchmarks of httparse, each against a copy of
//! itself. A simulated gate draws blocks of successive pairs, and exchanges the sides of each pair
//! at random. Nothing distinguishes the sides then, and the drift of the machine, the outliers, and
//! what the benchmarks of a run have in common remain.

use std::collections::BTreeMap;

use jitterstat::gate::Sides;
use jitterstat::stats::random::SplitMix64;

use super::collected_runs::{CollectedRuns, PairValues};
use super::*;

/// Number of successive pairs that are drawn together.
const BLOCK_PAIRS: usize = 10;
/// A tolerance of almost nothing, for which each significant change is a regression. The rate of
/// false alarms is then the whole alpha; larger tolerances lower it.
const NO_TOLERANCE: f64 = 1e-6;

/// A suite of benchmarks whose programs are replaced by recorded pairs.
struct RecordedSuite {
    /// The values of each benchmark, pair by pair.
    values: Vec<PairValues>,
    plan: MetricPlan,
}

impl RecordedSuite {
    /// Plans a gate as the command line does. `tolerance` is that of all benchmarks, if not the
    /// default one.
    fn new(tolerance: Option<f64>) -> Self {
        let json = include_str!("../../../tests/fixtures/suite-pairs.json");
        let recorded: BTreeMap<String, Vec<[f64; 2]>> = serde_json::from_str(json).unwrap();
        let (mut values, mut metrics) = (Vec::new(), Vec::new());
        for (name, pairs) in recorded {
            values.push(pairs.into_iter().map(Sides::from).collect());
            let mut metric = ProgramMetric::cpu();
            metric.name = name;
            metrics.push(metric);
        }
        // Benchmarks have no floor.
        let rule = |metric: &ProgramMetric| metric_rule(metric, tolerance, Some(Duration::ZERO));
        let looks = looks_of_runs(metrics.len(), DEFAULT_MAX_PAIRS);
        let plan = MetricPlan {
            measured: metrics.clone(),
            rules: metrics.iter().map(rule).collect(),
            alpha_share: alpha_share(ALPHA, metrics.len(), looks.len()),
            expected_pairs: looks[looks.len() - 1],
            metrics,
            looks,
            is_screen: false,
            warnings: Vec::new(),
            unjudged: Vec::new(),
            same_program: None,
        };
        Self { values, plan }
    }

    /// Simulates a gate in which the candidate takes `slowdown` times as long in the first
    /// benchmark.
    fn gate(&self, seed: u64, slowdown: f64) -> Outcome {
        let mut random = SplitMix64::new(seed);
        let mut looks = RunLooks::new(&self.plan, None, None, now());
        let mut runs = CollectedRuns {
            pairs: 0,
            values: vec![Vec::new(); self.values.len()],
            left_over: Default::default(),
            left_over_by_pair: Default::default(),
            left_out: Default::default(),
            late_benches: Default::default(),
            hanging: None,
            result: Ok(()),
        };
        let mut recorded = 0;
        while !looks.end_with(&runs) {
            let pairs = self.values[0].len();
            recorded = match runs.pairs % BLOCK_PAIRS {
                0 => random.index(pairs),
                _ => (recorded + 1) % pairs,
            };
            let is_swapped = random.coin();
            let open = looks.open_metrics();
            for (bench, values) in runs.values.iter_mut().enumerate().filter(|(i, _)| open[*i]) {
                let pair = self.values[bench][recorded];
                let mut pair = if is_swapped { pair.swapped() } else { pair };
                if bench == 0 {
                    pair.candidate *= slowdown;
                }
                values.push(pair);
            }
            runs.pairs += 1;
        }
        looks.outcome()
    }

    /// Returns the number of gates with an outcome.
    fn count(&self, outcome: Outcome, gates: u64, slowdown: f64) -> usize {
        (0..gates).filter(|seed| self.gate(*seed, slowdown) == outcome).count()
    }
}

#[test]
fn unchanged_suites_raise_no_alarm() {
    let suite = RecordedSuite::new(None);
    assert_eq!(suite.plan.metrics.len(), 14);
    // With alpha 0.005, more than 2 of 40 would happen by chance once in 900 times.
    let alarms = suite.count(Outcome::Regressed, 40, 1.0);
    assert!(alarms <= 2, "{alarms}");
    let found = suite.count(Outcome::Regressed, 20, 1.1);
    assert!(found >= 19, "{found}");
}

mod nightly {
    use super::*;

    #[test]
    #[ignore = "nightly: the gates take a minute"]
    fn false_alarms_stay_below_alpha() {
        // With alpha 0.005, more than 22 of 2,000 would happen by chance once in 3,500 times, more than
        // 7 of 400 once in 900.
        for (tolerance, gates, max_alarms) in [(None, 2_000, 22), (Some(NO_TOLERANCE), 400, 7)] {
            let alarms = RecordedSuite::new(tolerance).count(Outcome::Regressed, gates, 1.0);
            println!("tolerance {tolerance:?}: {alarms} false alarms of {gates}");
            assert!(alarms <= max_alarms, "{alarms} of {gates}");
        }
    }
}
