//! The temporary files and directories of this process. A process that ends early removes them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::{NamedTempFile, PathPersistError, TempPath};

use crate::exit::strip_temp_path;

/// The start of the name of a file that is not complete yet.
pub const TEMP_PREFIX: &str = ".osjitter-";
/// The end of the name of a file that is not complete yet.
pub const TEMP_SUFFIX: &str = ".tmp";
/// The number of attempts to remove a directory in which another thread renames files.
const MAX_ATTEMPTS: usize = 3;

/// A file or directory that [`remove_all`] removes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Temporary {
    File(PathBuf),
    /// A directory that is removed with its contents.
    Tree(PathBuf),
    /// A worktree of git, which is removed with its entry in the repository.
    Worktree(PathBuf),
    /// A directory that is removed if it is empty.
    EmptyDirectory(PathBuf),
}

impl Temporary {
    fn remove(&self) {
        // It may have been renamed or removed by the thread that created it.
        let _ = match self {
            Self::File(path) => std::fs::remove_file(path),
            Self::Tree(path) => remove_tree(path),
            Self::Worktree(path) => remove_worktree(path),
            Self::EmptyDirectory(path) => std::fs::remove_dir(path),
        };
    }
}

fn remove_tree(path: &Path) -> io::Result<()> {
    let mut removed = Ok(());
    for _ in 0..MAX_ATTEMPTS {
        removed = std::fs::remove_dir_all(path);
        if removed.is_ok() {
            break;
        }
    }
    removed
}

fn remove_worktree(path: &Path) -> io::Result<()> {
    let link = std::fs::read_to_string(path.join(".git")).unwrap_or_default();
    // Git can write a path relative to the worktree, which has to exist to resolve it.
    let entry = link.strip_prefix("gitdir: ").map(|entry| path.join(entry.trim_end()));
    let entry = entry.and_then(|entry| entry.canonicalize().ok());
    // The entry comes last: by it, a later process finds a worktree that could not be removed.
    remove_tree(path)?;
    match entry.filter(|entry| entry.parent().is_some_and(|p| p.ends_with("worktrees"))) {
        Some(entry) => remove_tree(&entry),
        None => Ok(()),
    }
}

/// All temporary files and directories of this process.
static TEMPORARIES: Mutex<Vec<Temporary>> = Mutex::new(Vec::new());

fn temporaries() -> MutexGuard<'static, Vec<Temporary>> {
    TEMPORARIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes all temporary files and directories of this process, before it exits early.
///
/// None can be created afterwards: a thread that tries blocks until the process exits.
pub fn remove_all() {
    let all = temporaries();
    // A directory comes after its parents.
    all.iter().rev().for_each(Temporary::remove);
    std::mem::forget(all);
}

/// Keeps a temporary file or directory in the list until it is dropped.
#[derive(Debug)]
pub struct Registration(Temporary);

impl Registration {
    /// Creates a file or directory, and adds it to the list. The list is locked until then, so
    /// that [`remove_all`] finds everything that was created.
    fn create<T>(
        create: impl FnOnce() -> io::Result<T>,
        describe: impl FnOnce(&T) -> Temporary,
    ) -> io::Result<(T, Self)> {
        let mut all = temporaries();
        let created = create()?;
        let temporary = describe(&created);
        all.push(temporary.clone());
        Ok((created, Self(temporary)))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        temporaries().retain(|temporary| *temporary != self.0);
    }
}

/// A new directory. It is removed when it is dropped, if it is empty.
#[derive(Debug)]
pub struct EmptyDirectory(Registration);

impl EmptyDirectory {
    /// Creates a directory in an existing one.
    pub fn create(path: &Path) -> io::Result<Self> {
        let describe = |_: &()| Temporary::EmptyDirectory(path.to_owned());
        let ((), registration) = Registration::create(|| std::fs::create_dir(path), describe)?;
        Ok(Self(registration))
    }
}

impl Drop for EmptyDirectory {
    fn drop(&mut self) {
        self.0.0.remove();
    }
}

/// An open temporary file. It is removed when it is dropped.
#[derive(Debug)]
pub struct OpenTempFile {
    pub file: NamedTempFile,
    registration: Registration,
}

impl OpenTempFile {
    /// Creates an empty file.
    pub fn create(directory: &Path) -> io::Result<Self> {
        let create = || {
            tempfile::Builder::new()
                .prefix(TEMP_PREFIX)
                .suffix(TEMP_SUFFIX)
                .tempfile_in(directory)
                .map_err(strip_temp_path)
        };
        let describe = |file: &NamedTempFile| Temporary::File(file.path().to_owned());
        let (file, registration) = Registration::create(create, describe)?;
        Ok(Self { file, registration })
    }

    /// Closes the file.
    pub fn close(self) -> TempFile {
        TempFile { path: self.file.into_temp_path(), registration: self.registration }
    }
}

/// A closed temporary file. It is removed when it is dropped.
#[derive(Debug)]
pub struct TempFile {
    path: TempPath,
    registration: Registration,
}

