//! Why nothing is compared.

use std::fmt;

/// Why two subjects, or programs, cannot be compared at all: the id of the one that stands in the
/// way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompareError {
    /// Both sides are this subject of one run.
    WithItself(String),
    /// Its report has no rounds.
    NoRounds(String),
    /// None of its rounds has a tick.
    NoTick(String),
    /// A run has a value of this metric that is not above zero.
    NoValue(String),
    /// No metric was judged by both gates.
    NoMetricInCommon,
}

impl fmt::Display for CompareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WithItself(id) => write!(f, "{id} of one run is compared with itself"),
            Self::NoRounds(id) => {
                write!(f, "{id} has no rounds: what differs from round to round is not known")
            }
            Self::NoTick(id) => write!(f, "{id} has no tick"),
            Self::NoValue(metric) => {
                write!(f, "a run has a value of {metric} that is not above zero")
            }
            Self::NoMetricInCommon => {
                f.write_str("no metric was judged by both gates, with the same unit")
            }
        }
    }
}

impl std::error::Error for CompareError {}
