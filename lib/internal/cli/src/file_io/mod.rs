//! Reads and writes files: bounded reading of any file, and writing that is complete or absent.
//!
//! Every command of `osjitter` reads its input files here and writes its results here.

mod destination;
mod output_directory;
mod stream;
mod temporaries;
mod text_reader;

use std::fs::{File, Metadata};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use crate::exit::{Error, Result, strip_temp_path, usage};
use crate::position::format_position;
use crate::words::pluralize;

pub use destination::{Destination, check_inputs, write_outputs};
pub use output_directory::{
    OutputDirectory, RESULT_FILES, RUN_PICTURES, ResultNames, remove_others,
};
pub use stream::write_stdout;
pub use temporaries::{TemporaryWorktree, remove_all as remove_temporaries};
pub use text_reader::TextReader;

use temporaries::{OpenTempFile, PersistFailure, TEMP_PREFIX, TEMP_SUFFIX, TempFile};

/// The size of the largest file that is read, even if there is memory for more.
///
/// Such a file holds some hundred million ticks; no view of a report is of use beyond that.
pub const MAX_FILE_BYTES: u64 = 1 << 30;
/// The memory that a byte of a file can occupy.
///
/// The worst case is a map of short names, at some 13 times its size; a tick needs 8 bytes for at
/// least 2. The available memory divided by this bounds the size of a file.
const MEMORY_PER_BYTE: u64 = 16;
/// The assumed available memory if the platform does not report it.
const ASSUMED_MEMORY: u64 = 4 << 30;

/// The files that a directory can mean: the report of a run, jitterdebugger's results, the
/// result of `find`, or the verdict of a gate.
const DIRECTORY_FILES: [&str; 4] = ["report.json", "results.json", "find.json", "verdict.json"];

/// Returns the file that a path means: itself, or the result in that directory.
pub fn resolve(path: &Path) -> PathBuf {
    let mut candidates = DIRECTORY_FILES.iter().map(|name| path.join(name));
    candidates.find(|file| file.is_file()).unwrap_or_else(|| path.to_path_buf())
}

/// The identity of a file or directory, whatever path leads to it.
#[cfg(unix)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
}

/// Returns the identity of a file or directory, or of the target of a link.
#[cfg(unix)]
pub fn identity(path: &Path) -> io::Result<FileIdentity> {
    use std::os::unix::fs::MetadataExt;
    let meta = std::fs::metadata(path)?;
    Ok(FileIdentity { device: meta.dev(), inode: meta.ino() })
}

/// The identity of a file or directory: its path without links.
#[cfg(not(unix))]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileIdentity(PathBuf);

/// Returns the identity of a file or directory, or of the target of a link.
#[cfg(not(unix))]
pub fn identity(path: &Path) -> io::Result<FileIdentity> {
    path.canonicalize().map(FileIdentity)
}

/// The path that means standard input, or standard output.
const STDIO: &str = "-";

/// Checks that a path that cannot be a standard stream is not `-`. `name` is its name on the command
/// line, `expected` what it must be.
///
/// # Errors
/// Returns an error that names the path.
pub fn check_no_stdio(path: &Path, name: &str, expected: &str) -> Result<()> {
    if path == Path::new(STDIO) {
        return Err(usage!("invalid {name} -: expected {expected}; nothing was run"));
    }
    Ok(())
}

/// Reads the text of a file, gzip or plain, without its byte order mark. `-` is standard input.
///
/// # Errors
/// Returns an error that names the file if it cannot be read, is larger than memory allows, or is
/// not UTF-8.
pub fn read_text(file: &Path) -> Result<String> {
    if file == Path::new(STDIO) {
        return read_stdin();
    }
    let opened = File::open(file).map_err(|e| Error::unreadable(file, &e))?;
    decode(read_all(TextReader::new(opened), file)?, file)
}

/// Reads the text of standard input. Further calls return the same text.
fn read_stdin() -> Result<String> {
    static TEXT: OnceLock<String> = OnceLock::new();
    if let Some(text) = TEXT.get() {
        return Ok(text.clone());
    }
    let file = Path::new("standard input");
    let reader = TextReader::from_bytes(io::stdin(), max_file_bytes());
    let text = decode(read_all(reader, file)?, file)?;
    Ok(TEXT.get_or_init(|| text).clone())
}

/// Reads all bytes of a reader, as one made from a [`TextReader`]. Errors name `file`.
///
/// # Errors
/// Returns an error if the file cannot be read or is larger than the reader allows.
pub fn read_all(reader: io::Result<impl Read>, file: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader
        .and_then(|mut reader| reader.read_to_end(&mut bytes))
        .map_err(|e| text_reader::reading_error(e, file))?;
    let size = pluralize(bytes.len() as u64, "byte");
    crate::terminal::detail(|| format!("read {}: {size}", file.display()));
    Ok(bytes)
}

