//! Errors of the settings of the machine.

use std::{fmt, io};

use cli::exit;

use crate::machine::os::{self, Sched};

/// A setting that is invalid or cannot be applied. Nothing was run.
#[derive(Debug, thiserror::Error)]
pub enum TuningError {
    #[error("invalid list of CPUs {0:?}: expected numbers and ranges such as 0-3,6, or all")]
    InvalidCpuList(String),
    #[error(
        "unknown scheduling class {0:?}: expected other, fifo:N or rr:N with a priority from 1 to 99"
    )]
    UnknownSched(String),
    #[error("cannot measure each CPU: this platform does not bind threads")]
    CannotBindThreads,
    #[error(
        "cannot bind to CPU {cpu}: it does not exist or is not in the affinity mask of this process, which has {}; nothing was run",
        join(.allowed, ", ")
    )]
    CpuNotAllowed { cpu: usize, allowed: Vec<usize> },
    #[error("cannot use CPU {cpu}: {reason}; allowed CPUs: {}; nothing was run", join(.allowed, ","))]
    UnusableCpu { cpu: usize, reason: UnusableCpu, allowed: Vec<usize> },
    #[error("cannot bind to CPU {cpu}: {error}; nothing was run")]
    Bind {
        cpu: usize,
        #[source]
        error: io::Error,
    },
    #[error("cannot set the timer slack: {0}; nothing was run")]
    TimerSlack(#[source] io::Error),
    #[error(
        "cannot set the timer slack to {requested}: the kernel made {actual} of it, since 0 means the default and real-time threads have none; nothing was run"
    )]
    OtherTimerSlack { requested: String, actual: String },
    #[error(
        "cannot set the timer slack with --sched {class}: real-time threads have none; give only one of them; nothing was run"
    )]
    RealTimeSlack { class: Sched },
    #[error(
        "cannot lock memory: {0}; it needs CAP_IPC_LOCK or a larger ulimit -l; nothing was run"
    )]
    LockMemory(#[source] io::Error),
    #[error("cannot run as {class}: {error}; it needs {}; nothing was run", os::SCHED_NEEDS)]
    Sched {
        class: Sched,
        #[source]
        error: io::Error,
    },
}

/// Reason why threads of this process cannot run on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnusableCpu {
    Missing,
    Offline,
    /// The CPU exists, but not for this process.
    Forbidden,
    /// The system does not report its CPUs.
    MissingOrForbidden,
}

impl fmt::Display for UnusableCpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "it does not exist",
            Self::Offline => "it is offline",
            Self::Forbidden => "it is outside of the affinity mask or the cpuset of this process",
            Self::MissingOrForbidden => {
                "it does not exist or is outside of the affinity mask of this process"
            }
        })
    }
}

fn join(cpus: &[usize], separator: &str) -> String {
    cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(separator)
}

impl From<TuningError> for exit::Error {
    fn from(error: TuningError) -> Self {
        Self::usage(error.to_string())
    }
}
