//! The lines that Rust's own harness prints: `test fib ... bench:   1,234.56 ns/iter (+/- 12.34)`.
//!
//! The crate `bencher` and Criterion's `--output-format bencher` print the same lines. The harness
//! prints the name before it runs the benchmark, whose own output can follow.

use anstream::adapter::strip_str;
use files::gate::verdict::UnjudgedReason;
use jitterstat::series::Better;

use super::BenchOutputError;
use super::bench_harness::{BenchMillis, FilterSyntax, Harness, flag};
use super::bench_samples::{BenchSamples, NumberSamples, Unmeasured};
use super::bench_selection::{Selection, possible_names};
use super::command_words::executable_separator_place;
use super::known_cause::{FlagEffect, MEASURES_NOTHING, OTHER_OUTPUT, effect};

pub const HARNESS: Harness = Harness {
    name: "libtest",
    expected_output: "lines like `test sort ... bench: 1,234 ns/iter` on standard output",
    default_number: "time",
    known_numbers: Some(&["time", "MB/s"]),
    example_number: "MB/s",
    counts: &[],
    // The harness chooses the time.
    bench_millis: Some(BenchMillis { short: 300..=3_000, brief: 300..=3_000 }),
    flags: &[flag("--bench")],
    variables: &[],
    effects: EFFECTS,
    output_variables: |_, _| Vec::new(),
    output_arguments: |_| Vec::new(),
    argument_place: executable_separator_place,
    filter_syntax: FilterSyntax::Text,
    own_filter: |_| None,
    filter_arguments: |filters, _| filters.to_vec(),
    select: |_, names| Some(Selection::Filter(name_filters(names))),
    read_files: None,
    // The harness prints colours if its flag or variable demands them.
    parse: |stdout, _| parse(&strip_str(&String::from_utf8_lossy(stdout)).to_string()),
};

/// Flags of the command that prevent a result.
const EFFECTS: &[FlagEffect] = &[
    effect("--test", MEASURES_NOTHING),
    effect("--list", MEASURES_NOTHING),
    effect("--format", OTHER_OUTPUT),
    effect("--quiet", OTHER_OUTPUT),
    effect("-q", OTHER_OUTPUT),
    effect("--logfile", OTHER_OUTPUT),
];

/// Results of what is not a benchmark, or was not run.
const OTHER_RESULTS: [&str; 2] = ["ok", "ignored"];
/// Results of what failed. Without a wrapper that hides the exit code, the run fails as well.
const FAILED_RESULTS: [&str; 2] = ["FAILED", "FAILED (time limit exceeded)"];
/// Start of the result of what was not run, if it states a reason.
const IGNORED_WITH_REASON: &str = "ignored, ";

/// Returns the filters that select benchmarks by their whole names.
fn name_filters(names: &[&str]) -> Vec<String> {
    let names = possible_names(names).into_iter().map(str::to_owned);
    ["--exact".to_owned()].into_iter().chain(names).collect()
}

/// Start of the last line of a harness.
const RESULT: &str = "test result: ";

/// Parses the benchmarks of a run.
///
/// # Errors
///
/// Returns an error if a time is not a number, or if the run did not end as its first line promises.
/// The exit code states the same, but a wrapper can hide it. Criterion and others print only the
/// lines of benchmarks.
fn parse(text: &str) -> Result<Vec<BenchSamples>, BenchOutputError> {
    const INCOMPLETE: BenchOutputError =
        BenchOutputError::Incomplete { end: "line `test result: …`" };
    let mut benches: Vec<BenchSamples> = Vec::new();
    let mut pending = None;
    // Place of the first benchmark of this harness, and whether its last line is missing.
    let (mut first, mut is_open) = (0, false);
    for line in text.lines() {
        let mut rest = line;
        if let Some(NamedLine { name, rest: result }) = find_name(line) {
            benches.extend(pending.take().map(without_number));
            pending = Some(name);
            rest = result;
        }
        if let Some((_, result)) = line.split_once(RESULT) {
            benches.extend(pending.take().map(without_number));
            check_result(result, &benches[first..])?;
            (first, is_open) = (benches.len(), false);
        } else if is_heading(line) {
            if is_open {
                return Err(INCOMPLETE);
            }
            (first, is_open) = (benches.len(), true);
        }
        let Some(name) = pending else { continue };
        if let Some((_, figures)) = rest.rsplit_once("bench:") {
            benches.push(parse_figures(name, figures)?);
            pending = None;
        } else if is_other_result(rest) {
            pending = None;
        } else if has_result(rest, &FAILED_RESULTS) {
            benches.extend(pending.take().map(failed));
        }
    }
    benches.extend(pending.map(without_number));
    if is_open { Err(INCOMPLETE) } else { Ok(benches) }
}

