//! Rendering of reports as tables, text, pictures and pages, and the list of output formats.

pub mod bars;
pub mod classes;
pub mod columns;
pub mod command;
pub mod cost;
mod cpus;
pub mod csv;
pub mod entry;
pub mod fitness;
pub mod html;
pub mod label;
pub mod markdown;
pub mod origin;
mod overflow;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod percentile;
pub mod perfetto;
pub mod quantity;
pub mod ranking;
pub mod samples;
pub mod settings;
mod stalls;
mod subject_diagnosis;
pub mod summary;
pub mod svg;
#[cfg(test)]
mod synthetic;
pub mod table;
pub mod tradeoff;
pub mod trust;
mod unexplained;
pub mod why;
