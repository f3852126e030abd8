//! The comparison of programs by the numbers of their gated runs.

use super::error::CompareError;
use super::model::{ComparedMetric, Finding, Method, RunEstimate, tidy};
use super::rounds::bounded_interval;
use crate::environment::{Difference, EnvironmentKey};
use crate::gate::verdict::{RunMetric, RunsVerdict, Verdict};
use crate::report::Warning;
use jitterstat::stats::quantile::median;
use jitterstat::stats::shift::{self, Interval95};

/// One of the two programs of a gate of whole runs.
#[derive(Clone, Copy, Debug)]
pub struct ChosenProgram<'a> {
    /// The gate.
    pub verdict: &'a Verdict,
    /// The runs of that gate.
    pub runs: &'a RunsVerdict,
    /// Whether this is the candidate or the baseline of the gate.
    pub is_candidate: bool,
}

impl ChosenProgram<'_> {
    /// Returns the name of the program.
    #[must_use]
    pub fn name(&self) -> &str {
        if self.is_candidate { &self.runs.b } else { &self.runs.a }
    }

    fn values(&self, metric: &RunMetric) -> Vec<f64> {
        let value =
            |[base, candidate]: &[f64; 2]| if self.is_candidate { *candidate } else { *base };
        metric.values.iter().map(value).collect()
    }
}

/// Whether two verdicts are of one gate, so that their runs are pairs.
fn is_same_gate(a: &Verdict, b: &Verdict) -> bool {
    (&a.started_utc, a.duration_ns, &a.host) == (&b.started_utc, b.duration_ns, &b.host)
}

/// Returns the differences between machines that make two programs incomparable.
#[must_use]
pub fn program_differences(a: ChosenProgram<'_>, b: ChosenProgram<'_>) -> Vec<Difference> {
    EnvironmentKey::from_host(&a.verdict.host)
        .differences(&EnvironmentKey::from_host(&b.verdict.host))
}

/// Compares two programs by every metric that both gates judged, even if they are not
/// [comparable](program_differences).
///
/// # Errors
/// Returns an error if both are the same program of one gate, they have no metric in common, or a
/// value of a metric is not above zero.
pub fn compare_programs(
    a: ChosenProgram<'_>,
    b: ChosenProgram<'_>,
) -> Result<Vec<ComparedMetric>, CompareError> {
    let same_gate = is_same_gate(a.verdict, b.verdict);
    if same_gate && a.is_candidate == b.is_candidate {
        return Err(CompareError::WithItself(a.name().to_owned()));
    }
    let mut compared = Vec::new();
    for metric in &a.runs.metrics {
        let same_metric = b.runs.metrics.iter().find(|m| is_same_metric(m, metric));
        let Some(other) = same_metric else { continue };
        let comparison = compare_metric(a, b, metric, other, same_gate);
        compared.push(comparison.ok_or(CompareError::NoValue(metric.name.clone()))?);
    }
    if compared.is_empty() { Err(CompareError::NoMetricInCommon) } else { Ok(compared) }
}

fn is_same_metric(a: &RunMetric, b: &RunMetric) -> bool {
    (&a.name, &a.unit, a.higher_is_better) == (&b.name, &b.unit, b.higher_is_better)
}

/// Compares one metric; `None` if a value has no logarithm.
fn compare_metric(
    a: ChosenProgram<'_>,
    b: ChosenProgram<'_>,
    a_metric: &RunMetric,
    b_metric: &RunMetric,
    same_gate: bool,
) -> Option<ComparedMetric> {
    let (a_values, b_values) = (a.values(a_metric), b.values(b_metric));
    let (a_logarithms, b_logarithms) = (logarithms(&a_values), logarithms(&b_values));
    let ratio = if same_gate {
        let pairs = a_logarithms.iter().zip(&b_logarithms);
        shift::paired(&pairs.map(|(a, b)| b - a).collect::<Vec<f64>>())?
    } else {
        shift::unpaired(&a_logarithms, &b_logarithms)?
    };
    let higher_is_better = a_metric.higher_is_better;
    let beside_baseline = if same_gate || !a.is_candidate || !b.is_candidate {
        None
    } else {
        let (a_ratios, b_ratios) = (ratios_to_baseline(a_metric), ratios_to_baseline(b_metric));
        let ratio = shift::unpaired(&logarithms(&a_ratios), &logarithms(&b_ratios))?;
        Some(estimate(&a_ratios, &b_ratios, ratio, higher_is_better))
    };
    Some(ComparedMetric {
        name: a_metric.name.clone(),
        unit: a_metric.unit.clone(),
        higher_is_better,
        method: if same_gate { Method::PairedByRound } else { Method::TwoRuns },
        all: estimate(&a_values, &b_values, ratio, higher_is_better),
        beside_baseline,
    })
}

