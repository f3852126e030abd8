//! Settings of the threads of running processes, which only Linux reports.

use files::report::ThreadSettings;

/// A thread at one moment.
#[derive(Clone, Debug)]
pub struct ThreadReading {
    pub thread: u32,
    /// Whether its process has no children.
    pub is_leaf: bool,
    /// Number of times that it has run.
    pub switches: u64,
    pub settings: ThreadSettings,
}

pub fn read_threads(_: u32) -> Vec<ThreadReading> {
    Vec::new()
}

pub fn own_settings() -> ThreadSettings {
    ThreadSettings::default()
}
