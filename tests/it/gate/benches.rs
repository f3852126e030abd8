//! Tests of benchmarks: scripts write the output of the harnesses.
#![cfg(unix)]

#[cfg(target_os = "linux")]
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
#[cfg(target_os = "linux")]
use std::time::Duration;

use engine::measure::child::remove_repository;
use files::gate::verdict::RunsVerdict;
use jitterstat::gate::decision::{Outcome, Reason};
#[cfg(target_os = "linux")]
use rustix::process::Signal;

use super::runs::{COUNTED, ScriptPair, runs};
use super::{Gate, gate};
use crate::osjitter::{Osjitter, has_program, write_executable};
#[cfg(target_os = "linux")]
use crate::osjitter::{is_alive, poll_until, read_process_id, send_signal};
#[cfg(target_os = "linux")]
use crate::pseudo_terminal::read_until;

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

/// Returns each metric with its medians, rounded to thousandths: the gate computes with logarithms.
fn outcomes(verdict: &RunsVerdict) -> Vec<(&str, f64, f64, Outcome)> {
    let round = |value: f64| (value * 1e3).round() / 1e3;
    let metrics = verdict.metrics.iter();
    metrics.map(|m| (m.name.as_str(), round(m.a), round(m.b), m.judged.verdict)).collect()
}

#[test]
fn benches_of_criterion_are_judged() {
    let pair = criterion_pair(
        "bench sum 400; bench parse/json=5 7000; bench hash 3",
        "bench sum 400; bench parse/json=5 7700; bench hash 2",
    );
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
    let arguments = std::fs::read_to_string(pair.path("arguments")).unwrap();
    let flags = "--bench --noplot --warm-up-time 0.002 --measurement-time 0.005 --sample-size 10 --nresamples 100";
    assert!(arguments.lines().all(|line| line == flags), "{arguments}");

    let tolerance = ["--tolerance", "parse/json=5=12%"];
    pair.gate(&[&["--metric", "criterion"][..], &tolerance].concat()).exits(0);
    // A floor is a time, so it does not apply to numbers without a unit.
    let gate = pair.gate(&["--metric", "criterion", "--floor", "1ms"]).exits(1);
    assert!(gate.ran.stderr.contains("--floor has no effect"), "{}", gate.ran.stderr);
    let group = ["--tolerance", "1%", "--tolerance", "parse=12%"];
    let gate = pair.gate(&[&["--metric", "criterion"][..], &group].concat()).exits(0);
    let tolerated: Vec<String> =
        runs(&gate).metrics.iter().map(|m| format!("{:.3}", m.judged.tolerated_ratio)).collect();
    assert_eq!(tolerated, ["1.010", "1.120", "1.010"]);
    std::fs::remove_file(pair.path("arguments")).unwrap();
    pair.gate(&["--metric", "criterion:su", "--metric", "criterion:^hash$"]).exits(1);
    let arguments = std::fs::read_to_string(pair.path("arguments")).unwrap();
    let lines: Vec<&str> = arguments.lines().collect();
    // After the first runs, the second filter runs alone.
    assert_eq!(lines[2], format!("{flags} ^hash$"));
    let both = format!("{flags} su|^hash$");
    assert!(lines.iter().enumerate().all(|(i, line)| i == 2 || *line == both), "{arguments}");
}

#[test]
fn unused_filters_and_numbers_are_refused() {
    let go_suite = go(&["BenchmarkA-2    1000    100.0 ns/op    3 allocs/op"]);
    let pair = ScriptPair::new(&go_suite, &go_suite);
    for (metrics, says) in [
        (
            ["go", "go.alocs/op"],
            "no benchmark reports the number alocs/op of go; choose from allocs/op, ns/op",
        ),
        (["wall", "go.alocs/op"], "no benchmark reports the number alocs/op of go"),
        (["go:BenchmarkA", "go:BenchmarkZ"], "--metric go:BenchmarkZ matches no benchmark"),
        (["go", "go.allocs/op:BenchmarkZ"], "--metric go:BenchmarkZ matches no benchmark"),
    ] {
        pair.refuses(&["--metric", metrics[0], "--metric", metrics[1]], says);
    }
    pair.gate(&["--metric", "go:A", "--metric", "go.allocs/op:Benchmark"]).exits(0);
    let says = "the command has -test.bench, which replaces the filter of --metric go:BenchmarkZ";
    pair.refuses_command("-test.bench=BenchmarkA", &["--metric", "go:BenchmarkZ"], says);
    let libtest = "echo 'test alpha ... bench: 5 ns/iter (+/- 0)'";
    let pair = ScriptPair::new(libtest, libtest);
    pair.refuses(
        &["--metric", "libtest:alpha", "--metric", "libtest:typo"],
        "--metric libtest:typo matches no benchmark",
    );
    pair.refuses(
        &["--metric", "libtest", "--metric", "libtest.MB/s"],
        "no benchmark reports the number MB/s of libtest; choose from time",
    );
    // The harness itself has to evaluate an expression.
    let pair = criterion_pair("bench sum 4", "case \"$*\" in *nothing*) ;; *) bench sum 4;; esac");
    pair.gate(&["--metric", "criterion:s.m", "--metric", "criterion:su"]).exits(0);
    let none = "case \"$*\" in *s.m*) bench sum 4;; esac";
    criterion_pair(none, none).refuses(
        &["--metric", "criterion:s.m", "--metric", "criterion:x.y"],
        "--metric criterion:x.y matches no benchmark",
    );
    let crash = "case \"$*\" in *s.m*) bench sum 4;; *) echo crashed >&2; exit 9;; esac";
    criterion_pair(none, crash)
        .refuses(&["--metric", "criterion:s.m", "--metric", "criterion:x.y"], "stderr: crashed");
}

/// Returns each benchmark that was not judged, with its reason.
fn unjudged(gate: &Gate) -> Vec<String> {
    let benches = runs(gate).unjudged.iter();
    benches.map(|bench| format!("{}: {bench}", bench.name)).collect()
}

