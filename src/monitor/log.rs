//! Interval files of the monitor: a pair per interval, in a directory per day. A pair is written
//! completely or not at all.

mod file_name;
mod logged_files;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cli::exit::{self, Error, usage};
use cli::file_io;
use cli::file_io::Contents;
use files::bins::{self, Interval};

use crate::monitor::log::file_name::{DAY_LEN, ENDINGS, FLIGHT_PREFIX, check_lengths, plain_name};
use crate::monitor::log::logged_files::{
    LoggedInterval, check_is_directory, day_names, list_flights, list_intervals, remove_existing,
    sort_by_writing,
};

/// Maximum number of flight records of a host. They are removed with their intervals, or earlier:
/// each has up to 5 MB, and intervals may be kept without end.
const MAX_FLIGHTS: usize = 100;

#[derive(Debug)]
pub struct Log {
    directory: PathBuf,
    /// Name of the machine, as part of a file's name.
    host: String,
    /// Maximum number of intervals to keep, if there is one.
    max_intervals: Option<usize>,
    /// Intervals that this monitor wrote, oldest first, as long as others have dates in the future.
    written: Vec<LoggedInterval>,
    /// The last intervals with flight records that this monitor wrote, oldest first.
    written_flights: Vec<LoggedInterval>,
    /// Warnings about the removal of old files, of which each is given once.
    warnings: Vec<String>,
}

impl Log {
    /// Opens a directory, and creates it if it does not exist.
    ///
    /// # Errors
    ///
    /// Returns an error if the directory is not writable, or that of the current day in it.
    pub fn open(directory: &Path, host: &str, max_intervals: Option<usize>) -> exit::Result<Self> {
        let unwritable = |directory: &Path, e: io::Error| {
            let message = format!("cannot write to {}: {e}", directory.display());
            Error::unusable_output(&e, message, "choose another directory with --log")
        };
        std::fs::create_dir_all(directory)
            .and_then(|()| file_io::check_directory_writable(directory))
            .map_err(|e| unwritable(directory, e))?;
        let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let today = directory.join(&now[..DAY_LEN]);
        if today.symlink_metadata().is_ok() {
            check_is_directory(&today)
                .and_then(|()| file_io::check_directory_writable(&today))
                .map_err(|e| unwritable(&today, e))?;
        }
        for day in day_names(directory).map_err(|e| unwritable(directory, e))? {
            file_io::remove_abandoned_files(&directory.join(day));
        }
        let host = plain_name(host);
        let too_long = |e| {
            usage!(
                "cannot name files in {} after {host:?}: {e}; use a shorter --host or --log",
                directory.display()
            )
        };
        check_lengths(directory, &host).map_err(too_long)?;
        let directory = directory.to_owned();
        Ok(Self {
            directory,
            host,
            max_intervals,
            written: Vec::new(),
            written_flights: Vec::new(),
            warnings: Vec::new(),
        })
    }

