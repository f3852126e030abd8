//! The explanation of the worst ticks of a subject, as plain data. [`crate::why`] computes it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::model;

model! {
    /// The explanation of late ticks. It comes from profiled rounds, which are not part of any
    /// other number.
    pub struct Why {
        /// The data source that was used, in all rounds without lost records; null if none was
        /// available.
        pub tier: Option<Tier>,
        /// The lowest tier that was not available; null if all were.
        pub missing: Option<Missing>,
        /// Quantile above which ticks count as late; null if a threshold was given.
        pub quantile: Option<f64>,
        /// Lateness from which a tick counts as late.
        pub threshold_ns: u64,
        /// Number of ticks in all profiled rounds.
        pub ticks: u64,
        /// Number of late ticks.
        pub late_ticks: u64,
        /// Number of episodes: maximal runs of late ticks in which each was due before the previous
        /// one had been delivered.
        pub episodes: u64,
        /// Total lateness of the late ticks.
        pub lateness_ns: u64,
        /// That lateness by cause; null with too few late ticks or episodes.
        pub shares_ns: Option<Shares>,
        /// 95 % confidence intervals of these parts over rounds, as shares of the lateness; empty
        /// with too few rounds.
        pub ci95: BTreeMap<String, [f64; 2]>,
        /// Threads that ran on the CPU for which late ticks waited, the longest time first; null if
        /// not recorded.
        pub behind: Option<Vec<Behind>>,
        /// Additional median lateness of a tick in a profiled round; null without a pair of rounds.
        pub overhead_ns: Option<Difference>,
        /// Additional CPU time of such a tick.
        pub overhead_cpu_ns: Option<Difference>,
        /// Counters of the machine over these rounds.
        pub evidence: Evidence,
        /// The kernel's records of the timers and the threads that they woke; null without records.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub kernel_chain: Option<KernelChain>,
        /// The code that ran while these ticks were late; null if their threads could not be
        /// sampled.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub code: Option<SampledCode>,
        /// The latest tick of each of the longest episodes.
        pub longest: Vec<LateTick>,
        /// The profiled rounds, in order.
        pub rounds: Vec<WhyRound>,
    }

    /// A tier that was not available.
    pub struct Missing {
        /// The tier.
        pub tier: Tier,
        /// The reason.
        pub reason: String,
    }

    /// Lateness by cause, in nanoseconds. The parts add up to it exactly.
    #[derive(Default)]
    pub struct Shares {
        /// The thread was ready, and another thread had the CPU.
        pub queue: u64,
        /// The control group had used up its quota; null without a quota.
        pub quota: Option<u64>,
        /// The thread was busy with another task or with catching up.
        pub own_cpu: u64,
        /// Page faults of the busy thread, estimated from their number; null if not counted.
        pub faults: Option<u64>,
        /// The thread was blocked while it had tasks to run.
        pub blocked: u64,
        /// The process was stopped, by a signal or with its control group.
        pub stopped: u64,
        /// Timer slack, at most; null for timers without slack.
        pub slack: Option<u64>,
        /// The hypervisor, as it reported itself or because the whole machine was paused.
        pub host: u64,
        /// Layers below the thread: interrupts, the exit from idle, or the host.
        pub below: u64,
        /// The usual path from the timer to the task, including the rounding of deadlines by the
        /// runtime.
        pub path: u64,
        /// Lateness without one of these causes.
        pub unexplained: u64,
    }

    /// A thread that ran while late ticks waited.
    pub struct Behind {
        /// Name of the thread.
        pub comm: String,
        /// Part of their lateness in which it ran.
        pub ns: u64,
    }

    /// The median of the differences between profiled rounds and their unprofiled counterparts.
    pub struct Difference {
        /// The median.
        pub p50: i64,
        /// Its 95 % confidence interval; null with fewer than 6 pairs.
        pub ci95: Option<[i64; 2]>,
    }

    /// Counters over all profiled rounds. A counter is null if the platform does not report it.
    #[derive(Default)]
    pub struct Evidence {
        /// Time that the hypervisor stole from all CPUs, in the steps of the kernel's account.
        pub steal_ns: Option<u64>,
        /// Time in which the whole machine was paused, detected by two threads that wait only for
        /// the clock; null without these.
        #[serde(default)]
        pub standstill_ns: Option<u64>,
        /// Number of periods in which the control group was throttled.
        pub throttled_periods: Option<u64>,
        /// Number of lost records of the kernel. The affected rounds are explained without them.
        pub switches_lost: u64,
        /// Number of cycles for which the buffer had no room.
        pub cycles_lost: u64,
        /// Number of threads that ran ticks. With more than one, a task may move between them, and
        /// its wait on the previous thread is unexplained.
        pub threads: u64,
    }

    /// The path of ticks through the kernel, for ticks whose thread slept when they were due.
    pub struct KernelChain {
        /// Number of ticks with a complete record.
        pub whole: u64,
        /// Number of ticks with a missing record, or a record that contradicts the thread's
        /// account.
        pub broken: u64,
        /// Share of the lateness of completely recorded late ticks for which both accounts agree on
        /// whether the thread waited for a CPU; null without a second account.
        pub agreement: Option<f64>,
        /// The links of the path, in order: `timer`, `woken`, `on_cpu`, `runtime`, `task`, as in
        /// [`Chain`].
        pub links: Vec<Link>,
    }

    /// The duration of one link.
    pub struct Link {
        /// Name of the link.
        pub name: String,
        /// The median.
        pub p50: i64,
        /// The 99th percentile; null with too few ticks.
        pub p99: Option<i64>,
        /// Share of the ticks within a microsecond of the median.
        pub within_1us: f64,
    }

    /// The path of one tick. Its links add up to the lateness.
    #[derive(Copy, Eq)]
    pub struct Chain {
        /// From the deadline until the timer's function began; negative for a timer that was set to
        /// an earlier time.
        pub timer_ns: i64,
        /// Until the timer's function had made the thread ready.
        pub woken_ns: i64,
        /// Until the thread had a CPU.
        pub on_cpu_ns: i64,
        /// Until its runtime returned from its wait; null without a runtime.
        pub runtime_ns: Option<i64>,
        /// Until the task ran.
        pub task_ns: i64,
    }

    /// A late tick.
    pub struct LateTick {
        /// Index of its round.
        pub round: u64,
        /// Index of the instance.
        pub instance: u64,
        /// Index on the grid.
        pub tick: u64,
        /// Lateness of the tick.
        pub lateness_ns: u64,
        /// That lateness by cause.
        pub shares_ns: Shares,
        /// Threads that ran while it waited; null if not recorded.
        pub behind: Option<Vec<Behind>>,
        /// Its path through the kernel; null without a complete record.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub chain: Option<Chain>,
        /// The code that its thread ran in that time; null if too few samples agree on it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub code: Option<LateCode>,
    }

    /// The function that ran while a tick was late.
    pub struct LateCode {
        /// The innermost function that was part of most samples.
        pub function: String,
        /// Its callers, from the direct one on, without those of the language and of runtimes.
        pub callers: Vec<String>,
        /// Share of the lateness in which the function or one of its callees ran.
        pub share: f64,
        /// Share of the lateness in which the thread ran and was sampled.
        pub coverage: f64,
        /// Number of samples.
        pub samples: u64,
    }

    /// The code that ran while ticks were late, from samples of the stacks of their threads.
    pub struct SampledCode {
        /// CPU time between two samples of a thread.
        pub interval_ns: u64,
        /// Number of samples during the lateness of the late ticks.
        pub samples: u64,
        /// Share of their lateness in which their threads ran and were sampled.
        pub coverage: f64,
        /// The functions that are named for at least one tick, the largest share first.
        pub functions: Vec<LateFunction>,
        /// The most common stacks.
        pub stacks: Vec<FoldedStack>,
        /// The reason why no stacks were sampled; null if they were.
        pub missing: Option<String>,
        /// Parts that the program lacks for complete names; null if none is known to be missing.
        pub hint: Option<String>,
    }

    /// A function that ran while ticks were late.
    pub struct LateFunction {
        /// Name of the function.
        pub function: String,
        /// Its callers at one of the ticks, from the direct one on.
        pub callers: Vec<String>,
        /// Number of late ticks for which it is named.
        pub ticks: u64,
        /// Share of the lateness of all late ticks.
        pub share: f64,
    }

    /// A stack with the number of its samples.
    pub struct FoldedStack {
        /// The functions, from the outermost to the innermost.
        pub frames: Vec<String>,
        /// Number of samples.
        pub samples: u64,
    }

    /// A profiled round.
    pub struct WhyRound {
        /// Index of the unprofiled round with the same order and phase.
        pub index: u64,
        /// Start of the grid, relative to the start of the run.
        pub start_ns: u64,
        /// Number of delivered ticks.
        pub ticks: u64,
        /// Number of late ticks.
        pub late_ticks: u64,
        /// Total lateness of the late ticks.
        pub lateness_ns: u64,
        /// Median lateness of all its ticks; null without a tick.
        pub p50: Option<i64>,
        /// CPU time of the process per tick.
        pub cpu_ns_per_tick: Option<f64>,
        /// The lateness of its late ticks by cause.
        pub shares_ns: Shares,
    }
}

