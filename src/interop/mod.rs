//! Reads files of other tools and of osjitter as reports.
//!
//! The format is detected from the content instead of the file name. Information that a source does
//! not state is left out and named in the warnings of the report, whose codes begin with `import-`.

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

/// Reads a report of osjitter, `cyclictest --json`, `oslat --json`, `results.json` of
/// jitterdebugger, the output of `hwlatdetect` or of the hist mode of `rtla`, an HdrHistogram
/// interval log, or bins. For a directory, reads the report or all bins in it.
///
/// An imported report has no samples. Reports of cyclictest, oslat, jitterdebugger and hwlatdetect
/// have no rounds either, so that a difference between two of them cannot be judged: a single run
/// does not show how much runs vary. A line of an interval log becomes a round with a summary. A
/// period of 0 means that the source does not state it; counts of missed ticks are then 0 and
/// meaningless.
///
/// # Errors
/// Returns an error if the file cannot be read, is too large, has an unknown format or a newer
/// version, or contains impossible values. The error names line and column, or the path within the
/// file.
pub fn read(file: &Path) -> Result<Report> {
    if fleet::is_bins_path(file) {
        return fleet::Fleet::read(&[file])?.report();
    }
    let file = file_io::resolve(file);
    parse(&file_io::read_text(&file)?).map_err(|e| e.context(file.display()))
}

/// The keys that distinguish the JSON formats.
#[derive(Deserialize)]
struct Head {
    schema: Option<String>,
    thread: Option<IgnoredAny>,
    cpu: Option<IgnoredAny>,
    #[serde(rename = "cmdline:", alias = "cmdline")]
    cmdline: Option<IgnoredAny>,
}

/// Explains the source of a file that is invalid JSON because of this value.
const NAN_HINT: &str =
    " (jitterdebugger writes -nan, which is no JSON, for a CPU without a sample)";

/// Detects the format of a file from its content and reads it. A foreign report must pass the same
/// checks as a report of osjitter, on which all renderers rely.
pub fn parse(text: &str) -> Result<Report> {
    let Some(report) = parse_foreign(text)? else {
        return Report::from_json(text).map_err(|e| Error::usage(e.to_string()));
    };
    report.check().map_err(|e| usage!("not a report: {e}"))?;
    Ok(report)
}

/// Reads a file of another tool; `None` if the file has a schema of osjitter.
fn parse_foreign(text: &str) -> Result<Option<Report>> {
    if files::bins::kind(text).is_some() {
        return fleet::Fleet::parse(text)?.report().map(Some);
    }
    // Checked before logs, since both begin with comments.
    if rtla::is_histogram(text) {
        return rtla::read(text).map(Some);
    }
    if hlog::is_log(text) {
        return hlog::read(text).map(Some);
    }
    if hwlatdetect::is_output(text) {
        return hwlatdetect::read(text).map(Some);
    }
    let head: Head = serde_json::from_str(text).map_err(|e| {
        let nan_hint = if text.contains(": -nan") { NAN_HINT } else { "" };
        let cut = if e.is_eof() { "it is empty or cut off: " } else { "" };
        usage!("not a report: {cut}{e}{nan_hint}")
    })?;
    let report = match head {
        Head { schema: Some(_), .. } => return Ok(None),
        Head { thread: Some(_), cmdline: Some(_), .. } => {
            let frame: Frame = json(text, "rt-tests result")?;
            match frame.program() {
                // The output of `osjitter report --format cyclictest-json` names osjitter as its
                // program.
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
