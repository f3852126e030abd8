//! The report `osjitter.report/1` as plain data, with integers in nanoseconds. A report is complete
//! enough to reproduce every picture and table and to run the same plan again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::model;

pub(crate) mod check;
mod cpus;
pub mod defaults;
mod distribution;
pub(crate) mod fitness;
mod settings;
pub mod why;

pub use crate::histogram::{Histogram, Overflow};
pub use cpus::{CpuComparison, CpuDifference, CpuFinding};
pub use distribution::{Distribution, MedianRound, PERCENTILES, Percentile};
pub use fitness::Fitness;
pub use settings::{SettingDifference, SettingName, SubjectSettings, ThreadSettings};

/// Value of [`Report::schema`] that this version writes and reads.
pub const SCHEMA: &str = "osjitter.report/1";
/// Name of osjitter as the tool of a report. Sums of bins have the schema of bins, which begins with
/// it.
pub const OWN_TOOL: &str = "osjitter";
/// The longest plausible time in nanoseconds: 31 years.
pub const MAX_NS: u64 = 1_000_000_000_000_000_000;
/// The largest plausible count. Every whole number up to it is exact in an `f64`.
pub const MAX_COUNT: u64 = 1 << 53;
/// Maximum number of instances of one subject: more than any machine has memory for.
pub const MAX_INSTANCES: u64 = 1 << 24;
/// Maximum number of subjects of a report, which is the number of CPUs that Linux supports. Even an
/// almost empty subject takes a kilobyte, and views compare all pairs.
pub const MAX_SUBJECTS: usize = 8_192;

