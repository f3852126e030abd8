//! Results of benchmarks that a program runs, read from the output of their harness.
//!
//! A run of a gate is a short run of the whole program. It gives one value per number of a
//! benchmark: the lower quartile of its samples, or the upper one if higher values are better.

mod bench_harness;
mod bench_output_error;
mod bench_request;
mod bench_samples;
mod bench_selection;
mod cbor;
mod command_words;
mod criterion;
mod criterion_server;
mod divan;
mod go;
mod google_benchmark;
mod hyperfine;
mod jmh;
mod known_cause;
mod lenient_json;
mod libtest;
mod pytest_benchmark;

use std::fmt::{self, Display};
use std::io::Read as _;
use std::ops::RangeInclusive;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::machine::os;

use bench_harness::{BenchMillis, Harness};
use bench_samples::summarize;

pub use bench_output_error::BenchOutputError;
pub use bench_request::BenchRequest;
pub use bench_samples::{BenchNumber, BenchResult, Unmeasured};
pub use criterion_server::{CriterionServer, CriterionTalk, ENV_PORT as ENV_CRITERION_PORT};
pub use known_cause::KnownCause;

/// Maximum size of an output. A suite of thousands of benchmarks writes less than a megabyte.
const MAX_OUTPUT_BYTES: u64 = 64 << 20;
/// Name of the standard output in the directory of a run.
pub const STDOUT_NAME: &str = "stdout";
/// Name of the directory of Criterion in the directory of a run.
pub const CRITERION_NAME: &str = "criterion";

/// A harness of benchmarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BenchFormat {
    /// Files of Criterion.rs below `CRITERION_HOME`.
    Criterion,
    /// The table that divan prints.
    Divan,
    /// The lines that Go's `testing` package prints.
    Go,
    /// The JSON that Google Benchmark writes.
    GoogleBenchmark,
    /// The JSON that hyperfine exports.
    Hyperfine,
    /// The JSON that JMH writes.
    Jmh,
    /// The lines that Rust's own harness prints, and others in its format.
    Libtest,
    /// The JSON that the plugin pytest-benchmark writes.
    PytestBenchmark,
}

/// Length of a run of benchmarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunLength {
    /// The length at which a gate decides with the fewest seconds.
    Short,
    /// The least length that gives a value, for a screen: it has time for few runs.
    Brief,
}

impl BenchFormat {
    /// All formats, in the order of their names.
    pub const ALL: [Self; 8] = [
        Self::Criterion,
        Self::Divan,
        Self::Go,
        Self::GoogleBenchmark,
        Self::Hyperfine,
        Self::Jmh,
        Self::Libtest,
        Self::PytestBenchmark,
    ];

    fn harness(self) -> &'static Harness {
        match self {
            Self::Criterion => &criterion::HARNESS,
            Self::Divan => &divan::HARNESS,
            Self::Go => &go::HARNESS,
            Self::GoogleBenchmark => &google_benchmark::HARNESS,
            Self::Hyperfine => &hyperfine::HARNESS,
            Self::Jmh => &jmh::HARNESS,
            Self::Libtest => &libtest::HARNESS,
            Self::PytestBenchmark => &pytest_benchmark::HARNESS,
        }
    }

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        self.harness().name
    }

    /// Describes the output of a run that has a benchmark.
    pub fn expected_output(self) -> &'static str {
        self.harness().expected_output
    }

    /// Returns the name of the number that is judged unless `--metric` chooses another one.
    pub fn default_number(self) -> &'static str {
        self.harness().default_number
    }

    /// Returns the names of all numbers; `None` if benchmarks can report any.
    pub fn known_numbers(self) -> Option<&'static [&'static str]> {
        self.harness().known_numbers
    }

    /// Returns a number that `--metric` can choose.
    pub fn example_number(self) -> &'static str {
        self.harness().example_number
    }

    /// Returns how long a benchmark takes in a run, if neither its code nor the command sets a
    /// time. `None` if that is not known.
    pub fn bench_time(self, length: RunLength) -> Option<RangeInclusive<Duration>> {
        let BenchMillis { short, brief } = self.harness().bench_millis.as_ref()?;
        let millis = match length {
            RunLength::Short => short,
            RunLength::Brief => brief,
        };
        let [min, max] = [millis.start(), millis.end()].map(|ms| Duration::from_millis(*ms));
        Some(min..=max)
    }
}

impl Display for BenchFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is not one of a harness.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown harness {:?}: expected one of {}",
    .0,
    BenchFormat::ALL.map(BenchFormat::name).join(", ")
)]
pub struct UnknownFormat(String);

