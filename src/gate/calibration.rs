//! Uses the file of `osjitter calibrate` in a gate: warns of tolerances below the noise level, and
//! plans the pairs that detect a change.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use cli::exit::{self, usage};
use cli::file_io;
use cli::time::{format_duration, format_small_percent, format_time};
use engine::measure::metric::ProgramMetric;
use files::environment::{Difference, EnvironmentKey};
use files::file::{File, FileError};
use files::gate::calibration::runs::RunCalibration;
use files::gate::calibration::{CalibratedNumber, Calibration, MIN_CALIBRATION_PAIRS};
use files::gate::verdict::Mode;
use files::report::{Host, Warning};
use jitterstat::gate::decision::{ALPHA, NumberRule};
use jitterstat::gate::metric::{MetricRule, alpha_share};

use crate::gate::args::{MAX_PAIRS, Tolerance, find_rise};
use crate::gate::pair_test::{PairTest, looks_of_runs, looks_up_to};
use crate::gate::runs::metric_rules::ns_per_unit;
use crate::gate::text::{format_change, format_tolerance};

/// Reads a calibration file.
///
/// # Errors
/// Returns an error if the file is invalid, or is a calibration of the other kind.
pub fn read<T: File>(file: &Path) -> exit::Result<T> {
    let text = file_io::read_text(file)?;
    T::from_json(&text).map_err(|error| {
        let reason = match error {
            FileError::OtherSchema { found, .. } if found == RunCalibration::SCHEMA => {
                "it covers whole runs, but this gate judges lateness: calibrate without --metric"
                    .to_owned()
            }
            FileError::OtherSchema { found, .. } if found == Calibration::SCHEMA => {
                "it covers lateness, but this gate judges by --metric: calibrate with that"
                    .to_owned()
            }
            error => error.to_string(),
        };
        usage!("the calibration {}: {reason}", file.display())
    })
}

/// The calibration of the numbers that a gate judges.
pub struct GateCalibration {
    /// The calibrated subject or program.
    subject: String,
    numbers: Vec<GateNumber>,
    /// Alpha of the gate, which the numbers share.
    alpha: f64,
    /// Duration of a pair of the gate.
    pair_time: Duration,
    parts: PairParts,
    /// Why the calibration does not match the gate, if it does not.
    mismatch: Option<String>,
}

/// The two parts of a pair.
#[derive(Clone, Copy)]
enum PairParts {
    Rounds,
    Runs,
}

impl PairParts {
    fn noun(self) -> &'static str {
        match self {
            Self::Rounds => "rounds",
            Self::Runs => "runs",
        }
    }

    /// Returns the preposition between a change and the name of a number.
    fn preposition(self) -> &'static str {
        match self {
            Self::Rounds => "at",
            Self::Runs => "of",
        }
    }
}

/// A number that a gate judges.
struct GateNumber {
    name: String,
    rule: NumberRule,
    calibrated: Result<CalibratedNumber, MissingNumber>,
}

/// The error of a number that a calibration does not have.
struct MissingNumber {
    name: String,
    unit: String,
}

impl fmt::Display for MissingNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.name, self.unit)
    }
}

impl GateCalibration {
    /// Matches a calibration with a test by lateness.
    pub fn from_rounds(calibration: &Calibration, test: &PairTest, host: &Host) -> Self {
        let environment = EnvironmentKey::from_host(host);
        let (period_ns, round_ticks) = (test.design.period_ns, test.design.round_ticks);
        let differences = calibration.differences(&environment, period_ns, round_ticks);
        let mismatch = if test.mode == Mode::Duet {
            Some("it was measured with the sides in turn, not both at once".to_owned())
        } else if differences.is_empty() && calibration.metrics.is_empty() {
            Some("it was interrupted before it had enough pairs".to_owned())
        } else {
            format_differences(&differences)
        };
        let mut numbers = Vec::new();
        let rules = [test.rules.median(), test.rules.tail()];
        for (calibrated, rule) in calibration.numbers().into_iter().zip(rules) {
            let name = calibrated.name.clone();
            numbers.push(GateNumber { name, rule, calibrated: Ok(calibrated) });
        }
        Self {
            subject: calibration.subject.clone(),
            numbers,
            alpha: test.rules.alpha,
            pair_time: test.pair_time(),
            parts: PairParts::Rounds,
            mismatch,
        }
    }

