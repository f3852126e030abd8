//! Tests of suites of Google Benchmark.

use jitterstat::gate::decision::Outcome;

use super::{assert_unjudged, outcomes, unjudged};
use crate::gate::runs::{ScriptPair, runs};

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

    let numbers =
        ["--metric", "google-benchmark.cpu_time", "--metric", "google-benchmark.hits:BM_a"];
    let gate = pair.gate(&[&numbers[..], &["--allow-unjudged", "BM_"]].concat()).exits(1);
    assert_eq!(
        outcomes(runs(&gate)),
        [
            ("BM_a:cpu_time", 3000.0, 3000.0, Outcome::Pass),
            ("BM_a:hits", 7.0, 8.0, Outcome::Regressed)
        ]
    );
    std::fs::remove_file(pair.path("filters")).unwrap();
    pair.gate(&["--metric", "google-benchmark:BM_a", "--metric", "google-benchmark:x$"]).exits(1);
    let filters = pair.text("filters");
    // After the first runs, the second filter runs alone.
    let mut lines = filters.lines().enumerate();
    assert!(lines.all(|(i, line)| line == if i == 2 { "x$" } else { "BM_a|x$" }), "{filters}");

    let both = suite("4", "3", "7", failed);
    let gate = ScriptPair::from_script(&both).gate(&["--metric", "google-benchmark"]).exits(0);
    let expected = ["BM_nan: its number is negative or not finite", "BM_skip: it failed: no\nGPU"];
    assert_unjudged(&gate, &expected);
    let heading = "echo 'Benchmark   Time   CPU   Iterations'\n";
    for (script, says) in [
        (format!("{both}{heading}{heading}"), "it ran google-benchmark more than once"),
        ("true".to_owned(), "in the file that BENCHMARK_OUT names"),
    ] {
        ScriptPair::new(&script, &both).refuses(&["--metric", "google-benchmark"], says);
    }
}
