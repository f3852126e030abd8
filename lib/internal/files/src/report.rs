//! The report `osjitter.report/1`: plain data, integers in nanoseconds, complete enough to draw
//! every picture and table again and to run the same plan again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::model;
use jitterstat::stats::Interval;

mod check;
pub(crate) mod fitness;
pub mod why;

pub use crate::histogram::{Histogram, Overflow};
pub use fitness::Fitness;

/// Value of [`Report::schema`] that this version writes and reads.
pub const SCHEMA: &str = "osjitter.report/1";
/// The longest plausible time in nanoseconds: 31 years.
pub const MAX_NS: u64 = 1_000_000_000_000_000_000;
/// The largest plausible count: every whole number up to here is exact in an `f64`.
pub const MAX_COUNT: u64 = 1 << 53;
/// The most subjects of a report: as many as Linux supports CPUs. Even an almost empty one takes a
/// kilobyte, and views compare each with each.
pub const MAX_SUBJECTS: usize = 8_192;

model! {
    /// One invocation of `osjitter run`.
    pub struct Report {
        /// Always [`SCHEMA`].
        pub schema: String,
        /// The program that wrote it.
        pub tool: Tool,
        /// Start of the run, RFC 3339, UTC.
        pub started_utc: String,
        /// Length of the run, set-up and pauses between rounds included.
        pub duration_ns: u64,
        /// The run was interrupted: what is here was measured, but some of the plan is missing.
        pub partial: bool,
        /// What was planned, complete enough to run again.
        pub plan: Plan,
        /// The machine and the run's environment.
        pub host: Host,
        /// The clock that stamped the samples.
        pub clock: Clock,
        /// What the tool changed on the machine while it ran.
        pub changes: Vec<Change>,
        /// Whether the machine was quiet enough to believe the numbers; null where nothing was
        /// measured to judge by.
        #[serde(default)]
        pub fitness: Option<Fitness>,
        /// What a reader should know before trusting a number.
        pub warnings: Vec<Warning>,
        /// The loads of the plan, and what they took of the machine.
        #[serde(default)]
        pub loads: Vec<Load>,
        /// One entry for each subject, period, runtime and load.
        pub subjects: Vec<Subject>,
        /// How the timers of another program were traced; null where the subjects are osjitter's
        /// own, or measured themselves.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub trace: Option<Trace>,
    }

    /// How `osjitter trace` looked at another program: each of its subjects is what one thread
    /// waited in.
    pub struct Trace {
        /// The program and its arguments; null for a process that was there already.
        pub command: Option<Vec<String>>,
        /// The process.
        pub process: u32,
        /// The threads of this name only; null for all.
        pub thread: Option<String>,
        /// How long it was traced.
        pub window_ns: u64,
        /// CPU time that tracing took; null where the platform does not report it.
        pub cpu_ns: Option<u64>,
        /// Whether it took that on CPUs that the program does not use.
        pub apart: bool,
        /// Records of the kernel, of all programs.
        pub records: u64,
        /// How large they were.
        pub bytes: u64,
        /// Records that the kernel had no room for, or that cannot be read: what they concern is in
        /// no number.
        pub lost: u64,
        /// Records of the kernel's own count that it did not make, and did not say it lost: some
        /// virtual machines make none of some interrupts.
        pub unrecorded: u64,
        /// Timers that woke a thread, and were set before the window.
        pub undated: u64,
        /// Timers of which the kernel recorded no expiry; they are in the numbers.
        pub unseen: u64,
        /// Waits of which the end was not seen.
        pub dropped: u64,
    }

    /// What ran beside subjects while they were measured.
    pub struct Load {
        /// As on the command line.
        pub load: String,
        /// Its CPU time, which is in no subject's cost: of tasks in their rounds, of processes from
        /// their start to their end; null where the platform does not report it.
        pub cpu_ns: Option<u64>,
        /// Time it was to run: the rounds of its scenarios.
        pub active_ns: u64,
    }

    /// The program that wrote a report.
    pub struct Tool {
        /// Its name.
        pub name: String,
        /// Its version.
        pub version: String,
        /// The commit it was built from, where that is known.
        pub commit: Option<String>,
    }

    /// The effective plan.
    #[derive(Default)]
    pub struct Plan {
        /// Seed of the order of subjects, of the phases and of the resampling.
        pub seed: u64,
        /// Whether the report keeps every sample.
        pub samples: bool,
        /// The CPU that the measuring thread was bound to; null for none.
        pub cpu: Option<usize>,
        /// Requested scheduling class, as on the command line.
        pub sched: Option<String>,
        /// Whether the process's memory was locked.
        pub mlock: bool,
        /// Requested timer slack; null leaves it as inherited.
        pub timer_slack_ns: Option<u64>,
        /// Whether as many rounds again were run to find out why ticks were late; null where nobody
        /// asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub why: Option<WhyRequest>,
        /// The scenarios, one for each subject, period and runtime.
        pub scenarios: Vec<Scenario>,
    }

    /// How it was asked why ticks were late.
    #[cfg_attr(feature = "schema", schemars(rename = "WhyAsked"))]
    pub struct WhyRequest {
        /// Ticks at least this late count as late; null for the latest per cent.
        pub threshold_ns: Option<u64>,
    }

    /// One thing to measure.
    pub struct Scenario {
        /// Unique within the report, for example `os-interval@500us/current-thread`.
        pub id: String,
        /// Name of the subject.
        pub subject: String,
        /// The program and its arguments, started anew for each round, where the subject is a
        /// program of the user's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub command: Option<Vec<String>>,
        /// Nominal period.
        pub period_ns: u64,
        /// Ticks to record over all rounds.
        pub ticks: u64,
        /// Recorded ticks of a full round.
        pub round_ticks: u64,
        /// Leading ticks of each round that are run and dropped.
        pub warmup_ticks: u64,
        /// Runtime of a tokio subject; `None` for a bare thread.
        pub runtime: Option<String>,
        /// How many run at once, a task each, their phases spread evenly over the period; each
        /// records `ticks`.
        #[serde(default = "one")]
        pub instances: u64,
        /// What ran beside it, as on the command line: `cpu:2`, `tasks:100x50us`, a command; null
        /// for nothing.
        #[serde(default)]
        pub load: Option<String>,
    }

    /// Facts about the machine; null where the platform does not report them.
    #[derive(Default)]
    pub struct Host {
        /// Operating system.
        pub os: String,
        /// Architecture.
        pub arch: String,
        /// Kernel release.
        pub kernel: Option<String>,
        /// Preemption model of the kernel, from its version string.
        pub preempt: Option<String>,
        /// CPU model.
        pub cpu_model: Option<String>,
        /// CPUs online.
        pub cpus_online: Option<u64>,
        /// CPUs this process may run on.
        pub affinity: Option<Vec<usize>>,
        /// The kernel's clock source.
        pub clock_source: Option<String>,
        /// Timer slack of the measuring thread.
        pub timer_slack_ns: Option<u64>,
        /// Frequency governor of the first CPU.
        pub governor: Option<String>,
        /// Idle driver.
        pub idle_driver: Option<String>,
        /// Hypervisor or container technology; null on bare metal, too.
        #[serde(rename = "virtualisation")]
        pub hypervisor: Option<String>,
        /// CPU quota of the control group, in CPUs.
        pub quota_cpus: Option<f64>,
        /// Scheduling class of the process at the start.
        pub sched: Option<String>,
        /// Versions of what was measured.
        pub versions: BTreeMap<String, String>,
    }

    /// The clock that stamped the samples.
    pub struct Clock {
        /// What is read at each wake-up.
        pub source: String,
        /// Rate of the counter.
        pub rate_hz: f64,
        /// Where the rate comes from.
        pub rate_known_by: String,
        /// Largest error of a conversion to the kernel's clock in this run.
        pub error_bound_ns: u64,
        /// How far the rate can be off, in parts per billion, judged by the process's anchors.
        #[serde(default)]
        pub rate_error_ppb: Option<f64>,
        /// The rate that the CPU or the hypervisor states.
        #[serde(default)]
        pub rate_stated_hz: Option<u64>,
        /// What keeps readings in order across threads.
        #[serde(default)]
        pub cross_thread_order: Option<String>,
        /// Why the CPU counter was not used.
        pub why_not_counter: Option<String>,
        /// What stamping a wake-up and keeping it took in this run: the observer's own part of each
        /// tick. Null where a program measured itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub observer_ns_per_tick: Option<u64>,
    }

    /// Something the tool changed for the run.
    pub struct Change {
        /// What was changed.
        pub what: String,
        /// Before.
        pub from: String,
        /// While measuring.
        pub to: String,
    }

    /// Something a reader should know.
    pub struct Warning {
        /// Stable short name.
        pub code: String,
        /// What was found.
        pub message: String,
        /// What to do about it.
        pub hint: String,
    }

    /// The result of one scenario.
    pub struct Subject {
        /// Id of its scenario.
        pub id: String,
        /// Name of the subject.
        pub name: String,
        /// Nominal period.
        pub period_ns: u64,
        /// Runtime of a tokio subject.
        pub runtime: Option<String>,
        /// How many ran at once.
        #[serde(default = "one")]
        pub instances: u64,
        /// What ran beside it; null for nothing.
        #[serde(default)]
        pub load: Option<String>,
        /// What it ticked from.
        pub backend: Option<String>,
        /// Whether it was measured.
        pub status: Status,
        /// Over all rounds; `None` where nothing was measured.
        pub summary: Option<Summary>,
        /// Of all lateness values.
        pub histogram: Option<Histogram>,
        /// In the order they ran.
        pub rounds: Vec<Round>,
        /// Why its latest ticks were late, from further rounds that are in no other number; null
        /// where nobody asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub why: Option<why::Why>,
    }

    /// Counts and distributions; of a subject over all rounds, or of one round.
    #[derive(Default)]
    pub struct Summary {
        /// Planned ticks: delivered + coalesced + skipped.
        pub ticks: u64,
        /// With a wake-up of their own.
        pub delivered: u64,
        /// Sharing the wake-up of a later tick.
        pub coalesced: u64,
        /// Never delivered.
        pub skipped: u64,
        /// Not delivered before the next deadline, late or never.
        pub missed: u64,
        /// Delivered before their deadline: each is a bug.
        pub early: u64,
        /// Ticks for which the runtime had no park of its own; `None` where parks are not observed.
        pub no_park: Option<u64>,
        /// Slope of lateness over time.
        pub drift_ppb: Option<f64>,
        /// From first to last tick of each round, added up.
        pub elapsed_ns: i64,
        /// The same on the grid.
        pub ideal_ns: i64,
        /// CPU time of the whole process per planned tick.
        pub cpu_ns_per_tick: Option<f64>,
        /// Context switches of the whole process per planned tick.
        pub wakeups_per_tick: Option<f64>,
        /// Wake time minus deadline.
        pub lateness_ns: Distribution,
        /// Each percentile's median over the rounds: what a typical round is like, where the pooled
        /// percentile covers all rounds together. Empty for a single round.
        #[serde(default)]
        pub median_round_ns: BTreeMap<String, MedianRound>,
        /// Differences in lateness between neighbouring ticks.
        pub jitter_consecutive_ns: Option<Distribution>,
        /// Lateness above the smallest lateness.
        pub jitter_spread_ns: Option<Distribution>,
        /// From the deadline until the runtime came back from its park: the kernel, and what the
        /// runtime asked of it.
        pub until_unpark_ns: Option<Distribution>,
        /// From there until the task ran: the runtime's own share.
        pub after_unpark_ns: Option<Distribution>,
    }

    /// A distribution in nanoseconds. Nearest rank on the exact samples.
    #[derive(Default)]
    pub struct Distribution {
        /// Smallest.
        pub min: i64,
        /// Arithmetic mean, cut to a whole nanosecond.
        pub mean: i64,
        /// Median.
        pub p50: Option<i64>,
        /// 90th percentile.
        pub p90: Option<i64>,
        /// 99th percentile; like every percentile, null where fewer than 5 samples lie above it.
        pub p99: Option<i64>,
        /// 99.9th percentile.
        pub p99_9: Option<i64>,
        /// 99.99th percentile.
        pub p99_99: Option<i64>,
        /// Largest.
        pub max: i64,
        /// 95 % confidence intervals over rounds, by name of the percentile; empty below 10 rounds.
        #[serde(default)]
        pub ci95: BTreeMap<String, [i64; 2]>,
    }

    /// A percentile of the median round.
    pub struct MedianRound {
        /// In half of the rounds the percentile is at or below this.
        pub value: i64,
        /// 95 % confidence interval of that median; null below 10 rounds.
        pub ci95: Option<[i64; 2]>,
    }

    /// One round of one subject.
    #[derive(Default)]
    pub struct Round {
        /// Which round.
        pub index: u64,
        /// Place within the round's order.
        pub slot: u64,
        /// Which of several instances; each has its own entry, with its share of the cost.
        #[serde(default)]
        pub instance: u64,
        /// Start of the grid, counted from the start of the run; of a command, when it was started.
        pub start_ns: u64,
        /// The random part of that start; a command has none.
        pub phase_ns: u64,
        /// Time over which the costs below were counted: from the runtime's being ready to the last
        /// tick; of a command, from its start to its end.
        #[serde(default)]
        pub window_ns: Option<u64>,
        /// CPU time of the process, without what tasks of a load used; of a command, of all its
        /// processes, without what a run of a single tick took.
        pub cpu_ns: Option<u64>,
        /// Time that the control group stood still because its quota was used up.
        #[serde(default)]
        pub throttled_ns: Option<u64>,
        /// Time that the machine was suspended.
        #[serde(default)]
        pub suspended_ns: Option<u64>,
        /// Frequency of the CPU that it ended on; null where the kernel shows none.
        #[serde(default)]
        pub cpu_khz: Option<u64>,
        /// Time stolen by the hypervisor, over all CPUs.
        pub steal_ns: Option<u64>,
        /// Time the measuring thread was runnable and waited for a CPU.
        pub run_queue_ns: Option<u64>,
        /// Context switches by waiting.
        pub switches_voluntary: Option<u64>,
        /// Context switches by being preempted.
        pub switches_involuntary: Option<u64>,
        /// This round alone, all instances together, in the entry of the first; null where no tick
        /// came.
        pub summary: Option<Summary>,
        /// Index of the first recorded tick.
        pub first_tick: u64,
        /// Lateness of each tick in order; empty in a report without samples.
        pub lateness_ns: Vec<i64>,
        /// Index of each tick, only where they are not consecutive from `first_tick`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub tick: Option<Vec<u64>>,
        /// Until the runtime came back from its park, for each tick; null for ticks without a park
        /// of their own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub until_unpark_ns: Option<Vec<Option<i64>>>,
    }
}

