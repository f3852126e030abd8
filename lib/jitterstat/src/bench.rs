//! The files `osjitter.bench/1`: one kind of content for each bench, told by its `bench` key.

pub mod cost;
pub mod dispatch;
pub mod timeout;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Value of the key `schema` in every file of a bench.
pub const SCHEMA: &str = "osjitter.bench/1";

/// Reads the file of a bench of this name.
fn read<T: DeserializeOwned>(text: &str, bench: &str) -> Result<T, String> {
    #[derive(Deserialize)]
    struct Head {
        schema: Option<String>,
        bench: Option<String>,
    }
    let head: Head = serde_json::from_str(text).map_err(|e| format!("not a report: {e}"))?;
    match (head.schema.as_deref(), head.bench.as_deref()) {
        (Some(SCHEMA), Some(named)) if named == bench => {
            serde_json::from_str(text).map_err(|e| format!("not valid: {e}"))
        }
        (schema, named) => Err(format!("schema {schema:?}, bench {named:?} is not {SCHEMA:?}, {bench:?}")),
    }
}

fn write(report: &impl Serialize) -> String {
    serde_json::to_string(report).expect("the model is plain data") + "\n"
}

#[cfg(feature = "schema")]
fn schema_of<T: schemars::JsonSchema>(bench: &str) -> serde_json::Value {
    let mut schema = crate::model::schema_of::<T>(SCHEMA);
    schema["properties"]["bench"]["const"] = bench.into();
    schema["title"] = format!("{SCHEMA}, {bench}").into();
    schema
}
