//! The errors of comparisons.

use std::fmt;

/// The reason for which two subjects or programs cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompareError {
    /// Both sides are the same subject of one run; contains its identifier.
    WithItself(String),
    /// A report contains no rounds of a subject; contains its identifier.
    NoRounds(String),
    /// No round of a subject has a tick; contains its identifier.
    NoTick(String),
    /// A value of a metric is not above zero; contains the name of the metric.
    NoValue(String),
    /// The gates have no metric in common.
    NoMetricInCommon,
}

impl fmt::Display for CompareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WithItself(id) => write!(f, "{id} of one run is compared with itself"),
            Self::NoRounds(id) => {
                write!(f, "{id} has no rounds, so the variation between rounds is unknown")
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
