//! How the plain data of every file is declared.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Structs that are written as JSON, refuse unknown fields, and are in a JSON Schema with the feature for it.
macro_rules! model {
    ($($(#[$meta:meta])* pub struct $name:ident { $($(#[$fmeta:meta])* pub $field:ident: $ty:ty,)* })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(deny_unknown_fields)]
        pub struct $name { $($(#[$fmeta])* pub $field: $ty,)* }
    )*};
}

pub(crate) use model;

/// Reads a file of ours: its schema first, so that a newer one is told as such, and not by a field it has.
pub(crate) fn read<T: DeserializeOwned>(text: &str, schema: &str) -> Result<T, String> {
    #[derive(serde::Deserialize)]
    struct Head {
        schema: Option<String>,
    }
    let invalid = |e: serde_json::Error| match e.is_eof() {
        true => format!("not a valid {schema}, it is cut off: {e}"),
        false => format!("not a valid {schema}: {e}"),
    };
    let head: Head = serde_json::from_str(text).map_err(invalid)?;
    match head.schema.as_deref() {
        Some(known) if known == schema => serde_json::from_str(text).map_err(invalid),
        Some(other) => Err(format!("schema {other:?} is not known; this version reads {schema:?}")),
        None => Err(format!("no \"schema\" key; this version reads {schema:?}")),
    }
}

/// Writes a file of ours, for people to read too.
pub(crate) fn write(file: &impl Serialize) -> String {
    serde_json::to_string_pretty(file).expect("the model is plain data") + "\n"
}

/// JSON Schema of a file of ours. The version is part of the shape: another one is another schema.
#[cfg(feature = "schema")]
pub(crate) fn schema_of<T: schemars::JsonSchema>(name: &str) -> serde_json::Value {
    let mut schema = schemars::schema_for!(T).to_value();
    schema["properties"]["schema"]["const"] = name.into();
    schema["title"] = name.into();
    schema
}
