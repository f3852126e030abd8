//! Metrics of a whole run of a program: measured by the system or written by the program.

use std::sync::Arc;
use std::time::Duration;

use clap::builder::TypedValueParser;
use jitterstat::gate::round::{tail_name, tail_quantile};
use jitterstat::series::{Better, Metric};

use crate::machine::os::{self, Instructions, TreeUsage};
use crate::measure::benches::{BenchFormat, BenchOutput, BenchRequest, BenchResult, RunLength};
use crate::measure::child::{self, ProgramFault, RunFailure, RunRequest, Series};
use crate::measure::metric_error::{CountUnavailable, MetricError};
use crate::measure::{program_output, supervisor};
use crate::program::Program;
use cli::completion::{plain_values, with_examples};

/// Minimum of the CPU time. A smaller one has no meaningful logarithm.
const MIN_CPU_NS: u64 = 1_000;
/// Maximum factor between the sample counts of a run and the first run. A larger difference means
/// that the runs are not comparable.
const MAX_COUNT_FACTOR: u64 = 2;
const PERCENTILES: [(&str, f64); 4] = [("p50", 0.50), ("p90", 0.90), ("p95", 0.95), ("p99", 0.99)];

/// A metric as the user specifies it.
#[derive(Clone, Debug, PartialEq)]
pub enum MetricSpec {
    Wall,
    Cpu,
    MaxRss,
    /// Instructions executed in user mode.
    Instructions,
    /// The time of each benchmark of a harness that its filter selects, or of all.
    Bench(BenchFormat, Option<String>),
    /// A metric that the program writes: its value, the median and the tail of its samples, or the
    /// given percentile.
    Custom(String, Option<f64>),
}

impl MetricSpec {
    /// Parses `wall`, `latency`, `latency:p99`, `criterion` or `criterion:FILTER`.
    pub fn parse(text: &str) -> Result<Self, MetricError> {
        match text {
            "wall" => Ok(Self::Wall),
            "cpu" => Ok(Self::Cpu),
            "max-rss" => Ok(Self::MaxRss),
            "instructions" => Ok(Self::Instructions),
            "" => Err(MetricError::EmptyName),
            _ => Self::parse_bench(text).unwrap_or_else(|| Self::parse_custom(text)),
        }
    }

    /// Parses a harness with its filter. Returns `None` if the name is not that of a harness.
    fn parse_bench(text: &str) -> Option<Result<Self, MetricError>> {
        let (name, filter) = match text.split_once(':') {
            Some((name, filter)) => (name, Some(filter)),
            None => (text, None),
        };
        let format: BenchFormat = name.parse().ok()?;
        Some(match filter {
            Some("") => Err(MetricError::EmptyBench(format)),
            filter => Ok(Self::Bench(format, filter.map(str::to_owned))),
        })
    }

    /// Returns the parser of an argument with a metric.
    pub fn parser() -> impl TypedValueParser<Value = Self> {
        let examples = || {
            let harnesses = BenchFormat::ALL.map(BenchFormat::name);
            plain_values(["wall", "cpu", "instructions", "max-rss"].iter().chain(&harnesses))
        };
        with_examples(Self::parse, examples)
    }

    fn parse_custom(text: &str) -> Result<Self, MetricError> {
        let Some((name, percentile)) = text.split_once(':') else {
            return Ok(Self::Custom(text.to_owned(), None));
        };
        match PERCENTILES.iter().find(|(known, _)| *known == percentile) {
            Some((_, q)) => Ok(Self::Custom(name.to_owned(), Some(*q))),
            None => Err(MetricError::UnknownPercentile {
                metric: name.to_owned(),
                percentile: percentile.to_owned(),
            }),
        }
    }

    /// Returns whether the metric includes the start of the process.
    pub fn includes_startup(&self) -> bool {
        matches!(self, Self::Wall | Self::Cpu | Self::Instructions)
    }
}

/// Returns the request for the benchmarks that metrics specify. `None` if they specify none.
///
/// # Errors
///
/// Returns an error if the metrics specify several harnesses: a program has one.
pub fn bench_request(
    specs: &[MetricSpec],
    length: RunLength,
) -> Result<Option<BenchRequest>, MetricError> {
    let mut benches = specs.iter().filter_map(|spec| match spec {
        MetricSpec::Bench(format, filter) => Some((*format, filter.clone())),
        _ => None,
    });
    let Some((format, filter)) = benches.next() else { return Ok(None) };
    let mut filters = vec![filter];
    for (other, filter) in benches {
        if other != format {
            return Err(MetricError::SeveralHarnesses { first: format, other });
        }
        filters.push(filter);
    }
    // A harness without a filter runs everything.
    let filters: Option<Vec<String>> = filters.into_iter().collect();
    let filters = filters.unwrap_or_default();
    Ok(Some(BenchRequest { format, filters, length }))
}

