//! Validates the files of osjitter against their published schemas.

use std::path::Path;

use serde_json::Value;

/// Parses a document and checks that it is valid under a schema, such as `report.1`.
pub fn valid(json: &str, name: &str) -> Value {
    let document: Value = serde_json::from_str(json).expect("JSON");
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("lib/internal/files/schema");
    let schema = std::fs::read_to_string(directory.join(format!("osjitter.{name}.json")))
        .expect("a published schema");
    let schema = serde_json::from_str(&schema).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let errors: Vec<String> =
        validator.iter_errors(&document).map(|e| format!("{}: {e}", e.instance_path)).collect();
    assert!(errors.is_empty(), "{errors:?}");
    document
}