model! {
    /// The result of one invocation of `osjitter run`.
    pub struct Report {
        /// Always [`SCHEMA`].
        pub schema: String,
        /// The program that wrote it.
        pub tool: Tool,
        /// Start of the run, RFC 3339, UTC.
        pub started_utc: String,
        /// Duration of the run, including set-up and pauses between rounds.
        pub duration_ns: u64,
        /// Whether the run was interrupted, so that parts of the plan are missing.
        pub partial: bool,
        /// Set if a run without a given length ended before the ticks of its plan, because its answer
        /// was settled; omitted otherwise.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub settled: Option<Settled>,
        /// The plan, complete enough to run again.
        pub plan: Plan,
        /// The machine and the environment of the run.
        pub host: Host,
        /// The clock that stamped the samples.
        pub clock: Clock,
        /// Settings of the machine that the tool changed during the run.
        pub changes: Vec<Change>,
        /// Whether the machine was quiet enough to trust the numbers; null if no measurement allows
        /// a judgement.
        #[serde(default)]
        pub fitness: Option<Fitness>,
        /// Warnings to consider before trusting a number.
        pub warnings: Vec<Warning>,
        /// The loads of the plan, with their use of the machine.
        #[serde(default)]
        pub loads: Vec<Load>,
        /// One entry for each subject, period, runtime and load.
        pub subjects: Vec<Subject>,
        /// Comparisons of the CPUs on which subjects ran at once; omitted without any.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub cpu_comparisons: Vec<CpuComparison>,
        /// The trace of another program's timers; null if the subjects are built-in or measured
        /// themselves.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub trace: Option<Trace>,
    }

    /// The end of a run whose answer was settled.
    #[derive(Copy)]
    pub struct Settled {
        /// Number of rounds of each subject.
        pub rounds: u64,
        /// Number of rounds of the plan.
        pub planned_rounds: u64,
    }

    /// A trace of another program by `osjitter trace`. Each of its subjects is one kind of wait of
    /// one thread.
    pub struct Trace {
        /// The program and its arguments; null for a process that was already running.
        pub command: Option<Vec<String>>,
        /// Process ID.
        pub process: u32,
        /// Name of the traced threads; null for all threads.
        pub thread: Option<String>,
        /// Duration of the trace.
        pub window_ns: u64,
        /// CPU time of the tracer in that time; null if the platform does not report it.
        pub cpu_ns: Option<u64>,
        /// Whether the tracer ran on CPUs that the program does not use.
        pub apart: bool,
        /// Number of kernel records, over all programs.
        pub records: u64,
        /// Size of these records.
        pub bytes: u64,
        /// Number of records that the kernel dropped or that cannot be read. The affected waits are
        /// not included in any number.
        pub lost: u64,
        /// Number of records that the kernel counted, but neither wrote nor reported as lost. Some
        /// virtual machines write none for some interrupts.
        pub unrecorded: u64,
        /// Number of timers that woke a thread but were set before the trace.
        pub undated: u64,
        /// Number of timers without a record of their expiry. They are included in the numbers.
        pub unseen: u64,
        /// Number of waits whose end was not recorded.
        pub dropped: u64,
    }

    /// A load that ran alongside subjects while they were measured.
    pub struct Load {
        /// The load as on the command line.
        pub load: String,
        /// CPU time of the load while it was active, which is not part of any subject's cost. That of
        /// processes includes their end and, except on Linux, their start. Null if the platform does
        /// not report it.
        pub cpu_ns: Option<u64>,
        /// Time for which the load was to run: the rounds of its scenarios.
        pub active_ns: u64,
    }

    /// The program that wrote a report.
    pub struct Tool {
        /// Name of the program.
        pub name: String,
        /// Its version.
        pub version: String,
        /// The commit from which it was built, if known.
        pub commit: Option<String>,
    }

    /// The effective plan.
    #[derive(Default)]
    pub struct Plan {
        /// Seed for the order of subjects, the phases and the resampling.
        pub seed: u64,
        /// Whether the report keeps every sample.
        pub samples: bool,
        /// The CPU that the measuring thread was bound to; null for none, or if merged reports have
        /// different ones.
        pub cpu: Option<usize>,
        /// Requested scheduling class, as on the command line.
        pub sched: Option<String>,
        /// Whether the process's memory was locked.
        pub mlock: bool,
        /// Requested timer slack; null if it is inherited.
        pub timer_slack_ns: Option<u64>,
        /// The request for additional profiled rounds, which explain late ticks; null without
        /// `--why`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub why: Option<WhyRequest>,
        /// The scenarios, one for each subject, period and runtime.
        pub scenarios: Vec<Scenario>,
    }

    /// A request to explain late ticks.
    #[cfg_attr(feature = "schema", schemars(rename = "WhyAsked"))]
    pub struct WhyRequest {
        /// Lateness from which a tick counts as late; null for the latest per cent of the ticks.
        pub threshold_ns: Option<u64>,
    }

    /// A scenario: a subject with a period, a runtime and a load.
    pub struct Scenario {
        /// Identifier, unique within the report, for example `os-interval@500us/current-thread`.
        pub id: String,
        /// Name of the subject.
        pub subject: String,
        /// The program and its arguments, restarted for each round, if the subject is a program of
        /// the user.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub command: Option<Vec<String>>,
        /// The meter of the program that is measured, if the user named one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub meter: Option<String>,
        /// Nominal period.
        pub period_ns: u64,
        /// Number of ticks to record over all rounds.
        pub ticks: u64,
        /// Number of recorded ticks of a full round.
        pub round_ticks: u64,
        /// Number of leading ticks of each round that are dropped.
        pub warmup_ticks: u64,
        /// Runtime of a tokio subject; null for a bare thread.
        pub runtime: Option<String>,
        /// Number of instances that run at once, each in a task, with phases spread evenly over the
        /// period. Each records `ticks`.
        #[serde(default = "default_instances")]
        pub instances: u64,
        /// Load that ran alongside it, as on the command line: `cpu:2`, `tasks:100x50us` or a
        /// command; null without one.
        #[serde(default)]
        pub load: Option<String>,
        /// CPU to which its thread was bound. Scenarios that differ only in the CPU ran at once;
        /// null for a scenario that ran alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub cpu: Option<u64>,
    }

    /// Facts about the machine. A fact is null if the platform does not report it.
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
        /// Hypervisor or container technology; also null on bare metal.
        #[serde(rename = "virtualisation")]
        pub hypervisor: Option<String>,
        /// CPU quota of the control group, in CPUs.
        pub quota_cpus: Option<f64>,
        /// Scheduling class of the process at the start.
        pub sched: Option<String>,
        /// Versions of the measured software.
        pub versions: BTreeMap<String, String>,
    }

    /// The clock that stamped the samples.
    pub struct Clock {
        /// Name of the clock.
        pub source: String,
        /// Rate of the counter.
        pub rate_hz: f64,
        /// Origin of the rate.
        pub rate_known_by: String,
        /// Maximum error of a conversion to the kernel's clock in this run.
        pub error_bound_ns: u64,
        /// Maximum error of the rate in parts per billion, estimated from the process's anchors.
        #[serde(default)]
        pub rate_error_ppb: Option<f64>,
        /// Rate stated by the CPU or the hypervisor.
        #[serde(default)]
        pub rate_stated_hz: Option<u64>,
        /// Mechanism that orders readings across threads.
        #[serde(default)]
        pub cross_thread_order: Option<String>,
        /// Reason for not using the CPU counter.
        pub why_not_counter: Option<String>,
        /// Time to timestamp and store a wake-up in this run: the overhead of the measurement per
        /// tick. Null if a program measured itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub observer_ns_per_tick: Option<u64>,
        /// Significant digits of the values, if the source rounded them. Absent if they are exact or
        /// not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub value_digits: Option<u32>,
    }

    /// A setting that the tool changed for the run.
    pub struct Change {
        /// Name of the setting.
        pub what: String,
        /// Value before the run.
        pub from: String,
        /// Value during the run.
        pub to: String,
    }

    /// A round that ran with other settings than the report states.
    pub struct ExcludedRound {
        /// Index of the round.
        pub index: u64,
        /// Position within the round.
        pub slot: u64,
        /// Deadline of its first tick, relative to the start of the run.
        pub start_ns: u64,
        /// The settings that were others after the round than before the run.
        pub changes: Vec<Change>,
    }

    /// A warning to the reader of a file.
    pub struct Warning {
        /// Stable short name.
        pub code: String,
        /// Description of the problem.
        pub message: String,
        /// Suggested remedy.
        pub hint: String,
    }

    /// The result of one scenario.
    pub struct Subject {
        /// Identifier of its scenario.
        pub id: String,
        /// Name of the subject.
        pub name: String,
        /// Nominal period.
        pub period_ns: u64,
        /// Runtime of a tokio subject.
        pub runtime: Option<String>,
        /// Number of instances that ran at once.
        #[serde(default = "default_instances")]
        pub instances: u64,
        /// Load that ran alongside it; null without one.
        #[serde(default)]
        pub load: Option<String>,
        /// Timer that it used.
        pub backend: Option<String>,
        /// CPU to which its thread was bound, if the scenario or the file of another tool states it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub cpu: Option<u64>,
        /// The settings of its threads, which were read before the first round of a program and after
        /// the last round of any other subject; null if they are not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub settings: Option<SubjectSettings>,
        /// Whether it was measured.
        pub status: Status,
        /// Summary over all rounds; null if no tick was measured.
        pub summary: Option<Summary>,
        /// Histogram of all lateness values.
        pub histogram: Option<Histogram>,
        /// The rounds in the order in which they ran.
        pub rounds: Vec<Round>,
        /// Rounds that are part of no number, since a setting was changed from outside. Their
        /// indices are missing in `rounds`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub excluded: Vec<ExcludedRound>,
        /// Explanation of its latest ticks, from additional rounds that are not part of any other
        /// number; null without `--why`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub why: Option<why::Why>,
    }

    /// Counts and distributions of a subject over all rounds, or of one round.
    #[derive(Default)]
    pub struct Summary {
        /// Number of planned ticks: delivered + coalesced + skipped, as far as they are known.
        pub ticks: u64,
        /// Number of ticks with a wake-up of their own.
        pub delivered: u64,
        /// Number of ticks that shared the wake-up of a later tick; null if another tool measured
        /// them and does not count these.
        pub coalesced: Option<u64>,
        /// Number of ticks that were never delivered; null if another tool does not count them.
        pub skipped: Option<u64>,
        /// Number of ticks that were not delivered before the next deadline; null if another tool
        /// does not count all of them, or without a period.
        pub missed: Option<u64>,
        /// Number of ticks that are known to be missed, if not all of them are.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub missed_at_least: Option<u64>,
        /// Number of ticks delivered before their deadline. Each is a bug. Null if another tool does
        /// not count them.
        pub early: Option<u64>,
        /// Number of ticks without a park of the runtime; null if parks are not observed.
        pub no_park: Option<u64>,
        /// Slope of lateness over time, in parts per billion.
        pub drift_ppb: Option<f64>,
        /// 95 % confidence interval of the drift over rounds; null with fewer than 10 rounds. If it
        /// contains zero, no drift was shown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub drift_ppb_ci95: Option<[f64; 2]>,
        /// Time from the first to the last tick of each round, added up.
        pub elapsed_ns: i64,
        /// Time between the deadlines of these ticks, added up.
        pub ideal_ns: i64,
        /// CPU time of the whole process per tick, in the windows of the rounds' costs.
        pub cpu_ns_per_tick: Option<f64>,
        /// Context switches of the whole process per tick, in the same windows.
        pub wakeups_per_tick: Option<f64>,
        /// CPU time of the whole process as a share of the same windows: 1 is one core; null for a
        /// command that does not report its own usage.
        #[serde(default)]
        pub core_share: Option<f64>,
        /// Number of ticks in the same windows, summed over instances; null if nothing was counted,
        /// and in files of version 0.2, whose costs per tick include the start and the warm-up.
        #[serde(default)]
        pub cost_ticks: Option<u64>,
        /// Wake time minus deadline.
        pub lateness_ns: Distribution,
        /// Median over the rounds of each percentile, which describes a typical round. The
        /// percentiles of `lateness_ns` are pooled over all rounds instead. Empty for a single
        /// round.
        #[serde(default)]
        pub median_round_ns: BTreeMap<String, MedianRound>,
        /// Differences in lateness between consecutive ticks.
        pub jitter_consecutive_ns: Option<Distribution>,
        /// Lateness above the smallest lateness.
        pub jitter_spread_ns: Option<Distribution>,
        /// Time from the deadline until the runtime returned from its park: the part of the kernel,
        /// and of the timer that the runtime set.
        pub until_unpark_ns: Option<Distribution>,
        /// Time from the runtime's return until the task ran: the part of the runtime.
        pub after_unpark_ns: Option<Distribution>,
        /// Paths of the numbers of this summary that are not trusted, such as `lateness_ns.p99`:
        /// they rest on percentiles at which the machine itself was late. A drift whose interval
        /// contains zero is among them. Null if no spinning control has judged the machine, and in
        /// the summaries of rounds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub distrusted: Option<Vec<String>>,
    }

    /// One round of one subject.
    #[derive(Default)]
    pub struct Round {
        /// Index of the round.
        pub index: u64,
        /// Position in the order of the round.
        pub slot: u64,
        /// Index of the instance. Each instance has its own entry, with its share of the cost.
        #[serde(default)]
        pub instance: u64,
        /// Start of the grid, relative to the start of the run; for a command, its start.
        pub start_ns: u64,
        /// The random part of that start; 0 for a command.
        pub phase_ns: u64,
        /// Time over which the machine's counters below were read: from the runtime's readiness to
        /// the last tick; for a command, from its start to its end.
        #[serde(default)]
        pub window_ns: Option<u64>,
        /// Time over which the CPU time and the context switches were counted: from the first
        /// recorded tick to the last one, or from the tick before a single one. Null for a command
        /// that does not report its own usage, and in files of version 0.2, in which `window_ns` is
        /// that time.
        #[serde(default)]
        pub cost_window_ns: Option<u64>,
        /// Number of this instance's ticks in that time: CPU time and context switches per tick are
        /// quotients of it. For a command that does not report its own usage, these are also the
        /// ticks of its warm-up; null in files of version 0.2.
        #[serde(default)]
        pub cost_ticks: Option<u64>,
        /// CPU time of the process, without tasks of a load; of the thread, if several CPUs were
        /// measured at once; for a command, of its only process, or of all of them without their
        /// start.
        pub cpu_ns: Option<u64>,
        /// Time for which the control group was throttled because its quota was used up.
        #[serde(default)]
        pub throttled_ns: Option<u64>,
        /// Time for which the machine was suspended.
        #[serde(default)]
        pub suspended_ns: Option<u64>,
        /// Frequency of the CPU on which the round ended; null if the kernel does not report it.
        #[serde(default)]
        pub cpu_khz: Option<u64>,
        /// Time stolen by the hypervisor, over all CPUs.
        pub steal_ns: Option<u64>,
        /// Time for which the measuring thread was runnable and waited for a CPU.
        pub run_queue_ns: Option<u64>,
        /// Number of voluntary context switches.
        pub switches_voluntary: Option<u64>,
        /// Number of involuntary context switches.
        pub switches_involuntary: Option<u64>,
        /// Summary of this round over all instances, in the entry of the first instance; null if no
        /// tick was delivered.
        pub summary: Option<Summary>,
        /// Index of the first recorded tick.
        pub first_tick: u64,
        /// Lateness of each tick, in order; empty in a report without samples.
        pub lateness_ns: Vec<i64>,
        /// Index of each tick; omitted if they are consecutive from `first_tick`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub tick: Option<Vec<u64>>,
        /// Time from the deadline until the runtime returned from its park, for each tick; null for
        /// ticks without a park of their own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub until_unpark_ns: Option<Vec<Option<i64>>>,
    }
}

