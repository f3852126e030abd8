//! The file `osjitter.doctor/1`: the settings of a machine that matter for lateness.

use engine::measure::trial_commands::TrialCommands;
use files::compare::Differences;
use files::file::File;
use files::fitness::Fitness;
use files::report::{Host, Tool, Warning};
use serde::{Deserialize, Serialize};

/// Key of the row that changes nothing: the control of a proof.
pub const CONTROL_KEY: &str = "again";

files::model! {
    /// The result of examining a machine once.
    pub struct Checkup {
        /// Always `osjitter.doctor/1`.
        pub schema: String,
        /// The program that wrote it.
        pub tool: Tool,
        /// When it was written, RFC 3339, UTC.
        pub started_utc: String,
        /// The machine.
        pub host: Host,
        /// The CPU that was examined if CPUs differ.
        pub cpu: usize,
        /// One entry per setting or property that matters for lateness.
        pub items: Vec<Item>,
        /// Other tools that can add to the checkup.
        pub tools: Vec<OtherTool>,
        /// Measured effects of the settings of this process; null without `--prove`.
        pub proof: Option<Proof>,
    }

    /// A setting or property of the machine that matters for lateness.
    pub struct Item {
        /// Stable name.
        pub key: String,
        /// Common name.
        pub name: String,
        /// Value on this machine; null if it is not readable.
        pub value: Option<String>,
        /// Reason for which it is not readable; null if it is.
        pub not_readable: Option<String>,
        /// Whether it makes ticks late.
        pub weight: Weight,
        /// Its effect on a tick.
        pub why: String,
        /// The command or setting that changes it; null if there is nothing to change.
        pub change: Option<String>,
    }

    /// A tool of another project.
    pub struct OtherTool {
        /// Its name.
        pub name: String,
        /// Path of the program; null if it was not found.
        pub installed: Option<String>,
        /// Reasons for which it does not work here; empty if none was found.
        pub obstacles: Vec<String>,
        /// Information that it would add.
        pub adds: String,
        /// The command that runs it.
        pub command: String,
    }

    /// Settings that the process may change for itself, and settings of the user, compared with the
    /// unchanged machine in the same rounds.
    pub struct Proof {
        /// Seed for the order and the phases of rounds.
        pub seed: u64,
        /// Nominal period.
        pub period_ns: u64,
        /// Rounds of each setting: those planned, or those that the time limit permitted.
        pub rounds: u64,
        /// Recorded ticks of a round.
        pub round_ticks: u64,
        /// The load during the rounds of all settings; null without one.
        #[serde(default)]
        pub load: Option<String>,
        /// Maximum share of proofs in which an interval of any row is wrong.
        pub alpha: f64,
        /// Duration of the measurement.
        pub duration_ns: u64,
        /// Whether it was interrupted.
        pub partial: bool,
        /// Whether the machine was quiet enough to trust the result.
        pub fitness: Option<Fitness>,
        /// Warnings about the measurement, such as the rounds that were excluded.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub warnings: Vec<Warning>,
        /// One entry for each subject.
        pub subjects: Vec<Proved>,
    }

    /// A subject with the settings that were tried.
    pub struct Proved {
        /// Name of the subject.
        pub subject: String,
        /// Results with all settings unchanged.
        pub baseline: Figures,
        /// One entry for each setting.
        pub rows: Vec<Row>,
    }

    /// A setting.
    pub struct Row {
        /// Stable name.
        pub key: String,
        /// Common name.
        pub setting: String,
        /// The result of trying it.
        pub outcome: Outcome,
        /// How to make the setting permanent; empty if it changes nothing.
        pub keep: String,
        /// The commands of a setting of the user; null if it is built in.
        #[serde(default)]
        pub commands: Option<SettingCommands>,
    }

    /// The commands of a setting of the user.
    pub struct SettingCommands {
        /// The command that ran before each round of the setting.
        #[serde(rename = "try")]
        pub change: String,
        /// The command that ran after each round.
        pub undo: String,
    }

    /// Statistics over all ticks of a setting; null if there are too few.
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

impl Proof {
    /// Describes the settings that could not be measured, those with one reason together.
    pub fn failures(&self) -> Vec<String> {
        let mut by_reason: Vec<(&str, Vec<String>)> = Vec::new();
        for subject in &self.subjects {
            for row in &subject.rows {
                let Outcome::Failed { reason } = &row.outcome else { continue };
                let setting = format!("{} with {}", subject.subject, row.setting);
                match by_reason.iter_mut().find(|(known, _)| known == reason) {
                    Some((_, settings)) => settings.push(setting),
                    None => by_reason.push((reason, vec![setting])),
                }
            }
        }
        let describe = |(reason, settings): (&str, Vec<String>)| {
            let others = settings.len() - 1;
            let more = if others > 0 { format!(" and {others} more") } else { String::new() };
            format!("cannot measure {}{more}: {reason}", settings[0])
        };
        by_reason.into_iter().map(describe).collect()
    }
}

impl From<&TrialCommands> for SettingCommands {
    fn from(commands: &TrialCommands) -> Self {
        let TrialCommands { change, undo, .. } = commands;
        Self { change: change.text().to_owned(), undo: undo.text().to_owned() }
    }
}

/// The result of trying a setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "state", deny_unknown_fields)]
pub enum Outcome {
    /// It was measured in the same rounds as the baseline.
    Measured {
        /// Statistics over all its ticks.
        figures: Figures,
        /// Differences from the baseline, round by round.
        differences: Differences,
    },
    /// The system does not permit it to this process.
    NotPermitted {
        /// The error message of the system.
        reason: String,
        /// The permission that it requires.
        needs: String,
    },
    /// It could not be measured.
    Failed {
        /// Reason for the failure.
        reason: String,
    },
}

/// Whether an item makes ticks late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Weight {
    /// It makes ticks late.
    Costs,
    /// It makes ticks late with some programs or under some load.
    Depends,
    /// It could not be read.
    Unknown,
    /// It does not make ticks late.
    Fine,
}

impl File for Checkup {
    const SCHEMA: &'static str = "osjitter.doctor/1";
    const IS_INDENTED: bool = true;
}
