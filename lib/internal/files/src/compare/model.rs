//! The file `osjitter.comparison/1` as plain data.

use serde::{Deserialize, Serialize};

use crate::environment::Difference;
use crate::file::File;
use crate::model::model;
use crate::report::{Fitness, Tool, Warning};

/// Value of [`Comparison::schema`] that this version writes and reads.
pub const SCHEMA: &str = "osjitter.comparison/1";
model! {
    /// One comparison of B against A.
    pub struct Comparison {
        /// Always [`SCHEMA`].
        pub schema: String,
        /// The program that wrote it.
        pub tool: Tool,
        /// Where side A comes from.
        pub a: Origin,
        /// Where side B comes from.
        pub b: Origin,
        /// What keeps the two from being comparable. Not empty only where that was overridden: the
        /// numbers then also hold the difference of these.
        pub forced: Vec<Difference>,
        /// One entry for each pair of subjects.
        pub subjects: Vec<SubjectComparison>,
        /// One entry for each metric of whole runs; none where reports were compared, and in files
        /// from before verdicts were.
        #[serde(default)]
        pub metrics: Vec<ComparedMetric>,
        /// What a reader should know before trusting it.
        pub warnings: Vec<Warning>,
    }

    /// A report, or the verdict of a gate.
    pub struct Origin {
        /// The file, as it was named.
        pub file: String,
        /// The program of a gate; null for a report, and in files from before verdicts were
        /// compared.
        #[serde(default)]
        pub program: Option<String>,
        /// Start of its run, RFC 3339, UTC.
        pub started_utc: String,
        /// Its run was interrupted.
        pub partial: bool,
        /// Whether the machine was quiet enough to believe it; null where nothing was measured to
        /// judge by, and in files from before it was.
        #[serde(default)]
        pub fitness: Option<Fitness>,
        /// The program that wrote it.
        pub tool: Tool,
    }

    /// Two subjects, compared.
    #[cfg_attr(feature = "schema", schemars(rename = "Compared"))]
    pub struct SubjectComparison {
        /// The subject compared against.
        pub a: Side,
        /// The subject that is judged.
        pub b: Side,
        /// How.
        pub method: Method,
        /// Whether a stall counts with its first tick only. It does; in files from before stalls
        /// were gaps it did not where a side was late by more than a period as a rule.
        pub stalls_once: bool,
        /// One entry for each percentile that the rounds of both carry.
        pub percentiles: Vec<Percentile>,
        /// The whole range of quantiles, of all ticks together.
        pub quantiles: Option<Quantiles>,
    }

    /// A subject, and what it met while it was measured.
    pub struct Side {
        /// Its id in its report.
        pub id: String,
        /// Its name.
        pub name: String,
        /// Nominal period.
        pub period_ns: u64,
        /// Rounds with a value.
        pub rounds: u64,
        /// Share of its ticks that belonged to a stall already counted; null where the report keeps
        /// no samples.
        pub same_stall_share: Option<f64>,
        /// Share of the time of all CPUs that the hypervisor took during its rounds, where the
        /// platform tells.
        pub steal_share: Option<f64>,
    }

    /// One percentile of a round, compared.
    pub struct Percentile {
        /// `p50`, `p90`, `p99` or `p99_9`.
        pub name: String,
        /// Over all rounds.
        pub all: Estimate,
        /// Over the quieter half of the pairs; only for the tail percentiles of subjects in the
        /// same rounds.
        pub quiet_half: Option<Estimate>,
        /// Of what each side has beyond the control of its own run; only for two runs that both
        /// measured it.
        pub beside_control: Option<Estimate>,
        /// By how much stalls raise it on side A, and on side B: median over its rounds, as a
        /// ratio. Null where a report keeps no samples, and in files from before that was known.
        pub lift: Option<[f64; 2]>,
    }

    /// B against A.
    pub struct Estimate {
        /// Median over the rounds of side A; beside a control, of its excess over the control.
        pub a_ns: i64,
        /// The same of side B.
        pub b_ns: i64,
        /// B as a multiple of A; beside a control, the ratio to the control as a multiple of that
        /// of A.
        pub ratio: f64,
        /// Its 95 % interval; null below 10 rounds.
        pub ratio_ci95: Option<[f64; 2]>,
        /// B minus A.
        pub difference_ns: i64,
        /// Its 95 % interval; null below 10 rounds.
        pub difference_ns_ci95: Option<[i64; 2]>,
        /// Rounds of side A it is of.
        pub rounds_a: u64,
        /// Rounds of side B it is of.
        pub rounds_b: u64,
        /// Whether the interval is of the exact distribution; otherwise of its normal
        /// approximation, for many rounds.
        pub exact: bool,
        /// What the interval of the ratio says.
        pub finding: Finding,
    }

    /// A number of the whole runs of two programs, compared.
    pub struct ComparedMetric {
        /// `wall`, `cpu`, `instructions`, `max-rss`, or what the programs call it, with the
        /// percentile of its samples.
        pub name: String,
        /// `ns`, `bytes`, or what the programs state.
        pub unit: String,
        /// More is better.
        pub higher_is_better: bool,
        /// How.
        pub method: Method,
        /// Over all runs.
        pub all: RunEstimate,
        /// Of what each side is beside the baseline of its own gate; only for the candidates of two
        /// gates.
        pub beside_baseline: Option<RunEstimate>,
    }

    /// Program B against program A.
    pub struct RunEstimate {
        /// Median run of side A, in the metric's unit; beside a baseline, the median of its
        /// multiples of that.
        pub a: f64,
        /// The same of side B.
        pub b: f64,
        /// B as a multiple of A.
        pub ratio: f64,
        /// Its 95 % interval; null below 10 runs.
        pub ratio_ci95: Option<[f64; 2]>,
        /// Runs of side A it is of.
        pub runs_a: u64,
        /// Runs of side B it is of.
        pub runs_b: u64,
        /// Whether the interval is of the exact distribution; otherwise of its normal
        /// approximation, for many runs.
        pub exact: bool,
        /// What the interval of the ratio says.
        pub finding: Finding,
    }

    /// The quantiles of all ticks of B against those of A.
    pub struct Quantiles {
        /// Ticks of side A.
        pub ticks_a: u64,
        /// Ticks of side B.
        pub ticks_b: u64,
        /// Resamples behind the band; 0 where there is none.
        pub resamples: u64,
        /// In ascending order, evenly spaced in nines.
        pub points: Vec<Quantile>,
    }

    /// One quantile.
    pub struct Quantile {
        /// From 0 to 1.
        pub quantile: f64,
        /// Of side A.
        pub a_ns: i64,
        /// Of side B.
        pub b_ns: i64,
        /// B as a multiple of A.
        pub ratio: f64,
        /// Pointwise 95 % band over resampled rounds; null where the ticks do not carry it.
        pub ratio_ci95: Option<[f64; 2]>,
    }
}

/// How two subjects were compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Paired by round, or by run in a gate: Hodges-Lehmann over pairs, interval of Wilcoxon's
    /// signed-rank test.
    PairedByRound,
    /// Two runs, or two gates: Hodges-Lehmann shift of two samples, interval of the Mann-Whitney
    /// test.
    TwoRuns,
}

/// What an interval says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// It holds 1: no difference is shown, which does not show that there is none.
    NoDifferenceShown,
    /// B is later than A.
    Later,
    /// B is less late than A.
    Earlier,
    /// Of a metric: B is worse than A.
    Worse,
    /// Of a metric: B is better than A.
    Better,
    /// There are too few rounds, or runs, for an interval.
    TooFewRounds,
}

impl File for Comparison {
    const SCHEMA: &'static str = SCHEMA;
    const PRETTY: bool = true;
}

/// Six digits: more are noise, and these a reader of JSON keeps exactly.
pub(super) fn tidy(ratio: f64) -> f64 {
    format!("{ratio:.5e}").parse().unwrap_or(ratio)
}
