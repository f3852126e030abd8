//! The settings of the threads that run a subject, as plain data. [`crate::settings`] compares them.

use serde::{Deserialize, Serialize};

use crate::model::model;

model! {
    /// The settings with which a subject ran.
    #[derive(Default)]
    pub struct SubjectSettings {
        /// The threads of its ticks, one entry for each combination of settings.
        pub threads: Vec<ThreadSettings>,
        /// Timer slack with which its process was started; null for a built-in subject.
        pub initial_timer_slack_ns: Option<u64>,
        /// The settings in which it differs from the controls of its run, or from another subject
        /// without controls.
        pub differences: Vec<SettingDifference>,
    }

    /// Settings that some threads have in common. A setting is null if it is not known.
    #[derive(Default)]
    pub struct ThreadSettings {
        /// Number of threads with these settings.
        pub threads: u64,
        /// Time by which the kernel may delay a wait of the thread; 0 if that does not apply: to
        /// real-time threads, timers of the kernel and busy loops. Reading that of another process
        /// needs the capability `CAP_SYS_NICE`.
        pub timer_slack_ns: Option<u64>,
        /// Scheduling class, with the priority of a real-time thread: `other`, `fifo:50`.
        pub sched: Option<String>,
        /// Nice value.
        pub nice: Option<i64>,
        /// CPUs on which the thread may run.
        pub affinity: Option<Vec<usize>>,
        /// CPU quota of the control group, in CPUs; also null without a quota.
        pub quota_cpus: Option<f64>,
        /// Whether the control group has a CPU quota.
        #[serde(default)]
        pub has_quota: Option<bool>,
    }

    /// A setting in which a subject differs from another one.
    pub struct SettingDifference {
        /// The setting.
        pub setting: SettingName,
        /// Its value for this subject; `unknown` if it cannot be read.
        pub value: String,
        /// The other subject.
        pub reference: String,
        /// Its value for the other subject.
        pub reference_value: String,
        /// Maximum time by which the two values can make a wait differ; null if the setting implies
        /// no bound, or a value is unknown.
        pub max_cost_ns: Option<u64>,
    }
}

/// A setting of a thread that affects its lateness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SettingName {
    /// Time by which the kernel may delay a wait.
    TimerSlack,
    /// Scheduling class and priority.
    Sched,
    /// Nice value.
    Nice,
    /// CPUs on which the thread may run.
    Affinity,
    /// CPU quota of the control group.
    Quota,
}
