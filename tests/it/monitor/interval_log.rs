//! Reads the log of a monitor.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Returns the files of a log with that ending, oldest first.
pub fn files(log: &Path, ending: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for day in std::fs::read_dir(log).into_iter().flatten().flatten() {
        let entries = std::fs::read_dir(day.path()).into_iter().flatten().flatten();
        files.extend(entries.map(|entry| entry.path()));
    }
    files.retain(|file| file.to_string_lossy().ends_with(ending));
    files.sort();
    files
}

pub type Row = BTreeMap<String, String>;

/// Reads the rows of a file, and checks that each is as long as the heading.
#[track_caller]
pub fn rows(file: &Path) -> Vec<Row> {
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.ends_with('\n'), "{} is cut off", file.display());
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let heading = lines.next().unwrap();
    let row = |line: Vec<String>| {
        assert_eq!(line.len(), heading.len(), "{}", file.display());
        heading.iter().cloned().zip(line).collect()
    };
    lines.map(row).collect()
}

/// Reads the rows of all files of a log with that ending.
pub fn all_rows(log: &Path, ending: &str) -> Vec<Row> {
    files(log, ending).iter().flat_map(|file| rows(file)).collect()
}

pub fn number(row: &Row, column: &str) -> i64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column} of {row:?}"))
}

/// Returns the columns that identify an interval.
fn key(row: &Row) -> Vec<String> {
    ["host", "subject", "period_ns", "runtime", "labels", "start", "duration_ns", "run_id"]
        .map(|column| row[column].clone())
        .into()
}

/// Reads all intervals of a log, and checks that they agree with their bins.
#[track_caller]
pub fn read_intervals(log: &Path) -> Vec<Row> {
    let intervals = all_rows(log, ".intervals.csv");
    let bins = all_rows(log, ".bins.csv");
    let mut bins_by_key: BTreeMap<Vec<String>, Vec<&Row>> = BTreeMap::new();
    bins.iter().for_each(|bin| bins_by_key.entry(key(bin)).or_default().push(bin));
    for row in &intervals {
        check_interval(row, &bins_by_key.remove(&key(row)).unwrap_or_default());
    }
    assert!(bins_by_key.is_empty(), "bins without an interval: {:?}", bins_by_key.keys());
    let keys: BTreeSet<Vec<String>> = intervals.iter().map(key).collect();
    assert_eq!(keys.len(), intervals.len(), "an interval occurs twice");
    intervals
}

#[track_caller]
fn check_interval(row: &Row, bins: &[&Row]) {
    let [ticks, delivered, coalesced, skipped, early] =
        ["ticks", "delivered", "coalesced", "skipped", "early"].map(|column| number(row, column));
    let counted: i64 = bins.iter().map(|bin| number(bin, "count")).sum();
    assert_eq!(counted, ticks - skipped, "{row:?}");
    assert_eq!((delivered + coalesced + skipped, early), (ticks, 0), "{row:?}");
    if let Some(last) = bins.iter().max_by_key(|bin| number(bin, "lower_ns")) {
        let range = number(last, "lower_ns")..=number(last, "upper_ns");
        assert!(range.contains(&number(row, "max_ns")), "{row:?} {last:?}");
    }
}
