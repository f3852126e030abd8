//! The command line of `osjitter`: exit statuses, errors, units, text layout, messages and progress,
//! bounded reading and atomic writing of files.
//!
//! The crate is published because `cargo install osjitter` needs it. Its interface follows the
//! program and may change in any release.
#![forbid(unsafe_code)]
// Internal interface: an item is documented if its name does not say everything.
#![allow(missing_docs, missing_debug_implementations, unreachable_pub)]

pub mod amount;
pub mod completion;
pub mod exit;
pub mod file_io;
pub mod interrupt;
pub mod position;
pub mod printable;
pub mod suggest;
pub mod terminal;
pub mod time;
pub mod units;
pub mod words;
pub mod wrap;
