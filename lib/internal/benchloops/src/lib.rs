//! The loops that `osjitter bench` times. The program chooses what runs, for how long and in what
//! order; what a stamp encloses is here, and nothing else.
//!
//! A crate of its own, as what takes a nanosecond depends on what is inlined into what: this one is
//! compiled as a single unit. Its interface follows the program's needs and is no promise to anyone
//! else.
#![forbid(unsafe_code)]
// No interface for others: an item is documented where there is something to add to its name.
#![allow(missing_docs, missing_debug_implementations, unreachable_pub)]

pub mod clocks; // what a reading of a clock costs
pub mod operations; // what a runtime does
pub mod timeouts; // what a timeout costs

pub mod batches; // a stamp after each batch of operations