/// A percentile that reports give.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percentile {
    /// In files: `p99_9`.
    pub key: &'static str,
    /// For people: `p99.9`.
    pub label: &'static str,
    /// As a number: 0.999.
    pub quantile: f64,
}

/// The percentiles of every distribution, in ascending order.
pub const PERCENTILES: [Percentile; 5] = [
    Percentile { key: "p50", label: "p50", quantile: 0.50 },
    Percentile { key: "p90", label: "p90", quantile: 0.90 },
    Percentile { key: "p99", label: "p99", quantile: 0.99 },
    Percentile { key: "p99_9", label: "p99.9", quantile: 0.999 },
    Percentile { key: "p99_99", label: "p99.99", quantile: 0.9999 },
];

impl Distribution {
    /// Creates a distribution of values from `range`, without confidence intervals. `at` returns
    /// the value of a quantile.
    pub fn new(range: Interval<i64>, mean: i64, at: impl Fn(f64) -> Option<i64>) -> Self {
        let Interval { lower: min, upper: max } = range;
        let [p50, p90, p99, p99_9, p99_99] = PERCENTILES.map(|percentile| at(percentile.quantile));
        Self { min, mean, p50, p90, p99, p99_9, p99_99, max, ci95: BTreeMap::new() }
    }

    /// All of [`PERCENTILES`] with their values.
    #[must_use]
    pub fn percentiles(&self) -> [(Percentile, Option<i64>); 5] {
        let values = [self.p50, self.p90, self.p99, self.p99_9, self.p99_99];
        std::array::from_fn(|i| (PERCENTILES[i], values[i]))
    }
}

impl Round {
    /// Index on the grid of the `i`-th entry of `lateness_ns`.
    #[must_use]
    pub fn tick_index(&self, i: usize) -> u64 {
        let consecutive = || self.first_tick.saturating_add(i as u64);
        self.tick.as_ref().and_then(|t| t.get(i).copied()).unwrap_or_else(consecutive)
    }
}

fn one() -> u64 {
    1
}

/// Whether a subject was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "state", deny_unknown_fields)]
pub enum Status {
    /// Every round was measured.
    Measured,
    /// Some rounds were, before the run was interrupted.
    Partial,
    /// It could not be measured.
    Failed {
        /// Why.
        reason: String,
    },
}
