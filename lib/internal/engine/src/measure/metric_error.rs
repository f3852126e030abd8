//! Errors of the metrics of a whole run.

use std::error::Error;
use std::sync::Arc;
use std::{fmt, io};

use cli::exit;
use jitterstat::series::{self, Better};

use crate::machine::os::NotAvailable;
use crate::measure::benches::BenchFormat;

/// A metric that is not known, or that a run does not have.
#[derive(Clone, Debug)]
pub enum MetricError {
    EmptyName,
    /// The filter of a harness is empty.
    EmptyBench(BenchFormat),
    UnknownPercentile {
        metric: String,
        percentile: String,
    },
    /// The metrics name several harnesses, and a program has one.
    SeveralHarnesses {
        first: BenchFormat,
        other: BenchFormat,
    },
    /// The peak memory of the program is below that of osjitter, which it inherits.
    SmallMaxRss {
        inherited_bytes: u64,
    },
    NoInstructions(Uncounted),
    /// The run has no benchmark.
    NoBench(BenchFormat),
    MissingBench(String),
    /// The program does not write a metric.
    MissingMetric {
        name: String,
        written: Vec<String>,
    },
    /// The metric is not comparable with that of the first run.
    OtherUnit {
        name: String,
        unit: String,
        better: Better,
        first_unit: String,
    },
    /// The program wrote many more or fewer values than in the first run.
    OtherCount {
        name: String,
        count: u64,
        first_count: u64,
    },
    NoValue {
        name: String,
    },
}

/// Reason why instructions were not counted.
#[derive(Clone, Debug)]
pub enum Uncounted {
    /// Every program executes instructions.
    Zero,
    Unavailable(NotAvailable),
    Unread(Arc<io::Error>),
}

impl fmt::Display for Uncounted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero => f.write_str("the counter shows none"),
            Self::Unavailable(error) => error.fmt(f),
            Self::Unread(error) => error.fmt(f),
        }
    }
}

impl Error for Uncounted {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Zero => None,
            Self::Unavailable(error) => Some(error),
            Self::Unread(error) => Some(&**error),
        }
    }
}

impl fmt::Display for MetricError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyName => f.write_str("the name of the metric is empty"),
            Self::EmptyBench(format) => {
                write!(f, "the benchmark is empty: expected e.g. {format}:sort")
            }
            Self::UnknownPercentile { metric, percentile } => write!(
                f,
                "unknown percentile {percentile:?}: expected {metric}:p50, p90, p95 or p99"
            ),
            Self::SeveralHarnesses { first, other } => {
                write!(f, "a program has one harness, but --metric names {first} and {other}")
            }
            Self::SmallMaxRss { inherited_bytes } => write!(
                f,
                "max-rss cannot be measured below the {} MiB of osjitter itself",
                inherited_bytes >> 20
            ),
            Self::NoInstructions(reason) => write!(f, "instructions cannot be counted: {reason}"),
            Self::NoBench(format) => {
                let expected = format.expected_output();
                write!(f, "it ran no benchmark: expected {expected}")
            }
            Self::MissingBench(name) => write!(f, "a run has no benchmark {name:?}"),
            Self::MissingMetric { name, written } => {
                let written = match &written[..] {
                    [] => "none".to_owned(),
                    names => names.join(", "),
                };
                write!(
                    f,
                    "it writes no metric {name:?} to {}; it writes {written}",
                    series::ENV_OUT
                )
            }
            Self::OtherUnit { name, unit, better, first_unit } => write!(
                f,
                "{name} is in {unit}, {better} is better; in the first run it was in {first_unit}"
            ),
            Self::OtherCount { name, count, first_count } => {
                write!(f, "it wrote {count} values of {name}, and {first_count} in the first run")
            }
            Self::NoValue { name } => write!(f, "{name} has no value"),
        }
    }
}

impl Error for MetricError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NoInstructions(reason) => Some(reason),
            _ => None,
        }
    }
}

impl From<MetricError> for exit::Error {
    fn from(error: MetricError) -> Self {
        Self::usage(error.to_string())
    }
}
