//! The directory into which a command writes its results.

use std::cell::{Cell, RefCell};
use std::ffi::OsStr;
use std::fs::{DirEntry, FileType};
use std::io::{self, ErrorKind, Read as _, Write};
use std::path::{Path, PathBuf};

use crate::exit::{Error, Result, usage};

use super::destination::{Destination, check_inputs, check_replacement};
use super::temporaries::{EmptyDirectory, StagingDirectory};
use super::{
    Contents, check_directory_writable, check_length, parent, remove_abandoned_files,
    write_files_with, write_only_new_files,
};

/// Assumed maximum length of the names of files in the directory.
const MAX_FILE_NAME_BYTES: usize = 100;

const REMEDY: &str = "choose another directory with --out; nothing was run";

/// The directory of a command's results. It is checked to be writable before anything is measured.
///
/// The directory contains one result. If it has an earlier one, the command is refused, unless the
/// user permits the replacement: then the first write replaces all of it, so that the directory
/// never contains the report of one run and the pictures of another. An interrupted command replaces
/// nothing. A directory that was created and never written is removed.
pub struct OutputDirectory {
    directory: RefCell<PathBuf>,
    /// The directory and the parents that were created for it, as temporary ones, if it contains
    /// nothing yet. A directory comes before its parent, so that it is removed first.
    unwritten: RefCell<Vec<EmptyDirectory>>,
    /// Names of the results that the directory may contain.
    results: ResultNames,
    /// Whether the first write may replace an earlier result.
    force: bool,
    /// Whether the result is that of an interrupted command, which replaces no earlier one.
    is_partial: Cell<bool>,
    has_written: Cell<bool>,
}

/// The pictures of a run.
pub const RUN_PICTURES: [&str; 6] = [
    "tradeoff.svg", "percentiles.svg", "over-time.svg", "card.svg", "histogram-*.svg", "time-*.svg",
];

/// The files of a measurement: of a run, a trace, a gate or a search.
pub const RESULT_FILES: ResultNames = &{
    let [tradeoff, percentiles, over_time, card, histograms, times] = RUN_PICTURES;
    [
        "report.json", "verdict.json", "find.json", "find.svg", "report.html", "flight.json",
        "timers.csv", tradeoff, percentiles, over_time, card, histograms, times,
    ]
};

/// The names of the files that a kind of command writes; `*` matches any text.
pub type ResultNames = &'static [&'static str];

/// Texts of which each file that `osjitter` writes has one near its start: pages, JSON, pictures, and
/// the table of timers. They are the same in all versions.
const MARKS: [&str; 4] = [
    " - osjitter</title>",
    "\"osjitter.",
    "<style>@media (prefers-color-scheme: dark) {[fill=\"#FFFFFF\"] {fill: #14171a}",
    "subject,thread,deadline_ns,",
];
/// Size of the start of a file in which a mark is searched.
const MARKED_BYTES: u64 = 16 << 10;

impl OutputDirectory {
    /// Checks that the requested directory contains no result that must not be replaced. Commands
    /// whose preparation takes long call this before it.
    ///
    /// # Errors
    /// Returns an error that names the result.
    pub fn check(requested: Option<Destination<'_>>, results: ResultNames) -> Result<()> {
        let Some(Destination { path, force }) = requested else { return Ok(()) };
        super::check_no_stdio(path, "--out", "a directory")?;
        // A directory that cannot be listed is reported when it is opened.
        let found = find_results(path, results).unwrap_or_default();
        let existing = found.iter().find(|result| result.kind.is_file());
        check_replacement(existing.map(|result| result.path.as_path()), force)
    }

