//! Errors of the texts that describe loads.

use cli::exit;
use cli::units::UnitError;

/// A text that is not a load.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    #[error("tasks need a number and a time, e.g. tasks:100x50us")]
    NoTasks,
    #[error(
        "invalid load tasks:{0}: expected a number of tasks and the time each holds its worker, e.g. tasks:100x50us"
    )]
    InvalidTasks(String),
    /// The time for which a task occupies its worker is invalid.
    #[error(transparent)]
    InvalidHold(UnitError),
    #[error("invalid load {load}:{threads}: expected 1 to {max} threads, e.g. {load}:2")]
    InvalidThreads { load: String, threads: String, max: usize },
    #[error("unknown load {0:?}: expected cpu, memory, io or softirq")]
    UnknownStress(String),
    #[error("the load is empty; use `none` to measure without a load")]
    Empty,
    #[error("the command {command:?} has an open quote")]
    OpenQuote { command: String },
    #[error("a load is one line without control characters; put more into a script")]
    ControlCharacter,
}

impl From<LoadError> for exit::Error {
    fn from(error: LoadError) -> Self {
        Self::usage(error.to_string())
    }
}
