//! The metrics of two programs, resolved by a run of each: those that both have, and the benchmarks
//! that cannot be judged.

use std::collections::{BTreeSet, HashSet};

use cli::exit::{self, Error, usage};
use cli::printable::to_printable_line;
use cli::time::format_time;
use cli::units::{format_exact_duration, to_signed_ns};
use engine::measure::metric::{self, ProgramMetric, ResolvedRun, UnjudgedNumber};
use engine::measure::metric_spec::MetricSpec;
use engine::measure::run_values::RunValues;
use files::gate::verdict::{UnjudgedBench, UnjudgedReason};
use jitterstat::gate::{Side, Sides};
use jitterstat::series::Better;

use super::first_runs::FirstRuns;
use super::programs::Programs;

/// Maximum number of benchmarks that a message lists.
const MAX_LISTED_NAMES: usize = 10;

/// The metrics that both sides have, and the benchmarks that cannot be judged.
#[derive(Default)]
pub struct ResolvedMetrics {
    pub metrics: Vec<ProgramMetric>,
    pub unjudged: Vec<UnjudgedBench>,
}

impl Programs {
    /// Resolves the requested metrics by a run of each side.
    ///
    /// # Errors
    /// Returns an error if a side lacks a metric, the sides report different metrics, a metric is
    /// requested twice, no benchmark reports a number, the runs are too short to be judged, or
    /// nothing remains to be judged.
    pub fn resolve_metrics(&self, first_runs: &FirstRuns) -> exit::Result<ResolvedMetrics> {
        let base = self.resolve_side(Side::Base, &first_runs.last)?;
        let candidate = self.resolve_side(Side::Candidate, &first_runs.last)?;
        let is_other = |metric: &&ProgramMetric| !metric.is_bench();
        let pairs = base.metrics.iter().filter(is_other);
        let mut pairs = pairs.zip(candidate.metrics.iter().filter(is_other));
        if let Some((a, b)) = pairs.find(|(a, b)| !is_same_metric(a, b)) {
            let describe = |metric: &ProgramMetric| {
                let better = if metric.higher_is_better { Better::Higher } else { Better::Lower };
                match a.higher_is_better == b.higher_is_better {
                    true => format!("{} in {}", metric.name, metric.unit),
                    false => format!("{} in {} ({better} is better)", metric.name, metric.unit),
                }
            };
            return Err(usage!(
                "the sides write different metrics: {} and {}",
                describe(a),
                describe(b)
            ));
        }
        let metrics = &candidate.metrics;
        if let Some(index) = (1..metrics.len()).find(|&i| metrics[..i].contains(&metrics[i])) {
            return Err(usage!("--metric names {} twice", metrics[index].name));
        }
        let resolved = pair_metrics(&Sides { base, candidate });
        if resolved.metrics.is_empty() {
            return Err(nothing_to_judge(&resolved.unjudged));
        }
        self.check_numbers(&first_runs.last)?;
        self.check_run_time(&first_runs.last)?;
        Ok(resolved)
    }

    /// Checks that a benchmark reports each requested number.
    fn check_numbers(&self, last_runs: &Sides<RunValues>) -> exit::Result<()> {
        let Some(benches) = &self.benches else { return Ok(()) };
        let reported: BTreeSet<&str> =
            last_runs.iter().flat_map(RunValues::bench_numbers).collect();
        let mut numbers = benches.numbers.iter();
        match numbers.find(|number| !reported.contains(number.as_str())) {
            Some(number) => Err(usage!(
                "no benchmark reports the number {number} of {}; choose from {}",
                benches.format,
                reported.into_iter().collect::<Vec<_>>().join(", ")
            )),
            None => Ok(()),
        }
    }

    fn resolve_side(&self, side: Side, last_runs: &Sides<RunValues>) -> exit::Result<ResolvedRun> {
        let name = self.sides[side].text();
        let other = last_runs.as_ref().swapped()[side];
        metric::resolve_metrics(&self.wanted, &last_runs[side], other)
            .map_err(|reason| usage!("{name}: {reason}; nothing was judged"))
    }

