//! The kernel's trace, as far as a program may write into it.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};

/// Where tracefs is mounted, and where it was before Linux 4.1.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// A mark is no longer than this.
const MAX_MARK_BYTES: usize = 256;

/// The file that puts a line among the events of the kernel.
#[derive(Debug)]
pub struct TraceMarker(File);

impl TraceMarker {
    /// Opens it and proves with a first mark that it can be written.
    pub fn open(first: &str) -> Result<Self, String> {
        let mut refused = None;
        for place in PLACES {
            let file = format!("{place}/trace_marker");
            let marker = OpenOptions::new().write(true).open(&file).map(Self);
            match marker.and_then(|marker| marker.mark(format_args!("{first}")).map(|()| marker)) {
                Ok(marker) => return Ok(marker),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => _ = refused.get_or_insert_with(|| why(&file, &error)),
            }
        }
        let missing = if cfg!(target_os = "linux") {
            "tracefs is not mounted; as root: mount -t tracefs tracefs /sys/kernel/tracing"
        } else {
            "only Linux has tracefs"
        };
        Err(refused.unwrap_or_else(|| missing.to_owned()))
    }

    /// Puts a line into the trace: one system call, and no memory.
    pub fn mark(&self, line: std::fmt::Arguments<'_>) -> io::Result<()> {
        let mut text = [0; MAX_MARK_BYTES];
        let mut rest = &mut text[..MAX_MARK_BYTES - 1];
        // What is longer is cut.
        let _ = rest.write_fmt(line);
        let end = MAX_MARK_BYTES - 1 - rest.len();
        text[end] = b'\n';
        (&self.0).write(&text[..=end]).map(drop)
    }
}

fn why(file: &str, error: &io::Error) -> String {
    /// What a descriptor that is open says while the trace is switched off.
    const EBADF: i32 = 9;
    let hint = match error.kind() {
        ErrorKind::PermissionDenied => "it takes root, or a tracefs mounted with a group of yours",
        _ if error.raw_os_error() == Some(EBADF) => {
            "tracing is off; switch it on with: echo 1 > tracing_on"
        }
        _ => "see whether a shell can write it",
    };
    format!("cannot write {file}: {error}; {hint}")
}
