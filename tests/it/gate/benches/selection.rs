//! Tests of the selection of benchmarks and numbers.

use jitterstat::gate::decision::Outcome;

use super::{criterion_pair, go};
use crate::gate::Gate;
use crate::gate::runs::{COUNTED, ScriptPair, runs};

#[test]
fn unused_filters_and_numbers_are_refused() {
    let go_suite = go(&["BenchmarkA-2    1000    100.0 ns/op    3 allocs/op"]);
    let libtest = "echo 'test alpha ... bench: 5 ns/iter (+/- 0)'";
    for (suite, first, second, says) in [
        (
            go_suite.as_str(),
            "go",
            "go.alocs/op",
            "no benchmark reports the number alocs/op of go; choose from allocs/op, ns/op",
        ),
        (&go_suite, "wall", "go.alocs/op", "no benchmark reports the number alocs/op of go"),
        (
            &go_suite,
            "go:BenchmarkA",
            "go:BenchmarkZ",
            "--metric go:BenchmarkZ matches no benchmark",
        ),
        (&go_suite, "go", "go.allocs/op:BenchmarkZ", "--metric go:BenchmarkZ matches no benchmark"),
        (libtest, "libtest:alpha", "libtest:typo", "--metric libtest:typo matches no benchmark"),
        (
            libtest,
            "libtest",
            "libtest.MB/s",
            "no benchmark reports the number MB/s of libtest; choose from time",
        ),
    ] {
        let metrics = ["--metric", first, "--metric", second];
        ScriptPair::from_script(suite).refuses(&metrics, says);
    }
    let metrics = ["--metric", "go:A", "--metric", "go.allocs/op:Benchmark"];
    ScriptPair::from_script(&go_suite).gate(&metrics).exits(0);
}

/// The harness itself has to evaluate an expression.
#[test]
fn unused_expressions_are_refused() {
    let pair = criterion_pair("bench sum 4", "case \"$*\" in *nothing*) ;; *) bench sum 4;; esac");
    pair.gate(&["--metric", "criterion:s.m", "--metric", "criterion:su"]).exits(0);
    let expressions = ["--metric", "criterion:s.m", "--metric", "criterion:x.y"];
    let none = "case \"$*\" in *s.m*) bench sum 4;; esac";
    let crash = "case \"$*\" in *s.m*) bench sum 4;; *) echo crashed >&2; exit 9;; esac";
    for (candidate, says) in
        [(none, "--metric criterion:x.y matches no benchmark"), (crash, "stderr: crashed")]
    {
        criterion_pair(none, candidate).refuses(&expressions, says);
    }
}

#[test]
fn conflicting_arguments_are_refused() {
    let go_suite = go(&["BenchmarkA-2    1000    100.0 ns/op"]);
    for (script, arguments, metric, says) in [
        (
            go_suite.as_str(),
            "-test.bench=BenchmarkA",
            "go:BenchmarkZ",
            "the command has -test.bench, which replaces the filter of --metric go:BenchmarkZ",
        ),
        ("exit 1", "--baseline x", "criterion", "has --baseline, which needs"),
        ("true", "--export-json x.json", "hyperfine", "the command has --export-json"),
        (
            "true",
            "--benchmark-json=x.json",
            "pytest-benchmark",
            "the command has --benchmark-json, which writes the JSON to another place",
        ),
    ] {
        let pair = ScriptPair::from_script(script);
        pair.refuses_command(arguments, &["--metric", metric], says);
    }
}

/// Prints the benchmarks of libtest that the arguments select. The times of `noisy` differ from run
/// to run. Whether they decide it depends on the order within the pairs.
fn libtest_suite(slow: &str) -> String {
    let body = r#"
for bench in steady:400 noisy:$((400 + n % 3 * 300)) slow:SLOW; do
    case " $* " in *" --exact "*) case " $* " in *" ${bench%:*} "*) ;; *) continue ;; esac ;; esac
    echo "test ${bench%:*} ... bench: ${bench#*:} ns/iter (+/- 3)"
done
echo "$@" >>"$HOME_OF_TEST/arguments"
"#;
    format!("{COUNTED}{}", body.replace("SLOW", slow))
}

#[test]
fn decided_benches_leave_later_pairs() {
    let lengths = |gate: &Gate| -> Vec<(String, usize, Outcome)> {
        let metrics = runs(gate).metrics.iter();
        metrics.map(|m| (m.name.clone(), m.values.len(), m.judged.verdict)).collect()
    };
    let expected = [
        ("noisy", 36, Outcome::Inconclusive),
        ("slow", 26, Outcome::Regressed),
        ("steady", 26, Outcome::Pass),
    ]
    .map(|(name, pairs, outcome)| (name.to_owned(), pairs, outcome));
    let args = ["--metric", "libtest", "--max-pairs", "36", "--seed", "1"];

    let pair = ScriptPair::new(&libtest_suite("400"), &libtest_suite("480"));
    let gate = pair.gate_pairs(&args).exits(1);
    assert_eq!(lengths(&gate), expected, "{}", gate.ran.stdout);
    assert_eq!((runs(&gate).pairs, runs(&gate).looks_taken), (36, 2));
    let says = "open metrics after 26 pairs: 1 of 3, and 1 regressed";
    assert!(gate.ran.stderr.contains(says), "{}", gate.ran.stderr);
    let arguments = pair.text("arguments");
    let count = |line: &str| arguments.lines().filter(|found| *found == line).count();
    // One run of each side is dropped at first, and another one when the selection changes.
    assert_eq!((count("--bench"), count("--bench --exact noisy")), (2 * 27, 2 * 11), "{arguments}");

    // A harness that cannot select benchmarks runs all of them.
    let unable = "case \"$*\" in *--exact*) exit 1 ;; esac\n";
    let suite = |slow| format!("{unable}{}", libtest_suite(slow));
    let pair = ScriptPair::new(&suite("400"), &suite("480"));
    let gate = pair.gate_pairs(&args).exits(1);
    assert_eq!(lengths(&gate), expected, "{}", gate.ran.stdout);
    let arguments = pair.text("arguments");
    assert_eq!(arguments, "--bench\n".repeat(2 * 37));
}
