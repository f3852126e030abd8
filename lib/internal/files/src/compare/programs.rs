//! Programs by the numbers of their whole runs, as gates have measured them.

use super::error::CompareError;
use super::model::{ComparedMetric, Finding, Method, RunEstimate, tidy};
use super::rounds::{bounded_interval, median};
use crate::environment::{Difference, EnvironmentKey};
use crate::gate::verdict::{RunMetric, RunsVerdict, Verdict};
use crate::report::Warning;
use jitterstat::stats::shift::{self, Interval95};

/// One of the two programs of a gate of whole runs.
#[derive(Clone, Copy, Debug)]
pub struct ChosenProgram<'a> {
    /// The gate.
    pub verdict: &'a Verdict,
    /// Its runs, the verdict's.
    pub runs: &'a RunsVerdict,
    /// The candidate; otherwise the baseline.
    pub is_candidate: bool,
}

impl ChosenProgram<'_> {
    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        if self.is_candidate { &self.runs.b } else { &self.runs.a }
    }

    fn values(&self, metric: &RunMetric) -> Vec<f64> {
        metric
            .values
            .iter()
            .map(|[base, candidate]| if self.is_candidate { *candidate } else { *base })
            .collect()
    }
}

/// Whether both are of one gate, so that their runs are pairs.
fn is_same_gate(a: &Verdict, b: &Verdict) -> bool {
    (&a.started_utc, a.duration_ns, &a.host) == (&b.started_utc, b.duration_ns, &b.host)
}

/// What keeps two programs from being comparable: the machines they ran on.
#[must_use]
pub fn program_differences(a: ChosenProgram<'_>, b: ChosenProgram<'_>) -> Vec<Difference> {
    EnvironmentKey::from_host(&a.verdict.host)
        .differences(&EnvironmentKey::from_host(&b.verdict.host))
}

/// Compares two programs by every metric that both gates judged, whether they are
/// [comparable](program_differences) or not.
///
/// # Errors
/// They are one and the same, have no metric in common, or a run has a value that no metric has.
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
        let is_other = |m: &&RunMetric| {
            (&m.name, &m.unit, m.higher_is_better)
                == (&metric.name, &metric.unit, metric.higher_is_better)
        };
        let Some(other) = b.runs.metrics.iter().find(is_other) else { continue };
        compared.push(
            of_metric(a, b, metric, other, same_gate)
                .ok_or(CompareError::NoValue(metric.name.clone()))?,
        );
    }
    if compared.is_empty() { Err(CompareError::NoMetricInCommon) } else { Ok(compared) }
}

fn of_metric(
    a: ChosenProgram<'_>,
    b: ChosenProgram<'_>,
    in_a: &RunMetric,
    in_b: &RunMetric,
    same_gate: bool,
) -> Option<ComparedMetric> {
    let (of_a, of_b) = (a.values(in_a), b.values(in_b));
    let logarithms = |values: &[f64]| values.iter().map(|value| value.ln()).collect::<Vec<f64>>();
    let ratio = if same_gate {
        let pairs = logarithms(&of_a).into_iter().zip(logarithms(&of_b));
        shift::paired(&pairs.map(|(x, y)| y - x).collect::<Vec<f64>>())?
    } else {
        shift::unpaired(&logarithms(&of_a), &logarithms(&of_b))?
    };
    let higher = in_a.higher_is_better;
    let beside_baseline = if same_gate || !a.is_candidate || !b.is_candidate {
        None
    } else {
        let beside =
            |metric: &RunMetric| metric.values.iter().map(|[a, b]| b / a).collect::<Vec<f64>>();
        let (x, y) = (beside(in_a), beside(in_b));
        Some(estimate(&x, &y, shift::unpaired(&logarithms(&x), &logarithms(&y))?, higher))
    };
    Some(ComparedMetric {
        name: in_a.name.clone(),
        unit: in_a.unit.clone(),
        higher_is_better: higher,
        method: if same_gate { Method::PairedByRound } else { Method::TwoRuns },
        all: estimate(&of_a, &of_b, ratio, higher),
        beside_baseline,
    })
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
        a: tidy(median(a)),
        b: tidy(median(b)),
        ratio: tidy(ratio.shift.estimate.exp()),
        ratio_ci95: ratio_ci95.map(Into::into),
        runs_a: a.len() as u64,
        runs_b: b.len() as u64,
        exact: ratio.exact,
        finding,
    }
}

