//! Implementation for all platforms except Linux: resources of the process, and a sleep. Nothing
//! else is supported.

use std::io;
use std::time::{Duration, Instant};

use crate::machine::os::types::{Sched, TimerSteps, Usage};

#[cfg(unix)]
#[path = "usage_unix.rs"]
mod process_usage;
#[cfg(windows)]
#[path = "usage_windows.rs"]
mod process_usage;

#[cfg(any(unix, windows))]
pub use process_usage::usage;

fn unsupported<T>() -> io::Result<T> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

#[cfg(not(any(unix, windows)))]
pub fn usage() -> Usage {
    Usage::default()
}

pub fn thread_cpu_ns() -> Option<u64> {
    None
}

pub fn thread_usage() -> Usage {
    Usage::default()
}

pub fn thread_run_queue_ns() -> Option<u64> {
    None
}

pub fn run_queue_ns() -> Option<u64> {
    None
}

pub fn steal_ns() -> Option<u64> {
    None
}

pub fn throttled_ns() -> Option<u64> {
    None
}

pub fn cpu_khz() -> Option<u64> {
    None
}

pub fn timer_steps() -> Option<TimerSteps> {
    None
}

pub fn affinity() -> Option<Vec<usize>> {
    None
}

pub fn bind(_cpus: &[usize]) -> io::Result<()> {
    unsupported()
}

pub fn timer_slack_ns() -> Option<u64> {
    None
}

pub fn set_timer_slack_ns(_slack_ns: u64) -> io::Result<()> {
    unsupported()
}

pub fn sched() -> Option<String> {
    None
}

pub fn set_sched(_sched: Sched) -> io::Result<()> {
    unsupported()
}

/// Requirements of [`set_sched`], for the message if it fails.
pub const SCHED_NEEDS: &str = "a platform on which osjitter can set it (Linux)";

pub fn available_memory() -> Option<u64> {
    None
}

/// Returns zero: a started process does not count the memory of this one.
pub fn inherited_rss() -> u64 {
    0
}

pub fn limit_heap_growth() {}

pub fn has_locked_memory() -> Option<bool> {
    None
}

pub fn lock_memory() -> io::Result<()> {
    unsupported()
}

/// Sleeps the calling thread with the sleep of the standard library.
#[derive(Debug)]
pub struct Sleeper(());

impl Sleeper {
    /// Name of the sleep.
    pub const BACKEND: &'static str = "std::thread::sleep";

    pub fn new() -> io::Result<Self> {
        Ok(Self(()))
    }

    /// Sleeps until `deadline`. Returns immediately if it has passed.
    #[allow(clippy::disallowed_methods, reason = "this sleep is measured")]
    pub fn sleep_until(&self, deadline: Instant) -> io::Result<()> {
        loop {
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return Ok(());
            }
            std::thread::sleep(remaining);
        }
    }
}

/// Placeholder for scheduling parameters, which are not supported.
#[derive(Clone, Copy, Debug)]
pub struct Scheduling(());

impl Scheduling {
    pub fn now() -> io::Result<Self> {
        unsupported()
    }

    pub fn restore(&self) -> io::Result<()> {
        unsupported()
    }

    pub fn with_slice(self, _slice: Duration) -> Self {
        self
    }

    pub fn slice(&self) -> Duration {
        Duration::ZERO
    }
}

pub fn unlock_memory() -> io::Result<()> {
    unsupported()
}
