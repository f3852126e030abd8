//! Verifies that the published JSON Schemas match the model.
#![cfg(feature = "schema")]

use files::compare::Comparison;
use files::file::File as _;
use files::find::Find;
use files::gate::baseline::Baseline;
use files::gate::calibration::Calibration;
use files::gate::calibration::runs::RunCalibration;
use files::gate::verdict::Verdict;
use files::model::check_schema;
use files::report::Report;

#[test]
fn published_schemas_match_the_model() {
    check_schema("osjitter.report.1.json", &Report::json_schema());
    check_schema("osjitter.comparison.1.json", &Comparison::json_schema());
    check_schema("osjitter.baseline.1.json", &Baseline::json_schema());
    check_schema("osjitter.calibration.1.json", &Calibration::json_schema());
    check_schema("osjitter.run-calibration.1.json", &RunCalibration::json_schema());
    check_schema("osjitter.find.1.json", &Find::json_schema());
    check_schema("osjitter.verdict.1.json", &Verdict::json_schema());
}
