//! Reads the meters of other processes from their files.
//!
//! Files are not trusted: everything in them is checked, and a broken file is an error at worst.
//!
//! ```
//! use tickmeter::read::{self, Directory};
//!
//! for path in read::directories() {
//!     let Some(directory) = Directory::open(&path)? else { continue };
//!     for name in directory.file_names()? {
//!         match directory.file(&name).and_then(|mut file| file.snapshot()) {
//!             Ok(snapshot) => {
//!                 println!("{}: p99 {:?}", snapshot.name, snapshot.lateness.quantile(0.99));
//!             }
//!             Err(error) => eprintln!("{} {error}", path.join(name).display()),
//!         }
//!     }
//! }
//! # Ok::<(), std::io::Error>(())
//! ```

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

pub use crate::directory::{Directory, DirectoryError, FileId};
use crate::layout::{FormatError, HEADER_WORDS, Layout, MAX_FILE_BYTES, at};
use crate::publication::{CopyExtent, RawSnapshot, copy_meter};
use crate::reader::MAX_ATTEMPTS;
use crate::snapshot::Snapshot;

/// An error of [`File::open`] or [`File::snapshot`].
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// The file cannot be opened or read.
    Io(io::Error),
    /// The file does not belong to the owner of its directory.
    OtherOwner {
        /// User id of the file's owner.
        owner: u32,
    },
    /// The file does not contain a meter.
    NotAMeter,
    /// The file was written by a later version of this crate.
    Newer {
        /// Version of the file's layout.
        version: u64,
    },
    /// The file is shorter than its header states, or was shortened while it was read.
    Truncated,
    /// The contents of the file are contradictory.
    Malformed(&'static str),
    /// The counts do not add up, even after several attempts to read them.
    Torn,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "cannot be read: {error}"),
            Self::OtherOwner { owner } => write!(f, "belongs to another user ({owner})"),
            Self::NotAMeter => f.write_str("is not a meter's file"),
            Self::Newer { version } => {
                write!(f, "has layout version {version}; this program supports 1, update it")
            }
            Self::Truncated => f.write_str("is truncated"),
            Self::Malformed(reason) => write!(f, "is malformed: {reason}"),
            Self::Torn => f.write_str("has counts that do not add up"),
        }
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<FormatError> for ReadError {
    fn from(error: FormatError) -> Self {
        match error {
            FormatError::NotAMeter => Self::NotAMeter,
            FormatError::Newer(version) => Self::Newer { version },
            FormatError::Malformed(reason) => Self::Malformed(reason),
        }
    }
}

impl From<DirectoryError> for ReadError {
    fn from(error: DirectoryError) -> Self {
        match error {
            DirectoryError::OtherOwner { owner } => Self::OtherOwner { owner },
            error => Self::Io(error.into()),
        }
    }
}

impl Directory {
    /// Opens the file of a meter, which must be a regular file of the directory's owner. Follows no
    /// link and never blocks.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened: see [`ReadError`].
    pub fn file(&self, name: &OsStr) -> Result<File, ReadError> {
        Ok(File::new(self.open_regular(name)?))
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::UnexpectedEof { Self::Truncated } else { Self::Io(error) }
    }
}

/// Returns the directories that may contain meters of this user. They need not exist.
///
/// If `TICKMETER_DIR` is set, the result is only that directory. It is empty on systems other than
/// Unix: all meters are private there.
#[must_use]
pub fn directories() -> Vec<PathBuf> {
    #[cfg(all(unix, not(loom)))]
    return crate::storage::directories();
    #[cfg(any(not(unix), loom))]
    Vec::new()
}

/// Returns the directories that may contain meters of any user, for root.
#[must_use]
pub fn directories_of_all_users() -> Vec<PathBuf> {
    #[cfg(all(unix, not(loom)))]
    return crate::storage::directories_of_all_users();
    #[cfg(any(not(unix), loom))]
    Vec::new()
}

/// Returns the files of meters in a directory of this user, sorted by name. Their processes may
/// have ended. If the directory does not exist, there are none.
///
/// # Errors
/// Returns an error if the directory cannot be read or another user may write to it: see
/// [`Directory::open`].
pub fn list(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let Some(opened) = Directory::open(directory)? else { return Ok(Vec::new()) };
    Ok(opened.file_names()?.into_iter().map(|name| directory.join(name)).collect())
}

/// Removes the files of this user's meters whose process has ended, and returns how many there
/// were. Other files are not touched, nor directories of other users.
///
/// A meter holds a lock on its file, which the kernel releases when the process ends for any
/// reason. Unlike a process number, a lock cannot belong to another process by mistake, and it
/// works across containers that share the directory.
#[allow(clippy::must_use_candidate, reason = "the effect is the point of the call")]
pub fn sweep(directory: &Path) -> usize {
    Directory::open(directory).ok().flatten().map_or(0, |directory| directory.sweep())
}