#[test]
fn benches_of_one_side_prevent_passing() {
    let pair =
        criterion_pair("bench sum 400; bench old 5", "bench new/1 5; bench sum 400; bench new/2 6");
    let gate = pair.gate(&["--metric", "criterion"]).exits(0);
    assert_eq!(outcomes(runs(&gate)), [("sum", 400.0, 400.0, Outcome::Pass)]);
    let verdict = gate.verdict();
    assert_eq!((verdict.verdict, verdict.reason), (Outcome::Inconclusive, Some(Reason::NotJudged)));
    let expected = ["new/1: only B has it", "new/2: only B has it", "old: only A has it"];
    assert_eq!(unjudged(&gate), expected);
    assert!(
        gate.ran.stdout.contains("inconclusive: 3 benchmarks not judged: new/1, new/2, old; "),
        "{}",
        gate.ran.stdout
    );
    assert!(
        gate.ran.stderr.contains("the gate cannot pass: 3 benchmarks: new/1 (only B has it)"),
        "{}",
        gate.ran.stderr
    );

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

/// A script that prints lines of Go. Spaces between fields are tabs.
fn go(lines: &[&str]) -> String {
    let lines: Vec<String> = lines.iter().map(|line| line.replace("  ", "\t")).collect();
    format!("cat <<'END'\npkg: x\n{}\nPASS\nEND\n", lines.join("\n"))
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
    assert_eq!(gate.verdict().reason, Some(Reason::NotJudged));
    assert_eq!(
        unjudged(&gate),
        [
            "BenchmarkNone-2: its harness reported no number",
            "BenchmarkP99-2: its harness reported only other numbers: p99-ns"
        ]
    );
    let gate = pair
        .gate(&["--metric", "go", "--metric", "go.p99-ns", "--allow-unjudged", "None"])
        .exits(1);
    let regressed = ("BenchmarkP99-2:p99-ns", 50.0, 150.0, Outcome::Regressed);
    assert!(outcomes(runs(&gate)).contains(&regressed), "{}", gate.ran.stdout);
    assert!(runs(&gate).metrics.iter().any(|metric| metric.unit == "p99-ns"));
    pair.refuses(
        &["--metric", "go.B/op"],
        "no benchmark can be judged: BenchmarkA-2:B/op (its harness reported only other numbers: ns/op)",
    );
    let libtest = "echo 'test a ... bench: 5 ns/iter (+/- 0)'; echo 'test b ... lost'";
    let gate = ScriptPair::new(libtest, libtest).gate(&["--metric", "libtest"]).exits(0);
    assert_eq!(unjudged(&gate), ["b: its harness reported no number"]);
}

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
    assert!(
        gate.ran.stdout.contains("allocs/op, which is zero on one side, exceeds"),
        "{}",
        gate.ran.stdout
    );
    let throughput = |ns: &str| {
        format!(
            "{CRITERION}bench sum {ns}; sed -i 's/\"title\"/\"throughput\":{{\"Bytes\":1000}},\"title\"/' \"$CRITERION_HOME/sum/new/benchmark.json\""
        )
    };
    let gate = ScriptPair::new(&throughput("100"), &throughput("125"))
        .gate(&["--metric", "criterion.throughput"])
        .exits(1);
    // Without a unit of its time, a throughput has none.
    assert_eq!(outcomes(runs(&gate)), [("sum:throughput", 10.0, 8.0, Outcome::Regressed)]);
    assert!(!gate.ran.stdout.contains("bytes"), "{}", gate.ran.stdout);
}

#[test]
fn times_of_zero_are_not_judged() {
    let suite = |ns: &str| {
        go(&[&format!("BenchmarkA    1000    {ns} ns/op"), "BenchmarkB    1000    0 ns/op"])
    };
    let gate = ScriptPair::new(&suite("5"), &suite("5")).gate(&["--metric", "go"]).exits(0);
    assert_eq!(outcomes(runs(&gate)), [("BenchmarkA", 5.0, 5.0, Outcome::Pass)]);
    assert_eq!(unjudged(&gate), ["BenchmarkB: its median is zero"]);
    assert_eq!(gate.verdict().reason, Some(Reason::NotJudged));
    // Small values are no zeros.
    let gate = ScriptPair::new(&suite("0.0000001"), &suite("0.0000002"))
        .gate(&["--metric", "go"])
        .exits(1);
    assert_eq!(runs(&gate).metrics[0].judged.verdict, Outcome::Regressed);
    let gate = ScriptPair::new(&suite("0"), &suite("0"))
        .gate(&["--metric", "go", "--allow-unjudged", "Benchmark"])
        .exits(0);
    assert_eq!((runs(&gate).metrics.len(), gate.verdict().verdict), (0, Outcome::Inconclusive));
    let sentence = gate.ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let reason = "inconclusive: nothing could be judged: BenchmarkA (its median is zero), BenchmarkB (its median is zero); \
                  the runs ended early";
    assert!(sentence.contains(reason) && !sentence.contains("--allow-unjudged"), "{sentence}");
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
            let file = gate.ran.path("verdict.json");
            let report = ["report", file.to_str().unwrap(), "--format", format];
            Osjitter::new(report).run().exits(0).stdout
        };
        let text = rendered(&verdict);
        assert!(text.contains(expected) && !text.contains("(allowed)"), "{format}: {text}");
        let text = rendered(&allowed);
        let expected =
            if format == "json" { "\"allowed\": true" } else { "only A has it (allowed)" };
        assert!(text.contains(expected), "{format}: {text}");
    }
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
            assert_eq!(gate.verdict().reason, Some(Reason::NotJudged), "{}", gate.ran.stdout);
            let expected = if harness == "go" { "BenchmarkB" } else { "b" };
            let found: Vec<String> =
                unjudged(&gate).iter().map(|text| text.replace("s::", "")).collect();
            assert_eq!(found, [format!("{expected}: {reason}")], "{harness}");
            assert_eq!(runs(&gate).metrics.len(), 1, "{harness}");
        }
    }
}

#[test]
fn few_other_values_are_no_judgement() {
    // Each side counts its own runs.
    let suite = |side: &str, times: &str| {
        let counted = COUNTED.replace("/n\"", &format!("/runs-of-{side}\""));
        let lines = go(&["BenchmarkA    1000    5 ns/op", "BenchmarkB    1000    $ns ns/op"]);
        format!("{counted}{times}\n{}", lines.replace("<<'END'", "<<END"))
    };
    let base = suite("a", "ns=0; [ $((n % 8)) != 7 ] || ns=2000");
    let candidate = suite("b", "ns=0; [ $((n % 3)) != 2 ] || ns=200000");
    let gate = ScriptPair::new(&base, &candidate).gate(&["--metric", "go"]).exits(0);
    assert_eq!(unjudged(&gate), ["BenchmarkB: its median is zero"]);
    assert_eq!(gate.verdict().reason, Some(Reason::NotJudged));
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

/// A wrapper hides the exit code, so only the output shows that a program ended early.
#[test]
fn incomplete_output_is_refused() {
    let go_line = "printf 'pkg: x\\nBenchmarkA-2\\t9\\t9 ns/op\\n'";
    let no_pass = "its output has no line PASS after its benchmarks";
    let libtest = "echo 'running 2 tests'; echo 'test a ... bench: 9 ns/iter'";
    let divan = "printf 's   fastest  │ slowest │ median │ mean │ samples │ iters\\n├─ a  9 ns │ 9 ns │ 9 ns │ 9 ns │ 9 │ 9\\n'";
    for (harness, script, says) in [
        ("go", go_line.to_owned(), no_pass),
        ("go", format!("{go_line}; echo 'panic: boom'"), no_pass),
        (
            "go",
            format!("{go_line}; echo FAIL"),
            "ends with \"FAIL\", and names no benchmark that failed",
        ),
        ("libtest", libtest.to_owned(), "its output has no line `test result: …`"),
        (
            "libtest",
            format!(
                "{libtest}; echo 'test result: FAILED. 0 passed; 1 failed; 0 ignored; 1 measured'"
            ),
            "names no benchmark that failed",
        ),
        (
            "libtest",
            format!("{libtest}; echo 'test result: ok. 0 passed; 0 failed; 0 ignored; 2 measured'"),
            "counts 2 measured benchmarks, and 1 are listed",
        ),
        ("divan", divan.to_owned(), "its output has no last row of the table"),
    ] {
        ScriptPair::new(&script, &script).refuses(&["--metric", harness], says);
    }
    // A later run that is incomplete is no pass.
    let later = format!("{COUNTED}{go_line}; [ $n -ge 10 ] || echo PASS");
    let gate = ScriptPair::new(&later, &later).gate(&["--metric", "go"]).exits(4);
    assert_eq!(gate.verdict().reason, Some(Reason::NotMeasured));
}

/// Defines a command that writes the files of pytest and its plugin to the paths in its options. The
/// first argument is the outcome of the second test, and the second one its time.
const PYTEST: &str = r#"suite() {
    outcome=$1 time=$2
    eval "set -- $PYTEST_ADDOPTS"
    for option; do
        case $option in
        --benchmark-json=*) json=${option#*=} ;;
        --junitxml=*) report=${option#*=} ;;
        esac
    done
    printf '{"benchmarks":[{"fullname":"t.py::a","stats":{"data":[0.5]},"options":{"timer":"time"}},
        {"fullname":"t.py::b","stats":{"data":[%s]},"options":{"timer":"time"}}]}' "$time" >"$json"
    printf '<testsuites><testsuite><testcase classname="t" name="a" file="t.py"/>
        <testcase classname="t" name="b" file="t.py">%s</testcase></testsuite></testsuites>' "$outcome" >"$report"
}
"#;

