//! Reasons why a collection of pairs ended early.

use std::error::Error;
use std::fmt;

use engine::measure::child::RunFailure;
use engine::measure::round_error::RoundError;

/// Reason why no further pair is measured.
#[derive(Clone, Debug)]
pub enum PairFailure {
    /// A program of the user has no result.
    Program(RunFailure),
    /// A round of the subject of a side has no result.
    Round { side: String, error: RoundError },
    /// Too many rounds of a side delivered no tick.
    NoTicks { side: String },
}

impl fmt::Display for PairFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program(failure) => failure.fmt(f),
            Self::Round { side, error } => write!(f, "{side}: {error}"),
            Self::NoTicks { side } => write!(f, "{side}: round after round delivered no tick"),
        }
    }
}

impl Error for PairFailure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Program(failure) => failure.source(),
            Self::Round { error, .. } => Some(error),
            Self::NoTicks { .. } => None,
        }
    }
}