    /// Checks that no input is among the results in the requested directory, all of which `--force`
    /// replaces.
    ///
    /// # Errors
    /// Returns an error that names the input.
    pub fn check_inputs<'i>(
        requested: Option<Destination<'_>>,
        results: ResultNames,
        inputs: impl IntoIterator<Item = &'i Path>,
    ) -> Result<()> {
        let Some(Destination { path, .. }) = requested else { return Ok(()) };
        let found = find_results(path, results).unwrap_or_default();
        let replaced: Vec<PathBuf> = found.into_iter().map(|result| result.path).collect();
        check_inputs(&replaced, inputs)
    }

    /// Opens a directory: the requested one, or a new one in `results` that is named by the start
    /// time `stamp`.
    ///
    /// # Errors
    /// Returns an error if the directory is not writable, if it contains a result that must not be
    /// replaced, or if a link or something else that is not a regular file has the name of a result.
    pub fn open(
        requested: Option<Destination<'_>>,
        stamp: &str,
        results: ResultNames,
    ) -> Result<Self> {
        Self::check(requested, results)?;
        if let Some(Destination { path, .. }) = requested {
            // Before a directory is created.
            check_length(&path.join("f".repeat(MAX_FILE_NAME_BYTES)))
                .map_err(|e| unusable(path, &e))?;
        }
        let (directory, unwritten) = match requested {
            Some(Destination { path, .. }) => create_directory(path)
                .map(|created| (path.to_path_buf(), created))
                .map_err(|e| unusable(path, &e))?,
            None => create_unique(Path::new("results"), &stamp.replace([':', '-'], ""))?,
        };
        let opened = Self {
            directory: RefCell::new(directory.clone()),
            unwritten: RefCell::new(unwritten),
            results,
            force: requested.is_some_and(|destination| destination.force),
            is_partial: Cell::new(false),
            has_written: Cell::new(false),
        };
        let failed = |e: io::Error| unusable(&directory, &e);
        check_directory_writable(&directory).map_err(failed)?;
        remove_abandoned_files(parent(&directory));
        remove_abandoned_files(&directory);
        for previous in find_results(&directory, results).map_err(failed)? {
            if !previous.kind.is_file() {
                return Err(usage!(
                    "cannot write to {}: it is a link, or not a regular file; {REMEDY}",
                    previous.path.display()
                ));
            }
        }
        Ok(opened)
    }

    /// States whether the measurement was interrupted or failed. Its result then goes into a directory
    /// next to an earlier one, which may have cost hours.
    pub fn set_partial(&self, is_partial: bool) {
        self.is_partial.set(is_partial);
    }

    /// Returns the path of a file in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.borrow().join(name)
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
        let is_unwritten = !self.unwritten.borrow().is_empty();
        let written =
            if is_unwritten { self.fill(&contents) } else { self.replace_results(&contents) };
        if written.is_ok() {
            self.unwritten.take();
            self.has_written.set(true);
        }
        written.map_err(|e| {
            let directory = self.directory.borrow();
            Error::measure(format!("cannot write to {}: {e}", directory.display()))
        })
    }

    /// Replaces the empty directory by a complete one.
    fn fill(&self, files: &[(&str, Contents<'_>)]) -> io::Result<()> {
        let directory = self.directory.borrow().clone();
        let staging = StagingDirectory::create(parent(&directory))?;
        let stage = staging.path.as_path();
        let filled =
            write_files_with(stage, files).and_then(|()| rename_directory(stage, &directory));
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

    /// Writes the files into a directory that existed before, in place of an earlier result.
    fn replace_results(&self, files: &[(&str, Contents<'_>)]) -> io::Result<()> {
        let directory = self.directory.borrow().clone();
        if self.has_written.get() {
            return write_files_with(&directory, files);
        }
        let previous = find_results(&directory, self.results)?;
        if !self.force || self.is_partial.get() {
            let written = match previous.is_empty() {
                true => write_only_new_files(&directory, files),
                false => Err(ErrorKind::AlreadyExists.into()),
            };
            return match written {
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                    self.write_next_to(&directory, files)
                }
                written => written,
            };
        }
        write_files_with(&directory, files)?;
        let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
        remove_others(&directory, self.results, &names)
    }

    /// Writes the files into a new directory next to the requested one, or in it if that is not
    /// possible. The requested one has got the result of another command since this one began, or has
    /// one that an interrupted command must not replace. Neither result is lost.
    fn write_next_to(&self, taken: &Path, files: &[(&str, Contents<'_>)]) -> io::Result<()> {
        // `.` and `..` have a name only as part of a longer path.
        let named = match taken.file_name() {
            Some(_) => taken.to_path_buf(),
            None => taken.canonicalize()?,
        };
        let name = named.file_name().unwrap_or(OsStr::new("results")).to_string_lossy();
        // Inside if that is not possible, as next to the only volume of a container.
        let (directory, created) = create_unique(parent(&named), &name)
            .or_else(|_| create_unique(taken, "results"))
            .map_err(io::Error::other)?;
        write_files_with(&directory, files)?;
        drop(created);
        super::warn_of_kept_result(taken, &directory, self.force);
        self.directory.replace(directory);
        Ok(())
    }
}

/// Reports a directory that cannot be written, before anything is run.
fn unusable(directory: &Path, error: &io::Error) -> Error {
    let message = format!("cannot write to {}: {error}", directory.display());
    Error::unusable_output(error, message, REMEDY)
}

/// A file that has the name of a result.
struct FoundResult {
    path: PathBuf,
    kind: FileType,
}

/// Returns the files in a directory that have the name of a result, in the order of the names.
fn find_results(directory: &Path, results: ResultNames) -> io::Result<Vec<FoundResult>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let rank = results.iter().position(|pattern| has_name(&entry, pattern));
        if let Some(rank) = rank {
            found.push((rank, FoundResult { path: entry.path(), kind: entry.file_type()? }));
        }
    }
    found.sort_by_key(|(rank, _)| *rank);
    Ok(found.into_iter().map(|(_, result)| result).collect())
}

/// Removes the files of an earlier result, except those with the given names. A file that `osjitter`
/// did not write stays, even if it has the name of a result.
pub fn remove_others(directory: &Path, results: ResultNames, kept: &[&str]) -> io::Result<()> {
    for FoundResult { path, kind } in find_results(directory, results)? {
        let is_kept = kept.iter().any(|name| directory.join(name) == path);
        if is_kept || !kind.is_file() || !is_marked(&path) {
            continue;
        }
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    Ok(())
}

/// Returns whether `osjitter` wrote a file; false if it cannot be read.
fn is_marked(path: &Path) -> bool {
    let mut start = Vec::new();
    let read =
        std::fs::File::open(path).and_then(|file| file.take(MARKED_BYTES).read_to_end(&mut start));
    let start = String::from_utf8_lossy(&start);
    read.is_ok() && MARKS.iter().any(|mark| start.contains(mark))
}

/// Creates a directory and its parents. Returns those that did not exist, each before
/// its parent.
fn create_directory(directory: &Path) -> io::Result<Vec<EmptyDirectory>> {
    if directory.is_dir() {
        return Ok(Vec::new());
    }
    let mut created = match directory.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => create_directory(parent)?,
        _ => Vec::new(),
    };
    match EmptyDirectory::create(directory) {
        Ok(directory) => created.insert(0, directory),
        // Another process may have been faster.
        Err(_) if directory.is_dir() => {}
        Err(e) => return Err(e),
    }
    Ok(created)
}

/// Creates a directory that did not exist, and its parents: two commands that start at the same time
/// have different ones. Returns all that did not exist, each before its parent.
fn create_unique(parent: &Path, name: &str) -> Result<(PathBuf, Vec<EmptyDirectory>)> {
    let mut created = create_directory(parent).map_err(|e| unusable(parent, &e))?;
    let mut suffix = String::new();
    for number in 2_u32.. {
        let directory = parent.join(format!("{name}{suffix}"));
        match EmptyDirectory::create(&directory) {
            Ok(unique) => {
                created.insert(0, unique);
                return Ok((directory, created));
            }
            Err(e) if e.kind() == ErrorKind::AlreadyExists => suffix = format!("-{number}"),
            Err(e) => return Err(unusable(&directory, &e)),
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

    fn open(path: &Path, force: bool) -> Result<OutputDirectory> {
        OutputDirectory::open(Some(Destination { path, force }), "", NAMES)
    }

    #[test]
    fn standard_output_is_no_directory() {
        let refused = open(Path::new("-"), true).err().unwrap();
        assert_eq!(refused.code(), 2);
        assert!(refused.to_string().contains("expected a directory"), "{refused}");
        assert!(!Path::new("-").exists());
    }

    #[test]
    fn forced_write_replaces_whole_result() {
        let home = tempfile::tempdir().unwrap();
        let out = home.path().join("out");
        let first = open(&out, false).unwrap();
        let picture = format!("<svg>{}</svg>", MARKS[2]);
        first.write_all(&[("time-a.svg", &picture), ("report.json", "1")]).unwrap();
        std::fs::write(out.join("notes.svg"), "mine").unwrap();
        std::fs::write(out.join("time-table.svg"), "mine").unwrap();
        let refused = open(&out, false).err().unwrap();
        assert_eq!(refused.code(), 2);
        assert!(refused.to_string().contains("report.json already exists"), "{refused}");
        let second = open(&out, true).unwrap();
        let before = ["notes.svg", "report.json", "time-a.svg", "time-table.svg"];
        assert_eq!(names(&out), before);
        second.write_all(&[("time-b.svg", "2"), ("report.json", "2")]).unwrap();
        second.write("extra.txt", "2").unwrap();
        let after = ["extra.txt", "notes.svg", "report.json", "time-b.svg", "time-table.svg"];
        assert_eq!(names(&out), after);
    }

    #[test]
    fn interrupted_result_replaces_no_other() {
        let home = tempfile::tempdir().unwrap();
        let out = home.path().join("out");
        open(&out, false).unwrap().write("report.json", "1").unwrap();
        for number in 2..=3 {
            let partial = open(&out, true).unwrap();
            partial.set_partial(true);
            let written = partial.write("report.json", "2").unwrap();
            assert_eq!(written, home.path().join(format!("out-{number}")).join("report.json"));
        }
        assert_eq!(std::fs::read_to_string(out.join("report.json")).unwrap(), "1");
        std::fs::create_dir(out.join("inner")).unwrap();
        let partial = open(&out.join("inner/.."), true).unwrap();
        partial.set_partial(true);
        let written = partial.write("report.json", "2").unwrap();
        assert_eq!(written, home.path().canonicalize().unwrap().join("out-4/report.json"));
        // Without an earlier result, there is nothing to keep.
        std::fs::remove_file(out.join("report.json")).unwrap();
        let partial = open(&out, true).unwrap();
        partial.set_partial(true);
        assert_eq!(partial.write("report.json", "3").unwrap(), out.join("report.json"));
    }

    /// A name cannot get longer if it has the maximum length, as nothing can be created next to a
    /// directory that others own.
    #[test]
    fn interrupted_result_may_be_inside() {
        let home = tempfile::tempdir().unwrap();
        let out = home.path().join("o".repeat(255));
        open(&out, false).unwrap().write("report.json", "1").unwrap();
        let partial = open(&out, true).unwrap();
        partial.set_partial(true);
        let written = partial.write("report.json", "2").unwrap();
        assert_eq!(written, out.join("results/report.json"));
        assert_eq!(std::fs::read_to_string(out.join("report.json")).unwrap(), "1");
    }

    #[test]
    fn simultaneous_results_are_both_kept() {
        let home = tempfile::tempdir().unwrap();
        for (name, exists) in [("new", false), ("old", true)] {
            let out = home.path().join(name);
            if exists {
                std::fs::create_dir(&out).unwrap();
            }
            let both = [open(&out, false).unwrap(), open(&out, false).unwrap()];
            for (n, directory) in both.iter().enumerate() {
                let text = n.to_string();
                directory.write_all(&[("time-a.svg", &text), ("report.json", &text)]).unwrap();
                directory.write("extra.txt", &text).unwrap();
            }
            drop(both);
            for (n, name) in [name.to_owned(), format!("{name}-2")].iter().enumerate() {
                let directory = home.path().join(name);
                assert_eq!(names(&directory), ["extra.txt", "report.json", "time-a.svg"]);
                let text = std::fs::read_to_string(directory.join("report.json")).unwrap();
                assert_eq!(text, n.to_string(), "{name}");
            }
        }
    }

    #[test]
    fn simultaneous_writes_are_not_mixed() {
        const RESULTS: usize = 8;
        let home = tempfile::tempdir().unwrap();
        let out = home.path().join("out");
        std::fs::create_dir(&out).unwrap();
        // All are opened before one is written.
        let opened: Vec<OutputDirectory> =
            (0..RESULTS).map(|_| open(&out, false).unwrap()).collect();
        std::thread::scope(|scope| {
            for (n, directory) in opened.into_iter().enumerate() {
                let text = n.to_string();
                scope.spawn(move || {
                    directory.write_all(&[("time-a.svg", &text), ("report.json", &text)]).unwrap();
                });
            }
        });
        let mut texts = Vec::new();
        for name in names(home.path()) {
            let read = |file| std::fs::read_to_string(home.path().join(&name).join(file)).unwrap();
            assert_eq!(read("time-a.svg"), read("report.json"), "{name}");
            texts.push(read("report.json"));
        }
        texts.sort();
        assert_eq!(texts, ["0", "1", "2", "3", "4", "5", "6", "7"]);
    }

    #[test]
    fn unwritten_directory_is_removed() {
        let home = tempfile::tempdir().unwrap();
        let out = home.path().join("a/out");
        drop(open(&out, false).unwrap());
        assert!(names(home.path()).is_empty(), "the parent was created as well");
        std::fs::create_dir_all(&out).unwrap();
        drop(open(&out, false).unwrap());
        assert!(out.exists(), "a directory of the user stays");
    }

    #[test]
    fn simultaneous_commands_have_own_directories() {
        let home = tempfile::tempdir().unwrap();
        let created: Vec<_> = std::thread::scope(|scope| {
            let create = || create_unique(home.path(), "20260101T000000Z").unwrap();
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(create)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let distinct: std::collections::BTreeSet<_> =
            created.iter().map(|(path, _)| path).collect();
        assert_eq!(distinct.len(), 8, "{created:?}");
    }

    #[test]
    fn inputs_are_not_replaced() {
        let home = tempfile::tempdir().unwrap();
        let report = home.path().join("report.json");
        let other = home.path().join("other.json");
        [&report, &other].into_iter().for_each(|file| std::fs::write(file, "kept").unwrap());
        let check = |input: &Path| {
            let requested = Some(Destination { path: home.path(), force: true });
            OutputDirectory::check_inputs(requested, NAMES, [input])
        };
        for input in [home.path(), &report] {
            let refused = check(input).unwrap_err();
            assert_eq!(refused.code(), 2);
            assert!(refused.to_string().contains("it is an input"), "{refused}");
        }
        check(&other).unwrap();
        check(Path::new("-")).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn links_are_rejected() {
        let home = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/nowhere", home.path().join("report.json")).unwrap();
        let error = open(home.path(), true).err().unwrap();
        assert!(error.to_string().contains("it is a link"), "{error}");
    }
}
