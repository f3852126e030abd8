//! The directory into which a command writes its results.

use std::cell::RefCell;
use std::fs::{DirEntry, FileType};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::exit::{Error, Result, usage};

use super::temporaries::{Registration, StagingDirectory};
use super::{
    Contents, check_directory_writable, check_length, parent, remove_abandoned_files,
    write_files_with,
};

/// Assumed maximum length of the names of files in the directory.
const MAX_FILE_NAME_BYTES: usize = 100;

const REMEDY: &str = "choose another directory with --out; nothing was run";

/// The directory of a command's results. It is checked to be writable before anything is measured.
///
/// The directory belongs to one command from [`OutputDirectory::open`] on. The first write replaces
/// all results of an earlier command of the same kind, so that the directory never contains the
/// report of one run and the pictures of another. A directory that was created and never written is
/// removed.
pub struct OutputDirectory {
    directory: PathBuf,
    /// The directory as a temporary one, if it was created and contains nothing yet.
    unwritten: RefCell<Option<Registration>>,
    /// Results of an earlier command.
    previous: RefCell<Vec<PathBuf>>,
}

/// The files of a report.
pub const REPORT_FILES: ResultNames = &[
    "report.json",
    "report.html",
    "flight.json",
    "timers.csv",
    "tradeoff.svg",
    "percentiles.svg",
    "over-time.svg",
    "card.svg",
    "histogram-*.svg",
    "time-*.svg",
];

/// The names of the files that a kind of command writes; `*` matches any text.
pub type ResultNames = &'static [&'static str];

impl OutputDirectory {
    /// Opens a directory: the requested one, or a new one in `results` that is named by the start
    /// time `stamp`.
    ///
    /// # Errors
    /// Returns an error if the directory is not writable, or if a link or something else that is
    /// not a regular file has the name of a result.
    pub fn open(requested: Option<&Path>, stamp: &str, results: ResultNames) -> Result<Self> {
        if let Some(path) = requested {
            // Before a directory is created.
            check_length(&path.join("f".repeat(MAX_FILE_NAME_BYTES)))
                .map_err(|e| usage!("cannot write to {}: {e}; {REMEDY}", path.display()))?;
        }
        let (directory, unwritten) = match requested {
            Some(path) => create_directory(path)
                .map(|registration| (path.to_path_buf(), registration))
                .map_err(|e| usage!("cannot write to {}: {e}; {REMEDY}", path.display()))?,
            None => {
                let name = stamp.replace([':', '-'], "");
                let (directory, registration) = create_unique(Path::new("results"), &name)?;
                (directory, Some(registration))
            }
        };
        let unwritten = RefCell::new(unwritten);
        let opened = Self { directory, unwritten, previous: RefCell::default() };
        let failed =
            |e: io::Error| usage!("cannot write to {}: {e}; {REMEDY}", opened.directory.display());
        check_directory_writable(&opened.directory).map_err(failed)?;
        remove_abandoned_files(parent(&opened.directory));
        remove_abandoned_files(&opened.directory);
        let previous = opened.find_results(results).map_err(failed)?;
        for (file, kind) in &previous {
            if !kind.is_file() {
                return Err(usage!(
                    "cannot write to {}: it is a link, or not a regular file; {REMEDY}",
                    file.display()
                ));
            }
        }
        opened.previous.replace(previous.into_iter().map(|(file, _)| file).collect());
        Ok(opened)
    }

