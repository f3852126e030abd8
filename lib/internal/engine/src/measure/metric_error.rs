//! Errors of the metrics of a whole run.

use std::io;
use std::sync::Arc;

use cli::exit;
use cli::suggest::did_you_mean;
use jitterstat::series::{self, Better};

use crate::machine::os::NotAvailable;
use crate::measure::benches::BenchFormat;

/// A metric that is not known, or that a run does not have.
#[derive(Clone, Debug, thiserror::Error)]
pub enum MetricError {
    #[error("the name of the metric is empty")]
    EmptyName,
    #[error("the benchmark is empty: expected e.g. {0}:sort")]
    EmptyBench(BenchFormat),
    #[error("unknown percentile {percentile:?}: expected {metric}:p50, p90, p95 or p99")]
    UnknownPercentile { metric: String, percentile: String },
    #[error("a program has one harness, but --metric names {first} and {other}")]
    SeveralHarnesses { first: BenchFormat, other: BenchFormat },
    /// The peak memory of the program is below that of osjitter, which it inherits.
    #[error(
        "max-rss cannot be measured below the {} MiB of osjitter itself",
        .inherited_bytes >> 20
    )]
    SmallMaxRss { inherited_bytes: u64 },
    #[error("instructions cannot be counted: {0}")]
    NoInstructions(#[source] CountUnavailable),
    #[error(
        "unknown number {number:?} of {format}: expected {}",
        expected_numbers(*format)
    )]
    UnknownNumber { format: BenchFormat, number: String },
    #[error("a run has no benchmark {0:?}")]
    MissingBench(String),
    #[error("a run has no number {number:?} of the benchmark {bench:?}")]
    MissingNumber { bench: String, number: String },
    #[error("{0:?} is negative or not finite in a run")]
    InvalidNumber(String),
    #[error(
        "it writes no metric {name:?} to {}; {}it writes {}",
        series::ENV_OUT,
        did_you_mean(name, .known.iter().copied().chain(.written.iter().map(String::as_str))),
        format_names(.written)
    )]
    MissingMetric {
        name: String,
        written: Vec<String>,
        /// Names of metrics that a program need not write.
        known: Vec<&'static str>,
    },
    #[error(
        "it declares the metric {name:?} in {}, and --metric {name} is that of the system; give its own another name, or judge it with --metric {name}:p50",
        series::ENV_OUT
    )]
    ShadowedMetric { name: &'static str },
    /// The metric is not comparable with that of the first run.
    #[error(
        "{name} is in {unit}, {better} is better; in the first run it was in {first_unit}, {first_better} was better"
    )]
    OtherUnit {
        name: String,
        unit: String,
        better: Better,
        first_unit: String,
        first_better: Better,
    },
    /// The program wrote many more or fewer values than in the first run.
    #[error("it wrote {count} values of {name}, and {first_count} in the first run")]
    OtherCount { name: String, count: u64, first_count: u64 },
    #[error("it declares the metric {name:?} in {}, and writes no value of it", series::ENV_OUT)]
    NoValue { name: String },
}

/// Reason why instructions were not counted.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CountUnavailable {
    /// Every program executes instructions.
    #[error("the counter shows none")]
    Zero,
    #[error("{0}")]
    Unavailable(#[source] NotAvailable),
    #[error("{0}")]
    Unread(#[source] Arc<io::Error>),
}

fn expected_numbers(format: BenchFormat) -> String {
    match format.known_numbers() {
        Some(known) => known.join(" or "),
        None => format!("e.g. {format}.{}", format.example_number()),
    }
}

fn format_names(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

impl From<MetricError> for exit::Error {
    fn from(error: MetricError) -> Self {
        Self::usage(error.to_string())
    }
}