/// A metric with one value per run.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramMetric {
    /// Name as on the command line: `wall`, `latency:p99`.
    pub name: String,
    pub unit: String,
    pub higher_is_better: bool,
    spec: MetricSpec,
    /// Number of samples in the first run.
    samples: u64,
}

/// Values of a run.
pub struct RunValues {
    pub wall: Duration,
    usage: TreeUsage,
    /// Instructions, or the reason why they were not counted.
    instructions: Result<u64, CountUnavailable>,
    custom: Vec<Metric>,
    benches: Vec<BenchResult>,
}

/// Runs a program once and measures the metrics.
///
/// # Errors
///
/// Returns an error if the run fails or the program writes invalid metrics.
pub fn run(
    program: &Program,
    specs: &[MetricSpec],
    benches: Option<&BenchRequest>,
    request: RunRequest,
    stop: &std::sync::atomic::AtomicBool,
) -> Result<RunValues, RunFailure> {
    // The counter would count it as the next program. An error is returned by the run.
    let _ = supervisor::start();
    let counter = specs.contains(&MetricSpec::Instructions).then(Instructions::for_next_program);
    let series = if benches.is_some() { Series::Benches } else { request.series };
    let run = child::run(program, RunRequest { series, ..request }, stop)?;
    let instructions = match counter {
        None => Ok(0),
        Some(Ok(counter)) => {
            counter.count().map_err(|error| CountUnavailable::Unread(Arc::new(error)))
        }
        Some(Err(error)) => Err(CountUnavailable::Unavailable(error)),
    };
    let has_custom = specs.iter().any(|spec| matches!(spec, MetricSpec::Custom(..)));
    let output = run.output_path();
    // A missing file is not an error here. The missing metric is reported later.
    let custom = match has_custom && output.exists() {
        true => program_output::read_metrics(program, &output)?,
        false => Vec::new(),
    };
    let benches = benches.map_or(Ok(Vec::new()), |benches| {
        let (stdout, criterion_home) = (&run.stdout_path(), &run.criterion_path());
        benches.read(&BenchOutput { stdout, criterion_home })
    });
    let benches =
        benches.map_err(|error| RunFailure::new(program, ProgramFault::Benches(error)))?;
    Ok(RunValues { wall: run.wall, usage: run.usage, instructions, custom, benches })
}

/// Resolves the specified metrics by the values of the first run.
///
/// # Errors
///
/// Returns an error if the run does not have one of the metrics.
pub fn resolve_metrics(
    specs: &[MetricSpec],
    first: &RunValues,
) -> Result<Vec<ProgramMetric>, MetricError> {
    let mut metrics = Vec::new();
    for spec in specs {
        match spec {
            MetricSpec::Wall => metrics.push(system_metric(spec, "wall", "ns")),
            MetricSpec::Cpu => metrics.push(system_metric(spec, "cpu", "ns")),
            MetricSpec::MaxRss => {
                first.check_max_rss()?;
                metrics.push(system_metric(spec, "max-rss", "bytes"));
            }
            MetricSpec::Instructions => {
                first.instructions()?;
                metrics.push(system_metric(spec, "instructions", "instructions"));
            }
            MetricSpec::Custom(name, percentile) => {
                metrics.extend(custom_metrics(first.custom(name)?, *percentile));
            }
            MetricSpec::Bench(format, _) if first.benches.is_empty() => {
                return Err(MetricError::NoBench(*format));
            }
            // All filters select from one run.
            MetricSpec::Bench(..) if metrics.iter().any(ProgramMetric::is_bench) => {}
            MetricSpec::Bench(..) => {
                let benches = first.benches.iter();
                metrics.extend(benches.map(|bench| system_metric(spec, &bench.name, "ns")));
            }
        }
    }
    Ok(metrics)
}

/// Creates a metric that the system or a harness measures.
fn system_metric(spec: &MetricSpec, name: &str, unit: &str) -> ProgramMetric {
    ProgramMetric {
        name: name.into(),
        unit: unit.into(),
        higher_is_better: false,
        spec: spec.clone(),
        samples: 1,
    }
}

/// Creates the metrics of a series of the program: the value of a single sample, the given
/// percentile, or the median and the tail.
fn custom_metrics(metric: &Metric, percentile: Option<f64>) -> Vec<ProgramMetric> {
    let (name, samples) = (&metric.name, metric.samples.count());
    let tail = tail_quantile(samples);
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
        spec: MetricSpec::Custom(metric.name.clone(), percentile),
        samples: metric.samples.count(),
    }
}

