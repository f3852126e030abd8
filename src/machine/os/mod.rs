//! What only the operating system can report or do: the one leaf of the program with `unsafe` in it.
//!
//! Every implementation provides the same functions; where a platform has no such thing, they return `None` or an error:
//!
//! - `usage() -> Usage`: CPU time and context switches of this process;
//! - `run_queue_ns()`: time its live threads were runnable and waited for a CPU;
//! - `steal_ns()`: time the hypervisor took from all CPUs;
//! - `affinity()`, `bind(cpu)`: the CPUs the calling thread may run on;
//! - `timer_slack_ns()`, `set_timer_slack_ns(ns)`: of the calling thread;
//! - `sched()`, `set_sched(class)`: scheduling class of the calling thread;
//! - `lock_memory()`, `available_memory()`;
//! - `Sleeper`: sleeps the calling thread until an instant; by the kernel's absolute sleep where there is one.
#![allow(unsafe_code)]

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod imp;
#[cfg(not(target_os = "linux"))]
#[path = "other.rs"]
mod imp;
mod types;

pub use imp::*;
pub use types::{Sched, Usage};

/// Whether an operation failed because the process or the system has no file descriptor left: `EMFILE` or `ENFILE`,
/// which have the same numbers on every Unix.
pub fn is_out_of_descriptors(error: &std::io::Error) -> bool {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    cfg!(unix) && matches!(error.raw_os_error(), Some(ENFILE | EMFILE))
}
