//! The lines that Go's `testing` package prints: `BenchmarkFib-8    1000    1234 ns/op`.
//!
//! A benchmark's own output can be between its name and its figures.

use std::collections::{BTreeSet, HashMap};

use files::gate::verdict::UnjudgedReason;
use jitterstat::series::Better;

use super::BenchOutputError;
use super::bench_harness::{BenchMillis, FilterSyntax, Flag, Harness, flag, option};
use super::bench_samples::{BenchSamples, NumberSamples, Unmeasured, join_name};
use super::bench_selection::{Selection, escape_regex};
use super::command_words::{file_stem, has_flag, is_flag, is_separator, separator_place};
use super::known_cause::{FlagEffect, MEASURES_NOTHING, OTHER_OUTPUT, effect};

pub const HARNESS: Harness = Harness {
    name: "go",
    expected_output: "lines like `BenchmarkSort-8  1000  1234 ns/op` on standard output",
    default_number: TIME,
    known_numbers: None,
    example_number: "allocs/op",
    counts: MEMORY_NUMBERS,
    bench_millis: Some(BenchMillis { short: 80..=200, brief: 20..=60 }),
    flags: FLAGS,
    variables: &[],
    effects: EFFECTS,
    output_variables: |_, _| Vec::new(),
    output_arguments: |_| Vec::new(),
    argument_place,
    filter_syntax: FilterSyntax::Regex,
    own_filter,
    filter_arguments,
    select: |command, names| Some(select(command, names)),
    read_files: None,
    parse: |stdout, _| parse_complete(&String::from_utf8_lossy(stdout)),
};

/// Flags of the command that prevent a result.
const EFFECTS: &[FlagEffect] =
    &[effect("-json", OTHER_OUTPUT), effect("-test.list", MEASURES_NOTHING)];

/// Flags of a short run. The names with `test.` are accepted by test binaries and by `go test`.
const FLAGS: &[Flag] = &[
    option("-test.run", "^$").with_equals_sign(),
    option("-test.benchtime", "20ms").or_brief("5ms").with_equals_sign(),
    option("-test.count", "3").with_equals_sign(),
    flag("-test.benchmem").for_numbers(MEMORY_NUMBERS),
];

/// Numbers that `-test.benchmem` adds.
const MEMORY_NUMBERS: &[&str] = &["B/op", "allocs/op"];

const BENCH_FLAG: &str = "-test.bench";
const TIME: &str = "ns/op";

/// Minimum width of a value in the lines of Go, with the spaces in front of it.
const MIN_VALUE_WIDTH: usize = 7;

/// Returns the index at which flags are inserted. An executable of tests reads flags only in front
/// of its first other argument.
fn argument_place(command: &[String]) -> usize {
    match command.iter().position(|word| file_stem(word).ends_with(".test")) {
        Some(executable) => executable + 1,
        None => separator_place(command, 0),
    }
}

fn own_filter(command: &[String]) -> Option<&'static str> {
    let own = command.iter().skip(1).find(|word| is_flag(word, BENCH_FLAG))?;
    Some(if own.contains(BENCH_FLAG) { BENCH_FLAG } else { "-bench" })
}

fn filter_arguments(filters: &[String], command: &[String]) -> Vec<String> {
    match filters {
        _ if has_flag(command, BENCH_FLAG) => Vec::new(),
        [] => vec![format!("{BENCH_FLAG}=.")],
        _ => vec![format!("{BENCH_FLAG}={}", filters.join("|"))],
    }
}

