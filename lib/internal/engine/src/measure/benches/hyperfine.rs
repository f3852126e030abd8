//! The JSON that hyperfine exports, with the time of each run of its commands.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;

use super::BenchOutputError;
use super::bench_harness::{FilterSyntax, Flag, Harness, option};
use super::bench_samples::BenchSamples;
use super::bench_selection::{Selection, strip_ordinal};
use super::command_words::{file_stem, separator_place};
use super::known_cause::{FlagEffect, OTHER_OUTPUT, effect};

pub const HARNESS: Harness = Harness {
    name: "hyperfine",
    expected_output: "a command in the JSON of hyperfine on standard output",
    default_number: "time",
    known_numbers: Some(&["time"]),
    example_number: "time",
    counts: &[],
    // It depends on the commands.
    bench_millis: None,
    flags: FLAGS,
    variables: &[],
    effects: EFFECTS,
    output_variables: |_, _| Vec::new(),
    output_arguments: |_| Vec::new(),
    argument_place: |command| {
        separator_place(command, program_place(command).unwrap_or(command.len()))
    },
    filter_syntax: FilterSyntax::Text,
    own_filter: |_| None,
    // hyperfine has no filter.
    filter_arguments: |_, _| Vec::new(),
    select: |command, names| select(command, names).map(Selection::Command),
    read_files: None,
    parse,
};

/// Flags of the command that prevent a result.
const EFFECTS: &[FlagEffect] = &[
    effect("--export-json", "writes the JSON to another place than standard output"),
    effect("--show-output", OTHER_OUTPUT),
    effect("--output", OTHER_OUTPUT),
];

/// Flags with which the JSON is all that hyperfine prints. Before version 1.16, it wrote a file with the
/// name `-` instead.
const FLAGS: &[Flag] = &[option("--style", "none"), option("--export-json", STDOUT)];

const STDOUT: &str = if cfg!(unix) { "/dev/stdout" } else { "-" };

/// Flags that are followed by a value. Those of a scan of parameters are missing, because a command
/// then has several results.
const VALUE_FLAGS: &[&str] = &[
    "-w", "--warmup", "-m", "--min-runs", "-M", "--max-runs", "-r", "--runs", "-s", "--setup",
    "-p", "--prepare", "-C", "--conclude", "-c", "--cleanup", "-S", "--shell", "--style", "--sort",
    "-u", "--time-unit", "--export-asciidoc", "--export-csv", "--export-json", "--export-markdown",
    "--export-orgmode", "--output", "--input", "--min-benchmarking-time",
];
/// Flags without a value.
const SWITCHES: &[&str] = &["-N", "-i", "--ignore-failure", "--show-output"];
const NAME_FLAGS: &[&str] = &["-n", "--command-name"];

/// Part of a name in front of the exit codes.
const FAILED_SUFFIX: &str = " (exit code ";

const NS_PER_SECOND: f64 = 1e9;

#[derive(Deserialize)]
struct Export {
    results: Vec<CommandResult>,
}

#[derive(Deserialize)]
struct CommandResult {
    /// The command, or the name that the user gave it.
    command: String,
    /// Time of each run, in seconds.
    times: Vec<f64>,
    /// Exit code of each run, none after a signal. A run fails only if `--ignore-failure` allows it.
    #[serde(default)]
    exit_codes: Vec<Option<i32>>,
    /// Values of the parameters in a scan.
    #[serde(default)]
    parameters: BTreeMap<String, String>,
}

impl CommandResult {
    /// Returns the name, with the parameters if other results have the same command, and with the exit
    /// codes if a run failed. Failed runs of one side are thus not compared with complete ones of the
    /// other, which take longer.
    fn name(&self, results: &[Self]) -> String {
        let mut name = self.command.clone();
        if results.iter().filter(|other| other.command == self.command).count() > 1 {
            for (parameter, value) in &self.parameters {
                name += &format!(" {parameter}={value}");
            }
        }
        if self.exit_codes.iter().any(|code| *code != Some(0)) {
            name += &format!("{FAILED_SUFFIX}{})", self.format_exit_codes());
        }
        name
    }

    /// Lists the different exit codes.
    fn format_exit_codes(&self) -> String {
        let codes: BTreeSet<Option<i32>> = self.exit_codes.iter().copied().collect();
        let format = |code: Option<i32>| code.map_or("signal".to_owned(), |code| code.to_string());
        codes.into_iter().map(format).collect::<Vec<_>>().join(", ")
    }
}

fn program_place(command: &[String]) -> Option<usize> {
    command.iter().position(|word| file_stem(word) == "hyperfine")
}

