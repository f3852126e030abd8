//! The JSON that JMH, the harness of OpenJDK, writes to a file, and its standard output.
//!
//! The file has only the benchmarks that ended well. The standard output has a heading for each
//! benchmark that JMH starts, and says why one failed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use files::gate::verdict::UnjudgedReason;
use jitterstat::series::Better;
use serde::Deserialize;
use serde_json::Value;

use super::bench_harness::{BenchMillis, FilterSyntax, Flag, Harness, option};
use super::bench_samples::{BenchSamples, NumberSamples, Unmeasured, join_name};
use super::bench_selection::{Selection, escape_regex, possible_names};
use super::known_cause::{FlagEffect, MEASURES_NOTHING, OTHER_OUTPUT, OTHER_PLACE, effect};
use super::lenient_json::replace_non_finite;
use super::{BenchOutput, BenchOutputError, read_if_exists};

pub const HARNESS: Harness = Harness {
    name: "jmh",
    expected_output: "benchmarks on standard output and in the file of -rff",
    default_number: SCORE,
    known_numbers: None,
    example_number: "gc.alloc.rate.norm",
    counts: &["gc.count"],
    bench_millis: Some(BenchMillis { short: 400..=1_000, brief: 200..=700 }),
    flags: FLAGS,
    variables: &[],
    effects: EFFECTS,
    output_variables: |_, _| Vec::new(),
    output_arguments,
    argument_place: |command| command.len(),
    filter_syntax: FilterSyntax::Regex,
    own_filter: |_| None,
    filter_arguments: |filters, _| filters.to_vec(),
    select: |_, names| Some(Selection::Filter(name_filters(names))),
    read_files: Some(read_run),
    parse: |json, _| parse(json, ""),
};

/// Flags of a short run, in one process of Java. The compiler needs the time before the first
/// iteration.
const FLAGS: &[Flag] = &[
    option("-f", "1"),
    option("-wi", "3").or_brief("1"),
    option("-w", "100ms").or_brief("50ms"),
    option("-i", "3").or_brief("2"),
    option("-r", "50ms").or_brief("20ms"),
];
/// Flags of the command that prevent a result. Without its usual output, JMH does not tell that a
/// benchmark failed.
const EFFECTS: &[FlagEffect] = &[
    effect("-v", OTHER_OUTPUT),
    effect("-o", OTHER_OUTPUT),
    effect("-rf", OTHER_OUTPUT),
    effect("-rff", OTHER_PLACE),
    effect("-l", MEASURES_NOTHING),
    effect("-lp", MEASURES_NOTHING),
    effect("-lrf", MEASURES_NOTHING),
    effect("-lprof", MEASURES_NOTHING),
    effect("-h", MEASURES_NOTHING),
];
/// Name of the JSON in the directory of a run.
const OUT_NAME: &str = "jmh.json";
/// The number of the chosen mode: a time, or a throughput.
const SCORE: &str = "score";

/// Names of the modes on standard output and in the JSON.
const MODES: [(&str, &str); 4] = [
    ("Throughput", "thrpt"),
    ("Average time", "avgt"),
    ("Sampling time", "sample"),
    ("Single shot invocation time", "ss"),
];

/// A benchmark with its parameters in one mode.
#[derive(Deserialize)]
struct Entry {
    benchmark: String,
    mode: String,
    #[serde(default)]
    params: BTreeMap<String, String>,
    #[serde(rename = "primaryMetric")]
    primary: Metric,
    #[serde(default, rename = "secondaryMetrics")]
    secondary: BTreeMap<String, Metric>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metric {
    score_unit: String,
    /// The values of the iterations, by process.
    #[serde(default)]
    raw_data: Vec<Vec<Value>>,
    /// The values in the iterations with their numbers, by process, in the sampling mode.
    #[serde(default)]
    raw_data_histogram: Vec<Vec<Vec<(f64, u64)>>>,
}

/// A benchmark that JMH runs: its name with its parameters, and its mode.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct BenchId {
    name: String,
    mode: String,
}

fn output_arguments(directory: &Path) -> Vec<OsString> {
    vec!["-rf".into(), "json".into(), "-rff".into(), directory.join(OUT_NAME).into()]
}

