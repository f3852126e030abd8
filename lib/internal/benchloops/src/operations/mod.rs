//! What a runtime does, many times over.

pub mod cases;
pub mod loops;
mod runtimes;
