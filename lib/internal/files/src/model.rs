//! The macro that declares the plain data of every file, and the check of published schemas.

/// Declares structs that are written as JSON, reject unknown fields, and have a JSON Schema.
///
/// The structs of a command have a schema in the tests of its crate alone, which needs `schemars` as
/// a dependency of its tests. A condition in parentheses before the structs replaces that of tests.
#[macro_export]
macro_rules! model {
    (($has_schema:meta) $($(#[$meta:meta])* pub struct $name:ident { $($(#[$fmeta:meta])* pub $field:ident: $ty:ty,)* })*) => {$(
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[cfg_attr($has_schema, derive(schemars::JsonSchema))]
        #[serde(deny_unknown_fields)]
        $(#[$meta])*
        pub struct $name { $($(#[$fmeta])* pub $field: $ty,)* }
    )*};
    ($($structs:tt)*) => { $crate::model! { (test) $($structs)* } };
}

/// Declares structs that have a JSON Schema with the feature `schema` of this crate.
macro_rules! own_model {
    ($($structs:tt)*) => { $crate::model! { (feature = "schema") $($structs)* } };
}

pub(crate) use own_model as model;

/// Checks that a model matches its published schema. Rewrites the schema if
/// `OSJITTER_UPDATE_SCHEMA` is set.
///
/// # Panics
/// Panics if the schema differs from the published one, or cannot be read or written.
#[cfg(feature = "schema")]
pub fn check_schema(name: &str, schema: &serde_json::Value) {
    const UPDATE: &str = "OSJITTER_UPDATE_SCHEMA";
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("schema").join(name);
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