/// What of the two gates, beside their machines, a reader should know.
#[must_use]
pub fn program_warnings(a: ChosenProgram<'_>, b: ChosenProgram<'_>) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if !is_same_gate(a.verdict, b.verdict) {
        warnings.push(Warning {
            code: "two-gates".to_owned(),
            message:
                "The programs did not run in turn: the intervals show how runs differ within a gate, not how one gate \
                      differs from the next."
                    .to_owned(),
            hint: "Gate the two programs themselves before acting on a small difference.".to_owned(),
        });
        if a.is_candidate && b.is_candidate && a.runs.a != b.runs.a {
            warnings.push(Warning {
                code: "baselines-differ".to_owned(),
                message: format!(
                    "The gates have different baselines: {} and {}.",
                    a.runs.a, b.runs.a
                ),
                hint: "What each side is beside its own baseline holds their difference, too."
                    .to_owned(),
            });
        }
    }
    if a.verdict.partial || b.verdict.partial {
        let message = "A gate was interrupted: its last pairs are missing.".to_owned();
        warnings.push(Warning {
            code: "partial".to_owned(),
            message,
            hint: "Gate it again.".to_owned(),
        });
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Comparison, Origin, SCHEMA};
    use crate::file::File as _;
    use crate::report::{Report, Tool};
    use jitterstat::gate::decision::Outcome;
    use jitterstat::stats::random::SplitMix64;

    fn tool() -> Tool {
        Tool { name: "osjitter".into(), version: "0".into(), commit: None }
    }

    /// A gate at that time of so many pairs, whose sides take `a` and `b` ns and make as many
    /// things a second.
    fn gate(started: &str, pairs: usize, a: f64, b: f64) -> Verdict {
        let mut random = SplitMix64::new(started.len() as u64);
        // What disturbs a pair disturbs both sides.
        let mut pair = || {
            let both = 1.0 + 0.2 * random.unit();
            [a, b].map(|of| of * both * (1.0 + 0.01 * random.unit()))
        };
        let times: Vec<[f64; 2]> = (0..pairs).map(|_| pair()).collect();
        let rates = times.iter().map(|pair| pair.map(|ns| 1e9 / ns)).collect();
        let metric = |name: &str, unit: &str, higher_is_better, values| RunMetric {
            name: name.into(),
            unit: unit.into(),
            higher_is_better,
            verdict: Outcome::Pass,
            reason: None,
            ratio: None,
            ratio_interval: None,
            tolerated_ratio: 1.05,
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
                warmup_runs: 1,
                prepare: None,
                seed: 1,
                cpu: None,
                alpha: 0.005,
                looks: vec![50],
                pairs: pairs as u64,
                looks_taken: 1,
                metrics: vec![
                    metric("wall", "ns", false, times),
                    metric("rate", "/s", true, rates),
                ],
            }),
            baseline: None,
            limits: Vec::new(),
            failure: None,
            fitness: None,
            host: report.host,
            warnings: Vec::new(),
        }
    }

    fn side(verdict: &Verdict, is_candidate: bool) -> ChosenProgram<'_> {
        ChosenProgram { verdict, runs: verdict.runs.as_ref().unwrap(), is_candidate }
    }

    #[test]
    fn the_sides_of_one_gate_are_pairs() {
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
        assert!(high - low < 0.01, "what disturbs both sides is not in it");
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
    fn of_two_gates_the_baseline_takes_out_what_the_machine_did() {
        // The machine is half as fast again by then, and the program 4 % slower.
        let (one, other) = (gate("then", 60, 1e6, 1e6), gate("later", 50, 1.5e6, 1.56e6));
        let compared = compare_programs(side(&one, true), side(&other, true)).unwrap();
        let beside = compared[0].beside_baseline.as_ref().unwrap();
        assert_eq!(
            (compared[0].method, compared[0].all.finding),
            (Method::TwoRuns, Finding::Worse)
        );
        assert!(
            (compared[0].all.ratio - 1.56).abs() < 0.05 && (beside.ratio - 1.04).abs() < 0.003,
            "{compared:?}"
        );
        assert_eq!((beside.finding, beside.runs_a, beside.runs_b), (Finding::Worse, 60, 50));
        assert!(
            compare_programs(side(&one, false), side(&other, true)).unwrap()[0]
                .beside_baseline
                .is_none()
        );
        let codes = |a, b| program_warnings(a, b).into_iter().map(|w| w.code).collect::<Vec<_>>();
        assert_eq!(codes(side(&one, true), side(&other, true)), ["two-gates"]);
        let mut elsewhere = other.clone();
        elsewhere.runs.as_mut().unwrap().a = "./older".into();
        elsewhere.partial = true;
        assert_eq!(
            codes(side(&one, true), side(&elsewhere, true)),
            ["two-gates", "baselines-differ", "partial"]
        );
        elsewhere.host.kernel = Some("another".into());
        assert_eq!(
            program_differences(side(&one, true), side(&elsewhere, true))[0].field,
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
    fn what_cannot_be_compared_is_named() {
        let (one, mut other) = (gate("then", 9, 1e6, 1e6), gate("later", 9, 1e6, 2e6));
        let few = compare_programs(side(&one, true), side(&other, true)).unwrap();
        assert_eq!((few[0].all.finding, few[0].all.ratio_ci95), (Finding::TooFewRounds, None));
        let metrics = &mut other.runs.as_mut().unwrap().metrics;
        metrics[0].unit = "s".into();
        assert_eq!(compare_programs(side(&one, true), side(&other, true)).unwrap().len(), 1);
        other.runs.as_mut().unwrap().metrics[1].values[3] = [1.0, 0.0];
        let refused = compare_programs(side(&one, true), side(&other, true)).unwrap_err();
        assert_eq!(refused, CompareError::NoValue("rate".into()));
        other.runs.as_mut().unwrap().metrics.truncate(1);
        let refused = compare_programs(side(&one, true), side(&other, true)).unwrap_err();
        assert_eq!(refused, CompareError::NoMetricInCommon);
        other.runs.as_mut().unwrap().metrics.clear();
        assert!(compare_programs(side(&other, true), side(&one, true)).is_err());
    }
}
