//! The file `osjitter.comparison/1` as plain data.

use serde::{Deserialize, Serialize};

use crate::environment::Difference;
use crate::file::File;
use crate::model::model;
use crate::report::{Fitness, Tool, Warning};

/// Value of [`Comparison::schema`] that this version writes and reads.
pub const SCHEMA: &str = "osjitter.comparison/1";
model! {
    /// A comparison of B with A.
    pub struct Comparison {
        /// Always [`SCHEMA`].
        pub schema: String,
        /// The program that wrote it.
        pub tool: Tool,
        /// Origin of side A.
        pub a: Origin,
        /// Origin of side B.
        pub b: Origin,
        /// Differences that make the two incomparable. Only present if the comparison was forced;
        /// they then also affect the numbers.
        pub forced: Vec<Difference>,
        /// One entry for each pair of subjects.
        pub subjects: Vec<SubjectComparison>,
        /// One entry for each metric of whole runs; empty if reports were compared, and in older
        /// files.
        #[serde(default)]
        pub metrics: Vec<ComparedMetric>,
        /// Warnings to consider before trusting the comparison.
        pub warnings: Vec<Warning>,
    }

    /// The origin of a side: a report, or the verdict of a gate.
    pub struct Origin {
        /// Path of the file as given.
        pub file: String,
        /// The program of a gate; null for a report, and in older files.
        #[serde(default)]
        pub program: Option<String>,
        /// Start of the run, RFC 3339, UTC.
        pub started_utc: String,
        /// Whether the run was interrupted.
        pub partial: bool,
        /// Whether the machine was quiet enough to trust the run; null if no measurement allows a
        /// judgement, and in older files.
        #[serde(default)]
        pub fitness: Option<Fitness>,
        /// The program that wrote it.
        pub tool: Tool,
    }

    /// The comparison of two subjects.
    #[cfg_attr(feature = "schema", schemars(rename = "Compared"))]
    pub struct SubjectComparison {
        /// The subject that is compared against.
        pub a: Side,
        /// The subject that is judged.
        pub b: Side,
        /// The method of the comparison.
        pub method: Method,
        /// Whether only the first tick of a stall counts. Always true, except in older files for a
        /// side that was usually late by more than a period.
        pub stalls_once: bool,
        /// One entry for each percentile for which the rounds of both have enough ticks.
        pub percentiles: Vec<Percentile>,
        /// The whole range of quantiles, over all ticks.
        pub quantiles: Option<Quantiles>,
    }

    /// A subject with information about its measurement.
    pub struct Side {
        /// Identifier in its report.
        pub id: String,
        /// Name of the subject.
        pub name: String,
        /// Nominal period.
        pub period_ns: u64,
        /// Number of rounds with a value.
        pub rounds: u64,
        /// Largest lateness of its ticks; null in older files.
        #[serde(default)]
        pub max_ns: Option<i64>,
        /// Share of its ticks that belong to an already counted stall; null without samples.
        pub same_stall_share: Option<f64>,
        /// Share of the time of all CPUs that the hypervisor stole during its rounds; null if the
        /// platform does not report it.
        pub steal_share: Option<f64>,
    }

    /// The comparison of one percentile of the rounds.
    pub struct Percentile {
        /// `p50`, `p90`, `p99` or `p99_9`.
        pub name: String,
        /// Estimate over all rounds.
        pub all: Estimate,
        /// Estimate over the quieter half of the pairs; only for tail percentiles of subjects in
        /// the same rounds.
        pub quiet_half: Option<Estimate>,
        /// Estimate relative to the control of each run; only for two runs that both measured the
        /// control.
        pub beside_control: Option<Estimate>,
        /// Ratio by which stalls raise the percentile on sides A and B: median over the rounds.
        /// Null without samples, and in older files.
        pub lift: Option<[f64; 2]>,
    }

    /// The estimated difference between B and A.
    pub struct Estimate {
        /// Median over the rounds of side A, or of its excess over the control.
        pub a_ns: i64,
        /// Median over the rounds of side B, or of its excess over the control.
        pub b_ns: i64,
        /// Ratio of B to A; relative to a control, the ratio of B to its control divided by that of
        /// A.
        pub ratio: f64,
        /// 95 % interval of the ratio; null with fewer than 10 rounds.
        pub ratio_ci95: Option<[f64; 2]>,
        /// Difference B minus A.
        pub difference_ns: i64,
        /// 95 % interval of the difference; null with fewer than 10 rounds.
        pub difference_ns_ci95: Option<[i64; 2]>,
        /// Number of rounds of side A.
        pub rounds_a: u64,
        /// Number of rounds of side B.
        pub rounds_b: u64,
        /// Whether the interval comes from the exact distribution, or from its normal approximation
        /// for many rounds.
        pub exact: bool,
        /// The conclusion from the interval of the ratio.
        pub finding: Finding,
    }

    /// The comparison of one number of the whole runs of two programs.
    pub struct ComparedMetric {
        /// `wall`, `cpu`, `instructions`, `max-rss`, or the name of a metric of the programs with
        /// the percentile of its samples.
        pub name: String,
        /// `ns`, `bytes`, or the unit that the programs declare.
        pub unit: String,
        /// Whether higher values are better.
        pub higher_is_better: bool,
        /// The method of the comparison.
        pub method: Method,
        /// Estimate over all runs.
        pub all: RunEstimate,
        /// Estimate relative to the baseline of each gate; only for the candidates of two gates.
        pub beside_baseline: Option<RunEstimate>,
    }

    /// The estimated difference between programs B and A.
    pub struct RunEstimate {
        /// Median run of side A in the unit of the metric, or median ratio to its baseline.
        pub a: f64,
        /// Median run of side B in the unit of the metric, or median ratio to its baseline.
        pub b: f64,
        /// Ratio of B to A.
        pub ratio: f64,
        /// 95 % interval of the ratio; null with fewer than 10 runs.
        pub ratio_ci95: Option<[f64; 2]>,
        /// Number of runs of side A.
        pub runs_a: u64,
        /// Number of runs of side B.
        pub runs_b: u64,
        /// Whether the interval comes from the exact distribution, or from its normal approximation
        /// for many runs.
        pub exact: bool,
        /// The conclusion from the interval of the ratio.
        pub finding: Finding,
    }

    /// The comparison of the quantiles of all ticks.
    pub struct Quantiles {
        /// Number of ticks of side A.
        pub ticks_a: u64,
        /// Number of ticks of side B.
        pub ticks_b: u64,
        /// Number of resamples behind the band; 0 without a band.
        pub resamples: u64,
        /// The quantiles in ascending order, evenly spaced in nines.
        pub points: Vec<Quantile>,
    }

    /// The comparison of one quantile.
    pub struct Quantile {
        /// The quantile, from 0 to 1.
        pub quantile: f64,
        /// Lateness of side A.
        pub a_ns: i64,
        /// Lateness of side B.
        pub b_ns: i64,
        /// Ratio of B to A.
        pub ratio: f64,
        /// Pointwise 95 % band over resampled rounds; null with too few ticks.
        pub ratio_ci95: Option<[f64; 2]>,
    }
}

/// The method of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Pairs of rounds, or of runs of a gate: Hodges-Lehmann estimate over pairs, with the interval
    /// of Wilcoxon's signed-rank test.
    PairedByRound,
    /// Two runs or gates: Hodges-Lehmann shift of two samples, with the interval of the
    /// Mann-Whitney test.
    TwoRuns,
}

/// The conclusion from an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// No difference is shown, which does not prove that there is none. The interval contains 1, or
    /// the ticks of both do not confirm the difference.
    NoDifferenceShown,
    /// B is later than A.
    Later,
    /// B is less late than A.
    Earlier,
    /// B is worse than A, for a metric.
    Worse,
    /// B is better than A, for a metric.
    Better,
    /// There are too few rounds or runs for an interval.
    TooFewRounds,
    /// The percentile reflects the machine rather than the subjects.
    NotTrusted,
}

impl File for Comparison {
    const SCHEMA: &'static str = SCHEMA;
    const IS_INDENTED: bool = true;
}

/// Rounds to six digits: more would be noise, and six survive JSON exactly.
pub(super) fn tidy(ratio: f64) -> f64 {
    format!("{ratio:.5e}").parse().unwrap_or(ratio)
}
