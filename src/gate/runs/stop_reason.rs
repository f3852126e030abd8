//! Reasons why whole runs end before they are judged.

use cli::exit::Error;
use engine::measure::child::RunFailure;

use crate::gate::pair_failure::PairFailure;

/// Why the runs ended before a result.
pub enum StopReason {
    /// The user made a mistake, so the runs cannot be judged.
    Refused(Error),
    /// A run failed or was interrupted.
    RunFailed(PairFailure),
}

impl From<Error> for StopReason {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<PairFailure> for StopReason {
    fn from(failure: PairFailure) -> Self {
        match failure {
            PairFailure::Program(failure @ RunFailure::NotStarted { .. }) => {
                Self::Refused(failure.into())
            }
            failure => Self::RunFailed(failure),
        }
    }
}
