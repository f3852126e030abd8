//! Uses the file of `osjitter calibrate` in a gate: warns of tolerances below the noise level, and
//! plans the pairs that detect a change.

use std::path::Path;
use std::time::Duration;

use cli::exit::{self, Error, usage};
use cli::time::{format_duration, format_time};
use engine::machine::host;
use engine::measure::metric::ProgramMetric;
use files::environment::{Difference, EnvironmentKey};
use files::file::File;
use files::gate::calibration::runs::{self, CalibratedRunMetric, RunCalibration};
use files::gate::calibration::{Calibration, MIN_CALIBRATION_PAIRS, SCHEMA, ToleranceBelowNoise};
use files::gate::verdict::{GateDesign, Mode};
use files::report::{Host, Warning};
use jitterstat::gate::decision::{ALPHA, NumberRule, Rules};
use jitterstat::gate::metric::{MetricRule, alpha_share};

use crate::file_io;
use crate::gate::args::{MAX_PAIRS, Tolerance};
use crate::gate::design::PairTest;
use crate::gate::runs::programs::applies_to;
use crate::gate::text::{format_change, format_percent, format_small_percent, format_tolerance};

/// Reads a calibration file.
///
/// # Errors
/// Returns an error if the file is invalid, or is a calibration of the other kind.
pub fn read<T: File>(file: &Path) -> exit::Result<T> {
    let text = file_io::read_text(file)?;
    let has_schema = |schema: &str| schema != T::SCHEMA && text.contains(&format!("\"{schema}\""));
    let read = T::from_json(&text).map_err(|error| {
        if has_schema(runs::SCHEMA) {
            Error::usage(
                "it covers whole runs, but this gate judges lateness: calibrate without --metric",
            )
        } else if has_schema(SCHEMA) {
            Error::usage(
                "it covers lateness, but this gate judges by --metric: calibrate with that",
            )
        } else {
            usage!("{error}")
        }
    });
    read.map_err(|e| e.context(format_args!("the calibration {}", file.display())))
}

/// Warns of tolerances below the noise level, or that the calibration does not match the tests.
pub fn warnings(calibration: &Calibration, tests: &[PairTest], host: &Host) -> Vec<Warning> {
    let environment = EnvironmentKey::from_host(host);
    let mut warnings: Vec<Warning> = Vec::new();
    for warning in tests.iter().flat_map(|test| test_warnings(calibration, test, &environment)) {
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
    warnings
}

fn test_warnings(
    calibration: &Calibration,
    test: &PairTest,
    environment: &EnvironmentKey,
) -> Vec<Warning> {
    let GateDesign { period_ns, round_ticks, .. } = test.design;
    let differences = calibration.differences(environment, period_ns, round_ticks);
    if test.mode == Mode::Duet {
        vec![unused_warning("it was measured with the sides in turn, not both at once")]
    } else if !differences.is_empty() {
        vec![unused_warning(&format_differences(&differences))]
    } else if calibration.metrics.is_empty() {
        vec![unused_warning("it was interrupted before it had enough pairs")]
    } else {
        let below = calibration.below_noise(&test.rules);
        below.iter().map(|below| noise_warning(below, &calibration.subject)).collect()
    }
}

/// Warns of tolerances of whole runs below the noise level, or that the calibration does not match
/// the gate.
pub fn run_warnings(
    calibration: &RunCalibration,
    metrics: &[ProgramMetric],
    rules: &[MetricRule],
    looks: &[usize],
    host: &Host,
) -> Vec<Warning> {
    let differences = calibration.differences(&EnvironmentKey::from_host(host));
    if !differences.is_empty() {
        return vec![unused_warning(&format_differences(&differences))];
    }
    let share = alpha_share(ALPHA, metrics.len(), looks.len());
    let last_look = looks.last().map_or(0, |&pairs| pairs as u64);
    let mut warnings = Vec::new();
    for (metric, rule) in metrics.iter().zip(rules) {
        let Some(calibrated) = calibrated_metric(calibration, metric) else {
            let reason = format!("it has no {} in {}", metric.name, metric.unit);
            warnings.push(unused_warning(&reason));
            continue;
        };
        if let Some(below) = calibration.below_noise(calibrated, rule, last_look, share) {
            warnings.push(noise_warning(&below, &calibration.program));
        }
    }
    warnings
}

/// Returns the calibration of a metric, if it has the same unit and direction.
fn calibrated_metric<'a>(
    calibration: &'a RunCalibration,
    metric: &ProgramMetric,
) -> Option<&'a CalibratedRunMetric> {
    let calibrated = calibration.metric(&metric.name)?;
    let is_same =
        calibrated.unit == metric.unit && calibrated.higher_is_better == metric.higher_is_better;
    is_same.then_some(calibrated)
}