    /// Checks that starting the process is only a small part of a run, if a metric includes it.
    fn check_run_time(&self, last_runs: &Sides<RunValues>) -> exit::Result<()> {
        let shortest = last_runs.base.wall.min(last_runs.candidate.wall);
        let includes_startup = self.wanted.iter().any(MetricSpec::includes_startup);
        if !includes_startup || shortest >= self.min_run_time {
            return Ok(());
        }
        Err(usage!(
            "a run takes {}, and starting the process is much of that; give it more to do, or a shorter \
             --min-run-time than {}",
            format_time(to_signed_ns(shortest)),
            format_exact_duration(self.min_run_time)
        ))
    }
}

/// Returns the metrics that both sides have. A benchmark that cannot be paired is not judged.
fn pair_metrics(sides: &Sides<ResolvedRun>) -> ResolvedMetrics {
    let runs = [&sides.candidate, &sides.base];
    let metrics = runs.iter().flat_map(|run| run.metrics.iter().map(|metric| &metric.name));
    let unjudged = runs.iter().flat_map(|run| run.unjudged.iter().map(|number| &number.name));
    let mut seen = HashSet::new();
    let mut resolved = ResolvedMetrics::default();
    for name in metrics.chain(unjudged).filter(|name| seen.insert(name.as_str())) {
        let found = sides.as_ref().map(|run| FoundMetric::find(run, name));
        let unjudged = |reason, side: Option<&str>| UnjudgedBench::new(name, reason, side);
        let unjudged_number = |number: &UnjudgedNumber, side: Option<&str>| UnjudgedBench {
            numbers: number.numbers.clone(),
            message: number.message.clone(),
            ..unjudged(number.reason, side)
        };
        let bench = match (found.base, found.candidate) {
            (Some(FoundMetric::Judged(a)), Some(FoundMetric::Judged(b))) => {
                if is_same_metric(a, b) {
                    resolved.metrics.push(b.with_base(a));
                    continue;
                }
                unjudged(UnjudgedReason::OtherUnit, None)
            }
            (_, None) => unjudged(UnjudgedReason::OneSide, Some("a")),
            (None, _) => unjudged(UnjudgedReason::OneSide, Some("b")),
            (Some(FoundMetric::Unjudged(a)), Some(FoundMetric::Judged(_))) => {
                unjudged_number(a, Some("a"))
            }
            (Some(FoundMetric::Unjudged(a)), Some(FoundMetric::Unjudged(b)))
                if a.reason == b.reason =>
            {
                unjudged_number(b, None)
            }
            (_, Some(FoundMetric::Unjudged(b))) => unjudged_number(b, Some("b")),
        };
        resolved.unjudged.push(bench);
    }
    resolved.unjudged.sort_by(|a, b| a.name.cmp(&b.name));
    resolved
}

/// A metric that a side has, or cannot be judged by.
enum FoundMetric<'a> {
    Judged(&'a ProgramMetric),
    Unjudged(&'a UnjudgedNumber),
}

impl<'a> FoundMetric<'a> {
    fn find(run: &'a ResolvedRun, name: &str) -> Option<Self> {
        let metric = run.metrics.iter().find(|metric| metric.name == name);
        let number = run.unjudged.iter().find(|number| number.name == name);
        metric.map(Self::Judged).or(number.map(Self::Unjudged))
    }
}

/// Returns the error that no benchmark can be judged.
fn nothing_to_judge(unjudged: &[UnjudgedBench]) -> Error {
    if unjudged.iter().all(|bench| bench.reason == UnjudgedReason::OneSide) {
        return Error::usage("no benchmark is on both sides, so there is nothing to judge");
    }
    usage!("no benchmark can be judged: {}", list_unjudged(unjudged))
}

/// Lists benchmarks with the reasons why they are not judged, the first ones if they are many.
pub fn list_unjudged(unjudged: &[UnjudgedBench]) -> String {
    let entry = |bench: &UnjudgedBench| to_printable_line(&format!("{} ({bench})", bench.name));
    let entries: Vec<String> = unjudged.iter().map(entry).collect();
    let listed = entries[..entries.len().min(MAX_LISTED_NAMES)].join(", ");
    match entries.len().saturating_sub(MAX_LISTED_NAMES) {
        0 => listed,
        more => format!("{listed} and {more} more"),
    }
}

fn is_same_metric(a: &ProgramMetric, b: &ProgramMetric) -> bool {
    a.name == b.name && a.unit == b.unit && a.higher_is_better == b.higher_is_better
}
