//! The JSON that pytest-benchmark writes, with the time of each round, and the report of pytest in
//! the format of JUnit, which lists the tests that ran without a result.

use std::collections::HashSet;
use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use files::gate::verdict::UnjudgedReason;
use jitterstat::series::Better;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::bench_harness::{FilterSyntax, Harness};
use super::bench_samples::{BenchSamples, NumberSamples, Unmeasured};
use super::bench_selection::Selection;
use super::command_words::pytest_words;
use super::known_cause::{FlagEffect, MEASURES_NOTHING, OTHER_PLACE, effect};
use super::lenient_json::replace_non_finite;
use super::{
    BenchFormat, BenchOutput, BenchOutputError, BenchRequest, RunLength, read_bounded,
    read_if_exists,
};

pub const HARNESS: Harness = Harness {
    name: "pytest-benchmark",
    expected_output: "tests with the fixture of pytest-benchmark, which pytest-xdist disables unless it has -n 0",
    default_number: TIME,
    known_numbers: None,
    example_number: "min",
    counts: &[],
    // It depends on the options of its configuration.
    bench_millis: None,
    // It has a variable with options instead.
    flags: &[],
    variables: &[],
    effects: EFFECTS,
    output_variables,
    output_arguments: |_| Vec::new(),
    argument_place: |command| command.len(),
    filter_syntax: FilterSyntax::Expression,
    own_filter,
    filter_arguments: |_, _| Vec::new(),
    select: |_, names| name_option(names).map(|option| Selection::Filter(vec![option])),
    read_files: Some(read_run),
    parse: |json, _| parse(json),
};

/// Flags of the command that prevent a result.
const EFFECTS: &[FlagEffect] = &[
    effect("--benchmark-json", OTHER_PLACE),
    effect("--junitxml", "writes the report of pytest to another place"),
    effect("--junit-xml", "writes the report of pytest to another place"),
    effect("--benchmark-disable", MEASURES_NOTHING),
    effect("--benchmark-compare-fail", "judges them itself"),
    effect("-n", "starts processes of pytest-xdist, which disables benchmarks"),
    effect("--numprocesses", "starts processes of pytest-xdist, which disables benchmarks"),
    effect("--collect-only", MEASURES_NOTHING),
    effect("--co", MEASURES_NOTHING),
];

/// Variable with options, in front of those of the command line.
const ENV_OPTIONS: &str = "PYTEST_ADDOPTS";
/// Name of the JSON in the directory of a run.
const JSON_NAME: &str = "pytest-benchmark.json";
/// Name of the report in the directory of a run.
const REPORT_NAME: &str = "pytest.xml";

const TIME: &str = "time";
/// Statistics that `--metric` can choose, as the JSON names them.
const STATISTICS: [&str; 9] =
    ["min", "max", "mean", "median", "q1", "q3", "iqr", "stddev", OPERATIONS];
/// Operations in a second, as the inverse of the mean.
const OPERATIONS: &str = "ops";

/// Names of timers that count seconds, without their module.
const SECOND_TIMERS: [&str; 6] =
    ["perf_counter", "process_time", "thread_time", "monotonic", "time", "clock"];
const NS_PER_SECOND: f64 = 1e9;

/// Outcomes of tests that the last line of pytest counts.
const OUTCOMES: [&str; 7] =
    ["passed", "failed", "skipped", "xfailed", "xpassed", "error", "errors"];

/// The last `-k` of the command or, without one, of the user's variable replaces all others.
fn own_filter(command: &[String]) -> Option<&'static str> {
    let is_filter = |word: &String| word.starts_with("-k");
    let variable = env::var(ENV_OPTIONS).ok().and_then(|options| shlex::split(&options));
    if pytest_words(command).iter().any(is_filter) {
        return Some("-k");
    }
    variable.is_some_and(|options| options.iter().any(is_filter)).then_some("-k in PYTEST_ADDOPTS")
}

fn output_variables(request: &BenchRequest, directory: &Path) -> Vec<(&'static str, OsString)> {
    let path = |name: &str| directory.join(name).to_string_lossy().into_owned();
    let own = options(&path(JSON_NAME), &path(REPORT_NAME), &request.filters, request.length);
    // Options of a command line have no zero byte, the only one that cannot be quoted.
    let own = own.iter().filter_map(|option| shlex::try_quote(option).ok());
    let user = env::var(ENV_OPTIONS).unwrap_or_default();
    let options: Vec<_> = own.chain([user.into()]).collect();
    vec![(ENV_OPTIONS, options.join(" ").into())]
}

