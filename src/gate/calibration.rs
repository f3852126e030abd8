//! What `osjitter calibrate` found here, held against what the gate is asked to tolerate.

use std::path::Path;
use std::time::Duration;

use cli::exit::{self, usage};
use cli::time::{format_duration, format_time};
use engine::machine::host;
use engine::measure::metric::ProgramMetric;
use files::environment::{Difference, EnvironmentKey};
use files::file::File;
use files::gate::calibration::runs::{self, CalibratedRunMetric, RunCalibration};
use files::gate::calibration::{Calibration, MIN_CALIBRATION_PAIRS, SCHEMA, ToleranceBelowNoise};
use files::gate::verdict::Mode;
use files::report::{Host, Warning};
use jitterstat::gate::decision::Rules;
use jitterstat::gate::metric::MetricRule;
use jitterstat::gate::metric::alpha_share;

use crate::file_io;
use crate::gate::args::{MAX_PAIRS, Tolerance};
use crate::gate::design::PairTest;
use crate::gate::runs::programs::is_for;
use crate::gate::text::{asked, change, percent, tolerated};

/// Reads the file before anything is measured.
pub fn read<T: File>(file: &Path) -> exit::Result<T> {
    let text = file_io::read_text(file)?;
    let of = |schema: &str| schema != T::SCHEMA && text.contains(&format!("\"{schema}\""));
    let read = T::from_json(&text).map_err(|error| match error {
        _ if of(runs::SCHEMA) => {
            usage!(
                "it covers whole runs, but this gate judges lateness: calibrate without --metric"
            )
        }
        _ if of(SCHEMA) => {
            usage!("it covers lateness, but this gate judges by --metric: calibrate with that")
        }
        error => usage!("{error}"),
    });
    read.map_err(|e| e.context(format_args!("the calibration {}", file.display())))
}

/// A tolerance below the noise level, or why the calibration does not help.
pub fn warnings(calibration: &Calibration, tests: &[PairTest], host: &Host) -> Vec<Warning> {
    let here = EnvironmentKey::from_host(host);
    let mut warnings: Vec<Warning> = Vec::new();
    for test in tests {
        let differences =
            calibration.differences(&here, test.design.period_ns, test.design.round_ticks);
        let found = if test.mode == Mode::Duet {
            vec![not_used("it was measured with the sides in turn, not both at once")]
        } else if !differences.is_empty() {
            vec![not_used(
                &differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
            )]
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

/// Whole runs: a tolerance below the noise level, or why the calibration does not help.
pub fn run_warnings(
    calibration: &RunCalibration,
    numbers: &[ProgramMetric],
    rules: &[MetricRule],
    looks: &[usize],
    host: &Host,
) -> Vec<Warning> {
    let differences = calibration.differences(&EnvironmentKey::from_host(host));
    if !differences.is_empty() {
        return vec![not_used(
            &differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
        )];
    }
    let share = alpha_share(Rules::new(1).alpha, numbers.len(), looks.len());
    let last = looks.last().map_or(0, |&n| n as u64);
    let of = |(number, rule): (&ProgramMetric, &MetricRule)| {
        let Some(metric) = calibrated(calibration, number) else {
            return Some(not_used(&format!("it has no {} in {}", number.name, number.unit)));
        };
        let below = calibration.below_noise(metric, rule, last, share)?;
        Some(too_tight(&below, &calibration.program))
    };
    numbers.iter().zip(rules).filter_map(of).collect()
}

/// What was calibrated of a number.
fn calibrated<'a>(
    calibration: &'a RunCalibration,
    number: &ProgramMetric,
) -> Option<&'a CalibratedRunMetric> {
    let metric = calibration.metric(&number.name)?;
    (metric.unit == number.unit && metric.higher_is_better == number.higher_is_better)
        .then_some(metric)
}

/// Pairs to be planned, so that a gate sees a change.
struct Planning<'a> {
    /// How long a pair takes, and what it is of.
    pair_time: Duration,
    pair_of: &'a str,
    most_time: Option<Duration>,
    /// The looks of a gate of at most so many pairs.
    looks: &'a dyn Fn(u64) -> exit::Result<Vec<usize>>,
}

impl Planning<'_> {
    fn in_time(&self) -> u64 {
        self.most_time
            .map_or(u64::MAX, |time| (time.as_secs_f64() / self.pair_time.as_secs_f64()) as u64)
    }

    fn most(&self) -> u64 {
        self.in_time().min(MAX_PAIRS)
    }

    /// The pairs that see `what`, by what a gate with given looks needs; refused where they cannot
    /// be had, with what the most pairs see, or that none do.
    fn pairs(
        &self,
        what: &str,
        needed: impl Fn(Vec<usize>) -> Option<u64>,
        seen: impl Fn(u64, Vec<usize>) -> Option<String>,
        none_do: &str,
    ) -> exit::Result<u64> {
        let most = self.most();
        // More looks share the alpha, and take more pairs: until the two agree.
        let mut takes = Some(MIN_CALIBRATION_PAIRS as u64);
        for _ in 0..8 {
            takes = needed((self.looks)(takes.unwrap_or(most).min(MAX_PAIRS))?);
        }
        if let Some(n) = takes.filter(|n| *n <= most) {
            return Ok(n);
        }
        let seen = seen(most, (self.looks)(most.max(MIN_CALIBRATION_PAIRS as u64))?);
        let why = match (takes, seen) {
            (Some(n), Some(seen)) => format!(
                "it takes about {n} pairs of {} ({}), and {most} is the most {}; those see {seen}",
                self.pair_of,
                format_duration(self.pair_time.as_secs_f64() * n as f64),
                if self.in_time() < MAX_PAIRS { "within --max-time" } else { "there may be" },
            ),
            _ => none_do.to_owned(),
        };
        Err(usage!("{what} cannot be had here: {why}; nothing was measured"))
    }
}

