//! The directory to which a measured program writes.
//!
//! On Unix it is locked as long as its process lives, so that later processes can remove those of
//! killed ones. The supervisor removes the directories that this process could not remove.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Once;

use cli::exit;

use crate::measure::supervisor;

/// The start of the name of a directory.
const PREFIX: &str = "osjitter-run-";
/// The start of the name of a directory next to another one, if there is space for more.
const LONG_PREFIX: &str = ".osjitter-";
/// Number of names of a directory next to another one that are tried.
const MAX_NAME_ATTEMPTS: u64 = 8;

/// A directory, which is removed when this is dropped.
pub struct ScratchDirectory {
    path: PathBuf,
    /// `None` if the file system has no locks.
    #[cfg(unix)]
    lock: Option<std::fs::File>,
}

impl ScratchDirectory {
    /// Creates a directory. The first call removes those of killed processes.
    ///
    /// # Errors
    ///
    /// Returns an error if the directory for temporary files is not writable.
    pub fn new() -> io::Result<Self> {
        static SWEEP: Once = Once::new();
        let parent = std::env::temp_dir();
        SWEEP.call_once(|| remove_abandoned(&parent));
        Self::new_in(&parent).map_err(|error| {
            let error = exit::strip_temp_path(error);
            io::Error::other(NoScratchDirectory { parent, error })
        })
    }

    fn new_in(parent: &Path) -> io::Result<Self> {
        let path = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?.keep();
        Ok(Self {
            #[cfg(unix)]
            lock: try_lock(&path).ok(),
            path,
        })
    }

    /// Creates a directory next to another one, with a path of the same length. It has the same path
    /// each time, unless that one exists.
    ///
    /// # Errors
    ///
    /// Returns an error if the parent directory is not writable, or all names of this length exist.
    pub fn new_beside(other: &Path) -> io::Result<Self> {
        let no_name = || io::Error::from(io::ErrorKind::InvalidInput);
        let (parent, name) = other.parent().zip(other.file_name()).ok_or_else(no_name)?;
        let mut result = Err(no_name());
        for attempt in 0..MAX_NAME_ATTEMPTS {
            let path = parent.join(sibling_name(other, name.len(), attempt).ok_or_else(no_name)?);
            result = private_directory_builder().create(&path).map(|()| Self {
                #[cfg(unix)]
                lock: try_lock(&path).ok(),
                path,
            });
            match &result {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                _ => break,
            }
        }
        result
    }

