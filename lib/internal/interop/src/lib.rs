//! Reads files of other tools and of `osjitter` as reports, and writes reports in their formats.
//!
//! The format is detected from the content instead of the file name. Information that a source does
//! not state is left out and named in the warnings of the report, whose codes begin with `import-`.
//!
//! The crate is published because `cargo install osjitter` needs it. Its interface follows the
//! program and may change in any release.
#![forbid(unsafe_code)]
// Internal interface: an item is documented if its name does not say everything.
#![allow(missing_docs, missing_debug_implementations, unreachable_pub)]

mod bins;
mod bins_directory;
mod columns;
pub mod csv;
pub mod cyclictest;
mod cyclictest_text;
pub mod detect;
pub mod fleet;
mod getopt;
pub mod hgrm;
pub mod hlog;
mod hwlatdetect;
mod imported;
mod jitterdebugger;
pub mod openmetrics;
mod oslat;
mod oslat_text;
pub mod pair;
#[cfg(feature = "parquet")]
pub mod parquet;
mod rt_tests;
mod rtla;
pub mod trackers;
pub mod unit;

use std::path::Path;

use cli::exit::{Error, Result, usage};
use cli::file_io;
use files::file::File as _;
use files::report::Report;

use crate::detect::{Detection, FileFormat, READABLE};
use crate::rt_tests::{Program, RtTestsResult};
use crate::unit::Unit;

/// Reads a report of osjitter, `--json` or the text of cyclictest and oslat, `results.json` of
/// jitterdebugger, the output of `hwlatdetect` or of the hist mode of `rtla`, an interval log or a
/// percentile distribution of HdrHistogram, or bins. For a directory, reads the report or all bins in it.
///
/// An imported report has no samples. Only the lines of an interval log become rounds, each with a
/// summary. All others have no rounds either, so that a difference between two of them cannot be
/// judged: a single run does not show how much runs vary. A period of 0 means that the source does
/// not state it; the number of missed ticks is then unknown.
///
/// # Errors
/// Returns an error if the file cannot be read, is too large, has an unknown format or a newer
/// version, or contains impossible values. The error names line and column, or the path within the
/// file.
pub fn read(file: &Path) -> Result<Report> {
    read_in_unit(file, None)
}

/// Reads a file like [`read`]. `unit` is that of the values if the file does not state it.
///
/// # Errors
/// Returns the errors of [`read`], and an error if the file states its unit.
pub fn read_in_unit(file: &Path, unit: Option<Unit>) -> Result<Report> {
    if fleet::is_bins_path(file) {
        return fleet::Fleet::read(&[file])?.report();
    }
    let file = file_io::resolve(file);
    parse_in_unit(&file_io::read_text(&file)?, unit).map_err(|e| e.context(file.display()))
}

/// Detects the format of a file from its content and reads it. A foreign report must pass the same
/// checks as a report of osjitter, on which all renderers rely.
pub fn parse(text: &str) -> Result<Report> {
    parse_in_unit(text, None)
}

/// Reads a text like [`parse`]. `unit` is that of the values if the text does not state it.
pub fn parse_in_unit(text: &str, unit: Option<Unit>) -> Result<Report> {
    let detection = detect::detect(text).ok_or_else(|| unknown_format(text))?;
    let report = parse_format(text, &detection.format, unit);
    if matches!(detection.format, FileFormat::Osjitter { .. }) {
        return report;
    }
    let report = report.and_then(|report| {
        report.check().map_err(|e| Error::usage(e.to_string()))?;
        Ok(report)
    });
    report.map_err(|e| reading_error(&detection, &e))
}

fn parse_format(text: &str, format: &FileFormat, unit: Option<Unit>) -> Result<Report> {
    if unit.is_some() && !format.may_lack_unit() {
        return Err(usage!("invalid --unit: {} states its unit", format.name()));
    }
    match format {
        FileFormat::Osjitter { .. } => {
            Report::from_json(text).map_err(|e| Error::usage(e.to_string()))
        }
        FileFormat::Bins => fleet::Fleet::parse(text)?.report(),
        FileFormat::RtTests => read_rt_tests(text),
        FileFormat::CyclictestText => cyclictest_text::read(text, unit),
        FileFormat::OslatText => oslat_text::read(text),
        FileFormat::Jitterdebugger => jitterdebugger::read(text),
        FileFormat::Hwlatdetect => hwlatdetect::read(text),
        FileFormat::Rtla => rtla::read(text),
        FileFormat::Hlog => hlog::read(text, unit),
        FileFormat::Hgrm => hgrm::read(text, unit),
        FileFormat::Unsupported { remedy, .. } => Err(usage!("it is not read; {remedy}")),
    }
}

fn read_rt_tests(text: &str) -> Result<Report> {
    let result = RtTestsResult::parse(text)?;
    match result.program {
        Program::Cyclictest => cyclictest::read(&result.text, &result.frame),
        Program::Oslat => oslat::read(&result.text, &result.frame),
    }
}

/// Returns the error of the reader of a format, with the reason for which it was chosen.
fn reading_error(detection: &Detection, error: &Error) -> Error {
    usage!("cannot read {} ({}): {error}", detection.format.name(), detection.evidence)
}

/// Returns the error of a file in no known format.
fn unknown_format(text: &str) -> Error {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty());
    let content = match first {
        None => "the file is empty".to_owned(),
        Some(_) if detect::is_json_object(text) => unknown_json(text),
        Some(line) => format!("it begins with {:?}", detect::quote(line)),
    };
    usage!("unknown format: {content}; this version reads {READABLE}")
}

/// Describes a JSON object without the keys of any format.
fn unknown_json(text: &str) -> String {
    match serde_json::from_str::<serde::de::IgnoredAny>(text) {
        Ok(_) => "it is JSON with no \"schema\" key and none of another tool".to_owned(),
        Err(e) if e.is_eof() => format!("it is JSON that is cut off: {e}"),
        Err(e) => format!("it is invalid JSON: {e}"),
    }
}

#[cfg(test)]
mod tests;
