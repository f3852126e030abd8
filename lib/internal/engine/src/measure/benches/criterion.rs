//! Benchmarks of Criterion.rs: those that it sends over its connection, or else its files
//! `GROUP/FUNCTION/VALUE/new/sample.json` and the `benchmark.json` next to it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jitterstat::series::Better;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::bench_harness::{BenchMillis, FilterSyntax, Flag, Harness, flag, option};
use super::bench_samples::{BenchSamples, NumberSamples};
use super::bench_selection::{Selection, escape_regex, possible_names};
use super::command_words::executable_separator_place;
use super::criterion_server::{CompletedBench, CriterionTalk};
use super::known_cause::{FlagEffect, MEASURES_NOTHING, effect};
use super::{BenchOutput, BenchOutputError, CRITERION_NAME, read_bounded};

pub const HARNESS: Harness = Harness {
    name: "criterion",
    expected_output: "files of Criterion in the directory CRITERION_HOME",
    default_number: "time",
    known_numbers: Some(&["time", "throughput"]),
    example_number: "throughput",
    counts: &[],
    // Besides its flags, the iterations that find their number, and messages.
    bench_millis: Some(BenchMillis { short: 8..=10, brief: 8..=10 }),
    flags: FLAGS,
    variables: &[],
    effects: EFFECTS,
    output_variables: |_, directory| vec![(ENV_HOME, directory.join(CRITERION_NAME).into())],
    output_arguments: |_| Vec::new(),
    argument_place: executable_separator_place,
    filter_syntax: FilterSyntax::Regex,
    own_filter: |_| None,
    // The single filter is a regular expression.
    filter_arguments: |filters, _| match filters {
        [] => Vec::new(),
        _ => vec![filters.join("|")],
    },
    select: |_, names| Some(Selection::Filter(vec![name_filter(names)])),
    read_files: Some(read_run),
    parse: |sample_file, _| Ok(vec![parse_samples("sample", None, sample_file)?]),
};

const NEEDS_BASELINE: &str = "needs results that an earlier run has stored";

/// Flags of the command that prevent a result.
const EFFECTS: &[FlagEffect] = &[
    effect("--baseline", NEEDS_BASELINE),
    effect("-b", NEEDS_BASELINE),
    effect("--load-baseline", NEEDS_BASELINE),
    effect("--save-baseline", "Criterion rejects when another program reads its results"),
    effect("--test", MEASURES_NOTHING),
    effect("--list", MEASURES_NOTHING),
    effect("--profile-time", MEASURES_NOTHING),
    effect("--exact", "takes the filter as the whole name"),
];

/// Flags of a short run. Version 0.4 or later accepts fractions of a second. The samples are judged
/// by the gate, so the resamples of Criterion's own intervals are few.
///
/// For a suite of fourteen benchmarks, runs of 10 and 30 ms had no narrower intervals after as many
/// pairs, and took five times as long.
const FLAGS: &[Flag] = &[
    flag("--bench"),
    flag("--noplot"),
    option("--warm-up-time", "0.002"),
    option("--measurement-time", "0.005"),
    option("--sample-size", "10"),
    option("--nresamples", "100"),
];

/// Variable that names the directory of Criterion.
const ENV_HOME: &str = "CRITERION_HOME";

/// Maximum depth of a benchmark: its group, function and value, and the directory of the run.
const MAX_DEPTH: usize = 4;
const NS_PER_SECOND: f64 = 1e9;

/// `sample.json`.
#[derive(Deserialize)]
struct SampleFile {
    /// Number of iterations of each sample.
    iters: Vec<f64>,
    /// Value of each sample: in nanoseconds, unless the measurement is another one.
    times: Vec<f64>,
}

/// `benchmark.json`.
#[derive(Deserialize)]
struct BenchmarkFile {
    full_id: String,
    #[serde(default)]
    throughput: Option<Value>,
}

/// Returns the filter, a regular expression, that selects benchmarks by their names.
fn name_filter(names: &[&str]) -> String {
    let names: Vec<String> = possible_names(names).into_iter().map(escape_regex).collect();
    format!("^(?:{})$", names.join("|"))
}

fn read_run(output: &BenchOutput<'_>, _: &str) -> Result<Vec<BenchSamples>, BenchOutputError> {
    match output.criterion_talk {
        Some(talk) if talk.has_connection() => from_talk(talk),
        // The program is not a Criterion that connects, but has written its files.
        _ => read(&output.directory.join(CRITERION_NAME)),
    }
}

/// Returns the benchmarks that Criterion sent. Those that did not complete have no number.
pub fn from_talk(talk: &CriterionTalk) -> Result<Vec<BenchSamples>, BenchOutputError> {
    talk.check()?;
    let mut benches: Vec<BenchSamples> = talk.completed.iter().map(completed_bench).collect();
    let mut completed: Vec<String> = benches.iter().map(|bench| bench.name.clone()).collect();
    for name in talk.begun.iter().map(|id| id.name()) {
        match completed.iter().position(|other| *other == name) {
            Some(index) => drop(completed.swap_remove(index)),
            None => benches.push(BenchSamples::without_number(name, None)),
        }
    }
    Ok(benches)
}

