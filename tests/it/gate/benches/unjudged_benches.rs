//! Tests of benchmarks that cannot be judged: a gate does not pass because of them.

use jitterstat::gate::decision::{Outcome, Reason};

use super::{assert_unjudged, counted_side, criterion_pair, go, outcomes, unjudged};
use crate::gate::Gate;
use crate::gate::runs::{COUNTED, ScriptPair, runs};
use crate::osjitter::Osjitter;

#[test]
fn benches_of_one_side_prevent_passing() {
    let pair =
        criterion_pair("bench sum 400; bench old 5", "bench new/1 5; bench sum 400; bench new/2 6");
    let gate = pair.gate(&["--metric", "criterion"]).exits(0);
    assert_eq!(outcomes(runs(&gate)), [("sum", 400.0, 400.0, Outcome::Pass)]);
    assert_eq!(gate.verdict().verdict, Outcome::Inconclusive);
    let expected = ["new/1: only B has it", "new/2: only B has it", "old: only A has it"];
    assert_unjudged(&gate, &expected);
    let says = "inconclusive: 3 benchmarks not judged: new/1, new/2, old; ";
    assert!(gate.ran.stdout.contains(says), "{}", gate.ran.stdout);
    let says = "the gate cannot pass: 3 benchmarks: new/1 (only B has it)";
    assert!(gate.ran.stderr.contains(says), "{}", gate.ran.stderr);

    pair.gate(&["--metric", "criterion", "--on-inconclusive", "fail"]).exits(3);
    let some = ["--metric", "criterion", "--allow-unjudged", "new/", "--allow-unjudged", "^ol$"];
    let gate = pair.gate(&some).exits(0);
    assert_eq!(gate.verdict().verdict, Outcome::Inconclusive);
    let all = ["--metric", "criterion", "--allow-unjudged", "new/", "--allow-unjudged", "^old$"];
    let gate = pair.gate(&all).exits(0);
    assert_eq!(gate.verdict().verdict, Outcome::Pass);
    assert!(runs(&gate).unjudged.iter().all(|bench| bench.allowed));
    assert!(!gate.ran.stderr.contains("cannot pass"), "{}", gate.ran.stderr);
    let slow = criterion_pair("bench sum 400; bench old 5", "bench sum 500");
    let gate = slow.gate(&["--metric", "criterion"]).exits(1);
    assert_eq!((gate.verdict().verdict, unjudged(&gate).len()), (Outcome::Regressed, 1));

    let pair = criterion_pair("bench old 5", "bench new 5");
    pair.refuses(&["--metric", "criterion"], "no benchmark is on both sides");
}

#[test]
fn unread_benches_prevent_passing() {
    let suite = |p99: &str| {
        go(&[
            "BenchmarkA-2    1000    100.0 ns/op",
            &format!("BenchmarkP99-2    1000    {p99} p99-ns"),
            "BenchmarkPrints-2    loading\n    1000    200.0 ns/op",
            "BenchmarkNone-2    1000",
        ])
    };
    let pair = ScriptPair::new(&suite("50"), &suite("150"));
    let gate = pair.gate(&["--metric", "go"]).exits(0);
    let expected = [
        ("BenchmarkA-2", 100.0, 100.0, Outcome::Pass),
        ("BenchmarkPrints-2", 200.0, 200.0, Outcome::Pass),
    ];
    assert_eq!(outcomes(runs(&gate)), expected);
    let expected = [
        "BenchmarkNone-2: its harness reported no number",
        "BenchmarkP99-2: its harness reported only other numbers: p99-ns",
    ];
    assert_unjudged(&gate, &expected);
    let args = ["--metric", "go", "--metric", "go.p99-ns", "--allow-unjudged", "None"];
    let gate = pair.gate(&args).exits(1);
    let regressed = ("BenchmarkP99-2:p99-ns", 50.0, 150.0, Outcome::Regressed);
    assert!(outcomes(runs(&gate)).contains(&regressed), "{}", gate.ran.stdout);
    assert!(runs(&gate).metrics.iter().any(|metric| metric.unit == "p99-ns"));
    let says = "no benchmark can be judged: BenchmarkA-2:B/op (its harness reported only other numbers: ns/op)";
    pair.refuses(&["--metric", "go.B/op"], says);
    let libtest = "echo 'test a ... bench: 5 ns/iter (+/- 0)'; echo 'test b ... lost'";
    let gate = ScriptPair::from_script(libtest).gate(&["--metric", "libtest"]).exits(0);
    assert_eq!(unjudged(&gate), ["b: its harness reported no number"]);
}