fn read_run(output: &BenchOutput<'_>, stdout: &str) -> Result<Vec<BenchSamples>, BenchOutputError> {
    if ran_twice(stdout) {
        return Err(BenchOutputError::SeveralRuns(BenchFormat::PytestBenchmark));
    }
    // Without a result, the plugin writes no file.
    let json = read_if_exists(&output.directory.join(JSON_NAME))?;
    let Some(json) = json else { return Ok(Vec::new()) };
    let mut benches = parse(&json)?;
    add_unmeasured(&mut benches, &read_bounded(&output.directory.join(REPORT_NAME))?)?;
    Ok(benches)
}

/// Returns the options of a short run. Long rounds keep the JSON small. The options of a project
/// often disable benchmarks, and can write to other places.
fn options(json: &str, report: &str, filters: &[String], length: RunLength) -> Vec<String> {
    let max_time = match length {
        RunLength::Short => "0.05",
        RunLength::Brief => "0.01",
    };
    let mut options = vec![
        "--benchmark-only".to_owned(),
        "--benchmark-enable".to_owned(),
        "--benchmark-min-time=0.0005".to_owned(),
        format!("--benchmark-max-time={max_time}"),
        format!("--benchmark-json={json}"),
        format!("--junitxml={report}"),
        "-ojunit_family=xunit1".to_owned(),
        "-pno:cacheprovider".to_owned(),
    ];
    if !filters.is_empty() {
        let terms: Vec<String> = filters.iter().map(|filter| format!("({filter})")).collect();
        options.push(format!("-k{}", terms.join(" or ")));
    }
    options
}

/// Returns the option that selects tests by their names, and others that contain these names. `None`
/// if a name is not one of its expressions.
fn name_option(names: &[&str]) -> Option<String> {
    let names = names.iter().map(|name| name.rsplit("::").next().unwrap_or(name));
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names.dedup();
    let is_part = |c: char| c.is_alphanumeric() || "_:+-.[]/".contains(c);
    let is_expression = names.iter().all(|name| !name.is_empty() && name.chars().all(is_part));
    is_expression.then(|| format!("-k{}", names.join(" or ")))
}

#[derive(Deserialize)]
struct Output {
    benchmarks: Vec<Bench>,
}

#[derive(Deserialize)]
struct Bench {
    /// Id of the test.
    fullname: String,
    #[serde(default)]
    options: Options,
    stats: Stats,
    /// Values that the test adds.
    #[serde(default)]
    extra_info: Map<String, Value>,
}

#[derive(Default, Deserialize)]
struct Options {
    /// Name of the function that reads the clock.
    #[serde(default)]
    timer: Option<String>,
}

#[derive(Deserialize)]
struct Stats {
    /// Value of an iteration in each round.
    #[serde(default)]
    data: Vec<Option<f64>>,
    #[serde(flatten)]
    values: Map<String, Value>,
}

/// Parses the benchmarks of a run.
fn parse(json: &[u8]) -> Result<Vec<BenchSamples>, BenchOutputError> {
    let Output { benchmarks } = serde_json::from_slice(&replace_non_finite(json))
        .map_err(|error| BenchOutputError::PytestJson(Arc::new(error)))?;
    Ok(benchmarks.iter().map(bench_samples).collect())
}

/// Adds the tests that have no result of the plugin, except those that were skipped. A test that
/// did not pass loses its result: its code can have been fast because it is wrong.
pub fn add_unmeasured(
    benches: &mut Vec<BenchSamples>,
    report: &[u8],
) -> Result<(), BenchOutputError> {
    let cases = parse_report(report)?;
    // An error after a test is a case of its own.
    let others = cases.iter().filter(|case| case.outcome != TestOutcome::Passed);
    let others: HashSet<String> = others.map(|case| case.name.clone()).collect();
    benches.retain(|bench| !others.contains(&bench.name));
    let mut listed: HashSet<String> = benches.iter().map(|bench| bench.name.clone()).collect();
    for TestCase { name, outcome } in cases {
        let unmeasured = match outcome {
            TestOutcome::Passed if !others.contains(&name) => None,
            TestOutcome::Failed(message) => {
                Some(Unmeasured { reason: UnjudgedReason::Failed, message })
            }
            TestOutcome::Passed | TestOutcome::Skipped => continue,
        };
        if listed.insert(name.clone()) {
            benches.push(BenchSamples::without_number(name, unmeasured));
        }
    }
    Ok(())
}