impl Report {
    /// Records that the run ended early because its answer was settled: the subjects then have all
    /// their ticks.
    pub fn end_settled(&mut self, settled: Settled) {
        self.settled = Some(settled);
        for subject in self.subjects.iter_mut().filter(|s| s.status == Status::Partial) {
            subject.status = Status::Measured;
        }
    }

    /// Whether osjitter measured the numbers, rather than another tool. Only then are the counts of
    /// skipped, coalesced and early ticks known.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.tool.name.starts_with(OWN_TOOL)
    }
}

impl Summary {
    /// Returns the number of ticks with a lateness: those that are not known to be skipped.
    #[must_use]
    pub fn came(&self) -> u64 {
        self.ticks.saturating_sub(self.skipped.unwrap_or(0))
    }

    /// Returns the number of ticks that are known to be missed, which may not be all of them.
    #[must_use]
    pub fn known_missed(&self) -> u64 {
        self.missed.or(self.missed_at_least).unwrap_or(0)
    }
}

impl Scenario {
    /// Creates the scenario of a subject whose plan is not known, from what was measured.
    /// `round_ticks` is the number of ticks of its rounds.
    #[must_use]
    pub fn from_subject(subject: &Subject, round_ticks: u64) -> Self {
        Self {
            id: subject.id.clone(),
            subject: subject.name.clone(),
            command: None,
            meter: None,
            period_ns: subject.period_ns,
            ticks: subject.summary.as_ref().map_or(0, |summary| summary.ticks),
            round_ticks,
            warmup_ticks: 0,
            runtime: None,
            instances: 1,
            load: None,
            cpu: None,
        }
    }
}

