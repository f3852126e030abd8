//! The files that programs open below some directories, on Linux.
//!
//! Two runs of one program are equal if their files are. The kernel reports each file that a process
//! opens in a watched directory, also if a child of the program opens it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Names of directories whose content is not watched, because only cargo reads it.
const LEFT_OUT: [&str; 2] = [".fingerprint", "incremental"];
/// Maximum number of watched directories. Many systems allow a user 8192 of them.
const MAX_DIRECTORIES: usize = 8_000;

/// A watch of directories and of all that are below them.
pub struct OpenedFilesWatch {
    watch: imp::DirectoryWatch,
    /// All links in the directories. Whether a file was opened through one of them is not reported.
    links: BTreeSet<PathBuf>,
}

impl OpenedFilesWatch {
    /// Starts to watch directories, but not those below them that are in `excluded`.
    ///
    /// Returns `None` if the system cannot report opened files, or not in so many directories.
    pub fn start(roots: &[&Path], excluded: &[&Path]) -> Option<Self> {
        let (mut directories, mut links) = (Vec::new(), BTreeSet::new());
        for root in roots {
            add_directories(root, excluded, &mut directories, &mut links)?;
        }
        let mut watch = imp::DirectoryWatch::start(&directories)?;
        // Some file systems accept watches and report nothing.
        let probe = directories.first()?;
        std::fs::read_dir(probe).ok()?;
        watch.read_opened()?.contains(probe).then_some(Self { watch, links })
    }

    /// Returns the files and directories that were opened since the start, and all links; `None` if
    /// more were opened than the kernel keeps.
    pub fn finish(mut self) -> Option<BTreeSet<PathBuf>> {
        let mut opened = self.watch.read_opened()?;
        opened.extend(self.links);
        Some(opened)
    }
}

/// Adds a directory and those below it, and the links in them, without following these. Returns `None`
/// if the directories are too many or cannot be read.
fn add_directories(
    directory: &Path,
    excluded: &[&Path],
    directories: &mut Vec<PathBuf>,
    links: &mut BTreeSet<PathBuf>,
) -> Option<()> {
    directories.push(directory.to_owned());
    if directories.len() > MAX_DIRECTORIES {
        return None;
    }
    for entry in std::fs::read_dir(directory).ok()? {
        let entry = entry.ok()?;
        let path = entry.path();
        let is_left_out = LEFT_OUT.iter().any(|name| entry.file_name() == *name);
        if is_left_out || excluded.contains(&path.as_path()) {
            continue;
        }
        let file_type = entry.file_type().ok()?;
        if file_type.is_dir() {
            add_directories(&path, excluded, directories, links)?;
        } else if file_type.is_symlink() {
            links.insert(path);
        }
    }
    Some(())
}

#[cfg(target_os = "linux")]
mod imp {
    use std::collections::{BTreeSet, HashMap};
    use std::ffi::OsStr;
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::os::unix::ffi::OsStrExt;
    use std::path::PathBuf;

    use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
    use rustix::io::Errno;

    /// Size of the buffer for events. The longest event has a name of 255 bytes.
    const BUFFER_BYTES: usize = 16 << 10;

    pub struct DirectoryWatch {
        events: OwnedFd,
        directories: HashMap<i32, PathBuf>,
    }

    impl DirectoryWatch {
        pub fn start(directories: &[PathBuf]) -> Option<Self> {
            let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
            let flags = WatchFlags::OPEN | WatchFlags::ONLYDIR;
            let mut watched = HashMap::new();
            for directory in directories {
                let id = inotify::add_watch(&events, directory, flags).ok()?;
                watched.insert(id, directory.clone());
            }
            Some(Self { events, directories: watched })
        }

        /// Returns what was opened since the last call.
        pub fn read_opened(&mut self) -> Option<BTreeSet<PathBuf>> {
            let mut buffer = [MaybeUninit::<u8>::uninit(); BUFFER_BYTES];
            let mut reader = Reader::new(&self.events, &mut buffer);
            let mut opened = BTreeSet::new();
            loop {
                let event = match reader.next() {
                    Ok(event) => event,
                    Err(Errno::AGAIN) => return Some(opened),
                    Err(_) => return None,
                };
                if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                    return None;
                }
                let Some(directory) = self.directories.get(&event.wd()) else { continue };
                let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
                opened.insert(name.map_or(directory.clone(), |name| directory.join(name)));
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    pub struct DirectoryWatch;

    impl DirectoryWatch {
        pub fn start(_: &[PathBuf]) -> Option<Self> {
            None
        }

        pub fn read_opened(&mut self) -> Option<BTreeSet<PathBuf>> {
            None
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn opened_files_are_reported() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        for directory in ["data", "data/deep", ".git", "target"] {
            std::fs::create_dir(path(directory)).unwrap();
        }
        let files = ["a", "data/deep/b", "data/c", ".git/d", "target/e"];
        for file in files {
            std::fs::write(path(file), file).unwrap();
        }
        std::os::unix::fs::symlink(path("a"), path("link")).unwrap();
        let watch = OpenedFilesWatch::start(&[home.path()], &[&path("target")]).unwrap();
        let mut cat = std::process::Command::new("cat");
        cat.args(["link", "data/deep/b", ".git/d", "target/e"]).current_dir(home.path());
        assert!(cat.output().unwrap().status.success());
        std::fs::read_dir(path("data")).unwrap();
        let expected = [".git/d", "a", "data", "data/deep/b", "link"].map(path);
        assert_eq!(watch.finish().unwrap(), BTreeSet::from(expected));
        assert!(OpenedFilesWatch::start(&[&path("absent")], &[]).is_none());
    }
}
