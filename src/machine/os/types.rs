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

/// A scheduling class to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sched {
    /// Time-sharing: the normal one.
    Other,
    Fifo(u8),
    RoundRobin(u8),
}
