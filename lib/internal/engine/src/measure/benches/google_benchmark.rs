//! The JSON that Google Benchmark writes to a file, with each repetition of its benchmarks.
//!
//! Version 1.5 was the first to state the kind of each entry. Without a repetition, for a benchmark
//! that reports only aggregates, the median of the repetitions is read.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use files::gate::verdict::UnjudgedReason;
use jitterstat::series::Better;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::bench_harness::{BenchMillis, FilterSyntax, Flag, Harness, option};
use super::bench_samples::{BenchSamples, NumberSamples, Unmeasured};
use super::bench_selection::{Selection, escape_regex, possible_names};
use super::command_words::has_flag;
use super::known_cause::{FlagEffect, MEASURES_NOTHING, OTHER_OUTPUT, OTHER_PLACE, effect};
use super::lenient_json::replace_non_finite;
use super::{BenchFormat, BenchOutput, BenchOutputError, BenchRequest, read_if_exists};

pub const HARNESS: Harness = Harness {
    name: "google-benchmark",
    expected_output: "benchmarks in the file that BENCHMARK_OUT names",
    default_number: REAL_TIME,
    known_numbers: None,
    example_number: CPU_TIME,
    counts: MEMORY_NUMBERS,
    bench_millis: Some(BenchMillis { short: 80..=200, brief: 20..=60 }),
    // It has variables instead.
    flags: &[],
    variables: VARIABLES,
    effects: EFFECTS,
    output_variables,
    output_arguments: |_| Vec::new(),
    argument_place: |command| command.len(),
    filter_syntax: FilterSyntax::Regex,
    own_filter,
    filter_arguments: |_, _| Vec::new(),
    select: |_, names| Some(Selection::Filter(vec![name_flag(names)])),
    read_files: Some(read_run),
    parse: |json, _| parse(json),
};

/// Flags of the command that prevent a result.
const EFFECTS: &[FlagEffect] = &[
    effect("--benchmark_out", OTHER_PLACE),
    effect("--benchmark_out_format", OTHER_OUTPUT),
    effect("--benchmark_list_tests", MEASURES_NOTHING),
];

/// Variables of a short run, which have the priority of a default.
const VARIABLES: &[Flag] =
    &[option("BENCHMARK_REPETITIONS", "3"), option("BENCHMARK_MIN_TIME", "0.02").or_brief("0.005")];
/// Variable with the path of the JSON.
const ENV_OUT: &str = "BENCHMARK_OUT";
/// Variable with the format of the file.
const ENV_OUT_FORMAT: &str = "BENCHMARK_OUT_FORMAT";
const FILTER_FLAG: &str = "--benchmark_filter";
/// Variable with the filter.
const ENV_FILTER: &str = "BENCHMARK_FILTER";
/// Name of the JSON in the directory of a run.
const OUT_NAME: &str = "google-benchmark.json";

const REAL_TIME: &str = "real_time";
const CPU_TIME: &str = "cpu_time";
/// Numbers of the memory manager, which are counts.
const MEMORY_NUMBERS: &[&str] = &["allocs_per_iter", "max_bytes_used"];

/// Keys of an entry with numbers that are not results.
const OTHER_KEYS: [&str; 7] = [
    "family_index", "per_family_instance_index", "repetitions", "repetition_index", "threads",
    "iterations", "time_unit",
];
/// Aggregates over all benchmarks of a family.
const FAMILY_AGGREGATES: [&str; 2] = ["BigO", "RMS"];

#[derive(Deserialize)]
struct Output {
    benchmarks: Vec<Entry>,
}

