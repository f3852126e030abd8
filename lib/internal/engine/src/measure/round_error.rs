//! Reasons why a round cannot be measured.

use std::error::Error;
use std::sync::Arc;
use std::{fmt, io};

use cli::exit;
use jitterstat::sample::WakeupError;

use crate::load::Load;
use crate::measure::child::RunFailure;
use crate::measure::load_failure::LoadFailure;
use crate::panics::RuntimePanic;
use crate::subject::script::ScriptError;

/// Reason why a round of a scenario has no result.
#[derive(Clone, Debug)]
pub enum RoundError {
    /// The script of a hidden subject cannot be replayed.
    Script(ScriptError),
    Program(RunFailure),
    /// The thread of a round cannot be started.
    NoThread {
        thread: RoundThread,
        error: Arc<io::Error>,
    },
    ThreadPanicked,
    Unbound {
        cpu: usize,
        error: Arc<io::Error>,
    },
    /// Another thread of the round could not be started.
    Cancelled,
    Runtime(RuntimePanic),
    /// The runtime or the ticker of the subject cannot be created, or a wait failed.
    Subject(Arc<io::Error>),
    ClockStopped,
    ClockJumped {
        counter_s: f64,
        kernel_s: f64,
    },
    TooManyTicks,
    NoMemory,
    /// The subject broke its contract.
    InvalidWakeups(WakeupError),
    Load {
        load: Load,
        failure: LoadFailure,
    },
}

/// A thread on which a part of a round runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoundThread {
    /// The thread of the second subject of a duet.
    Second,
    /// One of the threads that run at once, each on a CPU.
    EachCpu,
}

impl fmt::Display for RoundError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Script(error) => error.fmt(f),
            Self::Program(failure) => failure.fmt(f),
            Self::NoThread { thread: RoundThread::Second, error } => {
                write!(f, "cannot start the second thread: {error}")
            }
            Self::NoThread { thread: RoundThread::EachCpu, error } => {
                write!(f, "cannot start a thread for each CPU: {error}")
            }
            Self::ThreadPanicked => f.write_str("its thread panicked"),
            Self::Unbound { cpu, error } => write!(f, "cannot bind to CPU {cpu}: {error}"),
            Self::Cancelled => f.write_str("the round was not started"),
            Self::Runtime(panic) => panic.fmt(f),
            Self::Subject(error) if exit::is_out_of_descriptors(error) => {
                write!(f, "{error}{}", exit::MORE_DESCRIPTORS)
            }
            Self::Subject(error) => error.fmt(f),
            Self::ClockStopped => f.write_str("the clock did not advance over the round"),
            Self::ClockJumped { counter_s, kernel_s } => write!(
                f,
                "the clock jumped by {:+.3} s within a round: it took {counter_s:.3} s by the CPU counter, and {kernel_s:.3} s by \
                 the kernel's clock",
                kernel_s - counter_s
            ),
            Self::TooManyTicks => f.write_str("more ticks than memory holds"),
            Self::NoMemory => f.write_str("not enough memory for its samples"),
            Self::InvalidWakeups(error) => error.fmt(f),
            Self::Load { load, failure } => write!(f, "its load {load} {failure}"),
        }
    }
}

impl Error for RoundError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Script(error) => error.source(),
            Self::Program(failure) => failure.source(),
            Self::Subject(error) => error.source(),
            Self::NoThread { error, .. } | Self::Unbound { error, .. } => Some(&**error),
            Self::Load { failure, .. } => Some(failure),
            _ => None,
        }
    }
}

impl From<RunFailure> for RoundError {
    fn from(failure: RunFailure) -> Self {
        Self::Program(failure)
    }
}

impl From<RuntimePanic> for RoundError {
    fn from(panic: RuntimePanic) -> Self {
        Self::Runtime(panic)
    }
}
