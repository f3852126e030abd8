//! Tests of suites of Criterion.

use jitterstat::gate::decision::Outcome;

use super::{CRITERION, criterion_pair, outcomes};
use crate::gate::runs::{ScriptPair, runs};

/// The flags of every run.
const FLAGS: &str = "--bench --noplot --warm-up-time 0.002 --measurement-time 0.005 --sample-size 10 --nresamples 100";

/// Returns two suites: one benchmark became slower, and one faster.
fn suites() -> ScriptPair {
    criterion_pair(
        "bench sum 400; bench parse/json=5 7000; bench hash 3",
        "bench sum 400; bench parse/json=5 7700; bench hash 2",
    )
}

#[test]
fn benches_of_criterion_are_judged() {
    let pair = suites();
    let gate = pair.gate(&["--metric", "criterion"]).exits(1);
    let found = runs(&gate);
    let expected = [
        ("hash", 3.0, 2.0, Outcome::Improved),
        ("parse/json=5", 7000.0, 7700.0, Outcome::Regressed),
        ("sum", 400.0, 400.0, Outcome::Pass),
    ];
    assert_eq!(outcomes(found), expected, "{}", gate.ran.stdout);
    // The files of Criterion do not state a unit.
    assert!(found.metrics.iter().all(|m| m.unit.is_empty() && m.values.len() == 24));
    assert!(!gate.ran.stdout.contains(" ns"), "{}", gate.ran.stdout);
    let arguments = pair.text("arguments");
    assert!(arguments.lines().all(|line| line == FLAGS), "{arguments}");
    // A floor is a time, so it does not apply to numbers without a unit.
    let gate = pair.gate(&["--metric", "criterion", "--floor", "1ms"]).exits(1);
    assert!(gate.ran.stderr.contains("--floor has no effect"), "{}", gate.ran.stderr);
}

#[test]
fn tolerances_name_benches_or_groups() {
    let pair = suites();
    pair.gate(&["--metric", "criterion", "--tolerance", "parse/json=5=12%"]).exits(0);
    let group = ["--tolerance", "1%", "--tolerance", "parse=12%"];
    let gate = pair.gate(&[&["--metric", "criterion"][..], &group].concat()).exits(0);
    let tolerated: Vec<String> =
        runs(&gate).metrics.iter().map(|m| format!("{:.3}", m.judged.tolerated_ratio)).collect();
    assert_eq!(tolerated, ["1.010", "1.120", "1.010"]);
}

#[test]
fn filters_of_criterion_are_joined() {
    let pair = suites();
    pair.gate(&["--metric", "criterion:su", "--metric", "criterion:^hash$"]).exits(1);
    let arguments = pair.text("arguments");
    let (both, second) = (format!("{FLAGS} su|^hash$"), format!("{FLAGS} ^hash$"));
    // After the first runs, the second filter runs alone.
    let mut lines = arguments.lines().enumerate();
    assert!(lines.all(|(i, line)| line == if i == 2 { &second } else { &both }), "{arguments}");
}

#[test]
fn throughput_of_criterion_is_judged() {
    let suite = |ns: &str| {
        format!(
            "{CRITERION}bench sum {ns}; sed -i 's/\"title\"/\"throughput\":{{\"Bytes\":1000}},\"title\"/' \"$CRITERION_HOME/sum/new/benchmark.json\""
        )
    };
    let pair = ScriptPair::new(&suite("100"), &suite("125"));
    let gate = pair.gate(&["--metric", "criterion.throughput"]).exits(1);
    // Without a unit of its time, a throughput has none.
    assert_eq!(outcomes(runs(&gate)), [("sum:throughput", 10.0, 8.0, Outcome::Regressed)]);
    assert!(!gate.ran.stdout.contains("bytes"), "{}", gate.ran.stdout);
}
