//! The fitness of a machine for measuring, as plain data. [`crate::fitness`] judges it.

use serde::{Deserialize, Serialize};

use crate::model::model;

model! {
    /// Whether a run can be trusted, and which of its numbers.
    pub struct Fitness {
        /// The worst verdict of the reasons; quiet without a reason.
        pub verdict: Verdict,
        /// The lowest percentile that reflects the machine rather than the subjects; null if there
        /// is none, or the subjects did not include a spinning control.
        pub distrust_from: Option<String>,
        /// The causes of noise, the worst first.
        pub reasons: Vec<Reason>,
        /// The measurements behind the verdict.
        pub facts: Facts,
    }

    /// A cause that made the machine noisy or unfit.
    pub struct Reason {
        /// The cause.
        pub cause: Cause,
        /// The verdict on this cause alone.
        pub verdict: Verdict,
        /// Amount, in the unit of the cause: a share of the time, or nanoseconds.
        pub value: f64,
        /// Amounts from which the machine is noisy and unfit.
        pub limits: [f64; 2],
    }

    /// Measurements from which fitness is judged. Shares are relative to the measured time. A value
    /// is null if the platform does not report it, or the subjects did not include a spinning
    /// control.
    #[derive(Default)]
    pub struct Facts {
        /// Share of one core that the spinning control got while it spun.
        pub spin_core: Option<f64>,
        /// Share of the time in which the spinning control did not run, for any reason, in gaps of
        /// 20 us or more.
        pub spin_gaps: Option<f64>,
        /// Length of the longest of these gaps.
        pub spin_longest_gap_ns: Option<i64>,
        /// Share of the time in which a thread of the process was ready but did not run. Measured
        /// in the rounds of the spinning control if the subjects included it, as it is always
        /// ready.
        pub waited: Option<f64>,
        /// Preemptions of the spinning control per second.
        pub preempted_per_s: Option<f64>,
        /// Share of the CPU time of all CPUs that the hypervisor stole.
        pub stolen: Option<f64>,
        /// Share of the time in which the control group was throttled because its quota was used
        /// up.
        pub throttled: Option<f64>,
        /// Time for which the machine was suspended.
        pub suspended_ns: Option<u64>,
        /// Lowest and highest frequency of the spinning control's CPU at the ends of its rounds.
        #[serde(default)]
        pub spin_khz: Option<[u64; 2]>,
        /// Share of a control's rounds whose median differs from that of neighbouring rounds by a
        /// factor of more than two.
        pub uneven_rounds: Option<f64>,
    }
}

/// The degree to which a run can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The lateness reflects the subjects.
    Quiet,
    /// Medians reflect the subjects; tails also reflect the machine.
    Noisy,
    /// The lateness reflects the machine.
    Unfit,
}

/// A cause that keeps a thread from running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The machine was suspended; nanoseconds.
    Suspended,
    /// The control group had used up its quota; share of the time.
    Quota,
    /// Other programs held the CPU; share of the time.
    Busy,
    /// The hypervisor ran something else; share of the CPU time.
    Steal,
    /// The CPU of a thread that always had work became slow; the share by which its lowest
    /// frequency was below its highest.
    Slowed,
    /// The process was stopped, by a signal, a debugger or a freezer; share of the time.
    Stopped,
    /// The CPU stopped although nothing else ran, because of firmware or a hypervisor that does not
    /// account for it; share of the time.
    Pauses,
    /// The rounds of the control differ from neighbouring rounds; share of the rounds.
    Uneven,
}
