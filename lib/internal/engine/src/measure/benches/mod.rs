//! Results of benchmarks that a program runs, read from the output of their harness.
//!
//! A run of a gate is a short run of the whole program. It gives one value per number of a
//! benchmark: the lower quartile of its samples, or the upper one if higher values are better.

mod bench_output_error;
mod cbor;
mod criterion;
mod criterion_server;
mod divan;
mod go;
mod google_benchmark;
mod hyperfine;
mod known_cause;
mod lenient_json;
mod libtest;
mod pytest_benchmark;

use std::collections::HashMap;
use std::env;
use std::ffi::OsString;
use std::fmt::{self, Display};
use std::io::Read as _;
use std::ops::RangeInclusive;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use files::gate::verdict::UnjudgedReason;
use jitterstat::series::Better;

use crate::machine::os;

pub use bench_output_error::BenchOutputError;
pub use criterion_server::{CriterionServer, CriterionTalk, ENV_PORT as ENV_CRITERION_PORT};
pub use known_cause::KnownCause;

/// Maximum size of an output. A suite of thousands of benchmarks writes less than a megabyte.
const MAX_OUTPUT_BYTES: u64 = 64 << 20;
/// Maximum number of benchmarks of a run.
const MAX_BENCHES: usize = 10_000;
/// Maximum size of a name that is made of several parts.
const MAX_NAME_BYTES: usize = 512;
/// Maximum size of an argument that selects benchmarks. Linux allows 128 KiB, Windows 32 KiB for a
/// whole command.
const MAX_ARGUMENT_BYTES: usize = 16 << 10;

/// Name of the standard output in the directory of a run.
pub const STDOUT_NAME: &str = "stdout";
/// Name of the directory of Criterion in the directory of a run.
pub const CRITERION_NAME: &str = "criterion";

/// Variable that names the directory of Criterion.
const ENV_CRITERION_HOME: &str = "CRITERION_HOME";

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

