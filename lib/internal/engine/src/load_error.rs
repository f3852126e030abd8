//! Errors of the texts that describe loads.

use std::error::Error;
use std::fmt;

use cli::exit;
use cli::units::UnitError;

/// A text that is not a load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// The text names tasks, without their number and time.
    NoTasks,
    InvalidTasks(String),
    /// The time for which a task occupies its worker is invalid.
    InvalidHold(UnitError),
    InvalidThreads {
        load: String,
        threads: String,
        max: usize,
    },
    /// The text is not that of a stress process.
    UnknownStress(String),
    /// A command is empty.
    Empty,
    OpenQuote {
        command: String,
    },
    ControlCharacter,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTasks => f.write_str("tasks need a number and a time, e.g. tasks:100x50us"),
            Self::InvalidTasks(text) => write!(
                f,
                "invalid load tasks:{text}: expected a number of tasks and the time each holds its worker, e.g. tasks:100x50us"
            ),
            Self::InvalidHold(error) => error.fmt(f),
            Self::InvalidThreads { load, threads, max } => write!(
                f,
                "invalid load {load}:{threads}: expected 1 to {max} threads, e.g. {load}:2"
            ),
            Self::UnknownStress(text) => {
                write!(f, "unknown load {text:?}: expected cpu, memory, io or softirq")
            }
            Self::Empty => f.write_str("the load is empty; use `none` to measure without a load"),
            Self::OpenQuote { command } => write!(f, "the command {command:?} has an open quote"),
            Self::ControlCharacter => {
                f.write_str("a load is one line without control characters; put more into a script")
            }
        }
    }
}

impl Error for LoadError {}

impl From<LoadError> for exit::Error {
    fn from(error: LoadError) -> Self {
        Self::usage(error.to_string())
    }
}
