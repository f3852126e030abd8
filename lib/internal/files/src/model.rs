//! The macro that declares the plain data of every file.

/// Declares structs that are written as JSON, reject unknown fields, and have a JSON Schema with
/// the feature `schema`.
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
