//! What `osjitter calibrate` found here, held against what the gate is asked to tolerate.

use std::path::Path;
use std::time::Duration;

use jitterstat::environment::EnvironmentKey;
use jitterstat::gate::calibration::{Calibration, LEAST_PAIRS, ToleranceBelowNoise};
use jitterstat::gate::look::Rules;
use jitterstat::gate::verdict::Mode;
use jitterstat::report::{Host, Warning};

use crate::exit::{self, usage};
use crate::files;
use crate::gate::args::{MOST_PAIRS, Tolerance};
use crate::gate::design::PairTest;
use crate::gate::text::{change, percent};
use crate::machine::host;
use crate::text::time::{long, time};

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

/// The pairs that see all of these changes in a test, whose looks up to so many pairs `looks` plans; refused where they
/// cannot be had. The rules tolerate no more than these changes.
pub fn pairs_to_see(
    calibration: &Calibration,
    test: &PairTest,
    changes: &[Tolerance],
    most_time: Option<Duration>,
    looks: impl Fn(u64) -> exit::Result<Vec<usize>>,
) -> exit::Result<u64> {
    let (key, design) = (EnvironmentKey::of(&host::capture()), &test.design);
    let differences = calibration.differences(&key, design.period_ns, design.round_ticks);
    if !differences.is_empty() {
        let listed = differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        return Err(usage!("--see: the calibration does not hold for this gate: {listed}; nothing was measured"));
    }
    let in_time = most_time.map_or(u64::MAX, |time| (time.as_secs_f64() / test.pair_time().as_secs_f64()) as u64);
    let most = in_time.min(MOST_PAIRS);
    let mut pairs = LEAST_PAIRS as u64;
    for Tolerance { name: percentile, rise } in changes {
        let what = format!("a change of {} at {percentile}", percent(*rise));
        let metric = calibration.metrics.iter().find(|m| m.name == *percentile);
        let metric =
            metric.ok_or_else(|| usage!("--see: the calibration has no {percentile}; nothing was measured"))?;
        let tolerated = test.rules.tolerance(*rise, metric.median_ns as f64).exp_m1();
        if tolerated > rise * (1.0 + 1e-9) {
            let (is, floor) = (time((metric.median_ns as f64 * rise) as i64), time(test.rules.floor_ns as i64));
            return Err(usage!("--see: {what} is {is} here, and --floor always tolerates {floor}; lower it"));
        }
        // More looks share the alpha, and take more pairs: until the two agree.
        let mut takes = Some(LEAST_PAIRS as u64);
        for _ in 0..8 {
            let looks = looks(takes.unwrap_or(most).min(MOST_PAIRS))?;
            takes = calibration.pairs_to_see(percentile, 1.0 + rise, &Rules { looks, ..test.rules.clone() });
        }
        match takes {
            Some(n) if n <= most => pairs = pairs.max(n),
            _ => {
                let looks = looks(most.max(LEAST_PAIRS as u64))?;
                let seen = calibration.seen_at(percentile, most, &Rules { looks, ..test.rules.clone() });
                let why = match (takes, seen) {
                    (Some(n), Some(seen)) => format!(
                        "it takes about {n} pairs of rounds ({}), and {most} is the most {}; those see {}",
                        long(test.seconds(n)),
                        if in_time < MOST_PAIRS { "within --max-time" } else { "there may be" },
                        change(seen)
                    ),
                    _ => "stalls of the machine make so much of it; use a quieter machine or CPU".to_owned(),
                };
                return Err(usage!("{what} cannot be had here: {why}; nothing was measured"));
            }
        }
    }
    Ok(pairs)
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
