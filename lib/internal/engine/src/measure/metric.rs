//! Metrics of a whole run of a program: measured by the system or written by the program.

use files::gate::verdict::UnjudgedReason;
use jitterstat::gate::round::{tail_name, tail_quantile};
use jitterstat::gate::{Side, Sides};
use jitterstat::series::{Better, Metric};

use crate::measure::benches::{self, BenchNumber, BenchResult};
use crate::measure::metric_error::MetricError;
use crate::measure::metric_spec::{MetricSpec, PERCENTILES, bench_specs};
use crate::measure::run_values::RunValues;

/// Maximum factor between the sample counts of a run and the first run. A larger difference means
/// that the runs are not comparable.
const MAX_COUNT_FACTOR: u64 = 2;

/// A metric with one value per run.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramMetric {
    /// Name as on the command line: `wall`, `latency:p99`.
    pub name: String,
    pub unit: String,
    pub higher_is_better: bool,
    source: MetricSource,
    /// Number of samples in the first run of each side.
    samples: Sides<u64>,
}

/// The part of a run that contains a metric.
#[derive(Clone, Debug, PartialEq)]
enum MetricSource {
    Wall,
    Cpu,
    MaxRss,
    Instructions,
    /// A number of a benchmark.
    Bench {
        bench: String,
        number: String,
    },
    /// A metric of the program, at a percentile.
    Custom(String, Option<f64>),
}

/// The metrics of a run that can be judged, and the benchmarks that cannot.
#[derive(Debug, Default)]
pub struct ResolvedRun {
    pub metrics: Vec<ProgramMetric>,
    pub unjudged: Vec<UnjudgedNumber>,
}

/// A benchmark that cannot be judged by a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnjudgedNumber {
    pub name: String,
    pub reason: UnjudgedReason,
    /// Other numbers that its harness reports.
    pub numbers: Vec<String>,
    /// Statement of the benchmark about it.
    pub message: Option<String>,
}

/// Resolves the specified metrics by the values of the first run of a side. The other side is
/// judged by the same percentiles, which its first run must have as well.
///
/// # Errors
///
/// Returns an error if the run does not have one of the metrics.
pub fn resolve_metrics(
    specs: &[MetricSpec],
    first: &RunValues,
    other: &RunValues,
) -> Result<ResolvedRun, MetricError> {
    if let Some(name) = first.shadowed.first() {
        return Err(MetricError::ShadowedMetric { name });
    }
    let mut resolved = ResolvedRun::default();
    let mut metrics = Vec::new();
    for spec in specs {
        match spec {
            MetricSpec::Wall => metrics.push(system_metric(MetricSource::Wall, "wall", "ns")),
            MetricSpec::Cpu => metrics.push(system_metric(MetricSource::Cpu, "cpu", "ns")),
            MetricSpec::MaxRss => {
                first.check_max_rss()?;
                metrics.push(system_metric(MetricSource::MaxRss, "max-rss", "bytes"));
            }
            MetricSpec::Instructions => {
                first.instructions()?;
                let source = MetricSource::Instructions;
                metrics.push(system_metric(source, "instructions", "instructions"));
            }
            MetricSpec::Custom(name, percentile) => {
                let metric = first.custom(name)?;
                let count = |metric: &Metric| metric.samples.count();
                let other_count = other.custom(name).map_or(u64::MAX, count);
                let tail = tail_quantile(count(metric).min(other_count));
                metrics.extend(custom_metrics(metric, *percentile, tail));
            }
            // All filters select from one run, and all numbers are judged in each benchmark.
            MetricSpec::Bench(_) if metrics.iter().any(ProgramMetric::is_bench) => {}
            MetricSpec::Bench(_) => {
                for bench in &first.benches {
                    let found = bench_metrics(specs, bench);
                    metrics.extend(found.metrics);
                    resolved.unjudged.extend(found.unjudged);
                }
            }
        }
    }
    Ok(ResolvedRun { metrics, ..resolved })
}

/// Returns the names of the chosen numbers of all benchmarks of a run, whether or not they can be
/// judged.
pub fn bench_metric_names(specs: &[MetricSpec], run: &RunValues) -> Vec<String> {
    let mut names = Vec::new();
    for bench in &run.benches {
        let ResolvedRun { metrics, unjudged } = bench_metrics(specs, bench);
        names.extend(metrics.into_iter().map(|metric| metric.name));
        names.extend(unjudged.into_iter().map(|number| number.name));
    }
    names
}

