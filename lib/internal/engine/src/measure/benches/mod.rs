//! Results of benchmarks that a program runs, read from the output of their harness.
//!
//! A run of a gate is a short run of the whole program. It gives one value per benchmark: the
//! lower quartile of the times per iteration.

mod bench_output_error;
mod criterion;
mod go;
mod hyperfine;
mod libtest;

use std::fmt::{self, Display};
use std::io::Read as _;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use crate::machine::os;

pub use bench_output_error::BenchOutputError;

/// Maximum size of an output. A suite of thousands of benchmarks writes less than a megabyte.
const MAX_OUTPUT_BYTES: u64 = 64 << 20;
/// Maximum number of benchmarks of a run.
const MAX_BENCHES: usize = 10_000;
/// Maximum size of a name that is made of several parts.
const MAX_NAME_BYTES: usize = 512;
/// Minimum time of an iteration. Code that the optimizer removed takes none, which has no logarithm.
const MIN_ITERATION_NS: f64 = 1e-3;

/// A harness of benchmarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BenchFormat {
    /// Files of Criterion.rs below `CRITERION_HOME`.
    Criterion,
    /// The lines that Go's `testing` package prints.
    Go,
    /// The JSON that hyperfine exports.
    Hyperfine,
    /// The lines that Rust's own harness prints, and others in its format.
    Libtest,
}

/// Length of a run of benchmarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunLength {
    /// The length at which a gate decides with the fewest seconds.
    Short,
    /// The least length that gives a value, for a screen: it has time for few runs.
    Brief,
}

/// A flag of a harness, with its value if it has one.
struct Flag {
    name: &'static str,
    value: Option<&'static str>,
    /// The value in a brief run, if it is another one.
    brief_value: Option<&'static str>,
}

const fn flag(name: &'static str) -> Flag {
    Flag { name, value: None, brief_value: None }
}

const fn option(name: &'static str, value: &'static str) -> Flag {
    Flag { name, value: Some(value), brief_value: None }
}

impl Flag {
    const fn or_brief(self, value: &'static str) -> Self {
        Self { brief_value: Some(value), ..self }
    }

    fn value(&self, length: RunLength) -> Option<&'static str> {
        match length {
            RunLength::Short => self.value,
            RunLength::Brief => self.brief_value.or(self.value),
        }
    }
}

impl BenchFormat {
    /// All formats, in the order of their names.
    pub const ALL: [Self; 4] = [Self::Criterion, Self::Go, Self::Hyperfine, Self::Libtest];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Criterion => "criterion",
            Self::Go => "go",
            Self::Hyperfine => "hyperfine",
            Self::Libtest => "libtest",
        }
    }

    /// Describes the output of a run that has a benchmark.
    pub fn expected_output(self) -> &'static str {
        match self {
            Self::Criterion => "files of Criterion in the directory CRITERION_HOME",
            Self::Go => "lines like `BenchmarkSort-8  1000  1234 ns/op` on standard output",
            Self::Hyperfine => "a command in the JSON of hyperfine on standard output",
            Self::Libtest => "lines like `test sort ... bench: 1,234 ns/iter` on standard output",
        }
    }

    /// Returns the flags of a short run: a gate needs many runs, and its own statistics instead of
    /// those of the harness.
    fn flags(self) -> &'static [Flag] {
        match self {
            Self::Criterion => criterion::FLAGS,
            Self::Go => go::FLAGS,
            Self::Hyperfine => hyperfine::FLAGS,
            Self::Libtest => libtest::FLAGS,
        }
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

/// The benchmarks that a gate judges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BenchRequest {
    pub format: BenchFormat,
    /// Filters of the harness. Without one, all benchmarks run.
    pub filters: Vec<String>,
    pub length: RunLength,
}

/// A benchmark of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchResult {
    /// The id by which the harness selects the benchmark.
    pub name: String,
    /// Lower quartile of the times of an iteration.
    pub ns: f64,
}

/// The samples of a benchmark in a run: the time of an iteration in each.
#[derive(Clone, Debug, PartialEq)]
struct BenchSamples {
    name: String,
    ns: Vec<f64>,
}

/// The paths to which a run of benchmarks writes.
pub struct BenchOutput<'a> {
    pub stdout: &'a Path,
    pub criterion_home: &'a Path,
}

impl BenchRequest {
    /// Returns the arguments that the command of the user lacks. Its own flags have priority.
    pub fn arguments(&self, command: &[String]) -> Vec<String> {
        let mut arguments = Vec::new();
        for flag in self.format.flags() {
            let name = flag.name;
            // Criterion accepts only one of these.
            let is_quick = name == "--sample-size" && has_flag(command, "--quick");
            if is_quick || has_flag(command, name) {
                continue;
            }
            match (flag.value(self.length), self.format) {
                (None, _) => arguments.push(name.to_owned()),
                (Some(value), BenchFormat::Go) => arguments.push(format!("{name}={value}")),
                (Some(value), _) => arguments.extend([name.to_owned(), value.to_owned()]),
            }
        }
        arguments.extend(self.filter_arguments(command));
        arguments
    }

