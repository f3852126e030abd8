//! Errors of metered loops.

use std::io;

use tickmeter::RegisterError;

use crate::panics::RuntimePanic;

/// Reason why a metered loop does not run.
#[derive(Debug, thiserror::Error)]
pub enum MeteredLoopError {
    #[error(transparent)]
    Meter(RegisterError),
    #[error(transparent)]
    NoThread(io::Error),
    /// The loop has ended before its first tick.
    #[error("it ended immediately")]
    EndedAtOnce,
    #[error("its thread panicked")]
    ThreadPanicked,
    #[error(transparent)]
    Runtime(RuntimePanic),
    #[error("{0} has no loop")]
    NoLoop(String),
    /// The runtime or the ticker of the subject cannot be created, or a wait failed.
    #[error(transparent)]
    Subject(io::Error),
}
