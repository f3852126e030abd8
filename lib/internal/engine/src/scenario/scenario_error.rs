//! Errors of the values from which scenarios are made.

use cli::exit;
use cli::suggest::did_you_mean;

use crate::scenario::MAX_WORKERS;
use crate::subject;
use crate::subject::script::ScriptError;

/// A value that selects nothing, or too much.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ScenarioError {
    #[error(
        "unknown runtime {0:?}: expected current-thread, multi-thread or multi-thread:N (N from 1 to {MAX_WORKERS})"
    )]
    UnknownRuntime(String),
    #[error("unknown subject {:?}; {}`osjitter list` shows all", .0, suggest_subject(.0))]
    UnknownSubject(String),
    /// A pattern matches several subjects, and only one is possible.
    #[error("{pattern:?} matches several subjects; name one")]
    SeveralSubjects { pattern: String },
    /// The script of a hidden subject cannot be used.
    #[error(transparent)]
    Script(ScriptError),
    #[error("unknown {what} {pattern:?}; there are {}", .known.join(", "))]
    UnknownName {
        /// Kind of the names.
        what: String,
        pattern: String,
        known: Vec<String>,
    },
}

fn suggest_subject(pattern: &str) -> String {
    if pattern.contains(',') {
        return "expected one name; repeat --subject for several; ".to_owned();
    }
    // A pattern such as `Tokio-*` is compared without its stars.
    did_you_mean(
        pattern.trim_matches(['*', '?', '-', ' ']),
        subject::ALL.iter().map(|subject| subject.name),
    )
}

impl From<ScenarioError> for exit::Error {
    fn from(error: ScenarioError) -> Self {
        Self::usage(error.to_string())
    }
}
