//! Atomics of the publication protocol: those of std or, with `--cfg loom`, those of loom, which
//! runs a test under every schedule.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};
