//! The metrics of a comparison of whole runs with their rules, and the verdict on each.

use cli::terminal;
use cli::words::pluralize;
use engine::measure::metric::ProgramMetric;
use files::gate::verdict::{RunMetric, SameProgram, UnjudgedBench, UnjudgedReason};
use files::report::Warning;
use jitterstat::gate::Sides;
use jitterstat::gate::decision::{NumberVerdict, Outcome, Reason};
use jitterstat::gate::metric::MetricRule;

use super::collected_runs::{PairValues, Values, without_zeros};
use super::resolved_metrics::list_unjudged;

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

    /// Returns the sides whose median prevents a judgement, because it is zero and not exact. A
    /// time of zero is below what its clock can resolve, or the code was removed. A figure of the
    /// benchmark can be zero on one side.
    pub fn unresolved_sides(metric: &ProgramMetric, values: &PairValues) -> Sides<bool> {
        let zeros = Sides {
            base: has_zero_median(values.iter().map(|pair| pair.base)),
            candidate: has_zero_median(values.iter().map(|pair| pair.candidate)),
        };
        let is_both = zeros.base && zeros.candidate;
        match !metric.counts_from_zero() && (is_both || metric.is_time()) {
            true => zeros,
            false => Sides { base: false, candidate: false },
        }
    }

    /// Returns whether the values of a metric cannot be judged, because the median of a side is
    /// zero.
    pub fn is_unresolved(metric: &ProgramMetric, values: &PairValues) -> bool {
        Self::unresolved_sides(metric, values).iter().any(|is_zero| *is_zero)
    }

    /// Removes the metrics that cannot be judged because of their zeros, and returns them as
    /// benchmarks that are not judged.
    pub fn remove_zeros(&self, metrics: &mut Vec<RunMetric>) -> Vec<UnjudgedBench> {
        let mut unjudged = Vec::new();
        let mut resolved = Vec::new();
        for (metric, planned) in metrics.drain(..).zip(&self.metrics) {
            let values: PairValues = metric.values.iter().map(|&pair| pair.into()).collect();
            let side = match Self::unresolved_sides(planned, &values) {
                Sides { base: false, candidate: false } => {
                    resolved.push(metric);
                    continue;
                }
                Sides { base: true, candidate: true } => None,
                Sides { base: true, .. } => Some("a"),
                Sides { candidate: true, .. } => Some("b"),
            };
            unjudged.push(UnjudgedBench::new(&metric.name, UnjudgedReason::Zero, side));
        }
        *metrics = resolved;
        unjudged
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

/// Returns whether the median of values, none of which is negative, is zero: the lower one of two.
fn has_zero_median(values: impl ExactSizeIterator<Item = f64>) -> bool {
    let count = values.len();
    let zeros = values.filter(|value| *value == 0.0).count();
    zeros > 0 && zeros * 2 >= count
}

/// Shows a median of zero, whose place another value took in the computation. Nothing has a ratio
/// to zero.
fn show_zeros(metric: &mut RunMetric) {
    let is_zero = [0, 1].map(|side| has_zero_median(metric.values.iter().map(|pair| pair[side])));
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
