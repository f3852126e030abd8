//! Reads the meters of other processes from their files. Nothing in a file is trusted.
//!
//! ```
//! for directory in tickmeter::read::directories() {
//!     for path in tickmeter::read::list(&directory)? {
//!         match tickmeter::read::File::open(&path).and_then(|mut file| file.snapshot()) {
//!             Ok(snapshot) => println!("{}: p99 {:?}", snapshot.name, snapshot.lateness.quantile(0.99)),
//!             Err(error) => eprintln!("{}: {error}", path.display()),
//!         }
//!     }
//! }
//! # Ok::<(), std::io::Error>(())
//! ```

use std::fmt;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use crate::book::{Copied, copy};
use crate::layout::{Fault, HEADER, LONGEST_FILE, Layout};
use crate::place::ENDING;
use crate::reader::ATTEMPTS;
use crate::snapshot::Snapshot;

/// Why a file cannot be read as a meter's.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// It cannot be opened or read.
    Io(io::Error),
    /// It is not a meter's.
    NotAMeter,
    /// It is of a later version of this crate.
    Newer {
        /// Version of its layout.
        version: u64,
    },
    /// It ends before it should, or became shorter while it was read.
    Truncated,
    /// It contradicts itself.
    Malformed(&'static str),
    /// Its counts do not add up, however often it is read.
    Torn,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "cannot be read: {error}"),
            Self::NotAMeter => f.write_str("is not a meter's file"),
            Self::Newer { version } => {
                write!(f, "has layout version {version}, and this program knows 1; update it")
            }
            Self::Truncated => f.write_str("ends too soon"),
            Self::Malformed(what) => write!(f, "is malformed: {what}"),
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

impl From<Fault> for ReadError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::NoMeter => Self::NotAMeter,
            Fault::Newer(version) => Self::Newer { version },
            Fault::Malformed(what) => Self::Malformed(what),
        }
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::UnexpectedEof { Self::Truncated } else { Self::Io(error) }
    }
}

/// Where meters of this user may be; not all of them need to exist. `TICKMETER_DIR` alone where
/// that is set. None where meters are private: elsewhere than on Unix.
#[must_use]
pub fn directories() -> Vec<PathBuf> {
    #[cfg(all(unix, not(loom)))]
    return crate::place::directories();
    #[cfg(any(not(unix), loom))]
    Vec::new()
}

/// Those of all users, too, for root.
#[must_use]
pub fn directories_of_all_users() -> Vec<PathBuf> {
    #[cfg(all(unix, not(loom)))]
    return crate::place::directories_of_all();
    #[cfg(any(not(unix), loom))]
    Vec::new()
}

/// The files of meters in a directory, by name; none where there is no such directory. Their
/// processes may have ended.
///
/// # Errors
/// Where the directory cannot be read.
pub fn list(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let paths = entries.flatten().map(|entry| entry.path());
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|end| end == ENDING)).collect();
    paths.sort();
    Ok(paths)
}

/// Removes the files of this user's meters whose process has ended, and returns how many there
/// were. What is no meter's file stays.
///
/// A meter holds a lock on its file, which the kernel releases when its process ends, however that
/// happens. Unlike a process number, it cannot be mistaken for another's, and it holds across
/// containers that share the directory.
pub fn sweep(directory: &Path) -> usize {
    #[cfg(all(unix, not(loom)))]
    return crate::place::sweep(directory);
    #[cfg(any(not(unix), loom))]
    {
        let _ = directory;
        0
    }
}

/// A meter's file, open. It is read into memory of our own, never mapped: whatever its owner does
/// to it, reading it is an error at worst.
#[derive(Debug)]
pub struct File {
    file: std::fs::File,
    bytes: Vec<u8>,
}

impl File {
    /// Opens a plain file; follows no link, never waits.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        #[cfg(all(unix, not(loom)))]
        let file = crate::place::open(path)?;
        #[cfg(any(not(unix), loom))]
        let file = std::fs::File::open(path)?;
        Ok(Self { file, bytes: Vec::new() })
    }

    /// Whether the process that writes it is still there.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        #[cfg(all(unix, not(loom)))]
        return crate::place::is_locked(&self.file);
        #[cfg(any(not(unix), loom))]
        false
    }

    /// What its meter has booked so far. See [`Snapshot::exact`].
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn snapshot(&mut self) -> Result<Snapshot, ReadError> {
        let length = self.file.metadata()?.len();
        if length > LONGEST_FILE {
            return Err(ReadError::Malformed("it is too long"));
        }
        let mut header = [0; HEADER];
        if length < 8 {
            return Err(ReadError::NotAMeter);
        }
        let known = header.len().min((length / 8) as usize);
        self.read(0, &mut header[..known])?;
        let layout = match Layout::of(&header, length) {
            Ok(_) if length < 8 * HEADER as u64 => return Err(ReadError::Truncated),
            Err(Fault::Malformed(_)) if header[crate::layout::at::BYTES] > length => {
                return Err(ReadError::Truncated);
            }
            layout => layout?,
        };
        let mut copied = self.copy(&layout)?;
        for _ in 1..ATTEMPTS {
            if copied.is_exact() && copied.is_whole(&layout) {
                break;
            }
            copied = self.copy(&layout)?;
        }
        // The header's geometry is the one that was validated: it never changes while a meter
        // lives.
        if copied.words[..crate::layout::at::PID] != header[..crate::layout::at::PID] {
            return Err(ReadError::Malformed("its header changes"));
        }
        if !copied.is_whole(&layout) {
            return Err(ReadError::Torn);
        }
        Ok(Snapshot::of(&copied, &layout)?)
    }

    fn copy(&mut self, layout: &Layout) -> Result<Copied, ReadError> {
        copy(layout.words, |from, into: &mut [u64]| self.read(from, into))
    }

    fn read(&mut self, from: usize, into: &mut [u64]) -> Result<(), ReadError> {
        self.bytes.resize(into.len() * 8, 0);
        self.file.seek(SeekFrom::Start(from as u64 * 8))?;
        self.file.read_exact(&mut self.bytes)?;
        for (word, bytes) in into.iter_mut().zip(self.bytes.chunks_exact(8)) {
            *word = u64::from_ne_bytes(bytes.try_into().expect("chunks of eight"));
        }
        Ok(())
    }
}

#[cfg(all(test, unix, not(loom), not(miri)))]
mod tests;
