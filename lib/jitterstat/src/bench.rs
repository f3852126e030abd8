//! The files `osjitter.bench/1`: one kind of content for each bench, told by its `bench` key.

pub mod cost;
pub mod dispatch;
pub mod timeout;

/// Value of the key `schema` in every file of a bench.
pub const SCHEMA: &str = "osjitter.bench/1";
