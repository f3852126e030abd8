//! The facts about a harness of benchmarks. Each harness states them in its own file.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::Path;

use super::bench_samples::BenchSamples;
use super::bench_selection::Selection;
use super::known_cause::FlagEffect;
use super::{BenchOutput, BenchOutputError, BenchRequest, RunLength};

/// The facts about a harness, and the functions that run and read it.
pub struct Harness {
    /// Name on the command line.
    pub name: &'static str,
    /// Description of the output of a run that has a benchmark.
    pub expected_output: &'static str,
    /// Number that is judged unless `--metric` chooses another one.
    pub default_number: &'static str,
    /// Names of all numbers; `None` if benchmarks can report any.
    pub known_numbers: Option<&'static [&'static str]>,
    /// A number that `--metric` can choose.
    pub example_number: &'static str,
    /// Numbers that are counts.
    pub counts: &'static [&'static str],
    /// Time of a benchmark, if neither its code nor the command sets one. `None` if it is not known.
    pub bench_millis: Option<BenchMillis>,
    /// Flags of a short run: a gate needs many runs, and its own statistics instead of those of the
    /// harness.
    pub flags: &'static [Flag],
    /// Variables of a short run that the user can replace.
    pub variables: &'static [Flag],
    /// Flags of the user that prevent a result.
    pub effects: &'static [FlagEffect],
    /// Returns the variables of a run that writes to a directory.
    pub output_variables: fn(&BenchRequest, &Path) -> Vec<(&'static str, OsString)>,
    /// Returns the arguments at the end of the command of a run that writes to a directory.
    pub output_arguments: fn(&Path) -> Vec<OsString>,
    /// Returns the index in a command, other than one of Cargo, at which flags are inserted.
    pub argument_place: fn(&[String]) -> usize,
    pub filter_syntax: FilterSyntax,
    /// Returns the flag of a command with which the harness ignores other filters, if it has one.
    pub own_filter: fn(command: &[String]) -> Option<&'static str>,
    /// Returns the arguments that pass filters on, for a command that may have its own.
    pub filter_arguments: fn(filters: &[String], command: &[String]) -> Vec<String>,
    /// Returns how the harness is made to run the benchmarks of a command with these names. It may
    /// run others in addition, but must not leave one out. `None` if it can only run everything.
    ///
    /// A selection that proves wrong when it runs is dropped, and the gate runs everything again.
    pub select: fn(command: &[String], names: &[&str]) -> Option<Selection>,
    /// Reads the files of a run, with its standard output. `None` if that is parsed instead.
    pub read_files: Option<FileReader>,
    /// Parses the output of a run with filters.
    pub parse: fn(output: &[u8], filters: &[String]) -> ParseResult,
}

/// How a filter selects benchmarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterSyntax {
    /// It is a part of the name.
    Text,
    /// It is a regular expression of the harness.
    Regex,
    /// It is an expression over names and other properties.
    Expression,
}

type FileReader = fn(&BenchOutput<'_>, stdout: &str) -> ParseResult;
type ParseResult = Result<Vec<BenchSamples>, BenchOutputError>;

/// Milliseconds that a benchmark takes, by the length of the run.
pub struct BenchMillis {
    pub short: RangeInclusive<u64>,
    pub brief: RangeInclusive<u64>,
}

/// A flag or variable of a harness, with its value if it has one.
pub struct Flag {
    pub name: &'static str,
    pub value: Option<&'static str>,
    /// The value in a brief run, if it is another one.
    brief_value: Option<&'static str>,
    /// Whether an equals sign precedes the value, instead of a space.
    pub has_equals_sign: bool,
    /// Numbers that need the flag. `None` if all do.
    numbers: Option<&'static [&'static str]>,
}

pub const fn flag(name: &'static str) -> Flag {
    Flag { name, value: None, brief_value: None, has_equals_sign: false, numbers: None }
}

pub const fn option(name: &'static str, value: &'static str) -> Flag {
    Flag { value: Some(value), ..flag(name) }
}

impl Flag {
    pub const fn or_brief(self, value: &'static str) -> Self {
        Self { brief_value: Some(value), ..self }
    }

    pub const fn with_equals_sign(self) -> Self {
        Self { has_equals_sign: true, ..self }
    }

    pub const fn for_numbers(self, numbers: &'static [&'static str]) -> Self {
        Self { numbers: Some(numbers), ..self }
    }

    pub fn value(&self, length: RunLength) -> Option<&'static str> {
        match length {
            RunLength::Short => self.value,
            RunLength::Brief => self.brief_value.or(self.value),
        }
    }

    /// Returns whether the judged numbers need the flag.
    pub fn is_needed(&self, judged: &[String]) -> bool {
        let needs_flag =
            |numbers: &[&str]| judged.iter().any(|number| numbers.contains(&&**number));
        self.numbers.is_none_or(needs_flag)
    }
}
