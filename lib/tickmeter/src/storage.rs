//! The files of meters: creates, finds and sweeps them. Only on Unix; elsewhere every meter is
//! private.

use std::fmt;
use std::io;
#[cfg(all(unix, not(loom)))]
use std::path::Path;
use std::path::PathBuf;

/// Environment variable that sets the directory of the meters' files, for writers and readers. Used
/// by tests, and by containers that share a volume.
pub const ENV_DIRECTORY: &str = "TICKMETER_DIR";
/// Extension of the meters' files, and name of their directory.
pub(crate) const EXTENSION: &str = "tickmeter";

/// Location of a meter's memory.
#[derive(Debug)]
#[non_exhaustive]
pub enum Place {
    /// In a file, which other processes of the same user can read.
    Mapped(PathBuf),
    /// In private memory, for the given reason. Only this process can take snapshots.
    Private(Why),
}

/// Reasons for which a meter has no file.
#[derive(Debug)]
#[non_exhaustive]
pub enum Why {
    /// No directory is available: the system is not Unix, or the parents of all candidates are
    /// missing.
    NoDirectory,
    /// The directory belongs to another user, or other users may write to it.
    NotOurs(PathBuf),
    /// The operating system returned an error for this directory.
    Refused(PathBuf, io::Error),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDirectory => {
                f.write_str("no directory in memory found: set XDG_RUNTIME_DIR or TICKMETER_DIR")
            }
            Self::NotOurs(path) => write!(
                f,
                "{} must belong to this user and be writable by no other (mode 0700)",
                path.display()
            ),
            Self::Refused(path, error) => write!(f, "{}: {error}", path.display()),
        }
    }
}

#[cfg(all(unix, not(loom)))]
pub(crate) use shared::*;

#[cfg(all(unix, not(loom)))]
mod shared {
    use super::*;
    use std::fs::{DirBuilder, File, Metadata, OpenOptions};
    use std::io::{Read as _, Write as _};
    use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
    use std::time::Duration;

    use crate::layout::MAGIC;
    use crate::mapping::{self, Mapping};

    pub(crate) use mapping::is_locked;

    const SHARED_MEMORY: &str = "/dev/shm";
    const RUNTIME: &str = "/run/user";
    /// Extension of files that are not complete yet.
    const UNFINISHED_EXTENSION: &str = "new";
    /// Age from which on an unfinished file is swept: its process has certainly ended.
    const MAX_UNFINISHED_AGE: Duration = Duration::from_secs(60);

    fn shared_memory_directory(user: u32) -> PathBuf {
        Path::new(SHARED_MEMORY).join(format!("{EXTENSION}-{user}"))
    }

    /// Returns the directories of this user's meters. New files go to the first usable one.
    pub(crate) fn directories() -> Vec<PathBuf> {
        let configured = std::env::var_os(ENV_DIRECTORY).filter(|path| !path.is_empty());
        if let Some(directory) = configured {
            return vec![directory.into()];
        }
        let user = mapping::effective_user();
        let xdg_runtime = std::env::var_os("XDG_RUNTIME_DIR")
            .map(PathBuf::from)
            .filter(|path| path.is_absolute());
        let default_runtime = Path::new(RUNTIME).join(user.to_string());
        let runtime = xdg_runtime.into_iter().chain([default_runtime]);
        let mut directories: Vec<PathBuf> = runtime.map(|path| path.join(EXTENSION)).collect();
        directories.push(shared_memory_directory(user));
        directories.dedup();
        directories
    }

