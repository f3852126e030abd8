//! Rows of bins, and of intervals.

use cli::exit::{self, Error};
use files::bins::{Cells, kind, read_bins, read_intervals};

use crate::fuzz::files::text;
use crate::fuzz::stage::Stages;
use crate::fuzz::{again, report};

/// One file, alone, as rows and as a report.
pub fn body(bytes: &[u8], stages: &Stages) -> exit::Result<()> {
    let text = text(bytes)?;
    let read = stages.of("rows", || match kind(&text) {
        Some(Cells::Bins) => read_bins(&text).map_err(|e| Error::usage(e.to_string())),
        Some(Cells::Intervals) => read_intervals(&text).map_err(|e| Error::usage(e.to_string())),
        None => Err(Error::usage("no bins")),
    })?;
    stages.of("written", || again::bins(&read));
    report::body(bytes, stages)
}