/// Returns the regular expressions that select benchmarks by their names. One of them selects all
/// parameters and modes of a benchmark.
fn name_filters(names: &[&str]) -> Vec<String> {
    let methods = possible_names(names).into_iter().map(|name| {
        let method = name.split([':', ' ']).next().unwrap_or(name);
        format!("^{}$", escape_regex(method))
    });
    methods.collect::<BTreeSet<_>>().into_iter().collect()
}

fn read_run(output: &BenchOutput<'_>, stdout: &str) -> Result<Vec<BenchSamples>, BenchOutputError> {
    let json = read_if_exists(&output.directory.join(OUT_NAME))?.unwrap_or_default();
    let started = started_benches(stdout);
    // An output without headings would hide benchmarks that failed.
    if started.is_empty() { Ok(Vec::new()) } else { parse(&json, stdout) }
}

/// Parses the benchmarks of a run. The JSON is empty if none matched the filters.
fn parse(json: &[u8], stdout: &str) -> Result<Vec<BenchSamples>, BenchOutputError> {
    let entries: Vec<Entry> = match json.trim_ascii() {
        [] => Vec::new(),
        _ => serde_json::from_slice(&replace_non_finite(json))
            .map_err(|error| BenchOutputError::JmhJson(Arc::new(error)))?,
    };
    let measured: Vec<(BenchId, &Entry)> = entries
        .iter()
        .map(|entry| Ok((entry.id()?, entry)))
        .collect::<Result<_, BenchOutputError>>()?;
    let mut failed = started_benches(stdout);
    // A benchmark can fail in one process of several.
    failed.retain(|id, message| {
        !message.is_empty() || !measured.iter().any(|(other, _)| other == id)
    });
    let measured: Vec<(BenchId, &Entry)> =
        measured.into_iter().filter(|(id, _)| !failed.contains_key(id)).collect();

    let mut modes: HashMap<&str, BTreeSet<&str>> = HashMap::new();
    for id in measured.iter().map(|(id, _)| id).chain(failed.keys()) {
        modes.entry(&id.name).or_default().insert(&id.mode);
    }
    let full_name = |id: &BenchId| match modes[id.name.as_str()].len() {
        1 => id.name.clone(),
        _ => format!("{} {}", id.name, id.mode),
    };
    let mut benches: Vec<BenchSamples> = measured
        .iter()
        .map(|(id, entry)| BenchSamples::new(full_name(id), entry.numbers()))
        .collect();
    for (id, message) in &failed {
        let message = message.clone();
        let unmeasured = Unmeasured { reason: UnjudgedReason::Failed, message };
        benches.push(BenchSamples::without_number(full_name(id), Some(unmeasured)));
    }
    Ok(benches)
}

/// Returns the benchmarks that JMH started, each with the first line of its last failure.
fn started_benches(stdout: &str) -> BTreeMap<BenchId, String> {
    let mut started: BTreeMap<BenchId, String> = BTreeMap::new();
    let (mut mode, mut current): (&str, Option<BenchId>) = ("", None);
    let mut lines = stdout.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(text) = line.strip_prefix("# Benchmark mode: ") {
            let long_name = text.split(',').next().unwrap_or(text);
            mode =
                MODES.iter().find(|(long, _)| *long == long_name).map_or(text, |(_, short)| short);
        } else if let Some(name) = line.strip_prefix("# Benchmark: ") {
            let params = lines.peek().and_then(|next| next.strip_prefix("# Parameters: ("));
            let params = params.and_then(|params| params.strip_suffix(')'));
            let params = params.map_or_else(String::new, |p| format!(":{}", p.replace(" = ", "=")));
            let id = BenchId { name: format!("{name}{params}"), mode: mode.to_owned() };
            started.entry(id.clone()).or_default();
            current = Some(id);
        } else if line.ends_with("<failure>")
            && let Some(message) = current.as_ref().and_then(|id| started.get_mut(id))
        {
            *message = lines.find(|line| !line.is_empty()).unwrap_or_default().to_owned();
        } else if line.starts_with("<forked VM failed")
            && let Some(message) = current.as_ref().and_then(|id| started.get_mut(id))
        {
            *message = line.trim_matches(['<', '>']).to_owned();
        }
    }
    started
}

impl Entry {
    fn id(&self) -> Result<BenchId, BenchOutputError> {
        let params: Vec<String> =
            self.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let params = params.join(", ");
        let name = match params.as_str() {
            "" => self.benchmark.clone(),
            params => join_name(&[&self.benchmark, params], ":")?,
        };
        Ok(BenchId { name, mode: self.mode.clone() })
    }

