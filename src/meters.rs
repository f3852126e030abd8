//! Finds the meters of running programs and reads them repeatedly.

use std::collections::{BTreeMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cli::exit::{self, usage};
use engine::measure::late_tick_log::AccountedTick;
use tickmeter::Snapshot;
use tickmeter::read::{self, Directory, DirectoryError, File, FileId, ReadError};

mod meter_clocks;
#[cfg(test)]
pub mod test_meter;
#[cfg(all(test, unix))]
mod tests;

pub use meter_clocks::MeterClocks;

/// Result of a poll.
#[derive(Debug, Default)]
pub struct MeterPoll {
    pub read: Vec<ReadMeter>,
    /// Meters that an earlier poll read and this one could not read, although their programs may
    /// still be running.
    pub unread: Vec<FileId>,
}

/// A meter that a poll read.
#[derive(Debug)]
pub struct ReadMeter {
    pub id: FileId,
    pub snapshot: Snapshot,
    /// Whether the file has appeared since the previous poll.
    pub is_new: bool,
}

/// Reads meter files and keeps them open between polls.
#[derive(Debug)]
pub struct MeterReader {
    paths: DirectoryPaths,
    max_files: usize,
    /// Directories at their last listing, by identity: several paths may lead to one.
    listings: BTreeMap<FileId, Listing>,
    /// Meters that are read.
    meters: BTreeMap<MeterPath, KnownMeter>,
    /// Paths of directories that the previous poll could not read; `None` before the first poll.
    unreadable: Option<Vec<PathBuf>>,
    faults: Vec<String>,
    /// Files that the last poll did not read because they are unreadable.
    unread: usize,
    /// Files that the last poll did not read because there are more than `max_files`.
    beyond_maximum: usize,
}

/// The directories to read.
#[derive(Debug)]
enum DirectoryPaths {
    ThisUser,
    AllUsers,
    #[cfg(all(test, unix))]
    Fixed(Vec<PathBuf>),
}

/// Files of a directory.
#[derive(Debug)]
struct Listing {
    path: PathBuf,
    /// Names in ascending order.
    names: Vec<OsString>,
}

/// Name of a file, and the identity of its directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct MeterPath {
    directory: FileId,
    name: OsString,
}

/// An open file of a meter.
#[derive(Debug)]
struct KnownMeter {
    id: FileId,
    file: File,
    is_new: bool,
    /// Whether a poll has read it.
    was_read: bool,
}

/// A file that is not open yet.
#[derive(Debug)]
struct Newcomer {
    path: MeterPath,
    is_new: bool,
}

/// Directories that were opened, and paths where this failed.
#[derive(Debug, Default)]
struct OpenedDirectories {
    opened: BTreeMap<FileId, Directory>,
    failed: Vec<PathBuf>,
}

/// Returns the late ticks of a meter after the one with the number `seen` that are not older than
/// `max_age`.
///
/// There are none if the last tick is in the future: then no clock is known that places them.
pub fn late_ticks(
    snapshot: &Snapshot,
    clocks: &MeterClocks,
    seen: u64,
    max_age: Duration,
) -> Vec<AccountedTick> {
    let mut ticks = Vec::new();
    let Some(age) = clocks.age(snapshot) else { return ticks };
    for tick in snapshot.late.iter().filter(|tick| tick.number > seen) {
        let ago = age.saturating_sub(tick.at);
        let wake = clocks.instant(ago).filter(|_| ago <= max_age);
        let due = wake.and_then(|wake| wake.checked_sub(tick.lateness));
        if let Some((wake, due)) = wake.zip(due) {
            ticks.push(AccountedTick { number: tick.number, due, wake, accounts: None });
        }
    }
    ticks
}

impl Listing {
    fn contains(&self, name: &OsString) -> bool {
        self.names.binary_search(name).is_ok()
    }
}

impl MeterReader {
    /// Creates a reader of this user's meters or those of all users, with at most `max_files`
    /// files.
    ///
    /// # Errors
    ///
    /// Returns an error if the meters of all users are requested and are not readable.
    pub fn new(all_users: bool, max_files: usize) -> exit::Result<Self> {
        let paths = if all_users { DirectoryPaths::AllUsers } else { DirectoryPaths::ThisUser };
        // Each meter is an open file, and this process has a few others.
        #[cfg(unix)]
        engine::machine::os::raise_descriptor_limit(max_files as u64 + 256);
        let reader = Self::with_paths(paths, max_files);
        let is_denied = |path: &PathBuf| match Directory::open_of_any_user(path) {
            Err(DirectoryError::Io(error)) => error.kind() == ErrorKind::PermissionDenied,
            _ => false,
        };
        match reader.paths.list().into_iter().find(is_denied) {
            Some(path) if all_users && !is_root() => {
                Err(usage!("--all needs root: cannot read {}", path.display()))
            }
            _ => Ok(reader),
        }
    }

