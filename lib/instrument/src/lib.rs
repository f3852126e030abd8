//! What `osjitter` measures with. The program asks, shows and stores; what runs while something is
//! measured is here, with what lies below it.
//!
//! A crate of its own, as a program may be compiled to be small, and a loop that is timed may not:
//! this one is optimised as an application's loop would be. Its interface follows the program's
//! needs and is no promise to anyone else.
#![deny(unsafe_code)]
// No interface for others: an item is documented where there is something to add to its name.
#![allow(missing_docs, missing_debug_implementations, unreachable_pub)]

// In reading order, a floor at a time from the top down; ARCHITECTURE.md is the map.
pub mod measure; // rounds in random order, the loop, the report they become

pub mod scenario; // what is measured, typed once

pub mod load; // what may run beside a subject
pub mod subject; // everything that can be measured

pub mod machine; // facts about the host, tuning, and what only the OS knows
pub mod program; // a command of the user's, as words

pub mod text; // aligning, wrapping, units, Markdown

pub mod exit; // exit codes, and the one error type
