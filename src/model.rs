//! The macro that declares the structs of the commands' JSON files, and the check of their schemas.

/// Declares structs that are written as JSON, reject unknown fields, and have a published JSON
/// Schema.
macro_rules! model {
    ($($(#[$meta:meta])* pub struct $name:ident { $($(#[$fmeta:meta])* pub $field:ident: $ty:ty,)* })*) => {$(
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        #[serde(deny_unknown_fields)]
        $(#[$meta])*
        pub struct $name { $($(#[$fmeta])* pub $field: $ty,)* }
    )*};
}

pub(crate) use model;

/// Checks that a model matches its published schema. Rewrites the schema if
/// `OSJITTER_UPDATE_SCHEMA` is set.
#[cfg(test)]
pub fn check_schema(name: &str, schema: &serde_json::Value) {
    const UPDATE: &str = "OSJITTER_UPDATE_SCHEMA";
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("lib/internal/files/schema")
        .join(name);
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