/// Returns the chosen numbers of a benchmark as metrics. It is not judged if it has none of them.
fn bench_metrics(specs: &[MetricSpec], bench: &BenchResult) -> ResolvedRun {
    let mut resolved = ResolvedRun::default();
    let mut is_reported = false;
    for number in &bench.numbers {
        let Some(spec) = bench_specs(specs).find(|spec| spec.number() == number.name) else {
            continue;
        };
        let name = spec.metric_name(&bench.name);
        is_reported = true;
        match number.value {
            Some(_) => resolved.metrics.push(bench_metric(name, bench, number)),
            None => {
                let (reason, numbers) = (UnjudgedReason::InvalidNumber, Vec::new());
                resolved.unjudged.push(UnjudgedNumber { name, reason, numbers, message: None });
            }
        }
    }
    if !is_reported {
        let numbers: Vec<String> = bench.numbers.iter().map(|number| number.name.clone()).collect();
        let reason = match &bench.unmeasured {
            Some(unmeasured) => unmeasured.reason,
            None if numbers.is_empty() => UnjudgedReason::NoNumber,
            None => UnjudgedReason::OtherNumbers,
        };
        let message = bench.unmeasured.as_ref().map(|unmeasured| unmeasured.message.clone());
        let message = message.filter(|message| !message.is_empty());
        let mut chosen: Vec<String> =
            bench_specs(specs).map(|spec| spec.metric_name(&bench.name)).collect();
        chosen.dedup();
        let name = if chosen.len() == 1 { chosen.remove(0) } else { bench.name.clone() };
        resolved.unjudged.push(UnjudgedNumber { name, reason, numbers, message });
    }
    resolved
}

fn bench_metric(name: String, bench: &BenchResult, number: &BenchNumber) -> ProgramMetric {
    let source = MetricSource::Bench { bench: bench.name.clone(), number: number.name.clone() };
    ProgramMetric {
        higher_is_better: number.better == Better::Higher,
        ..system_metric(source, &name, &number.unit)
    }
}

/// Creates a metric that the system measures.
fn system_metric(source: MetricSource, name: &str, unit: &str) -> ProgramMetric {
    ProgramMetric {
        name: name.into(),
        unit: unit.into(),
        higher_is_better: false,
        source,
        samples: Sides { base: 1, candidate: 1 },
    }
}

/// Creates the metrics of a series of the program: the value of a single sample, the given
/// percentile, or the median and the tail.
fn custom_metrics(metric: &Metric, percentile: Option<f64>, tail: f64) -> Vec<ProgramMetric> {
    let (name, samples) = (&metric.name, metric.samples.count());
    match percentile {
        None if samples == 1 => vec![custom_metric(metric, name.clone(), None)],
        None => vec![
            custom_metric(metric, format!("{name}:p50"), Some(0.50)),
            custom_metric(metric, format!("{name}:{}", tail_name(tail)), Some(tail)),
        ],
        Some(q) => {
            let known = PERCENTILES.iter().find(|(_, quantile)| *quantile == q);
            let label = known.map_or("p50", |(label, _)| label);
            vec![custom_metric(metric, format!("{name}:{label}"), Some(q))]
        }
    }
}

fn custom_metric(metric: &Metric, name: String, percentile: Option<f64>) -> ProgramMetric {
    ProgramMetric {
        name,
        unit: metric.unit.clone(),
        higher_is_better: metric.better == Better::Higher,
        source: MetricSource::Custom(metric.name.clone(), percentile),
        samples: Sides { base: metric.samples.count(), candidate: metric.samples.count() },
    }
}

impl ProgramMetric {
    /// Returns the metric for both sides, given that of the base. The sides can write different
    /// numbers of samples.
    #[must_use]
    pub fn with_base(&self, base: &Self) -> Self {
        let samples = Sides { base: base.samples.base, candidate: self.samples.candidate };
        Self { samples, ..self.clone() }
    }

    /// Returns the metric of the CPU time, which every run has.
    pub fn cpu() -> Self {
        system_metric(MetricSource::Cpu, "cpu", "ns")
    }

    /// Returns whether the metric is the CPU time of a run.
    pub fn is_cpu(&self) -> bool {
        self.source == MetricSource::Cpu
    }