/// Returns whether standard output has the last line of two runs of pytest. The JSON has only the
/// results of the last one.
fn ran_twice(stdout: &str) -> bool {
    let is_last_line = |line: &&str| {
        let words: Vec<&str> = line.trim_matches(['=', ' ']).split_ascii_whitespace().collect();
        let [count, outcome, ..] = words[..] else { return false };
        let mut pairs = words.windows(2);
        count.parse::<u64>().is_ok()
            && OUTCOMES.contains(&outcome.trim_end_matches(','))
            && pairs.any(|pair| pair[0] == "in" && is_duration(pair[1]))
    };
    stdout.lines().filter(is_last_line).count() > 1
}

/// Returns whether a word is a time like `0.52s`.
fn is_duration(word: &str) -> bool {
    word.strip_suffix('s').is_some_and(|seconds| seconds.parse::<f64>().is_ok())
}

fn bench_samples(bench: &Bench) -> BenchSamples {
    let timer = bench.options.timer.as_deref().unwrap_or_default();
    let timer = timer.rsplit('.').next().unwrap_or_default();
    // Another timer can count anything.
    let has_seconds = SECOND_TIMERS.contains(&timer);
    let (unit, factor) = if has_seconds { ("ns", NS_PER_SECOND) } else { ("", 1.0) };
    let mut numbers = Vec::new();
    if !bench.stats.data.is_empty() {
        let rounds = bench.stats.data.iter();
        let samples = rounds.map(|value| value.map_or(f64::NAN, |value| value * factor)).collect();
        numbers.push(NumberSamples::new(TIME, unit, Better::Lower, samples));
    }
    for name in STATISTICS {
        let Some(value) = bench.stats.values.get(name).and_then(parse_number) else { continue };
        numbers.push(match (name, has_seconds) {
            (OPERATIONS, true) => NumberSamples::new(name, "ops/s", Better::Higher, vec![value]),
            (OPERATIONS, false) => NumberSamples::new(name, "", Better::Higher, vec![value]),
            _ => NumberSamples::new(name, unit, Better::Lower, vec![value * factor]),
        });
    }
    for (name, value) in &bench.extra_info {
        let is_known = name == TIME || STATISTICS.contains(&name.as_str());
        let Some(value) = parse_number(value).filter(|_| !is_known) else { continue };
        let is_rate = ["_per_second", "/s", "/sec"].iter().any(|end| name.ends_with(end));
        let better = if is_rate { Better::Higher } else { Better::Lower };
        numbers.push(NumberSamples::new(name, "", better, vec![value]));
    }
    BenchSamples::new(bench.fullname.clone(), numbers)
}

/// Returns a number, which was replaced if it is not finite.
fn parse_number(value: &Value) -> Option<f64> {
    if value.is_null() { Some(f64::NAN) } else { value.as_f64() }
}

/// A test of a report.
struct TestCase {
    /// Id of the test.
    name: String,
    outcome: TestOutcome,
}

#[derive(PartialEq, Eq)]
enum TestOutcome {
    Passed,
    /// The test failed, even if that was expected. The message says how.
    Failed(String),
    /// The test was skipped, before or after it measured something.
    Skipped,
}

/// Parses the tests of a report. All that were not skipped used the plugin.
fn parse_report(report: &[u8]) -> Result<Vec<TestCase>, BenchOutputError> {
    let text = String::from_utf8_lossy(report);
    let document = roxmltree::Document::parse(&text)
        .map_err(|error| BenchOutputError::PytestReport(Arc::new(error)))?;
    let cases = document.descendants().filter(|node| node.has_tag_name("testcase"));
    Ok(cases.map(|case| TestCase { name: test_id(case), outcome: test_outcome(case) }).collect())
}

