//! Errors of programs in the background of a measurement.

use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use cli::exit;

use super::run_failure::ProgramExit;
use super::stderr_tail::StderrQuote;

/// Reason why a program does not run in the background.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BackgroundError {
    /// The command of the user cannot be started.
    #[error("cannot start {command}: {error}")]
    CommandNotStarted {
        command: String,
        #[source]
        error: Arc<io::Error>,
    },
    /// The command of the user has exited.
    #[error("{0}")]
    CommandEnded(EarlyExit),
    /// The process of osjitter cannot be started.
    #[error("cannot be started: {0}")]
    HelperNotStarted(#[source] Arc<io::Error>),
    /// The process of osjitter was not ready in this time.
    #[error("was not ready after {0:?}")]
    HelperNotReady(Duration),
    /// The process of osjitter has exited.
    #[error("{0}")]
    HelperEnded(EarlyExit),
    /// An interrupt has come before the program was ready.
    #[error("interrupted")]
    Interrupted,
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

impl From<BackgroundError> for exit::Error {
    fn from(error: BackgroundError) -> Self {
        let message = error.to_string();
        match error {
            BackgroundError::CommandNotStarted { error, .. } => Self::from_io(&error, message),
            BackgroundError::CommandEnded(_) => Self::usage(message),
            BackgroundError::HelperNotStarted(_)
            | BackgroundError::HelperNotReady(_)
            | BackgroundError::HelperEnded(_)
            | BackgroundError::Interrupted => Self::measure(message),
        }
    }
}
