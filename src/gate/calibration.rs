//! What `osjitter calibrate` found here, held against what the gate is asked to tolerate.

use std::path::Path;

use jitterstat::environment::EnvironmentKey;
use jitterstat::gate::calibration::{Calibration, ToleranceBelowNoise};
use jitterstat::gate::verdict::Mode;
use jitterstat::report::{Host, Warning};

use crate::exit;
use crate::files;
use crate::gate::design::PairTest;
use crate::gate::text::change;

/// Reads the file before anything is measured.
pub fn read(file: &Path) -> exit::Result<Calibration> {
    files::read(file).map_err(|e| e.context("the calibration"))
}

/// A tolerance below the noise level, or why the calibration does not tell.
pub fn warnings(calibration: &Calibration, tests: &[PairTest], host: &Host) -> Vec<Warning> {
    let here = EnvironmentKey::of(host);
    let mut warnings: Vec<Warning> = Vec::new();
    for test in tests {
        let differences = calibration.differences(&here, test.design.period_ns, test.design.round_ticks);
        let found = if test.mode == Mode::Duet {
            vec![not_used("it is of sides in turn, not of both at once")]
        } else if !differences.is_empty() {
            vec![not_used(&differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
        } else if calibration.metrics.is_empty() {
            vec![not_used("it was interrupted before it knew anything")]
        } else {
            let below = calibration.below_noise(&test.rules);
            below.iter().map(|below| too_tight(below, &calibration.subject)).collect()
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

fn too_tight(below: &ToleranceBelowNoise, subject: &str) -> Warning {
    let (name, pairs) = (&below.name, below.pairs);
    let (tolerated, smallest) = (change(below.tolerated), change(below.smallest));
    Warning {
        code: "tolerance-below-noise".to_owned(),
        message: format!(
            "{name} is tolerated to rise by {tolerated}, and {pairs} pairs show {smallest} here (calibrated with {subject}): \
             the gate will often be undecided."
        ),
        hint: format!("Tolerate more, with --tolerance {name}=…%, raise --max-pairs, or use a quieter machine."),
    }
}
