//! Interface to the operating system. Only this module of the crate contains `unsafe` code.
//!
//! Every implementation provides the same items. Functions that a platform does not support return
//! `None` or an error:
//!
//! - `usage() -> Usage`: CPU time and context switches of this process;
//! - `run_queue_ns()`: time for which its live threads were runnable and waited for a CPU;
//! - `steal_ns()`: time that the hypervisor took from all CPUs;
//! - `cpu_khz()`: frequency of the CPU on which this thread runs;
//! - `throttled_ns()`: time for which its control groups were stopped by a quota;
//! - `timer_steps()`: resolutions of the timers and of the kernel's tick;
//! - `affinity()`, `bind(cpus)`: CPUs on which the calling thread may run;
//! - `timer_slack_ns()`, `set_timer_slack_ns(ns)`: timer slack of the calling thread;
//! - `sched()`, `set_sched(class)`: scheduling class of the calling thread;
//! - `thread_cpu_ns()`, `thread_usage()`, `thread_run_queue_ns()`: CPU time, context switches and
//!   waits for a CPU of the calling thread;
//! - `ProcessTree`: a program with everything that it starts, which can be paused on some platforms
//!   and ended as a whole;
//! - `own_settings()`, `read_threads(process)`: settings of the calling thread, and of the threads
//!   of a running program;
//! - `session_processes(session)`, `is_stopped(process)` on Unix: the processes of a session, and
//!   whether a process is stopped;
//! - `ProcessUsage`: resources that a running program and its processes have used so far;
//! - `Scheduling`: how the calling thread is scheduled, to be put back;
//! - `SteppedAside`, `become_normal()`, `leave_signals_to_others()`, `end_real_time()`: normal
//!   threads in place of real-time ones, so that one that never waits cannot block this process;
//! - `lock_memory()`, `unlock_memory()`, `has_locked_memory()`, `available_memory()`, `limit_heap_growth()`;
//! - `inherited_rss()`: memory of this process that a program it starts counts as its own;
//! - `effective_user()`: the user with whose permissions this process runs, on Unix;
//! - `open_regular(path)`: opens an untrusted file without following a link and without blocking;
//! - `lock(directory)`: locks a directory for other processes that call it, until the returned file
//!   is closed;
//! - `ThreadStats`, `SwitchRing`, `SwitchHistory`: statistics of a single thread, and all or the
//!   last context switches of a thread or a CPU;
//! - `StackRing`, `StackHistory`: all or the last sampled stacks of a program or a thread;
//! - `quotas()`, `fault_ns()`, `monotonic_pair()`, `clock_offsets()`, `thread_id()`, `thread_name(id)`,
//!   `install_stop_handler()`, `continued_ns()`: other facts that explain late ticks;
//! - `Tracer`, `has_kernel_thread_ids()`, `online_cpus()`, `kernel_functions(names)`,
//!   `clocks_ahead_ns()`, `WAITS`, `current_call(thread)`, `process_threads(process)`,
//!   `cpus_allowed(thread)`, `belongs_to_other_user(process)`, `is_32_bit(process)`: recorded
//!   timers, switches and waits of all programs;
//! - `survive_file_size_limit()`, `delay_stop()`, `stop_at_once()`, `take_stop_request()`, `stop()`,
//!   `stop_as_terminal()`, and on Unix `END_SIGNALS`, `is_ignored(signal)`, `survive_termination()`:
//!   signals that would end or stop this process;
//! - `raise_descriptor_limit()` on Unix: lets this process open as many files as it may;
//! - `adopt_children()`, `continue_at_parent_death()` on Unix: make this process the parent of
//!   orphans, and let it continue if it is stopped when it becomes one;
//! - `Sleeper`: sleeps until an instant, with an absolute sleep of the kernel if there is one;
//! - `RingSleeper`: sleeps until an instant in `io_uring_enter`, if that accepts an absolute
//!   deadline.
#![allow(unsafe_code)]

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
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only Linux records switches"))]
mod mapped_files;
mod not_available;
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
#[path = "process_settings_linux.rs"]
mod process_settings;
#[cfg(not(target_os = "linux"))]
#[path = "process_settings_other.rs"]
mod process_settings;
#[cfg(target_os = "linux")]
#[path = "process_usage_linux.rs"]
mod process_usage;
#[cfg(not(target_os = "linux"))]
#[path = "process_usage_other.rs"]
mod process_usage;
#[cfg(target_os = "linux")]
#[path = "real_time_linux.rs"]
mod real_time;
#[cfg(not(target_os = "linux"))]
#[path = "real_time_other.rs"]
mod real_time;
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only Linux records switches"))]
mod record_parts;
#[cfg(target_os = "linux")]
#[path = "ring_linux.rs"]
mod ring;
#[cfg(unix)]
#[path = "signals_unix.rs"]
mod signals;
#[cfg(not(unix))]
#[path = "signals_other.rs"]
mod signals;
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only Linux samples stacks"))]
mod stack_records;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[path = "stack_ring_linux.rs"]
mod stack_ring;
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
#[path = "stack_ring_other.rs"]
mod stack_ring;
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only Linux records switches"))]
mod switches;
#[cfg(target_os = "linux")]
#[path = "thread_stats_linux.rs"]
mod thread_stats;
#[cfg(not(target_os = "linux"))]
#[path = "thread_stats_other.rs"]
mod thread_stats;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
#[path = "tracer_linux.rs"]
mod tracer;
#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
#[path = "trace_other.rs"]
mod tracer;
mod types;

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
pub use calls::{
    WAITS, belongs_to_other_user, cpus_allowed, current_call, is_32_bit, process_threads,
};
pub use events::{
    LayoutError, TRACEPOINTS, ThreadName, TraceEvent, TraceEventKind, TraceReader, TraceScope,
    TracepointLayout,
};
pub use imp::*;
pub use instructions::Instructions;
pub use io_uring::RingSleeper;
pub use mapped_files::MappedFile;
pub use not_available::{NotAvailable, Obstacle};
pub use process::ProcessTree;
#[cfg(unix)]
pub use process::{adopt_children, continue_at_parent_death};
#[cfg(unix)]
pub use process_settings::{is_stopped, session_processes};
pub use process_settings::{own_settings, read_threads};
pub use process_usage::ProcessUsage;
pub use real_time::{SteppedAside, become_normal, end_real_time, leave_signals_to_others};
#[cfg(target_os = "linux")]
pub use ring::{SwitchHistory, SwitchRing};
#[cfg(unix)]
pub use signals::{END_SIGNALS, is_ignored, survive_termination};
pub use signals::{
    delay_stop, stop, stop_as_terminal, stop_at_once, survive_file_size_limit, take_stop_request,
};
pub use stack_records::{STACK_BYTES, StackRecord, StackRecords, StackRegisters};
pub use stack_ring::{SAMPLE_INTERVAL_NS, StackHistory};
pub use switches::{DrainedSwitches, NamedThread, PastSwitches, SwitchRecord};
pub use thread_stats::*;
pub use tracer::*;
pub use types::{
    ProcessTreeExit, Sched, SessionProcess, StartedTree, ThreadReading, ThreadTimes, TimerSteps,
    TreeUsage, Usage,
};