/// A flag or variable of a harness, with its value if it has one.
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
    pub const ALL: [Self; 7] = [
        Self::Criterion,
        Self::Divan,
        Self::Go,
        Self::GoogleBenchmark,
        Self::Hyperfine,
        Self::Libtest,
        Self::PytestBenchmark,
    ];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Criterion => "criterion",
            Self::Divan => "divan",
            Self::Go => "go",
            Self::GoogleBenchmark => "google-benchmark",
            Self::Hyperfine => "hyperfine",
            Self::Libtest => "libtest",
            Self::PytestBenchmark => "pytest-benchmark",
        }
    }

    /// Describes the output of a run that has a benchmark.
    pub fn expected_output(self) -> &'static str {
        match self {
            Self::Criterion => "files of Criterion in the directory CRITERION_HOME",
            Self::Divan => "rows of the table of divan on standard output",
            Self::Go => "lines like `BenchmarkSort-8  1000  1234 ns/op` on standard output",
            Self::GoogleBenchmark => "benchmarks in the file that BENCHMARK_OUT names",
            Self::Hyperfine => "a command in the JSON of hyperfine on standard output",
            Self::Libtest => "lines like `test sort ... bench: 1,234 ns/iter` on standard output",
            Self::PytestBenchmark => {
                "tests with the fixture of pytest-benchmark, which pytest-xdist disables unless it has -n 0"
            }
        }
    }

    /// Returns the name of the number that is judged unless `--metric` chooses another one.
    pub fn default_number(self) -> &'static str {
        match self {
            Self::Divan => divan::MEDIAN,
            Self::Go => "ns/op",
            Self::GoogleBenchmark => google_benchmark::REAL_TIME,
            Self::Criterion | Self::Hyperfine | Self::Libtest => "time",
            Self::PytestBenchmark => pytest_benchmark::TIME,
        }
    }

    /// Returns the names of all numbers; `None` if benchmarks can report any.
    pub fn known_numbers(self) -> Option<&'static [&'static str]> {
        match self {
            Self::Criterion => Some(&["time", "throughput"]),
            Self::Divan => Some(divan::NUMBERS),
            Self::Go | Self::GoogleBenchmark | Self::PytestBenchmark => None,
            Self::Hyperfine => Some(&["time"]),
            Self::Libtest => Some(&["time", "MB/s"]),
        }
    }

    /// Returns a number that `--metric` can choose.
    pub fn example_number(self) -> &'static str {
        match self {
            Self::Criterion => "throughput",
            Self::Divan => "fastest",
            Self::Go => "allocs/op",
            Self::GoogleBenchmark => "cpu_time",
            Self::Hyperfine => "time",
            Self::Libtest => "MB/s",
            Self::PytestBenchmark => "min",
        }
    }

    /// Returns the index in a command at which the flags of the harness are inserted.
    fn argument_place(self, command: &[String]) -> usize {
        let find = |start: usize, is_found: &dyn Fn(&str) -> bool| {
            let found = command[start..].iter().position(|word| is_found(word));
            found.map_or(command.len(), |index| start + index)
        };
        match self {
            // Cargo passes on what follows its separator.
            _ if is_program(command, "cargo") => command.len(),
            // An executable of tests reads flags only in front of its first other argument.
            Self::Go => match command.iter().position(|word| file_stem(word).ends_with(".test")) {
                Some(executable) => executable + 1,
                None => find(0, &|word| is_separator(word)),
            },
            Self::Hyperfine => {
                let program = find(0, &|word| file_stem(word) == "hyperfine");
                find(program, &|word| is_separator(word))
            }
            // A separator in front of an executable belongs to a program that starts it.
            Self::Criterion | Self::Divan | Self::Libtest => {
                let is_program = |word: &String| word.contains('/') && Path::new(word).is_file();
                let is_own = |index: &usize| {
                    is_separator(&command[*index])
                        && !command.get(index + 1).is_some_and(is_program)
                };
                (0..command.len()).find(is_own).unwrap_or(command.len())
            }
            // They have variables instead of flags.
            Self::GoogleBenchmark | Self::PytestBenchmark => command.len(),
        }
    }

    /// Returns how long a benchmark takes in a run, if neither its code nor the command sets a time.
    /// `None` if that is not known.
    pub fn bench_time(self, length: RunLength) -> Option<RangeInclusive<Duration>> {
        let ms = Duration::from_millis;
        match self {
            // Besides its flags, the iterations that find their number, and messages.
            Self::Criterion => Some(ms(8)..=ms(10)),
            // Three lines, each after runs that find the number of iterations.
            Self::Divan if length == RunLength::Brief => Some(ms(5)..=ms(30)),
            Self::Divan => Some(ms(20)..=ms(110)),
            Self::GoogleBenchmark if length == RunLength::Brief => Some(ms(20)..=ms(60)),
            Self::GoogleBenchmark => Some(ms(80)..=ms(200)),
            Self::Go if length == RunLength::Brief => Some(ms(20)..=ms(60)),
            Self::Go => Some(ms(80)..=ms(200)),
            // As long as its commands take, or the options of its configuration.
            Self::Hyperfine | Self::PytestBenchmark => None,
            Self::Libtest => Some(ms(300)..=ms(3_000)),
        }
    }

    /// Returns the flags of a short run: a gate needs many runs, and its own statistics instead of
    /// those of the harness.
    fn flags(self) -> &'static [Flag] {
        match self {
            Self::Criterion => criterion::FLAGS,
            Self::Divan => divan::FLAGS,
            Self::Go => go::FLAGS,
            Self::Hyperfine => hyperfine::FLAGS,
            Self::Libtest => libtest::FLAGS,
            Self::GoogleBenchmark | Self::PytestBenchmark => &[],
        }
    }

    /// Returns the variables of a short run that the user can replace.
    fn variables(self) -> &'static [Flag] {
        match self {
            Self::Divan => divan::VARIABLES,
            Self::GoogleBenchmark => google_benchmark::VARIABLES,
            _ => &[],
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
    /// Names of the numbers to judge.
    pub numbers: Vec<String>,
    /// Filters of the harness. Without one, all benchmarks run.
    pub filters: Vec<String>,
    pub length: RunLength,
}

/// A benchmark of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchResult {
    /// The id by which the harness selects the benchmark.
    pub name: String,
    /// The numbers that the harness reported, none if it reported none.
    pub numbers: Vec<BenchNumber>,
    /// Why it has no number, if the harness states it.
    pub unmeasured: Option<Unmeasured>,
}

/// The statement of a harness that a benchmark has no number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmeasured {
    pub reason: UnjudgedReason,
    /// The words of the benchmark, which can be empty.
    pub message: String,
}

/// A number of a benchmark in a run.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchNumber {
    /// Name by which `--metric` chooses the number.
    pub name: String,
    /// The unit that the harness states; empty if it states none.
    pub unit: String,
    pub better: Better,
    /// The value, at least zero; `None` if a sample is negative or not finite.
    pub value: Option<f64>,
}

/// The samples of a benchmark in a run, for each of its numbers.
#[derive(Clone, Debug, PartialEq)]
struct BenchSamples {
    name: String,
    numbers: Vec<NumberSamples>,
    unmeasured: Option<Unmeasured>,
}

