//! Finds the meters of running programs and reads them repeatedly.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use cli::exit::{self, usage};
use tickmeter::Snapshot;
use tickmeter::read::{self, File, ReadError};

/// Reads meter files and keeps them open between polls.
#[derive(Debug)]
pub struct MeterReader {
    all_users: bool,
    max_files: usize,
    files: BTreeMap<PathBuf, File>,
    faults: Vec<String>,
    /// Files beyond `max_files` at the last poll.
    left_out: usize,
}

impl MeterReader {
    /// Creates a reader of this user's meters or those of all users, with at most `max_files`
    /// files.
    ///
    /// # Errors
    ///
    /// Returns an error if a directory of meters is not readable.
    pub fn new(all_users: bool, max_files: usize) -> exit::Result<Self> {
        let files = BTreeMap::new();
        let reader = Self { all_users, max_files, files, faults: Vec::new(), left_out: 0 };
        let is_denied = |path: &PathBuf| {
            read::list(path).is_err_and(|e| e.kind() == ErrorKind::PermissionDenied)
        };
        match reader.directories().into_iter().find(is_denied) {
            Some(path) if all_users => {
                Err(usage!("--all needs root: cannot read {}", path.display()))
            }
            Some(path) => {
                Err(usage!("cannot read {}; check that it belongs to this user", path.display()))
            }
            None => Ok(reader),
        }
    }

    fn directories(&self) -> Vec<PathBuf> {
        if self.all_users { read::directories_of_all_users() } else { read::directories() }
    }

    /// Returns a snapshot of every selected meter, and removes the files of processes that have
    /// ended.
    pub fn poll(&mut self, is_selected: impl Fn(&Path) -> bool) -> Vec<(PathBuf, Snapshot)> {
        self.faults.clear();
        let mut paths = self.list(is_selected);
        self.left_out = paths.len().saturating_sub(self.max_files);
        paths.truncate(self.max_files);
        self.files.retain(|path, _| paths.contains(path));
        let mut snapshots = Vec::new();
        for path in paths {
            match self.read(&path) {
                // The process has ended since its file was listed.
                Ok(None) => drop(self.files.remove(&path)),
                Err(ReadError::Io(error)) if error.kind() == ErrorKind::NotFound => {
                    drop(self.files.remove(&path))
                }
                Ok(Some(snapshot)) => snapshots.push((path, snapshot)),
                Err(error) => {
                    self.faults.push(format!("{} {error}", path.display()));
                    self.files.remove(&path);
                }
            }
        }
        snapshots
    }

    fn list(&mut self, is_selected: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
        let mut paths = Vec::new();
        for directory in self.directories() {
            read::sweep(&directory);
            match read::list(&directory) {
                Ok(found) => paths.extend(found.into_iter().filter(|path| is_selected(path))),
                Err(error) => {
                    self.faults.push(format!("cannot read {}: {error}", directory.display()))
                }
            }
        }
        paths
    }

    fn read(&mut self, path: &Path) -> Result<Option<Snapshot>, ReadError> {
        let file = match self.files.entry(path.to_path_buf()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(File::open(path)?),
        };
        let snapshot = file.snapshot()?;
        Ok(file.is_alive().then_some(snapshot))
    }

    /// Returns a message for each file or directory that could not be read at the last poll.
    pub fn faults(&self) -> &[String] {
        &self.faults
    }

    /// Returns the number of files that the last poll did not read because of the maximum.
    pub fn left_out(&self) -> usize {
        self.left_out
    }
}
