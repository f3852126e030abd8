//! Tests of the output of harnesses: it is read, refused or quoted.

use jitterstat::gate::decision::{Outcome, Reason};

use super::{CRITERION, criterion_pair, outcomes};
use crate::gate::runs::{COUNTED, ScriptPair, runs};
use crate::osjitter::Osjitter;

#[test]
fn other_harnesses_are_judged() {
    let libtest = |ns: &str| format!("echo 'test sort::small ... bench:   {ns} ns/iter (+/- 3)'");
    let go = |ns: &str| {
        format!(
            "printf 'pkg: x\\nBenchmarkSort-2 \\t 100\\t {ns} ns/op\\nBenchmarkSort-2 90 9999999 ns/op\\nBenchmarkSort-2 90 9999998 ns/op\\nPASS\\n'"
        )
    };
    let hyperfine = |seconds: &str| {
        format!(r#"printf '{{"results":[{{"command":"sort x","times":[{seconds},9.0,9.5]}}]}}'"#)
    };
    for (harness, name, a, b) in [
        ("libtest", "sort::small", libtest("1,000.25"), libtest("1,100.25")),
        ("go", "BenchmarkSort-2", go("1000.25"), go("1100.25")),
        ("hyperfine", "sort x", hyperfine("0.00100025"), hyperfine("0.00110025")),
    ] {
        let scale = if harness == "hyperfine" { 1e3 } else { 1.0 };
        let gate = ScriptPair::new(&a, &b).gate(&["--metric", harness]).exits(1);
        let [(found, a, b, outcome)] = outcomes(runs(&gate))[..] else {
            panic!("{}", gate.ran.stdout)
        };
        assert_eq!((found, outcome), (name, Outcome::Regressed), "{harness}");
        let is_near = |value: f64, expected: f64| (value / scale / expected - 1.0).abs() < 1e-9;
        assert!(is_near(a, 1000.25) && is_near(b, 1100.25), "{harness}: {a} {b}");
    }
}

#[test]
fn malformed_benches_are_rejected() {
    let good = "bench sum 400";
    let untimed = "echo 'test x ... bench: ?'";
    let broken = "bench sum 400; echo '{\"iters\":[1]' >\"$CRITERION_HOME/sum/new/sample.json\"";
    let zero = "bench sum 400; echo '{\"iters\":[0],\"times\":[0]}' >\"$CRITERION_HOME/sum/new/sample.json\"";
    let old = "echo 'error: invalid digit found in string' >&2; exit 1";
    let absent = "echo 'Baseline x must exist'; exit 101";
    for (a, b, args, says) in [
        (good, broken, "--metric criterion", "sum: sample.json was not written by Criterion"),
        (zero, good, "--metric criterion", "the times of \"sum\" are invalid"),
        (good, "true", "--metric criterion", "it ran no benchmark: expected files of Criter"),
        (good, good, "--metric libtest", "expected lines like `test sort ... bench:"),
        (good, good, "--metric go", "expected lines like `BenchmarkSort-8"),
        (good, good, "--metric hyperfine", "is not the JSON of hyperfine"),
        (untimed, untimed, "--metric libtest", "invalid time \"?\" of x"),
        (good, good, "--metric criterion --metric go", "a program has one harness"),
        (good, good, "--metric criterion:", "expected e.g. criterion:sort"),
        (good, good, "--metric criterion --tolerance x=5%", "choose from sum"),
        (good, "exit 3", "--metric criterion", "exit status: 3"),
        (absent, absent, "--metric criterion", "exit status: 101; stdout: Baseline x must exist"),
        (old, old, "--metric criterion", "Criterion before 0.4 accepts only whole seconds"),
    ] {
        criterion_pair(a, b).refuses(&args.split(' ').collect::<Vec<_>>(), says);
    }
}

/// A wrapper hides the exit code, so only the output shows that a program ended early.
#[test]
fn incomplete_output_is_refused() {
    let go = "printf 'pkg: x\\nBenchmarkA-2\\t9\\t9 ns/op\\n'";
    let libtest = "echo 'running 2 tests'; echo 'test a ... bench: 9 ns/iter'";
    let divan = "printf 's   fastest  │ slowest │ median │ mean │ samples │ iters\\n├─ a  9 ns │ 9 ns │ 9 ns │ 9 ns │ 9 │ 9\\n'";
    for (harness, script, says) in [
        ("go", go, "its output has no line PASS after its benchmarks"),
        ("libtest", libtest, "its output has no line `test result: …`"),
        ("divan", divan, "its output has no last row of the table"),
    ] {
        ScriptPair::from_script(script).refuses(&["--metric", harness], says);
    }
    // A later run that is incomplete is no pass.
    let later = format!("{COUNTED}{go}; [ $n -ge 10 ] || echo PASS");
    let gate = ScriptPair::from_script(&later).gate(&["--metric", "go"]).exits(4);
    assert_eq!(gate.verdict().reason, Some(Reason::NotMeasured));
}

#[test]
fn control_characters_stay_in_their_cell() {
    // JSON escapes for a line break, a tab, an escape sequence and a separator of lines.
    let name = r"a\\nb\\tc\\u001b[2Jd\\u2028e\\rf";
    let script = format!(
        r#"{CRITERION}bench sum 400; sed -i 's/"sum"/"{name}"/' "$CRITERION_HOME/sum/new/benchmark.json""#
    );
    let gate = ScriptPair::from_script(&script).gate(&["--metric", "criterion"]).exits(0);
    assert_eq!(runs(&gate).metrics[0].name, "a\nb\tc\u{1b}[2Jd\u{2028}e\rf");
    let shown = "a\u{fffd}b\u{fffd}c\u{fffd}[2Jd\u{fffd}e\u{fffd}f";
    let file = gate.ran.path("verdict.json");
    for format in ["table", "markdown", "html", "junit"] {
        let report = Osjitter::new(["report", "--format", format]).args([&file]);
        let text = report.run().exits(0).stdout.replace("\\[", "[");
        assert!(text.contains(shown), "{format}: {text}");
    }
}