    /// Returns whether the metric is the wall time of a run.
    pub fn is_wall(&self) -> bool {
        self.source == MetricSource::Wall
    }

    /// Returns whether the metric is a number of a benchmark.
    pub fn is_bench(&self) -> bool {
        self.bench().is_some()
    }

    /// Returns the name of its benchmark; `None` if the metric is not a number of a benchmark.
    pub fn bench(&self) -> Option<&str> {
        match &self.source {
            MetricSource::Bench { bench, .. } => Some(bench),
            _ => None,
        }
    }

    /// Returns whether a value of zero is exact, as the number of allocations is. A time of zero is
    /// below what its clock can resolve.
    pub fn counts_from_zero(&self) -> bool {
        matches!(&self.source, MetricSource::Bench { number, .. } if benches::is_count(number))
    }

    /// Returns whether the metric is a time.
    pub fn is_time(&self) -> bool {
        match &self.source {
            MetricSource::Wall | MetricSource::Cpu => true,
            MetricSource::Bench { number, .. } => {
                !self.higher_is_better && benches::is_time(number, &self.unit)
            }
            MetricSource::MaxRss | MetricSource::Instructions | MetricSource::Custom(..) => false,
        }
    }

    /// Returns the value of the metric in a run of a side, which is at least zero.
    ///
    /// # Errors
    ///
    /// Returns an error if the run does not have the metric, or is not comparable with the first
    /// run of this side.
    pub fn value(&self, side: Side, run: &RunValues) -> Result<f64, MetricError> {
        let (name, percentile) = match &self.source {
            MetricSource::Wall => return Ok(run.wall.as_nanos() as f64),
            MetricSource::Cpu => return Ok(run.usage.cpu_ns as f64),
            MetricSource::MaxRss => return Ok(run.usage.max_rss as f64),
            MetricSource::Instructions => return run.instructions().map(|count| count as f64),
            MetricSource::Bench { bench, number } => {
                let number = run.bench_number(bench, number)?;
                self.check_unit(&number.unit, number.better)?;
                let invalid = || MetricError::InvalidNumber(self.name.clone());
                return number.value.ok_or_else(invalid);
            }
            MetricSource::Custom(name, percentile) => (name, percentile),
        };
        let metric = run.custom(name)?;
        self.check_unit(&metric.unit, metric.better)?;
        let (count, first_count) = (metric.samples.count(), self.samples[side]);
        if (count == 1) != (first_count == 1)
            || count > first_count * MAX_COUNT_FACTOR
            || first_count > count * MAX_COUNT_FACTOR
        {
            return Err(MetricError::OtherCount { name: name.clone(), count, first_count });
        }
        let value = metric.samples.quantile(percentile.unwrap_or(1.0));
        value.ok_or_else(|| MetricError::NoValue { name: name.clone() })
    }