    /// Matches a calibration with a gate of whole runs, which has a rule for each metric.
    pub fn from_runs(
        calibration: &RunCalibration,
        metrics: &[ProgramMetric],
        rules: &[MetricRule],
        pair_time: Duration,
        host: &Host,
    ) -> Self {
        let mut numbers = Vec::new();
        for (metric, rule) in metrics.iter().zip(rules) {
            let ProgramMetric { name, unit, higher_is_better, .. } = metric;
            let key = (name, unit, higher_is_better);
            let calibrated = calibration
                .numbers()
                .into_iter()
                .find(|number| (&number.name, &number.unit, &number.higher_is_better) == key)
                .ok_or_else(|| MissingNumber { name: name.clone(), unit: unit.clone() });
            numbers.push(GateNumber { name: name.clone(), rule: rule.number_rule(), calibrated });
        }
        let environment = EnvironmentKey::from_host(host);
        Self {
            subject: calibration.program.clone(),
            numbers,
            alpha: ALPHA,
            pair_time,
            parts: PairParts::Runs,
            mismatch: format_differences(&calibration.environment.differences(&environment)),
        }
    }

    /// Warns of tolerances below the noise level, or that the calibration does not match the gate.
    pub fn warnings(&self, looks: &[usize]) -> Vec<Warning> {
        match &self.mismatch {
            Some(mismatch) => vec![unused_warning(mismatch)],
            None => self.numbers.iter().filter_map(|number| self.warning(number, looks)).collect(),
        }
    }

    fn warning(&self, number: &GateNumber, looks: &[usize]) -> Option<Warning> {
        let calibrated = match &number.calibrated {
            Ok(calibrated) => calibrated,
            Err(missing) => return Some(unused_warning(&format!("it has no {missing}"))),
        };
        let tolerated = number.rule.tolerated(calibrated.median);
        let last_look = looks.last().map_or(0, |&pairs| pairs as u64);
        let smallest = calibrated.noise_above(tolerated, last_look, self.alpha_per_look(looks))?;
        let (name, subject) = (&number.name, &self.subject);
        let tolerated = format_tolerance(calibrated.ratio(tolerated));
        let smallest = format_change(calibrated.ratio(smallest));
        Some(Warning::new(
            "tolerance-below-noise",
            format!(
                "the tolerance of {name} is {tolerated}, but {last_look} pairs detect no less than {smallest} here (calibrated \
                 with {subject}): the gate will often be inconclusive."
            ),
            &format!(
                "Use a wider --tolerance {name}=…%, a higher --max-pairs, or a quieter machine."
            ),
        ))
    }

    /// Returns the alpha of one number at one look.
    fn alpha_per_look(&self, looks: &[usize]) -> f64 {
        alpha_share(self.alpha, self.numbers.len(), looks.len())
    }

    /// Returns the alpha of one number at one look of a gate with a maximum number of pairs.
    fn alpha_with(&self, max_pairs: u64) -> f64 {
        let looks = match self.parts {
            PairParts::Rounds => looks_up_to(Mode::Interleaved, max_pairs),
            PairParts::Runs => looks_of_runs(self.numbers.len(), max_pairs),
        };
        self.alpha_per_look(&looks)
    }

    /// Returns the number of pairs with which the gate detects all changes. The rules of the gate
    /// tolerate no more than these changes.
    ///
    /// # Errors
    /// Returns an error if a change cannot be detected.
    pub fn pairs_to_detect(
        &self,
        changes: &[Tolerance],
        max_time: Option<Duration>,
    ) -> exit::Result<u64> {
        if let Some(mismatch) = &self.mismatch {
            return Err(usage!(
                "--detect: the calibration does not match this gate: {mismatch}; nothing was measured"
            ));
        }
        let pairs_in = |time: Duration| (time.as_secs_f64() / self.pair_time.as_secs_f64()) as u64;
        let max_pairs = max_time.map_or(MAX_PAIRS, |time| pairs_in(time).min(MAX_PAIRS));
        let mut pairs = MIN_CALIBRATION_PAIRS as u64;
        for number in &self.numbers {
            if let Some(rise) = find_rise(changes, &number.name) {
                pairs = pairs.max(self.pairs_for(number, rise, max_pairs)?);
            }
        }
        Ok(pairs)
    }

