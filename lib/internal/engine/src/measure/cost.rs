//! What a round costs: the accounts of the kernel and of the process, before and after it.

use files::report::Round;
use tach::Anchor;

use crate::machine::os::{self, Usage};

/// What a round cost, from the moment its runtime was ready to its last tick.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// The time it was counted over; the other fields are of that time.
    pub window_ns: u64,
    /// CPU time of the process, without what tasks of a load used.
    pub cpu_ns: Option<u64>,
    /// CPU time of the tasks of a load.
    pub load_cpu_ns: u64,
    /// Context switches by waiting.
    pub switches_voluntary: Option<u64>,
    /// Context switches by being preempted.
    pub switches_involuntary: Option<u64>,
    /// Time the process's threads waited for a CPU.
    pub run_queue_ns: Option<u64>,
    /// Time the hypervisor took from all CPUs.
    pub steal_ns: Option<u64>,
    /// Time the control group stood still because its quota was used up.
    pub throttled_ns: Option<u64>,
    /// Time the machine was suspended.
    pub suspended_ns: Option<u64>,
    /// Frequency of the CPU at its end.
    pub cpu_khz: Option<u64>,
}

impl Cost {
    /// Without the CPU time of tasks that are a load, which is booked apart.
    pub fn without(self, load_cpu_ns: u64) -> Self {
        Self { cpu_ns: self.cpu_ns.map(|ns| ns.saturating_sub(load_cpu_ns)), load_cpu_ns, ..self }
    }

    /// As a report has it, without a tick.
    pub fn round(&self) -> Round {
        Round {
            window_ns: Some(self.window_ns),
            cpu_ns: self.cpu_ns,
            throttled_ns: self.throttled_ns,
            suspended_ns: self.suspended_ns,
            cpu_khz: self.cpu_khz,
            steal_ns: self.steal_ns,
            run_queue_ns: self.run_queue_ns,
            switches_voluntary: self.switches_voluntary,
            switches_involuntary: self.switches_involuntary,
            ..Round::default()
        }
    }
}

/// What was accounted for before a round.
pub struct CostMeter {
    accounts: Accounts,
    usage: Usage,
}

impl CostMeter {
    /// The accounts are files: what reading them costs lies before the usage here, and behind it at
    /// the end.
    pub fn start() -> Self {
        let accounts = Accounts::read();
        Self { accounts, usage: os::usage() }
    }

    /// The cost since then, of a round between these anchors.
    pub fn cost(&self, first: &Anchor, last: &Anchor) -> Cost {
        let (usage, cpu_khz) = (os::usage(), os::cpu_khz());
        let (now, then) = (Accounts::read(), &self.accounts);
        let delta = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        let ns = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Cost {
            window_ns: ns(last.std().saturating_duration_since(first.std())),
            cpu_ns: delta(usage.cpu_ns, self.usage.cpu_ns),
            load_cpu_ns: 0,
            switches_voluntary: delta(usage.switches_voluntary, self.usage.switches_voluntary),
            switches_involuntary: delta(
                usage.switches_involuntary,
                self.usage.switches_involuntary,
            ),
            run_queue_ns: delta(now.run_queue_ns, then.run_queue_ns),
            steal_ns: delta(now.steal_ns, then.steal_ns),
            throttled_ns: delta(now.throttled_ns, then.throttled_ns),
            suspended_ns: first.suspended_until(last).map(ns),
            cpu_khz,
        }
    }
}

/// What the machine has accounted for so far.
struct Accounts {
    run_queue_ns: Option<u64>,
    steal_ns: Option<u64>,
    throttled_ns: Option<u64>,
}

impl Accounts {
    fn read() -> Self {
        Self {
            run_queue_ns: os::run_queue_ns(),
            steal_ns: os::steal_ns(),
            throttled_ns: os::throttled_ns(),
        }
    }
}