/// A repetition or an aggregate of a benchmark.
#[derive(Deserialize)]
struct Entry {
    run_name: String,
    run_type: RunType,
    #[serde(default)]
    aggregate_name: String,
    #[serde(default)]
    family_index: i64,
    #[serde(default)]
    per_family_instance_index: i64,
    #[serde(default)]
    error_occurred: bool,
    #[serde(default)]
    error_message: String,
    #[serde(default)]
    skipped: bool,
    #[serde(default)]
    skip_message: String,
    #[serde(default)]
    time_unit: String,
    /// The numbers, among them those of the benchmark itself.
    #[serde(flatten)]
    values: Map<String, Value>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RunType {
    Iteration,
    Aggregate,
}

/// The flag replaces the variable, and so does a command that sets the variable.
fn own_filter(command: &[String]) -> Option<&'static str> {
    let sets_variable =
        command.iter().any(|word| word.split_once('=').is_some_and(|(name, _)| name == ENV_FILTER));
    match has_flag(command, FILTER_FLAG) {
        true => Some(FILTER_FLAG),
        false => sets_variable.then_some(ENV_FILTER),
    }
}

fn output_variables(request: &BenchRequest, directory: &Path) -> Vec<(&'static str, OsString)> {
    let mut variables =
        vec![(ENV_OUT, directory.join(OUT_NAME).into()), (ENV_OUT_FORMAT, "json".into())];
    if !request.filters.is_empty() {
        variables.push((ENV_FILTER, request.filters.join("|").into()));
    }
    variables
}

fn read_run(output: &BenchOutput<'_>, stdout: &str) -> Result<Vec<BenchSamples>, BenchOutputError> {
    if ran_twice(stdout) {
        return Err(BenchOutputError::SeveralRuns(BenchFormat::GoogleBenchmark));
    }
    parse(&read_if_exists(&output.directory.join(OUT_NAME))?.unwrap_or_default())
}

/// Returns the flag that selects benchmarks by their names, with an extended regular expression.
fn name_flag(names: &[&str]) -> String {
    let names: Vec<String> = possible_names(names).into_iter().map(escape_regex).collect();
    format!("--benchmark_filter=^({})$", names.join("|"))
}

/// Parses the benchmarks of a run. The file is empty if no benchmark matched the filter.
fn parse(bytes: &[u8]) -> Result<Vec<BenchSamples>, BenchOutputError> {
    if bytes.trim_ascii().is_empty() {
        return Ok(Vec::new());
    }
    let Output { mut benchmarks } = serde_json::from_slice(&replace_non_finite(bytes))
        .map_err(|error| BenchOutputError::GoogleBenchmarkJson(Arc::new(error)))?;
    benchmarks.retain(|entry| !FAMILY_AGGREGATES.contains(&entry.aggregate_name.as_str()));
    // Benchmarks with equal names differ by their place in the program.
    benchmarks.sort_by(|a, b| a.id().cmp(&b.id()));
    let benches = benchmarks.chunk_by(|a, b| a.id() == b.id());
    Ok(benches.map(bench_samples).collect())
}

/// Returns whether standard output shows that the library ran twice. Its file has only the results
/// of the last time.
fn ran_twice(stdout: &str) -> bool {
    let is_heading = |line: &&str| {
        let is_table = line.starts_with("Benchmark ") && line.contains(" Iterations");
        is_table || line.trim() == "\"context\": {"
    };
    let mut headings = stdout.lines().filter(is_heading);
    let first = headings.next();
    // A table with columns for counters has a heading for each set of counters.
    headings.any(|heading| Some(heading) == first)
}

fn bench_samples(entries: &[Entry]) -> BenchSamples {
    let name = entries[0].run_name.clone();
    if let Some(unmeasured) = entries.iter().find_map(Entry::unmeasured) {
        return BenchSamples::without_number(name, Some(unmeasured));
    }
    let is_repetition = |entry: &&Entry| entry.run_type == RunType::Iteration;
    let is_median = |entry: &&Entry| entry.aggregate_name == "median";
    let mut read: Vec<&Entry> = entries.iter().filter(is_repetition).collect();
    if read.is_empty() {
        read = entries.iter().filter(is_median).collect();
    }
    let mut numbers: Vec<NumberSamples> = Vec::new();
    for sample in read.into_iter().flat_map(Entry::numbers) {
        match numbers
            .iter_mut()
            .find(|number| number.name == sample.name && number.unit == sample.unit)
        {
            Some(number) => number.samples.extend(sample.samples),
            None => numbers.push(sample),
        }
    }
    BenchSamples::new(name, numbers)
}

