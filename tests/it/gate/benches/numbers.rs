//! Tests of the numbers of benchmarks: their direction, and medians of zero.

use jitterstat::gate::decision::Outcome;

use super::{assert_unjudged, counted_side, go, outcomes, unjudged};
use crate::gate::runs::{ScriptPair, runs};
use crate::osjitter::one_line;

#[test]
fn other_numbers_are_judged_by_direction() {
    let suite = |rate: &str, allocations: &str| {
        go(&[&format!(
            "BenchmarkA    1000    9 ns/op    {rate} MB/s    0 B/op    {allocations} allocs/op"
        )])
    };
    let pair = ScriptPair::new(&suite("100", "0"), &suite("50", "3"));
    let numbers = ["--metric", "go.MB/s", "--metric", "go.allocs/op", "--metric", "go.B/op"];
    let gate = pair.gate(&numbers).exits(1);
    assert_eq!(
        outcomes(runs(&gate)),
        [
            ("BenchmarkA:MB/s", 100.0, 50.0, Outcome::Regressed),
            // No allocation is a count, and not a time below the resolution.
            ("BenchmarkA:B/op", 0.0, 0.0, Outcome::Pass),
            ("BenchmarkA:allocs/op", 0.0, 3.0, Outcome::Regressed),
        ]
    );
    assert_eq!(runs(&gate).metrics[2].judged.ratio, None);
    let says = "allocs/op, which is zero on one side, exceeds";
    assert!(gate.ran.stdout.contains(says), "{}", gate.ran.stdout);
}

#[test]
fn times_of_zero_are_not_judged() {
    let suite = |ns: &str| {
        go(&[&format!("BenchmarkA    1000    {ns} ns/op"), "BenchmarkB    1000    0 ns/op"])
    };
    let gate = ScriptPair::from_script(&suite("5")).gate(&["--metric", "go"]).exits(0);
    assert_eq!(outcomes(runs(&gate)), [("BenchmarkA", 5.0, 5.0, Outcome::Pass)]);
    assert_unjudged(&gate, &["BenchmarkB: its median is zero"]);
    // Small values are no zeros.
    let pair = ScriptPair::new(&suite("0.0000001"), &suite("0.0000002"));
    let gate = pair.gate(&["--metric", "go"]).exits(1);
    assert_eq!(runs(&gate).metrics[0].judged.verdict, Outcome::Regressed);
    let args = ["--metric", "go", "--allow-unjudged", "Benchmark"];
    let gate = ScriptPair::from_script(&suite("0")).gate(&args).exits(0);
    assert_eq!((runs(&gate).metrics.len(), gate.verdict().verdict), (0, Outcome::Inconclusive));
    let sentence = one_line(&gate.ran.stdout);
    let reason = "inconclusive: nothing could be judged: BenchmarkA (its median is zero), BenchmarkB (its median is zero); \
                  the runs ended early";
    assert!(sentence.contains(reason) && !sentence.contains("--allow-unjudged"), "{sentence}");
}

/// Returns lines in which a benchmark of each harness takes this many nanoseconds.
fn timed_suites(ns: &str) -> [(&'static str, String); 4] {
    let heading = "s   fastest  │ slowest │ median │ mean │ samples │ iters";
    let divan = format!(
        "{heading}\n├─ a  9 ns │ 9 ns │ 9 ns │ 9 ns │ 9 │ 9\n╰─ b  0 ns │ 9 ns │ {ns} ns │ 9 ns │ 9 │ 9"
    );
    let hyperfine = format!(
        r#"{{"results":[{{"command":"a","times":[0.5]}},{{"command":"b","times":[{ns}]}}]}}"#
    );
    [
        ("go", go(&["BenchmarkA  9  9 ns/op", &format!("BenchmarkB  9  {ns} ns/op")])),
        (
            "libtest",
            format!("echo 'test a ... bench: 9 ns/iter'; echo 'test b ... bench: {ns} ns/iter'"),
        ),
        ("divan", format!("cat <<'END'\n{divan}\nEND\n")),
        ("hyperfine", format!("echo '{hyperfine}'")),
    ]
}

#[test]
fn zeros_on_one_side_stay_unjudged() {
    for (base, candidate, reason) in
        [("200", "0", "in B, its median is zero"), ("0", "200", "in A, its median is zero")]
    {
        for ((harness, a), (_, b)) in timed_suites(base).into_iter().zip(timed_suites(candidate)) {
            let gate = ScriptPair::new(&a, &b).gate(&["--metric", harness]).exits(0);
            let name = match harness {
                "go" => "BenchmarkB",
                "divan" => "s::b",
                _ => "b",
            };
            assert_unjudged(&gate, &[&format!("{name}: {reason}")]);
            assert_eq!(runs(&gate).metrics.len(), 1, "{harness}");
        }
    }
}

#[test]
fn few_other_values_are_no_judgement() {
    let suite = |side: &str, times: &str| {
        let counted = counted_side(side);
        let lines = go(&["BenchmarkA    1000    5 ns/op", "BenchmarkB    1000    $ns ns/op"]);
        format!("{counted}{times}\n{}", lines.replace("<<'END'", "<<END"))
    };
    let base = suite("a", "ns=0; [ $((n % 8)) != 7 ] || ns=2000");
    let candidate = suite("b", "ns=0; [ $((n % 3)) != 2 ] || ns=200000");
    let gate = ScriptPair::new(&base, &candidate).gate(&["--metric", "go"]).exits(0);
    assert_unjudged(&gate, &["BenchmarkB: its median is zero"]);
    // A few zeros do not hide the other values.
    let few = |side: &str| suite(side, "ns=200; [ $((n % 8)) != 7 ] || ns=0");
    let gate = ScriptPair::new(&few("a"), &few("b")).gate(&["--metric", "go"]).exits(0);
    assert_eq!(unjudged(&gate), Vec::<String>::new());
}

#[test]
fn figures_of_zero_are_judged() {
    let suite = |misses: &str, wait: &str| {
        go(&[&format!("BenchmarkA  9  9 ns/op  {misses} misses/op  {wait} p99-ns")])
    };
    let metrics = ["--metric", "go.misses/op", "--metric", "go.p99-ns"];
    let gate = ScriptPair::new(&suite("0", "7"), &suite("3", "0")).gate(&metrics).exits(1);
    let regressed = ("BenchmarkA:misses/op", 0.0, 3.0, Outcome::Regressed);
    assert_eq!(outcomes(runs(&gate)), [regressed]);
    assert_eq!(unjudged(&gate), ["BenchmarkA:p99-ns: in B, its median is zero"]);
}
