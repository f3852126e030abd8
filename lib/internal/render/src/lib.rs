//! Renderers of `osjitter`: tables, Markdown, HTML pages, pictures and traces.
//!
//! The crate is published because `cargo install osjitter` needs it. Its interface follows the
//! program and may change in any release.
#![forbid(unsafe_code)]
// Internal interface: an item is documented if its name does not say everything.
#![allow(missing_docs, missing_debug_implementations, unreachable_pub)]

pub mod document;
pub mod formats;
pub mod picture;
pub mod report;
pub mod trace_events;
