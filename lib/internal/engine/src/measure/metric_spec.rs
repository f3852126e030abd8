//! Metrics as the user specifies them, by text such as `wall`, `latency:p99` or `criterion:FILTER`.

use clap::builder::TypedValueParser;
use cli::completion::{plain_values, with_examples};

use crate::measure::benches::{BenchFormat, BenchRequest, RunLength};
use crate::measure::metric_error::MetricError;

/// The percentiles that a metric may have.
pub(super) const PERCENTILES: [(&str, f64); 4] =
    [("p50", 0.50), ("p90", 0.90), ("p95", 0.95), ("p99", 0.99)];

/// A metric as the user specifies it.
#[derive(Clone, Debug, PartialEq)]
pub enum MetricSpec {
    Wall,
    Cpu,
    MaxRss,
    /// Instructions executed in user mode.
    Instructions,
    /// A number of each benchmark of a harness.
    Bench(BenchSpec),
    /// A metric that the program writes: its value, the median and the tail of its samples, or the
    /// given percentile.
    Custom(String, Option<f64>),
}

/// Benchmarks of a harness, and which of their numbers is judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BenchSpec {
    pub format: BenchFormat,
    /// Name of the number; `None` for the time.
    pub number: Option<String>,
    /// Filter of the harness; `None` for all benchmarks.
    pub filter: Option<String>,
}

impl BenchSpec {
    /// Returns the time of all benchmarks.
    pub fn all(format: BenchFormat) -> Self {
        Self { format, number: None, filter: None }
    }

    /// Returns the name of the number that is judged.
    pub fn number(&self) -> &str {
        self.number.as_deref().unwrap_or(self.format.default_number())
    }

    /// Returns the name of the number of a benchmark. The time has the name of its benchmark.
    pub fn metric_name(&self, bench: &str) -> String {
        match self.number() == self.format.default_number() {
            true => bench.to_owned(),
            false => format!("{bench}:{}", self.number()),
        }
    }
}

/// Returns the names of the metrics that a run has without writing them, and of the harnesses.
pub(super) fn metric_names() -> Vec<&'static str> {
    let system = [MetricSpec::Wall, MetricSpec::Cpu, MetricSpec::Instructions, MetricSpec::MaxRss];
    let system = system.iter().filter_map(MetricSpec::system_name);
    system.chain(BenchFormat::ALL.map(BenchFormat::name)).collect()
}

impl MetricSpec {
    /// Parses `wall`, `latency`, `latency:p99`, `criterion`, `criterion:FILTER`, `go.allocs/op` or
    /// `go.allocs/op:FILTER`.
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

    /// Parses a harness with its number and filter. Returns `None` if the name is not that of a
    /// harness.
    fn parse_bench(text: &str) -> Option<Result<Self, MetricError>> {
        let (name, filter) = match text.split_once(':') {
            Some((name, filter)) => (name, Some(filter.to_owned())),
            None => (text, None),
        };
        let (harness, number) = match name.split_once('.') {
            Some((harness, number)) => (harness, Some(number.to_owned())),
            None => (name, None),
        };
        let format: BenchFormat = harness.parse().ok()?;
        let is_unknown = |number: &String| {
            number.is_empty()
                || format.known_numbers().is_some_and(|known| !known.contains(&&**number))
        };
        Some(match (&number, &filter) {
            (_, Some(filter)) if filter.is_empty() => Err(MetricError::EmptyBench(format)),
            (Some(number), _) if is_unknown(number) => {
                Err(MetricError::UnknownNumber { format, number: number.clone() })
            }
            _ => Ok(Self::Bench(BenchSpec { format, number, filter })),
        })
    }

