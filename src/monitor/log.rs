//! Interval files of the monitor: a pair per interval, in a directory per day. A pair is written
//! completely or not at all.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cli::exit::{self, Error, usage};
use cli::file_io;
use cli::file_io::Contents;

use files::bins::{self, Interval};

/// Endings of an interval's files, in the order in which the files appear. The first file exists
/// for every interval and claims its name; the last one completes it.
const ENDINGS: [&str; 3] = ["intervals.csv", "breaches.json", "bins.csv"];
/// Length of a date such as `2026-11-22`.
const DAY_LEN: usize = 10;
/// Maximum number of flight records of a host. They are removed with their intervals, or earlier:
/// each has up to 5 MB, and intervals may be kept without end.
const MAX_FLIGHTS: usize = 100;
const FLIGHT_PREFIX: &str = "flight-";

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
            let checked = match is_directory(&today) {
                true => file_io::check_directory_writable(&today),
                false => Err(io::ErrorKind::NotADirectory.into()),
            };
            checked.map_err(|e| unwritable(&today, e))?;
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
        let warnings = match self.list_flights() {
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
        match self.list_intervals() {
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

    /// Returns the intervals of this host in the order of their dates.
    fn list_intervals(&self) -> io::Result<Vec<LoggedInterval>> {
        let mut intervals = Vec::new();
        for (directory, names) in self.names_by_day()? {
            let mut stems: Vec<&str> = names.iter().filter_map(|name| stem_of(name)).collect();
            stems.dedup();
            let logged =
                |stem: &str| LoggedInterval { directory: directory.clone(), stem: stem.to_owned() };
            intervals.extend(stems.into_iter().map(logged));
        }
        Ok(intervals)
    }

    /// Returns the flight records of this host in the order of their dates.
    fn list_flights(&self) -> io::Result<Vec<LoggedFlight>> {
        let mut flights = Vec::new();
        for (directory, names) in self.names_by_day()? {
            for name in &names {
                let Some(stem) = flight_stem(name) else { continue };
                let interval =
                    LoggedInterval { directory: directory.clone(), stem: stem.to_owned() };
                flights.push(LoggedFlight { interval, path: directory.join(name) });
            }
        }
        Ok(flights)
    }

    /// Returns the directories of the days, each with the names of this host's files.
    fn names_by_day(&self) -> io::Result<Vec<(PathBuf, Vec<String>)>> {
        let mut days = Vec::new();
        for day in day_names(&self.directory)? {
            let directory = self.directory.join(&day);
            let prefix = format!("{}.{}T", self.host, day.replace('-', ""));
            match sorted_names(&directory) {
                Ok(mut names) => {
                    names.retain(|name| name.starts_with(&prefix));
                    days.push((directory, names));
                }
                // Another monitor of this host has removed the day, since it was empty.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
        Ok(days)
    }
}

/// Sorts what is sorted by date by the time at which it was written: by date, unless some dates are
/// in the future. The clock has then gone back, and `written`, of this monitor, is the newest. In
/// either case, what this monitor wrote last is the last. Returns the latest interval with a date
/// in the future.
fn sort_by_writing<T>(
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

fn warn_of_future(interval: &Path) -> String {
    format!(
        "the clock has gone back: {} has a date in the future; --keep counts it as older than the intervals written from now on",
        interval.display()
    )
}

/// A flight record and its interval.
#[derive(Debug)]
struct LoggedFlight {
    interval: LoggedInterval,
    path: PathBuf,
}

/// The files of an interval: their directory, and their common name without the ending.
#[derive(Debug, PartialEq, Eq)]
struct LoggedInterval {
    directory: PathBuf,
    stem: String,
}

impl LoggedInterval {
    fn path(&self) -> PathBuf {
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
    fn remove(&self) -> Result<(), RemovalError> {
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
fn remove_existing(path: &Path) -> Result<(), RemovalError> {
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
struct RemovalError {
    path: PathBuf,
    source: io::Error,
}

/// Returns a host name as part of a file's name. The file is not hidden.
fn plain_name(host: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let plain: String = host.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    match plain.strip_prefix('.') {
        Some(rest) => format!("_{rest}"),
        None => plain,
    }
}

/// Checks that the longest name of a file is not too long, and neither is its path.
fn check_lengths(directory: &Path, host: &str) -> io::Result<()> {
    let name = format!("{host}.20001231T235959Z-{}.{}", u16::MAX, ENDINGS[0]);
    file_io::check_length(&directory.join(&name))?;
    file_io::check_length(&directory.join("2000-12-31").join(name))
}

/// Creates the directory of a day. The directory above is not created: if it has vanished, its disk
/// may be unmounted, and a new directory would hide the mount point.
fn create_day(directory: &Path) -> io::Result<()> {
    match std::fs::create_dir(directory) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            if is_directory(directory) {
                Ok(())
            } else {
                Err(io::ErrorKind::NotADirectory.into())
            }
        }
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

fn sorted_names(directory: &Path) -> io::Result<Vec<String>> {
    let entries = std::fs::read_dir(directory)?.flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    Ok(names)
}

/// Returns the names of the days' directories, sorted. Links are left out, since their targets may
/// not be part of the log.
fn day_names(directory: &Path) -> io::Result<Vec<String>> {
    let mut names = sorted_names(directory)?;
    names.retain(|name| is_day(name) && is_directory(&directory.join(name)));
    Ok(names)
}

fn is_directory(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

fn is_day(name: &str) -> bool {
    name.len() == 10 && name.chars().all(|c| c.is_ascii_digit() || c == '-')
}

fn is_flight_ending(ending: &str) -> bool {
    let number = ending.strip_prefix(FLIGHT_PREFIX).and_then(|ending| ending.strip_suffix(".json"));
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

/// Returns the name of a flight record without its ending.
fn flight_stem(name: &str) -> Option<&str> {
    let (dot, _) = name.rmatch_indices('.').nth(1)?;
    is_flight_ending(&name[dot + 1..]).then(|| &name[..dot])
}

/// Returns the name of an interval's file without its ending.
fn stem_of(name: &str) -> Option<&str> {
    ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)?.strip_suffix('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_names(directory: &Path) -> Vec<String> {
        let mut found = Vec::new();
        for day in std::fs::read_dir(directory).unwrap().flatten() {
            let files = std::fs::read_dir(day.path()).unwrap().flatten();
            found.extend(files.map(|file| file.file_name().into_string().unwrap()));
        }
        found.sort();
        found
    }

    #[test]
    fn occupied_days_are_refused() {
        let home = tempfile::tempdir().unwrap();
        // The day may end during the test.
        for hours in [0, 1] {
            let time = SystemTime::now() + std::time::Duration::from_secs(hours * 3600);
            let name = humantime::format_rfc3339_seconds(time).to_string()[..DAY_LEN].to_owned();
            std::fs::write(home.path().join(name), "mine").unwrap();
        }
        let refused = Log::open(home.path(), "a", None).unwrap_err();
        assert_eq!(refused.code(), 2);
        assert!(refused.to_string().contains("not a directory"), "{refused}");
    }

    #[test]
    fn existing_files_are_not_overwritten() {
        let home = tempfile::tempdir().unwrap();
        let mut log = Log::open(&home.path().join("log"), "a/b", None).unwrap();
        log.write(
            "2026-11-22T05:55:00.250000Z",
            &[Interval::empty(bins::Key::default(), None)],
            None,
        )
        .unwrap();
        log.write("2026-11-22T05:55:00.750000Z", &[], Some("{}")).unwrap();
        let expected = [
            "a_b.20261122T055500Z-2.bins.csv",
            "a_b.20261122T055500Z-2.breaches.json",
            "a_b.20261122T055500Z-2.intervals.csv",
            "a_b.20261122T055500Z.bins.csv",
            "a_b.20261122T055500Z.intervals.csv",
        ];
        assert_eq!(file_names(&home.path().join("log")), expected);
    }

    /// Writes intervals with equal names at the same time, and checks that all are complete.
    #[test]
    fn concurrent_monitors_keep_all_intervals() {
        const INTERVALS: usize = 40;
        let home = tempfile::tempdir().unwrap();
        let run_ids = ["first", "second"];
        std::thread::scope(|scope| {
            for run_id in run_ids {
                let directory = home.path();
                scope.spawn(move || {
                    let mut log = Log::open(directory, "host", None).unwrap();
                    let key = bins::Key { run_id: run_id.to_owned(), ..bins::Key::default() };
                    let row = Interval::from_values(key, bins::Binning::Hdr2, [(1, 1)], None);
                    for n in 0..INTERVALS {
                        let breaches = n.is_multiple_of(3).then_some(run_id);
                        log.write("2026-11-22T05:55:00.0Z", std::slice::from_ref(&row), breaches)
                            .unwrap();
                    }
                });
            }
        });
        let day = home.path().join("2026-11-22");
        let read = |stem: &str, ending: &str| {
            std::fs::read_to_string(day.join(format!("{stem}.{ending}"))).unwrap_or_default()
        };
        let names = file_names(home.path());
        let stems: Vec<&str> =
            names.iter().filter_map(|name| name.strip_suffix(".bins.csv")).collect();
        for run_id in run_ids {
            let has_run = |stem: &&&str| read(stem, "bins.csv").contains(run_id);
            assert_eq!(stems.iter().filter(has_run).count(), INTERVALS, "{run_id}");
        }
        for stem in stems {
            let [bins, breaches] = ["bins.csv", "breaches.json"].map(|ending| read(stem, ending));
            assert!(bins.contains(&breaches), "{stem} mixes two runs");
        }
    }

    /// Writes an interval and removes old ones, at the time of its start.
    fn write_and_remove(log: &mut Log, start: &str) -> Vec<String> {
        log.write(start, &[], None).unwrap();
        log.remove_old_intervals(humantime::parse_rfc3339(start).unwrap())
    }

    #[test]
    fn oldest_intervals_are_removed() {
        let home = tempfile::tempdir().unwrap();
        let mut log = Log::open(home.path(), "host", Some(2)).unwrap();
        std::fs::create_dir(home.path().join("2026-11-21")).unwrap();
        let other = home.path().join("2026-11-21/other.20261121T235500Z.bins.csv");
        std::fs::write(&other, "").unwrap();
        for start in [
            "2026-11-20T23:00:00.0Z", "2026-11-21T23:00:00.0Z", "2026-11-22T00:00:00.0Z",
            "2026-11-22T01:00:00.0Z",
        ] {
            assert_eq!(write_and_remove(&mut log, start), Vec::<String>::new());
        }
        let remaining = file_names(home.path());
        assert_eq!(remaining.len(), 5, "{remaining:?}");
        assert!(other.exists());
        assert!(remaining.iter().all(|name| !name.contains("T23000")), "{remaining:?}");
        assert!(!home.path().join("2026-11-20").exists(), "an empty day is removed");
    }

    #[test]
    fn flights_are_removed_with_their_interval() {
        let home = tempfile::tempdir().unwrap();
        let mut log = Log::open(home.path(), "host", Some(1)).unwrap();
        let path = log.write("2026-11-22T01:00:00.0Z", &[], Some("{}")).unwrap();
        let flights = [(1, "{1}"), (2, "{2}")].map(|(n, json)| log.write_flight(&path, n, json));
        let flights = flights.map(Result::unwrap);
        let names: Vec<&str> =
            flights.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        let expected =
            ["host.20261122T010000Z.flight-1.json", "host.20261122T010000Z.flight-2.json"];
        assert_eq!(names, expected);
        assert_eq!(std::fs::read_to_string(&flights[1]).unwrap(), "{2}");
        write_and_remove(&mut log, "2026-11-22T02:00:00.0Z");
        assert_eq!(remaining_times(home.path()), ["0200"]);
        assert!(flights.iter().all(|path| !path.exists()));
    }

    /// Writes an interval with four flight records and removes old ones, at the time of its start.
    /// Returns the paths of the records.
    fn write_four_flights(log: &mut Log, start: &str) -> [PathBuf; 4] {
        let path = log.write(start, &[], None).unwrap();
        let flights = [1, 2, 3, 4].map(|n| log.write_flight(&path, n, "{}").unwrap());
        let warnings = log.remove_old_flights(humantime::parse_rfc3339(start).unwrap());
        assert_eq!(warnings, Vec::<String>::new());
        flights
    }

    #[test]
    fn future_flights_are_removed_first() {
        let home = tempfile::tempdir().unwrap();
        let day = home.path().join("2027-01-01");
        std::fs::create_dir(&day).unwrap();
        for minute in 0..MAX_FLIGHTS {
            let (hour, minute) = (minute / 60, minute % 60);
            let name = format!("host.20270101T{hour:02}{minute:02}00Z.flight-1.json");
            std::fs::write(day.join(name), "{}").unwrap();
        }
        let mut log = Log::open(home.path(), "host", None).unwrap();
        // The clock also goes back while the monitor runs.
        for (n, time) in (1..).zip(["05:00", "05:05", "04:12", "04:17"]) {
            let new = write_four_flights(&mut log, &format!("2026-11-22T{time}:00.0Z"));
            assert!(new.iter().all(|path| path.exists()), "{new:?}");
            assert_eq!(std::fs::read_dir(&day).unwrap().count(), MAX_FLIGHTS - 4 * n);
        }
        for minute in 18..39 {
            write_four_flights(&mut log, &format!("2026-11-22T04:{minute}:00.0Z"));
        }
        assert_eq!(std::fs::read_dir(&day).unwrap().count(), 0);
        let oldest = write_four_flights(&mut log, "2026-11-22T04:39:00.0Z");
        assert!(oldest.iter().all(|path| path.exists()), "{oldest:?}");
        let names = file_names(home.path());
        assert!(!names.contains(&"host.20261122T050000Z.flight-1.json".to_owned()), "{names:?}");
        assert!(names.contains(&"host.20261122T050500Z.flight-1.json".to_owned()), "{names:?}");
    }

    #[test]
    fn last_written_flights_are_kept() {
        let home = tempfile::tempdir().unwrap();
        let mut log = Log::open(home.path(), "host", None).unwrap();
        for minute in 0..25 {
            write_four_flights(&mut log, &format!("2026-11-22T05:{minute:02}:00.0Z"));
        }
        // An interval that began before all others, but ended after them.
        let mut other = Log::open(home.path(), "host", None).unwrap();
        let path = other.write("2026-11-22T04:00:00.0Z", &[], None).unwrap();
        let flight = other.write_flight(&path, 1, "{}").unwrap();
        let now = humantime::parse_rfc3339("2026-11-22T06:00:00Z").unwrap();
        assert_eq!(other.remove_old_flights(now), Vec::<String>::new());
        assert!(flight.exists());
        let names = file_names(home.path());
        assert_eq!(names.iter().filter(|name| flight_stem(name).is_some()).count(), MAX_FLIGHTS);
    }

    #[test]
    fn vanished_files_count_as_removed() {
        let home = tempfile::tempdir().unwrap();
        assert!(remove_existing(&home.path().join("host.20261122T010000Z.flight-1.json")).is_ok());
        let directory = home.path().join("2026-11-22");
        let interval = LoggedInterval { directory, stem: "host.20261122T010000Z".to_owned() };
        assert!(interval.remove().is_ok());
    }

    #[test]
    fn failed_removals_keep_new_flights() {
        let home = tempfile::tempdir().unwrap();
        let mut log = Log::open(home.path(), "host", None).unwrap();
        let day = home.path().join("2026-11-21");
        // A directory in the place of a file cannot be removed like one.
        std::fs::create_dir_all(day.join("host.20261121T000000Z.flight-1.json")).unwrap();
        for minute in 0..25 {
            let start = format!("2026-11-22T05:{minute:02}:00.0Z");
            let path = log.write(&start, &[], None).unwrap();
            let flights = [1, 2, 3, 4].map(|n| log.write_flight(&path, n, "{}").unwrap());
            let warnings = log.remove_old_flights(humantime::parse_rfc3339(&start).unwrap());
            assert_eq!(warnings.len(), usize::from(minute == 24), "{warnings:?}");
            assert!(flights.iter().all(|path| path.exists()));
        }
    }

    #[test]
    fn oldest_flights_are_removed() {
        let home = tempfile::tempdir().unwrap();
        let mut log = Log::open(home.path(), "host", None).unwrap();
        for minute in 0..30 {
            write_four_flights(&mut log, &format!("2026-11-22T01:{minute:02}:00.0Z"));
        }
        let names = file_names(home.path());
        let flights: Vec<&String> =
            names.iter().filter(|name| flight_stem(name).is_some()).collect();
        assert_eq!(flights.len(), MAX_FLIGHTS);
        assert!(flights[0].contains("T010500Z.flight-1"), "{flights:?}");
        assert_eq!(names.len(), MAX_FLIGHTS + 2 * 30, "the intervals are kept");
    }

    /// Returns the times of the remaining intervals, by their complete files.
    fn remaining_times(directory: &Path) -> Vec<String> {
        let names = file_names(directory);
        let times = names.iter().filter_map(|name| name.strip_suffix("00Z.bins.csv"));
        times.map(|name| name.rsplit('T').next().unwrap().to_owned()).collect()
    }

    #[test]
    fn newest_written_intervals_are_kept() {
        let home = tempfile::tempdir().unwrap();
        let mut log = Log::open(home.path(), "host", Some(3)).unwrap();
        let mut write =
            |time: &str| write_and_remove(&mut log, &format!("2026-11-22T{time}:00.0Z"));
        for time in ["04:00", "04:05", "04:10"] {
            assert_eq!(write(time), Vec::<String>::new());
        }
        // The clock goes back by an hour.
        let warnings = write("03:12");
        assert!(warnings[0].contains("the clock has gone back"), "{warnings:?}");
        assert_eq!(remaining_times(home.path()), ["0312", "0405", "0410"]);
        assert_eq!(write("03:17"), Vec::<String>::new(), "it is reported once");
        assert_eq!(remaining_times(home.path()), ["0312", "0317", "0410"]);
        write("03:22");
        write("03:27");
        assert_eq!(remaining_times(home.path()), ["0317", "0322", "0327"]);
    }

    #[test]
    fn failed_removals_do_not_end_retention() {
        let home = tempfile::tempdir().unwrap();
        let mut log = Log::open(home.path(), "host", Some(1)).unwrap();
        let day = home.path().join("2026-11-22");
        // A directory in the place of a file cannot be removed like one.
        std::fs::create_dir_all(day.join("host.20261122T000000Z.bins.csv")).unwrap();
        let warnings = write_and_remove(&mut log, "2026-11-22T01:00:00.0Z");
        assert!(warnings[0].starts_with("cannot remove "), "{warnings:?}");
        for hour in 2..5 {
            let start = format!("2026-11-22T0{hour}:00:00.0Z");
            assert_eq!(write_and_remove(&mut log, &start), Vec::<String>::new(), "reported once");
        }
        assert_eq!(remaining_times(home.path()), ["0000", "0400"]);
    }

    #[test]
    #[cfg(unix)]
    fn linked_days_are_not_touched() {
        let home = tempfile::tempdir().unwrap();
        let target = tempfile::tempdir().unwrap();
        let file = target.path().join("host.20261120T000000Z.bins.csv");
        std::fs::write(&file, "").unwrap();
        let mut log = Log::open(home.path(), "host", Some(1)).unwrap();
        std::os::unix::fs::symlink(target.path(), home.path().join("2026-11-20")).unwrap();
        write_and_remove(&mut log, "2026-11-22T01:00:00.0Z");
        assert!(file.exists());
        let error = log.write("2026-11-20T01:00:00.0Z", &[], None).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotADirectory);
    }

    #[test]
    fn abandoned_temporary_files_are_removed() {
        let home = tempfile::tempdir().unwrap();
        let day = home.path().join("2026-11-21");
        std::fs::create_dir(&day).unwrap();
        let hours =
            |n: u64| std::time::SystemTime::now() - std::time::Duration::from_secs(n * 3600 + 60);
        let names = [
            ".osjitter-a.tmp", ".osjitter-b.tmp", ".osjitter-c", "d.tmp",
            "host.20261121T235500Z.bins.csv",
        ];
        for (name, at) in names.iter().zip([hours(1), hours(0), hours(2), hours(2), hours(2)]) {
            std::fs::File::create(day.join(name)).unwrap().set_modified(at).unwrap();
        }
        Log::open(home.path(), "host", None).unwrap();
        assert_eq!(file_names(home.path()), names[1..]);
    }

    #[test]
    fn long_host_names_are_rejected() {
        let home = tempfile::tempdir().unwrap();
        let error = Log::open(home.path(), &"h".repeat(230), None).unwrap_err();
        assert!(error.to_string().contains("--host"), "{error}");
        let mut log = Log::open(home.path(), &"h".repeat(200), None).unwrap();
        log.write("2026-11-22T05:55:00.0Z", &[], Some("{}")).unwrap();
    }

    #[test]
    fn files_are_not_hidden_by_host() {
        assert_eq!([".a/b", "a.b", "ä"].map(plain_name), ["_a_b", "a.b", "_"]);
    }

    #[test]
    fn vanished_directory_is_not_recreated() {
        let home = tempfile::tempdir().unwrap();
        let mut log = Log::open(&home.path().join("log"), "host", None).unwrap();
        std::fs::remove_dir(home.path().join("log")).unwrap();
        assert!(log.write("2026-11-22T05:55:00.0Z", &[], None).is_err());
        assert!(!home.path().join("log").exists());
    }

    #[test]
    fn file_instead_of_directory_is_rejected() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("file"), "").unwrap();
        let error = Log::open(&home.path().join("file"), "host", None).unwrap_err();
        assert!(error.to_string().contains("--log"), "{error}");
    }
}