/// Returns the user with whose permissions this process runs.
#[cfg(unix)]
pub fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Lets this process open `descriptors` files, or as many as it may. If that fails, the limit stays
/// as it is.
#[cfg(unix)]
pub fn raise_descriptor_limit(descriptors: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a whole `rlimit` of ours, which the call fills and does not keep.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return;
    }
    let wanted = libc::rlim_t::try_from(descriptors).unwrap_or(libc::rlim_t::MAX);
    if limit.rlim_cur < wanted.min(limit.rlim_max) {
        limit.rlim_cur = wanted.min(limit.rlim_max);
        // SAFETY: the pointer is to a whole `rlimit` of ours, which the call reads and does not keep.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    }
}

/// Opens a regular file for reading, without following a link and without blocking on a pipe.
pub fn open_regular(path: &std::path::Path) -> std::io::Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        libc::O_NOFOLLOW | libc::O_NONBLOCK,
    );
    let reject = |reason| Err(std::io::Error::other(reason));
    if std::fs::symlink_metadata(path)?.is_symlink() {
        return reject("it is a link, not a regular file");
    }
    let file = options.open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { reject("it is not a regular file") }
}

/// Drops an executable file from the page cache, so that the next process that runs it has other
/// physical pages. Without effect if this is not possible: on a file system in memory, or while a
/// process runs it.
#[cfg(target_os = "linux")]
pub fn drop_cached_pages(executable: &std::path::Path) {
    use rustix::fs::{Access, Advice, access, fadvise};
    if access(executable, Access::EXEC_OK).is_err() {
        return;
    }
    if let Ok(file) = open_regular(executable) {
        // The length of zero is the rest of the file. The advice need not be followed.
        let _ = fadvise(&file, 0, None, Advice::DontNeed);
    }
}

