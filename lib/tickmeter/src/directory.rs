//! [`Directory`]: a directory of meters, used through its descriptor and only if its owner is the
//! expected one.

use std::fmt;
use std::io;

/// Identity of a file or directory: the device, and its number there.
///
/// Paths with equal identities lead to the same file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// Creates an identity from its parts.
    #[must_use]
    pub const fn new(device: u64, inode: u64) -> Self {
        Self { device, inode }
    }
}

/// An error of a directory, or of a file in it that cannot be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum DirectoryError {
    /// It cannot be opened.
    Io(io::Error),
    /// The path leads to a link, or to something other than a directory.
    NotADirectory,
    /// It belongs to another user.
    OtherOwner {
        /// User id of the owner.
        owner: u32,
    },
    /// Users other than the owner may write to the directory.
    Writable,
}

impl fmt::Display for DirectoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "cannot be read: {error}"),
            Self::NotADirectory => f.write_str("is a link, or not a directory"),
            Self::OtherOwner { owner } => write!(f, "belongs to another user ({owner})"),
            Self::Writable => f.write_str("can be written to by other users"),
        }
    }
}

impl std::error::Error for DirectoryError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<DirectoryError> for io::Error {
    fn from(error: DirectoryError) -> Self {
        match error {
            DirectoryError::Io(error) => error,
            _ => Self::new(io::ErrorKind::PermissionDenied, error.to_string()),
        }
    }
}

#[cfg(all(unix, not(loom)))]
pub use opened::Directory;
#[cfg(all(unix, not(loom)))]
pub(crate) use opened::{EXTENSION, UNFINISHED_EXTENSION};
#[cfg(any(not(unix), loom))]
pub use unavailable::Directory;

#[cfg(all(unix, not(loom)))]
mod opened {
    use std::ffi::{OsStr, OsString};
    use std::fs::{File, Metadata, OpenOptions};
    use std::io::{self, Read as _};
    use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
    use std::path::{Path, PathBuf};

    use rustix::fs::{Mode, OFlags};
    use rustix::io::Errno;

    use super::{DirectoryError, FileId};
    use crate::calls;
    use crate::layout::MAGIC;

    /// Extension of the meters' files, and name of their directory.
    pub(crate) const EXTENSION: &str = "tickmeter";
    /// Extension of files that are not complete yet.
    pub(crate) const UNFINISHED_EXTENSION: &str = "new";

    impl FileId {
        /// Returns the identity of the file at a path, which may be a link. Returns `None` if there
        /// is none, and on systems other than Unix.
        #[must_use]
        pub fn from_path(path: &Path) -> Option<Self> {
            std::fs::symlink_metadata(path).ok().as_ref().map(Self::from)
        }
    }

    impl From<&Metadata> for FileId {
        fn from(metadata: &Metadata) -> Self {
            Self::new(metadata.dev(), metadata.ino())
        }
    }

    /// An open directory of meters.
    ///
    /// The path is followed only once, and not through a link at its end. Files are opened and
    /// removed by their name in the open directory. So another user, who may have chosen the path,
    /// cannot redirect a reader to other files.
    #[derive(Debug)]
    pub struct Directory {
        path: PathBuf,
        file: File,
        id: FileId,
        owner: u32,
    }

    impl Directory {
        /// Opens a directory that belongs to this process's user and that no other user may write
        /// to. Returns `None` if it does not exist.
        ///
        /// # Errors
        /// Returns an error if it cannot be opened, or is not such a directory.
        pub fn open(path: &Path) -> Result<Option<Self>, DirectoryError> {
            let directory = Self::open_of_any_user(path)?;
            match directory {
                Some(Self { owner, .. }) if owner != calls::effective_user() => {
                    Err(DirectoryError::OtherOwner { owner })
                }
                _ => Ok(directory),
            }
        }

