//! The errors of comparisons.

/// The reason for which two subjects or programs cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// Both sides are the same subject of one run; contains its identifier.
    #[error("{0} of one run is compared with itself")]
    WithItself(String),
    /// A report contains no rounds of a subject; contains its identifier.
    #[error("{0} has no rounds, so the variation between rounds is unknown")]
    NoRounds(String),
    /// No round of a subject has a tick; contains its identifier.
    #[error("{0} has no tick")]
    NoTick(String),
    /// A value of a metric is not above zero; contains the name of the metric.
    #[error("a run has a value of {0} that is not above zero")]
    NoValue(String),
    /// The gates have no metric in common.
    #[error("no metric was judged by both gates, with the same unit")]
    NoMetricInCommon,
}
