//! The metrics of a comparison of whole runs with their rules, and the verdict on each.

use cli::terminal;
use cli::words::pluralize;
use engine::measure::metric::ProgramMetric;
use files::gate::verdict::{RunMetric, SameProgram, UnjudgedBench};
use files::report::Warning;
use jitterstat::gate::Sides;
use jitterstat::gate::decision::{NumberVerdict, Outcome, Reason};
use jitterstat::gate::metric::MetricRule;

use super::programs::{PairValues, Values, list_unjudged, without_zeros};

/// The judged metrics, with the looks at which they are judged.
pub struct MetricPlan {
    /// The judged metrics, and after them the CPU time if only the wall time is judged.
    pub measured: Vec<ProgramMetric>,
    pub metrics: Vec<ProgramMetric>,
    pub rules: Vec<MetricRule>,
    pub looks: Vec<usize>,
    /// Number of pairs until the last look.
    pub expected_pairs: usize,
    /// Alpha of one metric at one look.
    pub alpha_share: f64,
    /// Whether only clear changes are reported.
    pub is_screen: bool,
    /// Warnings of the calibration.
    pub warnings: Vec<Warning>,
    /// Benchmarks that are not judged.
    pub unjudged: Vec<UnjudgedBench>,
    pub same_program: Option<SameProgram>,
}

/// The judged pairs of runs.
pub struct JudgedRuns {
    /// Numbers of pairs of the planned looks.
    pub looks: Vec<usize>,
    pub pairs: usize,
    pub looks_taken: u64,
    pub outcome: Outcome,
    /// The reason, if the outcome is inconclusive.
    pub reason: Option<Reason>,
    pub metrics: Vec<RunMetric>,
    pub unjudged: Vec<UnjudgedBench>,
    /// Whether nothing was measured, because both sides are the same program.
    pub same_program: Option<SameProgram>,
}

/// Runs that ended before the first pair.
impl Default for JudgedRuns {
    fn default() -> Self {
        Self {
            looks: Vec::new(),
            pairs: 0,
            looks_taken: 0,
            outcome: Outcome::Inconclusive,
            reason: None,
            metrics: Vec::new(),
            unjudged: Vec::new(),
            same_program: None,
        }
    }
}

impl MetricPlan {
    /// Judges both sides without a pair, because they are the same program. A benchmark that has no
    /// number is not judged by this either.
    pub fn without_pairs(&self, same_program: SameProgram) -> JudgedRuns {
        announce_unjudged(&self.unjudged);
        let is_complete = self.unjudged.iter().all(|bench| bench.allowed);
        JudgedRuns {
            looks: self.looks.clone(),
            outcome: if is_complete { Outcome::Pass } else { Outcome::Inconclusive },
            reason: (!is_complete).then_some(Reason::NotJudged),
            unjudged: self.unjudged.clone(),
            same_program: Some(same_program),
            ..JudgedRuns::default()
        }
    }

    pub fn last_look(&self) -> usize {
        self.looks[self.looks.len() - 1]
    }

    /// Judges every metric by its values.
    pub fn judge(&self, values: &Values, is_last: bool) -> Vec<NumberVerdict> {
        let mut judged = Vec::new();
        for (rule, values) in self.rules.iter().zip(values) {
            let values = without_zeros(values);
            judged.push(match self.is_screen {
                true => rule.screen(&values, self.alpha_share),
                false => rule.judge(&values, self.alpha_share, is_last),
            });
        }
        judged
    }

    /// Returns the warning that the CPU time would have decided where the wall time was too noisy.
    /// It does not reveal the outcome, so a gate that is run for it has its full alpha.
    pub fn steadier_metric(&self, values: &Values, metrics: &[RunMetric]) -> Option<Warning> {
        let wall = self.metrics.iter().position(ProgramMetric::is_wall)?;
        let cpu = self.measured.get(self.metrics.len())?;
        let is_noisy = metrics[wall].judged.reason == Some(Reason::TooNoisy);
        let cpu_times = &values[self.metrics.len()];
        let judged = self.rules[wall].judge(cpu_times, self.alpha_share, true);
        let is_steadier = is_noisy && judged.outcome != Outcome::Inconclusive;
        is_steadier.then(|| Warning {
            code: "steadier-metric".to_owned(),
            message: "The wall time varies too much here; the CPU time of these runs would have been decided.".to_owned(),
            hint: format!("Judge it with --metric {}.", cpu.name),
        })
    }

    /// Returns whether the values of a metric say nothing, because all of them are zero.
    pub fn is_unresolved(metric: &ProgramMetric, values: &PairValues) -> bool {
        let is_zero = values.iter().flat_map(Sides::iter).all(|value| *value == 0.0);
        !metric.counts_from_zero() && !values.is_empty() && is_zero
    }

    /// Removes the metrics whose values are all zero, and returns their names.
    pub fn remove_zeros(&self, metrics: &mut Vec<RunMetric>) -> Vec<String> {
        let mut planned = self.metrics.iter();
        let is_zero = |metric: &mut RunMetric| {
            let planned = planned.next().expect("there is a plan for each metric");
            let values: PairValues = metric.values.iter().map(|&pair| pair.into()).collect();
            Self::is_unresolved(planned, &values)
        };
        metrics.extract_if(.., is_zero).map(|metric| metric.name).collect()
    }

    /// Returns the metrics for the verdict.
    pub fn run_metrics(&self, values: &Values, is_last: bool) -> Vec<RunMetric> {
        let judged = self.judge(values, is_last).into_iter().zip(values);
        let metrics = self.metrics.iter().zip(judged).map(|(metric, (judged, values))| {
            let mut metric = RunMetric {
                name: metric.name.clone(),
                unit: metric.unit.clone(),
                higher_is_better: metric.higher_is_better,
                judged: (&judged).into(),
                a: judged.sides.base,
                b: judged.sides.candidate,
                pairs: judged.pairs as u64,
                pairs_to_decide: judged.pairs_to_decide,
                values: values.iter().map(|&pair| pair.into()).collect(),
            };
            show_zeros(&mut metric);
            metric
        });
        metrics.collect()
    }
}

/// Shows a median of zero, whose place another value took in the computation. Nothing has a ratio to
/// zero.
fn show_zeros(metric: &mut RunMetric) {
    let median = |side: usize| {
        let mut values: Vec<f64> = metric.values.iter().map(|pair| pair[side]).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    };
    let is_zero = [0, 1].map(|side| median(side) == Some(0.0));
    if is_zero[0] {
        metric.a = 0.0;
    }
    if is_zero[1] {
        metric.b = 0.0;
    }
    if is_zero[0] != is_zero[1] {
        (metric.judged.ratio, metric.judged.ratio_interval) = (None, None);
    }
}

/// Warns before measuring of benchmarks that keep the gate from passing, so that the user can still
/// interrupt it.
pub fn announce_unjudged(unjudged: &[UnjudgedBench]) {
    let missing: Vec<UnjudgedBench> =
        unjudged.iter().filter(|bench| !bench.allowed).cloned().collect();
    if !missing.is_empty() {
        let count = pluralize(missing.len() as u64, "benchmark");
        let message =
            format!("not judged, so the gate cannot pass: {count}: {}", list_unjudged(&missing));
        terminal::warning(&message);
    }
}
