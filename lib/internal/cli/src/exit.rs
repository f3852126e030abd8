//! Exit codes of the commands, and the errors behind them.

use std::path::Path;
use std::process::{ExitCode, Termination};
use std::{fmt, io};

/// Outcome of a command that did not fail with an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    Done,
    Regressed,
    /// A gate could not decide, and this counts as a failure.
    Inconclusive,
    /// The command could not measure or was interrupted. Results up to then are written.
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

/// Failure of a command: a message that includes the remedy, and the kind that decides the exit
/// code.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    /// Lines that explain the remedy, if that needs more than a sentence.
    advice: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ErrorKind {
    /// Bad usage or bad input. Nothing was measured or written.
    Usage,
    Measure,
    /// The reader of standard output has closed it. The exit code is 0.
    ClosedPipe,
}

/// Result of a step of a command.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn usage(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Usage, message: message.into(), advice: Vec::new() }
    }

    pub fn measure(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Measure, message: message.into(), advice: Vec::new() }
    }

    /// Converts an error of writing to standard output.
    pub fn from_stdout(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => {
                Self { kind: ErrorKind::ClosedPipe, message: String::new(), advice: Vec::new() }
            }
            _ => Self::measure(format!("cannot write to standard output: {error}")),
        }
    }

    /// Reports an input file that cannot be read.
    pub fn unreadable(path: &Path, error: &io::Error) -> Self {
        Self::from_io(error, format!("cannot read {}: {error}", path.display()))
    }

    /// Reports a file or a program of the user that cannot be opened or started. That is bad input,
    /// unless the system has no resources left.
    pub fn from_io(error: &io::Error, message: String) -> Self {
        if is_out_of_resources(error) {
            Self::refused(error, message)
        } else {
            Self::usage(message)
        }
    }

    /// Reports an operation that the system refused although the request is right.
    pub fn refused(error: &io::Error, message: String) -> Self {
        let remedy = if is_out_of_descriptors(error) { MORE_DESCRIPTORS } else { "" };
        Self::measure(message + remedy)
    }

    /// Reports a place for the output that cannot be written, before anything is run. Another place
    /// is the remedy, also if there is no space left at this one, but not if the system has no other
    /// resources left.
    pub fn unusable_output(error: &io::Error, message: String, remedy: &str) -> Self {
        if is_out_of_resources(error) && !is_out_of_space(error) {
            Self::refused(error, message)
        } else {
            Self::usage(format!("{message}; {remedy}"))
        }
    }

    /// Reports an output path that cannot be written. The result is lost, as with standard output.
    pub fn unwritable(path: &Path, error: &io::Error) -> Self {
        let message = format!("cannot write {}: {error}", path.display());
        if is_out_of_descriptors(error) {
            Self::refused(error, message)
        } else {
            Self::measure(format!("{message}; choose another place"))
        }
    }

    /// Prefixes the message with its context, such as a file or a flag.
    pub fn context(self, context: impl fmt::Display) -> Self {
        Self { message: format!("{context}: {}", self.message), ..self }
    }

    /// Adds lines that explain the remedy.
    #[must_use]
    pub fn with_advice(self, advice: Vec<String>) -> Self {
        Self { advice, ..self }
    }

    /// Returns the lines that explain the remedy.
    pub fn advice(&self) -> &[String] {
        &self.advice
    }

    /// Returns whether standard output was closed by its reader.
    pub fn is_closed_pipe(&self) -> bool {
        self.kind == ErrorKind::ClosedPipe
    }

    pub fn code(&self) -> u8 {
        match self.kind {
            ErrorKind::Usage => 2,
            ErrorKind::Measure => 4,
            ErrorKind::ClosedPipe => 0,
        }
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Returns whether an operation failed because the system has no memory, processes, open files or disk space
/// left, so that the request itself may be right.
pub fn is_out_of_resources(error: &io::Error) -> bool {
    let is_shortage =
        matches!(error.kind(), io::ErrorKind::OutOfMemory | io::ErrorKind::WouldBlock);
    is_shortage || is_out_of_space(error) || is_out_of_descriptors(error)
}

/// Returns whether an operation failed because a file system has no space left.
fn is_out_of_space(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), FileTooLarge | QuotaExceeded | StorageFull)
}

/// Returns whether an operation failed because too many files are open.
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| TOO_MANY_OPEN_FILES.contains(&code))
}

/// Remedy if too many files are open, as the end of a message.
pub const MORE_DESCRIPTORS: &str = "; raise the limit, for example with ulimit -n 1024";

/// Codes of the system for too many open files, for which the standard library has no kind:
/// `ENFILE` and `EMFILE`, which are equal on all Unix systems, or `ERROR_TOO_MANY_OPEN_FILES`.
const TOO_MANY_OPEN_FILES: &[i32] = if cfg!(windows) { &[4] } else { &[23, 24] };

/// Removes the path of a temporary file, which the user has not chosen, from an error message.
pub fn strip_temp_path(error: io::Error) -> io::Error {
    let text = error.to_string();
    let message = text.split(" at path ").next().unwrap_or_default();
    // Errors with a path have no code of the system.
    let code = message.rsplit_once("(os error ").and_then(|(_, code)| code.strip_suffix(')'));
    match code.and_then(|code| code.parse().ok()) {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), message),
    }
}

/// Formats an error of bad usage: `return Err(usage!("unknown subject {name:?}"))`.
#[macro_export]
macro_rules! usage {
    ($($message:tt)*) => { $crate::exit::Error::usage(format!($($message)*)) };
}
pub use usage;