    /// Returns whether the process that created a directory has ended; false if that is not known.
    #[cfg_attr(not(unix), allow(unused_variables, reason = "only Unix has the lock"))]
    pub fn is_abandoned(path: &Path) -> bool {
        #[cfg(unix)]
        return try_lock(path).is_ok();
        #[cfg(not(unix))]
        return false;
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Returns a hidden name of a length; `None` if that is too short for one.
fn sibling_name(other: &Path, length: usize, attempt: u64) -> Option<String> {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut name = if length > LONG_PREFIX.len() { LONG_PREFIX } else { "." }.to_owned();
    (length > name.len()).then_some(())?;
    let mut digits = 0_u64;
    while name.len() < length {
        let mut hasher = DefaultHasher::new();
        (other, attempt, digits).hash(&mut hasher);
        name.push(char::from_digit((hasher.finish() % 36) as u32, 36)?);
        digits += 1;
    }
    Some(name)
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        // Reading a directory needs a descriptor, which may be the last one of this process.
        #[cfg(unix)]
        drop(self.lock.take());
        if remove(&self.path).is_ok() {
            supervisor::unregister_directory(&self.path);
        }
    }
}

/// Removes a directory. An empty one is removed even if no descriptor is free.
fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_dir(path).or_else(|_| std::fs::remove_dir_all(path)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[derive(Debug, thiserror::Error)]
#[error("no temporary directory for it in {}: {error}", .parent.display())]
struct NoScratchDirectory {
    parent: PathBuf,
    #[source]
    error: io::Error,
}

/// Returns the builder of a directory that only this user can enter.
#[cfg(unix)]
fn private_directory_builder() -> std::fs::DirBuilder {
    let mut builder = std::fs::DirBuilder::new();
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

#[cfg(not(unix))]
fn private_directory_builder() -> std::fs::DirBuilder {
    std::fs::DirBuilder::new()
}

/// Locks a directory, without following a link.
///
/// # Errors
///
/// Returns an error if another process has locked it, or if the file system has no locks.
#[cfg(unix)]
fn try_lock(path: &Path) -> io::Result<std::fs::File> {
    use rustix::fs::{FlockOperation, Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::open(path, flags, Mode::empty())?;
    rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive)?;
    Ok(directory.into())
}

/// Removes the directories of this user in `parent` whose processes were killed.
#[cfg(unix)]
fn remove_abandoned(parent: &Path) {
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    for path in entries.filter_map(|entry| abandoned_path(&entry)) {
        if let Ok(_lock) = try_lock(&path) {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

/// Without locks, a directory that is in use cannot be recognised.
#[cfg(not(unix))]
fn remove_abandoned(_: &Path) {}

/// Returns the path of a directory that may be abandoned. A young one may not be locked yet.
#[cfg(unix)]
fn abandoned_path(entry: &std::fs::DirEntry) -> Option<PathBuf> {
    use std::os::unix::fs::MetadataExt;
    const MIN_AGE: std::time::Duration = std::time::Duration::from_secs(3600);
    entry.file_name().to_str().filter(|name| name.starts_with(PREFIX))?;
    let meta = entry.metadata().ok().filter(std::fs::Metadata::is_dir)?;
    let age = meta.modified().ok()?.elapsed().ok()?;
    let is_own = meta.uid() == crate::machine::os::effective_user();
    (is_own && age >= MIN_AGE).then(|| entry.path())
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs::{File, FileTimes};
    use std::time::{Duration, SystemTime};

    use super::*;

    #[allow(clippy::disallowed_methods, reason = "the age of a directory")]
    fn make_old(path: &Path) {
        let time = SystemTime::now() - Duration::from_secs(2 * 3600);
        File::open(path).unwrap().set_times(FileTimes::new().set_modified(time)).unwrap();
    }

    #[test]
    fn siblings_have_paths_of_one_length() {
        let home = tempfile::tempdir().unwrap();
        for name in ["ab", "name", "a-long-name-of-a-repository"] {
            let other = home.path().join(name);
            std::fs::create_dir(&other).unwrap();
            let first = ScratchDirectory::new_beside(&other).unwrap();
            let second = ScratchDirectory::new_beside(&other).unwrap();
            let paths = [&other, first.path(), second.path()].map(|path| path.as_os_str().len());
            assert_eq!(paths[1..], [paths[0]; 2]);
            assert_eq!(first.path().parent(), other.parent());
            assert!(!ScratchDirectory::is_abandoned(first.path()));
            let path = first.path().to_owned();
            assert!(path != second.path() && path.is_dir());
            drop(first);
            assert!(!path.exists());
            assert_eq!(ScratchDirectory::new_beside(&other).unwrap().path(), path);
        }
        assert!(ScratchDirectory::new_beside(&home.path().join("x")).is_err());
        assert!(ScratchDirectory::new_beside(Path::new("/")).is_err());
    }

    #[test]
    fn abandoned_directories_are_removed() {
        let home = tempfile::tempdir().unwrap();
        let used = ScratchDirectory::new_in(home.path()).unwrap();
        let [killed, young, other] = ["osjitter-run-killed", "osjitter-run-young", "other"]
            .map(|name| home.path().join(name));
        for path in [&killed, &young, &other] {
            std::fs::create_dir(path).unwrap();
            std::fs::write(path.join("series"), "x").unwrap();
        }
        std::os::unix::fs::symlink(&other, home.path().join("osjitter-run-link")).unwrap();
        [used.path(), &killed, &other].into_iter().for_each(make_old);
        remove_abandoned(home.path());
        assert!(!killed.exists());
        assert!([used.path(), &young, &other.join("series")].iter().all(|path| path.exists()));
        let path = used.path().to_owned();
        drop(used);
        assert!(!path.exists());
    }
}
