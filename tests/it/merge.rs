//! `osjitter merge` from outside: nothing is lost, and what cannot be joined is refused.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn osjitter(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_osjitter")).args(args).output().expect("the binary runs")
}

fn a_run(home: &Path, name: &str, more: &[&str]) -> String {
    let directory = home.join(name);
    let mut args = vec!["run", "--subject", "nanosleep", "--subject", "tokio-interval-skip", "--ticks", "200", "--out"];
    args.push(directory.to_str().unwrap());
    args.extend(more);
    let run = osjitter(&args);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    directory.join("report.json").to_str().unwrap().to_owned()
}

fn parsed(text: &[u8]) -> Value {
    serde_json::from_slice(text).unwrap()
}

fn all_lateness(subject: &Value) -> Vec<i64> {
    let rounds = subject["rounds"].as_array().unwrap().iter();
    rounds.flat_map(|r| r["lateness_ns"].as_array().unwrap()).map(|v| v.as_i64().unwrap()).collect()
}

#[test]
fn every_tick_and_every_count_of_both_is_in_the_sum() {
    let home = tempfile::tempdir().unwrap();
    let files = [a_run(home.path(), "a", &[]), a_run(home.path(), "b", &[])];
    let merged = osjitter(&["merge", &files[0], &files[1]]);
    assert!(merged.status.success(), "{}", String::from_utf8_lossy(&merged.stderr));
    let merged = parsed(&merged.stdout);
    let parts = files.each_ref().map(|f| parsed(&std::fs::read(f).unwrap()));
    for (i, subject) in merged["subjects"].as_array().unwrap().iter().enumerate() {
        let both: Vec<i64> = parts.iter().flat_map(|p| all_lateness(&p["subjects"][i])).collect();
        assert_eq!(all_lateness(subject), both);
        assert_eq!(subject["histogram"]["count"], both.len());
        assert_eq!(subject["summary"]["lateness_ns"]["max"], *both.iter().max().unwrap());
        for count in ["ticks", "delivered", "coalesced", "skipped", "missed", "early"] {
            let sum: u64 = parts.iter().map(|p| p["subjects"][i]["summary"][count].as_u64().unwrap()).sum();
            assert_eq!(subject["summary"][count], sum, "{count}");
        }
    }
    let table = home.path().join("merged.json");
    std::fs::write(&table, merged.to_string()).unwrap();
    assert!(osjitter(&["report", table.to_str().unwrap()]).status.success());
}

#[test]
fn what_differs_or_has_no_samples_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let one = a_run(home.path(), "a", &[]);
    let other = a_run(home.path(), "b", &["--period", "1ms"]);
    let bare = a_run(home.path(), "c", &["--no-samples"]);
    for (files, says) in [([&one, &other], "the plans differ"), ([&one, &bare], "without loss")] {
        let refused = osjitter(&["merge", files[0], files[1]]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&refused.stderr).contains(says) && refused.stdout.is_empty());
    }
    let forced = osjitter(&["merge", "--force", &one, &other]);
    assert!(forced.status.success());
    let warnings = parsed(&forced.stdout)["warnings"].to_string();
    assert!(warnings.contains("merged-plans-differ"), "{warnings}");
}

#[test]
fn many_instances_of_a_ticker_are_merged_with_what_they_coalesced() {
    let home = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    for name in ["a", "b"] {
        let directory = home.path().join(name);
        let out = directory.to_str().unwrap();
        // So short a period that ticks share wake-ups, with rounds of few ticks: more of them than one instance has.
        let args =
            ["run", "--subject", "periodic-interval", "--instances", "8", "--period", "2us", "--round-ticks", "20"];
        let run = osjitter(&[&args[..], &["--ticks", "100", "--out", out]].concat());
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        files.push(directory.join("report.json").to_str().unwrap().to_owned());
    }
    let merged = osjitter(&["merge", &files[0], &files[1]]);
    assert!(merged.status.success(), "{}", String::from_utf8_lossy(&merged.stderr));
    let merged = parsed(&merged.stdout);
    let parts: Vec<Value> = files.iter().map(|f| parsed(&std::fs::read(f).unwrap())).collect();
    for count in ["ticks", "delivered", "coalesced", "skipped", "missed"] {
        let sum: u64 = parts.iter().map(|p| p["subjects"][0]["summary"][count].as_u64().unwrap()).sum();
        assert_eq!(merged["subjects"][0]["summary"][count], sum, "{count}");
    }
}
