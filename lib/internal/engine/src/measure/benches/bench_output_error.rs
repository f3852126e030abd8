//! Errors of the output of benchmarks.

use std::io;
use std::sync::Arc;

use super::bench_samples::{MAX_BENCHES, MAX_NAME_BYTES};
use super::cbor::CborError;
use super::criterion_server::MAX_CONNECTIONS;
use super::{BenchFormat, MAX_OUTPUT_BYTES};

/// An output that is not one of the harness, or that contains no usable benchmarks.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BenchOutputError {
    #[error("{file}: it cannot be read: {error}")]
    Unreadable {
        file: String,
        #[source]
        error: Arc<io::Error>,
    },
    #[error("{file}: it has more than {} MiB", MAX_OUTPUT_BYTES >> 20)]
    LargeFile { file: String },
    #[error("the files of Criterion cannot be read: {0}")]
    UnreadableDirectory(#[source] Arc<io::Error>),
    #[error("{file} was not written by Criterion: {error}")]
    CriterionJson {
        file: &'static str,
        #[source]
        error: Arc<serde_json::Error>,
    },
    #[error(
        "sample.json was not written by Criterion: {iterations} counts of iterations for {times} times"
    )]
    CriterionCounts { iterations: usize, times: usize },
    /// The samples of one benchmark of Criterion are invalid.
    #[error("{name}: {error}")]
    CriterionBench {
        name: String,
        #[source]
        error: Box<Self>,
    },
    #[error("a message of Criterion cannot be read: {0}")]
    CriterionMessage(#[source] CborError),
    #[error("the connection of Criterion cannot be served: {0}")]
    CriterionConnection(#[source] Arc<io::Error>),
    #[error("it opened more than {MAX_CONNECTIONS} connections to the gate at once")]
    TooManyConnections,
    #[error("it ran no benchmark: expected {}", .0.expected_output())]
    NoBench(BenchFormat),
    #[error("its standard output is not the JSON of hyperfine: {0}")]
    HyperfineJson(#[source] Arc<serde_json::Error>),
    #[error("the file of BENCHMARK_OUT is not the JSON of Google Benchmark 1.5 or later: {0}")]
    GoogleBenchmarkJson(#[source] Arc<serde_json::Error>),
    #[error("the file of -rff is not the JSON of JMH: {0}")]
    JmhJson(#[source] Arc<serde_json::Error>),
    #[error("the file of --benchmark-json is not the JSON of pytest-benchmark: {0}")]
    PytestJson(#[source] Arc<serde_json::Error>),
    #[error("the report of pytest is not XML: {0}")]
    PytestReport(#[source] Arc<roxmltree::Error>),
    /// Each run of the harness replaces the file of the last one.
    #[error("it ran {0} more than once, which leaves only the last results; run it once")]
    SeveralRuns(BenchFormat),
    /// The program ended early, or lost a part of its output.
    #[error("its output has no {end}, so that it is incomplete")]
    Incomplete {
        /// Part of the output that the harness always prints at its end.
        end: &'static str,
    },
    #[error("its output ends with {line:?}, and names no benchmark that failed")]
    UnnamedFailure { line: String },
    #[error("its last line counts {counted} {kind} benchmarks, and {listed} are listed")]
    OtherCount {
        counted: u64,
        /// Adjective for the benchmarks.
        kind: &'static str,
        listed: u64,
    },
    #[error("invalid time {time:?} of {name}: expected e.g. {example}")]
    InvalidTime {
        time: String,
        name: String,
        /// Valid time of this harness.
        example: &'static str,
    },
    /// The times of a benchmark are missing, negative or infinite.
    #[error("the times of {name:?} are invalid")]
    InvalidTimes { name: String },
    #[error("the name of a benchmark has more than {MAX_NAME_BYTES} bytes")]
    LongName,
    #[error("it ran more than {MAX_BENCHES} benchmarks")]
    TooManyBenches,
    #[error("it ran two benchmarks with the name {0:?}")]
    DuplicateName(String),
}
