//! The file `osjitter.doctor/1`: what about a machine matters for lateness.

use files::compare::Differences;
use files::file::File;
use files::fitness::Fitness;
use files::report::{Host, Tool};
use serde::{Deserialize, Serialize};

use crate::file_io::model;

model! {
    /// One look at a machine.
    pub struct Checkup {
        /// Always `osjitter.doctor/1`.
        pub schema: String,
        /// The program that wrote it.
        pub tool: Tool,
        /// When it was written, RFC 3339, UTC.
        pub started_utc: String,
        /// The machine.
        pub host: Host,
        /// The CPU that is asked about where CPUs differ.
        pub cpu: usize,
        /// One entry for each thing that matters for lateness.
        pub items: Vec<Item>,
        /// Other tools that see more.
        pub tools: Vec<OtherTool>,
        /// What trying the settings of this process has shown; null without `--prove`.
        pub proof: Option<Proof>,
    }

    /// One thing that matters for lateness.
    pub struct Item {
        /// Stable name.
        pub key: String,
        /// As people call it.
        pub name: String,
        /// What it is here; null where it is not readable.
        pub value: Option<String>,
        /// Why it is not readable here.
        pub not_readable: Option<String>,
        /// Whether it makes ticks late.
        pub weight: Weight,
        /// What it does to a tick.
        pub why: String,
        /// The command or setting that changes it; null where there is nothing to change.
        pub change: Option<String>,
    }

    /// A tool of others.
    pub struct OtherTool {
        /// Its name.
        pub name: String,
        /// Where it is; null where it is not found.
        pub installed: Option<String>,
        /// What keeps it from working here; empty where nothing is seen to.
        pub obstacles: Vec<String>,
        /// What it would add.
        pub adds: String,
        /// How it is run.
        pub command: String,
    }

    /// Each setting that the process may change for itself, against leaving everything as it is, in
    /// the same rounds.
    pub struct Proof {
        /// Of the order and the phases of rounds.
        pub seed: u64,
        /// Nominal period.
        pub period_ns: u64,
        /// Rounds of each setting, as planned.
        pub rounds: u64,
        /// Recorded ticks of a round.
        pub round_ticks: u64,
        /// Share of proofs in which an interval of any row may be wrong.
        pub alpha: f64,
        /// How long it took.
        pub duration_ns: u64,
        /// It was interrupted.
        pub partial: bool,
        /// Whether the machine was quiet enough to believe it.
        pub fitness: Option<Fitness>,
        /// One entry for each subject.
        pub subjects: Vec<Proved>,
    }

    /// A subject with the settings that were tried.
    pub struct Proved {
        /// Its name.
        pub subject: String,
        /// Everything left as it is.
        pub baseline: Figures,
        /// One entry for each setting.
        pub rows: Vec<Row>,
    }

    /// A setting.
    pub struct Row {
        /// Stable name.
        pub key: String,
        /// As people call it.
        pub setting: String,
        /// What came of it.
        pub outcome: Outcome,
        /// What keeps it for good; empty for what changes nothing.
        pub keep: String,
    }

    /// What all ticks of a setting come to; null where they do not say.
    #[derive(Default)]
    pub struct Figures {
        /// Median lateness.
        pub p50_ns: Option<i64>,
        /// 99th percentile.
        pub p99_ns: Option<i64>,
        /// CPU time of the process.
        pub cpu_ns_per_tick: Option<f64>,
    }
}

/// What came of trying a setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "state", deny_unknown_fields)]
pub enum Outcome {
    /// It ran in the same rounds as the baseline.
    Measured {
        /// What all its ticks come to.
        figures: Figures,
        /// What differs from the baseline, round by round.
        differences: Differences,
    },
    /// The system refuses it to this process.
    NotPermitted {
        /// In the system's words.
        reason: String,
        /// What would permit it.
        needs: String,
    },
    /// It could not be measured.
    Failed {
        /// Why.
        reason: String,
    },
}

/// Whether something makes ticks late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Weight {
    /// It does.
    Costs,
    /// It may, with some programs or under some load.
    Depends,
    /// It could not be read.
    Unknown,
    /// It does not.
    Fine,
}

impl File for Checkup {
    const SCHEMA: &'static str = "osjitter.doctor/1";
    const PRETTY: bool = true;
}
