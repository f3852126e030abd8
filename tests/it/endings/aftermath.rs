//! Checks what a command leaves after its end.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::watched_process::{EndedProcess, output};
use super::{EndingRow, Moment};

/// CPU time in seconds after which a command counts as spinning: far more than it needs to write
/// its result on a busy machine.
const MAX_CPU_SECONDS: f64 = 30.0;
/// Files of the test, and of the meters of processes that were ended at once.
const IGNORED_DIRECTORIES: [&str; 1] = ["meters"];

/// Returns everything that differs from the documented end.
pub fn find_violations(row: &EndingRow, ended: &EndedProcess) -> Vec<String> {
    let home = ended.home.path();
    let mut violations = Vec::new();
    let mut check = |holds: bool, violation: String| {
        if !holds {
            violations.push(violation);
        }
    };
    if let Some(status) = ended.status {
        let codes = row.exit_codes();
        let is_documented = match (status.code(), status.signal()) {
            (Some(code), _) => codes.contains(&code),
            // Before the handler is installed, a signal has its default effect.
            (None, signal) => {
                let expected = row.ending.signal().map(rustix::process::Signal::as_raw);
                let is_unhandled = matches!(row.moment, Moment::Startup(_));
                is_unhandled && signal.is_some() && signal == expected
            }
        };
        check(is_documented, format!("{status}, expected exit code {codes:?}"));
    }
    let spins = ended.cpu_seconds > MAX_CPU_SECONDS;
    check(!spins, format!("it used {:.2} s of CPU time", ended.cpu_seconds));
    check(ended.remaining.is_empty(), format!("these still run: {:?}", ended.remaining));
    check(!output(home).contains("panicked at"), "it panicked".to_owned());
    for file in files_in(home) {
        let flaw = find_flaw(home, &file);
        check(flaw.is_none(), format!("{}: {}", file.display(), flaw.unwrap_or_default()));
    }
    if let Some(result) = row.command.result.filter(|_| row.writes_result()) {
        check(home.join(result).is_file(), format!("{result} is missing"));
    }
    let out = home.join("out");
    let is_empty =
        out.is_dir() && std::fs::read_dir(&out).is_ok_and(|mut out| out.next().is_none());
    check(!is_empty, "an empty output directory remains".to_owned());
    violations
}

impl EndingRow {
    /// Whether the ending comes before the command announces that it has begun.
    fn is_early(&self) -> bool {
        matches!(self.moment, Moment::Startup(_) | Moment::Handling(_))
    }

    /// Returns the exit codes that are documented at the moment of the row.
    fn exit_codes(&self) -> Vec<i32> {
        let mut codes = self.ending.exit_codes(self.command);
        match self.moment {
            Moment::Startup(_) | Moment::Handling(_) => codes.push(4),
            // With its whole input, the command may have completed.
            Moment::Running(_) if self.command.reads_input() => codes.push(0),
            Moment::Announced | Moment::Running(_) => {}
        }
        codes
    }

    fn writes_result(&self) -> bool {
        self.ending.keeps_result() && !self.is_early()
    }
}

/// Returns the files and empty directories below a directory.
fn files_in(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_ignored = IGNORED_DIRECTORIES.iter().any(|name| entry.file_name() == *name);
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && !is_ignored => {
                files.extend(files_in(&path));
                // A temporary directory has no files.
                files.push(path);
            }
            Ok(kind) if kind.is_file() => files.push(path),
            _ => {}
        }
    }
    files
}

/// Returns the reason for which a file is incomplete or must not exist, if any.
fn find_flaw(home: &Path, file: &Path) -> Option<String> {
    let name = file.file_name()?.to_string_lossy().into_owned();
    let is_temporary =
        name.starts_with(".osjitter-") || file.parent() == Some(&home.join("temporary"));
    if is_temporary {
        return Some("is a temporary file".to_owned());
    }
    if file.is_dir() || name == "stdout" {
        return None;
    }
    let text = std::fs::read_to_string(file).unwrap_or_default();
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("json") => serde_json::from_str::<Value>(&text).err().map(|e| e.to_string()),
        Some("html") if !text.trim_end().ends_with("</html>") => Some("is cut off".to_owned()),
        Some("svg") if !text.trim_end().ends_with("</svg>") => Some("is cut off".to_owned()),
        Some("csv" | "md") if !text.ends_with('\n') => Some("is cut off".to_owned()),
        _ => None,
    }
}
