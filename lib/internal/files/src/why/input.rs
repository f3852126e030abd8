//! What was seen of a round's ticks and threads, and what comes of a tick.

use super::parts::{MeasurableParts, Parts};

/// A tick to be explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// When it was due.
    pub deadline_ns: i64,
    /// When its task ran.
    pub wake_ns: i64,
    /// On which of the threads.
    pub thread: usize,
}

/// What a thread's accounts said at one moment; `None` where the platform does not report it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Time it has waited for a CPU.
    pub delay_ns: Option<u64>,
    /// CPU time it has used.
    pub cpu_ns: Option<u64>,
    /// Page faults that needed no I/O.
    pub minor_faults: Option<u64>,
    /// Periods in which its control groups were throttled.
    pub throttled: Option<u64>,
}

/// From one park of a thread to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// When it was about to park.
    pub park_ns: i64,
    /// What its accounts said then.
    pub reading: Reading,
    /// Something came between while they were read.
    pub torn: bool,
    /// When it came back from the park; `park_ns` for a thread that does not sleep, `None` where
    /// that is unknown.
    pub unpark_ns: Option<i64>,
}

/// A thread was given a CPU, or left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// When.
    pub at_ns: i64,
    /// Which of the two, and how.
    pub kind: SwitchKind,
    /// On which CPU.
    pub cpu: u32,
}

/// How a thread was switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchKind {
    /// It runs from here on.
    On,
    /// It could have gone on, and another thread runs.
    Preempted,
    /// It waits for something.
    Waits,
}

/// What is known of one thread in one round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// In order of time; the last one closes the one before it and explains nothing itself.
    pub cycles: Vec<Cycle>,
    /// In order of time; `None` where they were not recorded, or some of them were lost.
    pub switches: Option<Vec<Switch>>,
}

/// A CPU was given to this thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupant {
    /// From here on, until the next of that CPU.
    pub at_ns: i64,
    /// Which thread, by its number in the system; 0 is nobody.
    pub thread: u32,
}

/// Time in which a witness was due, and was neither woken nor waiting for a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WitnessGap {
    /// When it was due.
    pub from_ns: i64,
    /// When it was ready.
    pub to_ns: i64,
}

/// Time in which no witness was woken, on whichever CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standstill {
    /// When the last of them was due.
    pub from_ns: i64,
    /// When the first of them was ready.
    pub to_ns: i64,
    /// Other threads were seen to be given a CPU meanwhile: these threads were stopped, and not the
    /// machine.
    pub others_ran: bool,
}

/// What holds for a whole round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoundConditions {
    /// What a page fault costs.
    pub fault_ns: Option<u64>,
    /// Length of the control group's period; `None` where it has no quota.
    pub quota_period_ns: Option<u64>,
    /// By how much the kernel may delay the timer on purpose; `None` for timers that have no slack.
    pub slack_ns: Option<u64>,
    /// The most that the usual way from the timer to the task takes.
    pub path_ns: u64,
    /// CPU time that a tick of a thread with nothing else to run usually takes; `None` where it has
    /// other tasks.
    pub usual_cpu_ns: Option<u64>,
    /// When the process was continued after a stop.
    pub continued_ns: Vec<i64>,
    /// Time that the hypervisor took, by its own account.
    pub steal_ns: u64,
    /// When everything stood still, in order of time.
    pub standstills: Vec<Standstill>,
}

impl RoundConditions {
    /// How long everything stood still.
    #[must_use]
    pub fn standstill_ns(&self) -> u64 {
        self.standstills.iter().map(|s| span(s.from_ns, s.to_ns)).sum()
    }

    /// Which parts can be measured with these.
    #[must_use]
    pub fn known(&self) -> MeasurableParts {
        MeasurableParts {
            quota: self.quota_period_ns.is_some(),
            faults: self.fault_ns.is_some(),
            slack: self.slack_ns.is_some(),
        }
    }
}

/// A tick taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Breakdown {
    /// Its lateness by cause; the parts add up to it.
    pub parts: Parts,
    /// When it waited for which CPU; empty where no switches were recorded.
    pub queued: Vec<QueueWait>,
}

/// A stretch of time in which a thread was ready and did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueWait {
    /// From here ...
    pub from_ns: i64,
    /// ... to here.
    pub to_ns: i64,
    /// The CPU that it ran on afterwards.
    pub cpu: u32,
}

/// Time in nanoseconds from `from` to `to`; none if it is not later.
pub(super) fn span(from: i64, to: i64) -> u64 {
    if to > from { to.abs_diff(from) } else { 0 }
}
