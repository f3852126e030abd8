//! A run's report drawn, and the formats a result can have.

pub mod bars;
pub mod classes;
pub mod columns;
pub mod cost;
pub mod csv;
pub mod entry;
pub mod fitness;
pub mod formats;
pub mod html;
pub mod label;
pub mod markdown;
pub mod origin;
mod overflow;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod percentile;
pub mod quantity;
pub mod reading;
pub mod samples;
pub mod svg;
pub mod table;
pub mod tradeoff;
pub mod why;