        /// Opens a directory like [`open`](Self::open), but whichever user it belongs to.
        ///
        /// # Errors
        /// Returns an error if it cannot be opened, or if users other than its owner may write to
        /// it.
        pub fn open_of_any_user(path: &Path) -> Result<Option<Self>, DirectoryError> {
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
            let mut options = OpenOptions::new();
            options.read(true).custom_flags(flags.bits().cast_signed());
            let file = match options.open(path) {
                Ok(file) => file,
                Err(error) => return missing_or_error(error),
            };
            let metadata = file.metadata().map_err(DirectoryError::Io)?;
            if metadata.mode() & 0o022 != 0 {
                return Err(DirectoryError::Writable);
            }
            let (id, owner) = (FileId::from(&metadata), metadata.uid());
            Ok(Some(Self { path: path.to_owned(), file, id, owner }))
        }

        /// Returns the path by which the directory was opened.
        #[must_use]
        pub fn path(&self) -> &Path {
            &self.path
        }

        /// Returns the identity of the directory.
        #[must_use]
        pub fn id(&self) -> FileId {
            self.id
        }

        /// Returns the names of the meters' files, sorted. Their processes may have ended.
        ///
        /// # Errors
        /// Returns an error if the directory cannot be read.
        pub fn file_names(&self) -> io::Result<Vec<OsString>> {
            let mut names = self.names(&[EXTENSION])?;
            names.sort();
            Ok(names)
        }

        /// Removes the files of this user's meters whose process has ended, and returns how many
        /// there were. Other files are not touched, nor directories of other users.
        #[allow(clippy::must_use_candidate, reason = "the effect is the point of the call")]
        pub fn sweep(&self) -> usize {
            self.sweep_except(|_| false)
        }

        /// Removes files like [`sweep`](Self::sweep), but does not examine those whose name is kept.
        /// A reader examines the files that it has open by [`File::is_alive`](crate::read::File::is_alive).
        #[allow(clippy::must_use_candidate, reason = "the effect is the point of the call")]
        pub fn sweep_except(&self, mut is_kept: impl FnMut(&OsStr) -> bool) -> usize {
            let mut names = self.meter_names().unwrap_or_default();
            names.retain(|name| !is_kept(name));
            names.iter().filter(|name| self.remove_abandoned(name)).count()
        }

        /// Returns the names of files that may be meters, complete or not.
        pub(crate) fn meter_names(&self) -> io::Result<Vec<OsString>> {
            self.names(&[EXTENSION, UNFINISHED_EXTENSION])
        }

        /// Removes a file if it is a meter of this user whose process has ended. Returns whether it
        /// was removed.
        pub(crate) fn remove_abandoned(&self, name: &OsStr) -> bool {
            let is_own = self.owner == calls::effective_user();
            is_own && self.is_abandoned(name) && self.remove(name).is_ok()
        }

        /// Returns whether a file is a meter whose process has ended. A file gets its first word only after
        /// its lock.
        fn is_abandoned(&self, name: &OsStr) -> bool {
            let Ok(mut file) = self.open_regular(name) else { return false };
            let mut magic = [0; 8];
            let is_meter =
                file.read_exact(&mut magic).is_ok() && u64::from_ne_bytes(magic) == MAGIC;
            is_meter && !calls::is_locked(&file)
        }

        /// Removes a file.
        pub(crate) fn remove(&self, name: &OsStr) -> io::Result<()> {
            calls::unlink_at(&self.file, name)
        }

        /// Returns the names of the files with one of these extensions.
        fn names(&self, extensions: &[&str]) -> io::Result<Vec<OsString>> {
            let has_extension = |name: &OsString| {
                let extension = Path::new(name).extension();
                extension.is_some_and(|extension| extensions.iter().any(|end| extension == *end))
            };
            let names = calls::list_names(&self.file)?;
            Ok(names.into_iter().filter(has_extension).collect())
        }

        /// Opens a regular file of the directory's owner for reading.
        pub(crate) fn open_regular(&self, name: &OsStr) -> Result<File, DirectoryError> {
            let opened = calls::open_at(&self.file, name, OFlags::RDONLY, Mode::empty())
                .and_then(|file| Ok((file.metadata()?, file)));
            let (metadata, file) = opened.map_err(DirectoryError::Io)?;
            if !metadata.is_file() {
                Err(DirectoryError::Io(io::Error::other("not a regular file")))
            } else if metadata.uid() != self.owner {
                Err(DirectoryError::OtherOwner { owner: metadata.uid() })
            } else {
                Ok(file)
            }
        }

