//! The files of a log as they are in its directory: which exist, in which order they were written,
//! and how they are removed.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::monitor::log::file_name::{ENDINGS, flight_stem, is_day, place, stem_of};

/// A flight record and its interval.
#[derive(Debug)]
pub struct LoggedFlight {
    pub interval: LoggedInterval,
    pub path: PathBuf,
}

/// The files of an interval: their directory, and their common name without the ending.
#[derive(Debug, PartialEq, Eq)]
pub struct LoggedInterval {
    pub directory: PathBuf,
    pub stem: String,
}

impl LoggedInterval {
    pub fn path(&self) -> PathBuf {
        self.directory.join(&self.stem)
    }

    /// Returns whether the interval began after `now`, which has the format of a file's name.
    fn is_after(&self, now: &str) -> bool {
        let stamp = self.stem.rsplit('.').next();
        stamp.and_then(|stamp| stamp.get(..now.len())).is_some_and(|stamp| stamp > now)
    }

    /// Removes all files, and the day if it is then empty.
    ///
    /// # Errors
    ///
    /// Returns an error if a file remains.
    pub fn remove(&self) -> Result<(), RemovalError> {
        let mut result = Ok(());
        // The file that completes the interval goes first.
        for ending in ENDINGS.iter().rev() {
            let path = self.directory.join(format!("{}.{ending}", self.stem));
            result = remove_existing(&path).and(result);
        }
        for name in sorted_names(&self.directory).unwrap_or_default() {
            if flight_stem(&name) == Some(&self.stem) {
                result = remove_existing(&self.directory.join(name)).and(result);
            }
        }
        // Fails unless the directory is empty.
        let _ = std::fs::remove_dir(&self.directory);
        result
    }
}

/// Removes a file, unless another monitor of this host has removed it already.
pub fn remove_existing(path: &Path) -> Result<(), RemovalError> {
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(RemovalError { path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

/// An old file that could not be removed.
#[derive(Debug, thiserror::Error)]
#[error("cannot remove {path}: {source}")]
pub struct RemovalError {
    path: PathBuf,
    source: io::Error,
}

/// Returns the intervals of a host in the directory of a log, in the order of their dates.
pub fn list_intervals(log: &Path, host: &str) -> io::Result<Vec<LoggedInterval>> {
    let mut intervals = Vec::new();
    for (directory, names) in names_by_day(log, host)? {
        let mut stems: Vec<&str> = names.iter().filter_map(|name| stem_of(name)).collect();
        stems.dedup();
        let logged =
            |stem: &str| LoggedInterval { directory: directory.clone(), stem: stem.to_owned() };
        intervals.extend(stems.into_iter().map(logged));
    }
    Ok(intervals)
}

/// Returns the flight records of a host in the directory of a log, in the order of their dates.
pub fn list_flights(log: &Path, host: &str) -> io::Result<Vec<LoggedFlight>> {
    let mut flights = Vec::new();
    for (directory, names) in names_by_day(log, host)? {
        for name in &names {
            let Some(stem) = flight_stem(name) else { continue };
            let interval = LoggedInterval { directory: directory.clone(), stem: stem.to_owned() };
            flights.push(LoggedFlight { interval, path: directory.join(name) });
        }
    }
    Ok(flights)
}

/// Returns the directories of the days, each with the names of a host's files, in the order of their
/// intervals. Other files are left out.
fn names_by_day(log: &Path, host: &str) -> io::Result<Vec<(PathBuf, Vec<String>)>> {
    let mut days = Vec::new();
    for day in day_names(log)? {
        let directory = log.join(&day);
        let prefix = format!("{host}.{}T", day.replace('-', ""));
        match sorted_names(&directory) {
            Ok(mut names) => {
                names.retain(|name| name.starts_with(&prefix) && place(name).is_some());
                names.sort_by(|a, b| place(a).cmp(&place(b)));
                days.push((directory, names));
            }
            // Another monitor of this host has removed the day, since it was empty.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
    }
    Ok(days)
}

/// Sorts what is sorted by date by the time at which it was written: by date, unless some dates are
/// in the future. The clock has then gone back, and `written`, of this monitor, is the newest. In
/// either case, what this monitor wrote last is the last. Returns the latest interval with a date
/// in the future.
pub fn sort_by_writing<T>(
    logged: &mut [T],
    interval: impl Fn(&T) -> &LoggedInterval,
    written: &[LoggedInterval],
    now: SystemTime,
) -> Option<PathBuf> {
    let now = humantime::format_rfc3339_seconds(now).to_string().replace([':', '-'], "");
    let future = logged.iter().map(&interval).rfind(|interval| interval.is_after(&now));
    let future = future.map(LoggedInterval::path);
    let newest = match future {
        Some(_) => written,
        None => &written[written.len().saturating_sub(1)..],
    };
    logged.sort_by_key(|logged| newest.iter().position(|own| own == interval(logged)));
    future
}

fn sorted_names(directory: &Path) -> io::Result<Vec<String>> {
    let entries = std::fs::read_dir(directory)?.flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    Ok(names)
}

/// Returns the names of the days' directories, sorted. Links are left out, since their targets may
/// not be part of the log.
pub fn day_names(directory: &Path) -> io::Result<Vec<String>> {
    let mut names = sorted_names(directory)?;
    names.retain(|name| is_day(name) && is_directory(&directory.join(name)));
    Ok(names)
}

fn is_directory(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

/// Checks that there is a directory at a path, and not a link to one.
pub fn check_is_directory(path: &Path) -> io::Result<()> {
    match is_directory(path) {
        true => Ok(()),
        false => Err(io::ErrorKind::NotADirectory.into()),
    }
}