    /// Writes an interval that began at `start` (RFC 3339 in UTC with microseconds), and its
    /// breaches if there are any. Returns the common path of its files, without their endings.
    pub fn write(
        &mut self,
        start: &str,
        rows: &[Interval],
        breaches: Option<&str>,
    ) -> io::Result<PathBuf> {
        let (day, time) = start.split_at_checked(DAY_LEN).ok_or(io::ErrorKind::InvalidInput)?;
        let directory = self.directory.join(day);
        let seconds: String = time.chars().filter(char::is_ascii_digit).take(6).collect();
        let stem = format!("{}.{}T{seconds}Z", self.host, day.replace('-', ""));
        create_day(&directory)?;
        let stem = match write_interval(&directory, &stem, rows, breaches) {
            // Another monitor of this host has removed the day, since it was empty.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                create_day(&directory)?;
                write_interval(&directory, &stem, rows, breaches)?
            }
            written => written?,
        };
        let interval = LoggedInterval { directory, stem };
        let path = interval.path();
        self.written.push(interval);
        Ok(path)
    }

    /// Writes the flight record number `n` of an interval next to its other files, and returns its
    /// path.
    pub fn write_flight(&mut self, interval: &Path, n: usize, json: &str) -> io::Result<PathBuf> {
        let (Some(directory), Some(stem)) = (interval.parent(), interval.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let stem = stem.to_string_lossy().into_owned();
        let ending = format!("{FLIGHT_PREFIX}{n}.json");
        let files: [(&str, Contents<'_>); 1] = [(&ending, &|to| to.write_all(json.as_bytes()))];
        file_io::write_new_files(directory, [stem.clone()], &files)?;
        let path = directory.join(format!("{stem}.{ending}"));
        let interval = LoggedInterval { directory: directory.to_owned(), stem };
        if self.written_flights.last() != Some(&interval) {
            self.written_flights.push(interval);
            let excess = self.written_flights.len().saturating_sub(MAX_FLIGHTS);
            self.written_flights.drain(..excess);
        }
        Ok(path)
    }

    /// Removes the flight records of this host that were written first, beyond the maximum. Returns
    /// warnings that were not given before.
    pub fn remove_old_flights(&mut self, now: SystemTime) -> Vec<String> {
        let warnings = match list_flights(&self.directory, &self.host) {
            Ok(mut flights) => {
                sort_by_writing(
                    &mut flights,
                    |flight| &flight.interval,
                    &self.written_flights,
                    now,
                );
                let excess = flights.len().saturating_sub(MAX_FLIGHTS);
                let failures =
                    flights[..excess].iter().filter_map(|old| remove_existing(&old.path).err());
                failures.map(|error| error.to_string()).collect()
            }
            Err(e) => vec![format!("cannot list {}: {e}", self.directory.display())],
        };
        self.retain_new_warnings(warnings)
    }

    /// Removes the intervals of this host that were written first, beyond the maximum, and days
    /// that are then empty. Returns warnings that were not given before.
    pub fn remove_old_intervals(&mut self, now: SystemTime) -> Vec<String> {
        let Some(max_intervals) = self.max_intervals else {
            self.written.clear();
            return Vec::new();
        };
        let mut warnings = Vec::new();
        match list_intervals(&self.directory, &self.host) {
            Ok(mut intervals) => {
                let future =
                    sort_by_writing(&mut intervals, |interval| interval, &self.written, now);
                match future {
                    Some(future) => warnings.push(warn_of_future(&future)),
                    None => self.written.clear(),
                }
                let excess = intervals.len().saturating_sub(max_intervals);
                let failures = intervals[..excess].iter().filter_map(|old| old.remove().err());
                warnings.extend(failures.map(|error| error.to_string()));
            }
            Err(e) => warnings.push(format!("cannot list {}: {e}", self.directory.display())),
        }
        self.retain_new_warnings(warnings)
    }

    /// Returns the warnings that were not given before.
    fn retain_new_warnings(&mut self, mut warnings: Vec<String>) -> Vec<String> {
        warnings.retain(|warning| !self.warnings.contains(warning));
        self.warnings.extend_from_slice(&warnings);
        warnings
    }
}

fn warn_of_future(interval: &Path) -> String {
    format!(
        "the clock has gone back: {} has a date in the future; --keep counts it as older than the intervals written from now on",
        interval.display()
    )
}

/// Creates the directory of a day. The directory above is not created: if it has vanished, its disk
/// may be unmounted, and a new directory would hide the mount point.
fn create_day(directory: &Path) -> io::Result<()> {
    match std::fs::create_dir(directory) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => check_is_directory(directory),
        created => created,
    }
}

/// Writes the files of an interval under the first name that no other monitor takes, and returns
/// this name.
fn write_interval(
    directory: &Path,
    stem: &str,
    rows: &[Interval],
    breaches: Option<&str>,
) -> io::Result<String> {
    let text = breaches.unwrap_or_default();
    let [intervals_ending, breaches_ending, bins_ending] = ENDINGS;
    // The bins of a busy host are megabytes. They are streamed, since a monitor would keep the
    // memory of a buffer.
    let files: [(&str, Contents<'_>); 3] = [
        (intervals_ending, &|to| to.write_all(bins::intervals_csv(rows).as_bytes())),
        (breaches_ending, &|to| to.write_all(text.as_bytes())),
        (bins_ending, &|to| bins::write_bins(to, rows)),
    ];
    let is_written = |ending: &str| breaches.is_some() || ending != breaches_ending;
    let files: Vec<_> = files.into_iter().filter(|(ending, _)| is_written(ending)).collect();
    file_io::write_new_files(directory, unused_stems(directory, stem), &files)
}

/// Returns the stem and, since several monitors may share a directory, the stem with numbers.
/// Leaves out those that are in use.
fn unused_stems(directory: &Path, stem: &str) -> impl Iterator<Item = String> {
    let name = move |n| if n == 1 { stem.to_owned() } else { format!("{stem}-{n}") };
    let is_used = move |stem: &String| {
        ENDINGS.iter().any(|ending| directory.join(format!("{stem}.{ending}")).exists())
    };
    (1_u32..).map(name).filter(move |stem| !is_used(stem))
}
