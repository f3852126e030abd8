//! What is asked of an operating system, and what it answers.

/// What a process has used so far; `None` where the platform does not report it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// User and system CPU time of all threads.
    pub cpu_ns: Option<u64>,
    /// Context switches by waiting.
    pub switches_voluntary: Option<u64>,
    /// Context switches by being preempted.
    pub switches_involuntary: Option<u64>,
}

/// What all processes of a program have used together, as far as they were reaped.
#[derive(Clone, Copy, Debug, Default)]
pub struct TreeUsage {
    /// User and system CPU time.
    pub cpu_ns: u64,
    /// The most memory that one of them held at a time, in bytes.
    pub max_rss: u64,
    /// Context switches by waiting, where the platform reports them.
    pub switches_voluntary: Option<u64>,
    /// Context switches by being preempted.
    pub switches_involuntary: Option<u64>,
}

/// A program of which nothing is left.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    pub status: std::process::ExitStatus,
    pub usage: TreeUsage,
}

/// A scheduling class to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sched {
    /// Time-sharing: the normal one.
    Other,
    Fifo(u8),
    RoundRobin(u8),
}

/// Something that this system, or this process on it, does not offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAvailable {
    pub what: &'static str,
    /// What the system said; empty where it was not asked.
    pub error: String,
    /// What would make it available.
    pub needs: &'static str,
}

impl std::fmt::Display for NotAvailable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let said = if self.error.is_empty() { String::new() } else { format!(": {}", self.error) };
        write!(f, "{}{said}; it needs {}", self.what, self.needs)
    }
}
/// Times that the kernel accounts for a thread, or the sum over several threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadTimes {
    /// Time on a CPU.
    pub cpu_ns: u64,
    /// Time spent runnable, waiting for a CPU.
    pub run_queue_ns: u64,
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
