//! The place that a user names for a result, and what is done if another result is there.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use crate::exit::{Error, Result, usage};

use super::{Replacement, STDIO, WriteTarget, compress, resolve, write_next_to};

/// The file or directory that a user names for a result.
#[derive(Clone, Copy, Debug)]
pub struct Destination<'a> {
    pub path: &'a Path,
    /// Whether the result may replace an existing one.
    pub force: bool,
}

impl<'a> Destination<'a> {
    /// Returns the destination of `--out` and `--force`, or `None` without `--out`.
    pub fn from_flags(out: Option<&'a Path>, force: bool) -> Option<Self> {
        out.map(|path| Self { path, force })
    }

    /// Whether the result goes to standard output, which `-` names as it names standard input.
    pub fn is_stdout(&self) -> bool {
        self.path == Path::new(STDIO)
    }

    /// Checks that a file can be written later, and that it replaces nothing.
    ///
    /// # Errors
    /// Returns an error if the file is not writable, or if it exists and must not be replaced.
    pub fn check_file(&self) -> Result<()> {
        if self.is_stdout() {
            return Ok(());
        }
        let file = self.path;
        check_replacement(Some(file).filter(|file| has_content(file)), self.force)?;
        WriteTarget::find(file).and_then(|target| target.check_writable()).map_err(|e| {
            let message = format!("cannot write {}: {e}", file.display());
            Error::unusable_output(&e, message, "choose another path; nothing was run")
        })
    }

    /// Returns the file that is written: the target, if the path is a link.
    ///
    /// # Errors
    /// Returns an error if no file can be written at this path.
    pub fn target(&self) -> Result<PathBuf> {
        match WriteTarget::find(self.path) {
            Ok(WriteTarget::File { path, .. }) => Ok(path),
            Ok(WriteTarget::Stream) => Ok(self.path.to_path_buf()),
            Err(e) => Err(Error::unwritable(self.path, &e)),
        }
    }

    /// Checks that the file replaces none of `inputs`, which `--force` does not permit either: what
    /// the command reads from it would be lost.
    ///
    /// # Errors
    /// Returns an error that names the input.
    pub fn check_inputs<'i>(&self, inputs: impl IntoIterator<Item = &'i Path>) -> Result<()> {
        check_inputs(&[self.path.to_path_buf()], inputs)
    }

    /// Writes a result that was measured since [`Self::check_file`]. If another command has written
    /// its result there in the meantime, the file gets a name next to it, so that neither is lost. So
    /// does a partial result, that of an interrupted command, instead of replacing an earlier one.
    /// Returns the path.
    pub fn write_measured(&self, bytes: &[u8], is_partial: bool) -> Result<PathBuf> {
        let force = self.force && !is_partial;
        match (Self { force, ..*self }).write_file(bytes) {
            Err(_) if !force && !self.is_stdout() && has_content(self.path) => {
                let path = write_next_to(self.path, &self.encode(bytes)?)
                    .map_err(|e| Error::unwritable(self.path, &e))?;
                super::warn_of_kept_result(self.path, &path, self.force);
                Ok(path)
            }
            written => written.map(|()| self.path.to_path_buf()),
        }
    }

    /// Returns the bytes of the file: compressed if its name ends with `.gz`.
    fn encode<'b>(&self, bytes: &'b [u8]) -> Result<Cow<'b, [u8]>> {
        if self.path.extension().is_none_or(|ending| ending != "gz") {
            return Ok(bytes.into());
        }
        compress(bytes).map(Cow::Owned).map_err(|e| Error::unwritable(self.path, &e))
    }

    /// Writes a file completely or not at all, unless it would replace one that it must not.
    /// Compresses it if its name ends with `.gz`.
    pub fn write_file(&self, bytes: &[u8]) -> Result<()> {
        if self.is_stdout() {
            return super::write_unless_closed(bytes);
        }
        let bytes = self.encode(bytes)?.into_owned();
        write_outputs(&[(self.path.to_path_buf(), bytes)], self.force)
    }
}

