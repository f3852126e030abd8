//! Where meters' files are: written, found and swept. On Unix; elsewhere every meter is private.

use std::fmt;
use std::io;
#[cfg(all(unix, not(loom)))]
use std::path::Path;
use std::path::PathBuf;

/// Names the directory of the meters' files, for writers and readers alike: for tests, and for
/// containers that share a volume.
pub const ENV_DIRECTORY: &str = "TICKMETER_DIR";
/// What the files of meters end in.
pub(crate) const ENDING: &str = "tickmeter";

/// Where a meter's memory is.
#[derive(Debug)]
#[non_exhaustive]
pub enum Place {
    /// In a file that other processes of the same user read.
    Mapped(PathBuf),
    /// In this process alone, for that reason: only snapshots in this process see it.
    Private(Why),
}

/// Why a meter has no file.
#[derive(Debug)]
#[non_exhaustive]
pub enum Why {
    /// No directory: not Unix, or neither `XDG_RUNTIME_DIR` is set nor is there `/dev/shm`.
    NoDirectory,
    /// The directory belongs to somebody else, or others may write there.
    NotOurs(PathBuf),
    /// The operating system refused, there.
    Refused(PathBuf, io::Error),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDirectory => {
                f.write_str("there is no directory in memory; set XDG_RUNTIME_DIR or TICKMETER_DIR")
            }
            Self::NotOurs(path) => write!(f, "{} must be ours alone (mode 0700)", path.display()),
            Self::Refused(path, error) => write!(f, "{}: {error}", path.display()),
        }
    }
}

#[cfg(all(unix, not(loom)))]
pub(crate) use shared::*;

#[cfg(all(unix, not(loom)))]
mod shared {
    use super::*;
    use std::fs::{DirBuilder, File, OpenOptions};
    use std::io::{Read as _, Write as _};
    use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
    use std::time::Duration;

    use crate::layout::MAGIC;
    use crate::mapping::{self, Mapping};

    const SHARED_MEMORY: &str = "/dev/shm";
    const RUNTIME: &str = "/run/user";
    /// What is being made has this ending; it is swept only when nobody can still be at it.
    const NEW: &str = "new";
    const NEW_FOR: Duration = Duration::from_secs(60);

    fn of_user(user: u32) -> PathBuf {
        Path::new(SHARED_MEMORY).join(format!("{ENDING}-{user}"))
    }

    /// The directories of this user's meters, the one that is written to first.
    pub(crate) fn directories() -> Vec<PathBuf> {
        if let Some(asked) = std::env::var_os(ENV_DIRECTORY).filter(|asked| !asked.is_empty()) {
            return vec![asked.into()];
        }
        let user = mapping::user();
        let asked = std::env::var_os("XDG_RUNTIME_DIR")
            .map(PathBuf::from)
            .filter(|path| path.is_absolute());
        let runtime = asked
            .into_iter()
            .chain([Path::new(RUNTIME).join(user.to_string())])
            .map(|path| path.join(ENDING));
        let mut all: Vec<PathBuf> = runtime.chain([of_user(user)]).collect();
        all.dedup();
        all
    }

    /// Those of every user whom this one may read.
    pub(crate) fn directories_of_all() -> Vec<PathBuf> {
        let mut all = directories();
        let below = |path: &str| {
            let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).collect::<Vec<_>>()
        };
        all.extend(below(RUNTIME).into_iter().map(|path| path.join(ENDING)));
        let ours = |path: &PathBuf| {
            path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("tickmeter-"))
        };
        all.extend(below(SHARED_MEMORY).into_iter().filter(ours));
        all.sort();
        all.dedup();
        all
    }

    /// Makes a file with these words and maps it. Where the first directory's parent is missing,
    /// the next is taken.
    pub(crate) fn create(name: &str, words: &[u64]) -> Result<(Mapping, PathBuf), Why> {
        let mut why = Why::NoDirectory;
        for directory in directories() {
            if directory.parent().is_some_and(Path::is_dir) {
                match create_in(&directory, name, words) {
                    Ok(made) => return Ok(made),
                    Err(refused) => why = refused,
                }
            }
        }
        Err(why)
    }

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
        let found = std::fs::symlink_metadata(directory).map_err(refused)?;
        if !found.is_dir() || found.uid() != mapping::user() || found.mode() & 0o022 != 0 {
            return Err(Why::NotOurs(directory.to_owned()));
        }
        sweep(directory);
        let path = directory.join(format!("{name}.{ENDING}"));
        let new = path.with_extension(NEW);
        let made =
            fill(&new, words).and_then(|mapping| std::fs::rename(&new, &path).map(|()| mapping));
        match made {
            Ok(mapping) => Ok((mapping, path)),
            Err(error) => {
                let _ = std::fs::remove_file(new);
                Err(refused(error))
            }
        }
    }

    /// The file is locked and whole before it has the name that readers look for. Written rather
    /// than left as a hole: a full file system is an error now, not a fatal signal later.
    fn fill(new: &Path, words: &[u64]) -> io::Result<Mapping> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        let mut file = options.open(new)?;
        mapping::lock(&file)?;
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        file.write_all(&bytes)?;
        Mapping::new(file, words.len())
    }

    /// Opens what is there under a name, if it is a plain file: never waits, follows no link.
    pub(crate) fn open(path: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        let file =
            options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
        if file.metadata()?.is_file() {
            Ok(file)
        } else {
            Err(io::Error::other("not a plain file"))
        }
    }

    pub(crate) use mapping::is_locked;

    /// Removes the files whose process has ended, and returns how many. Files of other users, and
    /// what is no meter's, stay.
    pub(crate) fn sweep(directory: &Path) -> usize {
        let is_over = |path: &Path| -> io::Result<bool> {
            let mut file = open(path)?;
            let found = file.metadata()?;
            let ours = if path.extension() == Some(ENDING.as_ref()) {
                let mut magic = [0; 8];
                file.read_exact(&mut magic)?;
                u64::from_ne_bytes(magic) == MAGIC
            } else {
                let age = found.modified()?.elapsed().unwrap_or_default();
                path.extension() == Some(NEW.as_ref()) && age > NEW_FOR
            };
            Ok(ours && found.uid() == mapping::user() && !is_locked(&file))
        };
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let over = entries.map(|entry| entry.path()).filter(|path| is_over(path).unwrap_or(false));
        over.filter(|path| std::fs::remove_file(path).is_ok()).count()
    }
}