/// Returns a command of hyperfine without the commands that have other names. `None` if the result
/// of each command is not known, as with a scan of parameters.
fn select(command: &[String], names: &[&str]) -> Option<Vec<String>> {
    let program = program_place(command)?;
    let (mut commands, mut command_names) = (Vec::new(), Vec::new());
    let mut places = program + 1..command.len();
    while let Some(place) = places.next() {
        let word = command[place].as_str();
        let flag = word.split_once('=').map_or(word, |(flag, _)| flag);
        if !word.starts_with('-') {
            commands.push(place);
        } else if NAME_FLAGS.contains(&word) {
            command_names.push(places.next()?);
        } else if VALUE_FLAGS.contains(&word) {
            places.next()?;
        } else if word == "--" {
            commands.extend(places.by_ref());
        } else if !(SWITCHES.contains(&word) || flag != word && VALUE_FLAGS.contains(&flag)) {
            return None;
        }
    }
    // The n-th name is that of the n-th command.
    let mut removed = Vec::new();
    for (index, &place) in commands.iter().enumerate() {
        let name = command_names.get(index).copied();
        let text = command[name.unwrap_or(place)].as_str();
        let is_name = |name: &&str| {
            let name = name.split_once(FAILED_SUFFIX).map_or(*name, |(name, _)| name);
            name == text || strip_ordinal(name) == text
        };
        if !names.iter().any(is_name) {
            removed.push(place);
            removed.extend(name.into_iter().flat_map(|name| [name - 1, name]));
        }
    }
    let kept = command.iter().enumerate().filter(|(place, _)| !removed.contains(place));
    (!commands.is_empty()).then(|| kept.map(|(_, word)| word.clone()).collect())
}

/// Parses the commands of a run. hyperfine has no filter, so those whose name contains none of the
/// filters are dropped.
fn parse(bytes: &[u8], filters: &[String]) -> Result<Vec<BenchSamples>, BenchOutputError> {
    let Export { results } = serde_json::from_slice(bytes)
        .map_err(|error| BenchOutputError::HyperfineJson(Arc::new(error)))?;
    let mut benches = Vec::new();
    for result in &results {
        let name = result.name(&results);
        let is_selected = filters.iter().any(|filter| name.contains(filter.as_str()));
        if filters.is_empty() || is_selected {
            let ns = result.times.iter().map(|seconds| seconds * NS_PER_SECOND).collect();
            benches.push(BenchSamples::from_times(name, "time", ns));
        }
    }
    Ok(benches)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(filters: &[&str]) -> Vec<String> {
        let filters: Vec<String> = filters.iter().map(|filter| (*filter).to_owned()).collect();
        let benches = parse(include_bytes!("fixtures/hyperfine.json"), &filters).unwrap();
        let is_time = |bench: &BenchSamples| bench.numbers[0].samples.iter().all(|&ns| ns > 1e5);
        assert!(benches.iter().all(is_time), "{benches:?}");
        benches.into_iter().map(|bench| bench.name).collect()
    }

    #[test]
    fn output_of_hyperfine_is_read() {
        assert_eq!(names(&[]), ["count", "sort"]);
        assert_eq!(names(&["or", "x"]), ["sort"]);
        assert_eq!(names(&["x"]), [""; 0]);
    }

    #[test]
    fn commands_are_named_by_parameters() {
        let text = r#"{"results":[
            {"command":"x","times":[1.0],"parameters":{"n":"1","m":"a"}},
            {"command":"x","times":[2.0],"parameters":{"n":"2","m":"a"}},
            {"command":"y 3","times":[3.0],"parameters":{"n":"3"}},
            {"command":"z","times":[4.0]},{"command":"z","times":[5.0]}]}"#;
        let benches = parse(text.as_bytes(), &[]).unwrap();
        let names: Vec<&str> = benches.iter().map(|bench| bench.name.as_str()).collect();
        assert_eq!(names, ["x m=a n=1", "x m=a n=2", "y 3", "z", "z"]);
        let filtered = parse(text.as_bytes(), &["n=2".to_owned()]).unwrap();
        assert_eq!((filtered.len(), filtered[0].numbers[0].samples[0]), (1, 2e9));
    }

    #[test]
    fn failed_commands_state_exit_codes() {
        let text = r#"{"results":[
            {"command":"x","times":[1.0,2.0],"exit_codes":[0,0]},
            {"command":"y","times":[1.0,2.0,3.0],"exit_codes":[139,1,139]},
            {"command":"z","times":[1.0,2.0],"exit_codes":[null,0]}]}"#;
        let benches = parse(text.as_bytes(), &[]).unwrap();
        let names: Vec<&str> = benches.iter().map(|bench| bench.name.as_str()).collect();
        assert_eq!(names, ["x", "y (exit code 1, 139)", "z (exit code signal, 0)"]);
        let command = ["hyperfine", "-i", "x", "y", "z"].map(str::to_owned);
        let selected = select(&command, &["y (exit code 1, 139)#2", "x"]).unwrap();
        assert_eq!(selected.join(" "), "hyperfine -i x y");
    }

    #[test]
    fn malformed_exports_are_errors() {
        for (text, expected) in [
            ("Benchmark 1: true", "is not the JSON of hyperfine"),
            ("", "is not the JSON of hyperfine: EOF"),
            (r#"{"results":[{"command":"x"}]}"#, "missing field `times`"),
        ] {
            let error = parse(text.as_bytes(), &[]).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