/// Checks that no result is lost: `existing` is a file that a result would replace, and `force`
/// permits it.
///
/// Every command calls this before it measures, and again when it writes.
pub fn check_replacement(existing: Option<&Path>, force: bool) -> Result<()> {
    match existing {
        Some(file) if !force => Err(existing_result(file)),
        _ => Ok(()),
    }
}

fn existing_result(file: &Path) -> Error {
    usage!(
        "{} already exists: choose another place, or replace the earlier result with --force; nothing was written",
        file.display()
    )
}

/// A path of standard input, which leads to its file on Linux.
const STDIN_FILE: &str = "/dev/stdin";

/// Checks that none of the files that are replaced is an input, or the result in a directory that is
/// an input, or the file that is read as standard input.
pub fn check_inputs<'i>(
    replaced: &[PathBuf],
    inputs: impl IntoIterator<Item = &'i Path>,
) -> Result<()> {
    let find = |path: &Path| std::fs::canonicalize(path).ok().filter(|path| path.is_file());
    let replaced: Vec<PathBuf> = replaced.iter().filter_map(|path| find(path)).collect();
    for input in inputs {
        let (path, name) = match input == Path::new(STDIO) {
            true => (Path::new(STDIN_FILE), "the file of standard input".to_owned()),
            false => (input, input.display().to_string()),
        };
        if find(&resolve(path)).is_some_and(|path| replaced.contains(&path)) {
            return Err(usage!(
                "cannot write to {name}: it is an input; choose another place; nothing was written"
            ));
        }
    }
    Ok(())
}

/// Returns whether a path is a regular file, or leads to one, that contains something. An empty
/// file, as `mktemp` creates it, is no result, and pipes and devices cannot be replaced.
fn has_content(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.len() > 0)
}

