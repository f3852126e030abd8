//! Marks of a program in the trace of the kernel.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};

/// Mount points of tracefs: the current one, and that before Linux 4.1.
const TRACEFS_DIRECTORIES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Maximum length of a mark, including the line break.
const MAX_MARK_BYTES: usize = 256;

/// The file that adds a line to the events of the kernel.
#[derive(Debug)]
pub struct TraceMarker(File);

impl TraceMarker {
    /// Opens the file and writes a first mark to check that this is possible.
    pub fn open(first: &str) -> Result<Self, TraceMarkerError> {
        let mut refused = None;
        for directory in TRACEFS_DIRECTORIES {
            let file = format!("{directory}/trace_marker");
            let marker = OpenOptions::new().write(true).open(&file).map(Self);
            match marker.and_then(|marker| marker.mark(format_args!("{first}")).map(|()| marker)) {
                Ok(marker) => return Ok(marker),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => {
                    _ = refused.get_or_insert(TraceMarkerError::Unwritable { file, error })
                }
            }
        }
        Err(refused.unwrap_or(TraceMarkerError::NoTracefs))
    }

    /// Writes a line to the trace with one system call and without allocating.
    pub fn mark(&self, line: std::fmt::Arguments<'_>) -> io::Result<()> {
        let mut text = [0; MAX_MARK_BYTES];
        let mut rest = &mut text[..MAX_MARK_BYTES - 1];
        // A longer line is truncated.
        let _ = rest.write_fmt(line);
        let end = MAX_MARK_BYTES - 1 - rest.len();
        text[end] = b'\n';
        (&self.0).write(&text[..=end]).map(drop)
    }
}

/// Reason why the trace cannot be marked.
#[derive(Debug, thiserror::Error)]
pub enum TraceMarkerError {
    NoTracefs,
    Unwritable {
        file: String,
        #[source]
        error: io::Error,
    },
}

impl fmt::Display for TraceMarkerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Error of an open descriptor while tracing is off.
        const EBADF: i32 = 9;
        let (file, error) = match self {
            Self::NoTracefs if cfg!(target_os = "linux") => {
                return f.write_str(
                    "tracefs is not mounted; as root: mount -t tracefs tracefs /sys/kernel/tracing",
                );
            }
            Self::NoTracefs => return f.write_str("only Linux has tracefs"),
            Self::Unwritable { file, error } => (file, error),
        };
        let hint = match error.kind() {
            ErrorKind::PermissionDenied => {
                "it needs root, or a tracefs that is mounted with one of your groups"
            }
            _ if error.raw_os_error() == Some(EBADF) => {
                "tracing is off; switch it on with: echo 1 > tracing_on"
            }
            _ => "check whether a shell can write to it",
        };
        write!(f, "cannot write {file}: {error}; {hint}")
    }
}
