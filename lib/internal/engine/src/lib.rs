//! The measuring engine of `osjitter`: scenarios, subjects, measuring loops and the machine.
//!
//! It is published because `cargo install osjitter` needs it. Its interface follows the program and
//! may change in any release.
#![deny(unsafe_code)]
// Internal interface: an item is documented if its name does not say everything.
#![allow(missing_docs, missing_debug_implementations, unreachable_pub)]

// From the top layer down; ARCHITECTURE.md is the map.
pub mod measure; // rounds in random order, the measuring loop, the report

pub mod scenario; // subjects, periods, runtimes, rounds

pub mod load; // loads that run during a measurement
pub mod load_error;
pub mod subject; // everything that can be measured

pub mod stacks; // functions on sampled stacks

pub mod machine; // facts about the host and changes to it
pub mod panics; // panics of runtimes as errors
pub mod program; // the command line of a user's program
pub mod program_error;