    /// Returns the paths in the directory that have the name of a result.
    fn find_results(&self, results: ResultNames) -> io::Result<Vec<(PathBuf, FileType)>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.directory)? {
            let entry = entry?;
            if results.iter().any(|pattern| has_name(&entry, pattern)) {
                found.push((entry.path(), entry.file_type()?));
            }
        }
        Ok(found)
    }

    /// Prints a note if the first write replaces results of an earlier command.
    pub fn announce_replacement(&self, quiet: bool) {
        if !self.previous.borrow().is_empty() {
            let directory = self.directory.display();
            crate::terminal::note(
                quiet,
                &format!("{directory} contains results, which will be replaced"),
            );
        }
    }

    /// Returns the path of a file in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Writes one file, and returns its path.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        self.write_all(&[(name, text)])?;
        Ok(self.path(name))
    }

    /// Writes several files, the report last.
    ///
    /// A new directory contains either none or all of them. In another one they are first written
    /// under temporary names and then renamed in order; the results of an earlier command that have
    /// no successor are removed last.
    pub fn write_all(&self, files: &[(&str, &str)]) -> Result<()> {
        let mut writers = Vec::new();
        for (_, text) in files {
            writers.push(move |to: &mut dyn Write| to.write_all(text.as_bytes()));
        }
        let mut contents: Vec<(&str, Contents<'_>)> = Vec::new();
        for ((name, _), writer) in files.iter().zip(&writers) {
            contents.push((name, writer));
        }
        let is_unwritten = self.unwritten.borrow().is_some();
        let written =
            if is_unwritten { self.fill(&contents) } else { self.replace_results(&contents) };
        if written.is_ok() {
            self.unwritten.take();
        }
        written.map_err(|e| {
            Error::measure(format!("cannot write to {}: {e}", self.directory.display()))
        })
    }

    /// Replaces the empty directory by a complete one.
    fn fill(&self, files: &[(&str, Contents<'_>)]) -> io::Result<()> {
        let staging = StagingDirectory::create(parent(&self.directory))?;
        let stage = staging.path.as_path();
        let filled =
            write_files_with(stage, files).and_then(|()| rename_directory(stage, &self.directory));
        if let Err(e) = &filled {
            // By name: to list the directory takes a descriptor, of which there may be none.
            for (name, _) in files {
                let _ = std::fs::remove_file(stage.join(name));
            }
            let _ = std::fs::remove_dir(stage);
            // Another process has written into the directory.
            if e.kind() == ErrorKind::DirectoryNotEmpty {
                return self.replace_results(files);
            }
        }
        filled
    }

    fn replace_results(&self, files: &[(&str, Contents<'_>)]) -> io::Result<()> {
        write_files_with(&self.directory, files)?;
        for file in self.previous.take() {
            let is_replaced = files.iter().any(|(name, _)| self.path(name) == file);
            match if is_replaced { Ok(()) } else { std::fs::remove_file(&file) } {
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        Ok(())
    }
}

impl Drop for OutputDirectory {
    fn drop(&mut self) {
        if self.unwritten.borrow().is_some() {
            let _ = std::fs::remove_dir(&self.directory);
        }
    }
}

/// Creates a directory and its parents. Returns `None` if the directory exists.
fn create_directory(directory: &Path) -> io::Result<Option<Registration>> {
    std::fs::create_dir_all(parent(directory))?;
    match Registration::create_directory(directory) {
        Ok(registration) => Ok(Some(registration)),
        Err(_) if directory.is_dir() => Ok(None),
        Err(e) => Err(e),
    }
}

/// Creates a directory that did not exist: two commands that start at the same time have different
/// ones.
fn create_unique(parent: &Path, name: &str) -> Result<(PathBuf, Registration)> {
    let failed =
        |path: &Path, e: io::Error| usage!("cannot write to {}: {e}; {REMEDY}", path.display());
    std::fs::create_dir_all(parent).map_err(|e| failed(parent, e))?;
    let mut suffix = String::new();
    for number in 2_u32.. {
        let directory = parent.join(format!("{name}{suffix}"));
        match Registration::create_directory(&directory) {
            Ok(registration) => return Ok((directory, registration)),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => suffix = format!("-{number}"),
            Err(e) => return Err(failed(&directory, e)),
        }
    }
    unreachable!("there are fewer directories than numbers")
}

/// Renames a directory over an empty one.
fn rename_directory(from: &Path, to: &Path) -> io::Result<()> {
    if cfg!(windows) {
        // Windows does not replace directories.
        std::fs::remove_dir(to)?;
    }
    std::fs::rename(from, to)
}

/// Returns whether an entry has a name that the pattern allows.
fn has_name(entry: &DirEntry, pattern: &str) -> bool {
    let name = entry.file_name();
    let Some(name) = name.to_str() else { return false };
    match pattern.split_once('*') {
        None => name == pattern,
        Some((start, end)) => {
            name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: ResultNames = &["report.json", "time-*.svg"];

    fn names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn write_replaces_earlier_results() {
        let home = tempfile::tempdir().unwrap();
        let out = home.path().join("out");
        let first = OutputDirectory::open(Some(&out), "", NAMES).unwrap();
        first.write_all(&[("time-a.svg", "1"), ("report.json", "1")]).unwrap();
        std::fs::write(out.join("notes.svg"), "mine").unwrap();
        let second = OutputDirectory::open(Some(&out), "", NAMES).unwrap();
        assert_eq!(names(&out), ["notes.svg", "report.json", "time-a.svg"]);
        second.write_all(&[("time-b.svg", "2"), ("report.json", "2")]).unwrap();
        second.write("extra.txt", "2").unwrap();
        assert_eq!(names(&out), ["extra.txt", "notes.svg", "report.json", "time-b.svg"]);
    }

    #[test]
    fn unwritten_directory_is_removed() {
        let home = tempfile::tempdir().unwrap();
        let out = home.path().join("a/out");
        drop(OutputDirectory::open(Some(&out), "", NAMES).unwrap());
        assert!(!out.exists());
        std::fs::create_dir_all(&out).unwrap();
        drop(OutputDirectory::open(Some(&out), "", NAMES).unwrap());
        assert!(out.exists(), "a directory of the user stays");
    }

    #[test]
    fn simultaneous_commands_have_own_directories() {
        let home = tempfile::tempdir().unwrap();
        let created: Vec<PathBuf> = std::thread::scope(|scope| {
            let create = || create_unique(home.path(), "20260101T000000Z").unwrap().0;
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(create)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let distinct: std::collections::BTreeSet<_> = created.iter().collect();
        assert_eq!(distinct.len(), 8, "{created:?}");
    }

    #[cfg(unix)]
    #[test]
    fn links_are_rejected() {
        let home = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/nowhere", home.path().join("report.json")).unwrap();
        let error = OutputDirectory::open(Some(home.path()), "", NAMES).err().unwrap();
        assert!(error.to_string().contains("it is a link"), "{error}");
    }
}
