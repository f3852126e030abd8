//! Errors of the commands that change a setting of the user.

use std::error::Error;
use std::fmt;

#[cfg(unix)]
pub use commands::{ChangeError, CommandError, CommandExit, UndoError};

/// Reason why a setting was not changed or restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrialError {
    /// A command failed. The process that runs it sends its [`ChangeError`] or [`UndoError`] as
    /// text.
    Reported(String),
    /// That process has ended while a change may be in effect, which this command undoes.
    ProcessKilled { undo: String },
}

impl fmt::Display for TrialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reported(text) => f.write_str(text),
            Self::ProcessKilled { undo } => write!(
                f,
                "the process that runs the commands was killed, so a change may be in effect; undo it with: {undo}"
            ),
        }
    }
}

impl Error for TrialError {}

/// The errors of the process that runs the commands.
#[cfg(unix)]
mod commands {
    use std::error::Error;
    use std::time::Duration;
    use std::{fmt, io};

    use cli::units::format_rounded_duration;

    /// A command that changes a setting has failed.
    #[derive(Debug)]
    pub struct ChangeError {
        pub name: String,
        pub error: CommandError,
        /// Error of the undo command, which ran afterwards.
        pub undo_error: Option<Box<UndoError>>,
    }

    /// A command that restores a setting has failed.
    #[derive(Debug)]
    pub struct UndoError {
        pub name: String,
        pub error: CommandError,
    }

    /// Failure of a command of the user.
    #[derive(Debug)]
    pub enum CommandError {
        NotStarted {
            command: String,
            error: io::Error,
        },
        /// The exit of the command cannot be awaited.
        Wait {
            command: String,
            error: io::Error,
        },
        TimedOut {
            command: String,
            limit: Duration,
        },
        Failed {
            command: String,
            exit: CommandExit,
            /// End of its output.
            output: String,
        },
    }

    /// Exit of a command that did not succeed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum CommandExit {
        Code(i32),
        Signal(i32),
    }

    impl fmt::Display for ChangeError {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "--try {} failed: {}", self.name, self.error)?;
            match &self.undo_error {
                Some(error) => write!(f, "; {error}"),
                None => Ok(()),
            }
        }
    }

    impl Error for ChangeError {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.error)
        }
    }

    impl fmt::Display for UndoError {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let Self { name, error } = self;
            write!(f, "--undo of {name} failed, so {name} may still be in effect: {error}")
        }
    }

    impl Error for UndoError {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.error)
        }
    }

    impl fmt::Display for CommandError {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            match self {
                Self::NotStarted { command, error } => write!(f, "cannot start {command}: {error}"),
                Self::Wait { command, error } => write!(f, "{command}: {error}"),
                Self::TimedOut { command, limit } => {
                    let limit = format_rounded_duration(*limit);
                    write!(f, "{command}: was still running after {limit} and was ended")
                }
                Self::Failed { command, exit, output } if output.is_empty() => {
                    write!(f, "{command}: ended with {exit}")
                }
                Self::Failed { command, exit, output } => {
                    write!(f, "{command}: ended with {exit}; output: {output}")
                }
            }
        }
    }

    impl Error for CommandError {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            match self {
                Self::NotStarted { error, .. } | Self::Wait { error, .. } => Some(error),
                Self::TimedOut { .. } | Self::Failed { .. } => None,
            }
        }
    }

    impl fmt::Display for CommandExit {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            match self {
                Self::Code(code) => write!(f, "exit status: {code}"),
                Self::Signal(signal) => write!(f, "signal: {signal}"),
            }
        }
    }
}
