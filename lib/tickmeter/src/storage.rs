//! The files of meters: finds their directories, creates and removes them. Only on Unix; elsewhere
//! every meter is private.

use std::fmt;
use std::io;
#[cfg(all(unix, not(loom)))]
use std::path::Path;
use std::path::PathBuf;

/// Environment variable that sets the directory of the meters' files, for writers and readers. Used
/// by tests, and by containers that share a volume.
pub const ENV_DIRECTORY: &str = "TICKMETER_DIR";

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

/// Without shared memory, no meter has a file.
#[cfg(any(not(unix), loom))]
pub(crate) type MeterFile = std::convert::Infallible;

#[cfg(all(unix, not(loom)))]
pub(crate) use shared::*;

#[cfg(all(unix, not(loom)))]
mod shared {
    use super::*;
    use std::ffi::OsString;
    use std::fs::{DirBuilder, File, OpenOptions};
    use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
    use std::sync::{Arc, Mutex, PoisonError, Weak};

    use std::time::SystemTime;

    use rustix::fs::OFlags;

    use crate::calls;
    use crate::directory::{Directory, DirectoryError, EXTENSION, FileId, UNFINISHED_EXTENSION};
    use crate::layout::HEADER_WORDS;
    use crate::mapping::Mapping;

    const SHARED_MEMORY: &str = "/dev/shm";
    const RUNTIME: &str = "/run/user";

    /// The directory of the last meter. The meters in it share one descriptor.
    static LAST_DIRECTORY: Mutex<Weak<Directory>> = Mutex::new(Weak::new());

    /// The sweep that registrations of this process continue.
    static SWEEP: Mutex<Sweep> = Mutex::new(Sweep { directory: None, names: Vec::new() });
    /// Number of files that a registration examines at most.
    const MAX_SWEPT_FILES: usize = 2;

    fn shared_memory_directory(user: u32) -> PathBuf {
        Path::new(SHARED_MEMORY).join(format!("{EXTENSION}-{user}"))
    }