/// Returns the flag that selects benchmarks by their names, instead of one of the user.
///
/// Go matches each level of a name by an expression of its own, and since 1.20 it accepts several
/// names between bars. A name ends with the number of threads, unless that is one.
fn select(command: &[String], names: &[&str]) -> Selection {
    let mut patterns = Vec::new();
    for name in names {
        let package = if name.starts_with("Benchmark") { None } else { name.find(".Benchmark") };
        let start = package.map_or(0, |dot| dot + 1);
        let levels: Vec<&str> = name[start..].split('/').collect();
        let (last, parents) = levels.split_last().expect("a text has a first part");
        let mut pattern = String::new();
        for parent in parents {
            pattern += &format!("^{}$/", escape_regex(parent));
        }
        let last_pattern = match last.rsplit_once('-') {
            Some((plain, threads)) if threads.parse::<u64>().is_ok() => {
                format!("^({}|{})$", escape_regex(plain), escape_regex(last))
            }
            _ => format!("^{}$", escape_regex(last)),
        };
        patterns.push(pattern + &last_pattern);
    }
    patterns.sort_unstable();
    patterns.dedup();
    let flag = format!("{BENCH_FLAG}={}", patterns.join("|"));
    let mut own_words = command.iter().take_while(|word| !is_separator(word));
    let Some(own) = own_words.position(|word| is_flag(word, BENCH_FLAG)) else {
        return Selection::Filter(vec![flag]);
    };
    let mut selected = command.to_vec();
    if !selected[own].contains('=') && own + 1 < selected.len() {
        selected.remove(own + 1);
    }
    selected[own] = flag;
    Selection::Command(selected)
}

/// A benchmark of a package.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct PackageBench<'a> {
    package: &'a str,
    name: &'a str,
}

/// A value and its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Figure<'a> {
    value: f64,
    unit: &'a str,
}

/// The figures of a benchmark in a run of it, none if it printed none.
struct BenchRun<'a> {
    bench: PackageBench<'a>,
    figures: Vec<Figure<'a>>,
}

/// Beginnings of the line below a package, behind which are its path and its time. The path may
/// contain the name of a benchmark.
const PACKAGE_PASS: &str = "ok  \t";
const PACKAGE_FAILURE: &str = "FAIL\t";

/// Parses the benchmarks of a run that has ended as it should.
fn parse_complete(text: &str) -> Result<Vec<BenchSamples>, BenchOutputError> {
    let benches = parse(text)?;
    if !benches.is_empty() {
        check_ends(text)?;
    }
    Ok(benches)
}

/// Checks that each package ends with `PASS`, or with `FAIL` and a benchmark that failed.
///
/// The exit code states the same, but a wrapper can hide it. A panic prints neither.
fn check_ends(text: &str) -> Result<(), BenchOutputError> {
    const INCOMPLETE: BenchOutputError =
        BenchOutputError::Incomplete { end: "line PASS after its benchmarks" };
    let (mut has_ended, mut package_failures, mut failures) = (true, 0, 0);
    for line in text.lines() {
        // `go test` ends a failed package with its path, and several packages with another line.
        let is_package_failure = line.starts_with(PACKAGE_FAILURE);
        if line.starts_with("pkg: ") {
            if !has_ended {
                return Err(INCOMPLETE);
            }
            package_failures = 0;
        } else if line.starts_with(PACKAGE_PASS) {
            has_ended = true;
        } else if !is_package_failure && find_failure(line).is_some() {
            (has_ended, package_failures, failures) = (false, package_failures + 1, failures + 1);
        } else if !is_package_failure && find_name(line).is_some() {
            has_ended = false;
        } else if line == "FAIL" || is_package_failure {
            if is_package_failure && !has_ended {
                return Err(INCOMPLETE);
            }
            let named = if has_ended { failures } else { package_failures };
            if named == 0 || is_package_failure && line.ends_with(" failed]") {
                return Err(BenchOutputError::UnnamedFailure { line: line.to_owned() });
            }
            has_ended = true;
        } else if line.ends_with("PASS") {
            has_ended = true;
        }
    }
    if has_ended { Ok(()) } else { Err(INCOMPLETE) }
}

