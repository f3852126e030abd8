//! Costs of a round, computed from counters of the kernel and the process before and after it.

use files::report::Round;
use tach::Anchor;

use crate::machine::os::{self, Usage};
use cli::units::to_ns;

/// Costs of a round, from the moment its runtime was ready to its last tick.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Length of the measurement, to which all other fields refer.
    pub window_ns: u64,
    /// CPU time of the process, or of the thread if others measured at once, without the tasks of
    /// a load.
    pub cpu_ns: Option<u64>,
    /// CPU time of the tasks of a load.
    pub load_cpu_ns: u64,
    /// Context switches by waiting.
    pub switches_voluntary: Option<u64>,
    /// Context switches by being preempted.
    pub switches_involuntary: Option<u64>,
    /// Time for which the threads waited for a CPU.
    pub run_queue_ns: Option<u64>,
    /// Time that the hypervisor took from all CPUs.
    pub steal_ns: Option<u64>,
    /// Time for which the control group was stopped by its quota.
    pub throttled_ns: Option<u64>,
    /// Time for which the machine was suspended.
    pub suspended_ns: Option<u64>,
    /// Frequency of the CPU at the end.
    pub cpu_khz: Option<u64>,
    /// Number of processes that a program left running, and that were killed.
    pub killed_processes: u64,
    /// Whether the CPU time includes the start of a program.
    pub includes_start: bool,
}

impl Cost {
    /// Moves the CPU time of the tasks of a load to its own field.
    pub fn without_load(self, load_cpu_ns: u64) -> Self {
        Self { cpu_ns: self.cpu_ns.map(|ns| ns.saturating_sub(load_cpu_ns)), load_cpu_ns, ..self }
    }

    /// Converts the costs to a round of a report that has no ticks.
    pub fn to_round(&self) -> Round {
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

/// Counters at the start of a measurement.
pub struct CostMeter {
    scope: CostScope,
    counters: MachineCounters,
    usage: Usage,
}

/// Threads whose CPU time, context switches and waits a measurement includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostScope {
    /// All threads of this process.
    Process,
    /// The calling thread, while others measure at the same time.
    Thread,
}

impl CostScope {
    fn usage(self) -> Usage {
        match self {
            Self::Process => os::usage(),
            Self::Thread => os::thread_usage(),
        }
    }
}

impl CostMeter {
    /// Reads the counters at the start.
    ///
    /// The counters of the machine are files. They are read before the usage of the process here
    /// and after it at the end, so that the cost of reading them is not measured.
    pub fn start() -> Self {
        Self::start_in(CostScope::Process)
    }

    /// Reads the counters of a scope at the start.
    pub fn start_in(scope: CostScope) -> Self {
        let counters = MachineCounters::read(scope);
        Self { scope, counters, usage: scope.usage() }
    }

    /// Returns the costs since the start, for a round between two anchors.
    pub fn cost(&self, first: &Anchor, last: &Anchor) -> Cost {
        let (usage, cpu_khz) = (self.scope.usage(), os::cpu_khz());
        let (now, then) = (MachineCounters::read(self.scope), &self.counters);
        let delta = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        Cost {
            window_ns: to_ns(last.std().saturating_duration_since(first.std())),
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
            suspended_ns: first.suspended_until(last).map(to_ns),
            cpu_khz,
            killed_processes: 0,
            includes_start: false,
        }
    }
}

/// Counters of the machine.
struct MachineCounters {
    run_queue_ns: Option<u64>,
    steal_ns: Option<u64>,
    throttled_ns: Option<u64>,
}

impl MachineCounters {
    fn read(scope: CostScope) -> Self {
        Self {
            run_queue_ns: match scope {
                CostScope::Process => os::run_queue_ns(),
                CostScope::Thread => os::thread_run_queue_ns(),
            },
            steal_ns: os::steal_ns(),
            throttled_ns: os::throttled_ns(),
        }
    }
}
