use super::file_name::flight_stem;
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
    log.write("2026-11-22T05:55:00.250000Z", &[Interval::empty(bins::Key::default(), None)], None)
        .unwrap();
    log.write("2026-11-22T05:55:00.750000Z", &[], Some("{}")).unwrap();
    let expected = [
        "a%2Fb.20261122T055500Z-2.bins.csv",
        "a%2Fb.20261122T055500Z-2.breaches.json",
        "a%2Fb.20261122T055500Z-2.intervals.csv",
        "a%2Fb.20261122T055500Z.bins.csv",
        "a%2Fb.20261122T055500Z.intervals.csv",
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
    let stems: Vec<&str> = names.iter().filter_map(|name| name.strip_suffix(".bins.csv")).collect();
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
    let expected = ["host.20261122T010000Z.flight-1.json", "host.20261122T010000Z.flight-2.json"];
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
    let flights: Vec<&String> = names.iter().filter(|name| flight_stem(name).is_some()).collect();
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
    let mut write = |time: &str| write_and_remove(&mut log, &format!("2026-11-22T{time}:00.0Z"));
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
    let hosts = [".a/b", "a.b", "_a_b", "a:1", "a 1", "ä"].map(plain_name);
    assert_eq!(hosts, ["%2Ea%2Fb", "a.b", "_a_b", "a%3A1", "a%201", "%C3%A4"]);
}

/// Files that no monitor has written are neither counted nor removed.
#[test]
fn retention_knows_its_own_files() {
    const START: &str = "2026-11-22T05:00:00.0Z";
    let home = tempfile::tempdir().unwrap();
    let mut log = Log::open(home.path(), "host", None).unwrap();
    for _ in 0..11 {
        log.write(START, &[], None).unwrap();
    }
    let day = home.path().join("2026-11-22");
    let stem = day.join("host.20261122T050000Z");
    let foreign = [
        "copy.bins.csv", "1.bins.csv", "-0.bins.csv", "-1.bins.csv", "-02.bins.csv",
        "-2.copy.bins.csv", ".txt",
    ];
    let other =
        [day.join("host.20261122T-notes.breaches.json"), day.join("host.20261122T05Z.bins.csv")];
    let foreign: Vec<PathBuf> = foreign
        .iter()
        .map(|end| PathBuf::from(format!("{}{end}", stem.display())))
        .chain(other)
        .collect();
    for file in &foreign {
        std::fs::write(file, "").unwrap();
    }
    let logged = list_intervals(home.path(), "host").unwrap();
    let stems: Vec<&str> = logged.iter().map(|interval| interval.stem.as_str()).collect();
    let expected: Vec<String> = (1..=11)
        .map(|n| match n {
            1 => "host.20261122T050000Z".to_owned(),
            _ => format!("host.20261122T050000Z-{n}"),
        })
        .collect();
    assert_eq!(stems, expected);
    Log::open(home.path(), "host", Some(2)).unwrap().write(START, &[], None).unwrap();
    assert!(foreign.iter().all(|file| file.exists()));
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
