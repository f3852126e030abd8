//! Whether to believe a report, as plain data; [`crate::fitness`] judges it.

use serde::{Deserialize, Serialize};

use crate::model::model;

model! {
    /// Whether to believe a run, and what in it.
    pub struct Fitness {
        /// The worst of the reasons; quiet where there is none.
        pub verdict: Verdict,
        /// The lowest percentile that is the machine's rather than the subjects'; null where none
        /// is, or no control that spins was among the subjects.
        pub distrust_from: Option<String>,
        /// What is wrong, the worst first.
        pub reasons: Vec<Reason>,
        /// What was measured to judge by.
        pub facts: Facts,
    }

    /// One thing that made the machine unfit, or noisy.
    pub struct Reason {
        /// What it is.
        pub cause: Cause,
        /// How bad it is by itself.
        pub verdict: Verdict,
        /// How much of it there was, in the cause's own unit: a share of the time, or nanoseconds.
        pub value: f64,
        /// From where on it is noisy, and unfit.
        pub limits: [f64; 2],
    }

    /// Shares are of the time that was measured; null where the platform does not report it, or the
    /// control that spins was not among the subjects.
    #[derive(Default)]
    pub struct Facts {
        /// Share of one core that the spinning control got while it spun.
        pub spin_core: Option<f64>,
        /// Share of the time the spinning control did not run at all, whatever took it: what it
        /// lost at a time, from 20 us on.
        pub spin_gaps: Option<f64>,
        /// The longest of these gaps.
        pub spin_longest_gap_ns: Option<i64>,
        /// Share of the time that a thread of the process was ready and did not run: in the rounds
        /// of the spinning control, where it was among the subjects, as it is always ready.
        pub waited: Option<f64>,
        /// Times a second that a spinning thread was made to leave its CPU.
        pub preempted_per_s: Option<f64>,
        /// Share of the CPU time of all CPUs that the hypervisor took away.
        pub stolen: Option<f64>,
        /// Share of the same time that the control group stood still because its quota was used up.
        pub throttled: Option<f64>,
        /// Time the machine was suspended.
        pub suspended_ns: Option<u64>,
        /// The lowest and the highest frequency of the spinning control's CPU, at the ends of its
        /// rounds.
        #[serde(default)]
        pub spin_khz: Option<[u64; 2]>,
        /// Share of a control's rounds whose median is more than twice that of their neighbours.
        pub uneven_rounds: Option<f64>,
    }
}

/// How far to trust a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The lateness is the subjects' own.
    Quiet,
    /// Medians are good; tails are the machine's too.
    Noisy,
    /// What was measured is the machine.
    Unfit,
}

/// What keeps a thread from running.
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
    /// The CPU of a thread that always had work became slow: by what share its lowest frequency was
    /// below its highest.
    Slowed,
    /// The process itself was stopped: by a signal, a debugger or a freezer; share of the time.
    Stopped,
    /// Nothing else ran, and yet the CPU stood still: firmware, or a hypervisor that does not
    /// account for it; share of the time.
    Pauses,
    /// The control's rounds differ from their neighbours; share of the rounds.
    Uneven,
}
