//! Tests of `osjitter history`, and of the comparison with the previous run.

use std::path::Path;

use serde_json::{Value, json};

use crate::osjitter::{Osjitter, Ran};

/// Runs a script in which every tick of round r is late by `lateness_ns(r)`.
fn run(directory: &Path, name: &str, lateness_ns: impl Fn(i64) -> i64, ticks: &str) -> Ran {
    let rounds: Vec<[i64; 1]> = (0..20).map(|round| [lateness_ns(round)]).collect();
    let script = json!({ "scripted": { "lateness_ns": rounds } });
    let plan =
        ["run", "--subject", "scripted", "--round-ticks", "50", "--warmup", "3", "--ticks", ticks];
    let out = directory.join("results").join(name);
    Osjitter::new(plan).args(["--out", out.to_str().unwrap()]).script(&script).run().exits(0)
}

fn history(directory: &Path, more: &[&str]) -> Ran {
    Osjitter::new(["history", directory.join("results").to_str().unwrap()]).args(more).run()
}

#[test]
fn run_is_compared_with_previous() {
    let directory = tempfile::tempdir().unwrap();
    let run_named =
        |name, late: i64, ticks| run(directory.path(), name, move |round| late + 10 * round, ticks);
    assert!(!run_named("first", 10_000, "1000").stdout.contains("Compared"), "there was none");
    assert!(!run_named("shorter", 90_000, "500").stdout.contains("Compared"), "its plan differs");
    let again = run_named("again", 10_000, "1000").stdout;
    assert!(again.contains(": no difference shown in 2 figures."), "{again}");
    let slower = run_named("slower", 15_000, "1000").stdout.replace('\n', " ");
    assert!(slower.contains(" ago: p"), "{slower}");
    assert!(
        slower.contains(" of scripted +50 % [+49 %, +50 %]; 2 of 2 figures differ significantly"),
        "{slower}"
    );
    // An unreadable report is skipped.
    std::fs::write(directory.path().join("results/slower/report.json"), "{").unwrap();
    let last = run_named("last", 10_000, "1000").stdout;
    assert!(last.contains(": no difference shown in 2 figures"), "{last}");
}

#[test]
fn runs_are_listed_by_kind() {
    let directory = tempfile::tempdir().unwrap();
    for (name, ticks) in [("a", "1000"), ("b", "500"), ("c", "1000")] {
        run(directory.path(), name, |_| 10_000, ticks);
    }
    std::fs::create_dir(directory.path().join("results/d")).unwrap();
    std::fs::write(directory.path().join("results/d/report.json"), "[]").unwrap();
    let json = history(directory.path(), &["--format", "json"]).exits(0);
    let skipped = "results/d/report.json: not readable as osjitter.report/1";
    assert!(json.stderr.contains(skipped), "{}", json.stderr);
    let lines: Vec<Value> = serde_json::from_str(&json.stdout).unwrap();
    let values = |key: &str| -> Vec<Value> { lines.iter().map(|line| line[key].clone()).collect() };
    assert_eq!(values("kind"), [1, 2, 1]);
    assert_eq!(values("ticks"), [1000, 500, 1000]);
    let names: Vec<String> = values("directory")
        .iter()
        .map(|d| d.as_str().unwrap().rsplit('/').next().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["c", "b", "a"]);
    assert_eq!(lines[0]["least_late"], Value::Null, "no other subject is higher");
    let table = history(directory.path(), &["--kind", "2"]).exits(0).stdout;
    assert!(table.contains("scripted"), "{table}");
    assert!(table.contains("500us"), "{table}");
    assert!(!table.contains("1000"), "{table}");
}

#[test]
fn lowest_p99_needs_a_competitor() {
    let directory = tempfile::tempdir().unwrap();
    let subject = |late_ns: i64| {
        let rounds: Vec<[i64; 1]> = (0..20).map(|round| [late_ns + 10 * round]).collect();
        json!({ "lateness_ns": rounds })
    };
    for (name, late_ns, lowest) in [
        ("lower", 20_000, json!(["scripted", 10_190])),
        ("equal", 10_000, Value::Null),
        ("higher", 5_000, json!(["scripted-b", 5_190])),
    ] {
        let script = json!({ "scripted": subject(10_000), "scripted-b": subject(late_ns) });
        let out = directory.path().join("results").join(name);
        let subjects = ["run", "--subject", "scripted", "--subject", "scripted-b"];
        let plan = ["--round-ticks", "50", "--warmup", "3", "--ticks", "1000"];
        let args = [&subjects[..], &plan[..], &["--out", out.to_str().unwrap()]].concat();
        Osjitter::new(args).script(&script).run().exits(0);
        let json = history(directory.path(), &["--format", "json"]).exits(0).stdout;
        let lines: Vec<Value> = serde_json::from_str(&json).unwrap();
        let directory = |line: &&Value| line["directory"].as_str().unwrap().ends_with(name);
        let line = lines.iter().find(directory).expect("the run");
        assert_eq!(line["least_late"], lowest, "{name}");
    }
    let file = directory.path().join("results/higher/report.json");
    let mut report: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    report["subjects"][1]["status"] = json!({ "state": "failed", "reason": "it crashed" });
    std::fs::write(&file, report.to_string()).unwrap();
    let json = history(directory.path(), &["--format", "json"]).exits(0).stdout;
    let lines: Vec<Value> = serde_json::from_str(&json).unwrap();
    let higher = lines.iter().find(|line| line["directory"].as_str().unwrap().ends_with("higher"));
    assert_eq!(higher.unwrap()["least_late"], Value::Null, "the lowest one failed");
}