/// Converts the bytes of a file to text. Errors name `file`.
pub fn decode(bytes: Vec<u8>, file: &Path) -> Result<String> {
    decode_utf8(bytes).map_err(|e| e.context(file.display()))
}

static AVAILABLE_MEMORY: OnceLock<fn() -> Option<u64>> = OnceLock::new();

/// Sets the function that returns the available memory, which bounds the size of a file.
pub fn set_available_memory(available_memory: fn() -> Option<u64>) {
    let _ = AVAILABLE_MEMORY.set(available_memory);
}

/// The number of bytes of text that are read at most.
fn max_file_bytes() -> u64 {
    let available = AVAILABLE_MEMORY.get().and_then(|available_memory| available_memory());
    MAX_FILE_BYTES.min(available.unwrap_or(ASSUMED_MEMORY) / MEMORY_PER_BYTE)
}

fn check_size(len: u64, size: &str, max_bytes: u64) -> Result<()> {
    if len > max_bytes { Err(too_large(size, max_bytes)) } else { Ok(()) }
}

fn too_large(size: &str, max_bytes: u64) -> Error {
    let max_mib = max_bytes >> 20;
    usage!(
        "is {size}, and at most {max_mib} MiB are read: a file needs up to {MEMORY_PER_BYTE} times its size in memory"
    )
}

