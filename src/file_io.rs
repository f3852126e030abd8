//! Files: one way to read any of them, ours or another tool's, one way to write, and one way to
//! declare our own.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cli::exit::{Error, Result, strip_temp_path, usage};
use cli::position::format_position;
use engine::machine::os;

use crate::picture::canvas::Picture;

/// A file larger than this is not read, whatever memory there is: it holds some hundred million
/// ticks, and no view of a report is of use beyond that.
pub const MAX_FILE: u64 = 1 << 30;
/// Memory that a byte of a file can become. The worst is a map of short names, at some 13 times its
/// size; a tick is 8 bytes for at least 2. The largest file that is read is this fraction of the
/// memory there is.
const MEMORY_PER_BYTE: u64 = 16;
/// Memory there is, where the platform does not report it.
const ASSUMED_MEMORY: u64 = 4 << 30;

/// What a directory stands for: the report of a run in it, jitterdebugger's results, what was
/// found, or the verdict of a gate.
const IN_A_DIRECTORY: [&str; 4] = ["report.json", "results.json", "find.json", "verdict.json"];

/// The file that a path names: itself, or the report in that directory.
pub fn resolved(path: &Path) -> PathBuf {
    let mut inside = IN_A_DIRECTORY.iter().map(|name| path.join(name));
    inside.find(|file| file.is_file()).unwrap_or_else(|| path.to_path_buf())
}

/// Reads the text of a file, gzip or plain, without its byte order mark.
///
/// # Errors
/// The file cannot be read, is larger than memory allows, or is not UTF-8; the message names it.
pub fn read_text(file: &Path) -> Result<String> {
    let most = largest();
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
        let fits =
            if bytes.len() as u64 > most { Err(too_large("larger", most)) } else { Ok(bytes) };
        fits.and_then(|bytes| inflated(bytes, most)).and_then(decoded)
    };
    text.map_err(|e| e.context(file.display()))
}

/// The most bytes of text that are read.
fn largest() -> u64 {
    MAX_FILE.min(os::available_memory().unwrap_or(ASSUMED_MEMORY) / MEMORY_PER_BYTE)
}

/// Reads a file of ours.
pub fn read<T: files::file::File>(file: &Path) -> Result<T> {
    T::from_json(&read_text(file)?).map_err(|e| usage!("{}: {e}", file.display()))
}

fn too_large(size: &str, most: u64) -> Error {
    let most = most >> 20;
    usage!(
        "is {size}, and at most {most} MiB are read: a file takes up to {MEMORY_PER_BYTE} times its size in memory"
    )
}

/// Compresses what is written.
pub fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// What a file holds, compressed or not.
fn inflated(bytes: Vec<u8>, most: u64) -> Result<Vec<u8>> {
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(bytes);
    }
    let mut inflated = Vec::new();
    let reader = flate2::read::MultiGzDecoder::new(bytes.as_slice());
    reader.take(most + 1).read_to_end(&mut inflated).map_err(|e| usage!("is damaged gzip: {e}"))?;
    if inflated.len() as u64 > most {
        Err(too_large("larger when it is unpacked", most))
    } else {
        Ok(inflated)
    }
}

/// What the bytes of a file are as text, without its byte order mark.
pub fn decoded(mut bytes: Vec<u8>) -> Result<String> {
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

/// The directory of a command's files, proved writable before anything is measured.
pub struct Directory {
    directory: PathBuf,
}

/// What commands write into their directory: nothing else may stand in the place of these.
const RESULTS: [&str; 6] =
    ["report.json", "report.html", "verdict.json", "find.json", "flight.json", "timers.csv"];

impl Directory {
    /// The directory that was asked for, or a fresh one below `results`, named by the time of the
    /// start. It is made when there is something to put into it.
    pub fn open(asked: Option<&Path>, stamp: &str) -> Result<Self> {
        let directory = match asked {
            Some(path) => path.to_path_buf(),
            None => free_name(Path::new("results"), &stamp.replace([':', '-'], "")),
        };
        let proved = if directory.exists() {
            try_writing(&directory)
        } else {
            let parent = parent(&directory);
            std::fs::create_dir_all(parent).and_then(|()| stage(parent)).map(drop)
        };
        let another = "choose another directory with --out; nothing was run";
        proved.map_err(|e| usage!("cannot write to {}: {e}; {another}", directory.display()))?;
        let taken = RESULTS.iter().map(|name| directory.join(name)).find(|file| {
            let found = std::fs::symlink_metadata(file);
            found.is_ok_and(|found| !found.is_file())
        });
        match taken {
            Some(file) => Err(usage!(
                "{} is a link or no file, and is not written to; {another}",
                file.display()
            )),
            None => Ok(Self { directory }),
        }
    }

    /// Puts one file into it.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        self.place(&[(name, text)])?;
        Ok(self.path(name))
    }

    /// Where a file of it is.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Puts several files into it, the last one last. A directory that is not there yet appears
    /// with all of them; in one that is there, they replace those of their names once all of them
    /// are written.
    pub fn place(&self, files: &[(&str, &str)]) -> Result<()> {
        let failed = |e: io::Error| {
            Error::measure(format!("cannot write to {}: {e}", self.directory.display()))
        };
        let stage = if self.directory.exists() {
            None
        } else {
            Some(stage(parent(&self.directory)).map_err(failed)?)
        };
        if let Some(stage) = stage {
            replace(stage.path(), files).map_err(failed)?;
            match std::fs::rename(stage.path(), &self.directory) {
                Ok(()) => {
                    // It is no longer where it was made, so there is nothing to clean up.
                    let _ = stage.keep();
                    return Ok(());
                }
                // Somebody else has made the directory meanwhile.
                Err(_) if self.directory.exists() => {}
                Err(e) => return Err(failed(e)),
            }
        }
        replace(&self.directory, files).map_err(failed)
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A directory that becomes another one by its name, as readable as any other.
fn stage(parent: &Path) -> io::Result<tempfile::TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".osjitter-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o777));
    }
    builder.tempdir_in(parent).map_err(strip_temp_path)
}