    /// Returns the directories of this user's meters. New files go to the first usable one.
    pub(crate) fn directories() -> Vec<PathBuf> {
        let configured = std::env::var_os(ENV_DIRECTORY).filter(|path| !path.is_empty());
        if let Some(directory) = configured {
            return vec![directory.into()];
        }
        let user = calls::effective_user();
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

    /// The file of a meter. It is removed when this is dropped, but not by a forked child, whose copy
    /// belongs to the parent.
    #[derive(Debug)]
    pub(crate) struct MeterFile {
        directory: Arc<Directory>,
        name: OsString,
        /// The process that created the file.
        process: u32,
    }

    impl MeterFile {
        pub(crate) fn path(&self) -> PathBuf {
            self.directory.path().join(&self.name)
        }
    }

    impl Drop for MeterFile {
        fn drop(&mut self) {
            if self.process == std::process::id() {
                // If this fails, the next sweep of the directory removes the file.
                let _ = self.directory.remove(&self.name);
            }
        }
    }

    /// A created file, and its memory.
    #[derive(Debug)]
    pub(crate) struct CreatedMeter {
        pub(crate) file: MeterFile,
        pub(crate) mapping: Mapping,
    }

    /// Creates a file with this header and maps it. Tries the next directory if one has no parent
    /// or fails.
    pub(crate) fn create(
        name: &str,
        header: &[u64; HEADER_WORDS],
        words: usize,
    ) -> Result<CreatedMeter, Why> {
        let mut why = Why::NoDirectory;
        for directory in directories() {
            match create_in(&directory, name, header, words) {
                Ok(created) => return Ok(created),
                // It has no parent.
                Err(Why::Refused(_, error)) if error.kind() == io::ErrorKind::NotFound => {}
                Err(refused) => why = refused,
            }
        }
        Err(why)
    }

    /// Creates a file in a directory, which is created if it does not exist. The file gets the name
    /// that readers look for only when it is complete.
    #[allow(unsafe_code, reason = "only who creates the file knows that it keeps its length")]
    pub(crate) fn create_in(
        path: &Path,
        name: &str,
        header: &[u64; HEADER_WORDS],
        words: usize,
    ) -> Result<CreatedMeter, Why> {
        let directory = open_or_create(path)?;
        SWEEP.lock().unwrap_or_else(PoisonError::into_inner).continue_in(&directory);
        let final_name = OsString::from(format!("{name}.{EXTENSION}"));
        let unfinished = OsString::from(format!("{name}.{UNFINISHED_EXTENSION}"));
        let refused = |error| Why::Refused(path.to_owned(), error);
        let file = directory.create(&unfinished).map_err(refused)?;
        // SAFETY: `create` has just made this file, with mode 0400 and in a directory of this user.
        // So no other user can truncate it or store into it, and its owner can only after a change
        // of its mode, which the documentation of the crate forbids. Readers copy the file and
        // never open it for writing.
        let created = unsafe { Mapping::new(file, header, words) }.and_then(|mapping| {
            directory.rename(&unfinished, &final_name)?;
            Ok(mapping)
        });
        match created {
            Ok(mapping) => {
                let process = std::process::id();
                let file = MeterFile { directory, name: final_name, process };
                Ok(CreatedMeter { file, mapping })
            }
            Err(error) => {
                let _ = directory.remove(&unfinished);
                Err(refused(error))
            }
        }
    }

    /// A sweep of a directory in small steps. It examines every file once, so registering many meters
    /// takes the same time for each.
    #[derive(Debug)]
    pub(crate) struct Sweep {
        pub(crate) directory: Option<FileId>,
        /// Files that are not examined yet.
        pub(crate) names: Vec<OsString>,
    }

    impl Sweep {
        /// Examines some files, and removes those of ended processes. Starts a sweep if the last one
        /// was of another directory.
        pub(crate) fn continue_in(&mut self, directory: &Directory) {
            if self.directory != Some(directory.id()) {
                self.directory = Some(directory.id());
                self.names = directory.meter_names().unwrap_or_default();
                // Processes that register few meters examine few files: not always the same.
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                let random = now.map_or(0, |now| now.subsec_nanos() as usize / 100);
                let start = random % self.names.len().max(1);
                self.names.rotate_left(start);
            }
            let rest = self.names.len().saturating_sub(MAX_SWEPT_FILES);
            for name in self.names.drain(rest..) {
                directory.remove_abandoned(&name);
            }
        }
    }

    /// Opens the directory of a new meter. Only this user may write to it.
    fn open_or_create(path: &Path) -> Result<Arc<Directory>, Why> {
        let refused = |error| Why::Refused(path.to_owned(), error);
        let mut last = LAST_DIRECTORY.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(directory) = last.upgrade().filter(|directory| directory.is_at(path)) {
            return Ok(directory);
        }
        // A directory that exists costs one call.
        let mut opened = Directory::open(path);
        if let Ok(None) = opened {
            create_directory(path)?;
            opened = Directory::open(path);
        }
        let directory = match opened {
            Ok(Some(directory)) => Arc::new(directory),
            Ok(None) => return Err(refused(io::ErrorKind::NotFound.into())),
            Err(DirectoryError::Io(error)) => return Err(refused(error)),
            Err(_) => return Err(Why::NotOurs(path.to_owned())),
        };
        *last = Arc::downgrade(&directory);
        Ok(directory)
    }

    /// Creates the directory of meters, unless it exists.
    fn create_directory(path: &Path) -> Result<(), Why> {
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(Why::Refused(path.to_owned(), error))
            }
            _ => Ok(()),
        }
    }

    /// Opens a regular file for reading. Never blocks and follows no link.
    pub(crate) fn open(path: &Path) -> io::Result<File> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut options = OpenOptions::new();
        let file = options.read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
        if file.metadata()?.is_file() {
            Ok(file)
        } else {
            Err(io::Error::other("not a regular file"))
        }
    }
}
