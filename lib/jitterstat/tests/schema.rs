//! The published JSON Schema and the model agree.
#![cfg(feature = "schema")]

use std::path::Path;

/// Set to write the schema anew instead of comparing.
const UPDATE: &str = "JITTERSTAT_UPDATE_SCHEMA";

#[test]
fn the_committed_schema_is_the_model() {
    check("osjitter.report.1.json", &jitterstat::report::json_schema());
}

#[test]
fn the_committed_schema_of_the_timeout_bench_is_the_model() {
    check("osjitter.bench.1.timeout.json", &jitterstat::bench::timeout::json_schema());
}

#[test]
fn the_committed_schema_of_a_comparison_is_the_model() {
    check("osjitter.comparison.1.json", &jitterstat::compare::json_schema());
}

#[test]
fn the_committed_schema_of_a_baseline_is_the_model() {
    check("osjitter.baseline.1.json", &jitterstat::gate::baseline::json_schema());
}

#[test]
fn the_committed_schema_of_a_calibration_is_the_model() {
    check("osjitter.calibration.1.json", &jitterstat::gate::calibration::json_schema());
}

#[test]
fn the_committed_schema_of_a_verdict_is_the_model() {
    check("osjitter.verdict.1.json", &jitterstat::gate::verdict::json_schema());
}

fn check(name: &str, schema: &serde_json::Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema").join(name);
    let schema = serde_json::to_string_pretty(schema).unwrap() + "\n";
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, &schema).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    assert!(committed == schema, "the model has changed: run with {UPDATE}=1 and read the difference");
}
