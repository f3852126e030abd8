//! What the values of a report are. Ours are always lateness; another tool's busy loop reports
//! gaps.

use files::report::Report;

/// Code of the warning in a report whose values are gaps of a busy loop, not lateness of ticks.
pub const GAPS: &str = "import-gaps";

pub fn is_gaps(report: &Report) -> bool {
    report.warnings.iter().any(|w| w.code == GAPS)
}

/// The name of the values, for a heading.
pub fn name(report: &Report) -> &'static str {
    if is_gaps(report) { "gaps of a busy loop" } else { "lateness" }
}
