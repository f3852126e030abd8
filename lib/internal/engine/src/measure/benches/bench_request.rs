//! The benchmarks that a gate judges: the arguments and variables with which they run, and their
//! results.

use std::env;
use std::ffi::OsString;
use std::path::Path;

use super::bench_harness::{FilterSyntax, Flag};
use super::bench_samples::summarize;
use super::bench_selection::Selection;
use super::command_words::{has_flag, is_program, is_separator};
use super::{
    BenchFormat, BenchOutput, BenchOutputError, BenchResult, RunLength, STDOUT_NAME, read_bounded,
};

/// Maximum size of an argument that selects benchmarks. Linux allows 128 KiB, Windows 32 KiB for a
/// whole command.
const MAX_ARGUMENT_BYTES: usize = 16 << 10;

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

impl BenchRequest {
    /// Returns the command for a run of only these benchmarks, with the arguments that the command
    /// of the user lacks; `None` if the harness cannot select them.
    pub fn select(&self, command: &[String], names: &[&str]) -> Option<Vec<String>> {
        let selected = match (self.format.harness().select)(command, names)? {
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
        let (before, after) = command.split_at(self.argument_place(command));
        let is_cargo = is_program(command, "cargo") && !command.iter().any(|word| word == "--");
        let separator = is_cargo.then(|| "--".to_owned());
        let own = self.own_words(command);
        let filters =
            filters.unwrap_or_else(|| (self.format.harness().filter_arguments)(&self.filters, own));
        let arguments = [self.missing_arguments(own), filters].concat();
        [before, separator.as_slice(), &arguments, after].concat()
    }

    fn argument_place(&self, command: &[String]) -> usize {
        match is_program(command, "cargo") {
            // Cargo passes on what follows its separator.
            true => command.len(),
            false => (self.format.harness().argument_place)(command),
        }
    }

    /// Returns the words of a command that the harness reads. What follows a separator belongs to
    /// the program of the user.
    fn own_words<'a>(&self, command: &'a [String]) -> &'a [String] {
        let (before, after) = command.split_at(self.argument_place(command));
        if after.first().is_some_and(|word| is_separator(word)) { before } else { command }
    }

    /// Returns the flag of a command with which the harness ignores the filters of a request.
    pub fn own_filter(&self, command: &[String]) -> Option<&'static str> {
        (self.format.harness().own_filter)(self.own_words(command))
    }

    /// Returns whether a filter matches one of the benchmarks that ran. `None` if only the harness
    /// can say that, in a run with this filter alone.
    pub fn matches<'a>(
        &self,
        filter: &str,
        mut benches: impl Iterator<Item = &'a str>,
    ) -> Option<bool> {
        let is_word = |text: &str| text.chars().all(|c| c.is_alphanumeric() || c == '_');
        match self.format.harness().filter_syntax {
            FilterSyntax::Text => Some(benches.any(|name| name.contains(filter))),
            // Google Benchmark runs every benchmark for `all`.
            FilterSyntax::Regex if is_word(filter) && filter != "all" => {
                Some(benches.any(|name| name.contains(filter)))
            }
            // The benchmarks are those that it selected.
            _ => (self.filters == [filter]).then(|| benches.next().is_some()),
        }
    }

    fn missing_arguments(&self, command: &[String]) -> Vec<String> {
        let mut arguments = Vec::new();
        for flag in self.format.harness().flags {
            let name = flag.name;
            // Criterion accepts only one of these.
            let is_quick = name == "--sample-size" && has_flag(command, "--quick");
            // Cargo adds this one itself.
            let is_of_cargo = name == "--bench" && is_program(command, "cargo");
            if is_quick || is_of_cargo || has_flag(command, name) || !flag.is_needed(&self.numbers)
            {
                continue;
            }
            match flag.value(self.length) {
                None => arguments.push(name.to_owned()),
                Some(value) if flag.has_equals_sign => arguments.push(format!("{name}={value}")),
                Some(value) => arguments.extend([name.to_owned(), value.to_owned()]),
            }
        }
        arguments
    }

    /// Returns the variables of a run that writes to a directory. Those of the user have priority,
    /// except for the place and the format of the output.
    pub fn variables(&self, directory: &Path) -> Vec<(&'static str, OsString)> {
        let is_new = |variable: &&Flag| env::var_os(variable.name).is_none();
        let harness = self.format.harness();
        let defaults = harness.variables.iter().filter(is_new);
        let defaults = defaults.filter_map(|v| Some((v.name, v.value(self.length)?.into())));
        defaults.chain((harness.output_variables)(self, directory)).collect()
    }

    /// Returns the arguments at the end of the command of a run that writes to a directory.
    pub fn output_arguments(&self, directory: &Path) -> Vec<OsString> {
        (self.format.harness().output_arguments)(directory)
    }

    /// Reads the benchmarks of a run, in the order of their names.
    ///
    /// # Errors
    ///
    /// Returns an error if the output is not one of the harness.
    pub fn read(&self, output: &BenchOutput<'_>) -> Result<Vec<BenchResult>, BenchOutputError> {
        let stdout = read_bounded(&output.directory.join(STDOUT_NAME))?;
        let harness = self.format.harness();
        let samples = match harness.read_files {
            Some(read_files) => read_files(output, &String::from_utf8_lossy(&stdout))?,
            None => (harness.parse)(&stdout, &self.filters)?,
        };
        summarize(samples)
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
    fn filters_of_commands_are_found() {
        use BenchFormat::{Criterion, Go, GoogleBenchmark, PytestBenchmark};
        for (format, command, expected) in [
            (Go, "go test -bench Sort ./x", Some("-bench")),
            (Go, "./x.test -test.bench=.", Some("-test.bench")),
            (Go, "go test ./x -args -bench 3", None),
            (GoogleBenchmark, "./b --benchmark_filter=x", Some("--benchmark_filter")),
            (GoogleBenchmark, "env BENCHMARK_FILTER=x ./b", Some("BENCHMARK_FILTER")),
            (GoogleBenchmark, "./b --benchmark_color=false", None),
            (PytestBenchmark, "timeout -k 5 60 python -m pytest", None),
            (PytestBenchmark, "python -m pytest b -k sort", Some("-k")),
            (PytestBenchmark, "pytest -ksort", Some("-k")),
            (PytestBenchmark, "make -k bench", None),
            (PytestBenchmark, "tox -e bench -- -k sort", Some("-k")),
            (Criterion, "./b --bench sort", None),
        ] {
            let found = request(format, &["x"]).own_filter(&words(command));
            assert_eq!(found, expected, "{command}");
        }
    }

    #[test]
    fn filters_match_names() {
        use BenchFormat::{Criterion, GoogleBenchmark, Libtest, PytestBenchmark};
        for (format, filters, filter, expected) in [
            (Libtest, &["a.b", "c"][..], "a.b", Some(true)),
            (Libtest, &["a.b", "c"], "c", Some(false)),
            (Criterion, &["sort", "x"], "sort", Some(true)),
            (Criterion, &["sort", "x"], "x", Some(false)),
            (Criterion, &["sort", "^x"], "^x", None),
            (Criterion, &["^x"], "^x", Some(true)),
            (GoogleBenchmark, &["all"], "all", Some(true)),
            (PytestBenchmark, &["sort", "x"], "sort", None),
        ] {
            let names = ["sort/a.b"].into_iter();
            let found = request(format, filters).matches(filter, names);
            assert_eq!(found, expected, "{format}: {filter}");
        }
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
            Criterion, Divan, Go, GoogleBenchmark, Hyperfine, Jmh, Libtest, PytestBenchmark,
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
                Jmh,
                "java -jar b.jar -i 5",
                &["a.B.c:n=1", "a.B.c:n=2", "a.B.d avgt"],
                "java -jar b.jar -i 5 -f 1 -wi 3 -w 100ms -r 50ms ^a\\.B\\.c$ ^a\\.B\\.d$"
                    .to_owned(),
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
}