/// Without effect on this system.
#[cfg(not(target_os = "linux"))]
pub fn drop_cached_pages(_executable: &std::path::Path) {}

/// Waits for the lock of a directory. Some network file systems have no locks; there, this returns
/// without one.
#[cfg(unix)]
pub fn lock(directory: &std::path::Path) -> std::io::Result<std::fs::File> {
    let file = std::fs::File::open(directory)?;
    let _ = rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive);
    Ok(file)
}

/// Locks a directory like [`lock`], without waiting. Returns `None` if another process has locked it.
#[cfg(unix)]
pub fn try_lock(directory: &std::path::Path) -> std::io::Result<Option<std::fs::File>> {
    let file = std::fs::File::open(directory)?;
    match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        _ => Ok(Some(file)),
    }
}

/// Waits for the lock of a directory.
#[cfg(windows)]
#[allow(clippy::disallowed_methods, reason = "nothing reports when a file can be opened")]
pub fn lock(directory: &std::path::Path) -> std::io::Result<std::fs::File> {
    loop {
        if let Some(lock) = try_lock(directory)? {
            return Ok(lock);
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// Locks a directory: creates a file that no other process can open, and that is deleted when it is
/// closed. Returns `None` if another process has locked the directory.
#[cfg(windows)]
pub fn try_lock(directory: &std::path::Path) -> std::io::Result<Option<std::fs::File>> {
    use std::os::windows::fs::OpenOptionsExt;
    const DELETE_ON_CLOSE: u32 = 0x0400_0000;
    const SHARING_VIOLATION: i32 = 32;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).share_mode(0).custom_flags(DELETE_ON_CLOSE);
    match options.open(directory.join(".osjitter-lock")) {
        Err(e) if e.raw_os_error() == Some(SHARING_VIOLATION) => Ok(None),
        other => other.map(Some),
    }
}

#[cfg(not(any(unix, windows)))]
pub fn lock(directory: &std::path::Path) -> std::io::Result<std::fs::File> {
    std::fs::File::open(directory)
}

#[cfg(not(any(unix, windows)))]
pub fn try_lock(directory: &std::path::Path) -> std::io::Result<Option<std::fs::File>> {
    lock(directory).map(Some)
}

/// Parses a list of CPUs such as `0-3,8`.
pub fn cpu_list(text: &str) -> Vec<usize> {
    text.split(',').filter_map(parse_cpu_range).flatten().collect()
}

fn parse_cpu_range(part: &str) -> Option<std::ops::RangeInclusive<usize>> {
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    let last: usize = last.trim().parse().ok()?;
    Some(first.trim().parse().ok()?..=last.min(1 << 16))
}