/// Compresses bytes with gzip.
pub fn compress(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// Converts the bytes of a file to text, without its byte order mark.
pub fn decode_utf8(mut bytes: Vec<u8>) -> Result<String> {
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err(Error::usage(
            "is in UTF-16, as some shells redirect; write it with --out, or as UTF-8",
        ));
    }
    if bytes.starts_with(&[0xef, 0xbb, 0xbf]) {
        bytes.drain(..3);
    }
    String::from_utf8(bytes).map_err(|e| {
        let valid = e.utf8_error().valid_up_to();
        usage!("is not text: {}", format_position(&e.as_bytes()[..valid]))
    })
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A function that writes the contents of a file, for contents that are too large for a buffer.
pub type Contents<'a> = &'a dyn Fn(&mut dyn Write) -> io::Result<()>;

/// Writes files into an existing directory: first writes all of them under temporary names, then
/// renames them in order.
pub fn write_files_with(directory: &Path, files: &[(&str, Contents<'_>)]) -> io::Result<()> {
    let mut prepared = Vec::new();
    for (name, contents) in files {
        let file = directory.join(name);
        let existing = std::fs::symlink_metadata(&file).ok().filter(Metadata::is_file);
        prepared.push((write_temp_file(directory, contents, existing.as_ref())?, file));
    }
    prepared.into_iter().try_for_each(|(temp, file)| Ok(temp.persist(&file)?))
}

/// Writes new files into an existing directory, and returns their common stem: the first of `stems`
/// that no other process takes. A name is `STEM.ENDING`.
///
/// No file is replaced: the first file claims the stem for all. The others follow in order.
pub fn write_new_files(
    directory: &Path,
    stems: impl IntoIterator<Item = String>,
    files: &[(&str, Contents<'_>)],
) -> io::Result<String> {
    let prepare = |(_, contents): &(&str, Contents<'_>)| write_temp_file(directory, contents, None);
    let mut prepared = files.iter().map(prepare).collect::<io::Result<Vec<_>>>()?.into_iter();
    let mut first = prepared.next().ok_or(io::ErrorKind::InvalidInput)?;
    for stem in stems {
        let paths = files.iter().map(|(ending, _)| directory.join(format!("{stem}.{ending}")));
        let paths: Vec<PathBuf> = paths.collect();
        match persist_new(first, &paths[0]) {
            Ok(()) => return persist_all_new(prepared, &paths, 1).map(|()| stem),
            Err(e) if e.error.kind() == io::ErrorKind::AlreadyExists => first = e.file,
            Err(e) => return Err(e.error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Writes new files into an existing directory, or none of them if another process takes a name.
pub fn write_only_new_files(directory: &Path, files: &[(&str, Contents<'_>)]) -> io::Result<()> {
    let prepare = |(_, contents): &(&str, Contents<'_>)| write_temp_file(directory, contents, None);
    let prepared = files.iter().map(prepare).collect::<io::Result<Vec<_>>>()?;
    let paths: Vec<PathBuf> = files.iter().map(|(name, _)| directory.join(name)).collect();
    persist_all_new(prepared.into_iter(), &paths, 0)
}

/// Gives the files from number `start` on their names. If one fails, removes those that have theirs.
fn persist_all_new(
    temps: impl Iterator<Item = TempFile>,
    paths: &[PathBuf],
    start: usize,
) -> io::Result<()> {
    for (n, temp) in (start..).zip(temps) {
        if let Err(e) = persist_new(temp, &paths[n]) {
            for path in &paths[..n] {
                drop(std::fs::remove_file(path));
            }
            return Err(e.error);
        }
    }
    Ok(())
}

/// Gives a temporary file a name that is free.
fn persist_new(temp: TempFile, path: &Path) -> std::result::Result<(), PersistFailure> {
    let Err(PersistFailure { error, file: temp }) = temp.persist_new(path) else { return Ok(()) };
    // Some file systems have no links. There, an empty file takes the name first.
    let is_unsupported =
        matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported);
    let claimed = if is_unsupported { File::create_new(path) } else { Err(error) };
    match claimed {
        Ok(_) => temp.persist(path),
        Err(error) => Err(PersistFailure { error, file: temp }),
    }
}

/// Checks that a path and the names in it are not too long for the file system.
pub fn check_length(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::InvalidFilename => Err(e),
        _ => Ok(()),
    }
}

/// Checks that files can be created in a directory.
pub fn check_directory_writable(directory: &Path) -> io::Result<()> {
    OpenTempFile::create(directory).map(drop)
}

/// The age from which a temporary file is abandoned: its process was killed.
const TEMP_FILE_MAX_AGE: Duration = Duration::from_secs(3600);

/// Removes the temporary files and directories that killed processes left in a directory.
pub fn remove_abandoned_files(directory: &Path) {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    for path in entries.filter(is_abandoned).map(|entry| entry.path()) {
        // Another process may have been faster, and a file that cannot be removed does no harm.
        let is_directory = std::fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_dir());
        let _ =
            if is_directory { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    }
}

fn is_abandoned(entry: &std::fs::DirEntry) -> bool {
    let is_temp_name = |name: &str| name.starts_with(TEMP_PREFIX) && name.ends_with(TEMP_SUFFIX);
    let meta = || entry.metadata().ok().filter(|meta| meta.is_file() || meta.is_dir());
    let age = || meta()?.modified().ok()?.elapsed().ok();
    entry.file_name().to_str().is_some_and(is_temp_name)
        && age().is_some_and(|age| age > TEMP_FILE_MAX_AGE)
}

/// Writes to standard output. It is no error if its reader wants no more.
fn write_unless_closed(bytes: &[u8]) -> Result<()> {
    match write_stdout(bytes) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(Error::from_stdout),
    }
}

/// Writes a command's result to the requested file, or to standard output, whose reader may close it
/// at any time: the exit code is the command's.
pub fn write_output(result: impl AsRef<[u8]>, out: Option<Destination<'_>>) -> Result<()> {
    let bytes = result.as_ref();
    match out {
        None => write_unless_closed(bytes),
        Some(file) => file.write_file(bytes),
    }
}

/// Warns that a result was written next to an earlier one: one of another command or, with `force`, one
/// that an interrupted command does not replace.
fn warn_of_kept_result(kept: &Path, written: &Path, force: bool) {
    let (kept, written) = (kept.display(), written.display());
    crate::terminal::warning(&match force {
        true => {
            format!("not complete: the result in {kept} was not replaced; this one is in {written}")
        }
        false => format!("another command wrote its result to {kept}; this one is in {written}"),
    });
}

/// The prepared contents of a file, which is written completely or not at all: a temporary file next
/// to it is renamed.
///
/// A link is followed, and its target replaced. An existing file keeps its permissions.
enum Replacement<'a> {
    /// A complete temporary file, and the path that it is renamed to.
    Renamed { file: TempFile, target: PathBuf, existed: bool },
    /// A pipe or a character device, which cannot be replaced and is written to.
    Written(&'a Path, &'a [u8]),
}

impl<'a> Replacement<'a> {
    fn prepare(path: &'a Path, text: &'a [u8]) -> io::Result<Self> {
        Ok(match WriteTarget::find(path)? {
            WriteTarget::Stream => Self::Written(path, text),
            WriteTarget::File { path, existing } => {
                let write = |to: &mut dyn Write| to.write_all(text);
                let file = write_temp_file(parent(&path), &write, existing.as_ref())?;
                Self::Renamed { file, target: path, existed: existing.is_some() }
            }
        })
    }

    /// Writes the file. Without `force`, fails if the file has appeared since it was prepared.
    fn commit(self, force: bool) -> io::Result<()> {
        match self {
            Self::Renamed { file, target, existed } if force || existed => {
                Ok(file.persist(&target)?)
            }
            Self::Renamed { file, target, .. } => Ok(persist_new(file, &target)?),
            Self::Written(path, text) => stream::write_device(path, text),
        }
    }
}

/// The object that writing to a path changes.
enum WriteTarget {
    /// A regular file at the end of all links, and its metadata if it exists.
    File { path: PathBuf, existing: Option<Metadata> },
    /// A pipe or a character device.
    Stream,
}

impl WriteTarget {
    /// Finds the target of a path, which may be a link to a file that does not exist yet.
    ///
    /// # Errors
    /// Returns an error if no file can be written at this path.
    fn find(path: &Path) -> io::Result<Self> {
        let fail = |kind: io::ErrorKind, why: &str| Err(io::Error::new(kind, why));
        match std::fs::metadata(path) {
            Ok(meta) if meta.is_dir() => fail(io::ErrorKind::IsADirectory, "it is a directory"),
            Ok(meta) if meta.is_file() => {
                Ok(Self::File { path: std::fs::canonicalize(path)?, existing: Some(meta) })
            }
            Ok(meta) if is_stream(&meta) => Ok(Self::Stream),
            Ok(_) => {
                fail(io::ErrorKind::InvalidInput, "expected a file, a pipe or a character device")
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                if path.as_os_str().as_encoded_bytes().last().is_some_and(is_separator) {
                    return fail(io::ErrorKind::IsADirectory, "it is the name of a directory");
                }
                let mut target = path.to_path_buf();
                // The chain ends, because the system has followed it to a missing file.
                while let Ok(link) = std::fs::read_link(&target) {
                    target = parent(&target).join(link);
                }
                Ok(Self::File { path: target, existing: None })
            }
            Err(e) => Err(e),
        }
    }

    /// Checks that the target can be written.
    fn check_writable(&self) -> io::Result<()> {
        match self {
            Self::File { path, .. } => check_directory_writable(parent(path)),
            Self::Stream => Ok(()),
        }
    }
}

fn is_separator(byte: &u8) -> bool {
    std::path::is_separator(char::from(*byte))
}

/// Returns whether a file can be written from any place: a pipe or a character device. A socket
/// cannot, and the content of a disk must not be replaced by a report.
#[cfg(unix)]
fn is_stream(meta: &Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    meta.file_type().is_fifo() || meta.file_type().is_char_device()
}

#[cfg(not(unix))]
fn is_stream(meta: &Metadata) -> bool {
    !meta.is_dir()
}

/// Writes a file next to `path` under the first free name, such as `NAME-2.json` or `NAME-2.json.gz`.
/// Returns its path.
fn write_next_to(path: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
    let write = |to: &mut dyn Write| to.write_all(bytes);
    let mut file = write_temp_file(parent(path), &write, None)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let packed = if name.ends_with(".gz") { ".gz" } else { "" };
    let plain = Path::new(name.strip_suffix(packed).unwrap_or_default());
    let stem = plain.file_stem().unwrap_or_default().to_string_lossy();
    let ending = plain.extension().map_or(String::new(), |e| format!(".{}", e.to_string_lossy()));
    let ending = ending + packed;
    for number in 2_u32.. {
        let free = path.with_file_name(format!("{stem}-{number}{ending}"));
        match persist_new(file, &free) {
            Ok(()) => return Ok(free),
            Err(e) if e.error.kind() == io::ErrorKind::AlreadyExists => file = e.file,
            Err(e) => return Err(e.error),
        }
    }
    unreachable!("there are fewer files than numbers")
}

/// Writes a complete temporary file to the disk, with the permissions of the existing file that it
/// replaces, if any.
fn write_temp_file(
    directory: &Path,
    contents: Contents<'_>,
    existing: Option<&Metadata>,
) -> io::Result<TempFile> {
    let mut temp = OpenTempFile::create(directory)?;
    let mut buffered = io::BufWriter::new(&mut temp.file);
    contents(&mut buffered).and_then(|()| buffered.flush()).map_err(strip_temp_path)?;
    drop(buffered);
    let file = temp.file.as_file();
    file.sync_all()?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // A temporary file is private; a report is as readable as any other file of its owner.
        let permissions =
            existing.map_or(std::fs::Permissions::from_mode(0o644), Metadata::permissions);
        // Some file systems have no permissions to set.
        let _ = file.set_permissions(permissions);
    }
    #[cfg(not(unix))]
    let _ = existing;
    // Closed: several files can be prepared with one descriptor.
    Ok(temp.close())
}
