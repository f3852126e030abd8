//! Finds the files of bins in a directory and its subdirectories.

use std::collections::{BTreeSet, HashSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use cli::exit::{Error, Result};
use cli::file_io;
use cli::file_io::FileIdentity;

use crate::import_error::UnreadablePath;
use crate::pair::split_path;

/// The files of bins below a directory.
#[derive(Debug, Default)]
pub struct FoundFiles {
    /// The files of bins and intervals.
    pub files: BTreeSet<PathBuf>,
    /// Whether other files or directories had been found before.
    pub has_known_files: bool,
    /// Files, and targets of links, that cannot be read.
    pub unreadable: Vec<UnreadablePath>,
}

/// A search through any number of directories.
#[derive(Default)]
pub struct BinsSearch {
    found: FoundFiles,
    /// All directories and files so far.
    seen: HashSet<FileIdentity>,
    /// Directories that are not listed yet.
    directories: Vec<PathBuf>,
    /// Links that are not followed yet. They are followed last, so that a file is found under its
    /// own name.
    links: Vec<PathBuf>,
}

impl BinsSearch {
    /// Finds all files below a directory that were not found before.
    ///
    /// Links are followed. A directory or file that several paths lead to is found once, which also
    /// ends cycles of links.
    ///
    /// # Errors
    /// Returns an error if a directory cannot be read.
    pub fn find(&mut self, directory: &Path) -> Result<FoundFiles> {
        self.visit(directory.to_owned());
        loop {
            if let Some(directory) = self.directories.pop() {
                self.list(&directory)?;
            } else if let Some(link) = self.links.pop() {
                self.visit(link);
            } else {
                return Ok(std::mem::take(&mut self.found));
            }
        }
    }

    /// Whether a directory was listed, or a file found.
    pub fn has_found(&self, path: &Path) -> bool {
        file_io::identity(path).is_ok_and(|identity| self.seen.contains(&identity))
    }

    fn list(&mut self, directory: &Path) -> Result<()> {
        let read_error = |e: std::io::Error| Error::unreadable(directory, &e);
        for entry in std::fs::read_dir(directory).map_err(read_error)? {
            let entry = entry.map_err(read_error)?;
            if entry.file_type().map_err(read_error)?.is_symlink() {
                self.links.push(entry.path());
            } else {
                self.visit(entry.path());
            }
        }
        Ok(())
    }

    /// Adds a directory or a file, unless it is known.
    fn visit(&mut self, path: PathBuf) {
        let (meta, identity) = match (std::fs::metadata(&path), file_io::identity(&path)) {
            (Ok(meta), Ok(identity)) => (meta, identity),
            // Something that was removed after its directory was listed.
            (Err(e), _) if e.kind() == ErrorKind::NotFound && !path.is_symlink() => return,
            (Err(source), _) | (_, Err(source)) => {
                self.found.unreadable.push(UnreadablePath { path, source });
                return;
            }
        };
        let is_file = meta.is_file() && split_path(&path).is_some();
        if !is_file && !meta.is_dir() {
            return;
        }
        if !self.seen.insert(identity) {
            self.found.has_known_files = true;
        } else if is_file {
            self.found.files.insert(path);
        } else {
            self.directories.push(path);
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_followed_once() {
        let home = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let write = |directory: &Path, name: &str| {
            std::fs::write(directory.join(name), "").unwrap();
        };
        let (inner, log) = (home.path().join("a/b"), elsewhere.path().join("log"));
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::create_dir(&log).unwrap();
        write(&inner, "own.bins.csv");
        write(&inner, "own.intervals.csv");
        write(&log, "linked.bins.csv");
        write(elsewhere.path(), "file.bins.csv.gz");
        symlink(&log, home.path().join("log")).unwrap();
        symlink(&log, home.path().join("log again")).unwrap();
        symlink(home.path(), inner.join("cycle")).unwrap();
        symlink(elsewhere.path().join("file.bins.csv.gz"), inner.join("file.bins.csv.gz")).unwrap();
        symlink(inner.join("own.bins.csv"), home.path().join("latest.bins.csv")).unwrap();
        symlink("gone", home.path().join("broken")).unwrap();
        let mut search = BinsSearch::default();
        let found = search.find(home.path()).unwrap();
        let relative = |file: &PathBuf| file.strip_prefix(home.path()).unwrap().to_owned();
        let mut files: Vec<PathBuf> = found.files.iter().map(relative).collect();
        let linked = files.pop().unwrap();
        let own = ["a/b/file.bins.csv.gz", "a/b/own.bins.csv", "a/b/own.intervals.csv"];
        assert_eq!(files, own.map(Path::new));
        assert!(linked.ends_with("linked.bins.csv"), "one of the two links: {linked:?}");
        assert!(search.has_found(&log) && search.has_found(home.path()));
        assert!(!search.has_found(elsewhere.path()));
        assert_eq!(found.unreadable.len(), 1);
        assert!(found.unreadable[0].path.ends_with("broken"), "{:?}", found.unreadable);
        let again = search.find(&log).unwrap();
        assert!(again.files.is_empty() && again.has_known_files, "{again:?}");
    }
}
