//! Reasons why the load of a round does not run.

use cli::exit;

use crate::measure::child::{BackgroundError, EarlyExit};
use crate::program_error::ProgramError;

/// Reason why a load does not run.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LoadFailure {
    #[error(transparent)]
    InvalidCommand(ProgramError),
    /// The command does not exist, so it may be a misspelled load.
    #[error("{0}; expected none, cpu, memory, io, softirq, tasks or a command")]
    MissingCommand(ProgramError),
    #[error(transparent)]
    NotStarted(BackgroundError),
    /// The load has exited during the round.
    #[error("{0}")]
    Ended(EarlyExit),
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
