//! Reasons why evidence for a diagnosis is not available.

use jitterstat::series;

use crate::machine::os::NotAvailable;

/// Reason why evidence is not available.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Unavailable {
    #[error(transparent)]
    Feature(#[from] NotAvailable),
    #[error("the kernel's clock cannot be read")]
    NoClock,
    /// The clocks of the system have no common origin.
    #[error("the clocks of this system cannot be joined")]
    NoCommonOrigin,
    #[error("the kernel's buffer was too small: {count} {kind} were lost")]
    LostRecords { count: u64, kind: &'static str },
    #[error(
        "it writes lateness without times, which {}={} requests",
        series::ENV_TIMES,
        series::TIMES_MONOTONIC
    )]
    NoTimes,
    #[error("it writes times that are not on CLOCK_MONOTONIC during its run")]
    TimesOutsideRun,
    #[error("no thread of the program ran at the times it reported")]
    NoThreadAtTimes,
    /// Without the occupants of the CPUs, the waits of a program's threads cannot be explained.
    #[error(
        "{0}. Without it, or the time that the program says its thread waited, waiting for a CPU cannot be told \
         from what is below the thread"
    )]
    UnknownWaits(#[source] Box<Self>),
    /// The round was replayed from a script.
    #[error("a script has no threads")]
    NoThreads,
}
