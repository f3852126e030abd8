//! A file of settings, and its path in messages.

use std::fs::File;
use std::path::{Path, PathBuf};

use cli::exit::{self, usage};
use engine::machine::os;

/// A file of settings. It is open, so that the file that is read is the one that was checked.
pub struct OpenFile {
    pub path: PathBuf,
    pub opened: File,
}

impl OpenFile {
    pub fn open(path: PathBuf) -> exit::Result<Self> {
        let opened = File::open(&path).map_err(|e| exit::Error::unreadable(&path, &e))?;
        Ok(Self { path, opened })
    }

    /// Opens a file that the user has not named. Only a regular file has settings: a pipe may have
    /// no writer.
    pub fn open_regular(path: PathBuf) -> exit::Result<Self> {
        let opened = std::fs::canonicalize(&path).and_then(|target| os::open_regular(&target));
        let opened = opened.map_err(|e| match exit::Error::unreadable(&path, &e) {
            error if error.code() == 2 => usage!("{error}; --no-config ignores it"),
            error => error,
        })?;
        Ok(Self { path, opened })
    }
}

/// Formats a path relative to the current directory, if it is below it.
pub fn display_path(file: &Path) -> String {
    let current = std::env::current_dir().ok();
    let relative = current.and_then(|directory| file.strip_prefix(directory).ok());
    relative.unwrap_or(file).display().to_string()
}
