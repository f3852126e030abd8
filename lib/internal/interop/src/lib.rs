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
mod bpftrace;
mod columns;
pub mod csv;
pub mod cyclictest;
mod cyclictest_text;
pub mod detect;
pub mod file_format;
pub mod fleet;
mod getopt;
pub mod hgrm;
pub mod hlog;
mod hwlatdetect;
pub mod import_error;
mod imported;
mod jitterdebugger;
mod log_prefix;
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
mod xenomai;

use std::path::Path;

pub use crate::imported::{CUT_WARNING, FAILED_RUN_WARNING};

use cli::exit;
use cli::file_io;
use files::file::File as _;
use files::report::{Report, Warning};

use crate::file_format::FileFormat;
use crate::import_error::{ImportReason, Result, UnknownContent};
use crate::rt_tests::{Program, RtTestsResult};
use crate::unit::Unit;

/// Reads a report of osjitter, `--json` or the text of cyclictest and oslat, `results.json` of
/// jitterdebugger, the output of `hwlatdetect`, of the hist mode of `rtla`, of Xenomai's `latency` or
/// of bpftrace's `hist()`, an interval log or a percentile distribution of HdrHistogram, or bins. For a directory, reads the report or all bins in it.
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
pub fn read(file: &Path) -> exit::Result<Report> {
    read_in_unit(file, None)
}

/// Code of the warning of a report whose text may end within a number.
pub const LAST_LINE_WARNING: &str = "import-last-line";
/// Codes of the warnings that a report may lack values of its source. No limit can be judged then.
pub const OMISSION_WARNINGS: [&str; 5] = [
    LAST_LINE_WARNING,
    CUT_WARNING,
    FAILED_RUN_WARNING,
    fleet::DAMAGE_WARNING,
    fleet::MISSING_BINS_WARNING,
];

/// The error of a unit for a file of osjitter.
pub const NEEDLESS_UNIT: &str = "--unit goes with a file of another tool that does not state its \
    unit, such as an HdrHistogram log; those of osjitter are in nanoseconds";

/// Returns the first warning of a report that its numbers do not cover all that its source measured
/// or was to measure.
pub fn omission(report: &Report) -> Option<&Warning> {
    report.warnings.iter().find(|warning| OMISSION_WARNINGS.contains(&warning.code.as_str()))
}

/// Reads a file like [`read`]. `unit` is that of the values if the file does not state it.
///
/// # Errors
/// Returns the errors of [`read`], and an error if the file states its unit.
pub fn read_in_unit(file: &Path, unit: Option<Unit>) -> exit::Result<Report> {
    if fleet::is_bins_path(file) {
        if unit.is_some() {
            return Err(exit::Error::usage(NEEDLESS_UNIT).context(file.display()));
        }
        return Ok(fleet::Fleet::read(&[file])?.report()?);
    }
    let file = file_io::resolve(file);
    let report = parse_in_unit(&file_io::read_text(&file)?, unit);
    report.map_err(|e| exit::Error::from(e).context(file.display()))
}

/// Detects the format of a file from its content and reads it. A foreign report must pass the same
/// checks as a report of osjitter, on which all renderers rely.
///
/// # Errors
/// Returns an error if the format is unknown or the text is damaged.
pub fn parse(text: &str) -> Result<Report> {
    parse_in_unit(text, None)
}

/// Reads a text like [`parse`]. `unit` is that of the values if the text does not state it.
///
/// # Errors
/// Returns the errors of [`parse`], and an error if the text states its unit.
pub fn parse_in_unit(text: &str, unit: Option<Unit>) -> Result<Report> {
    if let Some(detection) = detect::detect(text) {
        return parse_format(text, &detection.format, unit).map_err(|e| e.in_format(detection));
    }
    let Some((detection, text)) = log_prefix::detect_behind(text) else {
        return Err(ImportReason::UnknownFormat(unknown_content(text)).into());
    };
    parse_format(&text, &detection.format, unit).map_err(|error| error.in_format(detection))
}

fn parse_format(text: &str, format: &FileFormat, unit: Option<Unit>) -> Result<Report> {
    if unit.is_some() && !format.may_lack_unit() {
        return Err(ImportReason::StatedUnit { format: format.name() }.into());
    }
    let mut report = match format {
        FileFormat::Osjitter { .. } => {
            let report = Report::from_json(text);
            return report.map_err(|error| ImportReason::Osjitter(Box::new(error)).into());
        }
        FileFormat::Bins => fleet::Fleet::parse(text)?.report()?,
        FileFormat::RtTests => {
            let result = RtTestsResult::parse(text)?;
            match result.program {
                Program::Cyclictest => cyclictest::read(&result.text, &result.frame)?,
                Program::Oslat => oslat::read(&result.text, &result.frame)?,
            }
        }
        FileFormat::CyclictestText => cyclictest_text::read(text, unit)?,
        FileFormat::OslatText => oslat_text::read(text)?,
        FileFormat::Jitterdebugger => jitterdebugger::read(text)?,
        FileFormat::Hwlatdetect => hwlatdetect::read(text)?,
        FileFormat::Rtla => rtla::read(text)?,
        FileFormat::Hlog => hlog::read(text, unit)?,
        FileFormat::Hgrm => hgrm::read(text, unit)?,
        FileFormat::Bpftrace => bpftrace::read(text, unit)?,
        FileFormat::Xenomai => xenomai::read(text)?,
        FileFormat::Unsupported { remedy, .. } => {
            return Err(ImportReason::Unsupported { remedy }.into());
        }
    };
    if format.is_text()
        && let Some(other) = detect::find_other_format(text, format)
    {
        return Err(ImportReason::OtherTool(Box::new(other)).into());
    }
    if may_lose_figures(text, format) {
        report.warnings.push(Warning::new(
            LAST_LINE_WARNING,
            "The text has no line break after its last line: a number in it may be cut off, or a thread missing.",
            "Copy the whole output, or end it with a line break if it is complete.",
        ));
    }
    match report.check() {
        Ok(()) => Ok(report),
        Err(error) => Err(ImportReason::ImpossibleReport(Box::new(error)).into()),
    }
}

/// Returns whether a text may end within a figure: the copy is partial, or its writer was killed. The
/// readers of other formats notice it, because their texts have an end mark.
fn may_lose_figures(text: &str, format: &FileFormat) -> bool {
    use FileFormat::{Bpftrace, CyclictestText, Hgrm, Hwlatdetect, Rtla};
    if *format == Hgrm {
        return hgrm::may_lose_figures(text);
    }
    // The bars of bpftrace are the ends of its lines.
    matches!(format, Bpftrace | CyclictestText | Hwlatdetect | Rtla) && !text.ends_with(['\n', '|'])
}

/// Describes the content of a file in no known format.
fn unknown_content(text: &str) -> UnknownContent {
    let Some(line) = text.lines().map(str::trim).find(|line| !line.is_empty()) else {
        return UnknownContent::Empty;
    };
    if !detect::is_json_object(text) {
        return UnknownContent::Text(detect::excerpt(line));
    }
    match serde_json::from_str::<serde::de::IgnoredAny>(text) {
        Ok(_) => UnknownContent::OtherJson,
        Err(error) => UnknownContent::InvalidJson(error),
    }
}

#[cfg(test)]
mod tests;