/// The lines read so far.
#[derive(Default)]
struct Reader<'a> {
    package: &'a str,
    packages: usize,
    /// Benchmark whose figures have not been read.
    pending: Option<PackageBench<'a>>,
    runs: Vec<BenchRun<'a>>,
    /// Benchmarks that failed in a run of them. Without a wrapper that hides the exit code, the
    /// command fails as well.
    failed: Vec<PackageBench<'a>>,
    /// Directions that the output states.
    directions: HashMap<&'a str, Better>,
}

/// Parses the benchmarks of a run. Several lines of a benchmark are several samples. With several
/// packages, a name begins with its package.
fn parse(text: &str) -> Result<Vec<BenchSamples>, BenchOutputError> {
    let mut reader = Reader::default();
    for line in text.lines() {
        reader.read_line(line)?;
    }
    reader.end_bench();
    reader.benches()
}

impl<'a> Reader<'a> {
    fn read_line(&mut self, line: &'a str) -> Result<(), BenchOutputError> {
        if let Some(package) = line.strip_prefix("pkg: ") {
            self.end_bench();
            (self.package, self.packages) = (package.trim(), self.packages + 1);
        } else if let Some(unit) = line.strip_prefix("Unit ") {
            self.directions.extend(parse_direction(unit));
        } else if [PACKAGE_PASS, PACKAGE_FAILURE].iter().any(|end| line.starts_with(end)) {
            self.end_bench();
        } else if let Some(name) = find_failure(line) {
            // Its name can be in front, or be that of the benchmark above it.
            self.pending.take_if(|bench| bench.name == name);
            self.end_bench();
            self.failed.push(PackageBench { package: self.package, name });
        } else if let Some(NamedLine { name, rest }) = find_name(line) {
            self.end_bench();
            self.pending = Some(PackageBench { package: self.package, name });
            self.read_figures(rest);
            check_time(name, rest)?;
        } else if line == "PASS" || line == "FAIL" {
            self.end_bench();
        } else if line.contains('\t') {
            self.read_figures(line);
        }
        Ok(())
    }

    /// Reads the figures of the pending benchmark, if the text ends with figures.
    fn read_figures(&mut self, text: &'a str) {
        let Some(figures) = find_figures(text) else { return };
        match (self.pending.take(), self.runs.last_mut()) {
            (Some(bench), _) => self.runs.push(BenchRun { bench, figures }),
            // The benchmark itself prints lines like this, so either may be the real one.
            (None, Some(last)) => last.figures.clear(),
            (None, None) => {}
        }
    }

    /// Ends the pending benchmark, which printed no figures.
    fn end_bench(&mut self) {
        let figures = Vec::new();
        self.runs.extend(self.pending.take().map(|bench| BenchRun { bench, figures }));
    }

    fn benches(mut self) -> Result<Vec<BenchSamples>, BenchOutputError> {
        let failed = std::mem::take(&mut self.failed);
        self.runs.retain(|run| !failed.contains(&run.bench));
        self.runs.sort_by_key(|run| run.bench);
        let mut benches = Vec::new();
        for bench in BTreeSet::from_iter(failed) {
            let failure = Unmeasured { reason: UnjudgedReason::Failed, message: String::new() };
            benches.push(BenchSamples::without_number(self.full_name(bench)?, Some(failure)));
        }
        for runs in self.runs.chunk_by(|a, b| a.bench == b.bench) {
            let name = self.full_name(runs[0].bench)?;
            let mut numbers: Vec<NumberSamples> = Vec::new();
            for Figure { value, unit } in runs.iter().flat_map(|run| &run.figures) {
                match numbers.iter_mut().find(|number| number.name == *unit) {
                    Some(number) => number.samples.push(*value),
                    None => numbers.push(self.number(unit, *value)),
                }
            }
            // A run without figures leaves nothing to compare.
            if runs.iter().any(|run| run.figures.is_empty()) {
                numbers.clear();
            }
            benches.push(BenchSamples::new(name, numbers));
        }
        Ok(benches)
    }

    fn full_name(&self, bench: PackageBench<'_>) -> Result<String, BenchOutputError> {
        match self.packages > 1 {
            true => join_name(&[bench.package, bench.name], "."),
            false => Ok(bench.name.to_owned()),
        }
    }

