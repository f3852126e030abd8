//! Errors of the settings of the machine.

use std::error::Error;
use std::{fmt, io};

use cli::exit;

use crate::machine::os::{self, Sched};

/// A setting that is invalid or cannot be applied. Nothing was run.
#[derive(Debug)]
pub enum TuningError {
    InvalidCpuList(String),
    UnknownSched(String),
    /// The platform does not bind threads to CPUs.
    CannotBindThreads,
    /// The affinity mask of this process does not contain the CPU.
    CpuNotAllowed {
        cpu: usize,
        allowed: Vec<usize>,
    },
    UnusableCpu {
        cpu: usize,
        reason: UnusableCpu,
        allowed: Vec<usize>,
    },
    Bind {
        cpu: usize,
        error: io::Error,
    },
    TimerSlack(io::Error),
    LockMemory(io::Error),
    Sched {
        class: Sched,
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

impl fmt::Display for TuningError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidCpuList(text) => write!(
                f,
                "invalid list of CPUs {text:?}: expected numbers and ranges such as 0-3,6, or all"
            ),
            Self::UnknownSched(text) => write!(
                f,
                "unknown scheduling class {text:?}: expected other, fifo:N or rr:N with a priority from 1 to 99"
            ),
            Self::CannotBindThreads => {
                f.write_str("cannot measure each CPU: this platform does not bind threads")
            }
            Self::CpuNotAllowed { cpu, allowed } => {
                write!(
                    f,
                    "cannot bind to CPU {cpu}: it does not exist or is not in the affinity mask of this process, which has {}; nothing was run",
                    join(allowed, ", ")
                )
            }
            Self::UnusableCpu { cpu, reason, allowed } => {
                let allowed = join(allowed, ",");
                write!(f, "cannot use CPU {cpu}: {reason}; allowed CPUs: {allowed}")
            }
            Self::Bind { cpu, error } => {
                write!(f, "cannot bind to CPU {cpu}: {error}; nothing was run")
            }
            Self::TimerSlack(error) => {
                write!(f, "cannot set the timer slack: {error}; nothing was run")
            }
            Self::LockMemory(error) => write!(
                f,
                "cannot lock memory: {error}; it needs CAP_IPC_LOCK or a larger ulimit -l; nothing was run"
            ),
            Self::Sched { class, error } => write!(
                f,
                "cannot run as {class}: {error}; it needs {}; nothing was run",
                os::SCHED_NEEDS
            ),
        }
    }
}

fn join(cpus: &[usize], separator: &str) -> String {
    cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(separator)
}

impl Error for TuningError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Bind { error, .. }
            | Self::TimerSlack(error)
            | Self::LockMemory(error)
            | Self::Sched { error, .. } => Some(error),
            _ => None,
        }
    }
}

impl From<TuningError> for exit::Error {
    fn from(error: TuningError) -> Self {
        Self::usage(error.to_string())
    }
}
