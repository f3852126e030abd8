//! Reasons why the load of a round does not run.

use std::error::Error;
use std::fmt;

use cli::exit;

use crate::measure::child::{BackgroundError, EarlyExit};
use crate::program_error::ProgramError;

/// Reason why a load does not run.
#[derive(Clone, Debug)]
pub enum LoadFailure {
    InvalidCommand(ProgramError),
    /// The command does not exist, so it may be a misspelled load.
    MissingCommand(ProgramError),
    NotStarted(BackgroundError),
    /// The load has exited during the round.
    Ended(EarlyExit),
}

impl fmt::Display for LoadFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidCommand(error) => error.fmt(f),
            Self::MissingCommand(error) => {
                write!(f, "{error}; expected none, cpu, memory, io, softirq, tasks or a command")
            }
            Self::NotStarted(error) => error.fmt(f),
            Self::Ended(exit) => exit.fmt(f),
        }
    }
}

impl Error for LoadFailure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::InvalidCommand(error) | Self::MissingCommand(error) => error.source(),
            Self::NotStarted(error) => error.source(),
            Self::Ended(_) => None,
        }
    }
}

impl From<LoadFailure> for exit::Error {
    fn from(failure: LoadFailure) -> Self {
        match failure {
            LoadFailure::InvalidCommand(_) | LoadFailure::MissingCommand(_) => {
                Self::usage(failure.to_string())
            }
            LoadFailure::NotStarted(error) => error.into(),
            LoadFailure::Ended(_) => Self::measure(failure.to_string()),
        }
    }
}
