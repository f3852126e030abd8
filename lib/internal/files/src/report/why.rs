//! Why the latest ticks of a subject were late, as plain data; [`crate::why`] finds it out.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::model;

model! {
    /// Why ticks were late, from rounds of their own: no number outside of this is of such a round.
    pub struct Why {
        /// What was asked; null where nothing could be.
        pub tier: Option<Tier>,
        /// The lowest tier that could not be had; null where there is none.
        pub missing: Option<Missing>,
        /// The share of the ticks that counts as late lies above this quantile; null where a
        /// threshold was given.
        pub quantile: Option<f64>,
        /// Ticks at least this late count as late.
        pub threshold_ns: u64,
        /// Ticks of all rounds that were asked.
        pub ticks: u64,
        /// Those that were late.
        pub late_ticks: u64,
        /// Maximal runs of late ticks, each due before the one before it had come.
        pub episodes: u64,
        /// Of all late ticks together.
        pub lateness_ns: u64,
        /// What it consists of; null where there are too few late ticks or episodes to say.
        pub shares_ns: Option<Shares>,
        /// 95 % confidence intervals of those parts over rounds, as shares of the lateness; empty
        /// where there are too few rounds.
        pub ci95: BTreeMap<String, [f64; 2]>,
        /// Who ran on the CPU that late ticks waited for, the longest first; null where that was
        /// not recorded.
        pub behind: Option<Vec<Behind>>,
        /// By how much later a tick of a round that was asked is, at the median; null without a
        /// pair of rounds.
        pub overhead_ns: Option<Difference>,
        /// By how much more CPU time such a tick takes.
        pub overhead_cpu_ns: Option<Difference>,
        /// What the counters of the machine say about these rounds.
        pub evidence: Evidence,
        /// The kernel's records of the timers and the threads that they woke; null where there are
        /// none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub kernel_chain: Option<KernelChain>,
        /// The latest tick of each of the longest episodes.
        pub longest: Vec<LateTick>,
        /// The rounds that were asked, in order.
        pub rounds: Vec<WhyRound>,
    }

    /// A tier that could not be had.
    pub struct Missing {
        /// Which one.
        pub tier: Tier,
        /// Why not.
        pub reason: String,
    }

    /// Lateness by cause, in nanoseconds: the parts add up to it exactly.
    #[derive(Default)]
    pub struct Shares {
        /// Ready, and another thread had the CPU.
        pub queue: u64,
        /// The control group had used up its quota; null where none is set.
        pub quota: Option<u64>,
        /// The thread itself was busy: with another task, or with catching up.
        pub own_cpu: u64,
        /// Of that, page faults, estimated by their number; null where they are not counted.
        pub faults: Option<u64>,
        /// Something blocked the thread while it was to run tasks.
        pub blocked: u64,
        /// The process was stopped: by a signal, or with its control group.
        pub stopped: u64,
        /// Timer slack, at most; null for timers that have none.
        pub slack: Option<u64>,
        /// The hypervisor, by its own account, or because everything stood still.
        pub host: u64,
        /// Below the thread: interrupts, the way out of idle, or the host.
        pub below: u64,
        /// The usual way from the timer to the task, what the runtime rounds deadlines up by
        /// included.
        pub path: u64,
        /// None of these.
        pub unexplained: u64,
    }

    /// Who ran while late ticks waited.
    pub struct Behind {
        /// Name of the thread.
        pub comm: String,
        /// For how long of their lateness.
        pub ns: u64,
    }

    /// The median of differences between rounds that were asked and the rounds beside them.
    pub struct Difference {
        /// The median.
        pub p50: i64,
        /// Its 95 % confidence interval; null with fewer than 6 pairs.
        pub ci95: Option<[i64; 2]>,
    }

    /// Counters over all rounds that were asked; null where the platform does not report them.
    #[derive(Default)]
    pub struct Evidence {
        /// Time that the hypervisor took from all CPUs, in the kernel's steps.
        pub steal_ns: Option<u64>,
        /// Time in which everything stood still, by two threads that wait for nothing but the
        /// clock; null without these.
        #[serde(default)]
        pub standstill_ns: Option<u64>,
        /// Periods in which the control group was throttled.
        pub throttled_periods: Option<u64>,
        /// Records of switches that were lost: their rounds are explained without them.
        pub switches_lost: u64,
        /// Cycles for which there was no room.
        pub cycles_lost: u64,
        /// Threads that ran ticks; with more than one, a task may move between them, and what it
        /// waited for on the one that it left is unexplained.
        pub threads: u64,
    }

    /// Ticks whose way through the kernel was recorded: those for which their thread slept when
    /// they were due.
    pub struct KernelChain {
        /// Every station was recorded.
        pub whole: u64,
        /// A record is missing, or says something else than the thread's own account.
        pub broken: u64,
        /// Share of the lateness of whole ones that were late for which both accounts say alike
        /// whether the thread waited for a CPU; null without a second account.
        pub agreement: Option<f64>,
        /// From station to station, in order: `timer`, `woken`, `on_cpu`, `runtime`, `task`, as in
        /// [`Chain`].
        pub links: Vec<Link>,
    }

    /// How long one link took.
    pub struct Link {
        /// Which one.
        pub name: String,
        /// The median.
        pub p50: i64,
        /// The 99th percentile; null with too few.
        pub p99: Option<i64>,
        /// The share within a microsecond of the median.
        pub within_1us: f64,
    }

    /// The way of one tick, link by link: they add up to its lateness.
    #[derive(Copy, Eq)]
    pub struct Chain {
        /// From the deadline until the timer's function began; negative for a timer that was set to
        /// come before.
        pub timer_ns: i64,
        /// Until that had made the thread ready.
        pub woken_ns: i64,
        /// Until the thread had a CPU.
        pub on_cpu_ns: i64,
        /// Until its runtime came back from its wait; null without one.
        pub runtime_ns: Option<i64>,
        /// Until the task ran.
        pub task_ns: i64,
    }

    /// One late tick.
    pub struct LateTick {
        /// Index of its round.
        pub round: u64,
        /// Which instance.
        pub instance: u64,
        /// Index on the grid.
        pub tick: u64,
        /// How late it came.
        pub lateness_ns: u64,
        /// What that consists of.
        pub shares_ns: Shares,
        /// Who ran while it waited; null where that was not recorded.
        pub behind: Option<Vec<Behind>>,
        /// Its way through the kernel; null where that was not recorded as a whole.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub chain: Option<Chain>,
    }

    /// One round that was asked.
    pub struct WhyRound {
        /// Index of the round whose order and phase it shares.
        pub index: u64,
        /// Start of the grid, counted from the start of the run.
        pub start_ns: u64,
        /// Ticks that came.
        pub ticks: u64,
        /// Those that were late.
        pub late_ticks: u64,
        /// Of those together.
        pub lateness_ns: u64,
        /// Median of all its ticks; null where none came.
        pub p50: Option<i64>,
        /// CPU time of the process per tick.
        pub cpu_ns_per_tick: Option<f64>,
        /// What the lateness of its late ticks consists of.
        pub shares_ns: Shares,
    }
}

/// What was asked about late ticks, each with what the ones before it do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Tier {
    /// The thread's own accounts, whenever it parks.
    A1,
    /// Each switch of the thread, to the nanosecond.
    A2,
    /// Each switch of the CPUs: who ran instead.
    B1,
    /// Each timer, from its expiry to the thread that it wakes.
    B2,
}

/// A part of the lateness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields of `Shares` say what they are")]
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
    /// All of them, in the order of [`Shares`].
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

    /// The name of its field in [`Shares`].
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
    /// One part; zero where it was not measured.
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

    /// All parts together.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        Class::ALL.iter().fold(0, |sum, &class| sum.saturating_add(self.ns(class)))
    }
}