    fn filter_arguments(&self, command: &[String]) -> Vec<String> {
        match self.format {
            BenchFormat::Hyperfine => Vec::new(),
            BenchFormat::Libtest => self.filters.clone(),
            // The single filter is a regular expression.
            BenchFormat::Criterion if self.filters.is_empty() => Vec::new(),
            BenchFormat::Criterion => vec![self.filters.join("|")],
            BenchFormat::Go if has_flag(command, "-test.bench") => Vec::new(),
            BenchFormat::Go if self.filters.is_empty() => vec!["-test.bench=.".to_owned()],
            BenchFormat::Go => vec![format!("-test.bench={}", self.filters.join("|"))],
        }
    }

    /// Reads the benchmarks of a run, in the order of their names.
    ///
    /// # Errors
    ///
    /// Returns an error if the output is not one of the harness, or contains a benchmark twice.
    pub fn read(&self, output: &BenchOutput<'_>) -> Result<Vec<BenchResult>, BenchOutputError> {
        let samples = match self.format {
            BenchFormat::Criterion => criterion::read(output.criterion_home)?,
            _ => self.parse(&read_bounded(output.stdout)?)?,
        };
        summarize(samples)
    }

    /// Parses the standard output of a run.
    fn parse(&self, stdout: &[u8]) -> Result<Vec<BenchSamples>, BenchOutputError> {
        let text = String::from_utf8_lossy(stdout);
        match self.format {
            BenchFormat::Criterion => Ok(Vec::new()),
            BenchFormat::Go => go::parse(&text),
            BenchFormat::Hyperfine => hyperfine::parse(stdout, &self.filters),
            BenchFormat::Libtest => libtest::parse(&text),
        }
    }
}

/// Parses the standard output of a run of a harness, or for Criterion a `sample.json`.
///
/// # Errors
///
/// Returns an error if the output is not one of the harness.
pub fn parse(format: BenchFormat, bytes: &[u8]) -> Result<Vec<BenchResult>, BenchOutputError> {
    let request = BenchRequest { format, filters: Vec::new(), length: RunLength::Short };
    let samples = match format {
        BenchFormat::Criterion => {
            vec![BenchSamples { name: "sample".to_owned(), ns: criterion::parse_samples(bytes)? }]
        }
        _ => request.parse(bytes)?,
    };
    summarize(samples)
}

/// Returns whether a command has a flag, whichever way its value is attached. Go accepts one or two
/// dashes, and `test.` in front of the name.
fn has_flag(command: &[String], flag: &str) -> bool {
    fn plain_name(word: &str) -> &str {
        let name = word.trim_start_matches('-');
        let name = name.split_once('=').map_or(name, |(name, _)| name);
        name.strip_prefix("test.").unwrap_or(name)
    }
    let mut flags = command.iter().skip(1).filter(|word| word.starts_with('-'));
    flags.any(|word| plain_name(word) == plain_name(flag))
}

/// Joins the parts of a name.
///
/// # Errors
///
/// Returns an error if the name is too long. Its parts occur once in the output, but their names can
/// occur in the names of many benchmarks.
fn join_name(parts: &[&str], separator: &str) -> Result<String, BenchOutputError> {
    let bytes: usize = parts.iter().map(|part| part.len() + separator.len()).sum();
    match bytes > MAX_NAME_BYTES {
        true => Err(BenchOutputError::LongName),
        false => Ok(parts.join(separator)),
    }
}

/// Reduces the samples of each benchmark to one value.
fn summarize(samples: Vec<BenchSamples>) -> Result<Vec<BenchResult>, BenchOutputError> {
    if samples.len() > MAX_BENCHES {
        return Err(BenchOutputError::TooManyBenches);
    }
    let mut results = Vec::new();
    for BenchSamples { name, ns } in samples {
        let Some(ns) = lower_quartile(&ns) else {
            return Err(BenchOutputError::InvalidTimes { name });
        };
        results.push(BenchResult { name, ns: ns.max(MIN_ITERATION_NS) });
    }
    results.sort_by(|a, b| a.name.cmp(&b.name));
    match results.windows(2).find(|pair| pair[0].name == pair[1].name) {
        Some(pair) => Err(BenchOutputError::DuplicateName(pair[0].name.clone())),
        None => Ok(results),
    }
}