impl FromStr for BenchFormat {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        let found = Self::ALL.into_iter().find(|format| format.name() == text);
        found.ok_or_else(|| UnknownFormat(text.to_owned()))
    }
}

/// The output of a run of benchmarks.
pub struct BenchOutput<'a> {
    /// The directory of the run.
    pub directory: &'a Path,
    pub criterion_talk: Option<&'a CriterionTalk>,
}

/// Parses the output of a run of a harness: its file, for Criterion a `sample.json`, or its
/// standard output.
///
/// # Errors
///
/// Returns an error if the output is not one of the harness.
pub fn parse(format: BenchFormat, bytes: &[u8]) -> Result<Vec<BenchResult>, BenchOutputError> {
    summarize((format.harness().parse)(bytes, &[])?)
}

/// Parses the report of pytest next to the JSON of pytest-benchmark.
///
/// # Errors
///
/// Returns an error if it is not one.
pub fn parse_pytest_report(report: &[u8]) -> Result<(), BenchOutputError> {
    pytest_benchmark::add_unmeasured(&mut Vec::new(), report)
}

/// Parses a message that Criterion sends over its connection.
///
/// # Errors
///
/// Returns an error if it is not one.
pub fn parse_criterion_message(bytes: &[u8]) -> Result<(), BenchOutputError> {
    criterion_server::parse_message(bytes).map(|_| ())
}

/// Returns whether a number of a benchmark is a count, whose zero is exact. A time of zero is below
/// what its clock can resolve.
pub fn is_count(number: &str) -> bool {
    BenchFormat::ALL.iter().any(|format| format.harness().counts.contains(&number))
}

/// Returns whether a number of a benchmark, of which lower values are better, is a time.
///
/// The number that a harness judges by default is one, even if its unit is not known. A number that
/// the benchmark adds is one by its unit, or by the end of its name: `p99-ns`, `wait_us`.
pub fn is_time(number: &str, unit: &str) -> bool {
    const TIME_UNITS: [&str; 12] = [
        "ps", "ns", "us", "µs", "ms", "s", "sec", "secs", "seconds", "nanoseconds", "microseconds",
        "milliseconds",
    ];
    let has_time_unit = |text: &str| {
        let amount = text.split('/').next().unwrap_or(text);
        let last = amount.rsplit(|c: char| !c.is_alphabetic()).next().unwrap_or(amount);
        TIME_UNITS.contains(&last)
    };
    let is_default = BenchFormat::ALL.iter().any(|format| format.default_number() == number);
    is_default || has_time_unit(unit) || has_time_unit(number)
}

/// Reads a file that a program may have written. All writers have exited.
fn read_if_exists(path: &Path) -> Result<Option<Vec<u8>>, BenchOutputError> {
    path.exists().then(|| read_bounded(path)).transpose()
}

/// Reads a file that a program wrote. All writers have exited.
fn read_bounded(path: &Path) -> Result<Vec<u8>, BenchOutputError> {
    let name = || path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let read_error = |error| BenchOutputError::Unreadable { file: name(), error: Arc::new(error) };
    let file = os::open_regular(path).map_err(read_error)?;
    let mut bytes = Vec::new();
    file.take(MAX_OUTPUT_BYTES + 1).read_to_end(&mut bytes).map_err(read_error)?;
    match bytes.len() as u64 > MAX_OUTPUT_BYTES {
        true => Err(BenchOutputError::LargeFile { file: name() }),
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_from_counts() {
        for (number, unit) in [
            ("ns/op", "ns"),
            ("time", ""),
            ("time", "J"),
            ("score", "weeks/op"),
            ("fastest", "ns"),
            ("p99-ns", "p99-ns"),
            ("p99-µs/op", "p99-µs/op"),
            ("wait_us", ""),
        ] {
            assert!(is_time(number, unit), "{number} {unit}");
        }
        for (number, unit) in
            [("misses/op", "misses/op"), ("allocs/op", "allocs/op"), ("B/op", "B/op"), ("ops", "")]
        {
            assert!(!is_time(number, unit), "{number} {unit}");
        }
    }

    #[test]
    fn names_of_formats_are_parsed() {
        for format in BenchFormat::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        let error = "junit".parse::<BenchFormat>().unwrap_err().to_string();
        assert!(
            error.starts_with("unknown harness \"junit\": expected one of criterion"),
            "{error}"
        );
    }
}