    fn with_paths(paths: DirectoryPaths, max_files: usize) -> Self {
        Self {
            paths,
            max_files,
            listings: BTreeMap::new(),
            meters: BTreeMap::new(),
            unreadable: None,
            faults: Vec::new(),
            unread: 0,
            beyond_maximum: 0,
        }
    }

    /// Reads all meters except those of the given files, and removes the files of this user's
    /// processes that have ended.
    pub fn poll(&mut self, excluded: &[FileId]) -> MeterPoll {
        self.faults.clear();
        self.unread = 0;
        self.beyond_maximum = 0;
        self.forget_killed();
        let mut directories = self.open_directories();
        let newcomers = self.list_newcomers(&mut directories);
        self.forget_ended(&directories);
        self.open_newcomers(newcomers, &directories, excluded);
        self.unreadable = Some(directories.failed);
        self.read_meters(excluded)
    }

    /// Forgets the meters whose process has ended without removing them. A file that has the name
    /// of one by now is new.
    fn forget_killed(&mut self) {
        let listings = &mut self.listings;
        self.meters.retain(|path, meter| {
            let is_alive = meter.file.is_alive();
            if !is_alive && let Some(listing) = listings.get_mut(&path.directory) {
                listing.names.retain(|name| *name != path.name);
            }
            is_alive
        });
    }

    /// Opens the directories, and those of known meters even if they are no longer found.
    fn open_directories(&mut self) -> OpenedDirectories {
        let mut directories = OpenedDirectories::default();
        let mut paths = self.paths.list();
        paths.extend(self.listings.values().map(|listing| listing.path.clone()));
        let mut tried = Vec::new();
        for path in paths {
            if tried.contains(&path) {
                continue;
            }
            tried.push(path.clone());
            match self.paths.open(&path) {
                Ok(Some(directory)) => {
                    directories.opened.entry(directory.id()).or_insert(directory);
                }
                Ok(None) => {}
                Err(error) => {
                    self.report_directory(&path, &error);
                    // A directory whose meters are read was safe when they were opened.
                    let is_known = self.listings.values().any(|listing| listing.path == path);
                    if is_known || matches!(error, DirectoryError::Io(_)) {
                        directories.failed.push(path);
                    }
                }
            }
        }
        directories
    }

    fn report_directory(&mut self, path: &Path, error: &DirectoryError) {
        let is_for_all = matches!(error, DirectoryError::OtherOwner { .. }) && is_root();
        let remedy = if is_for_all { "; --all includes them" } else { "" };
        self.faults.push(format!("{} {error}: meters are left out{remedy}", path.display()));
    }

    /// Lists the opened directories, and returns the files that are not open yet.
    fn list_newcomers(&mut self, directories: &mut OpenedDirectories) -> Vec<Newcomer> {
        let mut newcomers = Vec::new();
        let OpenedDirectories { opened, failed } = directories;
        for (id, directory) in opened {
            let is_running = |name: &OsStr| {
                self.meters.contains_key(&MeterPath { directory: *id, name: name.to_owned() })
            };
            directory.sweep_except(is_running);
            match directory.file_names() {
                Ok(names) => newcomers.extend(self.update_listing(*id, directory.path(), names)),
                Err(error) => {
                    self.report_directory(directory.path(), &DirectoryError::Io(error));
                    failed.push(directory.path().to_owned());
                }
            }
        }
        newcomers
    }

    fn update_listing(
        &mut self,
        id: FileId,
        path: &Path,
        mut names: Vec<OsString>,
    ) -> Vec<Newcomer> {
        names.sort_unstable();
        let previous = self.listings.remove(&id);
        // The files of a directory that could not be read may be older than the previous poll.
        let is_complete =
            self.unreadable.as_ref().is_some_and(|paths| !paths.iter().any(|known| known == path));
        let mut newcomers = Vec::new();
        for name in &names {
            let path = MeterPath { directory: id, name: name.clone() };
            if !self.meters.contains_key(&path) {
                let was_listed = previous.as_ref().is_some_and(|last| last.contains(name));
                newcomers.push(Newcomer { path, is_new: is_complete && !was_listed });
            }
        }
        let listing = Listing { path: path.to_owned(), names };
        self.listings.insert(id, listing);
        newcomers
    }

