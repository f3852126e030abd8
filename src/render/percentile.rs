//! The percentiles that a distribution has.

use files::report::{Distribution, Percentile};

/// Those that the sample supports.
pub fn supported(d: &Distribution) -> impl Iterator<Item = (Percentile, i64)> {
    d.percentiles().into_iter().filter_map(|(percentile, ns)| Some((percentile, ns?)))
}

/// The percentile of that key.
pub fn named(d: &Distribution, key: &str) -> Option<i64> {
    supported(d).find(|(percentile, _)| percentile.key == key).map(|(_, ns)| ns)
}
