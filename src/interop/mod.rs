//! Other tools' files, and our own, as one report model.
//!
//! A file is told by what is in it, not by its name. What a source cannot tell is left out and said in the report's
//! warnings, whose codes begin with `import-`; nothing is made up.

mod bins;
mod cyclictest;
pub mod cyclictest_out;
pub mod hdr_out;
mod hlog;
mod jitterdebugger;
pub mod openmetrics;
mod oslat;
mod rt_tests;
mod source;
pub mod trackers;

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use jitterstat::file::{File as _, read_json};
use jitterstat::report::Report;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::machine::os;

/// A file larger than this is not read, whatever memory there is: it holds some hundred million ticks, and no view of a
/// report is of use beyond that.
const LARGEST_FILE: u64 = 1 << 30;
/// Memory that a byte of a file can become. The worst is a map of short names, at some 13 times its size; a tick is
/// 8 bytes for at least 2. The largest file that is read is this fraction of the memory there is.
const MEMORY_PER_BYTE: u64 = 16;
/// Memory there is, where the platform does not tell.
const ASSUMED_MEMORY: u64 = 4 << 30;

/// Why a file is no report: where, and what is wrong there.
#[derive(Debug)]
pub struct ImportError {
    file: PathBuf,
    why: Why,
}

#[derive(Debug)]
enum Why {
    /// The system does not let us read it.
    Unread(io::Error),
    /// What was read is refused.
    Refused(String),
}

impl From<io::Error> for Why {
    fn from(error: io::Error) -> Self {
        Self::Unread(error)
    }
}

impl ImportError {
    /// What is wrong, without the name of the file.
    pub fn reason(&self) -> String {
        match &self.why {
            Why::Unread(error) => error.to_string(),
            Why::Refused(reason) => reason.clone(),
        }
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.display();
        match &self.why {
            Why::Unread(error) => write!(f, "cannot read {file}: {error}"),
            Why::Refused(reason) => write!(f, "{file}: {reason}"),
        }
    }
}

impl std::error::Error for ImportError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.why {
            Why::Unread(error) => Some(error),
            Why::Refused(_) => None,
        }
    }
}

/// Reads a report of ours, `cyclictest --json`, `oslat --json`, jitterdebugger's `results.json`, or an HdrHistogram
/// interval log.
///
/// # What an imported report is like
/// It has no samples. Reports of cyclictest, oslat and jitterdebugger have no rounds at all: a summary and a histogram for
/// each of their threads, and neither intervals nor anything over time, so they can be shown and set side by side, but a
/// difference between two of them cannot be judged: one run says nothing about how much runs differ. A line of an interval
/// log becomes a round with a summary and without samples. A period of 0 means that the source does not tell it; counts of
/// missed ticks are then 0, and say nothing.
///
/// # Errors
/// The file cannot be read, is larger than memory allows, is of no known kind or of a newer version, or holds what cannot
/// be; the reason says where, as line and column or as the path within the file. Memory stays within
/// [`MEMORY_PER_BYTE`] times the size of the file, and some 100 MB.
pub fn read(file: &Path) -> Result<Report, ImportError> {
    let text = read_text(file)?;
    parse(&text).map_err(|reason| ImportError { file: file.to_path_buf(), why: Why::Refused(reason) })
}

/// Reads the text of a file as [`read`] does: as large as memory allows, in UTF-8.
///
/// # Errors
/// The file cannot be read, is too large, or is no text.
pub fn read_text(file: &Path) -> Result<String, ImportError> {
    let most = LARGEST_FILE.min(os::available_memory().unwrap_or(ASSUMED_MEMORY) / MEMORY_PER_BYTE);
    text(file, most).map_err(|why| ImportError { file: file.to_path_buf(), why })
}

/// The text of a file of at most so many bytes.
fn text(file: &Path, most: u64) -> Result<String, Why> {
    let opened = fs::File::open(file)?;
    let meta = opened.metadata()?;
    if meta.is_dir() {
        return Err(Why::Refused(of_directory(file)));
    }
    let too_large = |size: &str| {
        Why::Refused(format!(
            "is {size}, and at most {} MiB are read: a file becomes up to {MEMORY_PER_BYTE} times as large in memory",
            most >> 20
        ))
    };
    if meta.len() > most {
        return Err(too_large(&format!("{} MiB large", meta.len() >> 20)));
    }
    // What is no regular file does not tell its size: a pipe, a device.
    let mut bytes = Vec::new();
    opened.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(too_large("larger"));
    }
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err(Why::Refused("is in UTF-16, as some shells redirect; write it with --out, or as UTF-8".to_owned()));
    }
    if bytes.starts_with(&[0xef, 0xbb, 0xbf]) {
        bytes.drain(..3);
    }
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        Why::Refused(format!("is not text: {}", place(&e.as_bytes()[..at])))
    })
}

/// A directory is not a report, but there may be one in it.
fn of_directory(directory: &Path) -> String {
    let names = ["report.json", "results.json"].map(OsStr::new);
    match names.into_iter().find(|name| directory.join(name).is_file()) {
        Some(name) => format!("is a directory; give {}", directory.join(name).display()),
        None => "is a directory; give the file of a report".to_owned(),
    }
}

/// Line and column of what follows these bytes.
fn place(before: &[u8]) -> String {
    let line = before.iter().filter(|&&b| b == b'\n').count() + 1;
    let column = before.iter().rev().take_while(|&&b| b != b'\n').count() + 1;
    format!("line {line} column {column}")
}

/// The keys that tell the JSON files apart.
#[derive(Deserialize)]
struct Head {
    schema: Option<String>,
    thread: Option<IgnoredAny>,
    cpu: Option<IgnoredAny>,
    #[serde(rename = "cmdline:", alias = "cmdline")]
    cmdline: Option<IgnoredAny>,
}

/// What a file that is no JSON for this reason comes from.
const NAN: &str = " (jitterdebugger writes -nan, which is no JSON, for a CPU without a sample)";

/// Tells the kind of a file by what is in it, and reads it.
fn parse(text: &str) -> Result<Report, String> {
    if hlog::is_one(text) {
        return hlog::read(text);
    }
    let head: Head = serde_json::from_str(text).map_err(|e| {
        let divided = if text.contains(": -nan") { NAN } else { "" };
        format!("not a report: {e}{divided}")
    })?;
    match head {
        Head { schema: Some(_), .. } => Report::from_json(text).map_err(|e| e.to_string()),
        Head { thread: Some(_), cmdline: Some(_), .. } => rt_tests::read(text),
        Head { cpu: Some(_), thread: None, .. } => jitterdebugger::read(text),
        _ => Err(format!(
            "not a report: no \"schema\" key; this version reads {:?}, cyclictest --json, oslat --json, jitterdebugger's \
             results.json and HdrHistogram logs",
            jitterstat::report::SCHEMA
        )),
    }
}

/// Reads JSON into a type; an error names line, column and the path of keys.
fn json<'a, T: Deserialize<'a>>(text: &'a str, what: &str) -> Result<T, String> {
    read_json(text).map_err(|e| format!("not a valid {what}: {e}"))
}

#[cfg(test)]
mod tests;
