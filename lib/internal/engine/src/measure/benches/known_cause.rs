//! Known causes of a run that gives no benchmark.

use std::fmt;

use super::BenchFormat;
use super::command_words::{has_flag, pytest_words};

/// A known cause of a run that gives no benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownCause {
    /// The flags of a short run need a later Criterion, or one that the gate has built.
    OldCriterion,
    /// A flag of the command prevents it.
    Flag(&'static FlagEffect),
}

/// A flag, and what it does to a run.
#[derive(Debug, PartialEq, Eq)]
pub struct FlagEffect {
    flag: &'static str,
    effect: &'static str,
}

pub const fn effect(flag: &'static str, effect: &'static str) -> FlagEffect {
    FlagEffect { flag, effect }
}

pub const MEASURES_NOTHING: &str = "measures nothing";
pub const OTHER_OUTPUT: &str = "changes the output";
pub const OTHER_PLACE: &str = "writes the JSON to another place";

impl KnownCause {
    /// Finds the cause in the command, and in what the program wrote.
    pub fn find(format: BenchFormat, command: &[String], written: &str) -> Option<Self> {
        let has_rejected_fraction = written.contains("invalid digit found in string");
        if format == BenchFormat::Criterion && has_rejected_fraction {
            return Some(Self::OldCriterion);
        }
        let harness = format.harness();
        // A flag of a run that is not the user's has no effect of this kind.
        let is_added = |flag: &str| {
            let value = harness.flags.iter().find(|own| own.name == flag)?.value?;
            Some(command.windows(2).any(|pair| pair[0] == flag && pair[1] == value))
        };
        let is_cause = |effect: &&FlagEffect| {
            let words = match format {
                // Its short flags are also those of programs that start it.
                BenchFormat::PytestBenchmark if !effect.flag.starts_with("--") => {
                    pytest_words(command)
                }
                _ => command,
            };
            has_flag(words, effect.flag) && is_added(effect.flag) != Some(true)
        };
        harness.effects.iter().find(is_cause).map(Self::Flag)
    }
}

impl fmt::Display for KnownCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OldCriterion => f.write_str(
                "Criterion before 0.4 accepts only whole seconds, so that a run is too long for a gate; let --bench build it, or update it",
            ),
            Self::Flag(FlagEffect { flag, effect }) => {
                write!(f, "the command has {flag}, which {effect}; remove it")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_found_in_commands() {
        for (format, command, written, expected) in [
            (
                BenchFormat::Criterion,
                "./b --bench --baseline main",
                "",
                "the command has --baseline, which needs",
            ),
            (
                BenchFormat::Criterion,
                "./b",
                "error: invalid digit found in string",
                "Criterion before 0.4",
            ),
            (BenchFormat::Go, "go test -json ./x", "", "the command has -json, which changes"),
            (
                BenchFormat::Hyperfine,
                "hyperfine --export-json x.json ls",
                "",
                "the command has --export-json",
            ),
            (BenchFormat::Libtest, "./b --format=json", "", "the command has --format"),
            (
                BenchFormat::PytestBenchmark,
                "nice -n 5 pytest -n 2",
                "",
                "the command has -n, which",
            ),
        ] {
            let command: Vec<String> = command.split(' ').map(str::to_owned).collect();
            let cause = KnownCause::find(format, &command, written).unwrap().to_string();
            assert!(cause.starts_with(expected), "{cause}");
            assert_eq!(KnownCause::find(format, &command[..1], ""), None);
        }
        let nice = ["nice", "-n", "5", "pytest"].map(str::to_owned);
        assert_eq!(KnownCause::find(BenchFormat::PytestBenchmark, &nice, ""), None);
        let own = &BenchFormat::Hyperfine.harness().flags[1];
        let own = ["hyperfine", own.name, own.value.unwrap()].map(str::to_owned);
        assert_eq!(KnownCause::find(BenchFormat::Hyperfine, &own, ""), None);
    }
}
