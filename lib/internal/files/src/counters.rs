//! Sums of counters that a platform may not report.

/// Adds two counters; `None` if one of them is unknown.
pub(crate) fn add_if_complete(sum: Option<u64>, more: Option<u64>) -> Option<u64> {
    Some(sum?.saturating_add(more?))
}

/// Adds a counter to a sum. An unknown counter counts as zero; the sum is `None` while all are
/// unknown.
pub(crate) fn add_if_known(sum: &mut Option<u64>, more: Option<u64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or(0).saturating_add(more));
    }
}