#[test]
fn failed_pytest_tests_are_not_judged() {
    let suite = |outcome: &str, time: &str| format!("{PYTEST}suite '{outcome}' {time}");
    let failure = r#"<failure message="wrong result"/>"#;
    let planned = r#"<skipped type="pytest.xfail" message="wrong result"/>"#;
    let skipped = r#"<skipped type="pytest.skip" message="no GPU"/>"#;
    for (a, b, expected) in [
        ("", failure, "t.py::b: in B, it failed: wrong result"),
        (failure, failure, "t.py::b: it failed: wrong result"),
        (planned, planned, "t.py::b: it failed: an expected failure: wrong result"),
        ("", skipped, "t.py::b: only A has it"),
    ] {
        let pair = ScriptPair::new(&suite(a, "0.2"), &suite(b, "0.1"));
        let gate = pair.gate(&["--metric", "pytest-benchmark"]).exits(0);
        assert_eq!(unjudged(&gate), [expected]);
        assert_eq!(gate.verdict().reason, Some(Reason::NotJudged));
        assert_eq!(outcomes(runs(&gate)), [("t.py::a", 5e8, 5e8, Outcome::Pass)]);
    }
    let pair = ScriptPair::new(&suite("", "0.2"), &suite("", "0.1"));
    let gate = pair.gate(&["--metric", "pytest-benchmark"]).exits(0);
    assert_eq!(gate.verdict().verdict, Outcome::Improved);
}

#[test]
fn control_characters_stay_in_their_cell() {
    // JSON escapes for a line break, a tab, an escape sequence and a separator of lines.
    let name = r"a\\nb\\tc\\u001b[2Jd\\u2028e\\rf";
    let script = format!(
        r#"{CRITERION}bench sum 400; sed -i 's/"sum"/"{name}"/' "$CRITERION_HOME/sum/new/benchmark.json""#
    );
    let verdict = ScriptPair::new(&script, &script).gate(&["--metric", "criterion"]).exits(0);
    assert_eq!(runs(&verdict).metrics[0].name, "a\nb\tc\u{1b}[2Jd\u{2028}e\rf");
    let shown = "a\u{fffd}b\u{fffd}c\u{fffd}[2Jd\u{fffd}e\u{fffd}f";
    for format in ["table", "markdown", "html", "junit"] {
        let file = verdict.ran.path("verdict.json");
        let ran =
            Osjitter::new(["report", file.to_str().unwrap(), "--format", format]).run().exits(0);
        let text = ran.stdout.replace("\\[", "[");
        assert!(text.contains(shown), "{format}: {text}");
    }
}

#[test]
fn failed_harnesses_quote_their_output() {
    let pair = |script: &str| ScriptPair::new(script, script);
    let fails = "echo 'Baseline x must exist'; exit 101";
    pair(fails)
        .refuses(&["--metric", "criterion"], "exit status: 101; stdout: Baseline x must exist");
    let old = "echo 'error: invalid digit found in string' >&2; exit 1";
    pair(old)
        .refuses(&["--metric", "criterion"], "Criterion before 0.4 accepts only whole seconds");
    pair("exit 1").refuses_command(
        "--baseline x",
        &["--metric", "criterion"],
        "has --baseline, which needs",
    );
    pair("true").refuses_command(
        "--export-json x.json",
        &["--metric", "hyperfine"],
        "the command has --export-json",
    );
}

#[test]
fn commands_of_hyperfine_are_named() {
    let results = r#"{"results":[
        {"command":"x","times":[0.5],"parameters":{"n":"1"}},{"command":"x","times":[0.6],"parameters":{"n":"2"}},
        {"command":"y","times":[0.1]},{"command":"y","times":[0.2]}]}"#;
    let script = format!("cat <<'END'\n{results}\nEND\n");
    let gate = ScriptPair::new(&script, &script).gate(&["--metric", "hyperfine"]).exits(0);
    let names: Vec<&str> = runs(&gate).metrics.iter().map(|metric| metric.name.as_str()).collect();
    assert_eq!(
        (names, gate.verdict().verdict),
        (vec!["x n=1", "x n=2", "y", "y#2"], Outcome::Pass)
    );
}

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

/// Prints the benchmarks of libtest that the arguments select. The times of `noisy` differ from run to
/// run. Whether they decide it depends on the order within the pairs.
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
    let arguments = std::fs::read_to_string(pair.path("arguments")).unwrap();
    let count = |line: &str| arguments.lines().filter(|found| *found == line).count();
    // One run of each side is dropped at first, and another one when the selection changes.
    assert_eq!((count("--bench"), count("--bench --exact noisy")), (2 * 27, 2 * 11), "{arguments}");

    // A harness that cannot select benchmarks runs all of them.
    let unable = "case \"$*\" in *--exact*) exit 1 ;; esac\n";
    let suite = |slow| format!("{unable}{}", libtest_suite(slow));
    let pair = ScriptPair::new(&suite("400"), &suite("480"));
    let gate = pair.gate_pairs(&args).exits(1);
    assert_eq!(lengths(&gate), expected, "{}", gate.ran.stdout);
    let arguments = std::fs::read_to_string(pair.path("arguments")).unwrap();
    assert_eq!(arguments, "--bench\n".repeat(2 * 37));
}

