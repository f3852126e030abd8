//! Files: one way to read any of them, ours or another tool's, and one way to write.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::exit::{Error, Result, usage};
use crate::machine::os;
use crate::picture::canvas::Picture;
use crate::text::position::after;

/// A file larger than this is not read, whatever memory there is: it holds some hundred million ticks, and no view of a
/// report is of use beyond that.
const LARGEST_FILE: u64 = 1 << 30;
/// Memory that a byte of a file can become. The worst is a map of short names, at some 13 times its size; a tick is
/// 8 bytes for at least 2. The largest file that is read is this fraction of the memory there is.
const MEMORY_PER_BYTE: u64 = 16;
/// Memory there is, where the platform does not report it.
const ASSUMED_MEMORY: u64 = 4 << 30;

/// What a directory stands for: the report of a run in it, or jitterdebugger's results.
const IN_A_DIRECTORY: [&str; 2] = ["report.json", "results.json"];

/// The file that a path names: itself, or the report in that directory.
pub fn resolved(path: &Path) -> PathBuf {
    let mut inside = IN_A_DIRECTORY.iter().map(|name| path.join(name));
    inside.find(|file| file.is_file()).unwrap_or_else(|| path.to_path_buf())
}

/// Reads the text of a file, without its byte order mark.
///
/// # Errors
/// The file cannot be read, is larger than memory allows, or is not UTF-8; the message names it.
pub fn read_text(file: &Path) -> Result<String> {
    let most = LARGEST_FILE.min(os::available_memory().unwrap_or(ASSUMED_MEMORY) / MEMORY_PER_BYTE);
    let unread = |e| usage!("cannot read {}: {e}", file.display());
    let opened = File::open(file).map_err(unread)?;
    let meta = opened.metadata().map_err(unread)?;
    // What is no regular file, a pipe or a device, does not state its size.
    let text = if meta.is_dir() {
        Err(Error::usage("is a directory; give the file"))
    } else if meta.len() > most {
        Err(too_large(&format!("{} MiB large", meta.len() >> 20), most))
    } else {
        let mut bytes = Vec::new();
        opened.take(most + 1).read_to_end(&mut bytes).map_err(unread)?;
        if bytes.len() as u64 > most { Err(too_large("larger", most)) } else { decoded(bytes) }
    };
    text.map_err(|e| e.context(file.display()))
}

/// Reads a file of ours.
pub fn read<T: jitterstat::file::File>(file: &Path) -> Result<T> {
    T::from_json(&read_text(file)?).map_err(|e| usage!("{}: {e}", file.display()))
}

fn too_large(size: &str, most: u64) -> Error {
    let most = most >> 20;
    usage!("is {size}, and at most {most} MiB are read: a file takes up to {MEMORY_PER_BYTE} times its size in memory")
}

fn decoded(mut bytes: Vec<u8>) -> Result<String> {
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err(Error::usage("is in UTF-16, as some shells redirect; write it with --out, or as UTF-8"));
    }
    if bytes.starts_with(&[0xef, 0xbb, 0xbf]) {
        bytes.drain(..3);
    }
    String::from_utf8(bytes).map_err(|e| {
        let valid = e.utf8_error().valid_up_to();
        usage!("is not text: {}", after(&e.as_bytes()[..valid]))
    })
}

/// The directory of a command's files, proved writable before anything is measured.
pub struct Directory {
    directory: PathBuf,
}

impl Directory {
    /// The directory that was asked for, or a fresh one below `results`, named by the time of the start.
    pub fn open(asked: Option<&Path>, stamp: &str) -> Result<Self> {
        let directory = match asked {
            Some(path) => path.to_path_buf(),
            None => free_name(Path::new("results"), &stamp.replace([':', '-'], "")),
        };
        let proved = std::fs::create_dir_all(&directory).and_then(|()| tempfile::NamedTempFile::new_in(&directory));
        match proved {
            Ok(_) => Ok(Self { directory }),
            Err(e) => Err(usage!(
                "cannot write to {}: {e}; choose another directory with --out; nothing was run",
                directory.display()
            )),
        }
    }

    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
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
pub fn deliver(result: impl AsRef<[u8]>, out: Option<&Path>) -> Result<()> {
    let bytes = result.as_ref();
    match out {
        None => io::stdout().write_all(bytes).map_err(Error::writing),
        Some(file) => write_atomically(file, bytes).map_err(|e| Error::place(file, &e)),
    }
}

/// A command's pictures, into the directory that was asked for.
pub fn deliver_pictures(pictures: &[Picture], directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory).map_err(|e| Error::place(directory, &e))?;
    pictures.iter().try_for_each(|picture| deliver(&picture.svg, Some(&directory.join(&picture.name))))
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
