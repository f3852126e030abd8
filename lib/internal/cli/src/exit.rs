//! How a command ends: the exit codes, and the errors behind them.

use std::path::Path;
use std::process::{ExitCode, Termination};
use std::{fmt, io};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    Done,
    Regressed,
    /// A gate could not decide, and that counts as a failure.
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

/// Why a command failed: one sentence that names what to do, and the kind that decides the exit
/// code.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Bad usage or bad input: nothing was measured, nothing was written.
    Usage,
    Measure,
    /// The reader of our output went away: not an error.
    ClosedPipe,
}

/// What every step of a command returns.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn usage(message: impl Into<String>) -> Self {
        Self { kind: Kind::Usage, message: message.into() }
    }

    pub fn measure(message: impl Into<String>) -> Self {
        Self { kind: Kind::Measure, message: message.into() }
    }

    /// For `map_err` on an I/O error met while writing to standard output.
    pub fn from_stdout(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => {
                Self { kind: Kind::ClosedPipe, message: String::new() }
            }
            _ => Self::measure(format!("cannot write to standard output: {error}")),
        }
    }

    /// A place that cannot be written, and what to do: as where standard output cannot, there is a
    /// result, and nobody has got it.
    pub fn unwritable(path: &Path, error: &std::io::Error) -> Self {
        Self::measure(format!(
            "cannot write {}: {error}; choose another place with --out",
            path.display()
        ))
    }

    /// The same, with where it happened in front: a file, a flag.
    pub fn context(self, context: impl fmt::Display) -> Self {
        Self { message: format!("{context}: {}", self.message), ..self }
    }

    /// Nobody is left to read what went wrong.
    pub fn is_closed_pipe(&self) -> bool {
        self.kind == Kind::ClosedPipe
    }

    pub fn code(&self) -> u8 {
        match self.kind {
            Kind::Usage => 2,
            Kind::Measure => 4,
            Kind::ClosedPipe => 0,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The name of a temporary file stays out of a message: nobody has given it.
pub fn strip_temp_path(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), error.to_string().split(" at path ").next().unwrap_or_default())
}

/// Bad usage, formatted: `return Err(usage!("no subject {name:?}"))`.
#[macro_export]
macro_rules! usage {
    ($($message:tt)*) => { $crate::exit::Error::usage(format!($($message)*)) };
}
pub use usage;