/// Returns whether a line is the first one of a harness: `running 3 tests`.
fn is_heading(line: &str) -> bool {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let ["running", count, "test" | "tests", ..] = words[..] else { return false };
    count.parse::<u64>().is_ok()
}

/// Checks that the last line of a harness counts the benchmarks that are listed. Those without a
/// number were measured or failed, and lost their own line.
fn check_result(result: &str, benches: &[BenchSamples]) -> Result<(), BenchOutputError> {
    let words: Vec<&str> = result.split([' ', ';']).filter(|word| !word.is_empty()).collect();
    let count = |noun: &str| {
        let place = words.iter().position(|word| *word == noun)?;
        words[place.checked_sub(1)?].parse::<u64>().ok()
    };
    let (Some(measured), Some(failed)) = (count("measured"), count("failed")) else {
        return Ok(());
    };
    let listed = |is_kind: fn(&BenchSamples) -> bool| {
        benches.iter().filter(|bench| is_kind(bench)).count() as u64
    };
    let with_number = listed(|bench| !bench.numbers.is_empty());
    let named_failures = listed(|bench| bench.unmeasured.is_some());
    let lost = benches.len() as u64 - with_number - named_failures;
    if !(with_number..=with_number + lost).contains(&measured) {
        let (counted, kind, listed) = (measured, "measured", with_number);
        return Err(BenchOutputError::OtherCount { counted, kind, listed });
    }
    let has_failed = result.starts_with("FAILED");
    match failed > named_failures + lost || has_failed && named_failures + lost == 0 {
        true => {
            Err(BenchOutputError::UnnamedFailure { line: format!("{RESULT}{}", result.trim()) })
        }
        false => Ok(()),
    }
}

/// Returns whether the text behind a name has the result of what is not a benchmark, or was not run.
fn is_other_result(text: &str) -> bool {
    text.starts_with(IGNORED_WITH_REASON) || has_result(text, &OTHER_RESULTS)
}

/// Returns whether a text ends with one of the results. The harness adds the time of a test if a flag
/// demands it.
fn has_result(text: &str, results: &[&str]) -> bool {
    let text = text.trim_end();
    let without_time = text.strip_suffix('>').and_then(|text| text.rsplit_once(" <"));
    let result = without_time.map_or(text, |(result, _)| result);
    results.iter().any(|other| result.ends_with(other))
}

/// A line with the name of a test or benchmark, and the text that follows it.
struct NamedLine<'a> {
    name: &'a str,
    rest: &'a str,
}

/// Finds `test NAME ... `. Output of the previous benchmark can be in front of it.
fn find_name(line: &str) -> Option<NamedLine<'_>> {
    let (start, rest) =
        line.split_once(" ... ").or_else(|| line.strip_suffix(" ...").map(|start| (start, "")))?;
    let name = match start.trim_start().strip_prefix("test ") {
        Some(name) => name,
        None => {
            let (_, name) = start.rsplit_once("test ")?;
            Some(name).filter(|name| !name.trim_end().contains(char::is_whitespace))?
        }
    };
    Some(NamedLine { name: name.trim_end(), rest })
}