    fn number(&self, unit: &str, value: f64) -> NumberSamples {
        let is_rate = unit.ends_with("/s") || unit.ends_with("/sec");
        let default = if is_rate { Better::Higher } else { Better::Lower };
        let better = self.directions.get(unit).copied().unwrap_or(default);
        let shown = if unit == TIME { "ns" } else { unit };
        NumberSamples::new(unit, shown, better, vec![value])
    }
}

/// Parses `UNIT better=higher`.
fn parse_direction(text: &str) -> Option<(&str, Better)> {
    let mut words = text.split_ascii_whitespace();
    let unit = words.next()?;
    let direction = words.find_map(|word| word.strip_prefix("better="))?;
    match direction {
        "higher" => Some((unit, Better::Higher)),
        "lower" => Some((unit, Better::Lower)),
        _ => None,
    }
}

/// Returns the benchmark that failed according to this line. If it failed in its first iteration,
/// there is no other line with its name.
fn find_failure(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("--- FAIL: ")?;
    rest.split_ascii_whitespace().next().filter(|name| name.starts_with("Benchmark"))
}

/// A line with the name of a benchmark, and the text that follows it.
struct NamedLine<'a> {
    name: &'a str,
    rest: &'a str,
}

/// Finds the name of a benchmark: the last word `Benchmark…` that a tab follows. Output of the
/// benchmark can be in front of it. If the tabs were lost, it is the first word of a line, and a
/// count of iterations follows.
fn find_name(line: &str) -> Option<NamedLine<'_>> {
    let mut places: Vec<usize> = line.match_indices("Benchmark").map(|(place, _)| place).collect();
    while let Some(place) = places.pop() {
        let text = &line[place..];
        let (name, rest) = text.split_at(text.find([' ', '\t']).unwrap_or(text.len()));
        let rest = rest.trim_start_matches(' ');
        let mut words = rest.split_ascii_whitespace();
        let has_count = || words.next().is_some_and(|word| word.parse::<u64>().is_ok());
        if rest.starts_with('\t') || (place == 0 && !line.contains('\t') && { has_count }()) {
            return Some(NamedLine { name, rest });
        }
    }
    None
}

/// Finds a count of iterations and figures at the end of a text. Output of the benchmark can be in
/// front of them.
fn find_figures(text: &str) -> Option<Vec<Figure<'_>>> {
    if !text.contains('\t') {
        return parse_words(text);
    }
    let fields = text.split('\t').filter(|field| !field.trim().is_empty());
    let fields: Vec<&str> = fields.collect();
    let is_no_figure = |field: &&str| parse_figure(field).is_none();
    let count = fields.iter().rposition(is_no_figure)?;
    let figures = &fields[count + 1..];
    if figures.is_empty() {
        // A benchmark can remove all its figures.
        let is_bare = text.starts_with('\t') && text.trim().parse::<u64>().is_ok();
        return is_bare.then(Vec::new);
    }
    let is_time = |field: &&str| field.ends_with(TIME);
    let is_padded = |field: &&str| value_width(field) >= MIN_VALUE_WIDTH;
    let is_figures = fields[count].trim().parse::<u64>().is_ok()
        || figures.iter().any(is_time)
        || figures.iter().all(is_padded);
    let is_count = fields[count].trim_end().ends_with(|c: char| c.is_ascii_digit());
    let figures = figures.iter().filter_map(|field| parse_figure(field));
    (is_count && is_figures).then(|| figures.collect())
}

/// Parses a count of iterations and figures between spaces.
fn parse_words(text: &str) -> Option<Vec<Figure<'_>>> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let [count, figures @ ..] = &words[..] else { return None };
    count.parse::<u64>().ok()?;
    figures.chunks(2).map(figure_from_words).collect()
}

