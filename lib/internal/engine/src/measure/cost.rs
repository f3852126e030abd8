//! Costs of a round, computed from counters of the kernel and the process.
//!
//! The counters of the machine are files, which are read before and after a round. The usage of the
//! measured threads is read in the loop, at the first and at the last recorded tick, so that the
//! time for which it is counted contains the recorded ticks and nothing else.

use std::ops::Range;

use files::report::Round;
use tach::{Anchor, Conversion};

use crate::machine::os::{self, Usage};
use crate::measure::runtime_load::LoadCpuTime;
use cli::units::to_ns;

/// Costs of a round.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Time from the moment at which the runtime was ready to the last tick, in which the counters
    /// of the machine below were counted.
    pub window_ns: u64,
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
    /// CPU time of the tasks of a load in the whole round.
    pub load_cpu_ns: u64,
    /// Number of processes that a program left running, and that were killed.
    pub killed_processes: u64,
    /// Whether the CPU time includes the start of a program.
    pub includes_start: bool,
    /// Usage of the measured threads, in a window of its own.
    pub usage: TickUsage,
}

/// Usage of the measured threads between two ticks.
#[derive(Clone, Copy, Debug, Default)]
pub struct TickUsage {
    /// Time between the two readings; `None` if these do not belong to ticks, as those of a
    /// program.
    pub window_ns: Option<u64>,
    /// CPU time, without that of the tasks of a load.
    pub cpu_ns: Option<u64>,
    /// Context switches by waiting.
    pub switches_voluntary: Option<u64>,
    /// Context switches by being preempted.
    pub switches_involuntary: Option<u64>,
}

impl Cost {
    /// Converts the costs to a round of a report that has no ticks. `ticks` is the number of ticks
    /// in the window of the usage.
    pub fn to_round(&self, ticks: u64) -> Round {
        let usage = &self.usage;
        Round {
            window_ns: Some(self.window_ns),
            cost_window_ns: usage.window_ns,
            cost_ticks: Some(ticks),
            cpu_ns: usage.cpu_ns,
            throttled_ns: self.throttled_ns,
            suspended_ns: self.suspended_ns,
            cpu_khz: self.cpu_khz,
            steal_ns: self.steal_ns,
            run_queue_ns: self.run_queue_ns,
            switches_voluntary: usage.switches_voluntary,
            switches_involuntary: usage.switches_involuntary,
            ..Round::default()
        }
    }
}

/// Threads whose CPU time, context switches and waits a measurement includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostScope {
    /// All threads of this process.
    Process,
    /// The calling thread, while others measure at the same time.
    Thread,
    /// Several threads, while others measure at the same time: their usage is unknown.
    SomeThreads,
}

impl CostScope {
    fn usage(self) -> Usage {
        match self {
            Self::Process => os::usage(),
            Self::Thread => os::thread_usage(),
            Self::SomeThreads => Usage::default(),
        }
    }
}

/// Ticks at which a loop reads its usage.
#[derive(Clone, Copy, Debug)]
pub struct UsageTicks {
    pub first: u64,
    pub last: u64,
    /// Whether the usage is read at each tick in between, so that a round can end at any of them.
    pub reads_each: bool,
}

impl UsageTicks {
    /// Returns the ticks for a round with `ticks` recorded ticks from `first_tick` on.
    ///
    /// These are the first and the last recorded tick. A single recorded tick has no tick before it
    /// that is recorded, so the last one of the warm-up replaces it.
    pub fn new(first_tick: u64, ticks: u64, reads_each: bool) -> Self {
        let last = first_tick + ticks.saturating_sub(1);
        let first = if ticks == 1 { first_tick.saturating_sub(1) } else { first_tick };
        Self { first, last, reads_each }
    }
}

/// Reads the usage of a loop at its first and its last recorded tick.
#[derive(Debug)]
pub struct UsageProbe {
    scope: CostScope,
    load_cpu: LoadCpuTime,
    ticks: UsageTicks,
    /// Tick from which on the next reading is due.
    next: u64,
    first: Option<UsageReading>,
    last: Option<UsageReading>,
}

/// A reading of the usage.
#[derive(Clone, Copy, Debug)]
struct UsageReading {
    /// Time before the reading.
    begin_count: u64,
    usage: Usage,
    /// Time after the reading.
    end_count: u64,
    load_cpu_ns: u64,
}