    /// Forgets the meters whose files are gone. Those in a directory that could not be read may
    /// still exist.
    fn forget_ended(&mut self, directories: &OpenedDirectories) {
        let OpenedDirectories { opened, failed } = directories;
        self.listings.retain(|id, last| opened.contains_key(id) || failed.contains(&last.path));
        let listings = &self.listings;
        let is_listed = |path: &MeterPath| {
            listings.get(&path.directory).is_some_and(|last| last.contains(&path.name))
        };
        self.meters.retain(|path, _| is_listed(path));
    }

    /// Opens files up to the maximum. Meters that are read already are not displaced.
    fn open_newcomers(
        &mut self,
        newcomers: Vec<Newcomer>,
        directories: &OpenedDirectories,
        excluded: &[FileId],
    ) {
        let read = self.meters.values().filter(|meter| !excluded.contains(&meter.id)).count();
        let mut room = self.max_files.saturating_sub(read);
        let mut open_files: HashSet<FileId> = self.meters.values().map(|meter| meter.id).collect();
        for newcomer in newcomers {
            let Some(directory) = directories.opened.get(&newcomer.path.directory) else {
                continue;
            };
            if room == 0 {
                self.beyond_maximum += 1;
                continue;
            }
            match self.open_newcomer(newcomer, directory, &mut open_files) {
                Some(id) if excluded.contains(&id) => {}
                _ => room -= 1,
            }
        }
    }

    /// Opens a file, unless it is in `open_files` already, and returns its identity. Reports the
    /// reason if that fails.
    fn open_newcomer(
        &mut self,
        newcomer: Newcomer,
        directory: &Directory,
        open_files: &mut HashSet<FileId>,
    ) -> Option<FileId> {
        let Newcomer { path, is_new } = newcomer;
        let file = match directory.file(&path.name) {
            Ok(file) => file,
            Err(error) => {
                self.report_file(&path, &error);
                return None;
            }
        };
        let id = file.id()?;
        // A file may have several names.
        if open_files.insert(id) {
            self.meters.insert(path, KnownMeter { id, file, is_new, was_read: false });
        }
        Some(id)
    }

    fn report_file(&mut self, path: &MeterPath, error: &ReadError) {
        // The process has ended since its file was listed.
        let is_gone = matches!(error, ReadError::Io(error) if error.kind() == ErrorKind::NotFound);
        if let Some(listing) = self.listings.get(&path.directory).filter(|_| !is_gone) {
            self.faults.push(format!("{} {error}", listing.path.join(&path.name).display()));
            self.unread += 1;
        }
    }

    fn read_meters(&mut self, excluded: &[FileId]) -> MeterPoll {
        let mut poll = MeterPoll::default();
        for (path, mut meter) in std::mem::take(&mut self.meters) {
            if excluded.contains(&meter.id) {
                self.meters.insert(path, meter);
                continue;
            }
            match meter.file.snapshot() {
                Ok(snapshot) => {
                    let is_new = meter.is_new && !meter.was_read;
                    poll.read.push(ReadMeter { id: meter.id, snapshot, is_new });
                    meter.was_read = true;
                    self.meters.insert(path, meter);
                }
                Err(error) => {
                    self.report_file(&path, &error);
                    let is_temporary = matches!(error, ReadError::Io(_) | ReadError::Torn);
                    if meter.was_read && is_temporary {
                        poll.unread.push(meter.id);
                        self.meters.insert(path, meter);
                    }
                }
            }
        }
        poll
    }

    /// Returns a message for each file or directory that could not be read at the last poll.
    pub fn faults(&self) -> &[String] {
        &self.faults
    }

    /// Returns the number of files that the last poll did not read because there are too many.
    pub fn beyond_maximum(&self) -> usize {
        self.beyond_maximum
    }

    /// Returns the number of files that the last poll did not read: those beyond the maximum, and
    /// unreadable ones. A directory that could not be read counts as one.
    pub fn left_out(&self) -> usize {
        self.beyond_maximum + self.unread + self.unread_directories()
    }

    /// Returns the number of directories that the last poll could not read.
    pub fn unread_directories(&self) -> usize {
        self.unreadable.as_ref().map_or(0, Vec::len)
    }
}

impl DirectoryPaths {
    fn list(&self) -> Vec<PathBuf> {
        match self {
            Self::ThisUser => read::directories(),
            Self::AllUsers => read::directories_of_all_users(),
            #[cfg(all(test, unix))]
            Self::Fixed(paths) => paths.clone(),
        }
    }

    fn open(&self, path: &Path) -> Result<Option<Directory>, DirectoryError> {
        match self {
            Self::AllUsers => Directory::open_of_any_user(path),
            _ => Directory::open(path),
        }
    }
}

#[cfg(unix)]
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(not(unix))]
fn is_root() -> bool {
    false
}
