//! The meters of running programs: finds them and reads them, again and again.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use cli::exit::{self, usage};
use tickmeter::Snapshot;
use tickmeter::read::{self, File, ReadError};

/// The meters' files, open.
#[derive(Debug)]
pub struct Watch {
    all: bool,
    most: usize,
    open: BTreeMap<PathBuf, File>,
    faults: Vec<String>,
    /// Files that were not looked at, last time.
    left_out: usize,
}

impl Watch {
    /// Of this user's meters, or of everybody's; at most so many.
    pub fn new(all: bool, most: usize) -> exit::Result<Self> {
        let watch = Self { all, most, open: BTreeMap::new(), faults: Vec::new(), left_out: 0 };
        let denied = |path: &PathBuf| {
            read::list(path).is_err_and(|e| e.kind() == ErrorKind::PermissionDenied)
        };
        match watch.directories().into_iter().find(denied) {
            Some(path) if all => {
                Err(usage!("--all needs root: {} may not be read", path.display()))
            }
            Some(path) => Err(usage!("{} may not be read; is it this user's?", path.display())),
            None => Ok(watch),
        }
    }

    fn directories(&self) -> Vec<PathBuf> {
        if self.all { read::directories_of_all_users() } else { read::directories() }
    }

    /// What every wanted meter has booked by now. Files of processes that have ended are swept.
    pub fn look(&mut self, wanted: impl Fn(&Path) -> bool) -> Vec<(PathBuf, Snapshot)> {
        self.faults.clear();
        let mut paths = Vec::new();
        for directory in self.directories() {
            read::sweep(&directory);
            match read::list(&directory) {
                Ok(found) => paths.extend(found.into_iter().filter(|path| wanted(path))),
                Err(error) => {
                    self.faults.push(format!("{} cannot be read: {error}", directory.display()))
                }
            }
        }
        self.left_out = paths.len().saturating_sub(self.most);
        paths.truncate(self.most);
        self.open.retain(|path, _| paths.contains(path));
        let mut found = Vec::new();
        for path in paths {
            match self.read(&path) {
                // It ended just now.
                Ok(None) => drop(self.open.remove(&path)),
                Err(ReadError::Io(error)) if error.kind() == ErrorKind::NotFound => {
                    drop(self.open.remove(&path))
                }
                Ok(Some(snapshot)) => found.push((path, snapshot)),
                Err(error) => {
                    self.faults.push(format!("{} {error}", path.display()));
                    self.open.remove(&path);
                }
            }
        }
        found
    }

    fn read(&mut self, path: &Path) -> Result<Option<Snapshot>, ReadError> {
        let file = match self.open.entry(path.to_path_buf()) {
            std::collections::btree_map::Entry::Occupied(open) => open.into_mut(),
            std::collections::btree_map::Entry::Vacant(free) => free.insert(File::open(path)?),
        };
        let snapshot = file.snapshot()?;
        Ok(file.is_alive().then_some(snapshot))
    }

    /// What could not be read at the last look, a sentence each.
    pub fn faults(&self) -> &[String] {
        &self.faults
    }

    /// How many files were more than are looked at.
    pub fn left_out(&self) -> usize {
        self.left_out
    }
}
