//! `osjitter bench clock` from outside.

use std::process::{Command, Output};

use serde_json::Value;

use super::{again, same_pictures};

fn bench_clock(arguments: &[&str]) -> Output {
    let fixed = ["bench", "clock", "--quiet", "--order-reads", "20000", "--drift", "2ms"];
    let output = Command::new(env!("CARGO_BIN_EXE_osjitter")).args(fixed).args(arguments).output();
    output.expect("the binary runs")
}

#[test]
fn the_table_the_file_and_the_picture_tell_of_the_same_clocks() {
    let out = tempfile::tempdir().unwrap();
    let output = bench_clock(&["--threads", "1", "--threads", "2", "--out", out.path().to_str().unwrap()]);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let table = String::from_utf8(output.stdout).unwrap();
    let file = out.path().join("clock.json");
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!((again(&file, &[]), again(&file, &["--format", "json"])), (table.clone(), text.clone()));
    assert!(again(&file, &["--format", "markdown"]).contains("| clock |"));
    same_pictures(&file);
    let json: Value = serde_json::from_str(&text).unwrap();
    let svg = std::fs::read_to_string(out.path().join("clock.svg")).unwrap();
    assert_eq!((json["schema"].as_str(), json["bench"].as_str()), (Some("osjitter.bench/1"), Some("clock")));
    let costs = json["costs"].as_array().unwrap();
    assert!(costs.len() >= 10, "five clocks at least, on one thread and on two");
    for cost in costs {
        let clock = cost["clock"].as_str().unwrap();
        assert!(table.contains(clock) && svg.contains(clock), "{clock}");
        assert!(cost["median_ns"].as_f64().unwrap() > 0.0, "{cost}");
    }
    for order in json["order"].as_array().unwrap() {
        let strict = order["clock"] != "tach-instant" && order["clock"] != "tach-ordered";
        assert!(!strict || order["violations"] == 0, "{order}");
    }
    assert_eq!(json["absurd"]["absurd"], 0);
    assert!(json["drift"][0]["span_ns"].as_u64().unwrap() >= 2_000_000, "never shorter than asked");
}

#[test]
fn json_goes_to_standard_output_and_bad_usage_is_refused_before_anything_is_measured() {
    let output = bench_clock(&["--threads", "1", "--format", "json", "--load"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["drift"][0]["loaded"], true);
    for wrong in [["--threads", "0"], ["--drift", "soon"], ["--drift", "0s"], ["--order-reads", "0"]] {
        assert_eq!(bench_clock(&wrong).status.code(), Some(2), "{wrong:?}");
    }
}