impl RunValues {
    /// Returns the number of processes that the program left running, and that were killed.
    pub fn killed_processes(&self) -> u64 {
        self.usage.killed_processes
    }

    fn instructions(&self) -> Result<u64, MetricError> {
        match &self.instructions {
            Ok(0) => Err(MetricError::NoInstructions(CountUnavailable::Zero)),
            Ok(count) => Ok(*count),
            Err(reason) => Err(MetricError::NoInstructions(reason.clone())),
        }
    }

    /// Checks that the peak memory is that of the program: a process inherits the peak of its
    /// parent.
    fn check_max_rss(&self) -> Result<(), MetricError> {
        let inherited_bytes = os::inherited_rss();
        match self.usage.max_rss > inherited_bytes {
            true => Ok(()),
            false => Err(MetricError::SmallMaxRss { inherited_bytes }),
        }
    }

    fn bench_ns(&self, name: &str) -> Result<f64, MetricError> {
        let found = self.benches.iter().find(|bench| bench.name == name);
        found.map(|bench| bench.ns).ok_or_else(|| MetricError::MissingBench(name.to_owned()))
    }

    fn custom(&self, name: &str) -> Result<&Metric, MetricError> {
        let found =
            self.custom.iter().find(|metric| metric.name == name && metric.samples.count() > 0);
        found.ok_or_else(|| MetricError::MissingMetric {
            name: name.to_owned(),
            written: self.custom.iter().map(|metric| metric.name.clone()).collect(),
        })
    }
}

impl ProgramMetric {
    /// Returns the metric of the CPU time, which every run has.
    pub fn cpu() -> Self {
        system_metric(&MetricSpec::Cpu, "cpu", "ns")
    }

    /// Returns whether the metric is the one of a specification.
    pub fn is(&self, spec: &MetricSpec) -> bool {
        self.spec == *spec
    }

    /// Returns whether the metric is the time of a benchmark.
    pub fn is_bench(&self) -> bool {
        matches!(self.spec, MetricSpec::Bench(..))
    }

    /// Returns the value of the metric in a run, which is above zero.
    ///
    /// # Errors
    ///
    /// Returns an error if the run does not have the metric, or is not comparable with the first
    /// run.
    pub fn value(&self, run: &RunValues) -> Result<f64, MetricError> {
        let (name, percentile) = match &self.spec {
            MetricSpec::Wall => return Ok(run.wall.as_nanos().max(1) as f64),
            MetricSpec::Cpu => return Ok(run.usage.cpu_ns.max(MIN_CPU_NS) as f64),
            MetricSpec::MaxRss => return Ok(run.usage.max_rss.max(1) as f64),
            MetricSpec::Instructions => return run.instructions().map(|count| count as f64),
            MetricSpec::Bench(..) => return run.bench_ns(&self.name),
            MetricSpec::Custom(name, percentile) => (name, percentile),
        };
        let metric = run.custom(name)?;
        let (unit, higher) = (&metric.unit, metric.better == Better::Higher);
        if (unit, higher) != (&self.unit, self.higher_is_better) {
            return Err(MetricError::OtherUnit {
                name: name.clone(),
                unit: unit.clone(),
                better: metric.better,
                first_unit: self.unit.clone(),
            });
        }
        let (count, first_count) = (metric.samples.count(), self.samples);
        if (count == 1) != (first_count == 1)
            || count > first_count * MAX_COUNT_FACTOR
            || first_count > count * MAX_COUNT_FACTOR
        {
            return Err(MetricError::OtherCount { name: name.clone(), count, first_count });
        }
        let value = metric.samples.quantile(percentile.unwrap_or(1.0));
        value.ok_or_else(|| MetricError::NoValue { name: name.clone() })
    }
}

#[cfg(test)]
mod tests {
    use jitterstat::series;

    use super::*;

