//! Platforms without an implementation of their own: everything says that it is not known here.

use std::io;
use std::time::Instant;

use super::{Sched, Usage};

fn unsupported<T>() -> io::Result<T> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// Not known here.
pub fn usage() -> Usage {
    Usage::default()
}

/// Not known here.
pub fn run_queue_ns() -> Option<u64> {
    None
}

/// Not known here.
pub fn steal_ns() -> Option<u64> {
    None
}

/// Not known here.
pub fn affinity() -> Option<Vec<usize>> {
    None
}

/// Not to be had here.
pub fn bind(_cpu: usize) -> io::Result<()> {
    unsupported()
}

/// Not known here.
pub fn timer_slack_ns() -> Option<u64> {
    None
}

/// Not to be had here.
pub fn set_timer_slack_ns(_slack_ns: u64) -> io::Result<()> {
    unsupported()
}

/// Not known here.
pub fn sched() -> Option<String> {
    None
}

/// Not to be had here.
pub fn set_sched(_sched: Sched) -> io::Result<()> {
    unsupported()
}

/// What is missing when [`set_sched`] is refused.
pub const SCHED_NEEDS: &str = "a platform on which osjitter can set it (Linux)";

/// Not known here.
pub fn available_memory() -> Option<u64> {
    None
}

/// Not to be had here.
pub fn lock_memory() -> io::Result<()> {
    unsupported()
}

/// Absolute sleep of a bare thread: not to be had here.
#[derive(Debug)]
pub struct Sleeper(());

impl Sleeper {
    /// Always an error.
    pub fn new() -> io::Result<Self> {
        unsupported()
    }

    /// Never reached: there is no `Sleeper`.
    pub fn sleep_until(&self, _deadline: Instant) -> io::Result<()> {
        unsupported()
    }
}