impl Entry {
    fn id(&self) -> (&str, i64, i64) {
        (&self.run_name, self.family_index, self.per_family_instance_index)
    }

    /// Returns why the entry has no number, if the benchmark gave up.
    fn unmeasured(&self) -> Option<Unmeasured> {
        let (reason, message) = match (self.error_occurred, self.skipped) {
            (true, _) => (UnjudgedReason::Failed, &self.error_message),
            (false, true) => (UnjudgedReason::Skipped, &self.skip_message),
            (false, false) => return None,
        };
        Some(Unmeasured { reason, message: message.clone() })
    }

    fn numbers(&self) -> impl Iterator<Item = NumberSamples> {
        self.values.iter().filter_map(|(key, value)| self.number(key, value))
    }

    fn number(&self, key: &str, value: &Value) -> Option<NumberSamples> {
        // A number that is not finite was replaced.
        let value = if value.is_null() { f64::NAN } else { value.as_f64()? };
        if OTHER_KEYS.contains(&key) {
            return None;
        }
        let (unit, factor) = match key {
            REAL_TIME | CPU_TIME => time_unit(&self.time_unit),
            "items_per_second" => ("items/s", 1.0),
            "bytes_per_second" => ("bytes/s", 1.0),
            "max_bytes_used" => ("bytes", 1.0),
            // A counter has no unit.
            _ => ("", 1.0),
        };
        let is_rate = ["_per_second", "/s", "/sec"].iter().any(|end| key.ends_with(end));
        let better = if is_rate { Better::Higher } else { Better::Lower };
        Some(NumberSamples::new(key, unit, better, vec![value * factor]))
    }
}