impl TempFile {
    /// Renames the file, and replaces an existing one.
    pub fn persist(self, path: &Path) -> Result<(), PersistFailure> {
        let Self { path: temp, registration } = self;
        temp.persist(path).map_err(|e| PersistFailure::new(e, registration))?;
        crate::terminal::detail(|| format!("wrote {}", path.display()));
        Ok(())
    }

    /// Renames the file, unless the name is taken.
    pub fn persist_new(self, path: &Path) -> Result<(), PersistFailure> {
        let Self { path: temp, registration } = self;
        temp.persist_noclobber(path).map_err(|e| PersistFailure::new(e, registration))?;
        crate::terminal::detail(|| format!("wrote {}", path.display()));
        Ok(())
    }
}

/// A temporary file that could not be renamed, and still exists.
#[derive(Debug)]
pub struct PersistFailure {
    pub error: io::Error,
    pub file: TempFile,
}

impl PersistFailure {
    fn new(failure: PathPersistError, registration: Registration) -> Self {
        let file = TempFile { path: failure.path, registration };
        Self { error: failure.error, file }
    }
}

impl From<PersistFailure> for io::Error {
    fn from(failure: PersistFailure) -> Self {
        failure.error
    }
}

/// A worktree that git creates and removes. [`remove_all`] removes it if git cannot.
#[derive(Debug)]
pub struct TemporaryWorktree {
    _registration: Registration,
}

impl TemporaryWorktree {
    /// Adds the path of a worktree to the list, before git creates it.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        let worktree = Temporary::Worktree(path.to_owned());
        temporaries().push(worktree.clone());
        Self { _registration: Registration(worktree) }
    }
}

/// A directory whose files replace those of another one once they are complete.
#[derive(Debug)]
pub struct StagingDirectory {
    pub path: PathBuf,
    _registration: Registration,
}

impl StagingDirectory {
    /// Creates a directory that is as readable as any other.
    pub fn create(parent: &Path) -> io::Result<Self> {
        let create = || {
            let mut builder = tempfile::Builder::new();
            builder.prefix(TEMP_PREFIX).suffix(TEMP_SUFFIX);
            #[cfg(unix)]
            {
                use std::os::unix::fs::PermissionsExt;
                builder.permissions(std::fs::Permissions::from_mode(0o777));
            }
            builder.tempdir_in(parent).map(tempfile::TempDir::keep).map_err(strip_temp_path)
        };
        let (path, registration) =
            Registration::create(create, |path| Temporary::Tree(path.clone()))?;
        Ok(Self { path, _registration: registration })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_listed(temporary: &Temporary) -> bool {
        temporaries().contains(temporary)
    }

    #[test]
    fn temporary_files_are_listed() {
        let home = tempfile::tempdir().unwrap();
        let open = OpenTempFile::create(home.path()).unwrap();
        let listed = Temporary::File(open.file.path().to_owned());
        assert!(is_listed(&listed));
        let closed = open.close();
        assert!(is_listed(&listed));
        let path = home.path().join("file");
        std::fs::write(&path, "taken").unwrap();
        let failure = closed.persist_new(&path).unwrap_err();
        assert_eq!(failure.error.kind(), io::ErrorKind::AlreadyExists);
        assert!(is_listed(&listed));
        failure.file.persist(&path).unwrap();
        assert!(!is_listed(&listed));
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1);
    }

    #[test]
    fn worktrees_are_removed_with_entries() {
        let home = tempfile::tempdir().unwrap();
        let (entries, tree) = (home.path().join(".git/worktrees"), home.path().join("tree"));
        let entry = entries.join("tree");
        for link in [&*entry.to_string_lossy(), "../.git/worktrees/tree"] {
            for directory in [&entry, &entries.join("other"), &tree] {
                std::fs::create_dir_all(directory).unwrap();
            }
            std::fs::write(tree.join(".git"), format!("gitdir: {link}\n")).unwrap();
            let worktree = TemporaryWorktree::new(&tree);
            assert!(is_listed(&worktree._registration.0));
            worktree._registration.0.remove();
            assert!(!tree.exists() && !entry.exists(), "{link}");
            assert!(entries.join("other").exists());
        }
    }

    #[test]
    fn directories_are_removed_by_kind() {
        let home = tempfile::tempdir().unwrap();
        let staging = StagingDirectory::create(home.path()).unwrap();
        std::fs::write(staging.path.join("file"), "").unwrap();
        Temporary::Tree(staging.path.clone()).remove();
        assert!(!staging.path.exists());
        let out = home.path().join("out");
        let directory = EmptyDirectory::create(&out).unwrap();
        assert!(is_listed(&directory.0.0));
        std::fs::write(out.join("file"), "").unwrap();
        directory.0.0.remove();
        assert!(out.exists(), "it is not empty");
        std::fs::remove_file(out.join("file")).unwrap();
        drop(directory);
        assert!(!out.exists());
    }
}