#[test]
fn new_runs_keep_kind_numbers() {
    let directory = tempfile::tempdir().unwrap();
    let kinds = || -> Vec<(String, u64)> {
        let json = history(directory.path(), &["--format", "json"]).exits(0).stdout;
        let lines: Vec<Value> = serde_json::from_str(&json).unwrap();
        let name = |line: &Value| {
            line["directory"].as_str().unwrap().rsplit('/').next().unwrap().to_owned()
        };
        lines.iter().map(|line| (name(line), line["kind"].as_u64().unwrap())).collect()
    };
    let numbered = |runs: &[(&str, u64)]| -> Vec<(String, u64)> {
        runs.iter().map(|(name, kind)| ((*name).to_owned(), *kind)).collect()
    };
    run(directory.path(), "a", |_| 10_000, "1000");
    run(directory.path(), "b", |_| 10_000, "500");
    assert_eq!(kinds(), numbered(&[("b", 2), ("a", 1)]));
    run(directory.path(), "c", |_| 10_000, "250");
    assert_eq!(kinds(), numbered(&[("c", 3), ("b", 2), ("a", 1)]));
}

#[cfg(unix)]
#[test]
fn linked_runs_are_listed_once() {
    use std::os::unix::fs::symlink;
    let directory = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    run(directory.path(), "a", |_| 10_000, "1000");
    run(elsewhere.path(), "b", |_| 10_000, "1000");
    let results = directory.path().join("results");
    symlink(results.join("a"), results.join("A-latest")).unwrap();
    symlink(elsewhere.path().join("results/b"), results.join("b")).unwrap();
    std::fs::create_dir(results.join("c")).unwrap();
    let report = results.join("a/report.json");
    symlink(&report, results.join("c/report.json")).unwrap();
    let json = history(directory.path(), &["--format", "json"]).exits(0).stdout;
    let lines: Vec<Value> = serde_json::from_str(&json).unwrap();
    let name =
        |line: &Value| line["directory"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    let mut names: Vec<String> = lines.iter().map(name).collect();
    names.sort_unstable();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn narrow_history_is_a_table() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["a-run-with-a-long-name", "b"] {
        run(directory.path(), name, |_| 10_000, "500");
    }
    let results = directory.path().join("results");
    let table = |columns: &str| {
        let ran = Osjitter::new([Path::new("history"), &results]).env("COLUMNS", columns).run();
        ran.exits(0).stdout
    };
    let narrow = table("66");
    let lines: Vec<&str> = narrow.lines().collect();
    assert_eq!(lines.len(), 5, "a title, a heading, two runs and a note: {narrow}");
    assert!(lines[2].starts_with('b') && lines[3].starts_with("a-run"), "{narrow}");
    assert!(lines[4].contains("left out") && lines[4].contains("ticks"), "{narrow}");
    let wide = table("200");
    assert!(!wide.contains("left out") && wide.contains("ticks"), "{wide}");
}

#[test]
fn missing_directory_or_kind_is_rejected() {
    let directory = tempfile::tempdir().unwrap();
    history(directory.path(), &[]).refuses("not a directory");
    std::fs::create_dir(directory.path().join("results")).unwrap();
    assert!(history(directory.path(), &[]).exits(0).stdout.starts_with("no run in "));
    history(directory.path(), &["--kind", "1"]).refuses("unknown kind 1");
}

/// Root can read every directory, so a process limit takes the file descriptors away.
#[cfg(target_os = "linux")]
#[test]
fn unreadable_directory_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let results = directory.path().join("results");
    run(directory.path(), "a", |_| 10_000, "1000");
    let history = |descriptors: u32| {
        let history = Osjitter::new([Path::new("history"), &results]);
        history.in_shell(&format!(r#"ulimit -n {descriptors} && exec "$0" "$@""#)).run()
    };
    // Standard streams and the pipe of the signal handler need five.
    let failed = history(5).exits(4);
    let says = format!("error: cannot read {}", results.display());
    assert!(failed.stderr.starts_with(&says) && failed.stdout.is_empty(), "{}", failed.stderr);
    history(64).exits(0);
}