    fn numbers(&self) -> Vec<NumberSamples> {
        let mut numbers = vec![self.primary.samples(SCORE)];
        for (name, metric) in &self.secondary {
            // Before 1.34, a dot preceded the names of profilers.
            numbers.push(metric.samples(name.trim_start_matches('·')));
        }
        numbers
    }
}

impl Metric {
    /// Returns the value of each iteration. That of the sampling mode is a mean.
    fn samples(&self, name: &str) -> NumberSamples {
        let (unit, factor, better) = convert_unit(&self.score_unit);
        let mut samples: Vec<f64> = self
            .raw_data
            .iter()
            .flatten()
            .map(|value| value.as_f64().unwrap_or(f64::NAN))
            .collect();
        for iteration in self.raw_data_histogram.iter().flatten() {
            let count: f64 = iteration.iter().map(|(_, count)| *count as f64).sum();
            let sum: f64 = iteration.iter().map(|(value, count)| value * *count as f64).sum();
            samples.push(sum / count);
        }
        let samples = samples.into_iter().map(|value| value * factor).collect();
        NumberSamples::new(name, unit, better, samples)
    }
}

/// Returns the unit in which a number is shown, the factor to it, and whether higher values are
/// better. Another unit remains as it is.
fn convert_unit(unit: &str) -> (&str, f64, Better) {
    let seconds = |time: &str| match time {
        "ns" => Some(1e-9),
        "us" => Some(1e-6),
        "ms" => Some(1e-3),
        "s" => Some(1.0),
        "min" => Some(60.0),
        "hr" => Some(3_600.0),
        "day" => Some(86_400.0),
        _ => None,
    };
    if let Some(time) = unit.strip_suffix("/op").and_then(seconds) {
        return ("ns", time * 1e9, Better::Lower);
    }
    match unit.strip_prefix("ops/") {
        Some(time) => match seconds(time) {
            Some(time) => ("ops/s", 1.0 / time, Better::Higher),
            None => (unit, 1.0, Better::Higher),
        },
        None => (unit, 1.0, Better::Lower),
    }
}

#[cfg(test)]
mod tests {
    use super::super::bench_samples::describe;
    use super::*;

    #[test]
    fn output_of_jmh_is_read() {
        let json = include_bytes!("fixtures/jmh.json");
        let benches = parse(json, include_str!("fixtures/jmh.txt")).unwrap();
        let described: Vec<String> = benches
            .iter()
            .map(|bench| {
                let numbers = bench.numbers.iter().map(|number| {
                    let count = number.samples.len();
                    format!("{} {} {} {count}", number.name, number.unit, number.better)
                });
                let numbers = numbers.collect::<Vec<_>>().join(", ");
                let message = bench.unmeasured.as_ref().map_or("", |found| &found.message);
                format!("{}: {numbers}{message}", bench.name)
            })
            .collect();
        let memory = "gc.alloc.rate.norm B/op lower 2, gc.count counts lower 2";
        assert_eq!(
            described,
            [
                format!("suite.Suite.work:count=100 thrpt: score ops/s higher 2, {memory}"),
                format!("suite.Suite.sort:count=100: score ns lower 2, {memory}"),
                format!("suite.Suite.work:count=100 avgt: score ns lower 2, {memory}"),
                format!(
                    "suite.Suite.work:count=100 sample: score ns lower 2, {memory}, p0.50 ns lower 2"
                ),
                format!("suite.Suite.work:count=100 ss: score ns lower 2, {memory}"),
                "suite.Suite.broken:count=100: java.lang.IllegalStateException: not today"
                    .to_owned(),
            ]
        );
        // The file states these times in microseconds.
        let time = &benches[3].numbers[0];
        assert!(time.samples.iter().all(|ns| (35_000.0..36_000.0).contains(ns)), "{time:?}");
    }

