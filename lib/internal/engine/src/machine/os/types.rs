//! Types of the interface to the operating system.

use files::report::ThreadSettings;

/// Resources that a process has used so far; `None` if the platform does not report them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// User and system CPU time of all threads.
    pub cpu_ns: Option<u64>,
    /// Context switches by waiting.
    pub switches_voluntary: Option<u64>,
    /// Context switches by being preempted.
    pub switches_involuntary: Option<u64>,
}

/// Resources that all reaped processes of a program have used together.
#[derive(Clone, Copy, Debug, Default)]
pub struct TreeUsage {
    /// User and system CPU time.
    pub cpu_ns: u64,
    /// Largest memory of a process, in bytes.
    pub max_rss: u64,
    /// Context switches by waiting, if the platform reports them.
    pub switches_voluntary: Option<u64>,
    /// Context switches by being preempted.
    pub switches_involuntary: Option<u64>,
    /// Number of processes that still ran when the program itself had exited, and were killed.
    pub killed_processes: u64,
}

/// A program that has just been started.
pub struct StartedTree {
    pub tree: crate::machine::os::ProcessTree,
    pub stderr: Option<std::process::ChildStderr>,
    /// Time just before the start.
    pub started: std::time::Instant,
}

/// Result of a program of which no process is left.
#[derive(Clone, Copy, Debug)]
pub struct ProcessTreeExit {
    pub status: std::process::ExitStatus,
    pub usage: TreeUsage,
}

/// A scheduling class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sched {
    /// The normal class, with time-sharing.
    Other,
    Fifo(u8),
    RoundRobin(u8),
}

/// Times that the kernel accounts for a thread, or the sum over several threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadTimes {
    /// Time on a CPU.
    pub cpu_ns: u64,
    /// Time spent runnable, waiting for a CPU.
    pub run_queue_ns: u64,
}

impl ThreadTimes {
    /// Returns the times since an earlier reading.
    pub fn since(self, before: Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            run_queue_ns: self.run_queue_ns.saturating_sub(before.run_queue_ns),
        }
    }
}

impl std::ops::Add for ThreadTimes {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns + other.cpu_ns,
            run_queue_ns: self.run_queue_ns + other.run_queue_ns,
        }
    }
}

/// Resolutions of the kernel's timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerSteps {
    /// Step by which high-resolution timers expire.
    pub timer_ns: u64,
    /// Period of the kernel's tick.
    pub tick_ns: u64,
}

/// A thread at one moment.
#[derive(Clone, Debug)]
pub struct ThreadReading {
    pub thread: u32,
    /// Whether its process has no children.
    pub is_leaf: bool,
    /// Number of times that it has run.
    pub switches: u64,
    pub settings: ThreadSettings,
}

/// A process of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionProcess {
    pub id: u32,
    /// Id of its process group.
    pub group: u32,
    pub is_stopped: bool,
}