fn completed_bench(bench: &CompletedBench) -> BenchSamples {
    let CompletedBench { id, unit, samples } = bench;
    let numbers = numbers(unit, samples, id.throughput.first());
    BenchSamples::new(id.name(), numbers)
}

/// Returns the numbers of a benchmark. `throughput` is the work of an iteration as Criterion writes
/// it, `{"Bytes": 1024}`.
fn numbers(unit: &str, samples: &[f64], throughput: Option<&Value>) -> Vec<NumberSamples> {
    let mut numbers = vec![NumberSamples::new("time", unit, Better::Lower, samples.to_vec())];
    if let Some(Work { amount, noun }) = throughput.and_then(parse_work) {
        // Times become rates per second, and other measurements rates per their unit.
        let (factor, per) = if unit == "ns" { (NS_PER_SECOND, "s") } else { (1.0, unit) };
        let rate_unit = if per.is_empty() { String::new() } else { format!("{noun}/{per}") };
        let rates = samples.iter().map(|value| amount / value * factor).collect();
        numbers.push(NumberSamples::new("throughput", &rate_unit, Better::Higher, rates));
    }
    numbers
}

/// An amount of work.
struct Work {
    amount: f64,
    noun: &'static str,
}

fn parse_work(throughput: &Value) -> Option<Work> {
    let (kind, amount) = throughput.as_object()?.iter().next()?;
    let noun = match kind.as_str() {
        "Bits" => "bits",
        "Bytes" | "BytesDecimal" => "bytes",
        "Elements" | "ElementsAndBytes" => "elements",
        _ => return None,
    };
    let amount = amount.get("elements").unwrap_or(amount).as_f64()?;
    Some(Work { amount, noun })
}

/// Reads the samples of all benchmarks of a run.
fn read(home: &Path) -> Result<Vec<BenchSamples>, BenchOutputError> {
    let mut benches = Vec::new();
    // A program that ran no benchmark has created no directory.
    if home.is_dir() {
        read_directory(home, MAX_DEPTH, &mut benches)?;
    }
    // The ordinals of equal names depend on the order.
    benches.sort_by(|a, b| a.directory.cmp(&b.directory));
    Ok(benches.into_iter().map(|bench| bench.samples).collect())
}

struct BenchDirectory {
    directory: PathBuf,
    samples: BenchSamples,
}

fn read_directory(
    directory: &Path,
    depth: usize,
    benches: &mut Vec<BenchDirectory>,
) -> Result<(), BenchOutputError> {
    let read_error = |error| BenchOutputError::UnreadableDirectory(Arc::new(error));
    for entry in std::fs::read_dir(directory).map_err(read_error)? {
        let entry = entry.map_err(read_error)?;
        let path = entry.path();
        if !entry.file_type().map_err(read_error)?.is_dir() {
            continue;
        }
        let samples = path.join("sample.json");
        if entry.file_name() == "new" && samples.exists() {
            let BenchmarkFile { full_id: name, throughput } =
                parse_json("benchmark.json", &read_bounded(&path.join("benchmark.json"))?)?;
            match parse_samples(&name, throughput.as_ref(), &read_bounded(&samples)?) {
                Ok(samples) => benches.push(BenchDirectory { directory: path, samples }),
                Err(error) => {
                    return Err(BenchOutputError::CriterionBench { name, error: Box::new(error) });
                }
            }
        } else if depth > 1 {
            read_directory(&path, depth - 1, benches)?;
        }
    }
    Ok(())
}

/// Parses the `sample.json` of a benchmark. The file does not state the unit of the measurement.
fn parse_samples(
    name: &str,
    throughput: Option<&Value>,
    bytes: &[u8],
) -> Result<BenchSamples, BenchOutputError> {
    let SampleFile { iters, times } = parse_json("sample.json", bytes)?;
    if iters.len() != times.len() || iters.is_empty() {
        let (iterations, times) = (iters.len(), times.len());
        return Err(BenchOutputError::CriterionCounts { iterations, times });
    }
    let values: Vec<f64> =
        times.iter().zip(&iters).map(|(time, iterations)| time / iterations).collect();
    let name = name.to_owned();
    match values.iter().all(|value| value.is_finite() && *value >= 0.0) {
        true => Ok(BenchSamples::new(name, numbers("", &values, throughput))),
        false => Err(BenchOutputError::InvalidTimes { name }),
    }
}

