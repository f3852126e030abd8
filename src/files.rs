//! The directory that a command writes its files to.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::exit::Error;

/// The directory of the report, proved writable before anything is measured.
pub struct Directory {
    directory: PathBuf,
}

impl Directory {
    pub fn open(asked: Option<&Path>, stamp: &str) -> Result<Self, String> {
        let directory = match asked {
            Some(path) => path.to_path_buf(),
            None => free_name(Path::new("results"), &stamp.replace([':', '-'], "")),
        };
        let refuse = |e: std::io::Error| {
            format!(
                "cannot write to {}: {e}; choose another directory with --out; nothing was run",
                directory.display()
            )
        };
        std::fs::create_dir_all(&directory).map_err(refuse)?;
        tempfile::NamedTempFile::new_in(&directory).map_err(refuse)?;
        Ok(Self { directory })
    }

    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf, Error> {
        let file = self.directory.join(name);
        write_atomically(&file, text.as_bytes())
            .map_err(|e| Error::measure(format!("cannot write {}: {e}", file.display())))?;
        Ok(file)
    }
}

/// A directory that is not there yet: two runs of one second do not share one.
fn free_name(parent: &Path, name: &str) -> PathBuf {
    let candidates = (1_u32..).map(|n| if n == 1 { parent.join(name) } else { parent.join(format!("{name}-{n}")) });
    candidates.into_iter().find(|path| !path.exists()).expect("the counter does not run out")
}

/// A command's result: to the file that was asked for, or to standard output.
pub fn deliver(result: impl AsRef<[u8]>, out: Option<&Path>) -> Result<(), Error> {
    let bytes = result.as_ref();
    match out {
        None => io::stdout().write_all(bytes).map_err(Error::writing),
        Some(file) => write_atomically(file, bytes).map_err(|e| Error::place(file, &e)),
    }
}

/// Writes a file whole or not at all: into a temporary one beside it, then renamed.
///
/// A link is followed, and the file behind it replaced; a file that is there keeps its permissions. What is no regular
/// file, a pipe or a device, cannot be replaced and is written to.
pub fn write_atomically(path: &Path, text: &[u8]) -> io::Result<()> {
    let there = match std::fs::metadata(path) {
        Ok(meta) if meta.is_dir() => return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory")),
        Ok(meta) if !meta.is_file() => return std::fs::OpenOptions::new().write(true).open(path)?.write_all(text),
        Ok(meta) => Some(meta),
        Err(_) => None,
    };
    let target = if there.is_some() { std::fs::canonicalize(path)? } else { path.to_path_buf() };
    let directory = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(text)?;
    file.as_file().sync_all()?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // A temporary file is private; a report is as readable as any other file of its owner.
        let permissions = there.map_or(std::fs::Permissions::from_mode(0o644), |meta| meta.permissions());
        file.as_file().set_permissions(permissions)?;
    }
    file.persist(target).map_err(|e| e.error)?;
    Ok(())
}