/// What writes a file: a text, or as it comes, for what is larger than a buffer should be.
pub type Contents<'a> = &'a dyn Fn(&mut dyn Write) -> io::Result<()>;

/// Texts into files of a directory that is there, as [`replace_with`] does it.
pub fn replace(directory: &Path, files: &[(&str, &str)]) -> io::Result<()> {
    let texts: Vec<_> = files
        .iter()
        .map(|(_, text)| move |to: &mut dyn Write| to.write_all(text.as_bytes()))
        .collect();
    let all: Vec<(&str, Contents<'_>)> =
        files.iter().zip(&texts).map(|((name, _), text)| (*name, text as Contents<'_>)).collect();
    replace_with(directory, &all)
}

/// Files into a directory that is there, the last one last: writes all, then renames all.
pub fn replace_with(directory: &Path, files: &[(&str, Contents<'_>)]) -> io::Result<()> {
    let written = |(name, contents): &(&str, Contents<'_>)| {
        let file = directory.join(name);
        let there = std::fs::symlink_metadata(&file).ok().filter(std::fs::Metadata::is_file);
        Ok((temporary(directory, contents, there.as_ref())?, file))
    };
    let written = files.iter().map(written).collect::<io::Result<Vec<_>>>()?;
    written
        .into_iter()
        .try_for_each(|(temporary, file)| temporary.persist(file).map(drop).map_err(|e| e.error))
}

/// Refuses a file that could not be written in the end.
pub fn prove_writable(file: &Path) -> Result<()> {
    let probe = if file.is_dir() {
        Err(io::ErrorKind::IsADirectory.into())
    } else {
        try_writing(parent(file))
    };
    probe.map_err(|e| {
        usage!("cannot write {}: {e}; choose another place; nothing was run", file.display())
    })
}

/// Whether files can be made in a directory.
pub fn try_writing(directory: &Path) -> io::Result<()> {
    nameless(directory).map(drop)
}

/// A temporary file, empty.
fn nameless(directory: &Path) -> io::Result<tempfile::NamedTempFile> {
    let [prefix, suffix] = UNDER_WAY;
    tempfile::Builder::new()
        .prefix(prefix)
        .suffix(suffix)
        .tempfile_in(directory)
        .map_err(strip_temp_path)
}

/// How the name of a file begins and ends until it is whole.
const UNDER_WAY: [&str; 2] = [".osjitter-", ".tmp"];
/// No file is under way for so long: what is older was left by a process that was killed.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Removes what killed processes have left in a directory of files that were under way.
pub fn sweep(directory: &Path) {
    let [prefix, suffix] = UNDER_WAY;
    let is_abandoned = |entry: &std::fs::DirEntry| {
        let name = entry.file_name();
        let ours =
            name.to_str().is_some_and(|name| name.starts_with(prefix) && name.ends_with(suffix));
        let age = || {
            entry
                .metadata()
                .ok()
                .filter(std::fs::Metadata::is_file)?
                .modified()
                .ok()?
                .elapsed()
                .ok()
        };
        ours && age().is_some_and(|age| age > ABANDONED)
    };
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten().filter(is_abandoned) {
        // Somebody else may have been faster, and what cannot be removed does no harm.
        let _ = std::fs::remove_file(entry.path());
    }
}

/// A directory that is not there yet: two runs of one second do not share one.
fn free_name(parent: &Path, name: &str) -> PathBuf {
    let candidates = (1_u32..)
        .map(|n| if n == 1 { parent.join(name) } else { parent.join(format!("{name}-{n}")) });
    candidates.into_iter().find(|path| !path.exists()).expect("the counter does not run out")
}

/// A command's result: to the file that was asked for, or to standard output.
pub fn deliver(result: impl AsRef<[u8]>, out: Option<&Path>) -> Result<()> {
    let bytes = result.as_ref();
    match out {
        None => io::stdout().write_all(bytes).map_err(Error::from_stdout),
        Some(file) => write_atomically(file, bytes).map_err(|e| Error::unwritable(file, &e)),
    }
}

/// A command's pictures, into the directory that was asked for.
pub fn deliver_pictures(pictures: &[Picture], directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory).map_err(|e| Error::unwritable(directory, &e))?;
    let file = |picture: &Picture| (directory.join(&picture.name), picture.svg.as_bytes().to_vec());
    deliver_all(&pictures.iter().map(file).collect::<Vec<_>>())
}

/// A result of several files, the last one last: none is replaced before all are written.
pub fn deliver_all(files: &[(PathBuf, Vec<u8>)]) -> Result<()> {
    let mut prepared = Vec::new();
    for (path, bytes) in files {
        prepared.push(Replacement::prepare(path, bytes).map_err(|e| Error::unwritable(path, &e))?);
    }
    files
        .iter()
        .zip(prepared)
        .try_for_each(|((path, _), file)| file.put().map_err(|e| Error::unwritable(path, &e)))
}

/// Writes a file that is not there yet, whole or not at all.
pub fn write_new(file: &Path, text: &[u8]) -> Result<()> {
    let there = || usage!("{} is there already; choose another name, or remove it", file.display());
    // Also a link that leads nowhere.
    if std::fs::symlink_metadata(file).is_ok() {
        return Err(there());
    }
    let failed = |e: io::Error| Error::measure(format!("cannot write {}: {e}", file.display()));
    temporary(parent(file), &|to| to.write_all(text), None)
        .map_err(failed)?
        .persist_noclobber(file)
        .map(drop)
        .map_err(|e| match e.error.kind() {
            io::ErrorKind::AlreadyExists => there(),
            _ => failed(e.error),
        })
}

/// Writes a file whole or not at all: into a temporary one beside it, then renamed.
///
/// A link is followed, and the file behind it replaced; a file that is there keeps its permissions.
pub fn write_atomically(path: &Path, text: &[u8]) -> io::Result<()> {
    Replacement::prepare(path, text)?.put()
}

/// What is to stand where a file is, or where none is yet.
enum Replacement<'a> {
    Renamed(tempfile::NamedTempFile, PathBuf),
    /// What is no regular file, a pipe or a device, cannot be replaced and is written to.
    Written(&'a Path, &'a [u8]),
}

impl<'a> Replacement<'a> {
    fn prepare(path: &'a Path, text: &'a [u8]) -> io::Result<Self> {
        let there = match std::fs::metadata(path) {
            Ok(meta) if meta.is_dir() => {
                return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory"));
            }
            Ok(meta) if !meta.is_file() => return Ok(Self::Written(path, text)),
            Ok(meta) => Some(meta),
            Err(_) => None,
        };
        let target =
            if there.is_some() { std::fs::canonicalize(path)? } else { path.to_path_buf() };
        Ok(Self::Renamed(
            temporary(parent(&target), &|to| to.write_all(text), there.as_ref())?,
            target,
        ))
    }

    fn put(self) -> io::Result<()> {
        match self {
            Self::Renamed(file, target) => file.persist(target).map(drop).map_err(|e| e.error),
            Self::Written(path, text) => {
                std::fs::OpenOptions::new().write(true).open(path)?.write_all(text)
            }
        }
    }
}

/// A file that is complete on the disk, to be renamed to the one that is there, if any.
fn temporary(
    directory: &Path,
    contents: Contents<'_>,
    there: Option<&std::fs::Metadata>,
) -> io::Result<tempfile::NamedTempFile> {
    let mut file = nameless(directory)?;
    let mut buffered = io::BufWriter::new(&mut file);
    contents(&mut buffered).and_then(|()| buffered.flush()).map_err(strip_temp_path)?;
    drop(buffered);
    file.as_file().sync_all()?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // A temporary file is private; a report is as readable as any other file of its owner.
        let permissions =
            there.map_or(std::fs::Permissions::from_mode(0o644), std::fs::Metadata::permissions);
        // Where it cannot be changed, as on file systems that have none, it stays as it is.
        let _ = file.as_file().set_permissions(permissions);
    }
    #[cfg(not(unix))]
    let _ = there;
    Ok(file)
}

/// Structs that are written as JSON, refuse unknown fields, and are in a published JSON Schema.
macro_rules! model {
    ($($(#[$meta:meta])* pub struct $name:ident { $($(#[$fmeta:meta])* pub $field:ident: $ty:ty,)* })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        #[serde(deny_unknown_fields)]
        pub struct $name { $($(#[$fmeta])* pub $field: $ty,)* }
    )*};
}

pub(crate) use model;

/// Holds a model against its published schema, which is written anew where
/// `OSJITTER_UPDATE_SCHEMA` is set.
#[cfg(test)]
pub fn check_schema(name: &str, schema: &serde_json::Value) {
    const UPDATE: &str = "OSJITTER_UPDATE_SCHEMA";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("lib/internal/files/schema").join(name);
    let schema = serde_json::to_string_pretty(schema).unwrap() + "\n";
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, &schema).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    assert!(
        committed == schema,
        "the model of {name} has changed: run with {UPDATE}=1 and read the difference"
    );
}
