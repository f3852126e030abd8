//! Exit statuses, errors, units, text layout, sorting and shell completion of the `osjitter` commands.
//!
//! The crate is published because `cargo install osjitter` needs it. Its interface follows the
//! program and may change in any release.
#![forbid(unsafe_code)]
// Internal interface: an item is documented if its name does not say everything.
#![allow(missing_docs, missing_debug_implementations, unreachable_pub)]

pub mod amount;
pub mod completion;
pub mod exit;
pub mod position;
pub mod printable;
pub mod sort;
pub mod suggest;
pub mod time;
pub mod units;
pub mod words;
pub mod wrap;