fn without_number(name: &str) -> BenchSamples {
    BenchSamples::without_number(name.to_owned(), None)
}

fn failed(name: &str) -> BenchSamples {
    let unmeasured = Unmeasured { reason: UnjudgedReason::Failed, message: String::new() };
    BenchSamples::without_number(name.to_owned(), Some(unmeasured))
}

/// Parses `1,234.56 ns/iter (+/- 12.34) = 81 MB/s`. Criterion can state another unit.
fn parse_figures(name: &str, figures: &str) -> Result<BenchSamples, BenchOutputError> {
    let time = figures.split_once("/iter").and_then(|(time, _)| parse_figure(time));
    let Some(Figure { value, unit }) = time else {
        let (time, example) = (figures.trim().to_owned(), "1,234.56 ns/iter");
        return Err(BenchOutputError::InvalidTime { time, name: name.to_owned(), example });
    };
    let mut numbers = vec![NumberSamples::new("time", unit, Better::Lower, vec![value])];
    let rate = figures.rsplit_once('=').and_then(|(_, rate)| parse_figure(rate));
    if let Some(Figure { value, unit: unit @ "MB/s" }) = rate {
        numbers.push(NumberSamples::new(unit, unit, Better::Higher, vec![value]));
    }
    Ok(BenchSamples::new(name.to_owned(), numbers))
}

/// A value and its unit.
struct Figure<'a> {
    value: f64,
    unit: &'a str,
}