#[derive(Clone, Debug, PartialEq)]
struct NumberSamples {
    name: String,
    unit: String,
    better: Better,
    samples: Vec<f64>,
}

impl BenchSamples {
    fn new(name: String, numbers: Vec<NumberSamples>) -> Self {
        Self { name, numbers, unmeasured: None }
    }

    fn without_number(name: String, unmeasured: Option<Unmeasured>) -> Self {
        Self { name, numbers: Vec::new(), unmeasured }
    }

    /// Creates a benchmark whose only number is the time of an iteration.
    fn from_times(name: String, number: &str, ns: Vec<f64>) -> Self {
        Self::new(name, vec![NumberSamples::new(number, "ns", Better::Lower, ns)])
    }
}

impl NumberSamples {
    fn new(name: &str, unit: &str, better: Better, samples: Vec<f64>) -> Self {
        Self { name: name.to_owned(), unit: unit.to_owned(), better, samples }
    }

    fn reduce(self) -> BenchNumber {
        let Self { name, unit, better, samples } = self;
        let value = good_quartile(&samples, better);
        BenchNumber { name, unit, better, value }
    }
}

/// The output of a run of benchmarks.
pub struct BenchOutput<'a> {
    /// The directory of the run.
    pub directory: &'a Path,
    pub criterion_talk: Option<&'a CriterionTalk>,
}

/// How a harness is made to run a part of its benchmarks.
#[derive(Clone, Debug, PartialEq)]
enum Selection {
    /// Arguments that replace the filters of the request.
    Filter(Vec<String>),
    /// A command that replaces the one of the user.
    Command(Vec<String>),
}

impl BenchFormat {
    /// Returns how the harness is made to run these benchmarks of a command. It may run others in
    /// addition, but must not leave one out. `None` if it can only run everything.
    ///
    /// A selection that proves wrong when it runs is dropped, and the gate runs everything again.
    fn selection(self, command: &[String], names: &[&str]) -> Option<Selection> {
        match self {
            Self::Criterion => Some(Selection::Filter(vec![criterion::name_filter(names)])),
            Self::Divan => Some(Selection::Filter(divan::name_filters(names))),
            Self::GoogleBenchmark => {
                Some(Selection::Filter(vec![google_benchmark::name_flag(names)]))
            }
            Self::Go => Some(go::select(command, names)),
            Self::Hyperfine => hyperfine::select(command, names).map(Selection::Command),
            Self::Libtest => Some(Selection::Filter(libtest::name_filters(names))),
            Self::PytestBenchmark => {
                pytest_benchmark::name_option(names).map(|option| Selection::Filter(vec![option]))
            }
        }
    }
}

impl BenchRequest {
    /// Returns the command for a run of only these benchmarks, with the arguments that the command of
    /// the user lacks; `None` if the harness cannot select them.
    pub fn select(&self, command: &[String], names: &[&str]) -> Option<Vec<String>> {
        let selected = match self.format.selection(command, names)? {
            Selection::Filter(filters) => self.add_filtered(command, Some(filters)),
            Selection::Command(command) => self.add_arguments(&command),
        };
        let longest = selected.iter().map(String::len).max().unwrap_or(0);
        (longest <= MAX_ARGUMENT_BYTES).then_some(selected)
    }

    /// Adds the arguments that the command of the user lacks. Its own flags have priority.
    ///
    /// The arguments precede the separator behind which the harness would not read them.
    pub fn add_arguments(&self, command: &[String]) -> Vec<String> {
        self.add_filtered(command, None)
    }

    /// Adds the missing arguments and filters, by default those of the request.
    fn add_filtered(&self, command: &[String], filters: Option<Vec<String>>) -> Vec<String> {
        let place = self.format.argument_place(command);
        let (before, after) = command.split_at(place);
        let is_cargo = is_program(command, "cargo") && !command.iter().any(|word| word == "--");
        let separator = is_cargo.then(|| "--".to_owned());
        // What follows a separator belongs to the program of the user.
        let own =
            if after.first().is_some_and(|word| is_separator(word)) { before } else { command };
        let filters = filters.unwrap_or_else(|| self.filter_arguments(own));
        let arguments = [self.missing_arguments(own), filters].concat();
        [before, separator.as_slice(), &arguments, after].concat()
    }