/// Returns the lower quartile of times. `None` if there is no time, or one that is not a time.
///
/// Interrupts and stolen time only lengthen samples, so the value holds as long as a quarter of them
/// is undisturbed.
fn lower_quartile(ns: &[f64]) -> Option<f64> {
    let mut sorted = ns.to_vec();
    sorted.sort_by(f64::total_cmp);
    let is_valid = sorted.iter().all(|ns| ns.is_finite() && *ns >= 0.0);
    sorted.get(ns.len().saturating_sub(1) / 4).copied().filter(|_| is_valid)
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

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    fn request(format: BenchFormat, filters: &[&str]) -> BenchRequest {
        let filters = filters.iter().map(|filter| (*filter).to_owned()).collect();
        BenchRequest { format, filters, length: RunLength::Short }
    }

    fn arguments(format: BenchFormat, filters: &[&str], command: &str) -> String {
        request(format, filters).arguments(&words(command)).join(" ")
    }

    #[test]
    fn missing_flags_are_added() {
        use BenchFormat::{Criterion, Go, Hyperfine, Libtest};
        let short = "--warm-up-time 0.01 --measurement-time 0.03 --sample-size 10 --nresamples 100";
        let criterion = format!("--bench --noplot {short}");
        for (format, filters, command, expected) in [
            (Criterion, &[][..], "./b", criterion.as_str()),
            (Criterion, &["fib", "^x$"], "./b", &format!("{criterion} fib|^x$")),
            (
                Criterion,
                &[],
                "./b --bench --noplot --sample-size=20 --warm-up-time 1",
                "--measurement-time 0.03 --nresamples 100",
            ),
            (
                Criterion,
                &[],
                "./b --bench --noplot --quick",
                "--warm-up-time 0.01 --measurement-time 0.03 --nresamples 100",
            ),
            (Libtest, &["a"], "./b --bench", "a"),
            (
                Go,
                &["X", "Y/z"],
                "./b.test",
                "-test.run=^$ -test.benchtime=20ms -test.count=3 -test.bench=X|Y/z",
            ),
            (Go, &[], "go test -bench Sort -benchtime=1s ./sort", "-test.run=^$ -test.count=3"),
            (Hyperfine, &["x"], "hyperfine -r 3 ./x", "--style none --export-json -"),
        ] {
            assert_eq!(arguments(format, filters, command), expected, "{format}: {command}");
        }
    }

    #[test]
    fn brief_runs_have_shorter_times() {
        use BenchFormat::{Criterion, Go, Hyperfine, Libtest};
        for (format, expected) in [
            (
                Criterion,
                "--bench --noplot --warm-up-time 0.003 --measurement-time 0.01 --sample-size 10 --nresamples 100",
            ),
            (Go, "-test.run=^$ -test.benchtime=5ms -test.count=3 -test.bench=."),
            (Hyperfine, "--style none --export-json -"),
            (Libtest, "--bench"),
        ] {
            let brief = BenchRequest { length: RunLength::Brief, ..request(format, &[]) };
            assert_eq!(brief.arguments(&words("./b")).join(" "), expected, "{format}");
        }
    }

    #[test]
    fn names_of_formats_are_parsed() {
        for format in BenchFormat::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        let error = "jmh".parse::<BenchFormat>().unwrap_err().to_string();
        assert!(error.starts_with("unknown harness \"jmh\": expected one of criterion"), "{error}");
    }

    #[test]
    fn lower_quartiles_of_times_are_exact() {
        assert_eq!(lower_quartile(&[3.0, 1.0, 2.0]), Some(1.0));
        assert_eq!(lower_quartile(&[4.0, 1.0, 2.0, 100.0, 7.0]), Some(2.0));
        let ten: Vec<f64> = (1..=10).rev().map(f64::from).collect();
        assert_eq!(lower_quartile(&ten), Some(3.0));
        assert_eq!(lower_quartile(&[0.0]), Some(0.0));
        for invalid in [&[][..], &[-1.0], &[f64::NAN], &[1.0, f64::INFINITY]] {
            assert_eq!(lower_quartile(invalid), None, "{invalid:?}");
        }
    }

    #[test]
    fn results_are_sorted_and_unique() {
        let samples = |name: &str, ns: f64| BenchSamples { name: name.to_owned(), ns: vec![ns] };
        let results = summarize(vec![samples("b", 2.0), samples("a", 0.0)]).unwrap();
        assert_eq!(results[0], BenchResult { name: "a".to_owned(), ns: MIN_ITERATION_NS });
        assert_eq!(results[1], BenchResult { name: "b".to_owned(), ns: 2.0 });
        let error = summarize(vec![samples("a", 2.0), samples("a", 1.0)]).unwrap_err().to_string();
        assert_eq!(error, "it ran two benchmarks with the name \"a\"");
        let too_many = (0..=MAX_BENCHES).map(|i| samples(&i.to_string(), 1.0)).collect();
        assert_eq!(
            summarize(too_many).unwrap_err().to_string(),
            "it ran more than 10000 benchmarks"
        );
        let too_long = join_name(&[&"x".repeat(510), "y"], "::").unwrap_err().to_string();
        assert_eq!(too_long, "the name of a benchmark has more than 512 bytes");
        let error = summarize(vec![samples("a", f64::NAN)]).unwrap_err().to_string();
        assert_eq!(error, "the times of \"a\" are invalid");
    }
}
