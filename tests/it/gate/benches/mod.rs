//! Tests of benchmarks: scripts write the output of the harnesses.
#![cfg(unix)]

mod bases;
mod builds;
mod checkouts;
mod criterion;
mod divan;
mod google_benchmark;
mod harness_output;
mod jmh;
mod numbers;
mod package;
mod pytest_benchmark;
mod selection;
mod unjudged_benches;

use files::gate::verdict::RunsVerdict;
use jitterstat::gate::decision::{Outcome, Reason};

use super::Gate;
use super::runs::{COUNTED, ScriptPair, runs};

/// Defines a command that writes the files of Criterion for a benchmark with two samples.
const CRITERION: &str = r#"bench() {
    mkdir -p "$CRITERION_HOME/$1/new" "$CRITERION_HOME/$1/report"
    printf '{"group_id":"g","full_id":"%s","title":"t"}' "$1" >"$CRITERION_HOME/$1/new/benchmark.json"
    printf '{"sampling_mode":"Linear","iters":[10.0,20.0],"times":[%s0.0,%s0.0]}' "$2" "$(($2 * 2))" \
        >"$CRITERION_HOME/$1/new/sample.json"
}
echo "$@" >>"$HOME_OF_TEST/arguments"
"#;

fn criterion_pair(a: &str, b: &str) -> ScriptPair {
    ScriptPair::new(&format!("{CRITERION}{a}"), &format!("{CRITERION}{b}"))
}

/// A script that prints lines of Go. Spaces between fields are tabs.
fn go(lines: &[&str]) -> String {
    let lines: Vec<String> = lines.iter().map(|line| line.replace("  ", "\t")).collect();
    format!("cat <<'END'\npkg: x\n{}\nPASS\nEND\n", lines.join("\n"))
}

/// Counts the runs of one side in `n`.
fn counted_side(side: &str) -> String {
    COUNTED.replace("/n\"", &format!("/runs-of-{side}\""))
}

/// Returns each metric with its medians, rounded to thousandths: the gate computes with logarithms.
fn outcomes(verdict: &RunsVerdict) -> Vec<(&str, f64, f64, Outcome)> {
    let round = |value: f64| (value * 1e3).round() / 1e3;
    let metrics = verdict.metrics.iter();
    metrics.map(|m| (m.name.as_str(), round(m.a), round(m.b), m.judged.verdict)).collect()
}

/// Returns each benchmark that was not judged, with its reason.
fn unjudged(gate: &Gate) -> Vec<String> {
    let benches = runs(gate).unjudged.iter();
    benches.map(|bench| format!("{}: {bench}", bench.name)).collect()
}

/// Checks that a gate does not pass because of these benchmarks, which it did not judge.
#[track_caller]
fn assert_unjudged(gate: &Gate, expected: &[&str]) {
    assert_eq!(unjudged(gate), expected, "{}", gate.ran.stdout);
    assert_eq!(gate.verdict().reason, Some(Reason::NotJudged), "{}", gate.ran.stdout);
}
