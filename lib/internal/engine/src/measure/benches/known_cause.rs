//! Known causes of a run that gives no benchmark.

use std::fmt;

use super::{BenchFormat, has_flag};

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

const fn effect(flag: &'static str, effect: &'static str) -> FlagEffect {
    FlagEffect { flag, effect }
}

const NEEDS_BASELINE: &str = "needs results that an earlier run has stored";
const MEASURES_NOTHING: &str = "measures nothing";
const OTHER_OUTPUT: &str = "changes the output";
const OTHER_PLACE: &str = "writes the JSON to another place";

const CRITERION: &[FlagEffect] = &[
    effect("--baseline", NEEDS_BASELINE),
    effect("-b", NEEDS_BASELINE),
    effect("--load-baseline", NEEDS_BASELINE),
    effect("--save-baseline", "Criterion rejects when another program reads its results"),
    effect("--test", MEASURES_NOTHING),
    effect("--list", MEASURES_NOTHING),
    effect("--profile-time", MEASURES_NOTHING),
    effect("--exact", "takes the filter as the whole name"),
];
const GO: &[FlagEffect] = &[effect("-json", OTHER_OUTPUT), effect("-test.list", MEASURES_NOTHING)];
const HYPERFINE: &[FlagEffect] = &[
    effect("--export-json", "writes the JSON to another place than standard output"),
    effect("--show-output", OTHER_OUTPUT),
    effect("--output", OTHER_OUTPUT),
];
const DIVAN: &[FlagEffect] = &[
    effect("--test", MEASURES_NOTHING),
    effect("--list", MEASURES_NOTHING),
    effect("--exact", "takes the filter as the whole name"),
];
const GOOGLE_BENCHMARK: &[FlagEffect] = &[
    effect("--benchmark_out", OTHER_PLACE),
    effect("--benchmark_out_format", OTHER_OUTPUT),
    effect("--benchmark_list_tests", MEASURES_NOTHING),
];
const PYTEST_BENCHMARK: &[FlagEffect] = &[
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
const LIBTEST: &[FlagEffect] = &[
    effect("--test", MEASURES_NOTHING),
    effect("--list", MEASURES_NOTHING),
    effect("--format", OTHER_OUTPUT),
    effect("--quiet", OTHER_OUTPUT),
    effect("-q", OTHER_OUTPUT),
    effect("--logfile", OTHER_OUTPUT),
];

impl KnownCause {
    /// Finds the cause in the command, and in what the program wrote.
    pub fn find(format: BenchFormat, command: &[String], written: &str) -> Option<Self> {
        let has_rejected_fraction = written.contains("invalid digit found in string");
        if format == BenchFormat::Criterion && has_rejected_fraction {
            return Some(Self::OldCriterion);
        }
        let effects = match format {
            BenchFormat::Criterion => CRITERION,
            BenchFormat::Divan => DIVAN,
            BenchFormat::Go => GO,
            BenchFormat::GoogleBenchmark => GOOGLE_BENCHMARK,
            BenchFormat::Hyperfine => HYPERFINE,
            BenchFormat::Libtest => LIBTEST,
            BenchFormat::PytestBenchmark => PYTEST_BENCHMARK,
        };
        // A flag of a run that is not the user's has no effect of this kind.
        let is_added = |flag: &str| {
            let value = format.harness().flags.iter().find(|own| own.name == flag)?.value?;
            Some(command.windows(2).any(|pair| pair[0] == flag && pair[1] == value))
        };
        let is_cause = |effect: &&FlagEffect| {
            has_flag(command, effect.flag) && is_added(effect.flag) != Some(true)
        };
        effects.iter().find(is_cause).map(Self::Flag)
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
        ] {
            let command: Vec<String> = command.split(' ').map(str::to_owned).collect();
            let cause = KnownCause::find(format, &command, written).unwrap().to_string();
            assert!(cause.starts_with(expected), "{cause}");
            assert_eq!(KnownCause::find(format, &command[..1], ""), None);
        }
        let own = &BenchFormat::Hyperfine.harness().flags[1];
        let own = ["hyperfine", own.name, own.value.unwrap()].map(str::to_owned);
        assert_eq!(KnownCause::find(BenchFormat::Hyperfine, &own, ""), None);
    }
}
