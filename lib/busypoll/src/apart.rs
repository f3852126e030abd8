//! What is written by one thread, away from what another one reads.

/// In a cache line of its own; in two, since lines are fetched in pairs.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Apart<T>(pub(crate) T);