fn logarithms(values: &[f64]) -> Vec<f64> {
    values.iter().map(|value| value.ln()).collect()
}

fn ratios_to_baseline(metric: &RunMetric) -> Vec<f64> {
    metric.values.iter().map(|[base, candidate]| candidate / base).collect()
}

fn estimate(a: &[f64], b: &[f64], ratio: Interval95, higher_is_better: bool) -> RunEstimate {
    let interval = bounded_interval(&ratio, a.len().min(b.len()));
    let ratio_ci95 = interval.map(|interval| interval.map(|ln| tidy(ln.exp())));
    let finding = match ratio_ci95 {
        None => Finding::TooFewRounds,
        Some(interval) if interval.contains(1.0) => Finding::NoDifferenceShown,
        Some(interval) if (interval.lower > 1.0) == higher_is_better => Finding::Better,
        Some(_) => Finding::Worse,
    };
    RunEstimate {
        a: tidy(median(a.iter().copied())),
        b: tidy(median(b.iter().copied())),
        ratio: tidy(ratio.shift.estimate.exp()),
        ratio_ci95: ratio_ci95.map(Into::into),
        runs_a: a.len() as u64,
        runs_b: b.len() as u64,
        exact: ratio.exact,
        finding,
    }
}

/// Returns warnings about the two gates, in addition to differences between their machines.
#[must_use]
pub fn program_warnings(a: ChosenProgram<'_>, b: ChosenProgram<'_>) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if !is_same_gate(a.verdict, b.verdict) {
        let message = "The programs did not run in turn: the intervals show how runs differ within a gate, not how one gate \
                       differs from the next.";
        let hint = "Gate the two programs themselves before acting on a small difference.";
        warnings.push(Warning::new("two-gates", message, hint));
        if a.is_candidate && b.is_candidate && a.runs.a != b.runs.a {
            let message =
                format!("The gates have different baselines: {} and {}.", a.runs.a, b.runs.a);
            let hint = "The ratio of each side to its baseline includes their difference.";
            warnings.push(Warning::new("baselines-differ", message, hint));
        }
    }
    let only = |a: ChosenProgram<'_>, b: ChosenProgram<'_>| {
        let is_in_b =
            |metric: &&RunMetric| b.runs.metrics.iter().any(|m| is_same_metric(m, metric));
        let missing = a.runs.metrics.iter().filter(|metric| !is_in_b(metric));
        missing.map(|metric| metric.name.as_str()).collect::<Vec<_>>().join(", ")
    };
    for (side, other, names) in [("first", "second", only(a, b)), ("second", "first", only(b, a))] {
        if !names.is_empty() {
            let message = format!(
                "The {side} gate judged numbers that the {other} did not judge in the same unit and direction: {names}."
            );
            let hint =
                "Nothing is known about their difference: judge the same metrics in both gates.";
            warnings.push(Warning::new("metrics-on-one-side", message, hint));
        }
    }
    if a.verdict.partial || b.verdict.partial {
        let message = "A gate was interrupted: its last pairs are missing.";
        warnings.push(Warning::new("partial", message, "Gate it again."));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Comparison, Origin, SCHEMA};
    use crate::file::File as _;
    use crate::gate::verdict::{JudgedNumber, RunPlan};
    use crate::report::{Report, Tool};
    use jitterstat::gate::decision::Outcome;
    use jitterstat::stats::random::SplitMix64;

    fn tool() -> Tool {
        Tool { name: "osjitter".into(), version: "0".into(), commit: None }
    }

    /// A gate with a number of pairs, whose sides take `a` and `b` ns per run.
    fn gate(started: &str, pairs: usize, a: f64, b: f64) -> Verdict {
        let mut random = SplitMix64::new(started.len() as u64);
        // Disturbances affect both sides of a pair.
        let mut pair = || {
            let both = 1.0 + 0.2 * random.unit();
            [a, b].map(|ns| ns * both * (1.0 + 0.01 * random.unit()))
        };
        let times: Vec<_> = (0..pairs).map(|_| pair()).collect();
        let rates = times.iter().map(|pair| pair.map(|ns| 1e9 / ns)).collect();
        let metric = |name: &str, unit: &str, higher_is_better, values| RunMetric {
            name: name.into(),
            unit: unit.into(),
            higher_is_better,
            judged: JudgedNumber {
                verdict: Outcome::Pass,
                reason: None,
                ratio: None,
                ratio_interval: None,
                tolerated_ratio: 1.05,
            },
            a: 1.0,
            b: 1.0,
            pairs: pairs as u64,
            pairs_to_decide: None,
            values,
        };
        let report = Report::from_json(include_str!("../../../../../tests/fixtures/report.json"))
            .expect("a report");
        Verdict {
            schema: crate::gate::verdict::SCHEMA.into(),
            tool: tool(),
            started_utc: started.into(),
            duration_ns: 5,
            partial: false,
            verdict: Outcome::Pass,
            reason: None,
            comparisons: Vec::new(),
            runs: Some(RunsVerdict {
                a: "./old".into(),
                b: "./new".into(),
                duration_ns: 5,
                verdict: Outcome::Pass,
                reason: None,
                plan: RunPlan {
                    warmup_runs: 1,
                    prepare: None,
                    seed: 1,
                    cpu: None,
                    alpha: 0.005,
                    looks: vec![50],
                },
                pairs: pairs as u64,
                looks_taken: 1,
                metrics: vec![
                    metric("wall", "ns", false, times),
                    metric("rate", "/s", true, rates),
                ],
                unjudged: Vec::new(),
                same_program: None,
            }),
            baseline: None,
            limits: Vec::new(),
            failure: None,
            fitness: None,
            host: report.host,
            warnings: Vec::new(),
            left_over: None,
            screen: false,
        }
    }

    fn side(verdict: &Verdict, is_candidate: bool) -> ChosenProgram<'_> {
        ChosenProgram { verdict, runs: verdict.runs.as_ref().unwrap(), is_candidate }
    }

    #[test]
    fn sides_of_one_gate_are_paired() {
        let gate = gate("then", 50, 1e6, 1.03e6);
        let compared = compare_programs(side(&gate, false), side(&gate, true)).unwrap();
        let [wall, rate] = &compared[..] else { panic!() };
        assert_eq!(
            (wall.method, wall.all.finding, rate.all.finding),
            (Method::PairedByRound, Finding::Worse, Finding::Worse)
        );
        assert!(
            (wall.all.ratio - 1.03).abs() < 0.003
                && (rate.all.ratio * wall.all.ratio - 1.0).abs() < 1e-3,
            "{compared:?}"
        );
        let [low, high] = wall.all.ratio_ci95.unwrap();
        assert!(high - low < 0.01, "common disturbances cancel out");
        assert!(
            wall.beside_baseline.is_none()
                && program_warnings(side(&gate, false), side(&gate, true)).is_empty()
        );
        let back = compare_programs(side(&gate, true), side(&gate, false)).unwrap();
        assert_eq!((back[0].all.finding, back[1].all.finding), (Finding::Better, Finding::Better));
        let itself = compare_programs(side(&gate, true), side(&gate, true)).unwrap_err();
        assert_eq!(itself, CompareError::WithItself("./new".into()));
    }

    #[test]
    fn baselines_remove_machine_changes() {
        // The machine of the later gate is slower by half, and the program by 4 %.
        let (earlier, later) = (gate("then", 60, 1e6, 1e6), gate("later", 50, 1.5e6, 1.56e6));
        let compared = compare_programs(side(&earlier, true), side(&later, true)).unwrap();
        let relative = compared[0].beside_baseline.as_ref().unwrap();
        assert_eq!(
            (compared[0].method, compared[0].all.finding),
            (Method::TwoRuns, Finding::Worse)
        );
        assert!(
            (compared[0].all.ratio - 1.56).abs() < 0.05 && (relative.ratio - 1.04).abs() < 0.003,
            "{compared:?}"
        );
        assert_eq!((relative.finding, relative.runs_a, relative.runs_b), (Finding::Worse, 60, 50));
        assert!(
            compare_programs(side(&earlier, false), side(&later, true)).unwrap()[0]
                .beside_baseline
                .is_none()
        );
        let codes = |a, b| program_warnings(a, b).into_iter().map(|w| w.code).collect::<Vec<_>>();
        assert_eq!(codes(side(&earlier, true), side(&later, true)), ["two-gates"]);
        let mut turned = later.clone();
        turned.runs.as_mut().unwrap().metrics[0].higher_is_better = true;
        turned.runs.as_mut().unwrap().metrics.remove(1);
        let warnings = program_warnings(side(&turned, true), side(&earlier, true));
        let messages = warnings[1..].iter().map(|warning| warning.message.as_str());
        let names: Vec<&str> = messages.map(|text| text.rsplit(": ").next().unwrap()).collect();
        assert_eq!(names, ["wall.", "wall, rate."]);
        let mut elsewhere = later.clone();
        elsewhere.runs.as_mut().unwrap().a = "./older".into();
        elsewhere.partial = true;
        assert_eq!(
            codes(side(&earlier, true), side(&elsewhere, true)),
            ["two-gates", "baselines-differ", "partial"]
        );
        elsewhere.host.kernel = Some("another".into());
        assert_eq!(
            program_differences(side(&earlier, true), side(&elsewhere, true))[0].field,
            "kernel"
        );
        let comparison = Comparison {
            schema: SCHEMA.into(),
            tool: tool(),
            a: origin("a"),
            b: origin("b"),
            forced: Vec::new(),
            subjects: Vec::new(),
            metrics: compared,
            warnings: Vec::new(),
        };
        assert_eq!(Comparison::from_json(&comparison.to_json()).unwrap(), comparison);
    }

    fn origin(file: &str) -> Origin {
        Origin {
            file: file.into(),
            program: None,
            started_utc: "then".into(),
            partial: false,
            fitness: None,
            tool: tool(),
        }
    }

    #[test]
    fn incomparable_programs_are_rejected() {
        let (earlier, mut later) = (gate("then", 9, 1e6, 1e6), gate("later", 9, 1e6, 2e6));
        let few = compare_programs(side(&earlier, true), side(&later, true)).unwrap();
        assert_eq!((few[0].all.finding, few[0].all.ratio_ci95), (Finding::TooFewRounds, None));
        let metrics = &mut later.runs.as_mut().unwrap().metrics;
        metrics[0].unit = "s".into();
        assert_eq!(compare_programs(side(&earlier, true), side(&later, true)).unwrap().len(), 1);
        later.runs.as_mut().unwrap().metrics[1].values[3] = [1.0, 0.0];
        let refused = compare_programs(side(&earlier, true), side(&later, true)).unwrap_err();
        assert_eq!(refused, CompareError::NoValue("rate".into()));
        later.runs.as_mut().unwrap().metrics.truncate(1);
        let refused = compare_programs(side(&earlier, true), side(&later, true)).unwrap_err();
        assert_eq!(refused, CompareError::NoMetricInCommon);
        later.runs.as_mut().unwrap().metrics.clear();
        assert!(compare_programs(side(&later, true), side(&earlier, true)).is_err());
    }
}