    fn run_values(series: &str) -> RunValues {
        let custom = series::metrics(format!("{}\n{series}", series::SCHEMA).as_bytes()).unwrap();
        let usage = TreeUsage { max_rss: u64::MAX, ..TreeUsage::default() };
        RunValues {
            wall: Duration::from_millis(50),
            usage,
            instructions: Ok(7_000_000),
            custom,
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
        .unwrap();
        let found: Vec<(&str, f64)> =
            metrics.iter().map(|n| (n.name.as_str(), n.value(&values).unwrap())).collect();
        assert_eq!(found[..4], [("x:p50", 100.0), ("x:p99", 198.0), ("y", 7.0), ("x:p90", 180.0)]);
        assert_eq!(
            found[4..],
            [("wall", 5e7), ("cpu", 1e3), ("max-rss", u64::MAX as f64), ("instructions", 7e6)]
        );
        assert_eq!(
            metrics.iter().map(|n| n.higher_is_better).collect::<Vec<_>>(),
            [false, false, true, false, false, false, false, false]
        );
    }

    #[test]
    fn missing_counts_are_errors() {
        let counted = run_values("");
        let metric = resolve_metrics(&specs(&["instructions"]), &counted).unwrap().remove(0);
        let unread = std::io::Error::other("it needs a counter");
        for (instructions, why) in [
            (Err(CountUnavailable::Unread(Arc::new(unread))), "it needs a counter"),
            (Ok(0), "shows none"),
        ] {
            let (custom, benches) = (Vec::new(), Vec::new());
            let uncounted = RunValues { instructions, custom, benches, ..counted };
            let errors = [
                resolve_metrics(&specs(&["instructions"]), &uncounted).unwrap_err().to_string(),
                metric.value(&uncounted).unwrap_err().to_string(),
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

    #[test]
    fn benches_are_metrics() {
        let bench = |name: &str, ns| BenchResult { name: name.to_owned(), ns };
        let benches = vec![bench("a/1", 400.5), bench("b", 2e6)];
        let values = RunValues { benches, ..run_values("") };
        let wanted = specs(&["criterion:a", "wall", "criterion:^b$"]);
        let request = bench_request(&wanted, RunLength::Short).unwrap().unwrap();
        assert_eq!(request.format, BenchFormat::Criterion);
        assert_eq!(request.filters, ["a", "^b$"]);
        let metrics = resolve_metrics(&wanted, &values).unwrap();
        let found: Vec<(&str, f64)> =
            metrics.iter().map(|n| (n.name.as_str(), n.value(&values).unwrap())).collect();
        assert_eq!(found, [("a/1", 400.5), ("b", 2e6), ("wall", 5e7)]);
        let missing = RunValues { benches: vec![bench("b", 1.0)], ..run_values("") };
        assert_eq!(
            metrics[0].value(&missing).unwrap_err().to_string(),
            "a run has no benchmark \"a/1\""
        );
        let error = resolve_metrics(&wanted, &run_values("")).unwrap_err().to_string();
        assert!(error.starts_with("it ran no benchmark"), "{error}");
    }

    #[test]
    fn specs_of_benches_are_parsed() {
        assert_eq!(MetricSpec::parse("go").unwrap(), MetricSpec::Bench(BenchFormat::Go, None));
        let filter = Some("a::b".to_owned());
        assert_eq!(
            MetricSpec::parse("libtest:a::b").unwrap(),
            MetricSpec::Bench(BenchFormat::Libtest, filter)
        );
        assert!(
            MetricSpec::parse("go:").unwrap_err().to_string().contains("expected e.g. go:sort")
        );
        let request = |names: &[&str]| bench_request(&specs(names), RunLength::Short);
        assert_eq!(request(&["wall", "x:p99"]).unwrap(), None);
        let everything = request(&["libtest:a", "libtest"]).unwrap().unwrap();
        assert_eq!(everything.filters, [""; 0]);
        let error = request(&["go", "libtest"]).unwrap_err().to_string();
        assert_eq!(error, "a program has one harness, but --metric names go and libtest");
    }

    #[test]
    fn incomparable_runs_are_errors() {
        let first = run_values("metric x ns lower\nx 1\nx 2\nx 3\nmetric y ns lower\n");
        let missing = |name| resolve_metrics(&specs(&[name]), &first).unwrap_err().to_string();
        assert!(
            missing("z").contains("no metric \"z\"")
                && missing("z").contains("x, y")
                && missing("y").contains("\"y\"")
        );
        assert!(MetricSpec::parse("x:p98").is_err() && MetricSpec::parse("").is_err());
        let x = &resolve_metrics(&specs(&["x"]), &first).unwrap()[0];
        for (series, expected) in [
            ("metric x us lower\nx 1\nx 2\n", "in us"),
            ("metric x ns higher\nx 1\nx 2\n", "higher"),
            ("metric x ns lower\nx 1\n", "wrote 1 values of x, and 3"),
            ("metric x ns lower\nx 1\nx 1\nx 1\nx 1\nx 1\nx 1\nx 1\n", "wrote 7"),
            ("", "writes none"),
        ] {
            let error = x.value(&run_values(series)).unwrap_err().to_string();
            assert!(error.contains(expected), "{series}: {error}");
        }
    }
}
