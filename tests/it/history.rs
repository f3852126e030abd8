//! `osjitter history`, and what a run says of the last of its kind.

use std::path::Path;

use serde_json::{Value, json};

use crate::osjitter::{Osjitter, Ran};

/// A run of a script in which every tick of round r is as late as `lateness_ns(r)`.
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
fn a_run_is_compared_with_the_last_of_its_plan() {
    let directory = tempfile::tempdir().unwrap();
    let of =
        |name, late: i64, ticks| run(directory.path(), name, move |round| late + 10 * round, ticks);
    assert!(!of("first", 10_000, "1000").stdout.contains("Against"), "there was none");
    assert!(!of("shorter", 90_000, "500").stdout.contains("Against"), "its plan differs");
    let again = of("again", 10_000, "1000").stdout;
    assert!(again.contains(": no difference shown in 2 figures."), "{again}");
    let slower = of("slower", 15_000, "1000").stdout.replace('\n', " ");
    assert!(slower.contains("s ago: p"), "{slower}");
    assert!(
        slower.contains(" of scripted +50 % [+49 %, +50 %]; clearly apart 2 of 2 figures"),
        "{slower}"
    );
    // What cannot be read is no run, and breaks nothing.
    std::fs::write(directory.path().join("results/slower/report.json"), "{").unwrap();
    let last = of("last", 10_000, "1000").stdout;
    assert!(last.contains(": no difference shown in 2 figures"), "{last}");
}

#[test]
fn runs_are_listed_by_kind_the_newest_first() {
    let directory = tempfile::tempdir().unwrap();
    for (name, ticks) in [("a", "1000"), ("b", "500"), ("c", "1000")] {
        run(directory.path(), name, |_| 10_000, ticks);
    }
    std::fs::create_dir(directory.path().join("results/d")).unwrap();
    std::fs::write(directory.path().join("results/d/report.json"), "[]").unwrap();
    let json = history(directory.path(), &["--format", "json"]).exits(0);
    assert!(json.stderr.contains("left out: 1 that cannot be read"), "{}", json.stderr);
    let lines: Vec<Value> = serde_json::from_str(&json.stdout).unwrap();
    let of = |key: &str| -> Vec<Value> { lines.iter().map(|line| line[key].clone()).collect() };
    assert_eq!(of("kind"), [1, 2, 1]);
    assert_eq!(of("ticks"), [1000, 500, 1000]);
    let names: Vec<String> = of("directory")
        .iter()
        .map(|d| d.as_str().unwrap().rsplit('/').next().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["c", "b", "a"]);
    assert_eq!(lines[0]["least_late"], json!(["scripted", 10_000]));
    let table = history(directory.path(), &["--kind", "2"]).exits(0).stdout;
    assert!(
        table.contains("scripted") && table.contains("500us") && !table.contains("1000"),
        "{table}"
    );
}

#[test]
fn what_is_not_there_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let ran = history(directory.path(), &[]).exits(2);
    assert!(ran.stderr.contains("there is no directory"), "{}", ran.stderr);
    std::fs::create_dir(directory.path().join("results")).unwrap();
    assert!(history(directory.path(), &[]).exits(0).stdout.starts_with("no run in "));
    let ran = history(directory.path(), &["--kind", "1"]).exits(2);
    assert!(ran.stderr.contains("there is no kind 1"), "{}", ran.stderr);
}