/// The calibration must be of such a machine.
fn holds(differences: &[Difference]) -> exit::Result<()> {
    if differences.is_empty() {
        return Ok(());
    }
    let listed = differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    Err(usage!(
        "--see: the calibration does not hold for this gate: {listed}; nothing was measured"
    ))
}

/// The pairs that see all of these changes in a test, whose looks up to so many pairs `looks`
/// plans; refused where they cannot be had. The rules tolerate no more than these changes.
pub fn pairs_to_detect(
    calibration: &Calibration,
    test: &PairTest,
    changes: &[Tolerance],
    most_time: Option<Duration>,
    looks: impl Fn(u64) -> exit::Result<Vec<usize>>,
) -> exit::Result<u64> {
    let (key, design) = (EnvironmentKey::from_host(&host::capture()), &test.design);
    holds(&calibration.differences(&key, design.period_ns, design.round_ticks))?;
    let planning =
        Planning { pair_time: test.pair_time(), pair_of: "rounds", most_time, looks: &looks };
    let mut pairs = MIN_CALIBRATION_PAIRS as u64;
    for Tolerance { name: percentile, rise } in changes {
        let what = format!("a change of {} at {percentile}", asked(*rise));
        let metric = calibration.metrics.iter().find(|m| m.name == *percentile);
        let metric = metric.ok_or_else(|| {
            usage!("--see: the calibration has no {percentile}; nothing was measured")
        })?;
        let tolerated = test.rules.tolerance(*rise, metric.median_ns as f64).exp_m1();
        if tolerated > rise * (1.0 + 1e-9) {
            let (is, floor) = (
                format_time((metric.median_ns as f64 * rise) as i64),
                format_time(test.rules.floor_ns as i64),
            );
            return Err(usage!(
                "--see: {what} is {is} here, and --floor always tolerates {floor}; lower it"
            ));
        }
        let rules = |looks| Rules { looks, ..test.rules.clone() };
        let needed = |looks| calibration.pairs_to_detect(percentile, 1.0 + rise, &rules(looks));
        let seen = |most, looks| {
            calibration.smallest_detectable(percentile, most, &rules(looks)).map(change)
        };
        let none_do = "stalls of the machine make so much of it; use a quieter machine or CPU";
        pairs = pairs.max(planning.pairs(&what, needed, seen, none_do)?);
    }
    Ok(pairs)
}

/// The pairs of whole runs that see all of these changes, each of which takes so long; refused
/// where they cannot be had. The rules tolerate no more than these changes.
pub fn runs_to_see(
    calibration: &RunCalibration,
    (numbers, rules): (&[ProgramMetric], &[MetricRule]),
    changes: &[Tolerance],
    (most_time, pair_time): (Option<Duration>, Duration),
    looks: impl Fn(u64) -> exit::Result<Vec<usize>>,
) -> exit::Result<u64> {
    holds(&calibration.differences(&EnvironmentKey::from_host(&host::capture())))?;
    let planning = Planning { pair_time, pair_of: "runs", most_time, looks: &looks };
    let mut pairs = MIN_CALIBRATION_PAIRS as u64;
    for (number, rule) in
        numbers.iter().zip(rules).filter(|(n, _)| changes.iter().any(|c| is_for(c, &n.name)))
    {
        let (name, rise) = (&number.name, rule.tolerance);
        let what = format!("a change of {} of {name}", asked(rise));
        let metric = calibrated(calibration, number).ok_or_else(|| {
            usage!("--see: the calibration has no {name} in {}; nothing was judged", number.unit)
        })?;
        if rule.tolerated(metric.median)
            > (MetricRule { floor: 0.0, ..*rule }).tolerated(metric.median) * (1.0 + 1e-9)
        {
            let (is, floor) =
                (format_time((metric.median * rise) as i64), format_time(rule.floor as i64));
            return Err(usage!(
                "--see: {what} is {is} here, and --floor always tolerates {floor}; lower it"
            ));
        }
        let share =
            |looks: Vec<usize>| alpha_share(Rules::new(1).alpha, numbers.len(), looks.len());
        let needed = |looks| calibration.pairs_to_detect(metric, rise, share(looks));
        let seen =
            |most, looks| calibration.smallest_detectable(metric, most, share(looks)).map(percent);
        pairs = pairs.max(planning.pairs(
            &what,
            needed,
            seen,
            "the calibration reached no look; calibrate for longer",
        )?);
    }
    Ok(pairs)
}

fn not_used(why: &str) -> Warning {
    Warning {
        code: "calibration-not-used".to_owned(),
        message: format!("The calibration does not hold for this gate: {why}."),
        hint: "Calibrate on this machine, in the same way.".to_owned(),
    }
}

fn too_tight(below: &ToleranceBelowNoise, subject: &str) -> Warning {
    let (name, pairs) = (&below.name, below.pairs);
    let (tolerated, smallest) = (tolerated(below.tolerated), change(below.smallest));
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