/// Computes the number of pairs with which a gate detects a change.
struct PairPlanner<'a> {
    pair_time: Duration,
    /// The two parts of a pair: "rounds" or "runs".
    pair_noun: &'static str,
    max_time: Option<Duration>,
    /// Plans the looks of a gate with a maximum number of pairs.
    plan_looks: &'a dyn Fn(u64) -> exit::Result<Vec<usize>>,
}

/// A change that a gate must detect.
struct DetectableChange<'a> {
    /// Names the change in error messages.
    description: &'a str,
    /// Returns the number of pairs that a gate with the given looks needs.
    needed_pairs: &'a dyn Fn(Vec<usize>) -> Option<u64>,
    /// Describes the smallest change that a gate with this many pairs and these looks detects.
    smallest_change: &'a dyn Fn(u64, Vec<usize>) -> Option<String>,
    /// Explains why no number of pairs may detect the change.
    undetectable: &'static str,
}

impl PairPlanner<'_> {
    fn max_pairs_in_time(&self) -> u64 {
        let pair_seconds = self.pair_time.as_secs_f64();
        self.max_time.map_or(u64::MAX, |time| (time.as_secs_f64() / pair_seconds) as u64)
    }

    /// Returns the number of pairs that detect a change.
    ///
    /// # Errors
    /// Returns an error if more pairs are needed than allowed. It names the smallest change that
    /// the allowed pairs detect.
    fn pairs(&self, change: &DetectableChange<'_>) -> exit::Result<u64> {
        let max_pairs = self.max_pairs_in_time().min(MAX_PAIRS);
        // More pairs mean more looks. Those share the alpha and so need more pairs again: iterate
        // until the two agree.
        let mut needed = Some(MIN_CALIBRATION_PAIRS as u64);
        for _ in 0..8 {
            let looks = (self.plan_looks)(needed.unwrap_or(max_pairs).min(MAX_PAIRS))?;
            needed = (change.needed_pairs)(looks);
        }
        match needed {
            Some(pairs) if pairs <= max_pairs => Ok(pairs),
            needed => Err(self.refusal(change, needed, max_pairs)?),
        }
    }

    fn refusal(
        &self,
        change: &DetectableChange<'_>,
        needed: Option<u64>,
        max_pairs: u64,
    ) -> exit::Result<Error> {
        let looks = (self.plan_looks)(max_pairs.max(MIN_CALIBRATION_PAIRS as u64))?;
        let smallest = (change.smallest_change)(max_pairs, looks);
        let reason = match (needed, smallest) {
            (Some(pairs), Some(smallest)) => {
                let noun = self.pair_noun;
                let duration = format_duration(self.pair_time.as_secs_f64() * pairs as f64);
                let is_limited_by_time = self.max_pairs_in_time() < MAX_PAIRS;
                let limit = if is_limited_by_time { "within --max-time" } else { "in a gate" };
                format!(
                    "it needs about {pairs} pairs of {noun} ({duration}), but {max_pairs} is the maximum {limit}; \
                     those detect {smallest}"
                )
            }
            _ => change.undetectable.to_owned(),
        };
        let description = change.description;
        Ok(usage!("cannot detect {description} here: {reason}; nothing was measured"))
    }
}

/// Checks that the calibration was measured like the gate.
fn check_matches_gate(differences: &[Difference]) -> exit::Result<()> {
    if differences.is_empty() {
        return Ok(());
    }
    let differences = format_differences(differences);
    Err(usage!(
        "--detect: the calibration does not match this gate: {differences}; nothing was measured"
    ))
}

fn format_differences(differences: &[Difference]) -> String {
    differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Returns the number of pairs with which a test detects all changes. The rules of the test
/// tolerate no more than these changes; `plan_looks` plans its looks for a maximum number of pairs.
///
/// # Errors
/// Returns an error if a change cannot be detected.
pub fn pairs_to_detect(
    calibration: &Calibration,
    test: &PairTest,
    changes: &[Tolerance],
    max_time: Option<Duration>,
    plan_looks: impl Fn(u64) -> exit::Result<Vec<usize>>,
) -> exit::Result<u64> {
    let GateDesign { period_ns, round_ticks, .. } = test.design;
    let environment = EnvironmentKey::from_host(&host::capture());
    check_matches_gate(&calibration.differences(&environment, period_ns, round_ticks))?;
    let planner = PairPlanner {
        pair_time: test.pair_time(),
        pair_noun: "rounds",
        max_time,
        plan_looks: &plan_looks,
    };
    let mut pairs = MIN_CALIBRATION_PAIRS as u64;
    for Tolerance { name: percentile, rise } in changes {
        let description = format!("a change of {} at {percentile}", format_small_percent(*rise));
        let metric = calibration.metrics.iter().find(|metric| metric.name == *percentile);
        let metric = metric.ok_or_else(|| {
            usage!("--detect: the calibration has no {percentile}; nothing was measured")
        })?;
        let median_ns = metric.median_ns as f64;
        let rule = NumberRule { tolerance: *rise, ..test.rules.median() };
        let tolerated = rule.tolerated(median_ns).exp_m1();
        if tolerated > rise * (1.0 + 1e-9) {
            return Err(below_floor(&description, median_ns * rise, test.rules.floor_ns));
        }
        let rules = |looks| Rules { looks, ..test.rules.clone() };
        let change = DetectableChange {
            description: &description,
            needed_pairs: &|looks| {
                calibration.pairs_to_detect(percentile, 1.0 + rise, &rules(looks))
            },
            smallest_change: &|max_pairs, looks| {
                calibration
                    .smallest_detectable(percentile, max_pairs, &rules(looks))
                    .map(format_change)
            },
            undetectable: "stalls of the machine make so much of it; use a quieter machine or CPU",
        };
        pairs = pairs.max(planner.pairs(&change)?);
    }
    Ok(pairs)
}

/// The metrics of whole runs that a gate judges.
pub struct RunsToJudge<'a> {
    pub metrics: &'a [ProgramMetric],
    /// The rule of each metric.
    pub rules: &'a [MetricRule],
    pub pair_time: Duration,
}

