//! The input of the explanation, with the ticks and threads of a round, and its output.

use std::collections::HashMap;

use super::parts::{MeasurableParts, Parts};

/// A tick to explain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// Time at which it was due.
    pub deadline_ns: i64,
    /// Time at which its task ran.
    pub wake_ns: i64,
    /// Index of its thread.
    pub thread: usize,
}

/// A reading of a thread's accounts. An account is `None` if the platform does not report it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Time for which the thread has waited for a CPU.
    pub delay_ns: Option<u64>,
    /// CPU time that the thread has used.
    pub cpu_ns: Option<u64>,
    /// Number of page faults without I/O.
    pub minor_faults: Option<u64>,
    /// Number of periods in which its control groups were throttled.
    pub throttled: Option<u64>,
}

/// A cycle of a thread, from one park to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// Time before the park.
    pub park_ns: i64,
    /// Accounts at that time.
    pub reading: Reading,
    /// Whether reading the accounts was interrupted.
    pub torn: bool,
    /// Time of the return from the park; `park_ns` for a thread that does not sleep, and `None` if
    /// unknown.
    pub unpark_ns: Option<i64>,
}

/// A switch of a thread onto its CPU or off it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Time of the switch.
    pub at_ns: i64,
    /// Kind of the switch.
    pub kind: SwitchKind,
    /// The CPU.
    pub cpu: u32,
}

/// The kind of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchKind {
    /// The thread runs from then on.
    On,
    /// The thread was preempted although it could continue.
    Preempted,
    /// The thread waits for an event.
    Waits,
}

/// The data of one thread in one round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// Cycles in order of time. The last one only marks the end of the previous one.
    pub cycles: Vec<Cycle>,
    /// Switches in order of time; `None` if they were not recorded, or some were lost.
    pub switches: Option<Vec<Switch>>,
}

/// Number of the thread that runs on a CPU while it is idle.
pub const IDLE_THREAD: u32 = 0;

/// The intervals of each CPU, in order of time.
pub type CpuIntervals = HashMap<u32, Vec<CpuInterval>>;

/// Interval in which a CPU runs one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuInterval {
    /// Start of the interval, which ends with the next one of that CPU.
    pub at_ns: i64,
    /// ID of the thread; [`IDLE_THREAD`] if the CPU is idle.
    pub thread: u32,
}

/// A time in which a witness was due, but was neither woken nor waiting for a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WitnessGap {
    /// Time at which the witness was due.
    pub from_ns: i64,
    /// Time at which the witness was ready.
    pub to_ns: i64,
}

/// A time in which no witness was woken on any CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standstill {
    /// Time at which the last witness was due.
    pub from_ns: i64,
    /// Time at which the first witness was ready.
    pub to_ns: i64,
    /// Whether other threads ran during that time, so that only the process was stopped and not the
    /// machine.
    pub others_ran: bool,
}

/// The conditions of a whole round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoundConditions {
    /// Cost of a page fault.
    pub fault_ns: Option<u64>,
    /// Length of the control group's period; `None` without a quota.
    pub quota_period_ns: Option<u64>,
    /// Timer slack, by which the kernel may delay a timer; `None` for timers without slack.
    pub slack_ns: Option<u64>,
    /// Maximum time of the usual path from the timer to the task.
    pub path_ns: u64,
    /// Usual CPU time of a tick on a thread without other tasks; `None` if the thread has other
    /// tasks.
    pub usual_cpu_ns: Option<u64>,
    /// Times at which the process was continued after a stop.
    pub continued_ns: Vec<i64>,
    /// Time that the hypervisor stole, as it reported.
    pub steal_ns: u64,
    /// Standstills in order of time.
    pub standstills: Vec<Standstill>,
}

impl RoundConditions {
    /// Returns the total duration of the standstills.
    #[must_use]
    pub fn standstill_ns(&self) -> u64 {
        self.standstills.iter().map(|s| span(s.from_ns, s.to_ns)).sum()
    }

    /// Returns the causes that can be measured under these conditions.
    #[must_use]
    pub fn known(&self) -> MeasurableParts {
        MeasurableParts {
            quota: self.quota_period_ns.is_some(),
            faults: self.fault_ns.is_some(),
            slack: self.slack_ns.is_some(),
        }
    }
}

/// The lateness of a tick by cause.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Breakdown {
    /// The lateness by cause. The parts add up to it.
    pub parts: Parts,
    /// Times in which the thread of the tick was ready but did not run, even if its CPU was idle;
    /// empty without recorded switches.
    pub queued: Vec<QueueWait>,
}

/// A time in which a thread was ready but did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueWait {
    /// Start of the wait.
    pub from_ns: i64,
    /// End of the wait.
    pub to_ns: i64,
    /// The CPU on which the thread was preempted or, if it was not, ran afterwards.
    pub cpu: u32,
}

/// Returns the time from `from` to `to` in nanoseconds; 0 if `to` is not later.
pub(super) fn span(from: i64, to: i64) -> u64 {
    if to > from { to.abs_diff(from) } else { 0 }
}
