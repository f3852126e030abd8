//! Interval files: a pair for each interval, in a directory of its day, whole or not there.

use std::io;
use std::path::{Path, PathBuf};

use cli::exit::{self, usage};

use crate::file_io::{self, Contents};
use files::bins::{self, Interval};

/// What the files of an interval end in, in the order in which they appear.
const ENDINGS: [&str; 3] = ["breaches.json", "intervals.csv", "bins.csv"];

#[derive(Debug)]
pub struct Log {
    directory: PathBuf,
    /// Name of the machine, as part of a file's name.
    host: String,
    /// Intervals to keep.
    keep: Option<usize>,
}

impl Log {
    /// A directory that is proved writable.
    pub fn open(directory: &Path, host: &str, keep: Option<usize>) -> exit::Result<Self> {
        let refused = |e| {
            usage!(
                "cannot write to {}: {e}; give another directory with --log",
                directory.display()
            )
        };
        std::fs::create_dir_all(directory)
            .and_then(|()| file_io::try_writing(directory))
            .map_err(refused)?;
        for day in std::fs::read_dir(directory).map_err(refused)?.flatten() {
            file_io::sweep(&day.path());
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let host = host.chars().map(|c| if plain(c) { c } else { '_' }).collect();
        Ok(Self { directory: directory.to_owned(), host, keep })
    }

    /// Writes an interval that began at `start`, RFC 3339 in UTC with microseconds; breaches where
    /// there are any.
    pub fn write(&self, start: &str, rows: &[Interval], breaches: Option<&str>) -> io::Result<()> {
        // The directory was there at the start: one that has vanished is not made anew where a disk
        // was mounted.
        let (day, time) = start.split_at_checked(10).ok_or(io::ErrorKind::InvalidInput)?;
        let of_day = self.directory.join(day);
        match std::fs::create_dir(&of_day) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
        let seconds: String = time.chars().filter(char::is_ascii_digit).take(6).collect();
        let stem =
            self.free(&of_day, &format!("{}.{}T{seconds}Z", self.host, day.replace('-', "")));
        let [of_breaches, of_intervals, of_bins] = ENDINGS.map(|end| format!("{stem}.{end}"));
        let text = breaches.unwrap_or_default();
        // The bins of a busy host are megabytes: memory that a monitor would keep for ever.
        let all: [(&str, Contents<'_>); 3] = [
            (&of_breaches, &|to| to.write_all(text.as_bytes())),
            (&of_intervals, &|to| to.write_all(bins::intervals_csv(rows).as_bytes())),
            (&of_bins, &|to| bins::write_bins(to, rows)),
        ];
        file_io::replace_with(&of_day, if breaches.is_some() { &all } else { &all[1..] })?;
        match self.keep {
            Some(keep) => self.sweep(keep),
            None => Ok(()),
        }
    }

    /// A name that no file has yet: two monitors may share a directory.
    fn free(&self, of_day: &Path, stem: &str) -> String {
        let taken =
            |stem: &str| ENDINGS.iter().any(|end| of_day.join(format!("{stem}.{end}")).exists());
        let numbered =
            (1_u32..).map(|n| if n == 1 { stem.to_owned() } else { format!("{stem}-{n}") });
        numbered.into_iter().find(|stem| !taken(stem)).expect("the counter does not run out")
    }

    /// Removes the oldest intervals of this host, until so many are left, and days that are empty
    /// then.
    fn sweep(&self, keep: usize) -> io::Result<()> {
        let names = |directory: &Path| -> io::Result<Vec<String>> {
            let mut names: Vec<String> = std::fs::read_dir(directory)?
                .flatten()
                .filter_map(|entry| entry.file_name().into_string().ok())
                .collect();
            names.sort_unstable();
            Ok(names)
        };
        let is_day = |name: &String| {
            name.len() == 10 && name.chars().all(|c| c.is_ascii_digit() || c == '-')
        };
        let mut stems: Vec<(PathBuf, String)> = Vec::new();
        for day in names(&self.directory)?.into_iter().filter(is_day) {
            let of_day = self.directory.join(&day);
            let host = format!("{}.{}T", self.host, day.replace('-', ""));
            let stem = |name: String| {
                let stem = ENDINGS
                    .iter()
                    .find_map(|end| name.strip_suffix(end)?.strip_suffix('.'))?
                    .to_owned();
                stem.starts_with(&host).then_some(stem)
            };
            let mut of_host: Vec<String> = names(&of_day)?.into_iter().filter_map(stem).collect();
            of_host.dedup();
            stems.extend(of_host.into_iter().map(|stem| (of_day.clone(), stem)));
        }
        for (of_day, stem) in stems.iter().take(stems.len().saturating_sub(keep)) {
            for end in ENDINGS {
                match std::fs::remove_file(of_day.join(format!("{stem}.{end}"))) {
                    Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                    _ => {}
                }
            }
            // It goes only when it is empty.
            let _ = std::fs::remove_dir(of_day);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(directory: &Path) -> Vec<String> {
        let mut found = Vec::new();
        for day in std::fs::read_dir(directory).unwrap().flatten() {
            let files = std::fs::read_dir(day.path()).unwrap().flatten();
            found.extend(files.map(|file| file.file_name().into_string().unwrap()));
        }
        found.sort();
        found
    }

    #[test]
    fn an_interval_is_a_pair_and_nothing_is_overwritten() {
        let home = tempfile::tempdir().unwrap();
        let log = Log::open(&home.path().join("log"), "a/b", None).unwrap();
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
        assert_eq!(all(&home.path().join("log")), expected);
    }

    #[test]
    fn the_oldest_go_and_others_stay() {
        let home = tempfile::tempdir().unwrap();
        let log = Log::open(home.path(), "host", Some(2)).unwrap();
        std::fs::create_dir(home.path().join("2026-11-21")).unwrap();
        let other = home.path().join("2026-11-21/other.20261121T235500Z.bins.csv");
        std::fs::write(&other, "").unwrap();
        for start in [
            "2026-11-20T23:00:00.0Z",
            "2026-11-21T23:00:00.0Z",
            "2026-11-22T00:00:00.0Z",
            "2026-11-22T01:00:00.0Z",
        ] {
            log.write(start, &[], None).unwrap();
        }
        let left = all(home.path());
        assert_eq!(left.len(), 5, "{left:?}");
        assert!(other.exists() && left.iter().all(|name| !name.contains("T23000")), "{left:?}");
        assert!(!home.path().join("2026-11-20").exists(), "an empty day goes");
    }

    #[test]
    fn what_a_killed_one_left_goes_an_hour_later() {
        let home = tempfile::tempdir().unwrap();
        let day = home.path().join("2026-11-21");
        std::fs::create_dir(&day).unwrap();
        let hours =
            |n: u64| std::time::SystemTime::now() - std::time::Duration::from_secs(n * 3600 + 60);
        let names = [
            ".osjitter-a.tmp",
            ".osjitter-b.tmp",
            ".osjitter-c",
            "d.tmp",
            "host.20261121T235500Z.bins.csv",
        ];
        for (name, at) in names.iter().zip([hours(1), hours(0), hours(2), hours(2), hours(2)]) {
            std::fs::File::create(day.join(name)).unwrap().set_modified(at).unwrap();
        }
        Log::open(home.path(), "host", None).unwrap();
        assert_eq!(all(home.path()), names[1..]);
    }

    #[test]
    fn a_directory_that_has_vanished_is_an_error_and_no_new_one() {
        let home = tempfile::tempdir().unwrap();
        let log = Log::open(&home.path().join("log"), "host", None).unwrap();
        std::fs::remove_dir(home.path().join("log")).unwrap();
        assert!(log.write("2026-11-22T05:55:00.0Z", &[], None).is_err());
        assert!(!home.path().join("log").exists());
        std::fs::write(home.path().join("file"), "").unwrap();
        let refused = Log::open(&home.path().join("file"), "host", None).unwrap_err();
        assert!(refused.to_string().contains("--log"), "{refused}");
    }
}