fn test_outcome(case: roxmltree::Node<'_, '_>) -> TestOutcome {
    let find = |tag: &str| case.children().find(|node| node.has_tag_name(tag));
    let message =
        |node: roxmltree::Node<'_, '_>| node.attribute("message").unwrap_or_default().to_owned();
    if let Some(node) = find("failure").or_else(|| find("error")) {
        return TestOutcome::Failed(message(node));
    }
    match find("skipped") {
        None => TestOutcome::Passed,
        Some(node) if node.attribute("type") == Some("pytest.xfail") => match message(node) {
            reason if reason.is_empty() => TestOutcome::Failed("an expected failure".to_owned()),
            reason => TestOutcome::Failed(format!("an expected failure: {reason}")),
        },
        Some(_) => TestOutcome::Skipped,
    }
}

/// Returns the id of a test: its file, its classes and its name.
fn test_id(case: roxmltree::Node<'_, '_>) -> String {
    let attribute = |name: &str| case.attribute(name).unwrap_or_default();
    let (file, class) = (attribute("file"), attribute("classname"));
    // A class name begins with the module, which is the file with dots.
    let module = file.strip_suffix(".py").unwrap_or(file).replace(['/', '\\'], ".");
    let classes = class.strip_prefix(&module).unwrap_or(class).trim_start_matches('.');
    let classes = classes.split('.').filter(|class| !class.is_empty());
    let parts = std::iter::once(file).chain(classes).chain([attribute("name")]);
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("::")
}

#[cfg(test)]
mod tests {
    use super::super::bench_samples::describe;
    use super::*;

    #[test]
    fn output_of_pytest_benchmark_is_read() {
        let mut benches = parse(include_bytes!("fixtures/pytest-benchmark.json")).unwrap();
        let suite = "benchmarks/test_suite.py";
        let names = |benches: &[BenchSamples]| -> Vec<String> {
            benches.iter().map(|bench| bench.name.clone()).collect()
        };
        let measured =
            ["test_sort", "test_join[10]", "test_join[1000]", "test_extra", "TestK::test_m"];
        assert_eq!(names(&benches), measured.map(|test| format!("{suite}::{test}")));
        let units: Vec<String> = benches[3]
            .numbers
            .iter()
            .map(|number| format!("{} {} {}", number.name, number.unit, number.better))
            .collect();
        assert_eq!(
            units,
            [
                "time ns lower", "min ns lower", "max ns lower", "mean ns lower",
                "median ns lower", "q1 ns lower", "q3 ns lower", "iqr ns lower", "stddev ns lower",
                "ops ops/s higher", "peak_mb  lower"
            ]
        );
        let numbers = &benches[3].numbers;
        assert!(
            numbers[0].samples.len() > 3
                && numbers[0].samples.iter().all(|ns| (1e2..1e6).contains(ns))
        );
        assert_eq!(numbers[10].samples, [12.5]);

        // Three other tests were skipped, of which one is not a benchmark.
        add_unmeasured(&mut benches, include_bytes!("fixtures/pytest.xml")).unwrap();
        assert_eq!(
            describe(&benches[5..]),
            [
                format!("{suite}::test_xfail: it failed: an expected failure"),
                format!("{suite}::test_unused: ")
            ]
        );
    }