    /// Checks that the unit and the direction are those of the first run.
    fn check_unit(&self, unit: &str, better: Better) -> Result<(), MetricError> {
        if (unit, better == Better::Higher) == (&self.unit, self.higher_is_better) {
            return Ok(());
        }
        Err(MetricError::OtherUnit {
            name: self.name.clone(),
            unit: unit.to_owned(),
            better,
            first_unit: self.unit.clone(),
            first_better: if self.higher_is_better { Better::Higher } else { Better::Lower },
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use jitterstat::series;

    use super::*;
    use crate::machine::os::TreeUsage;
    use crate::measure::benches::{BenchFormat, RunLength};
    use crate::measure::metric_error::CountUnavailable;
    use crate::measure::metric_spec::bench_request;

    fn run_values(series: &str) -> RunValues {
        let custom = series::metrics(format!("{}\n{series}", series::SCHEMA).as_bytes()).unwrap();
        let usage = TreeUsage { max_rss: u64::MAX, ..TreeUsage::default() };
        RunValues {
            wall: Duration::from_millis(50),
            usage,
            instructions: Ok(7_000_000),
            custom,
            shadowed: Vec::new(),
            benches: Vec::new(),
        }
    }

    fn specs(names: &[&str]) -> Vec<MetricSpec> {
        names.iter().map(|name| MetricSpec::parse(name).unwrap()).collect()
    }

    #[test]
    fn samples_give_median_and_tail() {
        let samples: String = (1..=200).map(|i| format!("x {i}\n")).collect();
        let values = run_values(&format!("metric x ns lower\nmetric y /s higher\ny 7\n{samples}"));
        let metrics = resolve_metrics(
            &specs(&["x", "y", "x:p90", "wall", "cpu", "max-rss", "instructions"]),
            &values,
        )
        .unwrap()
        .metrics;
        let found: Vec<(&str, f64)> = metrics
            .iter()
            .map(|n| (n.name.as_str(), n.value(Side::Candidate, &values).unwrap()))
            .collect();
        assert_eq!(found[..4], [("x:p50", 100.0), ("x:p99", 198.0), ("y", 7.0), ("x:p90", 180.0)]);
        assert_eq!(
            found[4..],
            [("wall", 5e7), ("cpu", 0.0), ("max-rss", u64::MAX as f64), ("instructions", 7e6)]
        );
        assert_eq!(
            metrics.iter().map(|n| n.higher_is_better).collect::<Vec<_>>(),
            [false, false, true, false, false, false, false, false]
        );
    }

    #[test]
    fn missing_counts_are_errors() {
        let counted = run_values("");
        let metric =
            resolve_metrics(&specs(&["instructions"]), &counted).unwrap().metrics.remove(0);
        let unread = std::io::Error::other("it needs a counter");
        for (instructions, why) in [
            (Err(CountUnavailable::Unread(Arc::new(unread))), "it needs a counter"),
            (Ok(0), "shows none"),
        ] {
            let (custom, shadowed, benches) = (Vec::new(), Vec::new(), Vec::new());
            let uncounted = RunValues { instructions, custom, shadowed, benches, ..counted };
            let errors = [
                resolve_metrics(&specs(&["instructions"]), &uncounted).unwrap_err().to_string(),
                metric.value(Side::Candidate, &uncounted).unwrap_err().to_string(),
            ];
            assert!(
                errors
                    .iter()
                    .all(|error| error.starts_with("instructions cannot") && error.ends_with(why)),
                "{errors:?}"
            );
            assert!(resolve_metrics(&specs(&["wall"]), &uncounted).is_ok(), "not requested");
        }
    }

    fn resolve_metrics(
        specs: &[MetricSpec],
        first: &RunValues,
    ) -> Result<ResolvedRun, MetricError> {
        super::resolve_metrics(specs, first, first)
    }

    #[test]
    fn sides_have_one_tail() {
        let run =
            |samples: usize| run_values(&format!("metric x ns lower\n{}", "x 5\n".repeat(samples)));
        let wanted = specs(&["x"]);
        for (base, candidate, tail) in
            [(600, 200, "x:p99"), (600, 100, "x:p95"), (100, 600, "x:p95")]
        {
            let (base, candidate) = (run(base), run(candidate));
            for (first, other) in [(&base, &candidate), (&candidate, &base)] {
                let resolved = super::resolve_metrics(&wanted, first, other).unwrap();
                assert_eq!(resolved.metrics[1].name, tail);
            }
            let [a, b] = [&base, &candidate].map(|first| resolve_metrics(&wanted, first).unwrap());
            let metric = b.metrics[0].with_base(&a.metrics[0]);
            assert_eq!(metric.value(Side::Base, &base).unwrap(), 5.0);
            assert_eq!(metric.value(Side::Candidate, &candidate).unwrap(), 5.0);
            let other_count = metric.value(Side::Base, &candidate).unwrap_err().to_string();
            assert!(other_count.contains("values of x, and"), "{other_count}");
        }
    }

    fn number(name: &str, unit: &str, better: Better, value: Option<f64>) -> BenchNumber {
        BenchNumber { name: name.to_owned(), unit: unit.to_owned(), better, value }
    }

    fn run_with(benches: Vec<BenchResult>) -> RunValues {
        RunValues { benches, ..run_values("") }
    }

    fn bench(name: &str, numbers: &[BenchNumber]) -> BenchResult {
        BenchResult { name: name.to_owned(), numbers: numbers.to_vec(), unmeasured: None }
    }

    #[test]
    fn benches_are_metrics() {
        let time = |ns| number("time", "ns", Better::Lower, Some(ns));
        let values = run_with(vec![bench("a/1", &[time(400.5)]), bench("b", &[time(2e6)])]);
        let wanted = specs(&["criterion:a", "wall", "criterion:^b$"]);
        let request = bench_request(&wanted, RunLength::Short).unwrap().unwrap();
        assert_eq!(request.format, BenchFormat::Criterion);
        assert_eq!(request.filters, ["a", "^b$"]);
        let metrics = resolve_metrics(&wanted, &values).unwrap().metrics;
        let found: Vec<(&str, f64)> = metrics
            .iter()
            .map(|n| (n.name.as_str(), n.value(Side::Candidate, &values).unwrap()))
            .collect();
        assert_eq!(found, [("a/1", 400.5), ("b", 2e6), ("wall", 5e7)]);
        let joules = number("time", "J", Better::Lower, Some(1.0));
        let invalid = number("time", "ns", Better::Lower, None);
        for (later, expected) in [
            (vec![bench("b", &[time(1.0)])], "a run has no benchmark \"a/1\""),
            (vec![bench("a/1", &[])], "a run has no number \"time\" of the benchmark \"a/1\""),
            (
                vec![bench("a/1", &[joules])],
                "a/1 is in J, lower is better; in the first run it was in ns, lower was better",
            ),
            (vec![bench("a/1", &[invalid])], "\"a/1\" is negative or not finite in a run"),
        ] {
            let error =
                metrics[0].value(Side::Candidate, &run_with(later)).unwrap_err().to_string();
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn chosen_numbers_are_metrics() {
        let time = number("ns/op", "ns", Better::Lower, Some(5.0));
        let rate = number("MB/s", "MB/s", Better::Higher, Some(7.0));
        let tail = number("p99", "p99", Better::Lower, Some(9.0));
        let nan = number("MB/s", "MB/s", Better::Higher, None);
        let values = run_with(vec![
            bench("Both", &[time, rate]),
            bench("Nan", &[nan]),
            bench("None", &[]),
            bench("Tail", &[tail]),
        ]);
        let resolve = |wanted: &[&str]| {
            let ResolvedRun { metrics, unjudged } =
                resolve_metrics(&specs(wanted), &values).unwrap();
            let better = |higher| if higher { ">" } else { "<" };
            let metrics: Vec<String> = metrics
                .iter()
                .map(|n| format!("{} {}", n.name, better(n.higher_is_better)))
                .collect();
            let unjudged = unjudged.iter();
            let unjudged: Vec<String> = unjudged
                .map(|n| format!("{} {:?} {}", n.name, n.reason, n.numbers.join(",")))
                .collect();
            format!("{}; {}", metrics.join(", "), unjudged.join(", "))
        };
        assert_eq!(
            resolve(&["go"]),
            "Both <; Nan OtherNumbers MB/s, None NoNumber , Tail OtherNumbers p99"
        );
        assert_eq!(
            resolve(&["go.MB/s"]),
            "Both:MB/s >; Nan:MB/s InvalidNumber , None:MB/s NoNumber , Tail:MB/s OtherNumbers p99"
        );
        // A benchmark with one of the numbers is judged.
        assert_eq!(
            resolve(&["go", "go.MB/s", "go.p99"]),
            "Both <, Both:MB/s >, Tail:p99 <; Nan:MB/s InvalidNumber , None NoNumber "
        );
    }

    #[test]
    fn incomparable_runs_are_errors() {
        let first = run_values("metric x ns lower\nx 1\nx 2\nx 3\nmetric y ns lower\n");
        let missing = |name| resolve_metrics(&specs(&[name]), &first).unwrap_err().to_string();
        assert!(missing("z").contains("no metric \"z\"") && missing("z").contains("x, y"));
        assert_eq!(
            missing("y"),
            "it declares the metric \"y\" in OSJITTER_OUT, and writes no value of it"
        );
        assert!(MetricSpec::parse("x:p98").is_err() && MetricSpec::parse("").is_err());
        let x = &resolve_metrics(&specs(&["x"]), &first).unwrap().metrics[0];
        for (series, expected) in [
            ("metric x us lower\nx 1\nx 2\n", "in us"),
            ("metric x ns higher\nx 1\nx 2\n", "higher"),
            ("metric x ns lower\nx 1\n", "wrote 1 values of x, and 3"),
            ("metric x ns lower\nx 1\nx 1\nx 1\nx 1\nx 1\nx 1\nx 1\n", "wrote 7"),
            ("", "writes none"),
        ] {
            let error = x.value(Side::Candidate, &run_values(series)).unwrap_err().to_string();
            assert!(error.contains(expected), "{series}: {error}");
        }
    }
}
