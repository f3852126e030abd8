//! What `osjitter calibrate` found here, held against what the gate is asked to tolerate.

use std::path::Path;

use jitterstat::environment::EnvironmentKey;
use jitterstat::file::File as _;
use jitterstat::gate::calibration::Calibration;
use jitterstat::gate::verdict::Mode;
use jitterstat::report::{Host, Warning};

use crate::gate::plan::Comparison;
use crate::interop;

/// Reads the file before anything is measured.
pub fn read(file: &Path) -> Result<Calibration, String> {
    let text = interop::read_text(file).map_err(|e| format!("the calibration: {e}"))?;
    Calibration::from_json(&text).map_err(|e| format!("the calibration {}: {e}", file.display()))
}

/// A tolerance that the machine is too noisy for, and why the calibration does not tell.
pub fn warnings(calibration: &Calibration, comparisons: &[Comparison], host: &Host) -> Vec<Warning> {
    let here = EnvironmentKey::of(host);
    let mut warnings: Vec<Warning> = Vec::new();
    for comparison in comparisons {
        let plan = &comparison.plan;
        let differences = calibration.differences(&here, plan.period_ns, plan.round_ticks);
        let why_not = if comparison.mode == Mode::Duet {
            Some("it is of sides in turn, not of both at once".to_owned())
        } else if !differences.is_empty() {
            Some(differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
        } else if calibration.metrics.is_empty() {
            Some("it was interrupted before it knew anything".to_owned())
        } else {
            None
        };
        let found = match why_not {
            Some(why) => vec![not_used(&why)],
            None => calibration
                .below_floor(&comparison.rules)
                .into_iter()
                .map(|below| too_tight(&below, calibration))
                .collect(),
        };
        for warning in found {
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
    }
    warnings
}

fn not_used(why: &str) -> Warning {
    Warning {
        code: "calibration-not-used".to_owned(),
        message: format!("The calibration does not hold for this gate: {why}."),
        hint: "Calibrate on this machine, with this period and these rounds.".to_owned(),
    }
}

fn too_tight(below: &jitterstat::gate::calibration::BelowFloor, calibration: &Calibration) -> Warning {
    let percent = |ratio: f64| format!("+{:.1} %", (ratio - 1.0) * 100.0);
    let (name, pairs, subject) = (&below.name, below.pairs, &calibration.subject);
    let (tolerated, smallest) = (percent(below.tolerated), percent(below.smallest));
    Warning {
        code: "tolerance-below-noise".to_owned(),
        message: format!(
            "{name} is tolerated to rise by {tolerated}, and {pairs} pairs show {smallest} here (calibrated with {subject}): \
             the gate will often be undecided."
        ),
        hint: format!("Tolerate more, with --tolerance {name}=…%, raise --max-rounds, or use a quieter machine."),
    }
}
