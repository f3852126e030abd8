//! Errors of the values from which scenarios are made.

use std::error::Error;
use std::fmt;

use cli::exit;
use cli::suggest::did_you_mean;

use crate::scenario::MAX_WORKERS;
use crate::subject;
use crate::subject::script::ScriptError;

/// A value that selects nothing, or too much.
#[derive(Clone, Debug)]
pub enum ScenarioError {
    UnknownRuntime(String),
    UnknownSubject(String),
    /// A pattern matches several subjects, and only one is possible.
    SeveralSubjects {
        pattern: String,
    },
    /// The script of a hidden subject cannot be used.
    Script(ScriptError),
    UnknownName {
        /// Kind of the names.
        what: String,
        pattern: String,
        known: Vec<String>,
    },
    ZeroCount {
        what: String,
    },
    LargeCount {
        what: String,
        count: u64,
        max: u64,
    },
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownRuntime(text) => write!(
                f,
                "unknown runtime {text:?}: expected current-thread, multi-thread or multi-thread:N (N from 1 to {MAX_WORKERS})"
            ),
            Self::UnknownSubject(pattern) => {
                let suggestion = did_you_mean(pattern, subject::ALL.iter().map(|e| e.name));
                write!(f, "unknown subject {pattern:?}; {suggestion}`osjitter list` shows all")
            }
            Self::SeveralSubjects { pattern } => {
                write!(f, "{pattern:?} matches several subjects; name one")
            }
            Self::Script(error) => error.fmt(f),
            Self::UnknownName { what, pattern, known } => {
                write!(f, "unknown {what} {pattern:?}; there are {}", known.join(", "))
            }
            Self::ZeroCount { what } => {
                write!(f, "invalid count of 0 {what}: expected at least 1")
            }
            Self::LargeCount { what, count, max } => {
                write!(f, "invalid count of {count} {what}: expected at most {max}")
            }
        }
    }
}

impl Error for ScenarioError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        if let Self::Script(error) = self { error.source() } else { None }
    }
}

impl From<ScenarioError> for exit::Error {
    fn from(error: ScenarioError) -> Self {
        Self::usage(error.to_string())
    }
}
