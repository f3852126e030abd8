//! Tests of `osjitter compare` with the verdicts of gated programs.

use std::process::Command;

use files::compare::{Comparison, Finding, Method};
use files::file::File as _;

use super::{ScriptPair, throughput_lines};
use crate::osjitter::Osjitter;
use crate::schema;

#[test]
fn gated_programs_are_compared() {
    let sides = ScriptPair::from_lines(&throughput_lines("1000"), &throughput_lines("900"));
    let gate = sides.gate(&["--metric", "throughput"]).exits(1);
    let first = gate.verdict();
    // On another day the machine is twice as fast, and the candidate equals the baseline.
    let mut second = first.clone();
    second.started_utc = "2000-01-01T00:00:00Z".to_owned();
    second.runs.as_mut().unwrap().metrics[0].values.fill([2_000.0; 2]);
    let kept = sides.path("kept");
    std::fs::create_dir(&kept).unwrap();
    std::fs::write(kept.join("verdict.json"), first.to_json()).unwrap();
    std::fs::write(sides.path("two.json"), second.to_json()).unwrap();
    let compare =
        |args: &[&str]| Osjitter::new(["compare"]).args(args).directory(sides.home.path()).run();
    let comparison = |a: &str, b: &str| {
        let json = compare(&[a, b, "--format", "json"]).exits(0).stdout;
        schema::valid(&json, "comparison.1");
        let comparison = Comparison::from_json(&json).unwrap();
        assert!(comparison.subjects.is_empty());
        comparison
    };

    let paired = comparison("kept#baseline", "kept");
    let [metric] = &paired.metrics[..] else { panic!("{paired:?}") };
    assert_eq!(
        (metric.method, metric.all.finding, metric.all.ratio),
        (Method::PairedByRound, Finding::Worse, 0.9)
    );
    assert_eq!((metric.all.a, metric.all.b, metric.all.runs_a), (1_000.0, 900.0, 24));
    assert_eq!(paired.b.program.as_deref(), Some(first.runs.as_ref().unwrap().b.as_str()));
    let days = comparison("kept", "two.json#candidate");
    let relative = days.metrics[0].beside_baseline.as_ref().unwrap();
    assert_eq!(
        (days.metrics[0].method, relative.finding, relative.a, relative.b),
        (Method::TwoRuns, Finding::Better, 0.9, 1.0)
    );
    assert!((days.metrics[0].all.ratio - 2_000.0 / 900.0).abs() < 1e-4);
    assert_eq!(days.warnings[0].code, "two-gates");

    let table = compare(&["kept", "two.json"]).exits(0).stdout;
    assert!(table.contains("throughput, throughput rel: B is better."), "{table}");
    assert!(table.contains("2.22 [2.22, 2.22]"), "{table}");
    let markdown = compare(&["kept#baseline", "kept", "--format", "markdown"]).exits(0).stdout;
    assert!(markdown.contains("| throughput | 1000 req/s | 900 req/s | 0.900 "), "{markdown}");
    for (args, says) in [
        (&["kept", "kept"][..], "kept/verdict.json#baseline"),
        (
            &["kept#baseline", "kept#baseline"],
            "the other program of kept/verdict.json is kept/verdict.json#candidate",
        ),
        (&["kept#old", "kept"], "write kept/verdict.json#baseline or kept/verdict.json#candidate"),
        (&["kept", "two.json", "--format", "svg"], "there is a table"),
    ] {
        compare(args).refuses(says);
    }
    // A pipe is read only once.
    let pipe = sides.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let text = first.to_json();
    let writer = std::thread::spawn(move || std::fs::write(pipe, text));
    assert!(compare(&["kept#baseline", "pipe"]).exits(0).stdout.contains("B is worse"));
    writer.join().unwrap().unwrap();
    second.host.kernel = Some("another".to_owned());
    std::fs::write(sides.path("elsewhere.json"), second.to_json()).unwrap();
    compare(&["kept", "elsewhere.json"]).refuses("kernel");
    assert!(compare(&["kept", "elsewhere.json", "--force"]).exits(0).stdout.contains("FORCED"));
    second.runs = None;
    std::fs::write(sides.path("lateness.json"), second.to_json()).unwrap();
    compare(&["kept", "lateness.json"]).refuses("without whole runs");
}
