//! Tests of the files and streams of results.

use std::path::Path;

#[cfg(unix)]
use files::file::File as _;
#[cfg(unix)]
use files::report::Report;
#[cfg(unix)]
use serde_json::Value;

use super::run;
use crate::osjitter::names_in;
#[cfg(unix)]
use crate::schema;

#[test]
fn forced_run_replaces_whole_result() {
    let home = tempfile::tempdir().unwrap();
    let out = home.path().join("out").display().to_string();
    let measure = |more: &[&str]| {
        run(&["--subject", "nanosleep", "--period", "1ms", "--ticks", "20", "--out", &out])
            .args(more)
            .run()
    };
    measure(&["--svg"]).exits(0);
    // What another command wrote there belongs to the result that is replaced.
    let verdict = "{\"schema\": \"osjitter.verdict/1\"}";
    std::fs::write(Path::new(&out).join("verdict.json"), verdict).unwrap();
    assert!(Path::new(&out).join("histogram-nanosleep_1ms.svg").exists());
    measure(&["--quiet"]).refuses("report.json already exists");
    measure(&["--force"]).exits(0);
    let expected =
        ["over-time.svg", "percentiles.svg", "report.html", "report.json", "tradeoff.svg"];
    assert_eq!(names_in(Path::new(&out)), expected);
}

#[test]
fn simultaneous_runs_keep_every_report() {
    let home = tempfile::tempdir().unwrap();
    let start = |_| {
        run(&["--subject", "nanosleep", "--period", "1ms", "--ticks", "20"])
            .directory(home.path())
            .start()
    };
    let running: Vec<_> = (0..4).map(start).collect();
    for command in running {
        command.ends().exits(0);
    }
    let results = home.path().join("results");
    let has_report = |name: &String| results.join(name).join("report.json").is_file();
    assert_eq!(names_in(&results).iter().filter(|name| has_report(name)).count(), 4);
}

#[cfg(unix)]
#[test]
fn closed_stdout_is_not_an_error() {
    let json = ["--subject", "nanosleep", "--ticks", "20", "--format", "json", "--quiet"];
    let mut running = run(&json).out("").start();
    running.close_stdout();
    let ran = running.ends().exits(0);
    assert_eq!(ran.stderr, "");
    assert_eq!(ran.report().subjects.len(), 1, "the report is written all the same");
}

/// A reader ends the run by closing the stream.
#[cfg(unix)]
#[test]
fn closed_stream_ends_the_run() {
    let home = tempfile::tempdir().unwrap();
    let ticks = ["--subject", "nanosleep", "--period", "1ms", "--ticks", "1M", "--no-samples"];
    // The second run replaces the result of the first one: its reader ended it, not an interrupt.
    for _ in 0..2 {
        let stream = run(&ticks).args(["--format", "jsonl", "--force", "--out"]);
        let stream = stream.args([home.path().join("out")]);
        let text = stream.in_shell(r#""$0" "$@" | head -n 2"#).run().stdout;
        let lines: Vec<Value> = text.lines().map(|line| schema::valid(line, "rounds.1")).collect();
        assert!(lines.len() == 2 && lines.iter().all(|line| line["line"] == "round"), "{text}");
        let written = std::fs::read_to_string(home.path().join("out/report.json")).unwrap();
        assert!(Report::from_json(&written).unwrap().partial);
    }
    assert_eq!(names_in(home.path()), ["out"]);
}
