//! Verifies that the published JSON Schemas match the model.
#![cfg(feature = "schema")]

use std::path::Path;

use files::compare::Comparison;
use files::file::File as _;
use files::find::Find;
use files::gate::baseline::Baseline;
use files::gate::calibration::Calibration;
use files::gate::calibration::runs::RunCalibration;
use files::gate::verdict::Verdict;
use files::report::Report;

/// Environment variable that updates the published schemas.
const UPDATE: &str = "OSJITTER_UPDATE_SCHEMA";

#[test]
fn published_schemas_match_the_model() {
    check("osjitter.report.1.json", &Report::json_schema());
    check("osjitter.comparison.1.json", &Comparison::json_schema());
    check("osjitter.baseline.1.json", &Baseline::json_schema());
    check("osjitter.calibration.1.json", &Calibration::json_schema());
    check("osjitter.run-calibration.1.json", &RunCalibration::json_schema());
    check("osjitter.find.1.json", &Find::json_schema());
    check("osjitter.verdict.1.json", &Verdict::json_schema());
}

fn check(name: &str, schema: &serde_json::Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema").join(name);
    let schema = serde_json::to_string_pretty(schema).unwrap() + "\n";
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, &schema).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    assert!(
        committed == schema,
        "the model of {name} has changed: run with {UPDATE}=1 and read the difference"
    );
}
