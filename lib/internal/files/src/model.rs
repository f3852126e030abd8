//! How the plain data of every file is declared.

/// Structs that are written as JSON, refuse unknown fields, and are in a JSON Schema with the
/// feature for it.
macro_rules! model {
    ($($(#[$meta:meta])* pub struct $name:ident { $($(#[$fmeta:meta])* pub $field:ident: $ty:ty,)* })*) => {$(
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(deny_unknown_fields)]
        $(#[$meta])*
        pub struct $name { $($(#[$fmeta])* pub $field: $ty,)* }
    )*};
}

pub(crate) use model;
