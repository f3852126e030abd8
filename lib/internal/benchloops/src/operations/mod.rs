//! Operations of a runtime: their names, their loops, and the runtimes that perform them.

pub mod cases;
pub mod loops;
mod runtimes;