    /// Returns the number of pairs with which the gate detects a change of a number for the worse
    /// by a share.
    fn pairs_for(&self, number: &GateNumber, rise: f64, max_pairs: u64) -> exit::Result<u64> {
        let calibrated = number.calibrated.as_ref().map_err(|missing| {
            usage!("--detect: the calibration has no {missing}; nothing was judged")
        })?;
        let higher_is_better = calibrated.higher_is_better;
        let rule = MetricRule { higher_is_better, tolerance: rise, floor: 0.0 }.number_rule();
        let change = rule.tolerated(calibrated.median);
        let share = format_small_percent((calibrated.ratio(change) - 1.0).abs());
        let description =
            format!("a change of {share} {} {}", self.parts.preposition(), number.name);
        number.check_floor(calibrated, change, &description)?;
        // More pairs mean more looks. Those share the alpha and so need more pairs again: iterate
        // until the two agree.
        let mut needed = Some(MIN_CALIBRATION_PAIRS as u64);
        for _ in 0..8 {
            let pairs = needed.unwrap_or(max_pairs).min(MAX_PAIRS);
            needed = calibrated.pairs_to_detect(change, self.alpha_with(pairs));
        }
        if let Some(pairs) = needed.filter(|&pairs| pairs <= max_pairs) {
            return Ok(pairs);
        }
        let alpha = self.alpha_with(max_pairs.max(MIN_CALIBRATION_PAIRS as u64));
        let smallest = calibrated.smallest_detectable(max_pairs, alpha);
        let smallest = smallest.map(|change| format_change(calibrated.ratio(change)));
        let reason = match needed.zip(smallest) {
            Some((needed, smallest)) => self.explain_shortage(needed, max_pairs, &smallest),
            None if calibrated.changes.is_empty() => {
                "the calibration reached no look; calibrate for longer".to_owned()
            }
            None => "it consists mostly of stalls of the machine; use a quieter machine or CPU"
                .to_owned(),
        };
        Err(usage!("cannot detect {description} here: {reason}; nothing was measured"))
    }

    /// Explains that a change needs more pairs than allowed, and names the smallest change that the
    /// allowed pairs detect.
    fn explain_shortage(&self, needed: u64, max_pairs: u64, smallest: &str) -> String {
        let noun = self.parts.noun();
        let duration = format_duration(self.pair_time.as_secs_f64() * needed as f64);
        let limit = if max_pairs < MAX_PAIRS { "within --max-time" } else { "in a gate" };
        format!(
            "it needs about {needed} pairs of {noun} ({duration}), but {max_pairs} is the maximum {limit}; those detect \
             {smallest}"
        )
    }
}

impl GateNumber {
    /// Checks that --floor does not tolerate a change.
    fn check_floor(
        &self,
        calibrated: &CalibratedNumber,
        change: f64,
        description: &str,
    ) -> exit::Result<()> {
        if self.rule.tolerated(calibrated.median) <= change * (1.0 + 1e-9) {
            return Ok(());
        }
        // Only a time has a floor.
        let ns_per_unit = ns_per_unit(&calibrated.unit).unwrap_or(1.0);
        let amount = format_time((calibrated.median * change.exp_m1() * ns_per_unit) as i64);
        let floor = format_time((self.rule.floor * ns_per_unit) as i64);
        Err(usage!(
            "--detect: {description} is {amount} here, and --floor always tolerates {floor}; lower it"
        ))
    }
}

/// Formats differences between the calibration and the gate, if there are any.
fn format_differences(differences: &[Difference]) -> Option<String> {
    let differences: Vec<String> = differences.iter().map(ToString::to_string).collect();
    if !differences.is_empty() { Some(differences.join("; ")) } else { None }
}

fn unused_warning(reason: &str) -> Warning {
    Warning::new(
        "calibration-not-used",
        format!("The calibration does not match this gate: {reason}."),
        "Calibrate on this machine, in the same way.",
    )
}