impl UsageProbe {
    /// Creates a probe. The first reading of a process takes longer, so one is made here.
    pub fn new(scope: CostScope, load_cpu: LoadCpuTime, ticks: UsageTicks) -> Self {
        scope.usage();
        Self { scope, load_cpu, ticks, next: ticks.first, first: None, last: None }
    }

    /// Reads the usage if a reading is due at this tick, or if the loop ends with it. Call this
    /// after the time stamp of the tick.
    #[inline]
    pub fn after_tick(&mut self, tick: u64, is_stopped: bool) {
        if tick >= self.next || is_stopped {
            self.read(tick);
        }
    }

    #[cold]
    fn read(&mut self, tick: u64) {
        if tick < self.ticks.first || self.next == u64::MAX {
            return;
        }
        let begin_count = tach::ordered_count();
        let (usage, load_cpu_ns) = (self.scope.usage(), self.load_cpu.ns());
        let end_count = tach::ordered_count();
        let reading = UsageReading { begin_count, usage, end_count, load_cpu_ns };
        match self.first {
            None => self.first = Some(reading),
            Some(_) => self.last = Some(reading),
        }
        self.next = match tick >= self.ticks.last {
            true => u64::MAX,
            false if self.ticks.reads_each => 0,
            false => self.ticks.last,
        };
    }

    /// Returns both readings; `None` if the loop ended before the second one.
    pub fn into_span(self) -> Option<UsageSpan> {
        Some(UsageSpan { first: self.first?, last: self.last? })
    }
}

/// The readings of the usage at two ticks.
#[derive(Clone, Copy, Debug)]
pub struct UsageSpan {
    first: UsageReading,
    last: UsageReading,
}

impl UsageSpan {
    /// Returns the counts between which the usage was counted. Both readings are between them, so
    /// that the CPU time of a thread is never longer.
    pub fn counts(&self) -> Range<u64> {
        self.first.begin_count..self.last.end_count
    }

    /// Returns the usage between the two readings.
    pub fn usage(&self, conversion: &Conversion) -> TickUsage {
        let Self { first, last } = self;
        let load_cpu_ns = last.load_cpu_ns.saturating_sub(first.load_cpu_ns);
        let cpu_ns = delta(last.usage.cpu_ns, first.usage.cpu_ns);
        let counts = self.counts();
        let counts = counts.end.saturating_sub(counts.start);
        TickUsage {
            window_ns: Some((counts as f64 / conversion.rate_hz() * 1e9).round() as u64),
            cpu_ns: cpu_ns.map(|ns| ns.saturating_sub(load_cpu_ns)),
            switches_voluntary: delta(
                last.usage.switches_voluntary, first.usage.switches_voluntary,
            ),
            switches_involuntary: delta(
                last.usage.switches_involuntary, first.usage.switches_involuntary,
            ),
        }
    }
}

fn delta(now: Option<u64>, before: Option<u64>) -> Option<u64> {
    Some(now?.saturating_sub(before?))
}

/// Counters of the machine at the start of a measurement.
pub struct CostMeter {
    scope: CostScope,
    counters: MachineCounters,
}

impl CostMeter {
    /// Reads the counters at the start.
    pub fn start() -> Self {
        Self::start_in(CostScope::Process)
    }

    /// Reads the counters at the start; the waits for a CPU are those of the threads of a scope.
    pub fn start_in(scope: CostScope) -> Self {
        Self { scope, counters: MachineCounters::read(scope) }
    }

    /// Returns the costs since the start, for a round between two anchors. They contain no usage.
    pub fn cost(&self, first: &Anchor, last: &Anchor) -> Cost {
        let cpu_khz = os::cpu_khz();
        let (now, then) = (MachineCounters::read(self.scope), &self.counters);
        Cost {
            window_ns: to_ns(last.os_instant().saturating_duration_since(first.os_instant())),
            run_queue_ns: delta(now.run_queue_ns, then.run_queue_ns),
            steal_ns: delta(now.steal_ns, then.steal_ns),
            throttled_ns: delta(now.throttled_ns, then.throttled_ns),
            suspended_ns: first.suspended_until(last).map(to_ns),
            cpu_khz,
            ..Cost::default()
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
                CostScope::SomeThreads => None,
            },
            steal_ns: os::steal_ns(),
            throttled_ns: os::throttled_ns(),
        }
    }
}