/// Parses a value, which has commas between thousands, and its unit.
fn parse_figure(text: &str) -> Option<Figure<'_>> {
    let (value, unit) = text.trim().split_once(' ')?;
    Some(Figure { value: value.replace(',', "").parse().ok()?, unit: unit.trim() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bench(name: &str, ns: f64) -> BenchSamples {
        BenchSamples::from_times(name.to_owned(), "time", vec![ns])
    }

    #[test]
    fn output_of_libtest_is_read() {
        let benches = parse(include_str!("fixtures/libtest.txt")).unwrap();
        let names: Vec<&str> = benches.iter().map(|bench| bench.name.as_str()).collect();
        assert_eq!(names, ["hash", "search::binary", "search::linear"]);
        assert!(benches.iter().all(|bench| bench.numbers[0].samples[0] > 0.0), "{benches:?}");
    }

    #[test]
    fn lines_of_all_versions_are_parsed() {
        for (line, ns) in [
            ("test a ... bench:   1,234,567.89 ns/iter (+/- 12.34)", 1_234_567.89),
            ("test a            ... bench:           0 ns/iter (+/- 0)", 0.0),
            ("test a ... bench:           0.31 ns/iter (+/- 0.00)", 0.31),
        ] {
            assert_eq!(parse(line).unwrap(), [bench("a", ns)], "{line}");
        }
        let joules = parse("test a b/c ... bench:          12 J/iter (+/- 0)").unwrap();
        let number = NumberSamples::new("time", "J", Better::Lower, vec![12.0]);
        assert_eq!((joules[0].name.as_str(), &joules[0].numbers[0]), ("a b/c", &number));
        let with_rate =
            parse("test a ... bench:       1,234 ns/iter (+/- 12) = 1,081 MB/s").unwrap();
        let rate = NumberSamples::new("MB/s", "MB/s", Better::Higher, vec![1081.0]);
        assert_eq!(with_rate[0].numbers[1], rate);
        for line in [
            "test a ... ok",
            "test a ... ignored",
            "test a ... ignored, needs a GPU",
            "test a ... ignored, needs a GPU <0.001s>",
            "test a ... ok <0.125s>",
            "running 3 tests\ntest result: ok. 0 passed",
            "",
        ] {
            assert_eq!(parse(line).unwrap(), [], "{line}");
        }
        for line in ["test a ... FAILED", "test a ... FAILED (time limit exceeded) <60.125s>"] {
            assert_eq!(parse(line).unwrap(), [failed("a")], "{line}");
        }
        let error = parse("test a ... bench: soon").unwrap_err().to_string();
        assert_eq!(error, "invalid time \"soon\" of a: expected e.g. 1,234.56 ns/iter");
    }

    #[test]
    fn colours_are_ignored() {
        let text = "test a ... \x1b[36mbench\x1b(B\x1b[m:       1,234 ns/iter (+/- 3)\n\
                    test b ... \x1b[33mignored\x1b[0m\n\ntest result: \x1b[32mok\x1b[0m. 0 passed\n";
        assert_eq!((HARNESS.parse)(text.as_bytes(), &[]).unwrap(), [bench("a", 1234.0)]);
    }

    #[test]
    fn output_of_benchmarks_is_skipped() {
        let figures = "bench:   1,234 ns/iter (+/- 3)\n";
        for output in ["loading\n", "loading ", "test of x\n7 ns/iter\n"] {
            let text = format!("test a ... {output}{figures}nexttest b ... {figures}");
            assert_eq!(parse(&text).unwrap(), [bench("a", 1234.0), bench("b", 1234.0)], "{text}");
        }
    }

    #[test]
    fn results_of_harnesses_are_checked() {
        let figures = "bench: 1 ns/iter (+/- 0)";
        let suite = |line: &str, result: &str| {
            format!("\nrunning 2 tests\ntest a ... {figures}\n{line}\n\n{result}\n")
        };
        let counts = |passed: u64, failed: u64, measured: u64| {
            format!(
                "{passed} passed; {failed} failed; 0 ignored; {measured} measured; 0 filtered out"
            )
        };
        let result = |status: &str, failed: u64, measured: u64| {
            format!("test result: {status}. {}; finished in 1s", counts(0, failed, measured))
        };
        let b = format!("test b ... {figures}");
        for text in [
            suite(&b, &result("ok", 0, 2)),
            suite(&b, "test result: ok. 0 passed; 0 failed; 0 ignored; 2 measured"),
            suite(&b, &format!("output{}", result("ok", 0, 2))),
            suite("test b ... FAILED", &result("FAILED", 1, 1)),
            suite("test b ... ok", &format!("test result: ok. {}", counts(1, 0, 1))),
            // The line of a benchmark is lost in its output.
            suite("test b ... lost", &result("ok", 0, 2)),
            suite("test b ... lost", &result("FAILED", 1, 1)),
            suite(&b, &result("ok", 0, 2)).repeat(2),
            // Other programs print only these lines.
            b.clone(),
        ] {
            assert!(parse(&text).is_ok(), "{text}: {:?}", parse(&text));
        }
        let incomplete = "its output has no line `test result: …`, so that it is incomplete";
        for (text, expected) in [
            (suite(&b, ""), incomplete),
            (suite(&b, "") + &suite(&b, &result("ok", 0, 2)), incomplete),
            (
                suite(&b, &result("ok", 0, 3)),
                "its last line counts 3 measured benchmarks, and 2 are listed",
            ),
            (suite(&b, &result("ok", 0, 1)), "counts 1 measured benchmarks, and 2 are listed"),
            (suite(&b, &result("FAILED", 1, 2)), "names no benchmark that failed"),
            (suite(&b, &result("FAILED", 0, 2)), "names no benchmark that failed"),
            (suite("test b ... FAILED", &result("FAILED", 2, 1)), "names no benchmark that failed"),
        ] {
            let error = parse(&text).unwrap_err().to_string();
            assert!(error.ends_with(expected), "{text}: {error}");
        }
    }

    #[test]
    fn benches_without_time_are_kept() {
        let text = "test a ... hello\ntest b ... bench: 1 ns/iter (+/- 0)\ntest c ... \n\ntest result: ok. 0 passed;\n";
        assert_eq!(
            parse(text).unwrap(),
            [without_number("a"), bench("b", 1.0), without_number("c")]
        );
    }
}
