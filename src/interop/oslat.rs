//! Reads `oslat --json` of rt-tests: a busy loop on each CPU that counts every iteration by its
//! duration.

use std::collections::BTreeMap;

use cli::exit::Result;
use files::report::Report;
use serde::Deserialize;

use crate::interop::bins::{self, BinnedValues, RawBins, StatedFigures};
use crate::interop::imported::{
    check_count, clock, json, no_cost, no_rounds, rounded, subject, warning,
};
use crate::interop::rt_tests::Frame;
use render::report::quantity::GAPS;

const TOOL: &str = "oslat";
const UNIT_NS: u64 = 1_000;
const HINT: &str = "Run oslat with a larger -b, so that every value has a bin.";

#[derive(Deserialize)]
struct File {
    thread: BTreeMap<u64, Thread>,
}

#[derive(Deserialize)]
struct Thread {
    cpu: u64,
    /// Frequency of the CPU counter in MHz.
    #[serde(default)]
    freq: u64,
    min: u64,
    max: u64,
    avg: f64,
    histogram: RawBins,
}

pub(super) fn read(text: &str, frame: &Frame) -> Result<Report> {
    let file: File = json(text, "oslat result")?;
    check_count("thread", file.thread.len())?;
    let mut clock = clock("the CPU counter, by oslat", UNIT_NS);
    if let Some(mhz) = file.thread.values().map(|t| t.freq).find(|&mhz| mhz > 0) {
        clock.rate_hz = mhz as f64 * 1e6;
        clock.rate_known_by = "oslat's own calibration, in whole MHz".to_owned();
    }
    let mut imported = frame.imported(TOOL, clock);
    imported.warnings = vec![
        warning(
            GAPS,
            "oslat counts every turn of a busy loop by how long it took: these are gaps, not lateness, there is no period, \
             and millions of turns with nothing in them make up the percentiles.",
            "Compare the largest gap and the counts of long ones; the subject spin of osjitter run is its counterpart.",
        ),
        no_rounds(TOOL),
        no_cost(TOOL),
        rounded(TOOL, "microseconds", "rounded up"),
    ];
    for (name, thread) in &file.thread {
        let is_shared = file.thread.values().filter(|t| t.cpu == thread.cpu).count() > 1;
        let id = format!(
            "{TOOL}/cpu-{}{}",
            thread.cpu,
            if is_shared { format!("/thread-{name}") } else { String::new() }
        );
        let count = thread.histogram.0.values().sum();
        let stated = StatedFigures { count, min: thread.min, max: thread.max, avg: thread.avg };
        let values =
            (count > 0).then(|| BinnedValues::new(&thread.histogram, &stated, UNIT_NS)).transpose();
        let values = values
            .map_err(|e| e.context(format!("thread.{name}")))?
            .map(BinnedValues::with_open_last_bin);
        bins::add_subject(&mut imported, subject(id, TOOL, None), values, HINT);
    }
    Ok(imported.report())
}
