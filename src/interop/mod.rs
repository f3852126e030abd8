//! Other tools' files, and our own, as one report model.
//!
//! The format is detected from the contents, not from the name. What a source does not state is
//! left out and named in the report's warnings, whose codes begin with `import-`; nothing is made
//! up.

mod bins;
pub mod cyclictest;
pub mod fleet;
pub mod hgrm;
pub mod hlog;
mod hwlatdetect;
mod imported;
mod jitterdebugger;
pub mod openmetrics;
mod oslat;
pub mod pair;
mod rt_tests;
mod rtla;
pub mod trackers;

use std::path::Path;

use cli::exit::{Error, Result, usage};
use files::file::File as _;
use files::report::{Report, SCHEMA};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::file_io;
use crate::interop::imported::json;
use crate::interop::rt_tests::Frame;

/// Reads a report of ours, `cyclictest --json`, `oslat --json`, jitterdebugger's `results.json`,
/// what `hwlatdetect` or `rtla`'s hist mode prints, an HdrHistogram interval log, or bins; of a
/// directory, the report or all bins in it.
///
/// An imported report has no samples. Those of cyclictest, oslat, jitterdebugger and hwlatdetect
/// have no rounds either: they can be shown and set side by side, but a difference between two of
/// them cannot be judged, as one run does not show how much runs differ. A line of an interval log
/// becomes a round with a summary. A period of 0 means that the source does not state it; counts of
/// missed ticks are then 0, and mean nothing.
///
/// # Errors
/// The file cannot be read, is larger than memory allows, is of no known kind or of a newer
/// version, or holds what cannot be; the reason names line and column or the path within the file.
pub fn read(file: &Path) -> Result<Report> {
    if fleet::is_one(file) {
        return fleet::Fleet::read(&[file])?.report();
    }
    let file = file_io::resolved(file);
    parse(&file_io::read_text(&file)?).map_err(|e| e.context(file.display()))
}

/// The keys by which the JSON files differ.
#[derive(Deserialize)]
struct Head {
    schema: Option<String>,
    thread: Option<IgnoredAny>,
    cpu: Option<IgnoredAny>,
    #[serde(rename = "cmdline:", alias = "cmdline")]
    cmdline: Option<IgnoredAny>,
}

/// Where a file comes from that is no JSON for this reason.
const NAN: &str = " (jitterdebugger writes -nan, which is no JSON, for a CPU without a sample)";

/// Detects the kind of a file from its contents, and reads it. What others wrote has to hold what a
/// report of ours must: all that is made of a report relies on it.
pub fn parse(text: &str) -> Result<Report> {
    let Some(report) = foreign(text)? else {
        return Report::from_json(text).map_err(|e| Error::usage(e.to_string()));
    };
    report.check().map_err(|e| usage!("not a report: {e}"))?;
    Ok(report)
}

/// Another tool's file; `None` where it is ours.
fn foreign(text: &str) -> Result<Option<Report>> {
    if files::bins::kind(text).is_some() {
        return fleet::Fleet::parse(text)?.report().map(Some);
    }
    // Before logs: both begin with comments.
    if rtla::is_one(text) {
        return rtla::read(text).map(Some);
    }
    if hlog::is_one(text) {
        return hlog::read(text).map(Some);
    }
    if hwlatdetect::is_one(text) {
        return hwlatdetect::read(text).map(Some);
    }
    let head: Head = serde_json::from_str(text).map_err(|e| {
        let divided = if text.contains(": -nan") { NAN } else { "" };
        let cut = if e.is_eof() { "it is empty or cut off: " } else { "" };
        usage!("not a report: {cut}{e}{divided}")
    })?;
    let report = match head {
        Head { schema: Some(_), .. } => return Ok(None),
        Head { thread: Some(_), cmdline: Some(_), .. } => {
            let frame: Frame = json(text, "rt-tests result")?;
            match frame.program() {
                // What `osjitter report --format cyclictest-json` writes has our name in it.
                "cyclictest" | "osjitter" => cyclictest::read(text, &frame),
                "oslat" => oslat::read(text, &frame),
                other => Err(usage!(
                    "not a report: rt-tests' {other:?} is not known; cyclictest and oslat are"
                )),
            }
        }
        Head { cpu: Some(_), thread: None, .. } => jitterdebugger::read(text),
        _ => Err(usage!(
            "not a report: no \"schema\" key; this version reads {SCHEMA:?}, cyclictest --json, oslat --json, \
             jitterdebugger's results.json, hwlatdetect's output and HdrHistogram logs"
        )),
    };
    report.map(Some)
}

#[cfg(test)]
mod tests;