    fn list_paths(directory: impl AsRef<Path>) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    }

    /// Returns the directories of all users' meters; which of them this process can read depends on
    /// its user.
    pub(crate) fn directories_of_all_users() -> Vec<PathBuf> {
        let mut directories = directories();
        directories.extend(list_paths(RUNTIME).into_iter().map(|path| path.join(EXTENSION)));
        let is_named_for_meters = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("tickmeter-"))
        };
        directories.extend(list_paths(SHARED_MEMORY).into_iter().filter(is_named_for_meters));
        directories.sort();
        directories.dedup();
        directories
    }

    /// Creates a file with these words and maps it. Tries the next directory if one has no parent
    /// or fails.
    pub(crate) fn create(name: &str, words: &[u64]) -> Result<(Mapping, PathBuf), Why> {
        let mut why = Why::NoDirectory;
        for directory in directories() {
            if directory.parent().is_some_and(Path::is_dir) {
                match create_in(&directory, name, words) {
                    Ok(created) => return Ok(created),
                    Err(refused) => why = refused,
                }
            }
        }
        Err(why)
    }

    /// Creates a file in a directory, which is created if it does not exist.
    pub(crate) fn create_in(
        directory: &Path,
        name: &str,
        words: &[u64],
    ) -> Result<(Mapping, PathBuf), Why> {
        let refused = |error| Why::Refused(directory.to_owned(), error);
        match DirBuilder::new().mode(0o700).create(directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(refused(error));
            }
            _ => {}
        }
        let metadata = std::fs::symlink_metadata(directory).map_err(refused)?;
        if !is_private_directory(&metadata) {
            return Err(Why::NotOurs(directory.to_owned()));
        }
        sweep(directory);
        let path = directory.join(format!("{name}.{EXTENSION}"));
        let unfinished = path.with_extension(UNFINISHED_EXTENSION);
        let created = create_locked(&unfinished, words)
            .and_then(|mapping| std::fs::rename(&unfinished, &path).map(|()| mapping));
        match created {
            Ok(mapping) => Ok((mapping, path)),
            Err(error) => {
                let _ = std::fs::remove_file(unfinished);
                Err(refused(error))
            }
        }
    }

    /// Whether only this user can write to a directory.
    fn is_private_directory(metadata: &Metadata) -> bool {
        metadata.is_dir()
            && metadata.uid() == mapping::effective_user()
            && metadata.mode() & 0o022 == 0
    }

    /// Creates, locks and fills a file. It gets the name that readers look for only afterwards.
    ///
    /// The file is written rather than left as a hole: a full file system is an error now instead
    /// of a fatal signal later.
    fn create_locked(path: &Path, words: &[u64]) -> io::Result<Mapping> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        let mut file = options.open(path)?;
        mapping::lock(&file)?;
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        file.write_all(&bytes)?;
        Mapping::new(file, words.len())
    }

    /// Opens a regular file for reading. Never blocks and follows no link.
    pub(crate) fn open(path: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        let file =
            options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
        if file.metadata()?.is_file() {
            Ok(file)
        } else {
            Err(io::Error::other("not a regular file"))
        }
    }

    /// Removes the files of this user's meters whose process has ended, and returns their number.
    /// Files of other users and other files are not touched.
    pub(crate) fn sweep(directory: &Path) -> usize {
        let paths = list_paths(directory).into_iter();
        let abandoned = paths.filter(|path| is_abandoned(path).unwrap_or(false));
        abandoned.filter(|path| std::fs::remove_file(path).is_ok()).count()
    }

    /// Whether a file is a meter of this user whose process has ended.
    fn is_abandoned(path: &Path) -> io::Result<bool> {
        let mut file = open(path)?;
        let metadata = file.metadata()?;
        let is_meter = if path.extension() == Some(EXTENSION.as_ref()) {
            let mut magic = [0; 8];
            file.read_exact(&mut magic)?;
            u64::from_ne_bytes(magic) == MAGIC
        } else {
            let age = metadata.modified()?.elapsed().unwrap_or_default();
            path.extension() == Some(UNFINISHED_EXTENSION.as_ref()) && age > MAX_UNFINISHED_AGE
        };
        Ok(is_meter && metadata.uid() == mapping::effective_user() && !is_locked(&file))
    }
}