    fn entry(mode: &str, metric: &str) -> String {
        format!(r#"[{{"benchmark":"a.B.c","mode":"{mode}","primaryMetric":{{{metric}}}}}]"#)
    }

    fn parse_entry(metric: &str) -> Vec<String> {
        describe(&parse(entry("avgt", metric).as_bytes(), "").unwrap())
    }

    #[test]
    fn units_are_those_of_entries() {
        for (unit, expected) in [
            ("us/op", "a.B.c: score ns lower [2500.0]"),
            ("day/op", "a.B.c: score ns lower [216000000000000.0]"),
            ("ops/ms", "a.B.c: score ops/s higher [2500.0]"),
            ("ops/min", "a.B.c: score ops/s higher [0.041666666666666664]"),
            ("ops/week", "a.B.c: score ops/week higher [2.5]"),
            ("weeks/op", "a.B.c: score weeks/op lower [2.5]"),
            ("", "a.B.c: score  lower [2.5]"),
        ] {
            let metric = format!(r#""scoreUnit":"{unit}","rawData":[[2.5]]"#);
            assert_eq!(parse_entry(&metric), [expected]);
        }
    }

    #[test]
    fn samples_are_those_of_iterations() {
        for (raw, expected) in [
            (r#""rawData":[[1,2],[3]]"#, "[1.0, 2.0, 3.0]"),
            (r#""rawData":[["NaN",NaN]]"#, "[NaN, NaN]"),
            (r#""rawDataHistogram":[[[[1,3],[5,1]],[[7,2]]]]"#, "[2.0, 7.0]"),
            (r#""rawDataHistogram":[[[]]]"#, "[NaN]"),
            (r#""rawData":[]"#, "[]"),
        ] {
            let metric = format!(r#""scoreUnit":"ns/op",{raw}"#);
            assert_eq!(parse_entry(&metric), [format!("a.B.c: score ns lower {expected}")]);
        }
    }

    #[test]
    fn failures_are_found_on_stdout() {
        let heading = |mode: &str, name: &str| {
            format!("# Benchmark mode: {mode}, x\n# Benchmark: {name}\n\n# Fork: 1 of 1\n")
        };
        let json = entry("avgt", r#""scoreUnit":"ns/op","rawData":[[1]]"#);
        let stdout = format!(
            "{}Iteration   1: 1 ns/op\n{}# Warmup Iteration   1: <failure>\n\njava.lang.Error: x\n{}<forked VM failed with exit code 134>\n",
            heading("Average time", "a.B.c"),
            heading("Throughput", "a.B.c"),
            heading("Single shot invocation time", "a.B.d"),
        );
        assert_eq!(
            describe(&parse(json.as_bytes(), &stdout).unwrap()),
            [
                "a.B.c avgt: score ns lower [1.0]",
                "a.B.c thrpt: it failed: java.lang.Error: x",
                "a.B.d: it failed: forked VM failed with exit code 134"
            ]
        );
        assert_eq!(
            describe(&parse(b"", &heading("Sampling time", "x")).unwrap()),
            ["x: it failed: "]
        );
    }

    #[test]
    fn results_of_failed_benchmarks_are_dropped() {
        let json = entry("avgt", r#""scoreUnit":"ns/op","rawData":[[1]]"#);
        let heading = "# Benchmark mode: Average time, x\n# Benchmark: a.B.c\n# Fork: 1 of 2\n";
        let fork = "Iteration   1: 1 ns/op\n# Fork: 2 of 2\n";
        for (failure, message) in [
            ("Iteration   1: <failure>\n\njava.lang.Error: x\n", "java.lang.Error: x"),
            ("<forked VM failed with exit code 1>\n", "forked VM failed with exit code 1"),
        ] {
            let stdout = format!("{heading}{fork}{failure}");
            let found = describe(&parse(json.as_bytes(), &stdout).unwrap());
            assert_eq!(found, [format!("a.B.c: it failed: {message}")]);
        }
    }

    #[test]
    fn output_without_headings_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let json = entry("avgt", r#""scoreUnit":"ns/op","rawData":[[1]]"#);
        std::fs::write(directory.path().join(OUT_NAME), json).unwrap();
        let output = BenchOutput { directory: directory.path(), criterion_talk: None };
        assert_eq!(read_run(&output, "").unwrap(), []);
        let stdout = "# Benchmark mode: Average time, time/op\n# Benchmark: a.B.c\n";
        assert_eq!(describe(&read_run(&output, stdout).unwrap()), ["a.B.c: score ns lower [1.0]"]);
    }

    #[test]
    fn malformed_files_are_errors() {
        for (text, expected) in [
            ("Benchmark Mode Cnt", "not the JSON of JMH"),
            (r#"[{"benchmark":"a","mode":"ss"}]"#, "missing field `primaryMetric`"),
        ] {
            let error = parse(text.as_bytes(), "").unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
