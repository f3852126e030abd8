//! The loops that `osjitter bench` times.
//!
//! The program chooses the cases, their number and their order. This crate contains the code
//! between two time stamps and nothing else. Its interface follows the program and may change in
//! any release.
#![forbid(unsafe_code)]
// Internal interface: an item is documented if its name does not say everything.
#![allow(missing_docs, missing_debug_implementations, unreachable_pub)]

pub mod clocks; // cost of reading a clock
pub mod operations; // cost of a runtime's operations
pub mod timeouts; // cost of a timeout around a wait

pub mod batches; // time stamps after batches of operations
