//! The comparison of the CPUs on which a subject ran at once, as a part of a report.

use serde::{Deserialize, Serialize};

use crate::model::model;

model! {
    /// The comparison of the CPUs on which a subject ran at once. Each percentile of a CPU is
    /// compared, round by round, with the median of that percentile over the other CPUs.
    pub struct CpuComparison {
        /// Identifiers of the compared subjects, one per CPU.
        pub subjects: Vec<String>,
        /// One entry for each CPU and percentile, except those for which the rounds have too few
        /// ticks. A CPU that differs is left out of the median with which others are compared. The
        /// intervals of all entries contain the true values together with a confidence of 95 %.
        pub differences: Vec<CpuDifference>,
    }

    /// The difference in lateness of a CPU from the other CPUs, at one percentile.
    pub struct CpuDifference {
        /// Number of the CPU.
        pub cpu: u64,
        /// Percentile of the rounds: `p50` or `p99`.
        pub percentile: String,
        /// Number of rounds in which this CPU and another one were measured.
        pub rounds: u64,
        /// Median over the rounds of the lateness on this CPU minus the median of the others.
        pub difference_ns: i64,
        /// Interval of that median; null if there are too few rounds.
        pub difference_ns_ci95: Option<[i64; 2]>,
        /// The conclusion from the rounds.
        pub finding: CpuFinding,
    }
}

/// The conclusion from the rounds of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CpuFinding {
    /// No difference is shown, which does not prove that there is none.
    NoDifferenceShown,
    /// Ticks on this CPU are later than on the others.
    Later,
    /// Ticks on this CPU are less late than on the others.
    Earlier,
    /// There are too few rounds for a conclusion.
    TooFewRounds,
}