impl Subject {
    /// Creates a subject of one instance without rounds.
    #[must_use]
    pub fn new(id: impl Into<String>, name: &str, period_ns: u64, status: Status) -> Self {
        Self {
            id: id.into(),
            name: name.to_owned(),
            period_ns,
            runtime: None,
            instances: 1,
            load: None,
            backend: None,
            cpu: None,
            settings: None,
            status,
            summary: None,
            histogram: None,
            rounds: Vec::new(),
            excluded: Vec::new(),
            why: None,
        }
    }

    /// Whether the report contains the samples of a round.
    #[must_use]
    pub fn has_samples(&self) -> bool {
        self.rounds.iter().any(|round| !round.lateness_ns.is_empty())
    }
}

impl Clock {
    /// Creates a clock that counts nanoseconds.
    #[must_use]
    pub fn in_ns(source: &str, error_bound_ns: u64) -> Self {
        Self {
            source: source.to_owned(),
            rate_hz: 1e9,
            rate_known_by: "its unit".to_owned(),
            error_bound_ns,
            rate_error_ppb: None,
            rate_stated_hz: None,
            cross_thread_order: None,
            why_not_counter: None,
            observer_ns_per_tick: None,
            value_digits: None,
        }
    }
}

impl Warning {
    /// Creates a warning.
    #[must_use]
    pub fn new(code: &str, message: impl Into<String>, hint: &str) -> Self {
        Self { code: code.to_owned(), message: message.into(), hint: hint.to_owned() }
    }
}