    #[test]
    fn units_are_those_of_timers() {
        let parse_timer = |options: &str| {
            let json = format!(
                r#"{{"benchmarks":[{{"fullname":"a","stats":{{"data":[2.0,NaN],"ops":0.5}}{options}}}]}}"#
            );
            describe(&parse(json.as_bytes()).unwrap()).remove(0)
        };
        for timer in ["perf_counter", "time.process_time", "pytest_benchmark.timers.monotonic"] {
            let options = format!(r#","options":{{"timer":"{timer}"}}"#);
            let expected = "a: time ns lower [2000000000.0, NaN], ops ops/s higher [0.5]";
            assert_eq!(parse_timer(&options), expected, "{timer}");
        }
        for options in ["", r#","options":{"timer":"joules.read"}"#, r#","options":{"timer":null}"#]
        {
            assert_eq!(
                parse_timer(options),
                "a: time  lower [2.0, NaN], ops  higher [0.5]",
                "{options}"
            );
        }
    }

    #[test]
    fn added_values_are_numbers() {
        let json = r#"{"benchmarks":[{"fullname":"a","stats":{"mean":1.0},"extra_info":
            {"rows/s":5,"mean":7,"label":"x","bad":Infinity,"sizes":[1]}}]}"#;
        let benches = parse(json.as_bytes()).unwrap();
        assert_eq!(
            describe(&benches),
            ["a: mean  lower [1.0], bad  lower [NaN], rows/s  higher [5.0]"]
        );
    }

    #[test]
    fn tests_of_reports_have_ids() {
        let report = r#"<testsuites><testsuite>
            <testcase classname="a.test_b.TestC.TestD" name="t[x.y]" file="a/test_b.py"/>
            <testcase classname="a.test_b" name="t" file="a/test_b.py"><failure message="lost &amp; gone"/></testcase>
            <testcase classname="test_c" name="t"/>
            <testcase classname="test_c" name="measured" file="test_c.py"/>
            <testcase classname="test_c" name="other" file="test_c.py"><skipped type="pytest.skip" message="x"/></testcase>
            </testsuite></testsuites>"#;
        let mut benches = vec![BenchSamples::new("test_c.py::measured".to_owned(), Vec::new())];
        add_unmeasured(&mut benches, report.as_bytes()).unwrap();
        assert_eq!(
            describe(&benches[1..]),
            [
                "a/test_b.py::TestC::TestD::t[x.y]: ",
                "a/test_b.py::t: it failed: lost & gone",
                "test_c::t: "
            ]
        );
        let error = add_unmeasured(&mut benches, b"<testsuites>").unwrap_err().to_string();
        assert!(error.starts_with("the report of pytest is not XML: "), "{error}");
    }

    #[test]
    fn results_of_failed_tests_are_dropped() {
        let cases = [
            ("passed", ""),
            ("failed", r#"<failure message="assert 1 == 2"/>"#),
            ("planned", r#"<skipped type="pytest.xfail" message="wrong result"/>"#),
            ("planned_silently", r#"<skipped type="pytest.xfail" message=""/>"#),
            ("skipped", r#"<skipped type="pytest.skip" message="no GPU"/>"#),
            ("torn_down", r#"<error message="failed on teardown"/>"#),
            // An error after a failure is a case of its own.
            ("twice", r#"<failure message="assert False"/>"#),
            ("twice", r#"<error message="failed on teardown"/>"#),
            ("late", ""),
            ("late", r#"<error message="failed on teardown"/>"#),
        ];
        let mut report = "<testsuites><testsuite>".to_owned();
        let mut benches: Vec<BenchSamples> = Vec::new();
        for (name, outcome) in cases {
            report += &format!(
                r#"<testcase classname="t" name="{name}" file="t.py">{outcome}</testcase>"#
            );
            let id = format!("t.py::{name}");
            if benches.iter().all(|bench| bench.name != id) {
                benches.push(BenchSamples::from_times(id, TIME, vec![5.0]));
            }
        }
        report += "</testsuite></testsuites>";
        add_unmeasured(&mut benches, report.as_bytes()).unwrap();
        assert_eq!(
            describe(&benches),
            [
                "t.py::passed: time ns lower [5.0]",
                "t.py::failed: it failed: assert 1 == 2",
                "t.py::planned: it failed: an expected failure: wrong result",
                "t.py::planned_silently: it failed: an expected failure",
                "t.py::torn_down: it failed: failed on teardown",
                "t.py::twice: it failed: assert False",
                "t.py::late: it failed: failed on teardown",
            ]
        );
    }

    #[test]
    fn second_runs_are_noticed() {
        for line in [
            "6 passed, 3 skipped, 1 xfailed, 1 warning in 0.52s",
            "===== 2 passed in 71.20s (0:01:11) =====",
        ] {
            assert!(!ran_twice(&format!("test session starts\n{line}\n")), "{line}");
            assert!(ran_twice(&format!("{line}\nx\n{line}\n")), "{line}");
        }
        assert!(!ran_twice("2 files in 3s\n3 passed rows in 0.1 s\n2 passed in 1.0s\n"));
    }

    #[test]
    fn malformed_files_are_errors() {
        for (text, expected) in [
            ("", "not the JSON of pytest-benchmark: EOF"),
            (r#"{"benchmarks":[{"name":"a"}]}"#, "missing field `fullname`"),
        ] {
            let error = parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
