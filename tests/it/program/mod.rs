//! Tests of `osjitter run -- ./my-loop`: the user's program in the rounds of other subjects, and
//! the ways in which it can fail.
#![cfg(unix)]

mod broken_programs;
mod mixed_rounds;
mod naming;
mod processes;

use std::ops::RangeInclusive;
use std::path::PathBuf;

use serde_json::Value;

use crate::osjitter::{Osjitter, Ran, names_in};

/// A program that follows the contract. Every tick is late by 20 us.
const CORRECT_PROGRAM: &str = r#"{ echo "osjitter.series/1 period_ns=$OSJITTER_PERIOD_NS"; yes 20000 | head -n "$OSJITTER_TICKS"; } >"$OSJITTER_OUT""#;
/// A shell condition that holds in a round, but not in the startup run of a single tick.
const IS_ROUND: &str = r#"[ "$OSJITTER_WARMUP" != 0 ]"#;
/// Numbers of runs of a single tick before the first round: a start that takes more than a second,
/// as on a busy machine, is the last.
const STARTS: RangeInclusive<usize> = 1..=3;
/// Number of runs before the first round in which the settings of the program are read.
const SETTINGS_RUNS: usize = if cfg!(target_os = "linux") { 1 } else { 0 };
/// Three rounds of 20 ticks.
const ROUNDS: [&str; 8] =
    ["--period", "1ms", "--ticks", "60", "--round-ticks", "20", "--warmup", "3"];

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// Writes a shell script, and returns the command that runs it.
    fn script(&self, text: &str) -> String {
        let file = self.path("program");
        std::fs::write(&file, text).unwrap();
        format!("sh '{}'", file.display())
    }

    /// Runs a script together with `nanosleep`.
    fn run(&self, text: &str, extra: &[&str]) -> Ran {
        run(&self.script(text), extra).env("HOME_OF_TEST", self.0.path()).run()
    }
}

fn run(command: &str, extra: &[&str]) -> Osjitter {
    let args = ["run", "--subject", "nanosleep", "--command", command];
    Osjitter::new(args).args(ROUNDS).args(extra).out("")
}

fn report(ran: &Ran) -> Value {
    ran.json("report.json")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

/// Returns a text of each subject in a report.
fn texts<'a>(report: &'a Value, key: &str) -> Vec<&'a str> {
    list(&report["subjects"]).iter().map(|subject| subject[key].as_str().unwrap()).collect()
}

fn has_warning(report: &Value, code: &str) -> bool {
    list(&report["warnings"]).iter().any(|warning| warning["code"] == code)
}

/// Removes all white space, so that wrapping does not matter.
fn without_whitespace(text: &str) -> String {
    text.split_whitespace().collect()
}

#[track_caller]
fn assert_nothing_written(ran: &Ran) {
    assert_eq!((names_in(ran.directory()), ran.stdout.as_str()), (Vec::new(), ""));
}
