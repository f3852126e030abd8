//! The published JSON Schema and the model agree.
#![cfg(feature = "schema")]

use std::path::Path;

/// Set to write the schema anew instead of comparing.
const UPDATE: &str = "JITTERSTAT_UPDATE_SCHEMA";

#[test]
fn the_committed_schema_is_the_model() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema/osjitter.report.1.json");
    let schema = serde_json::to_string_pretty(&jitterstat::report::json_schema()).unwrap() + "\n";
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, &schema).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    assert!(committed == schema, "the model has changed: run with {UPDATE}=1 and read the difference");
}
