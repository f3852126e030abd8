//! Tests of suites of JMH.

use jitterstat::gate::decision::Outcome;

use super::{assert_unjudged, outcomes, unjudged};
use crate::gate::runs::{ScriptPair, runs};

/// A script that writes the output of JMH: benchmarks with the microseconds of two iterations, and
/// one that fails.
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
    let arguments = pair.text("arguments");
    let expected = "-f 1 -wi 3 -w 100ms -i 3 -r 50ms a B";
    assert!(arguments.lines().all(|line| line == expected), "{arguments}");

    let equal = ScriptPair::from_script(&suite(100));
    let gate = equal.gate(&["--metric", "jmh"]).exits(0);
    assert_unjudged(&gate, &["a.B.broken: it failed: java.lang.Error: x"]);
    equal.gate(&["--metric", "jmh", "--allow-unjudged", "broken"]).exits(0);
    let silent = suite(100).replace("\"$*\"", "\"$* -v silent\"");
    let says = "expected benchmarks on standard output and in the file of -rff";
    ScriptPair::from_script(&silent).refuses(&["--metric", "jmh"], says);
}