    /// Returns the parser of an argument with a metric.
    pub fn parser() -> impl TypedValueParser<Value = Self> {
        with_examples(Self::parse, || plain_values(&metric_names()))
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

    /// Returns the name of a metric that the system measures.
    pub(super) fn system_name(&self) -> Option<&'static str> {
        match self {
            Self::Wall => Some("wall"),
            Self::Cpu => Some("cpu"),
            Self::MaxRss => Some("max-rss"),
            Self::Instructions => Some("instructions"),
            Self::Bench(_) | Self::Custom(..) => None,
        }
    }

    /// Returns whether the metric is a number of benchmarks of this harness.
    pub fn is_of(&self, format: BenchFormat) -> bool {
        matches!(self, Self::Bench(spec) if spec.format == format)
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
    let benches: Vec<&BenchSpec> = bench_specs(specs).collect();
    let Some(first) = benches.first() else { return Ok(None) };
    let format = first.format;
    if let Some(other) = benches.iter().find(|spec| spec.format != format) {
        return Err(MetricError::SeveralHarnesses { first: format, other: other.format });
    }
    // A harness without a filter runs everything.
    let filters: Option<Vec<String>> = benches.iter().map(|spec| spec.filter.clone()).collect();
    let mut filters = filters.unwrap_or_default();
    filters.dedup();
    let mut numbers: Vec<String> = Vec::new();
    for spec in benches {
        if !numbers.iter().any(|number| number == spec.number()) {
            numbers.push(spec.number().to_owned());
        }
    }
    Ok(Some(BenchRequest { format, numbers, filters, length }))
}

/// Returns the filters that metrics specify, each once.
pub fn bench_filters(specs: &[MetricSpec]) -> Vec<&str> {
    let mut filters: Vec<&str> =
        bench_specs(specs).filter_map(|spec| spec.filter.as_deref()).collect();
    filters.sort_unstable();
    filters.dedup();
    filters
}

/// Returns those of some metrics that are numbers of benchmarks.
pub fn bench_specs(specs: &[MetricSpec]) -> impl Iterator<Item = &BenchSpec> {
    specs.iter().filter_map(|spec| match spec {
        MetricSpec::Bench(spec) => Some(spec),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_of_benches_are_parsed() {
        let parsed = |text: &str| MetricSpec::parse(text).unwrap();
        let spec = |format, number: Option<&str>, filter: Option<&str>| {
            let (number, filter) = (number.map(str::to_owned), filter.map(str::to_owned));
            MetricSpec::Bench(BenchSpec { format, number, filter })
        };
        assert_eq!(parsed("go"), spec(BenchFormat::Go, None, None));
        assert_eq!(parsed("libtest:a::b"), spec(BenchFormat::Libtest, None, Some("a::b")));
        assert_eq!(parsed("go.allocs/op"), spec(BenchFormat::Go, Some("allocs/op"), None));
        let throughput = spec(BenchFormat::Criterion, Some("throughput"), Some("a.b:c"));
        assert_eq!(parsed("criterion.throughput:a.b:c"), throughput);
        assert_eq!(parsed("x.y"), MetricSpec::Custom("x.y".to_owned(), None));
        for (text, expected) in [
            ("go:", "expected e.g. go:sort"),
            ("go.", "unknown number \"\" of go: expected e.g. go.allocs/op"),
            (
                "criterion.speed",
                "unknown number \"speed\" of criterion: expected time or throughput",
            ),
        ] {
            let error = MetricSpec::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let request = |names: &[&str]| {
            let specs: Vec<MetricSpec> = names.iter().map(|name| parsed(name)).collect();
            bench_request(&specs, RunLength::Short)
        };
        assert_eq!(request(&["wall", "x:p99"]).unwrap(), None);
        let everything = request(&["libtest:a", "libtest.MB/s", "libtest"]).unwrap().unwrap();
        assert_eq!(everything.filters, [""; 0]);
        assert_eq!(everything.numbers, ["time", "MB/s"]);
        let error = request(&["go", "libtest"]).unwrap_err().to_string();
        assert_eq!(error, "a program has one harness, but --metric names go and libtest");
    }
}