/// Writes a result of several files in order. None is replaced before all are written.
///
/// # Errors
/// Returns an error if a file cannot be written, or if one exists and `force` is not set.
pub fn write_outputs(files: &[(PathBuf, Vec<u8>)], force: bool) -> Result<()> {
    let existing = || files.iter().map(|(path, _)| path.as_path()).find(|path| has_content(path));
    check_replacement(existing(), force)?;
    let mut prepared = Vec::new();
    for (path, bytes) in files {
        prepared.push(Replacement::prepare(path, bytes).map_err(|e| Error::unwritable(path, &e))?);
    }
    // A file that another command has written since is found to exist, and would be replaced.
    check_replacement(existing(), force)?;
    for ((path, _), file) in files.iter().zip(prepared) {
        file.commit(force).map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => existing_result(path),
            _ => Error::unwritable(path, &e),
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_replaced_only_by_force() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("file");
        let to = |force| Destination { path: &file, force };
        let write = |text: &str, force| {
            to(force).check_file().and_then(|()| to(force).write_file(text.as_bytes()))
        };
        write("1", false).unwrap();
        let error = write("2", false).unwrap_err();
        assert_eq!(error.code(), 2);
        assert!(error.to_string().contains("--force"), "{error}");
        assert!(to(false).write_file(b"2").is_err(), "it appeared after the check");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "1");
        write("3", true).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "3");
        std::fs::write(&file, "").unwrap();
        write("4", false).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "4");
    }

    #[cfg(unix)]
    #[test]
    fn links_lead_to_new_files() {
        use std::os::unix::fs::symlink;
        let home = tempfile::tempdir().unwrap();
        let place = |name: &str| home.path().join(name);
        std::fs::create_dir(place("directory")).unwrap();
        symlink("second", place("first")).unwrap();
        symlink("directory/target", place("second")).unwrap();
        symlink("loop", place("loop")).unwrap();
        symlink("absent/target", place("astray")).unwrap();
        let first = place("first");
        let to = Destination { path: &first, force: false };
        to.check_file().unwrap();
        to.write_file(b"1").unwrap();
        assert_eq!(std::fs::read_to_string(place("directory/target")).unwrap(), "1");
        assert!(["first", "second"].iter().all(|name| place(name).is_symlink()));
        for name in ["loop", "astray"] {
            let path = place(name);
            let to = Destination { path: &path, force: true };
            assert_eq!(to.check_file().unwrap_err().code(), 2, "{name}");
            assert!(to.write_file(b"1").is_err(), "{name}");
            assert!(path.is_symlink(), "{name}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn unwritable_places_are_found_early() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("file"), "").unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(home.path().join("socket")).unwrap();
        for name in ["new/", "file/", "file/x", "absent/x", "socket", "."] {
            let path = home.path().join(name);
            let to = Destination { path: &path, force: true };
            assert_eq!(to.check_file().unwrap_err().code(), 2, "{name}");
            assert!(to.write_file(b"1").is_err(), "{name}");
        }
    }

    #[test]
    fn inputs_are_kept_despite_force() {
        let home = tempfile::tempdir().unwrap();
        let (input, other) = (home.path().join("report.json"), home.path().join("other"));
        [&input, &other].into_iter().for_each(|file| std::fs::write(file, "1").unwrap());
        let check =
            |path: &Path, input: &Path| Destination { path, force: true }.check_inputs([input]);
        let refused = check(&input, home.path()).unwrap_err();
        assert_eq!(refused.code(), 2);
        assert!(check(&home.path().join("./report.json"), &input).is_err());
        check(&other, &input).unwrap();
        check(&home.path().join("new"), &input).unwrap();
    }

    #[test]
    fn simultaneous_files_are_all_kept() {
        const RESULTS: usize = 8;
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("result.json");
        let to = Destination { path: &file, force: false };
        to.check_file().unwrap();
        let paths: Vec<PathBuf> = std::thread::scope(|scope| {
            let write = |n: usize| to.write_measured(n.to_string().as_bytes(), false).unwrap();
            let threads: Vec<_> = (0..RESULTS).map(|n| scope.spawn(move || write(n))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for (n, path) in paths.iter().enumerate() {
            assert_eq!(std::fs::read_to_string(path).unwrap(), n.to_string(), "{paths:?}");
        }
        assert!(paths.contains(&file) && paths.contains(&home.path().join("result-2.json")));
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), RESULTS);
    }

    #[test]
    fn files_named_gz_are_compressed() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("result.json.gz");
        let to = Destination { path: &file, force: false };
        let second =
            [to.write_measured(b"{}", false).unwrap(), to.write_measured(b"{}", false).unwrap()];
        assert_eq!(second[1], home.path().join("result-2.json.gz"));
        for path in second {
            assert!(std::fs::read(&path).unwrap().starts_with(&[0x1f, 0x8b]), "{path:?}");
            assert_eq!(super::super::read_text(&path).unwrap(), "{}");
        }
    }

    #[test]
    fn partial_file_replaces_no_other() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("result.json");
        let to = Destination { path: &file, force: true };
        assert_eq!(to.write_measured(b"1", true).unwrap(), file, "there is nothing to keep");
        let next = home.path().join("result-2.json");
        assert_eq!(to.write_measured(b"2", true).unwrap(), next);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "1");
        assert_eq!(to.write_measured(b"3", false).unwrap(), file);
    }

    #[test]
    fn one_existing_file_protects_all() {
        let home = tempfile::tempdir().unwrap();
        let paths = ["a", "b"].map(|name| home.path().join(name));
        std::fs::write(&paths[1], "kept").unwrap();
        let files = paths.clone().map(|path| (path, b"new".to_vec()));
        assert!(write_outputs(&files, false).is_err());
        assert!(!paths[0].exists());
        write_outputs(&files, true).unwrap();
        assert_eq!(std::fs::read_to_string(&paths[1]).unwrap(), "new");
    }
}