/// A source of data about late ticks. Each tier includes the previous ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Tier {
    /// The thread's own accounts, read whenever it parks.
    A1,
    /// Each switch of the thread, to the nanosecond.
    A2,
    /// Each switch of the CPUs, which shows the threads that ran instead.
    B1,
    /// Each timer, from its expiry to the wake-up of the thread.
    B2,
}

/// A cause of lateness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields of `Shares` document them")]
pub enum Class {
    Queue,
    Quota,
    OwnCpu,
    Faults,
    Blocked,
    Stopped,
    Slack,
    Host,
    Below,
    Path,
    Unexplained,
}

impl Class {
    /// All causes, in the order of [`Shares`].
    pub const ALL: [Self; 11] = [
        Self::Queue,
        Self::Quota,
        Self::OwnCpu,
        Self::Faults,
        Self::Blocked,
        Self::Stopped,
        Self::Slack,
        Self::Host,
        Self::Below,
        Self::Path,
        Self::Unexplained,
    ];

    /// Returns the name of its field in [`Shares`].
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Quota => "quota",
            Self::OwnCpu => "own_cpu",
            Self::Faults => "faults",
            Self::Blocked => "blocked",
            Self::Stopped => "stopped",
            Self::Slack => "slack",
            Self::Host => "host",
            Self::Below => "below",
            Self::Path => "path",
            Self::Unexplained => "unexplained",
        }
    }
}

impl Shares {
    /// Returns one part; zero if it was not measured.
    #[must_use]
    pub fn ns(&self, class: Class) -> u64 {
        match class {
            Class::Queue => self.queue,
            Class::Quota => self.quota.unwrap_or(0),
            Class::OwnCpu => self.own_cpu,
            Class::Faults => self.faults.unwrap_or(0),
            Class::Blocked => self.blocked,
            Class::Stopped => self.stopped,
            Class::Slack => self.slack.unwrap_or(0),
            Class::Host => self.host,
            Class::Below => self.below,
            Class::Path => self.path,
            Class::Unexplained => self.unexplained,
        }
    }

    /// Returns the sum of all parts.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        Class::ALL.iter().fold(0, |sum, &class| sum.saturating_add(self.ns(class)))
    }
}
