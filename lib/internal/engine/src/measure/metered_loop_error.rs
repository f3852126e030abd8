//! Errors of metered loops.

use std::error::Error;
use std::{fmt, io};

use tickmeter::RegisterError;

use crate::panics::RuntimePanic;

/// Reason why a metered loop does not run.
#[derive(Debug)]
pub enum MeteredLoopError {
    Meter(RegisterError),
    NoThread(io::Error),
    /// The loop has ended before its first tick.
    EndedAtOnce,
    ThreadPanicked,
    Runtime(RuntimePanic),
    /// The subject is not one that has a loop.
    NoLoop(String),
    /// The runtime or the ticker of the subject cannot be created, or a wait failed.
    Subject(io::Error),
}

impl fmt::Display for MeteredLoopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Meter(error) => error.fmt(f),
            Self::NoThread(error) | Self::Subject(error) => error.fmt(f),
            Self::EndedAtOnce => f.write_str("it ended immediately"),
            Self::ThreadPanicked => f.write_str("its thread panicked"),
            Self::Runtime(panic) => panic.fmt(f),
            Self::NoLoop(subject) => write!(f, "{subject} has no loop"),
        }
    }
}

impl Error for MeteredLoopError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Meter(error) => error.source(),
            Self::NoThread(error) | Self::Subject(error) => error.source(),
            _ => None,
        }
    }
}
