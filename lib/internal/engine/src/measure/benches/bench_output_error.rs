//! Errors of the output of benchmarks.

use std::error::Error;
use std::sync::Arc;
use std::{fmt, io};

use super::{MAX_BENCHES, MAX_NAME_BYTES, MAX_OUTPUT_BYTES};

/// An output that is not one of the harness, or that contains no usable benchmarks.
#[derive(Clone, Debug)]
pub enum BenchOutputError {
    /// A file of the run cannot be read.
    Unreadable {
        file: String,
        error: Arc<io::Error>,
    },
    LargeFile {
        file: String,
    },
    /// A directory of Criterion cannot be read.
    UnreadableDirectory(Arc<io::Error>),
    /// A file of Criterion is malformed.
    CriterionJson {
        file: &'static str,
        error: Arc<serde_json::Error>,
    },
    /// The samples of Criterion do not have one time for each count of iterations.
    CriterionCounts {
        iterations: usize,
        times: usize,
    },
    /// The samples of one benchmark of Criterion are invalid.
    CriterionBench {
        name: String,
        error: Box<Self>,
    },
    HyperfineJson(Arc<serde_json::Error>),
    /// A line of a harness has no time.
    InvalidTime {
        time: String,
        name: String,
        /// Valid time of this harness.
        example: &'static str,
    },
    /// The times of a benchmark are missing, negative or infinite.
    InvalidTimes {
        name: String,
    },
    LongName,
    TooManyBenches,
    DuplicateName(String),
}

impl fmt::Display for BenchOutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { file, error } => write!(f, "{file}: it cannot be read: {error}"),
            Self::LargeFile { file } => {
                write!(f, "{file}: it has more than {} MiB", MAX_OUTPUT_BYTES >> 20)
            }
            Self::UnreadableDirectory(error) => {
                write!(f, "the files of Criterion cannot be read: {error}")
            }
            Self::CriterionJson { file, error } => {
                write!(f, "{file} was not written by Criterion: {error}")
            }
            Self::CriterionCounts { iterations, times } => write!(
                f,
                "sample.json was not written by Criterion: {iterations} counts of iterations for {times} times"
            ),
            Self::CriterionBench { name, error } => write!(f, "{name}: {error}"),
            Self::HyperfineJson(error) => {
                write!(f, "its standard output is not the JSON of hyperfine: {error}")
            }
            Self::InvalidTime { time, name, example } => {
                write!(f, "invalid time {time:?} of {name}: expected e.g. {example}")
            }
            Self::InvalidTimes { name } => write!(f, "the times of {name:?} are invalid"),
            Self::LongName => {
                write!(f, "the name of a benchmark has more than {MAX_NAME_BYTES} bytes")
            }
            Self::TooManyBenches => write!(f, "it ran more than {MAX_BENCHES} benchmarks"),
            Self::DuplicateName(name) => {
                write!(f, "it ran two benchmarks with the name {name:?}")
            }
        }
    }
}

impl Error for BenchOutputError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unreadable { error, .. } | Self::UnreadableDirectory(error) => Some(&**error),
            Self::CriterionJson { error, .. } | Self::HyperfineJson(error) => Some(&**error),
            Self::CriterionBench { error, .. } => Some(&**error),
            _ => None,
        }
    }
}