/// An open file of a meter.
///
/// The file is copied into this process's memory and never mapped, so nothing that its owner does
/// to it can crash the reader.
#[derive(Debug)]
pub struct File {
    file: std::fs::File,
    /// The layout, once it was checked.
    checked: Option<CheckedLayout>,
}

/// The layout of a file, and the words that describe it.
#[derive(Debug)]
struct CheckedLayout {
    words: [u64; at::PID],
    layout: Layout,
}

impl File {
    /// Opens a file, which must be a regular file. Follows no link at the end of the path and never
    /// blocks. Does not check the owner: use [`Directory::file`] for a file that was found.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened: see [`ReadError`].
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        #[cfg(all(unix, not(loom)))]
        let file = crate::storage::open(path)?;
        #[cfg(any(not(unix), loom))]
        let file = std::fs::File::open(path)?;
        Ok(Self::new(file))
    }

    pub(crate) fn new(file: std::fs::File) -> Self {
        Self { file, checked: None }
    }

    /// Returns the identity of the file, or `None` on systems other than Unix.
    #[must_use]
    pub fn id(&self) -> Option<FileId> {
        #[cfg(all(unix, not(loom)))]
        return self.file.metadata().ok().as_ref().map(FileId::from);
        #[cfg(any(not(unix), loom))]
        None
    }

    /// Returns whether the process that writes the file is still running.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        #[cfg(all(unix, not(loom)))]
        return crate::calls::is_locked(&self.file);
        #[cfg(any(not(unix), loom))]
        false
    }

    /// Returns what the meter has recorded so far. It may be inexact: see [`Snapshot::exact`].
    ///
    /// Only the bins that are in use are read, so the cost grows with the spread of the lateness:
    /// about ten microseconds for a loop that is at most milliseconds late.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or is not a valid meter: see [`ReadError`].
    pub fn snapshot(&mut self) -> Result<Snapshot, ReadError> {
        let checked = match self.checked.take() {
            Some(checked) => checked,
            None => self.read_layout()?,
        };
        let layout = checked.layout;
        let raw = self.copy_with_retries(&layout)?;
        // A meter never changes its layout, so it must still be the one that was checked.
        if raw.header[..at::PID] != checked.words {
            return Err(ReadError::Malformed("its header changes"));
        }
        self.checked = Some(checked);
        if !raw.is_consistent() {
            return Err(ReadError::Torn);
        }
        Ok(Snapshot::decode(&raw, &layout)?)
    }

    /// Reads and checks the header.
    fn read_layout(&mut self) -> Result<CheckedLayout, ReadError> {
        let length = self.file.metadata()?.len();
        if length > MAX_FILE_BYTES {
            return Err(ReadError::Malformed("it is too long"));
        }
        if length < 8 {
            return Err(ReadError::NotAMeter);
        }
        let mut header = [0; HEADER_WORDS];
        let available = header.len().min((length / 8) as usize);
        self.read_words(0, &mut header[..available])?;
        match Layout::parse(&header, length) {
            Ok(_) if length < 8 * HEADER_WORDS as u64 => Err(ReadError::Truncated),
            Err(FormatError::Malformed(_)) if header[at::BYTES] > length => {
                Err(ReadError::Truncated)
            }
            layout => {
                let words = header[..at::PID].try_into().expect("the header is longer");
                Ok(CheckedLayout { words, layout: layout? })
            }
        }
    }

    /// Copies the meter, several times if necessary, until the copy is exact and consistent.
    fn copy_with_retries(&mut self, layout: &Layout) -> Result<RawSnapshot, ReadError> {
        let mut raw = self.copy(layout, CopyExtent::Used)?;
        for _ in 1..MAX_ATTEMPTS {
            if raw.is_exact() && raw.is_consistent() {
                break;
            }
            // The maxima of another writer may not be those of its bins.
            raw = self.copy(layout, CopyExtent::Whole)?;
        }
        Ok(raw)
    }

    fn copy(&mut self, layout: &Layout, extent: CopyExtent) -> Result<RawSnapshot, ReadError> {
        copy_meter(layout, extent, |from, into: &mut [u64]| self.read_words(from, into))
    }

    fn read_words(&mut self, from: usize, into: &mut [u64]) -> Result<(), ReadError> {
        let mut bytes = vec![0; into.len() * 8];
        self.read_at(from as u64 * 8, &mut bytes)?;
        for (word, bytes) in into.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_ne_bytes(bytes.try_into().expect("chunks of eight"));
        }
        Ok(())
    }

    #[cfg(unix)]
    fn read_at(&self, start: u64, into: &mut [u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.file, into, start)
    }

    #[cfg(not(unix))]
    fn read_at(&mut self, start: u64, into: &mut [u8]) -> io::Result<()> {
        use std::io::{Read as _, Seek as _};
        self.file.seek(io::SeekFrom::Start(start))?;
        self.file.read_exact(into)
    }
}

#[cfg(all(test, unix, not(loom), not(miri)))]
mod tests;