/// A script that writes the file of Google Benchmark. Entries are in addition to their name.
fn google_benchmark(entries: &[(&str, &str)]) -> String {
    let entry = |(name, values): &(&str, &str)| {
        format!(r#"{{"run_name":"{name}","run_type":"iteration",{values}}}"#)
    };
    let entries: Vec<String> = entries.iter().map(entry).collect();
    format!(
        "[ $BENCHMARK_OUT_FORMAT = json ] && [ $BENCHMARK_REPETITIONS = 3 ] && cat >\"$BENCHMARK_OUT\" <<'END'\n\
         {{\"benchmarks\":[{}]}}\nEND\necho \"$BENCHMARK_FILTER\" >>\"$HOME_OF_TEST/filters\"\n",
        entries.join(",")
    )
}

#[test]
fn benches_of_google_benchmark_are_judged() {
    let suite = |real: &str, cpu: &str, hits: &str, skipped: &str| {
        let times =
            format!(r#""real_time":{real},"cpu_time":{cpu},"time_unit":"us","hits":{hits}"#);
        let noise = times.replace(real, "9999").replace(cpu, "9999");
        google_benchmark(&[
            ("BM_a", &times),
            ("BM_a", &noise),
            ("BM_a", &noise),
            ("BM_skip", skipped),
            ("BM_nan", r#""real_time":NaN,"time_unit":"us""#),
        ])
    };
    let failed = r#""error_occurred":true,"error_message":"no\nGPU""#;
    let pair = ScriptPair::new(
        &suite("4", "3", "7", failed),
        &suite("5", "3", "8", r#""skipped":true,"skip_message":"no AVX""#),
    );
    let gate = pair.gate(&["--metric", "google-benchmark"]).exits(1);
    assert_eq!(outcomes(runs(&gate)), [("BM_a", 4000.0, 5000.0, Outcome::Regressed)]);
    assert_eq!(runs(&gate).metrics[0].unit, "ns");
    let expected = [
        "BM_nan: its number is negative or not finite",
        "BM_skip: in B, its harness skipped it: no AVX",
    ];
    assert_eq!(unjudged(&gate), expected);

    let numbers = ["google-benchmark.cpu_time", "google-benchmark.hits:BM_a"];
    let numbers = ["--metric", numbers[0], "--metric", numbers[1], "--allow-unjudged", "BM_"];
    let gate = pair.gate(&numbers).exits(1);
    assert_eq!(
        outcomes(runs(&gate)),
        [
            ("BM_a:cpu_time", 3000.0, 3000.0, Outcome::Pass),
            ("BM_a:hits", 7.0, 8.0, Outcome::Regressed)
        ]
    );
    std::fs::remove_file(pair.path("filters")).unwrap();
    pair.gate(&["--metric", "google-benchmark:BM_a", "--metric", "google-benchmark:x$"]).exits(1);
    let filters = std::fs::read_to_string(pair.path("filters")).unwrap();
    // After the first runs, the second filter runs alone.
    let mut lines = filters.lines().enumerate();
    assert!(lines.all(|(i, line)| line == if i == 2 { "x$" } else { "BM_a|x$" }), "{filters}");

    let both = suite("4", "3", "7", failed);
    let gate = ScriptPair::new(&both, &both).gate(&["--metric", "google-benchmark"]).exits(0);
    assert_eq!(gate.verdict().reason, Some(Reason::NotJudged));
    assert_eq!(unjudged(&gate)[1], "BM_skip: it failed: no\nGPU");
    let twice =
        "echo 'Benchmark   Time   CPU   Iterations'; echo 'Benchmark   Time   CPU   Iterations'";
    ScriptPair::new(&format!("{both}{twice}"), &both)
        .refuses(&["--metric", "google-benchmark"], "it ran google-benchmark more than once");
    ScriptPair::new("true", &both)
        .refuses(&["--metric", "google-benchmark"], "in the file that BENCHMARK_OUT names");
}

/// A script that writes the output of JMH: benchmarks with the microseconds of two iterations, and one
/// that fails.
fn jmh(benches: &[(&str, [u32; 2])]) -> String {
    let heading = |name: &str| {
        format!("echo '# Benchmark mode: Average time, time/op'; echo '# Benchmark: {name}'\n")
    };
    let headings: String = benches.iter().map(|(name, _)| heading(name)).collect();
    let entry = |(name, us): &(&str, [u32; 2])| {
        format!(
            r#"{{"benchmark":"{name}","mode":"avgt","primaryMetric":{{"scoreUnit":"us/op","rawData":[[{},{}]]}}}}"#,
            us[0], us[1]
        )
    };
    let entries: Vec<String> = benches.iter().map(entry).collect();
    format!(
        "echo \"$*\" | sed 's/ -rf .*//' >>\"$HOME_OF_TEST/arguments\"\n\
         case \"$*\" in *'-v silent'*) ;; *) {headings}{}echo '# Warmup Iteration   1: <failure>'; echo; echo 'java.lang.Error: x';; esac\n\
         while [ \"$1\" != -rff ]; do shift; done\n\
         cat >\"$2\" <<'END'\n[{}]\nEND\n",
        heading("a.B.broken"),
        entries.join(",")
    )
}

#[test]
fn benches_of_jmh_are_judged() {
    let suite = |us: u32| jmh(&[("a.B.slow", [us, us + 50]), ("a.B.same", [7, 9])]);
    let pair = ScriptPair::new(&suite(100), &suite(120));
    let gate = pair.gate(&["--metric", "jmh:a", "--metric", "jmh:B"]).exits(1);
    assert_eq!(
        outcomes(runs(&gate)),
        [
            ("a.B.same", 7_000.0, 7_000.0, Outcome::Pass),
            ("a.B.slow", 100_000.0, 120_000.0, Outcome::Regressed)
        ]
    );
    assert_eq!(unjudged(&gate), ["a.B.broken: it failed: java.lang.Error: x"]);
    let arguments = std::fs::read_to_string(pair.path("arguments")).unwrap();
    let expected = "-f 1 -wi 3 -w 100ms -i 3 -r 50ms a B";
    assert!(arguments.lines().all(|line| line == expected), "{arguments}");

    let equal = ScriptPair::new(&suite(100), &suite(100));
    let gate = equal.gate(&["--metric", "jmh"]).exits(0);
    assert_eq!(gate.verdict().reason, Some(Reason::NotJudged));
    equal.gate(&["--metric", "jmh", "--allow-unjudged", "broken"]).exits(0);
    let silent = suite(100).replace("\"$*\"", "\"$* -v silent\"");
    ScriptPair::new(&silent, &silent).refuses(
        &["--metric", "jmh"],
        "expected benchmarks on standard output and in the file of -rff",
    );
}

/// A script that writes the files of pytest: benchmarks with the seconds of three rounds, and tests
/// without a result.
fn pytest(benches: &[(&str, &str)], others: &str) -> String {
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
         echo '<testsuites><testsuite>{others}</testsuite></testsuites>' >\"$(path --junitxml)\"\n",
        benches.join(",")
    )
}

#[test]
fn benches_of_pytest_are_judged() {
    let xfail = r#"<testcase classname="t" name="x" file="t.py"><skipped type="pytest.xfail" message="bug 3"/></testcase>"#;
    let unused = r#"<testcase classname="t.C" name="unused" file="t.py"/>"#;
    let other = r#"<testcase classname="t" name="y" file="t.py"><skipped type="pytest.skip" message="z"/></testcase>"#;
    let others = [xfail, unused, other].concat();
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
    let options = std::fs::read_to_string(pair.path("options")).unwrap();
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
    ScriptPair::new("true", "true").refuses_command(
        "--benchmark-json=x.json",
        &["--metric", "pytest-benchmark"],
        "the command has --benchmark-json, which writes the JSON to another place",
    );
}

#[test]
fn benches_of_divan_are_judged() {
    let suite = |median: &str, allocations: &str| {
        format!(
            "[ \"$*\" = '--bench s' ] && [ $DIVAN_MAX_TIME = 0.1 ] && cat <<'END'\n\
             suite     fastest  │ slowest │ median    │ mean │ samples │ iters\n\
             ├─ none   \n\
             ╰─ sort            │         │           │      │         │\n   \
             ├─ 10   1 ns     │ 9 ms    │ {median}  │ 9 ms │ 100     │ 6400\n   \
             │       alloc:   │         │           │      │         │\n   \
             │         1      │ 1       │ {allocations}  │ 1    │         │\n   \
             ╰─ 100  printed 7\n1 ns │ 9 ms │ 8 ms │ 9 ms │ 100 │ 6400\nEND\n"
        )
    };
    let pair = ScriptPair::new(&suite("1.5 ms", "3"), &suite("1.8 ms", "4"));
    let gate = pair.gate(&["--metric", "divan:s"]).exits(1);
    let expected = [
        ("suite::sort::10", 1.5e6, 1.8e6, Outcome::Regressed),
        ("suite::sort::100", 8e6, 8e6, Outcome::Pass),
    ];
    assert_eq!(outcomes(runs(&gate)), expected);
    assert_eq!(unjudged(&gate), ["suite::none: its harness reported no number"]);
    let gate = pair.gate(&["--metric", "divan.alloc:s"]).exits(1);
    assert_eq!(outcomes(runs(&gate)), [("suite::sort::10:alloc", 3.0, 4.0, Outcome::Regressed)]);
    pair.refuses(&["--metric", "divan.p99"], "unknown number \"p99\" of divan: expected median or");
}

#[test]
fn malformed_benches_are_rejected() {
    let good = "bench sum 400";
    let untimed = "echo 'test x ... bench: ?'";
    let broken = "bench sum 400; echo '{\"iters\":[1]' >\"$CRITERION_HOME/sum/new/sample.json\"";
    let zero = "bench sum 400; echo '{\"iters\":[0],\"times\":[0]}' >\"$CRITERION_HOME/sum/new/sample.json\"";
    for (a, b, args, says) in [
        (
            good,
            broken,
            &["--metric", "criterion"][..],
            "sum: sample.json was not written by Criterion",
        ),
        (zero, good, &["--metric", "criterion"], "the times of \"sum\" are invalid"),
        (good, "true", &["--metric", "criterion"], "it ran no benchmark: expected files of Criter"),
        (good, good, &["--metric", "libtest"], "expected lines like `test sort ... bench:"),
        (good, good, &["--metric", "go"], "expected lines like `BenchmarkSort-8"),
        (good, good, &["--metric", "hyperfine"], "is not the JSON of hyperfine"),
        (untimed, untimed, &["--metric", "libtest"], "invalid time \"?\" of x"),
        (good, good, &["--metric", "criterion", "--metric", "go"], "a program has one harness"),
        (good, good, &["--metric", "criterion:"], "expected e.g. criterion:sort"),
        (good, good, &["--metric", "criterion", "--tolerance", "x=5%"], "choose from sum"),
        (good, "exit 3", &["--metric", "criterion"], "exit status: 3"),
    ] {
        criterion_pair(a, b).refuses(args, says);
    }
}

#[test]
fn missing_bench_keeps_earlier_pairs() {
    // The tenth run, counting both sides, is the first without the benchmark.
    let script = format!("{COUNTED}bench sum 400; [ $n -ge 10 ] || bench sort 500");
    let gate = criterion_pair(&script, &script).gate(&["--metric", "criterion"]).exits(4);
    let (verdict, found) = (gate.verdict(), runs(&gate));
    assert!(
        verdict.failure.as_ref().is_some_and(|f| f.contains("a run has no benchmark \"sort\""))
    );
    assert_eq!((found.pairs, found.reason), (4, Some(Reason::NotMeasured)));
}

#[test]
fn late_benches_prevent_passing() {
    // Each side counts its runs; the first one is dropped, and shows the benchmarks.
    let script = |side: &str, late_ns: u64| {
        format!(
            r#"n=$(cat "$HOME_OF_TEST/{side}-runs" 2>/dev/null || echo 0)
            echo $((n + 1)) >"$HOME_OF_TEST/{side}-runs"
            echo "test a ... bench: 1000 ns/iter (+/- 3)"
            [ $n -lt 2 ] || echo "test late ... bench: {late_ns} ns/iter (+/- 3)""#
        )
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

/// A cargo that copies the script `suite` of the package as the executable of its benchmark. Like
/// cargo, it also finds a package above the current directory.
const CARGO: &str = r#"#!/bin/sh
target="${CARGO_TARGET_DIR:-$PWD/target}"
if [ "$1" = metadata ]; then
    echo "{\"target_directory\":\"$target\",\"workspace_root\":\"$PWD\",\"packages\":[]}"
    exit
fi
until [ -f suite ] || [ "$PWD" = / ]; do cd ..; done
[ -f suite ] || { echo "error: no bench target" >&2; exit 101; }
echo "$PWD $*" >>"$CARGO_LOG"
mkdir -p "$target" && cp suite "$target/suite" && chmod +x "$target/suite" || exit 1
cat <<END
{"reason":"compiler-artifact","target":{"kind":["bench"],"name":"suite"},"executable":"$target/suite","manifest_path":"$PWD/Cargo.toml"}
{"reason":"build-finished","success":true}
END
"#;

/// A repository with a package in a subdirectory, whose benchmark became slower.
struct Package {
    home: tempfile::TempDir,
}

impl Package {
    /// Creates the repository; returns `None` if the machine has no git.
    fn new() -> Option<Self> {
        has_program("git", "--version").then_some(())?;
        let package = Self { home: tempfile::tempdir().unwrap() };
        let home = package.home.path();
        std::fs::create_dir_all(home.join("repository/package")).unwrap();
        write_executable(&home.join("cargo"), CARGO);
        package.write_suite("repository/package", "sum 400");
        package.git(&["init", "--quiet"]);
        package.commit();
        package.write_suite("repository/package", "sum 500");
        Some(package)
    }

    /// Writes the benchmark, which has to run in the directory of its package.
    fn write_suite(&self, directory: &str, bench: &str) {
        let script = format!("#!/bin/sh\n{CRITERION}[ -f suite ] && bench {bench}\n");
        std::fs::write(self.home.path().join(directory).join("suite"), script).unwrap();
    }

    /// Makes cargo run these lines first.
    fn extend_cargo(&self, lines: &str) {
        let (interpreter, script) = CARGO.split_once('\n').unwrap();
        let script = format!("{interpreter}\n{lines}{script}");
        write_executable(&self.home.path().join("cargo"), script);
    }

    fn git(&self, args: &[&str]) -> String {
        let mut git = Command::new("git");
        git.arg("-C").arg(self.home.path().join("repository")).args(args);
        remove_repository(&mut git);
        let output = git.output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn commit(&self) {
        self.git(&["add", "."]);
        let author = ["-c", "user.name=x", "-c", "user.email=x@y"];
        self.git(&[&author[..], &["commit", "--quiet", "--message", "x"]].concat());
    }

    fn gate(&self, args: &[&str]) -> Gate {
        Gate::from_ran(self.command(args).run())
    }

    fn command(&self, args: &[&str]) -> Osjitter {
        let home = self.home.path();
        let bench = ["--bench", "suite", "--max-pairs", "24"];
        gate(&[&bench, args].concat())
            .directory(&home.join("repository/package"))
            .env("CARGO", home.join("cargo"))
            .env("CARGO_LOG", home.join("log"))
            .env("HOME_OF_TEST", home)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.home.path().join("log")).unwrap()
    }
}

#[test]
fn revisions_are_built_and_compared() {
    let Some(package) = Package::new() else { return };
    let gate = package.gate(&["--base", "HEAD", "--cargo-flags", "--features fast"]).exits(1);
    let found = runs(&gate);
    assert_eq!(outcomes(found), [("sum", 400.0, 500.0, Outcome::Regressed)]);
    assert_eq!((found.a.as_str(), found.b.as_str()), ("HEAD", "working tree"));
    let log = package.log();
    let flags =
        "bench --no-run --message-format json-render-diagnostics --bench suite --features fast";
    assert!(log.lines().count() == 2 && log.lines().all(|line| line.contains(flags)), "{log}");
    let checkout = log.lines().nth(1).and_then(|line| line.split_once(" bench")).unwrap().0;
    let repository = package.home.path().join("repository/package");
    assert_eq!(checkout.len(), repository.as_os_str().len());
    assert!(checkout.ends_with("/package") && !Path::new(checkout).exists(), "{checkout}");
    let hidden = |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with('.');
    let mut entries = std::fs::read_dir(package.home.path()).unwrap();
    assert!(!entries.any(|entry| hidden(entry.unwrap())));
    assert_eq!(package.git(&["worktree", "list"]).lines().count(), 1);
    let target = package.home.path().join("repository/package/target");
    assert!(target.join("osjitter-base/suite").exists() && target.join("suite").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn same_programs_are_not_measured() {
    let Some(package) = Package::new() else { return };
    let write = |name: &str, text: &str| {
        std::fs::write(package.home.path().join("repository/package").join(name), text).unwrap();
    };
    package.write_suite("repository/package", "sum $(cat input)");
    write("input", "400");
    package.commit();
    write("README.md", "changed");
    let gate = package.gate(&["--base", "HEAD"]).exits(0);
    let found = runs(&gate);
    assert_eq!((found.pairs, found.metrics.len()), (0, 0));
    assert_eq!(found.same_program.as_ref().map(|same| same.opened_files), Some(1));
    let text = &gate.ran.stdout;
    assert!(text.contains("verdict: pass: both sides are the same program"), "{text}");
    let measured = package.gate(&["--base", "HEAD", "--measure-equal"]).exits(0);
    assert_eq!(outcomes(runs(&measured)), [("sum", 400.0, 400.0, Outcome::Pass)]);
    write("input", "500");
    let other_input = package.gate(&["--base", "HEAD"]).exits(1);
    assert_eq!(outcomes(runs(&other_input)), [("sum", 400.0, 500.0, Outcome::Regressed)]);
    let note = &other_input.ran.stderr;
    assert!(note.contains("input, which differs, so they are measured"), "{note}");
}

/// Git passes the index of the commit in progress to its hooks.
#[test]
fn commits_keep_their_tree_in_hooks() {
    let Some(package) = Package::new() else { return };
    let home = package.home.path();
    let repository = home.join("repository");
    package.extend_cargo("[ -z \"$GIT_DIR$GIT_INDEX_FILE\" ] || exit 3\n");
    let write_suite = |tree: &Path, bench: &str| {
        let variables = "[ -z \"$GIT_DIR$GIT_INDEX_FILE\" ] || exit 3";
        let script = format!("#!/bin/sh\n{CRITERION}{variables}\nbench {bench}\n");
        std::fs::write(tree.join("package/suite"), script).unwrap();
    };
    write_suite(&repository, "sum 400");
    package.commit();
    package.git(&["worktree", "add", "--quiet", "--detach", "../linked"]);
    // The hook accepts a regression only, which is that of the commit.
    let hook = format!(
        "#!/bin/sh\ncd package\n\"{}\" gate --bench suite --max-pairs 24 --base HEAD --force --out \"{}\" \
         >&2\n[ $? = 1 ]\n",
        env!("CARGO_BIN_EXE_osjitter"),
        home.join("results").display()
    );
    let hook_path = repository.join(".git/hooks/pre-commit");
    std::fs::create_dir_all(repository.join(".git/hooks")).unwrap();
    write_executable(&hook_path, hook);
    let commit = ["commit", "--quiet", "--message", "x"];
    for (tree, adds_before) in [("repository", false), ("linked", true)] {
        let tree = home.join(tree);
        write_suite(&tree, "sum 500");
        let git = |args: &[&str]| {
            let mut git = Command::new("git");
            git.arg("-C").arg(&tree).args(["-c", "user.name=x", "-c", "user.email=x@y"]).args(args);
            git.env("CARGO", home.join("cargo")).env("CARGO_LOG", home.join("log"));
            git.env("HOME_OF_TEST", home).env_remove("CARGO_TARGET_DIR");
            remove_repository(&mut git);
            let output = git.output().unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{args:?}: {stderr}");
            String::from_utf8(output.stdout).unwrap()
        };
        match adds_before {
            true => {
                git(&["add", "package/suite"]);
                git(&commit);
            }
            false => {
                git(&[&commit[..], &["--all"]].concat());
            }
        }
        let changed = git(&["diff", "--name-only", "HEAD~1", "HEAD"]);
        assert_eq!(changed, "package/suite\n", "{}", tree.display());
        assert_eq!(git(&["status", "--porcelain", "--untracked-files=no"]), "");
    }
}

/// Git finds the repository by the current directory, as it does for the checkout of the base.
#[test]
fn git_directory_of_users_is_ignored() {
    let Some(package) = Package::new() else { return };
    let command = package.command(&["--base", "HEAD"]);
    let ran = command.env("GIT_DIR", "/no/such/directory").run();
    let gate = Gate::from_ran(ran).exits(1);
    assert_eq!(outcomes(runs(&gate)), [("sum", 400.0, 500.0, Outcome::Regressed)]);
    let repository = package.home.path().join("repository/.git");
    let command = package.command(&["--base", "HEAD"]).directory(package.home.path());
    let ran = command.env("GIT_DIR", repository).run();
    Gate::from_ran(ran).refuses("GIT_DIR is ignored");
}

#[test]
fn worktrees_of_killed_gates_are_removed() {
    let Some(package) = Package::new() else { return };
    let abandoned = package.home.path().join(".abandoned");
    let abandoned = abandoned.to_str().unwrap();
    package.git(&["worktree", "add", "--detach", "--quiet", abandoned]);
    package.git(&["worktree", "lock", "--reason", "osjitter gate", abandoned]);
    package.gate(&["--base", "HEAD"]).exits(1);
    assert_eq!(package.git(&["worktree", "list"]).lines().count(), 1);
    assert!(!Path::new(abandoned).exists());
}

/// Git or a user can remove the directory of a killed gate without its entry.
#[test]
fn incomplete_worktrees_block_no_gate() {
    let Some(package) = Package::new() else { return };
    package.gate(&["--base", "HEAD"]).exits(1);
    let log = package.log();
    let checkout = log.lines().nth(1).and_then(|line| line.split_once("/package bench")).unwrap().0;
    for (reason, has_directory) in
        [("osjitter gate", false), ("osjitter gate", true), ("initializing", false)]
    {
        package.git(&["worktree", "add", "--detach", "--quiet", checkout]);
        package.git(&["worktree", "lock", "--reason", reason, checkout]);
        match has_directory {
            true => std::fs::remove_file(Path::new(checkout).join(".git")).unwrap(),
            false => std::fs::remove_dir_all(checkout).unwrap(),
        }
        package.gate(&["--base", "HEAD"]).exits(1);
        let worktrees = package.git(&["worktree", "list"]);
        assert_eq!(worktrees.lines().count(), 1, "{reason}: {worktrees}");
        assert!(!Path::new(checkout).exists());
    }
}

/// A cargo that builds nothing, and waits for a build script instead.
#[cfg(target_os = "linux")]
const WAITING_CARGO: &str = r#"#!/bin/sh
if [ "$1" = metadata ]; then
    echo "{\"target_directory\":\"$PWD/target\",\"workspace_root\":\"$PWD\",\"packages\":[]}"
    exit
fi
sleep 600 &
echo "$!" >"$HOME_OF_TEST/id.new" && mv "$HOME_OF_TEST/id.new" "$HOME_OF_TEST/id"
wait
"#;

#[cfg(target_os = "linux")]
#[test]
fn interrupts_end_the_whole_build() {
    for signal in [Signal::TERM, Signal::QUIT] {
        let Some(package) = Package::new() else { return };
        let home = package.home.path();
        write_executable(&home.join("cargo"), WAITING_CARGO);
        let running = package.command(&["--base", "HEAD"]).start();
        let id = home.join("id");
        // The shell creates the file before it writes to it.
        let build_script =
            poll_until(|| std::fs::read_to_string(&id).ok()?.trim().parse::<u32>().ok());
        assert_eq!(package.git(&["worktree", "list"]).lines().count(), 2);
        running.signal(signal);
        running.ends_within(Duration::from_secs(120)).exits(4);
        poll_until(|| (!is_alive(build_script)).then_some(()));
        std::fs::remove_file(id).unwrap();
        assert_eq!(package.git(&["worktree", "list"]).lines().count(), 1, "{signal:?}");
        let hidden = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.unwrap().file_name().to_string_lossy().starts_with('.')
        };
        assert!(!std::fs::read_dir(home).unwrap().any(hidden), "{signal:?}");
    }
}

/// Cargo finds a package above a directory that has none.
#[test]
fn packages_without_base_are_refused() {
    let Some(package) = Package::new() else { return };
    let repository = package.home.path().join("repository");
    // Each directory with a benchmark is a package of the workspace, named by the file `name`.
    package.extend_cargo(
        r#"if [ "$1" = metadata ]; then
    root=$PWD
    until [ -f "$root/root" ]; do root=${root%/*}; done
    for suite in "$root/suite" "$root"/*/suite; do
        directory=${suite%/suite}
        [ -f "$suite" ] || continue
        name=$(cat "$directory/name" 2>/dev/null || echo "${directory##*/}")
        packages="$packages${packages:+,}{\"name\":\"$name\",\"manifest_path\":\"$directory/Cargo.toml\"}"
    done
    echo "{\"target_directory\":\"$root/target\",\"workspace_root\":\"$root\",\"packages\":[$packages]}"
    exit
fi
"#,
    );
    std::fs::write(repository.join("root"), "").unwrap();
    std::fs::write(repository.join("name"), "tiny").unwrap();
    package.write_suite("repository", "sum 400");
    std::fs::create_dir(repository.join("member")).unwrap();
    std::fs::write(repository.join("member/README.md"), "planned").unwrap();
    package.commit();
    package.write_suite("repository/member", "sum 4000");
    std::fs::create_dir(repository.join("new")).unwrap();
    package.write_suite("repository/new", "sum 4000");
    let in_directory = |directory: &str, base: &str| {
        let command = package.command(&["--base", base]).directory(&repository.join(directory));
        Gate::from_ran(command.run())
    };
    in_directory("new", "HEAD").refuses("--base \"HEAD\" has no directory new: the package is new");
    let other = "cargo builds other packages: tiny in the top directory of --base";
    in_directory("member", "HEAD").refuses(other);
    let clone = package.home.path().join("clone");
    package.git(&["clone", "--quiet", ".", clone.to_str().unwrap()]);
    in_directory("member", clone.to_str().unwrap()).refuses(other);
    // A package that was renamed or moved is compared.
    package.write_suite("repository/package", "sum 600");
    std::fs::write(repository.join("package/name"), "renamed").unwrap();
    let gate = in_directory("package", "HEAD").exits(1);
    assert_eq!(outcomes(runs(&gate)), [("sum", 500.0, 600.0, Outcome::Regressed)]);
    std::fs::remove_file(repository.join("package/name")).unwrap();
    std::fs::write(repository.join("member/name"), "package").unwrap();
    let old = clone.join("package");
    let gate = in_directory("member", old.to_str().unwrap()).exits(1);
    assert_eq!(outcomes(runs(&gate)), [("sum", 500.0, 4000.0, Outcome::Regressed)]);
    // The user names another member.
    std::fs::remove_file(repository.join("member/name")).unwrap();
    let gate = in_directory("member", "../package").exits(1);
    assert_eq!(outcomes(runs(&gate)), [("sum", 600.0, 4000.0, Outcome::Regressed)]);
}

/// All bases are built in one directory, where cargo regards the products of a later build as those of
/// an earlier checkout.
#[cfg(target_os = "linux")]
#[test]
fn gates_wait_for_other_builds() {
    let Some(package) = Package::new() else { return };
    let home = package.home.path();
    package.extend_cargo(
        r#"if [ "$1" = bench ] && mkdir "$HOME_OF_TEST/building" 2>/dev/null; then
    until [ -f "$HOME_OF_TEST/go" ]; do sleep 0.05; done
fi
"#,
    );
    let first = package.command(&["--base", "HEAD"]).start();
    poll_until(|| home.join("building").exists().then_some(()));
    let [mut second, mut interrupted] =
        [(); 2].map(|()| package.command(&["--base", "HEAD"]).start());
    for waiting in [&mut second, &mut interrupted] {
        let line = waiting.says("waiting for the build of another gate");
        assert!(line.contains("repository/package/target"), "{line}");
    }
    // Only the first gate has checked the base out.
    assert_eq!(package.git(&["worktree", "list"]).lines().count(), 2);
    interrupted.signal(Signal::TERM);
    let ran = interrupted.ends_within(Duration::from_secs(120)).exits(4);
    assert!(ran.stderr.contains("interrupted while the benchmark was built"), "{}", ran.stderr);
    std::fs::write(home.join("go"), "").unwrap();
    for gate in [first, second] {
        let gate = Gate::from_ran(gate.ends_within(Duration::from_secs(300))).exits(1);
        assert_eq!(outcomes(runs(&gate)), [("sum", 400.0, 500.0, Outcome::Regressed)]);
    }
    assert_eq!(package.log().lines().count(), 4);
}

/// Standard input of a hook is no terminal, although the tools find one.
#[cfg(target_os = "linux")]
#[test]
fn tools_read_passwords_from_the_terminal() {
    let Some(package) = Package::new() else { return };
    let word = package.home.path().join("word");
    package.extend_cargo(
        r#"if [ "$1" = bench ] && [ ! -f "$HOME_OF_TEST/word" ]; then
    echo "password?" >/dev/tty
    read -r word </dev/tty
    echo "$word" >"$HOME_OF_TEST/word"
fi
"#,
    );
    let (running, mut terminal) = package.command(&["--base", "HEAD"]).start_on_terminal();
    assert!(read_until(&mut terminal, "password?"));
    terminal.write_all(b"secret\n").unwrap();
    let output = std::thread::spawn(move || std::io::copy(&mut terminal, &mut std::io::sink()));
    running.ends_within(Duration::from_secs(120)).exits(1);
    assert_eq!(std::fs::read_to_string(word).unwrap(), "secret\n");
    // The last process of the terminal has ended, which is an error for its reader.
    let _ = output.join().unwrap();
}

/// The server of a compiler cache serves later builds.
#[cfg(target_os = "linux")]
#[test]
fn daemons_of_tools_outlive_gates() {
    let Some(package) = Package::new() else { return };
    let id = package.home.path().join("id");
    package.extend_cargo(
        r#"[ -f "$HOME_OF_TEST/id" ] || {
    sleep 600 >/dev/null 2>&1 &
    echo "$!" >"$HOME_OF_TEST/id"
}
"#,
    );
    package.gate(&["--base", "HEAD"]).exits(1);
    let daemon = read_process_id(&id);
    assert!(is_alive(daemon));
    send_signal(daemon, Signal::KILL);
}

#[test]
fn other_trees_are_built_and_compared() {
    let Some(package) = Package::new() else { return };
    let other = package.home.path().join("other");
    std::fs::create_dir(&other).unwrap();
    package.write_suite("other", "sum 500");
    let args = ["--base", other.to_str().unwrap(), "--candidate-name", "mine", "--metric", "wall"];
    let metric = ["--metric", "criterion", "--min-run-time", "0us", "--tolerance", "wall=9000%"];
    let gate = package.gate(&[&args[..], &metric].concat()).exits(0);
    let found = runs(&gate);
    assert_eq!((found.b.as_str(), found.metrics.len()), ("mine", 2));
    assert!(other.join("target/suite").exists());
}

#[test]
fn failed_builds_are_rejected() {
    let Some(package) = Package::new() else { return };
    package.gate(&["--base", "no-such-revision"]).refuses("git cannot check it out");
    let tag = package.home.path().join("repository/package/target/CACHEDIR.TAG");
    let tag = std::fs::read_to_string(tag).unwrap();
    assert!(tag.starts_with("Signature: 8a477f597d28d172789f06886806bc55\n"), "{tag}");
    // The period is that of the runs, and not of the report.
    let report = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/report.json");
    let limit = ["--limit", "p50=1s", "--report", report, "--subject", "os-interval"];
    let base = ["--base", "no-such-revision", "--period", "2ms"];
    package.gate(&[&base[..], &limit].concat()).refuses("git cannot check it out");
    package.gate(&["--base", "/"]).refuses("cargo cannot build suite of /");
    package.gate(&[]).refuses("--base");
    let both = ["--base", "HEAD", "--candidate-cmd", "x", "--base-cmd", "x"];
    package.gate(&both).refuses("cannot be used with");
    assert_eq!(package.git(&["worktree", "list"]).lines().count(), 1);
}

#[test]
fn bases_of_two_meanings_are_refused() {
    let Some(package) = Package::new() else { return };
    package.git(&["branch", "old"]);
    std::fs::create_dir(package.home.path().join("repository/package/old")).unwrap();
    package
        .gate(&["--base", "old"])
        .refuses("ambiguous --base \"old\": it is a directory and a git");
    package.gate(&["--base", "./old"]).refuses("is built from the package that is judged");
    let gate = package.gate(&["--base", "refs/heads/old"]).exits(1);
    assert_eq!(outcomes(runs(&gate)), [("sum", 400.0, 500.0, Outcome::Regressed)]);
}

#[test]
fn candidate_is_no_base() {
    let Some(package) = Package::new() else { return };
    std::fs::create_dir(package.home.path().join("repository/package/src")).unwrap();
    for base in ["src", "."] {
        package.gate(&["--base", base]).refuses("is built from the package that is judged");
    }
    let gate = package.gate(&["--base", ".", "--measure-equal"]).exits(0);
    assert_eq!(outcomes(runs(&gate)), [("sum", 500.0, 500.0, Outcome::Pass)]);
    // The build of the second side would replace that of the first one.
    let other = package.home.path().join("other");
    std::fs::create_dir(&other).unwrap();
    package.write_suite("other", "sum 400");
    let target = package.home.path().join("repository/package/target");
    std::os::unix::fs::symlink(target, other.join("target")).unwrap();
    package.gate(&["--base", "../../other"]).refuses("cargo builds both sides to the file");
    let features = ["--cargo-flags", "--config x.toml --features target-dir"];
    package.gate(&[&["--base", "HEAD"][..], &features].concat()).exits(1);
    for (flags, named) in [
        ("--target-dir /x", "--target-dir"),
        ("--target-dir=x", "--target-dir"),
        ("--manifest-path x/Cargo.toml", "--manifest-path"),
        ("--config 'build.target-dir=\"/x\"'", "target-dir"),
        ("--config=build.build-dir='\"/x\"'", "build-dir"),
    ] {
        let says = format!("cannot use {named}: the gate builds the package in the current");
        package.gate(&["--base", "HEAD", "--cargo-flags", flags]).refuses(&says);
    }
}
