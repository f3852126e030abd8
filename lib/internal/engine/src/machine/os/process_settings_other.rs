//! Settings of the threads of running processes, which only Linux reports.

use files::report::ThreadSettings;

use crate::machine::os::ThreadReading;
#[cfg(unix)]
use crate::machine::os::types::SessionProcess;

pub fn read_threads(_: u32) -> Vec<ThreadReading> {
    Vec::new()
}

pub fn own_settings() -> ThreadSettings {
    ThreadSettings::default()
}

/// Only Linux lists processes in files.
#[cfg(unix)]
pub fn session_processes(_: u32) -> Vec<SessionProcess> {
    Vec::new()
}

#[cfg(unix)]
pub fn is_stopped(_: u32) -> bool {
    false
}
