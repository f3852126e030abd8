//! Errors of the commands that change a setting of the user.

#[cfg(unix)]
pub use commands::{ChangeError, CommandError, CommandExit, UndoError};

/// Reason why a setting was not changed or restored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrialError {
    /// A command failed. The process that runs it sends its [`ChangeError`] or [`UndoError`] as
    /// text.
    #[error("{0}")]
    Reported(String),
    /// The process that runs the commands was killed or stopped, and this one has undone the change.
    #[error("the process that runs the commands {0}; {1} was undone")]
    Recovered(HelperFate, String),
    /// This process could not undo the change either. It has an [`UndoError`] as text.
    #[error("the process that runs the commands {fate}, and {error}; undo it with: {undo}")]
    NotRecovered { fate: HelperFate, error: String, undo: String },
    /// No change was in effect.
    #[error("the process that runs the commands {0}")]
    Lost(HelperFate),
    #[error("interrupted")]
    Interrupted,
}

/// The way in which the process that runs the commands was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelperFate {
    Killed,
    Stopped,
}

impl std::fmt::Display for HelperFate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Killed => "was killed",
            Self::Stopped => "was stopped",
        })
    }
}

/// The errors of the process that runs the commands.
#[cfg(unix)]
mod commands {
    use std::time::Duration;
    use std::{fmt, io};

    use cli::units::format_rounded_duration;

    /// A command that changes a setting has failed.
    #[derive(Debug, thiserror::Error)]
    pub struct ChangeError {
        pub name: String,
        #[source]
        pub error: CommandError,
        /// Error of the undo command, which ran afterwards.
        pub undo_error: Option<Box<UndoError>>,
    }

    /// A command that restores a setting has failed.
    #[derive(Debug, thiserror::Error)]
    #[error("--undo of {name} failed, so {name} may still be in effect: {error}")]
    pub struct UndoError {
        pub name: String,
        #[source]
        pub error: CommandError,
    }

    /// Failure of a command of the user.
    #[derive(Debug, thiserror::Error)]
    pub enum CommandError {
        #[error("cannot start {command}: {error}")]
        NotStarted {
            command: String,
            #[source]
            error: io::Error,
        },
        /// The exit of the command cannot be awaited.
        #[error("{command}: {error}")]
        Wait {
            command: String,
            #[source]
            error: io::Error,
        },
        #[error(
            "{command}: was still running after {} and was ended",
            format_rounded_duration(*.limit)
        )]
        TimedOut { command: String, limit: Duration },
        #[error("{command}: ended with {exit}{}", format_output(.output))]
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

    fn format_output(output: &str) -> String {
        if output.is_empty() { String::new() } else { format!("; output: {output}") }
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
