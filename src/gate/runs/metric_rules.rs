//! The rules by which metrics of whole runs are judged.

use std::time::Duration;

use cli::exit::{self, usage};
use engine::measure::metric::ProgramMetric;
use jitterstat::gate::metric::MetricRule;

use crate::gate::args::{Tolerance, find_rise};

/// Default tolerance of a metric, as a share.
const DEFAULT_TOLERANCE: f64 = 0.05;
/// Default tolerance of a tail percentile, as a share.
const DEFAULT_TAIL_TOLERANCE: f64 = 0.20;

/// Builds the rule of a metric with a tolerated rise, or with the default one. Without a floor of
/// the user there is none, because many times of benchmarks and programs are nanoseconds.
pub fn metric_rule(
    metric: &ProgramMetric,
    tolerated: Option<f64>,
    floor: Option<Duration>,
) -> MetricRule {
    let tails = [":p90", ":p95", ":p99"];
    let is_tail = !metric.is_bench() && tails.iter().any(|tail| metric.name.ends_with(tail));
    let floor_ns = floor.map_or(0.0, |floor| floor.as_nanos() as f64);
    let default_tolerance = if is_tail { DEFAULT_TAIL_TOLERANCE } else { DEFAULT_TOLERANCE };
    let ns_per_unit = ns_per_unit(&metric.unit).filter(|_| !metric.higher_is_better);
    MetricRule {
        higher_is_better: metric.higher_is_better,
        tolerance: tolerated.unwrap_or(default_tolerance),
        floor: ns_per_unit.map_or(0.0, |ns_per_unit| floor_ns / ns_per_unit),
    }
}

/// Returns the nanoseconds of a unit; `None` if it is not one of a time.
pub fn ns_per_unit(unit: &str) -> Option<f64> {
    match unit {
        "ns" => Some(1.0),
        // The micro sign and the Greek letter.
        "us" | "\u{b5}s" | "\u{3bc}s" => Some(1e3),
        "ms" => Some(1e6),
        "s" => Some(1e9),
        _ => None,
    }
}

/// Checks that every tolerance applies to a judged metric, and that no metric is tolerated to fall
/// by 100 % or more. `option` is the flag that set the tolerances.
pub fn check_tolerances(
    option: &str,
    tolerances: &[Tolerance],
    metrics: &[ProgramMetric],
) -> exit::Result<()> {
    let is_judged =
        |tolerance: &Tolerance| metrics.iter().any(|metric| tolerance.applies_to(&metric.name));
    if let Some(unknown) = tolerances.iter().find(|tolerance| !is_judged(tolerance)) {
        let names: Vec<&str> = metrics.iter().map(|metric| metric.name.as_str()).collect();
        return Err(usage!(
            "{option} names {}, which is not judged; choose from {}",
            unknown.name,
            names.join(", ")
        ));
    }
    let mut rising = metrics.iter().filter(|metric| metric.higher_is_better);
    let excessive = rising.find_map(|ProgramMetric { name, .. }| {
        let rise = find_rise(tolerances, name).filter(|rise| *rise >= 1.0)?;
        Some((name, rise))
    });
    match excessive {
        Some((name, rise)) => {
            Err(usage!("more of {name} is better: it cannot fall by {:.0}%", rise * 100.0))
        }
        None => Ok(()),
    }
}