/// Returns the unit in which a time is shown, and the factor to it. Another unit remains as it is.
fn time_unit(unit: &str) -> (&str, f64) {
    match unit {
        "ns" => ("ns", 1.0),
        "us" => ("ns", 1e3),
        "ms" => ("ns", 1e6),
        "s" => ("ns", 1e9),
        other => (other, 1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::super::bench_samples::describe;
    use super::*;

    fn parse_entries(entries: &str) -> Vec<String> {
        describe(&parse(format!(r#"{{"benchmarks":[{entries}]}}"#).as_bytes()).unwrap())
    }

    #[test]
    fn output_of_google_benchmark_is_read() {
        let benches = parse(include_bytes!("fixtures/google-benchmark.json")).unwrap();
        let names: Vec<&str> = benches.iter().map(|bench| bench.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "BM_counter",
                "BM_manual/iterations:100/manual_time",
                "BM_median",
                "BM_o/64",
                "BM_o/8",
                "BM_skip",
                "BM_sort/1000",
                "BM_threads/threads:2"
            ]
        );
        let numbers = |index: usize| -> Vec<String> {
            let benches: &BenchSamples = &benches[index];
            let numbers = benches.numbers.iter();
            numbers
                .map(|n| format!("{} {} {} {}", n.name, n.unit, n.better, n.samples.len()))
                .collect()
        };
        assert_eq!(
            numbers(0),
            ["cpu_time ns lower 3", "hits  lower 3", "rate  lower 3", "real_time ns lower 3"]
        );
        assert_eq!(numbers(2), ["cpu_time ns lower 1", "real_time ns lower 1"]);
        assert_eq!(
            numbers(6),
            [
                "bytes_per_second bytes/s higher 3",
                "cpu_time ns lower 3",
                "items_per_second items/s higher 3",
                "real_time ns lower 3"
            ]
        );
        // The file states these times in microseconds.
        let time = &benches[6].numbers[3];
        assert!(time.samples.iter().all(|ns| (1e3..1e5).contains(ns)), "{time:?}");
        let skipped = benches[5].unmeasured.as_ref().unwrap();
        assert_eq!((skipped.reason, skipped.message.as_str()), (UnjudgedReason::Failed, "no GPU"));
        assert!(benches[1].numbers.iter().any(|n| n.name == "real_time" && n.samples[0] > 9e5));
    }

    #[test]
    fn units_are_those_of_entries() {
        let entry = |unit: &str| {
            format!(r#"{{"run_name":"a","run_type":"iteration","real_time":2.5{unit}}}"#)
        };
        for (unit, expected) in [
            (r#","time_unit":"ns""#, "a: real_time ns lower [2.5]"),
            (r#","time_unit":"us""#, "a: real_time ns lower [2500.0]"),
            (r#","time_unit":"s""#, "a: real_time ns lower [2500000000.0]"),
            (r#","time_unit":"weeks""#, "a: real_time weeks lower [2.5]"),
            ("", "a: real_time  lower [2.5]"),
        ] {
            assert_eq!(parse_entries(&entry(unit)), [expected]);
        }
    }

    #[test]
    fn benches_without_time_are_kept() {
        let entries = r#"
            {"run_name":"all","run_type":"iteration","skipped":true,"skip_message":"needs AVX"},
            {"run_name":"mean","run_type":"aggregate","aggregate_name":"mean","real_time":1,"time_unit":"ns"},
            {"run_name":"nan","run_type":"iteration","real_time":NaN,"time_unit":"ns","x":-Infinity,"label":"NaN"},
            {"run_name":"some","run_type":"iteration","real_time":1,"time_unit":"ns"},
            {"run_name":"some","run_type":"iteration","error_occurred":true,"error_message":"lost","real_time":0}"#;
        assert_eq!(
            parse_entries(entries),
            [
                "all: its harness skipped it: needs AVX",
                "mean: ",
                "nan: real_time ns lower [NaN], x  lower [NaN]",
                "some: it failed: lost"
            ]
        );
    }

    #[test]
    fn equal_names_are_several_benches() {
        let entry = |family: u32, time: u32| {
            format!(
                r#"{{"run_name":"a","run_type":"iteration","family_index":{family},"real_time":{time},"time_unit":"ns"}}"#
            )
        };
        let entries = [entry(0, 1), entry(1, 5), entry(0, 2)].join(",");
        assert_eq!(
            parse_entries(&entries),
            ["a: real_time ns lower [1.0, 2.0]", "a: real_time ns lower [5.0]"]
        );
    }

    #[test]
    fn second_runs_are_noticed() {
        let table = "-----\nBenchmark     Time     CPU   Iterations\n-----\nBM_a   1 ns  1 ns  5\n";
        let json = "{\n  \"context\": {\n  }\n}\n";
        for (stdout, expected) in [("", false), (table, false), (json, false)] {
            assert_eq!(ran_twice(stdout), expected, "{stdout}");
            assert_eq!(ran_twice(&stdout.repeat(2)), !stdout.is_empty(), "{stdout}");
        }
        let other = "Benchmark     Time     CPU   Iterations   hits\n";
        assert!(!ran_twice(&format!("{table}{other}")), "a heading for other counters");
    }

    #[test]
    fn malformed_files_are_errors() {
        assert_eq!(parse(b" \n").unwrap(), []);
        for (text, expected) in [
            ("BM_a 1 ns", "not the JSON of Google Benchmark"),
            (r#"{"benchmarks":[{"name":"a_mean","real_time":1}]}"#, "missing field `run_name`"),
            (r#"{"benchmarks":[{"run_name":"a","run_type":"?"}]}"#, "unknown variant"),
        ] {
            let error = parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