impl Round {
    /// Returns the index on the grid of the `i`-th entry of `lateness_ns`.
    #[must_use]
    pub fn tick_index(&self, i: usize) -> u64 {
        let consecutive = || self.first_tick.saturating_add(i as u64);
        self.tick.as_ref().and_then(|t| t.get(i).copied()).unwrap_or_else(consecutive)
    }

    /// Returns the deadline of the `i`-th entry of `lateness_ns`, relative to the start of the run.
    #[must_use]
    pub fn deadline_ns(&self, i: usize, period_ns: u64) -> u64 {
        self.start_ns.saturating_add(self.tick_index(i).saturating_mul(period_ns))
    }
}

fn default_instances() -> u64 {
    1
}

/// Whether a subject was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "state", deny_unknown_fields)]
pub enum Status {
    /// Every round was measured.
    Measured,
    /// Some rounds are missing: the run was interrupted, or the subject failed in another of the
    /// merged runs.
    Partial,
    /// The subject could not be measured.
    Failed {
        /// Reason for the failure.
        reason: String,
    },
}

impl Status {
    /// Returns the reason for a failure.
    pub fn failure(&self) -> Option<&str> {
        match self {
            Self::Failed { reason } => Some(reason),
            Self::Measured | Self::Partial => None,
        }
    }
}
