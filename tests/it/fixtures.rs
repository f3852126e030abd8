//! The files in `tests/fixtures`.

use std::path::PathBuf;

use files::file::File as _;
use files::report::Report;
use serde_json::Value;

use crate::workspace::root;

/// Returns the path of a fixture.
pub fn fixture(name: &str) -> PathBuf {
    root().join("tests/fixtures").join(name)
}

pub fn fixture_text(name: &str) -> String {
    std::fs::read_to_string(fixture(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Returns the report of a run in which every round has ticks, which a new measurement does not
/// guarantee.
pub fn recorded_report() -> Report {
    Report::from_json(&fixture_text("report.json")).expect("a report")
}

/// Returns the same report as JSON.
pub fn recorded_json() -> Value {
    serde_json::from_str(&fixture_text("report.json")).expect("JSON")
}
