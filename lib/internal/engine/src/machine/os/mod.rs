//! What only the operating system can report or do: the one leaf of the program with `unsafe` in
//! it.
//!
//! Every implementation provides the same functions; where a platform has no such thing, they
//! return `None` or an error:
//!
//! - `usage() -> Usage`: CPU time and context switches of this process;
//! - `run_queue_ns()`: time its live threads were runnable and waited for a CPU;
//! - `steal_ns()`: time the hypervisor took from all CPUs;
//! - `cpu_khz()`: frequency of the CPU that this thread is on;
//! - `throttled_ns()`: time its control groups stood still because a quota was used up;
//! - `timer_steps()`: steps by which timers expire, and of the kernel's tick;
//! - `affinity()`, `bind(cpus)`: the CPUs the calling thread may run on;
//! - `timer_slack_ns()`, `set_timer_slack_ns(ns)`: of the calling thread;
//! - `sched()`, `set_sched(class)`: scheduling class of the calling thread;
//! - `thread_cpu_ns()`: CPU time of the calling thread;
//! - `ProcessTree`: a program with everything it starts, to be paused where that can be, and ended as one;
//! - `Scheduling`: how the calling thread is scheduled, to be put back;
//! - `lock_memory()`, `unlock_memory()`, `available_memory()`, `limit_heap_growth()`;
//! - `inherited_rss()`: memory of this process that a program it starts counts as its own;
//! - `open_regular(path)`: a file of someone else's making, opened without following a link and
//!   without waiting;
//! - `lock(directory)`: keeps other processes that ask for it out, until the file that it returns
//!   is closed;
//! - `Accounts`, `SwitchRing`: what the kernel accounts for of a single thread, and each switch of
//!   a thread or a CPU;
//! - `quotas()`, `fault_ns()`, `monotonic_pair()`, `thread_name(id)`, `watch_stops()`,
//!   `continued_ns()`: what else explains a late tick;
//! - `Tracer`, `has_kernel_thread_ids()`, `kernel_functions(names)`, `clocks_ahead_ns()`, `WAITS`,
//!   `current_call(thread)`, `process_threads(process)`, `cpus_allowed(thread)`, `belongs_to_other_user(process)`,
//!   `is_32_bit(process)`: timers, switches and waits as the kernel records them, those of other
//!   programs, too;
//! - `Sleeper`: sleeps the calling thread until an instant; by the kernel's absolute sleep where
//!   there is one;
//! - `RingSleeper`: the same by the wait of an `io_uring`, where that takes an absolute deadline.
#![allow(unsafe_code)]

#[cfg(target_os = "linux")]
#[path = "accounts_linux.rs"]
mod accounts;
#[cfg(not(target_os = "linux"))]
#[path = "accounts_other.rs"]
mod accounts;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
#[path = "calls_linux.rs"]
mod calls;
#[cfg_attr(
    not(all(target_os = "linux", target_pointer_width = "64")),
    allow(dead_code, reason = "only Linux on 64 bits is traced")
)]
mod events;
#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod imp;
#[cfg(not(target_os = "linux"))]
#[path = "other.rs"]
mod imp;
#[cfg(target_os = "linux")]
#[path = "instructions_linux.rs"]
mod instructions;
#[cfg(not(target_os = "linux"))]
#[path = "instructions_other.rs"]
mod instructions;
#[cfg(target_os = "linux")]
#[path = "io_uring_linux.rs"]
mod io_uring;
#[cfg(not(target_os = "linux"))]
#[path = "io_uring_other.rs"]
mod io_uring;
#[cfg(target_os = "linux")]
#[path = "perf_linux.rs"]
mod perf;
#[cfg(unix)]
#[path = "process_unix.rs"]
mod process;
#[cfg(windows)]
#[path = "process_windows.rs"]
mod process;
#[cfg(not(any(unix, windows)))]
#[path = "process_other.rs"]
mod process;
#[cfg(target_os = "linux")]
#[path = "ring_linux.rs"]
mod ring;
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only Linux records switches"))]
mod switches;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
#[path = "tracer_linux.rs"]
mod tracer;
#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
#[path = "trace_other.rs"]
mod tracer;
mod types;

pub use accounts::*;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
pub use calls::{
    WAITS, belongs_to_other_user, cpus_allowed, current_call, is_32_bit, process_threads,
};
pub use events::{
    TRACEPOINTS, ThreadName, TraceEvent, TraceEventKind, TraceReader, TraceScope, TracepointLayout,
};
pub use imp::*;
pub use instructions::Instructions;
pub use io_uring::RingSleeper;
pub use process::ProcessTree;
#[cfg(target_os = "linux")]
pub use ring::SwitchRing;
pub use switches::{DrainedSwitches, SwitchRecord};
pub use tracer::*;
pub use types::{NotAvailable, Sched, ThreadTimes, TimerSteps, TreeUsage, Usage};

/// Opens a regular file for reading: no link is followed where the system can refuse that, and no
/// pipe waited for.
pub fn open_regular(path: &std::path::Path) -> std::io::Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        libc::O_NOFOLLOW | libc::O_NONBLOCK,
    );
    let refused = |what| Err(std::io::Error::other(what));
    if std::fs::symlink_metadata(path)?.is_symlink() {
        return refused("it is a link, not a regular file");
    }
    let file = options.open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { refused("it is not a regular file") }
}

/// Whether an operation failed because the process or the system has no file descriptor left:
/// `EMFILE` or `ENFILE`, which have the same numbers on every Unix.
pub fn is_out_of_descriptors(error: &std::io::Error) -> bool {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    cfg!(unix) && matches!(error.raw_os_error(), Some(ENFILE | EMFILE))
}

/// Waits until no other process has the lock of a directory, and takes it. Where the file system
/// has no locks, on some networks, there is none.
#[cfg(unix)]
pub fn lock(directory: &std::path::Path) -> std::io::Result<std::fs::File> {
    let file = std::fs::File::open(directory)?;
    // SAFETY: the descriptor is open as long as the file, which outlives the call.
    unsafe { libc::flock(std::os::fd::AsRawFd::as_raw_fd(&file), libc::LOCK_EX) };
    Ok(file)
}

/// Waits until no other process has the lock of a directory, and takes it: a file there that nobody
/// else may open, and that goes when it is closed.
#[cfg(windows)]
#[allow(clippy::disallowed_methods, reason = "nothing reports when a file can be opened")]
pub fn lock(directory: &std::path::Path) -> std::io::Result<std::fs::File> {
    use std::os::windows::fs::OpenOptionsExt;
    const DELETE_ON_CLOSE: u32 = 0x0400_0000;
    const SHARING_VIOLATION: i32 = 32;
    loop {
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).share_mode(0).custom_flags(DELETE_ON_CLOSE);
        match options.open(directory.join(".osjitter-lock")) {
            Err(e) if e.raw_os_error() == Some(SHARING_VIOLATION) => {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            other => return other,
        }
    }
}

#[cfg(not(any(unix, windows)))]
pub fn lock(directory: &std::path::Path) -> std::io::Result<std::fs::File> {
    std::fs::File::open(directory)
}

/// CPUs of a list such as `0-3,8`.
pub fn cpu_list(text: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<usize>().ok()?..=last.trim().parse::<usize>().ok()?.min(1 << 16))
    };
    text.split(',').filter_map(range).flatten().collect()
}
