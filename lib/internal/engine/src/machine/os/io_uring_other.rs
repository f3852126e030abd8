//! Placeholder on platforms without io_uring.

use std::io;
use std::time::Instant;

#[derive(Debug)]
pub enum RingSleeper {}

impl RingSleeper {
    /// Name of the system call.
    pub const BACKEND: &'static str = "io_uring_enter, absolute";

    pub fn new() -> io::Result<Self> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "only Linux has io_uring"))
    }

    pub fn sleep_until(&self, _: Instant) -> io::Result<()> {
        match *self {}
    }
}
