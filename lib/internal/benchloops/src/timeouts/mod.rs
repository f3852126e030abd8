//! What a timeout around a wait costs, with a message each time. The same loops are timed here, and
//! counted in a program of their own.

mod deadline;
pub mod guard;
pub mod guards;
pub mod loops;
pub mod operation_counts;
pub mod tally;
pub mod timing;
pub mod variant;