    fn missing_arguments(&self, command: &[String]) -> Vec<String> {
        let mut arguments = Vec::new();
        for flag in self.format.flags() {
            let name = flag.name;
            // Criterion accepts only one of these.
            let is_quick = name == "--sample-size" && has_flag(command, "--quick");
            // Cargo adds this one itself.
            let is_of_cargo = name == "--bench" && is_program(command, "cargo");
            if is_quick || is_of_cargo || has_flag(command, name) {
                continue;
            }
            match (flag.value(self.length), self.format) {
                (None, _) => arguments.push(name.to_owned()),
                (Some(value), BenchFormat::Go) => arguments.push(format!("{name}={value}")),
                (Some(value), _) => arguments.extend([name.to_owned(), value.to_owned()]),
            }
        }
        let is_of_memory = |number: &String| go::MEMORY_NUMBERS.contains(&number.as_str());
        if self.format == BenchFormat::Go
            && self.numbers.iter().any(is_of_memory)
            && !has_flag(command, "-test.benchmem")
        {
            arguments.push("-test.benchmem".to_owned());
        }
        arguments
    }

    fn filter_arguments(&self, command: &[String]) -> Vec<String> {
        match self.format {
            // Hyperfine has no filter, and the others have variables.
            BenchFormat::Hyperfine
            | BenchFormat::GoogleBenchmark
            | BenchFormat::PytestBenchmark => Vec::new(),
            BenchFormat::Divan | BenchFormat::Libtest => self.filters.clone(),
            // The single filter is a regular expression.
            BenchFormat::Criterion if self.filters.is_empty() => Vec::new(),
            BenchFormat::Criterion => vec![self.filters.join("|")],
            BenchFormat::Go if has_flag(command, "-test.bench") => Vec::new(),
            BenchFormat::Go if self.filters.is_empty() => vec!["-test.bench=.".to_owned()],
            BenchFormat::Go => vec![format!("-test.bench={}", self.filters.join("|"))],
        }
    }

