//! Tests of suites of pytest-benchmark.

use jitterstat::gate::decision::Outcome;

use super::{assert_unjudged, outcomes, unjudged};
use crate::gate::runs::{ScriptPair, runs};

/// A script that writes the files of pytest: benchmarks with the seconds of three rounds, and the
/// cases of its report.
fn pytest(benches: &[(&str, &str)], cases: &str) -> String {
    let bench = |(name, seconds): &(&str, &str)| {
        format!(
            r#"{{"fullname":"t.py::{name}","options":{{"timer":"perf_counter"}},"stats":{{"data":[9,{seconds},8],"min":{seconds}}}}}"#
        )
    };
    let benches: Vec<String> = benches.iter().map(bench).collect();
    format!(
        "path() {{ echo \"$PYTEST_ADDOPTS\" | grep -o -- \"$1=[^ ']*\" | cut -d= -f2; }}\n\
         echo \"$PYTEST_ADDOPTS\" >>\"$HOME_OF_TEST/options\"\n\
         echo '{{\"benchmarks\":[{}]}}' >\"$(path --benchmark-json)\"\n\
         echo '<testsuites><testsuite>{cases}</testsuite></testsuites>' >\"$(path --junitxml)\"\n",
        benches.join(",")
    )
}

/// A case in the report of pytest.
fn case(class: &str, name: &str, outcome: &str) -> String {
    format!(r#"<testcase classname="{class}" name="{name}" file="t.py">{outcome}</testcase>"#)
}

#[test]
fn benches_of_pytest_are_judged() {
    let others = [
        case("t", "x", r#"<skipped type="pytest.xfail" message="bug 3"/>"#),
        case("t.C", "unused", ""),
        case("t", "y", r#"<skipped type="pytest.skip" message="z"/>"#),
    ]
    .concat();
    let pair = ScriptPair::new(
        &pytest(&[("a[1]", "0.5"), ("b", "0.25")], &others),
        &pytest(&[("a[1]", "0.6"), ("b", "0.25"), ("c", "1")], &others),
    );
    let gate = pair.gate(&["--metric", "pytest-benchmark"]).exits(1);
    let expected =
        [("t.py::a[1]", 5e8, 6e8, Outcome::Regressed), ("t.py::b", 2.5e8, 2.5e8, Outcome::Pass)];
    assert_eq!(outcomes(runs(&gate)), expected);
    assert!(runs(&gate).metrics.iter().all(|metric| metric.unit == "ns"));
    assert_eq!(
        unjudged(&gate),
        [
            "t.py::C::unused: its harness reported no number",
            "t.py::c: only B has it",
            "t.py::x: it failed: an expected failure: bug 3"
        ]
    );
    std::fs::remove_file(pair.path("options")).unwrap();
    let gate = pair.gate(&["--metric", "pytest-benchmark.min:a or b"]).exits(1);
    assert_eq!(outcomes(runs(&gate))[0], ("t.py::a[1]:min", 5e8, 6e8, Outcome::Regressed));
    let options = pair.text("options");
    assert!(options.lines().all(|line| line.contains("'-k(a or b)'")), "{options}");

    let good = pytest(&[("a", "1")], "");
    for (script, reason) in [
        ("echo '1 passed in 0.1s'", "tests with the fixture of pytest-benchmark"),
        (&*format!("{good}echo '1 passed in 0.1s'; echo '2 passed in 0.1s'"), "more than once"),
        (&good.replace("</testsuites>", ""), "the report of pytest is not XML"),
        (&good.replace("fullname", "name"), "not the JSON of pytest-benchmark"),
    ] {
        ScriptPair::new(script, &good).refuses(&["--metric", "pytest-benchmark"], reason);
    }
}

#[test]
fn failed_pytest_tests_are_not_judged() {
    let suite = |outcome: &str, seconds: &str| {
        pytest(&[("a", "0.5"), ("b", seconds)], &case("t", "b", outcome))
    };
    let failure = r#"<failure message="wrong result"/>"#;
    let skipped = r#"<skipped type="pytest.skip" message="no GPU"/>"#;
    for (a, b, expected) in [
        ("", failure, "t.py::b: in B, it failed: wrong result"),
        (failure, failure, "t.py::b: it failed: wrong result"),
        ("", skipped, "t.py::b: only A has it"),
    ] {
        let pair = ScriptPair::new(&suite(a, "0.2"), &suite(b, "0.1"));
        let gate = pair.gate(&["--metric", "pytest-benchmark"]).exits(0);
        assert_unjudged(&gate, &[expected]);
        assert_eq!(outcomes(runs(&gate)), [("t.py::a", 5e8, 5e8, Outcome::Pass)]);
    }
    let pair = ScriptPair::new(&suite("", "0.2"), &suite("", "0.1"));
    let gate = pair.gate(&["--metric", "pytest-benchmark"]).exits(0);
    assert_eq!(gate.verdict().verdict, Outcome::Improved);
}
