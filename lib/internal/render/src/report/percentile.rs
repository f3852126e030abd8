//! Access to the percentiles of a distribution.

use files::report::{Distribution, Percentile};

/// Returns the percentiles that the sample size supports.
pub fn supported(d: &Distribution) -> impl Iterator<Item = (Percentile, i64)> {
    d.percentiles().into_iter().filter_map(|(percentile, ns)| Some((percentile, ns?)))
}

/// Returns the value of the percentile with this key, if the sample size supports it.
pub fn value(d: &Distribution, key: &str) -> Option<i64> {
    supported(d).find(|(percentile, _)| percentile.key == key).map(|(_, ns)| ns)
}