    /// Returns the variables of a run that writes to a directory. Those of the user have priority,
    /// except for the place and the format of the output.
    pub fn variables(&self, directory: &Path) -> Vec<(&'static str, OsString)> {
        let is_new = |variable: &&Flag| env::var_os(variable.name).is_none();
        let defaults = self.format.variables().iter().filter(is_new);
        let defaults = defaults.filter_map(|v| Some((v.name, v.value(self.length)?.into())));
        let mut variables: Vec<(&'static str, OsString)> = defaults.collect();
        match self.format {
            BenchFormat::Criterion => {
                variables.push((ENV_CRITERION_HOME, directory.join(CRITERION_NAME).into()));
            }
            BenchFormat::GoogleBenchmark => {
                let out = directory.join(google_benchmark::OUT_NAME);
                variables.push((google_benchmark::ENV_OUT, out.into()));
                variables.push((google_benchmark::ENV_OUT_FORMAT, "json".into()));
                if !self.filters.is_empty() {
                    variables.push((google_benchmark::ENV_FILTER, self.filters.join("|").into()));
                }
            }
            BenchFormat::PytestBenchmark => {
                let path = |name: &str| directory.join(name).to_string_lossy().into_owned();
                let json = path(pytest_benchmark::JSON_NAME);
                let report = path(pytest_benchmark::REPORT_NAME);
                let own = pytest_benchmark::options(&json, &report, &self.filters, self.length);
                // Options of a command line have no zero byte, the only one that cannot be quoted.
                let own = own.iter().filter_map(|option| shlex::try_quote(option).ok());
                let user = env::var(pytest_benchmark::ENV_OPTIONS).unwrap_or_default();
                let options: Vec<_> = own.chain([user.into()]).collect();
                variables.push((pytest_benchmark::ENV_OPTIONS, options.join(" ").into()));
            }
            BenchFormat::Divan
            | BenchFormat::Go
            | BenchFormat::Hyperfine
            | BenchFormat::Libtest => {}
        }
        variables
    }

    /// Reads the benchmarks of a run, in the order of their names.
    ///
    /// # Errors
    ///
    /// Returns an error if the output is not one of the harness.
    pub fn read(&self, output: &BenchOutput<'_>) -> Result<Vec<BenchResult>, BenchOutputError> {
        let path = |name: &str| output.directory.join(name);
        let stdout = read_bounded(&path(STDOUT_NAME))?;
        let samples = match (self.format, output.criterion_talk) {
            (BenchFormat::Criterion, Some(talk)) if talk.has_connection() => {
                criterion::from_talk(talk)?
            }
            // The program is not a Criterion that connects, but has written its files.
            (BenchFormat::Criterion, _) => criterion::read(&path(CRITERION_NAME))?,
            (BenchFormat::GoogleBenchmark, _) => {
                let text = String::from_utf8_lossy(&stdout);
                self.check_single_run(google_benchmark::ran_twice(&text))?;
                self.parse(&read_if_exists(&path(google_benchmark::OUT_NAME))?.unwrap_or_default())?
            }
            (BenchFormat::PytestBenchmark, _) => {
                let text = String::from_utf8_lossy(&stdout);
                self.check_single_run(pytest_benchmark::ran_twice(&text))?;
                let json = path(pytest_benchmark::JSON_NAME);
                // Without a result, the plugin writes no file.
                let Some(json) = read_if_exists(&json)? else { return Ok(Vec::new()) };
                let mut benches = self.parse(&json)?;
                let report = read_bounded(&path(pytest_benchmark::REPORT_NAME))?;
                pytest_benchmark::add_unmeasured(&mut benches, &report)?;
                benches
            }
            _ => self.parse(&stdout)?,
        };
        summarize(samples)
    }

    /// Checks that a harness ran once: each run of it replaces the file of the last one.
    fn check_single_run(&self, ran_twice: bool) -> Result<(), BenchOutputError> {
        match ran_twice {
            true => Err(BenchOutputError::SeveralRuns(self.format)),
            false => Ok(()),
        }
    }

    /// Parses the output of a run.
    fn parse(&self, output: &[u8]) -> Result<Vec<BenchSamples>, BenchOutputError> {
        let text = || String::from_utf8_lossy(output);
        match self.format {
            BenchFormat::Criterion => Ok(Vec::new()),
            BenchFormat::Divan => divan::parse(&text()),
            BenchFormat::Go => go::parse(&text()),
            BenchFormat::GoogleBenchmark => google_benchmark::parse(output),
            BenchFormat::Hyperfine => hyperfine::parse(output, &self.filters),
            BenchFormat::Libtest => libtest::parse(&text()),
            BenchFormat::PytestBenchmark => pytest_benchmark::parse(output),
        }
    }
}

/// Parses the output of a run of a harness: its file, for Criterion a `sample.json`, or its standard
/// output.
///
/// # Errors
///
/// Returns an error if the output is not one of the harness.
pub fn parse(format: BenchFormat, bytes: &[u8]) -> Result<Vec<BenchResult>, BenchOutputError> {
    let (numbers, filters) = (Vec::new(), Vec::new());
    let request = BenchRequest { format, numbers, filters, length: RunLength::Short };
    let samples = match format {
        BenchFormat::Criterion => vec![criterion::parse_samples("sample", None, bytes)?],
        _ => request.parse(bytes)?,
    };
    summarize(samples)
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
    let counts = [go::MEMORY_NUMBERS, google_benchmark::MEMORY_NUMBERS, divan::MEMORY_NUMBERS];
    counts.iter().any(|numbers| numbers.contains(&number))
}

/// Returns whether a word of a command separates the arguments of a harness from others.
fn is_separator(word: &str) -> bool {
    matches!(word, "-args" | "--args" | "--")
}

/// Returns the name of a benchmark without the ordinal that it may have got ([`summarize`]).
fn strip_ordinal(name: &str) -> &str {
    let is_ordinal = |text: &str| text.parse::<u64>().is_ok();
    match name.rsplit_once('#') {
        Some((plain, ordinal)) if is_ordinal(ordinal) => plain,
        _ => name,
    }
}

/// Returns the names by which a harness may know benchmarks: with and without their ordinals.
fn possible_names<'a>(names: &[&'a str]) -> Vec<&'a str> {
    let mut names: Vec<&str> = names.iter().flat_map(|name| [*name, strip_ordinal(name)]).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Escapes a text so that a regular expression of Rust, Go or POSIX matches it literally.