fn parse_figure(field: &str) -> Option<Figure<'_>> {
    figure_from_words(&field.split_ascii_whitespace().collect::<Vec<_>>())
}

fn figure_from_words<'a>(words: &[&'a str]) -> Option<Figure<'a>> {
    let [value, unit] = words else { return None };
    Some(Figure { value: value.parse().ok()?, unit })
}

/// Returns the width of the value at the beginning of a field, with its padding.
fn value_width(field: &str) -> usize {
    let padding = field.len() - field.trim_start_matches(' ').len();
    field[padding..].find(' ').map_or(0, |digits| padding + digits)
}

/// Checks that the time of a line is a number.
fn check_time(name: &str, rest: &str) -> Result<(), BenchOutputError> {
    let words: Vec<&str> = rest.split_ascii_whitespace().collect();
    let [count, figures @ ..] = &words[..] else { return Ok(()) };
    let mut figures = figures.chunks_exact(2);
    match figures.find(|figure| figure[1] == TIME) {
        Some([time, _]) if count.parse::<u64>().is_ok() && time.parse::<f64>().is_err() => {
            Err(BenchOutputError::InvalidTime {
                time: (*time).to_owned(),
                name: name.to_owned(),
                example: "1234 ns/op",
            })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of each benchmark, as `unit=samples`.
    fn numbers(text: &str) -> Vec<(String, String)> {
        let benches = parse(text).unwrap().into_iter();
        let format = |bench: BenchSamples| {
            let numbers = bench.numbers.iter();
            let numbers: Vec<String> =
                numbers.map(|number| format!("{}={:?}", number.name, number.samples)).collect();
            (bench.name, numbers.join(" "))
        };
        benches.map(format).collect()
    }

    #[track_caller]
    fn assert_numbers(text: &str, expected: &[(&str, &str)]) {
        let found = numbers(text);
        let found: Vec<(&str, &str)> =
            found.iter().map(|(name, numbers)| (name.as_str(), numbers.as_str())).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn output_of_go_is_read() {
        let benches = parse(include_str!("fixtures/go.txt")).unwrap();
        let names: Vec<&str> = benches.iter().map(|bench| bench.name.as_str()).collect();
        assert_eq!(
            names,
            ["BenchmarkHash-2", "BenchmarkSearch/size=1000-2", "BenchmarkSearch/size=100000-2"]
        );
        let units = |bench: &BenchSamples| -> Vec<String> {
            assert!(bench.numbers.iter().all(|number| number.samples.len() == 3), "{bench:?}");
            let numbers = bench.numbers.iter();
            numbers
                .map(|number| format!("{} {} {}", number.name, number.unit, number.better))
                .collect()
        };
        assert_eq!(
            units(&benches[0]),
            ["ns/op ns lower", "B/op B/op lower", "allocs/op allocs/op lower"]
        );
        assert_eq!(units(&benches[1]), ["ns/op ns lower", "MB/s MB/s higher"]);
    }

    #[test]
    fn names_of_several_packages_differ() {
        assert_numbers(
            "pkg: a.b/x\nBenchmarkA-8\t10\t1.5 ns/op\nBenchmarkA-8\t10\t2 ns/op\nPASS\n\
             pkg: a.b/y\nBenchmarkA-8 \t 10 \t 3 ns/op \t 8 B/op\n",
            &[
                ("a.b/x.BenchmarkA-8", "ns/op=[1.5, 2.0]"),
                ("a.b/y.BenchmarkA-8", "ns/op=[3.0] B/op=[8.0]"),
            ],
        );
    }

    #[test]
    fn output_of_benchmarks_is_skipped() {
        let figures = "    1000\t      1234 ns/op\n";
        for output in [
            "",
            "loading\n",
            "loading\n10\n\nBenchmark begins\nsize 10\t5 items\nPASSED\n",
            "loading",
            "a\tb",
            "progress 7",
        ] {
            let text = format!("first runBenchmarkA-2   \t{output}{figures}PASS\n");
            assert_numbers(&text, &[("BenchmarkA-2", "ns/op=[1234.0]")]);
        }
        let logged = format!(
            "BenchmarkA-2   \t{figures}--- BENCH: BenchmarkA-2\n    a_test.go:5: x 1\t2 y\n"
        );
        assert_numbers(&logged, &[("BenchmarkA-2", "ns/op=[1234.0]")]);
        // The names of a verbose run, whose benchmarks report below their parent.
        let verbose = format!(
            "BenchmarkA\nBenchmarkA/x\nBenchmarkA/x-2 \t{figures}BenchmarkB\n    b_test.go:1: no GPU\n--- SKIP: BenchmarkB\n"
        );
        assert_numbers(&verbose, &[("BenchmarkA/x-2", "ns/op=[1234.0]")]);
    }

    #[test]
    fn benches_without_time_are_kept() {
        assert_numbers(
            "BenchmarkP99-2 \t 100\t      1000 p99-ns\nBenchmarkA-2 \t 9\nBenchmarkB-2 \thello\nBenchmarkC-2\t",
            &[
                ("BenchmarkA-2", ""),
                ("BenchmarkB-2", ""),
                ("BenchmarkC-2", ""),
                ("BenchmarkP99-2", "p99-ns=[1000.0]"),
            ],
        );
        // Two lines of figures after one name: one of them is output of the benchmark.
        let twice = "BenchmarkA-2 \t     100\t         7 ns/op\n     100\t         9 ns/op\n";
        assert_numbers(twice, &[("BenchmarkA-2", "")]);
        assert_numbers(
            "BenchmarkA-2 \t 1\t NaN x\t -3 y\t +Inf z",
            &[("BenchmarkA-2", "x=[NaN] y=[-3.0] z=[inf]")],
        );
    }

    #[test]
    fn failed_benchmarks_are_listed() {
        // The second fails in its first iteration, the third in a later one, the fifth once.
        let text = "BenchmarkA-2   \t   57765\t       125.8 ns/op\n\
                    --- FAIL: BenchmarkB\n    x_test.go:4: boom\n\
                    BenchmarkC-2   \t--- FAIL: BenchmarkC-2\n    x_test.go:5: late boom\n\
                    BenchmarkD/s-2 \t   10\t       7 ns/op\n--- FAIL: BenchmarkD/t\n\
                    --- FAIL: BenchmarkD (0.00s)\n\
                    BenchmarkE-2 \t   10\t       7 ns/op\nBenchmarkE-2 \t--- FAIL: BenchmarkE-2\n\
                    --- FAIL: TestF\nFAIL\n";
        let (failed, measured): (Vec<_>, Vec<_>) =
            parse(text).unwrap().into_iter().partition(|bench| bench.unmeasured.is_some());
        let names = |benches: &[BenchSamples]| -> Vec<String> {
            benches.iter().map(|bench| bench.name.clone()).collect()
        };
        assert_eq!(names(&measured), ["BenchmarkA-2", "BenchmarkD/s-2"]);
        assert!(measured.iter().all(|bench| !bench.numbers.is_empty()));
        let expected = ["BenchmarkB", "BenchmarkC-2", "BenchmarkD", "BenchmarkD/t", "BenchmarkE-2"];
        assert_eq!(names(&failed), expected);
        let reason = |bench: &BenchSamples| bench.unmeasured.as_ref().map(|why| why.reason);
        assert!(failed.iter().all(|bench| reason(bench) == Some(UnjudgedReason::Failed)));
        // Two packages have a benchmark of one name, and one of these fails.
        assert_numbers(
            "pkg: a\n--- FAIL: BenchmarkA-2\npkg: b\nBenchmarkA-2 \t 10 \t 3 ns/op\n",
            &[("a.BenchmarkA-2", ""), ("b.BenchmarkA-2", "ns/op=[3.0]")],
        );
    }

    #[test]
    fn ends_of_packages_are_checked() {
        let line = "pkg: a\nBenchmarkA-2 \t 10 \t 3 ns/op\n";
        let named = "--- FAIL: BenchmarkB-2\n    x_test.go:5: boom\n";
        for end in [
            "PASS\n".to_owned(),
            "PASS\nok  \ta\t1.2s\n".to_owned(),
            "PASS\nok  \tx/GoBenchmark\t1.2s\n".to_owned(),
            format!("{named}FAIL\nFAIL\tx/Benchmarks\t0.1s\nFAIL\n"),
            "no line breakPASS\n".to_owned(),
            "PASS\ncoverage: 1.0% of statements\nok  \ta\t1.2s\n".to_owned(),
            format!("{named}FAIL\n"),
            format!("{named}FAIL\nexit status 1\nFAIL\ta\t0.1s\nFAIL\n"),
            format!(
                "{named}FAIL\nFAIL\ta\t0.1s\npkg: b\nBenchmarkC \t 10 \t 3 ns/op\nPASS\nok  \tb\t0.1s\nFAIL\n"
            ),
        ] {
            let benches = parse_complete(&format!("{line}{end}")).unwrap();
            assert!(!benches.is_empty(), "{end}");
            assert!(benches.iter().all(|bench| bench.name != "Benchmark"), "{end}");
        }
        let no_pass = "no line PASS after its benchmarks, so that it is incomplete";
        let unnamed = "names no benchmark that failed";
        for (end, expected) in [
            ("".to_owned(), no_pass),
            ("panic: runtime error\n\ngoroutine 1 [running]:\n".to_owned(), no_pass),
            ("panic: x\nexit status 2\nFAIL\ta\t0.1s\nFAIL\n".to_owned(), no_pass),
            ("pkg: b\nBenchmarkA-2 \t 10 \t 3 ns/op\nPASS\n".to_owned(), no_pass),
            (named.to_owned(), no_pass),
            ("FAIL\n".to_owned(), unnamed),
            ("PASS\nok  \ta\t1.2s\nFAIL\tb [build failed]\nFAIL\n".to_owned(), unnamed),
            ("--- FAIL: TestA\nFAIL\n".to_owned(), unnamed),
            (
                format!("{named}FAIL\nFAIL\ta\t0.1s\npkg: b\nBenchmarkC \t 10 \t 3 ns/op\nFAIL\n"),
                unnamed,
            ),
        ] {
            let error = parse_complete(&format!("{line}{end}")).unwrap_err().to_string();
            assert!(error.ends_with(expected), "{end}: {error}");
        }
        assert_eq!(parse_complete("testing: warning: no tests to run\n").unwrap(), []);
        assert!(parse_complete(include_str!("fixtures/go.txt")).is_ok());
    }

    #[test]
    fn directions_are_those_of_units() {
        let text = "Unit score better=higher\nUnit req/s better=lower\n\
                    BenchmarkA \t1\t2 score\t3 req/s\t4 ops/s\t5 q\t6 x/sec";
        let benches = parse(text).unwrap();
        let better: Vec<String> = benches[0]
            .numbers
            .iter()
            .map(|number| format!("{} {}", number.name, number.better))
            .collect();
        assert_eq!(
            better,
            ["score higher", "req/s lower", "ops/s higher", "q lower", "x/sec higher"]
        );
    }

    #[test]
    fn other_lines_are_ignored() {
        for line in [
            "BenchmarkA-8", "BenchmarkA-8 started", "Benchmarks take 10 s", "ok  \tx\t1.2s",
            "10\t5 ns/op",
        ] {
            assert_numbers(line, &[]);
        }
        assert_numbers("BenchmarkA-8 10 3 figures/op", &[("BenchmarkA-8", "figures/op=[3.0]")]);
        let error = parse("BenchmarkA-8 10 1,5 ns/op").unwrap_err().to_string();
        assert_eq!(error, "invalid time \"1,5\" of BenchmarkA-8: expected e.g. 1234 ns/op");
    }
}
