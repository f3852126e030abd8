//! Rendering of reports as tables, text, pictures and pages, and the list of output formats.

pub mod bars;
pub mod classes;
pub mod command;
pub mod cost;
mod cpus;
pub mod fitness;
pub mod html;
pub mod label;
pub mod late_code;
pub mod markdown;
pub mod origin;
mod overflow;
pub mod perfetto;
pub mod ranking;
pub mod settings;
mod stalls;
mod subject_diagnosis;
pub mod subject_sentences;
pub mod summary;
pub mod svg;
#[cfg(test)]
mod synthetic;
pub mod table;
pub mod tradeoff;
pub mod trust;
mod unexplained;
pub mod why;