        /// Creates a file for reading and writing, which must not exist.
        ///
        /// Only its owner can read it. Later, even the owner cannot write to it without changing its
        /// mode: a file that is truncated by mistake would end the process that maps it.
        pub(crate) fn create(&self, name: &OsStr) -> io::Result<File> {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
            calls::open_at(&self.file, name, flags, Mode::RUSR)
        }

        /// Gives a file another name, which must be free.
        pub(crate) fn rename(&self, name: &OsStr, new: &OsStr) -> io::Result<()> {
            match calls::rename_to_free_at(&self.file, name, new) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {}
                result => return result,
            }
            match calls::link_at(&self.file, name, new) {
                // If this fails, the second name is swept like the first.
                Ok(()) => self.remove(name).or(Ok(())),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
                // Some file systems have no links.
                Err(_) => calls::rename_at(&self.file, name, new),
            }
        }

        /// Returns whether a path still leads to this directory.
        pub(crate) fn is_at(&self, path: &Path) -> bool {
            self.path == path && FileId::from_path(path) == Some(self.id)
        }
    }

    fn missing_or_error(error: io::Error) -> Result<Option<Directory>, DirectoryError> {
        match Errno::from_io_error(&error) {
            Some(Errno::NOENT) => Ok(None),
            // Systems differ in how they refuse a link.
            Some(Errno::NOTDIR | Errno::LOOP | Errno::MLINK) => Err(DirectoryError::NotADirectory),
            _ => Err(DirectoryError::Io(error)),
        }
    }
}

#[cfg(any(not(unix), loom))]
mod unavailable {
    use std::convert::Infallible;
    use std::ffi::{OsStr, OsString};
    use std::fs::File;
    use std::io;
    use std::path::Path;

    use super::{DirectoryError, FileId};

    impl FileId {
        /// Returns `None`: this system has no such identities.
        #[must_use]
        pub fn from_path(_path: &Path) -> Option<Self> {
            None
        }
    }

    /// An open directory of meters. There is none on this system: all meters are private.
    #[derive(Debug)]
    pub struct Directory(Infallible);

    impl Directory {
        /// Returns `None`.
        ///
        /// # Errors
        /// Never.
        pub fn open(_path: &Path) -> Result<Option<Self>, DirectoryError> {
            Ok(None)
        }

        /// Returns `None`.
        ///
        /// # Errors
        /// Never.
        pub fn open_of_any_user(_path: &Path) -> Result<Option<Self>, DirectoryError> {
            Ok(None)
        }

        /// Returns the path by which the directory was opened.
        #[must_use]
        pub fn path(&self) -> &Path {
            match self.0 {}
        }

        /// Returns the identity of the directory.
        #[must_use]
        pub fn id(&self) -> FileId {
            match self.0 {}
        }

        /// Returns the names of the meters' files.
        ///
        /// # Errors
        /// Returns an error if the directory cannot be read.
        pub fn file_names(&self) -> io::Result<Vec<OsString>> {
            match self.0 {}
        }

        /// Opens a regular file of the directory's owner for reading.
        pub(crate) fn open_regular(&self, _name: &OsStr) -> Result<File, DirectoryError> {
            match self.0 {}
        }

        /// Removes the files of meters whose process has ended, and returns how many there were.
        #[allow(clippy::must_use_candidate, reason = "the effect is the point of the call")]
        pub fn sweep(&self) -> usize {
            match self.0 {}
        }

        /// Removes files like `sweep`, except those whose name is kept.
        #[allow(clippy::must_use_candidate, reason = "the effect is the point of the call")]
        pub fn sweep_except(&self, _is_kept: impl FnMut(&OsStr) -> bool) -> usize {
            match self.0 {}
        }
    }
}
