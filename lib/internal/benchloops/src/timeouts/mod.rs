//! Cost of a timeout around a wait for a message.
//!
//! The loops are timed here. A separate program runs the same loops and counts allocations, timers
//! and readings of the clock.

mod deadline;
pub mod guard;
pub mod guards;
pub mod loops;
pub mod operation_counts;
pub mod tally;
pub mod timing;
pub mod variant;