/// Returns the number of pairs of whole runs with which a gate detects all changes. The rules
/// tolerate no more than these changes; `plan_looks` plans the looks for a maximum number of pairs.
///
/// # Errors
/// Returns an error if a change cannot be detected.
pub fn runs_to_see(
    calibration: &RunCalibration,
    runs: RunsToJudge<'_>,
    changes: &[Tolerance],
    max_time: Option<Duration>,
    plan_looks: impl Fn(u64) -> exit::Result<Vec<usize>>,
) -> exit::Result<u64> {
    let RunsToJudge { metrics, rules, pair_time } = runs;
    let environment = EnvironmentKey::from_host(&host::capture());
    check_matches_gate(&calibration.differences(&environment))?;
    let planner = PairPlanner { pair_time, pair_noun: "runs", max_time, plan_looks: &plan_looks };
    let share = |looks: Vec<usize>| alpha_share(ALPHA, metrics.len(), looks.len());
    let has_change =
        |metric: &ProgramMetric| changes.iter().any(|change| applies_to(change, &metric.name));
    let mut pairs = MIN_CALIBRATION_PAIRS as u64;
    for (metric, rule) in metrics.iter().zip(rules).filter(|(metric, _)| has_change(metric)) {
        let (name, rise) = (&metric.name, rule.tolerance);
        let description = format!("a change of {} of {name}", format_small_percent(rise));
        let calibrated = calibrated_metric(calibration, metric).ok_or_else(|| {
            usage!("--detect: the calibration has no {name} in {}; nothing was judged", metric.unit)
        })?;
        let (judged, median) = (rule.number_rule(), calibrated.median);
        let without_floor = NumberRule { floor: 0.0, ..judged };
        if judged.tolerated(median) > without_floor.tolerated(median) * (1.0 + 1e-9) {
            return Err(below_floor(&description, median * rise, rule.floor));
        }
        let change = DetectableChange {
            description: &description,
            needed_pairs: &|looks| calibration.pairs_to_detect(calibrated, rise, share(looks)),
            smallest_change: &|max_pairs, looks| {
                calibration
                    .smallest_detectable(calibrated, max_pairs, share(looks))
                    .map(format_percent)
            },
            undetectable: "the calibration reached no look; calibrate for longer",
        };
        pairs = pairs.max(planner.pairs(&change)?);
    }
    Ok(pairs)
}

/// Builds the error for a change that --floor always tolerates.
fn below_floor(description: &str, change_ns: f64, floor_ns: f64) -> Error {
    let (change, floor) = (format_time(change_ns as i64), format_time(floor_ns as i64));
    usage!(
        "--detect: {description} is {change} here, and --floor always tolerates {floor}; lower it"
    )
}

fn unused_warning(reason: &str) -> Warning {
    Warning {
        code: "calibration-not-used".to_owned(),
        message: format!("The calibration does not match this gate: {reason}."),
        hint: "Calibrate on this machine, in the same way.".to_owned(),
    }
}

fn noise_warning(below: &ToleranceBelowNoise, subject: &str) -> Warning {
    let (name, pairs) = (&below.name, below.pairs);
    let tolerated = format_tolerance(below.tolerated);
    let smallest = format_change(below.smallest);
    Warning {
        code: "tolerance-below-noise".to_owned(),
        message: format!(
            "{name} is tolerated to change by {tolerated}, and {pairs} pairs show {smallest} here (calibrated with {subject}): \
             the gate will often be undecided."
        ),
        hint: format!(
            "Tolerate more, with --tolerance {name}=…%, raise --max-pairs, or use a quieter machine."
        ),
    }
}
