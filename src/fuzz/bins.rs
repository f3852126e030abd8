//! Target for rows of bins and of intervals.

use cli::exit::{self, Error};
use files::bins::{Cells, kind, read_bins, read_intervals};

use crate::fuzz::files::text;
use crate::fuzz::step_costs::StepCosts;
use crate::fuzz::{report, round_trip};

/// Reads a single file as rows and as a report.
pub fn body(bytes: &[u8], costs: &StepCosts) -> exit::Result<()> {
    let text = text(bytes)?;
    let read = costs.measure("rows", || match kind(&text) {
        Some(Cells::Bins) => read_bins(&text).map_err(|e| Error::usage(e.to_string())),
        Some(Cells::Intervals) => read_intervals(&text).map_err(|e| Error::usage(e.to_string())),
        None => Err(Error::usage("no bins")),
    })?;
    costs.measure("written", || round_trip::check_bins(&read));
    report::body(bytes, costs)
}
