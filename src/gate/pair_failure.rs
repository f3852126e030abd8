//! Reasons why a collection of pairs ended early.

use engine::measure::child::RunFailure;
use engine::measure::round_error::RoundError;
use files::report::Change;

/// Reason why no further pair is measured.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PairFailure {
    /// A program of the user has no result.
    #[error(transparent)]
    Program(#[from] RunFailure),
    /// A round of the subject of a side has no result.
    #[error("{side}: {source}")]
    Round { side: String, source: Box<RoundError> },
    #[error(
        "{side}: too many pairs ran with a changed setting: {what} from {from} to {to}",
        what = .change.what, from = .change.from, to = .change.to
    )]
    SettingsChanged { side: String, change: Change },
    #[error("{side}: round after round delivered no tick")]
    NoTicks { side: String },
}

impl PairFailure {
    /// Returns the message for the user, or `None` for an interrupt.
    pub fn message(self) -> Option<String> {
        match self {
            Self::Program(failure) => failure.message(),
            failure => Some(failure.to_string()),
        }
    }
}