#[test]
fn late_benches_prevent_passing() {
    // The first run of a side is dropped, and shows the benchmarks.
    let script = |side: &str, late_ns: u64| {
        let counted = counted_side(side);
        let late = format!("[ $n -lt 2 ] || echo 'test late ... bench: {late_ns} ns/iter (+/- 3)'");
        format!("{counted}echo 'test a ... bench: 1000 ns/iter (+/- 3)'\n{late}\n")
    };
    for (allowed, outcome) in
        [(&[][..], Outcome::Inconclusive), (&["--allow-unjudged", "late"], Outcome::Pass)]
    {
        let pair = ScriptPair::new(&script("a", 1000), &script("b", 9000));
        let gate = pair.gate(&[&["--metric", "libtest"], allowed].concat()).exits(0);
        assert_eq!(outcomes(runs(&gate)), [("a", 1000.0, 1000.0, Outcome::Pass)]);
        assert_eq!(unjudged(&gate), ["late: the first runs did not have it"]);
        assert_eq!(gate.verdict().verdict, outcome);
        let is_late = gate.verdict().reason == Some(Reason::NotJudged);
        assert_eq!(is_late, allowed.is_empty());
        assert!(gate.ran.stdout.contains("the first runs did not have it"), "{}", gate.ran.stdout);
    }
}

#[test]
fn missing_bench_keeps_earlier_pairs() {
    // The tenth run, counting both sides, is the first without the benchmark.
    let script = format!("{COUNTED}bench sum 400; [ $n -ge 10 ] || bench sort 500");
    let gate = criterion_pair(&script, &script).gate(&["--metric", "criterion"]).exits(4);
    let (verdict, found) = (gate.verdict(), runs(&gate));
    let failure = verdict.failure.as_deref().unwrap_or_default();
    assert!(failure.contains("a run has no benchmark \"sort\""), "{failure}");
    assert_eq!((found.pairs, found.reason), (4, Some(Reason::NotMeasured)));
}

#[test]
fn unjudged_benches_are_in_all_formats() {
    let pair = criterion_pair("bench sum 400; bench old 5", "bench sum 400");
    let verdict = pair.gate(&["--metric", "criterion"]).exits(0);
    let allowed = pair.gate(&["--metric", "criterion", "--allow-unjudged", "old"]).exits(0);
    for (format, expected) in [
        ("table", "old         only A has it"),
        ("markdown", "| old | only A has it |"),
        ("html", "<th scope=\"row\">old</th>"),
        ("junit", "name=\"old\"><skipped message=\"not judged: only A has it\"/>"),
        ("sarif", "old: not judged: only A has it\""),
        ("json", "\"reason\": \"one-side\""),
    ] {
        let rendered = |gate: &Gate| {
            let report = Osjitter::new(["report", "--format", format]);
            report.args([gate.ran.path("verdict.json")]).run().exits(0).stdout
        };
        let text = rendered(&verdict);
        assert!(text.contains(expected) && !text.contains("(allowed)"), "{format}: {text}");
        let text = rendered(&allowed);
        let expected =
            if format == "json" { "\"allowed\": true" } else { "only A has it (allowed)" };
        assert!(text.contains(expected), "{format}: {text}");
    }
}
