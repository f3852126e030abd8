//! Reasons why evidence for a diagnosis is not available.

use std::error::Error;
use std::fmt;

use jitterstat::series;

use crate::machine::os::NotAvailable;

/// Reason why evidence is not available.
#[derive(Clone, Debug)]
pub enum Unavailable {
    Feature(NotAvailable),
    /// The kernel's clock cannot be read.
    NoClock,
    /// The clocks of the system have no common origin.
    NoCommonOrigin,
    LostRecords {
        count: u64,
        kind: &'static str,
    },
    /// A program writes lateness without times.
    NoTimes,
    /// A program writes times that are not in its run.
    TimesOutsideRun,
    /// No thread of a program ran at the times that it wrote.
    NoThreadAtTimes,
    /// Without the occupants of the CPUs, the waits of a program's threads cannot be explained.
    UnknownWaits(Box<Self>),
    /// The round was replayed from a script.
    NoThreads,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Feature(error) => error.fmt(f),
            Self::NoClock => f.write_str("the kernel's clock cannot be read"),
            Self::NoCommonOrigin => f.write_str("the clocks of this system cannot be joined"),
            Self::LostRecords { count, kind } => {
                write!(f, "the kernel's buffer was too small: {count} {kind} were lost")
            }
            Self::NoTimes => write!(
                f,
                "it writes lateness without times, which {}={} requests",
                series::ENV_TIMES,
                series::TIMES_MONOTONIC
            ),
            Self::TimesOutsideRun => {
                f.write_str("it writes times that are not on CLOCK_MONOTONIC during its run")
            }
            Self::NoThreadAtTimes => {
                f.write_str("no thread of the program ran at the times it reported")
            }
            Self::UnknownWaits(reason) => write!(
                f,
                "{reason}. Without it, or the time that the program says its thread waited, waiting for a CPU cannot be told \
                 from what is below the thread"
            ),
            Self::NoThreads => f.write_str("a script has no threads"),
        }
    }
}

impl Error for Unavailable {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Feature(error) => error.source(),
            Self::UnknownWaits(reason) => Some(&**reason),
            _ => None,
        }
    }
}

impl From<NotAvailable> for Unavailable {
    fn from(error: NotAvailable) -> Self {
        Self::Feature(error)
    }
}
