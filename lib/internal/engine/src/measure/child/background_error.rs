//! Errors of programs in the background of a measurement.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use cli::exit;

use super::run_failure::ProgramExit;
use super::stderr_tail::StderrQuote;

/// Reason why a program does not run in the background.
#[derive(Clone, Debug)]
pub enum BackgroundError {
    /// The command of the user cannot be started.
    CommandNotStarted { command: String, error: Arc<io::Error> },
    /// The command of the user has exited.
    CommandEnded(EarlyExit),
    /// The process of osjitter cannot be started.
    HelperNotStarted(Arc<io::Error>),
    /// The process of osjitter was not ready in this time.
    HelperNotReady(Duration),
    /// The process of osjitter has exited.
    HelperEnded(EarlyExit),
}

/// Exit of a program that should run in the background.
#[derive(Clone, Debug)]
pub struct EarlyExit {
    pub exit: ProgramExit,
    pub stderr: StderrQuote,
}

impl fmt::Display for EarlyExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ended by itself, with {}{}", self.exit, self.stderr)
    }
}

impl fmt::Display for BackgroundError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommandNotStarted { command, error } => {
                write!(f, "cannot start {command}: {error}")
            }
            Self::HelperNotStarted(error) => write!(f, "cannot be started: {error}"),
            Self::HelperNotReady(timeout) => write!(f, "was not ready after {timeout:?}"),
            Self::CommandEnded(exit) | Self::HelperEnded(exit) => exit.fmt(f),
        }
    }
}

impl Error for BackgroundError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::CommandNotStarted { error, .. } | Self::HelperNotStarted(error) => Some(&**error),
            _ => None,
        }
    }
}

impl From<BackgroundError> for exit::Error {
    fn from(error: BackgroundError) -> Self {
        let message = error.to_string();
        match error {
            BackgroundError::CommandNotStarted { error, .. } => Self::from_io(&error, message),
            BackgroundError::CommandEnded(_) => Self::usage(message),
            BackgroundError::HelperNotStarted(_)
            | BackgroundError::HelperNotReady(_)
            | BackgroundError::HelperEnded(_) => Self::measure(message),
        }
    }
}
