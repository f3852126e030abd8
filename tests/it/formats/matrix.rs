//! Every file of `tests/fixtures/formats`. `expected.json` has the values that the tools print or
//! that the writers of the files find themselves (`scripts/studies/formats/expected.py`).

use std::collections::BTreeSet;

use serde_json::Value;

use super::{fixture, fixture_text, import, run_report};

/// Expected values, which are no fixtures.
const EXPECTED: [&str; 2] = ["expected.json", "hlog.json"];
/// Files without a value, or in a format that is named instead of read.
const EMPTY: [&str; 1] = ["rtla-osnoise-empty-new.txt"];
const REJECTED: [&str; 1] = ["java-double.hlog"];

fn file_names() -> Vec<String> {
    let entries = std::fs::read_dir(fixture("")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| !EXPECTED.contains(&name.as_str())).collect();
    names.sort();
    names
}

#[test]
fn every_file_is_read() {
    for name in file_names() {
        if REJECTED.contains(&name.as_str()) {
            run_report(&fixture(&name), &[]).exits(2);
            continue;
        }
        let report = import(&fixture(&name), &[]);
        let mut subjects = report["subjects"].as_array().unwrap().iter();
        let has_values = subjects.any(|subject| subject["summary"].is_object());
        assert_eq!(has_values, !EMPTY.contains(&name.as_str()), "{name}");
    }
}

#[test]
fn matrix_has_many_writers() {
    let names = file_names();
    // A name begins with that of the writer, except for files without a version.
    let writers: BTreeSet<&str> =
        names.iter().map(|name| name.split('-').next().unwrap()).collect();
    assert!(names.len() >= 60, "{} files", names.len());
    let missing: Vec<&str> = [
        "cyclictest", "oslat", "hwlatdetect", "rtla", "jitterdebugger", "java", "c", "go", "js",
        "python", "ycsb", "vegeta", "wrk2", "bpftrace", "xenomai",
    ]
    .into_iter()
    .filter(|writer| !writers.contains(writer))
    .collect();
    assert!(missing.is_empty(), "no file of {missing:?}");
}

fn expected_values() -> Vec<Value> {
    serde_json::from_str(&fixture_text("expected.json")).unwrap()
}

/// Returns the subject whose id ends with a text.
fn subject_ending<'a>(report: &'a Value, end: &str) -> &'a Value {
    let subjects = report["subjects"].as_array().unwrap();
    let has_end = |subject: &&Value| subject["id"].as_str().unwrap().ends_with(end);
    subjects.iter().find(has_end).unwrap_or_else(|| panic!("{end} in {report:#}"))
}

/// Checks the values of a subject that its tool has printed.
fn check_subject(subject: &Value, expected: &Value) {
    let at = format!("{} of {}", expected["subject"], expected["name"]);
    if expected["count"] == 0 {
        assert!(subject["summary"].is_null(), "{at}");
        return;
    }
    assert_eq!(subject["summary"]["ticks"], expected["count"], "{at}");
    let d = &subject["summary"]["lateness_ns"];
    let tolerance = expected["tolerance"].as_f64().unwrap();
    for key in ["min", "mean", "p50", "p90", "max"] {
        let Some(wanted) = expected[key].as_f64() else { continue };
        let Some(found) = d[key].as_f64() else { continue };
        assert!((found - wanted).abs() <= tolerance, "{key} of {at}: {found}, expected {wanted}");
    }
    if let Some(least) = expected["p99_at_least"].as_f64() {
        let found = d["p99"].as_f64().unwrap();
        let max = d["max"].as_f64().unwrap();
        assert!((least - tolerance..=max).contains(&found), "p99 of {at}: {found}, {least}");
    }
}

#[test]
fn values_are_those_of_the_tools() {
    let expected = expected_values();
    let mut names: Vec<&str> =
        expected.iter().map(|values| values["name"].as_str().unwrap()).collect();
    names.dedup();
    for name in names {
        let report = import(&fixture(name), &[]);
        let of_file = |values: &&Value| values["name"] == name;
        for values in expected.iter().filter(of_file) {
            check_subject(subject_ending(&report, values["subject"].as_str().unwrap()), values);
        }
    }
}

#[test]
fn median_is_known_to_most() {
    let expected = expected_values();
    let with_median = expected.iter().filter(|values| values["p50"].is_number()).count();
    assert!(2 * with_median > expected.len(), "{with_median} of {}", expected.len());
}