fn escape_regex(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        if r"\.+*?()|[]{}^$".contains(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

/// Returns whether the program of a command has this name, without its directory and extension.
fn is_program(command: &[String], name: &str) -> bool {
    command.first().is_some_and(|word| file_stem(word) == name)
}

fn file_stem(word: &str) -> &str {
    let name = word.rsplit(['/', '\\']).next().unwrap_or(word);
    name.strip_suffix(".exe").unwrap_or(name)
}

/// Returns whether a command has a flag, whichever way its value is attached. Go accepts one or two
/// dashes, and `test.` in front of the name.
fn has_flag(command: &[String], flag: &str) -> bool {
    command.iter().skip(1).any(|word| is_flag(word, flag))
}

fn is_flag(word: &str, flag: &str) -> bool {
    fn plain_name(word: &str) -> &str {
        let name = word.trim_start_matches('-');
        let name = name.split_once('=').map_or(name, |(name, _)| name);
        name.strip_prefix("test.").unwrap_or(name)
    }
    word.starts_with('-') && plain_name(word) == plain_name(flag)
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

/// Reduces the samples of each number to one value. Further benchmarks with the same name get their
/// ordinal as a suffix.
fn summarize(samples: Vec<BenchSamples>) -> Result<Vec<BenchResult>, BenchOutputError> {
    if samples.len() > MAX_BENCHES {
        return Err(BenchOutputError::TooManyBenches);
    }
    let mut ordinals: HashMap<String, u64> = HashMap::new();
    let mut results = Vec::new();
    for BenchSamples { name, numbers, unmeasured } in samples {
        let ordinal = ordinals.entry(name.clone()).or_default();
        *ordinal += 1;
        let name = if *ordinal == 1 { name } else { format!("{name}#{ordinal}") };
        let numbers = numbers.into_iter().map(NumberSamples::reduce).collect();
        results.push(BenchResult { name, numbers, unmeasured });
    }
    results.sort_by(|a, b| a.name.cmp(&b.name));
    match results.windows(2).find(|pair| pair[0].name == pair[1].name) {
        Some(pair) => Err(BenchOutputError::DuplicateName(pair[0].name.clone())),
        None => Ok(results),
    }
}

/// Returns the quartile of samples on their good side. `None` if there is no sample, or a sample
/// that is negative or not finite.
///
/// Interrupts and stolen time only make samples worse, so the value holds as long as a quarter of
/// them is undisturbed.
fn good_quartile(samples: &[f64], better: Better) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let is_valid = sorted.iter().all(|value| value.is_finite() && *value >= 0.0);
    if better == Better::Higher {
        sorted.reverse();
    }
    sorted.get(samples.len().saturating_sub(1) / 4).copied().filter(|_| is_valid)
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

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    fn request(format: BenchFormat, filters: &[&str]) -> BenchRequest {
        let filters = filters.iter().map(|filter| (*filter).to_owned()).collect();
        let numbers = vec![format.default_number().to_owned()];
        BenchRequest { format, numbers, filters, length: RunLength::Short }
    }

    fn completed(format: BenchFormat, filters: &[&str], command: &str) -> String {
        request(format, filters).add_arguments(&words(command)).join(" ")
    }

    const SHORT_CRITERION: &str =
        "--warm-up-time 0.002 --measurement-time 0.005 --sample-size 10 --nresamples 100";
    const HYPERFINE: &str = if cfg!(unix) {
        "--style none --export-json /dev/stdout"
    } else {
        "--style none --export-json -"
    };
    const SHORT_GO: &str = "-test.run=^$ -test.benchtime=20ms -test.count=3";

    #[test]
    fn missing_flags_are_added() {
        use BenchFormat::{Criterion, Divan, Go, Hyperfine, Libtest};
        for (format, filters, command, added) in [
            (Criterion, &[][..], "./b", format!("--bench --noplot {SHORT_CRITERION}")),
            (
                Criterion,
                &["fib", "^x$"],
                "./b",
                format!("--bench --noplot {SHORT_CRITERION} fib|^x$"),
            ),
            (
                Criterion,
                &[],
                "./b --bench --noplot --sample-size=20 --warm-up-time 1",
                "--measurement-time 0.005 --nresamples 100".to_owned(),
            ),
            (
                Criterion,
                &[],
                "./b --bench --noplot --quick",
                "--warm-up-time 0.002 --measurement-time 0.005 --nresamples 100".to_owned(),
            ),
            (Libtest, &["a"], "./b --bench", "a".to_owned()),
            (Divan, &["a", "b"], "./b", "--bench a b".to_owned()),
            (Go, &["X", "Y/z"], "./b", format!("{SHORT_GO} -test.bench=X|Y/z")),
            (
                Go,
                &[],
                "go test -bench Sort -benchtime=1s ./sort",
                "-test.run=^$ -test.count=3".to_owned(),
            ),
            (Hyperfine, &["x"], "hyperfine -r 3 ./x", HYPERFINE.to_owned()),
        ] {
            let expected = format!("{command} {added}");
            assert_eq!(completed(format, filters, command), expected, "{format}: {command}");
        }
        let memory = BenchRequest { numbers: vec!["allocs/op".to_owned()], ..request(Go, &[]) };
        let expected = format!("./b {SHORT_GO} -test.benchmem -test.bench=.");
        assert_eq!(memory.add_arguments(&words("./b")).join(" "), expected);
    }

    #[test]
    fn missing_variables_are_added() {
        use BenchFormat::{Divan, GoogleBenchmark, PytestBenchmark};
        let variables = |format, filters: &[&str], length| -> Vec<String> {
            let request = BenchRequest { length, ..request(format, filters) };
            let variables = request.variables(Path::new("/run dir")).into_iter();
            variables.map(|(name, value)| format!("{name}={}", value.to_string_lossy())).collect()
        };
        assert_eq!(
            variables(Divan, &["x"], RunLength::Short),
            ["DIVAN_MIN_TIME=0.02", "DIVAN_MAX_TIME=0.1"]
        );
        assert_eq!(
            variables(GoogleBenchmark, &["BM_a$", "b"], RunLength::Brief),
            [
                "BENCHMARK_REPETITIONS=3",
                "BENCHMARK_MIN_TIME=0.005",
                "BENCHMARK_OUT=/run dir/google-benchmark.json",
                "BENCHMARK_OUT_FORMAT=json",
                "BENCHMARK_FILTER=BM_a$|b"
            ]
        );
        let options = variables(PytestBenchmark, &["sort", "a and b"], RunLength::Short);
        assert_eq!(
            options[0].trim_end(),
            "PYTEST_ADDOPTS=--benchmark-only --benchmark-enable '--benchmark-min-time=0.0005' \
             '--benchmark-max-time=0.05' '--benchmark-json=/run dir/pytest-benchmark.json' \
             '--junitxml=/run dir/pytest.xml' '-ojunit_family=xunit1' -pno:cacheprovider \
             '-k(sort) or (a and b)'"
        );
        for format in [GoogleBenchmark, PytestBenchmark] {
            assert_eq!(completed(format, &["x"], "env -C a -- ./b"), "env -C a -- ./b");
        }
    }

    #[test]
    fn flags_precede_separators() {
        use BenchFormat::{Criterion, Go, Hyperfine, Libtest};
        let criterion = format!("--bench --noplot {SHORT_CRITERION}");
        let go = format!("{SHORT_GO} -test.bench=.");
        let hyperfine = HYPERFINE;
        for (format, before, after, flags) in [
            (Criterion, "./b", " -- sort", criterion.as_str()),
            (Criterion, "taskset -c 1 -- /bin/sh x", "", &criterion),
            (Criterion, "taskset -c 1 -- /bin/sh x", " -- sort", &criterion),
            (Libtest, "./b", " -- --bench", "--bench"),
            (Go, "go test ./x", " -args -bench 3 -test.count=7", &go),
            (Go, "nice ./x.test", " input.txt", &go),
            (Go, "go test", " -- y", &go),
            (Hyperfine, "hyperfine -N", " -- ./a ./b", hyperfine),
            (Hyperfine, "env -- /usr/bin/hyperfine -N", " -- ./a ./b", hyperfine),
            (Hyperfine, "hyperfine -N ./a", "", hyperfine),
            (Criterion, "cargo bench --bench suite", "", &format!("-- --noplot {SHORT_CRITERION}")),
            (Criterion, "cargo bench -- sort", "", &format!("--noplot {SHORT_CRITERION}")),
        ] {
            let found = completed(format, &[], &format!("{before}{after}"));
            assert_eq!(found, format!("{before} {flags}{after}"), "{format}");
        }
    }

    #[test]
    fn brief_runs_have_shorter_times() {
        use BenchFormat::{Criterion, Go, Hyperfine, Libtest};
        for (format, expected) in [
            (
                Criterion,
                "--bench --noplot --warm-up-time 0.002 --measurement-time 0.005 --sample-size 10 --nresamples 100",
            ),
            (Go, "-test.run=^$ -test.benchtime=5ms -test.count=3 -test.bench=."),
            (Hyperfine, HYPERFINE),
            (Libtest, "--bench"),
        ] {
            let brief = BenchRequest { length: RunLength::Brief, ..request(format, &[]) };
            let found = brief.add_arguments(&words("./b")).join(" ");
            assert_eq!(found, format!("./b {expected}"), "{format}");
        }
    }

    #[test]
    fn selections_replace_filters() {
        use BenchFormat::{
            Criterion, Divan, Go, GoogleBenchmark, Hyperfine, Libtest, PytestBenchmark,
        };
        let criterion = format!("--bench --noplot {SHORT_CRITERION}");
        for (format, command, names, expected) in [
            (
                Divan,
                "./b -- x",
                &["s::a::8", "s::b::t=1", "s::b::t=2"][..],
                "./b --bench --exact s::a::8 s::b -- x".to_owned(),
            ),
            (
                GoogleBenchmark,
                "nice ./b",
                &["BM_a<int>/8#2", "BM_b"],
                "nice ./b --benchmark_filter=^(BM_a<int>/8|BM_a<int>/8#2|BM_b)$".to_owned(),
            ),
            (
                PytestBenchmark,
                "pytest b",
                &["b/t.py::C::test_a[1-x.y]", "b/t.py::test_b"],
                "pytest b -ktest_a[1-x.y] or test_b".to_owned(),
            ),
            (Criterion, "./b", &["a/1", "x.y"][..], format!("./b {criterion} ^(?:a/1|x\\.y)$")),
            (Criterion, "./b -- x", &["a#2"], format!("./b {criterion} ^(?:a|a#2)$ -- x")),
            (Libtest, "./b", &["m::a", "b"], "./b --bench --exact b m::a".to_owned()),
            (
                Go,
                "./x.test y",
                &["BenchmarkA/s=1-8", "p.q.BenchmarkB(x)"],
                format!(
                    "./x.test {SHORT_GO} -test.bench=^BenchmarkA$/^(s=1|s=1-8)$|^BenchmarkB\\(x\\)$ y"
                ),
            ),
            (
                Go,
                "go test -bench . ./x -count=2",
                &["BenchmarkA"],
                "go test -test.bench=^BenchmarkA$ ./x -count=2 -test.run=^$ -test.benchtime=20ms"
                    .to_owned(),
            ),
            (
                Hyperfine,
                "hyperfine -N --runs=3 -p sync -n first ./a ./b ./c --export-json -",
                &["first", "./c#2"],
                "hyperfine -N --runs=3 -p sync -n first ./a ./c --export-json - --style none"
                    .to_owned(),
            ),
            (
                Hyperfine,
                "hyperfine -n x -n y -- ./a ./b",
                &["y"],
                format!("hyperfine -n y {HYPERFINE} -- ./b"),
            ),
        ] {
            let selected = request(format, &["z"]).select(&words(command), names).unwrap();
            assert_eq!(selected.join(" "), expected, "{format}: {command}");
        }
        let scan = words("hyperfine -L n 1,2 ./a");
        assert_eq!(request(Hyperfine, &[]).select(&scan, &["./a n=1"]), None);
        let unnamed = request(PytestBenchmark, &[]).select(&words("pytest"), &["t.py::test[a b]"]);
        assert_eq!(unnamed, None);
        let long = "x".repeat(MAX_ARGUMENT_BYTES);
        assert_eq!(request(Criterion, &[]).select(&words("./b"), &[&long]), None);
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
    fn quartiles_of_samples_are_exact() {
        let lower = |samples: &[f64]| good_quartile(samples, Better::Lower);
        assert_eq!(lower(&[3.0, 1.0, 2.0]), Some(1.0));
        assert_eq!(lower(&[4.0, 1.0, 2.0, 100.0, 7.0]), Some(2.0));
        let ten: Vec<f64> = (1..=10).rev().map(f64::from).collect();
        assert_eq!(lower(&ten), Some(3.0));
        assert_eq!(good_quartile(&ten, Better::Higher), Some(8.0));
        assert_eq!(lower(&[0.0]), Some(0.0));
        for invalid in [&[][..], &[-1.0], &[f64::NAN], &[1.0, f64::INFINITY]] {
            assert_eq!(lower(invalid), None, "{invalid:?}");
        }
    }

    #[test]
    fn results_are_sorted_and_unique() {
        let samples =
            |name: &str, ns: f64| BenchSamples::from_times(name.to_owned(), "time", vec![ns]);
        let found = |samples| -> Vec<(String, Option<f64>)> {
            let results = summarize(samples).unwrap().into_iter();
            results.map(|bench| (bench.name, bench.numbers[0].value)).collect()
        };
        let (a, b) = ("a".to_owned(), "b".to_owned());
        assert_eq!(
            found(vec![samples("b", 2.0), samples("a", 0.0)]),
            [(a.clone(), Some(0.0)), (b, Some(2.0))]
        );
        let expected = [(a, Some(2.0)), ("a#2".to_owned(), Some(1e-9)), ("a#3".to_owned(), None)];
        assert_eq!(
            found(vec![samples("a", 2.0), samples("a", 1e-9), samples("a", f64::NAN)]),
            expected
        );
        let twice = vec![samples("a", 2.0), samples("a", 1.0), samples("a#2", 1.0)];
        let error = summarize(twice).unwrap_err().to_string();
        assert_eq!(error, "it ran two benchmarks with the name \"a#2\"");
        let too_many = (0..=MAX_BENCHES).map(|i| samples(&i.to_string(), 1.0)).collect();
        assert_eq!(
            summarize(too_many).unwrap_err().to_string(),
            "it ran more than 10000 benchmarks"
        );
        let too_long = join_name(&[&"x".repeat(510), "y"], "::").unwrap_err().to_string();
        assert_eq!(too_long, "the name of a benchmark has more than 512 bytes");
    }
}