fn parse_json<T: DeserializeOwned>(
    file: &'static str,
    bytes: &[u8],
) -> Result<T, BenchOutputError> {
    serde_json::from_slice(bytes)
        .map_err(|error| BenchOutputError::CriterionJson { file, error: Arc::new(error) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of Criterion 0.7 for a benchmark of two functions and one of a value.
    fn write_bench(home: &Path, directory: &str, id: &str, samples: &str) {
        let path = home.join(directory).join("new");
        std::fs::create_dir_all(&path).unwrap();
        let id = serde_json::json!({ "group_id": "g", "function_id": null, "value_str": null,
            "throughput": null, "full_id": id, "directory_name": directory, "title": id });
        std::fs::write(path.join("benchmark.json"), id.to_string()).unwrap();
        std::fs::write(path.join("sample.json"), samples).unwrap();
    }

    #[test]
    fn benches_are_found_in_directories() {
        let home = tempfile::tempdir().unwrap();
        let samples =
            r#"{"sampling_mode":"Linear","iters":[2.0,4.0,6.0],"times":[20.0,44.0,90.0]}"#;
        for (directory, id) in [("fib", "fib"), ("g/f_x/20", "g/f:x/20"), ("new/new", "new/new")] {
            write_bench(home.path(), directory, id, samples);
        }
        // Criterion copies the directory for the next run, and writes reports next to it.
        std::fs::create_dir_all(home.path().join("fib/base")).unwrap();
        std::fs::write(home.path().join("fib/base/sample.json"), samples).unwrap();
        std::fs::create_dir_all(home.path().join("report")).unwrap();
        let mut benches = read(home.path()).unwrap();
        benches.sort_by(|a, b| a.name.cmp(&b.name));
        let names: Vec<&str> = benches.iter().map(|bench| bench.name.as_str()).collect();
        assert_eq!(names, ["fib", "g/f:x/20", "new/new"]);
        assert!(
            benches.iter().all(|bench| bench.numbers[0].samples == [10.0, 11.0, 15.0]),
            "{benches:?}"
        );
        assert_eq!(read(&home.path().join("none")).unwrap(), []);
    }

    #[test]
    fn files_of_criterion_are_read() {
        let samples =
            parse_samples("x", None, include_bytes!("fixtures/criterion-sample.json")).unwrap();
        assert_eq!(samples.numbers[0].unit, "");
        let samples = &samples.numbers[0].samples;
        assert_eq!(samples.len(), 10);
        assert!(samples.iter().all(|value| (1.0..1e6).contains(value)), "{samples:?}");
        let file: BenchmarkFile =
            parse_json("benchmark.json", include_bytes!("fixtures/criterion-benchmark.json"))
                .unwrap();
        assert_eq!((file.full_id.as_str(), file.throughput), ("search/binary/1000", None));
    }

    #[test]
    fn throughput_is_work_per_time() {
        let rates = |unit: &str, throughput: &Value| {
            let numbers = numbers(unit, &[2.0, 4.0], Some(throughput));
            numbers.get(1).map(|n| format!("{} {} {:?}", n.unit, n.better, n.samples))
        };
        let expected = |text: &str| Some(text.to_owned());
        let json = |text: &str| serde_json::from_str(text).unwrap();
        assert_eq!(
            rates("ns", &json(r#"{"Bytes":8}"#)),
            expected("bytes/s higher [4000000000.0, 2000000000.0]")
        );
        let both = json(r#"{"ElementsAndBytes":{"elements":4,"bytes":9}}"#);
        assert_eq!(rates("J", &both), expected("elements/J higher [2.0, 1.0]"));
        assert_eq!(rates("", &json(r#"{"Bits":4}"#)), expected(" higher [2.0, 1.0]"));
        assert_eq!(rates("ns", &json(r#"{"Leaps":4}"#)), None);
    }

    #[test]
    fn malformed_files_are_errors() {
        for (text, expected) in [
            ("", "sample.json was not written by Criterion: EOF"),
            ("7", "sample.json was not written by Criterion: invalid type"),
            (r#"{"iters":[1.0],"times":["x"]}"#, "invalid type"),
            (r#"{"iters":[1.0]}"#, "missing field `times`"),
            (r#"{"iters":[1.0,2.0],"times":[1.0]}"#, "2 counts of iterations for 1 times"),
            (r#"{"iters":[],"times":[]}"#, "0 counts of iterations for 0 times"),
        ] {
            let error = parse_samples("x", None, text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
        let home = tempfile::tempdir().unwrap();
        write_bench(home.path(), "fib", "fib", "{}");
        let error = read(home.path()).unwrap_err().to_string();
        assert!(error.starts_with("fib: sample.json was not written by Criterion"), "{error}");
        std::fs::write(home.path().join("fib/new/benchmark.json"), "{}").unwrap();
        let error = read(home.path()).unwrap_err().to_string();
        assert!(error.starts_with("benchmark.json was not written by Criterion"), "{error}");
        std::fs::remove_file(home.path().join("fib/new/benchmark.json")).unwrap();
        let error = read(home.path()).unwrap_err().to_string();
        assert!(error.starts_with("benchmark.json: it cannot be read"), "{error}");
    }
}
