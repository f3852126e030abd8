//! The exit codes, once.

use std::path::Path;
use std::process::{ExitCode, Termination};

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// Done, or a gate's pass.
    Done,
    /// A gate found a regression.
    Regressed,
    /// A gate could not decide, and was told that this is a failure.
    Inconclusive,
    /// Could not measure, or was interrupted; what was measured is written.
    NotMeasured,
}

impl Termination for ExitStatus {
    fn report(self) -> ExitCode {
        ExitCode::from(match self {
            Self::Done => 0,
            Self::Regressed => 1,
            Self::Inconclusive => 3,
            Self::NotMeasured => 4,
        })
    }
}

/// Why a command could not be carried out, in one sentence that says what to do.
#[derive(Debug)]
pub enum Failure {
    /// Bad usage or bad input: nothing was measured, nothing was written.
    Usage(String),
    /// Measuring or writing failed.
    Measure(String),
    /// The reader of our output went away: not an error.
    ClosedPipe,
}

impl Failure {
    /// For `map_err` on an I/O error met while writing to standard output.
    pub fn writing(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::ClosedPipe,
            _ => Self::Measure(format!("cannot write to standard output: {error}")),
        }
    }

    /// A place that cannot be written, and what to do.
    pub fn place(place: &Path, error: &std::io::Error) -> Self {
        Self::Usage(format!("cannot write {}: {error}; choose another place with --out", place.display()))
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Measure(_) => 4,
            Self::ClosedPipe => 0,
        }
    }
}
