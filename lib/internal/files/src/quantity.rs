//! The quantity that a report measures: lateness in reports of osjitter, gaps in those of other
//! tools that run a busy loop.

use crate::report::Report;

/// Code of the warning in a report whose values are gaps of a busy loop, not lateness of ticks.
pub const GAPS: &str = "import-gaps";

/// Code of the warning in a report whose minimum and maximum are the edges of their bins.
pub const BIN_EDGES: &str = "import-bin-edges";

/// Returns whether the values of a report are gaps of a busy loop.
pub fn is_gaps(report: &Report) -> bool {
    report.warnings.iter().any(|w| w.code == GAPS)
}

/// Returns whether the minimum and the maximum of a report are only the edges of their bins.
pub fn has_bin_edges(report: &Report) -> bool {
    report.warnings.iter().any(|w| w.code == BIN_EDGES)
}

/// Returns the name of the quantity, for a heading.
pub fn name(report: &Report) -> &'static str {
    if is_gaps(report) { "gaps of a busy loop" } else { "lateness" }
}
