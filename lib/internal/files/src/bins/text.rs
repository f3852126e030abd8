//! Writing and reading rows as comma-separated values.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::io;

use crate::report::{MAX_COUNT, MAX_NS};
use crate::tick_counts::TickCounts;

use super::error::{BinsError, BinsFlaw};
use super::key::{Key, Labels, MAX_CELL, MAX_LABEL_BYTES, cell, micros, stamp};
use super::model::{Bin, Binning, Interval, IntervalCounts, NEGATIVE, VERSION};

/// The two files of one set of intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cells {
    /// One row per bin.
    Bins,
    /// One row per interval.
    Intervals,
}

/// The columns of both files, then those of the first and of the second file alone.
pub const CELLS: [&[&str]; 3] = [
    &[
        "host", "subject", "period_ns", "runtime", "labels", "start", "duration_ns", "run_id",
        "schema_version",
    ],
    &["binning", "lower_ns", "upper_ns", "count"],
    &[
        "ticks", "delivered", "coalesced", "skipped", "missed", "early", "max_ns", "cpu_ns",
        "steal_ns", "run_queue_ns", "throttled_ns",
    ],
];

/// Maximum number of intervals of one file. Each needs half a kilobyte, from as little as thirty
/// bytes of text.
const MAX_INTERVALS: usize = 1 << 18;
/// Maximum length of a row, many times that of a row with the longest cells.
const MAX_ROW_BYTES: usize = 1 << 20;
/// Maximum number of characters of a quoted text in an error.
const MAX_QUOTE: usize = 60;

impl Cells {
    /// Returns the columns in order.
    pub fn columns(self) -> impl Iterator<Item = &'static str> {
        CELLS[0].iter().chain(self.specific_columns()).copied()
    }

    /// Returns the columns that only this file has.
    fn specific_columns(self) -> &'static [&'static str] {
        match self {
            Self::Bins => CELLS[1],
            Self::Intervals => CELLS[2],
        }
    }

    fn heading(self) -> String {
        self.columns().collect::<Vec<_>>().join(",")
    }
}

/// Formats the first file, with one line per bin.
///
/// # Panics
/// Never panics: writing to memory does not fail.
#[must_use]
pub fn bins_csv(intervals: &[Interval]) -> String {
    let mut text = Vec::new();
    write_bins(&mut text, intervals).expect("writing to memory does not fail");
    String::from_utf8(text).expect("all parts are text")
}

/// Writes the first file line by line, with about 150 bytes each.
///
/// # Errors
/// Returns any error of the writer.
pub fn write_bins(to: &mut (impl io::Write + ?Sized), intervals: &[Interval]) -> io::Result<()> {
    writeln!(to, "{}", Cells::Bins.heading())?;
    for interval in intervals {
        let (key, binning) = (format_key(&interval.key), interval.binning.name());
        for (Bin { lower, upper }, count) in interval.rows() {
            writeln!(to, "{key},{binning},{lower},{upper},{count}")?;
        }
    }
    Ok(())
}

/// Adds a cell to a row; an unknown number is empty.
fn add_cell(text: &mut String, number: Option<impl Display>) {
    text.push(',');
    if let Some(number) = number {
        let _ = write!(text, "{number}");
    }
}

/// Formats the second file, with one line per interval whose facts are known.
#[must_use]
pub fn intervals_csv(intervals: &[Interval]) -> String {
    let mut text = Cells::Intervals.heading() + "\n";
    for (key, facts) in
        intervals.iter().filter_map(|interval| Some((&interval.key, interval.facts.as_ref()?)))
    {
        text += &format_key(key);
        let ticks = &facts.ticks;
        let _ = write!(text, ",{},{}", ticks.planned, ticks.delivered);
        for count in [ticks.coalesced, ticks.skipped, ticks.missed, ticks.early] {
            add_cell(&mut text, count);
        }
        add_cell(&mut text, facts.max_ns);
        for ns in [facts.cpu_ns, facts.steal_ns, facts.run_queue_ns, facts.throttled_ns] {
            add_cell(&mut text, ns);
        }
        text.push('\n');
    }
    text
}

/// The cells of the columns that both files have.
fn format_key(key: &Key) -> String {
    let Key { host, subject, period_ns, runtime, labels, start_us, duration_ns, run_id } = key;
    let [host, subject, runtime, run_id] = [host, subject, runtime, run_id].map(|text| cell(text));
    let start = start_us.map_or(String::new(), stamp);
    format!(
        "{host},{subject},{period_ns},{runtime},{labels},{start},{duration_ns},{run_id},{VERSION}"
    )
}

/// Detects by its heading which of the two files a text is. Also accepts headings of later
/// versions.
#[must_use]
pub fn kind(text: &str) -> Option<Cells> {
    let heading = text.lines().next()?.replace('"', "");
    let has = |column: &str| heading.split(',').any(|name| name == column);
    let is_kind = |column: &str| has("schema_version") && has(column);
    if is_kind("upper_ns") {
        Some(Cells::Bins)
    } else {
        is_kind("delivered").then_some(Cells::Intervals)
    }
}

/// Reads the first file. The rows of an interval need not be consecutive.
///
/// # Errors
/// Returns an error for the first invalid line.
pub fn read_bins(text: &str) -> Result<Vec<Interval>, BinsError> {
    read_bins_from(text.as_bytes())
}

/// Reads the first file like [`read_bins`], row by row.
///
/// # Errors
/// Returns an error for the first invalid line, or if the input cannot be read.
pub fn read_bins_from(input: impl io::Read) -> Result<Vec<Interval>, BinsError> {
    let intervals = read(input, Cells::Bins, add_bin)?;
    if intervals.iter().any(|interval| interval.count() > MAX_COUNT) {
        return Err(BinsError { line: None, flaw: BinsFlaw::TooMany(MAX_COUNT) });
    }
    Ok(intervals)
}

/// Adds a row of the first file.
fn add_bin(intervals: &mut Intervals, key: Key, row: &Row<'_>) -> Result<(), BinsFlaw> {
    let name = row.text(0)?;
    let binning = Binning::ALL.into_iter().find(|binning| binning.name() == name);
    let binning = binning.ok_or_else(|| row.invalid(0, "hdr2 or hdr3"))?;
    let bin = Bin { lower: row.signed(1)?, upper: row.signed(2)? };
    let count = row.count(3)?;
    let is_in_range = (NEGATIVE.lower..=MAX_NS as i64).contains(&bin.lower);
    if binning.bin(bin.lower) != bin || !is_in_range {
        return Err(BinsFlaw::NotABin(bin));
    }
    if count == 0 {
        return Err(row.invalid(3, "at least 1"));
    }
    let is_new = !intervals.contains_key(&key);
    let interval =
        intervals.entry(key).or_insert_with_key(|key| Interval::empty(key.clone(), None));
    if is_new {
        interval.binning = binning;
    }
    if interval.binning != binning {
        return Err(BinsFlaw::TwoBinnings(interval.key.to_string()));
    }
    if interval.bins.insert(bin.lower, count).is_some() {
        let duplicate = format!("the bin from {} ns of {}", bin.lower, interval.key);
        return Err(BinsFlaw::Twice(duplicate));
    }
    Ok(())
}

/// Reads the second file as intervals without bins.
///
/// # Errors
/// Returns an error for the first invalid line.
pub fn read_intervals(text: &str) -> Result<Vec<Interval>, BinsError> {
    read_intervals_from(text.as_bytes())
}

/// Reads the second file like [`read_intervals`], row by row.
///
/// # Errors
/// Returns an error for the first invalid line, or if the input cannot be read.
pub fn read_intervals_from(input: impl io::Read) -> Result<Vec<Interval>, BinsError> {
    read(input, Cells::Intervals, add_interval)
}

/// Adds a row of the second file.
fn add_interval(intervals: &mut Intervals, key: Key, row: &Row<'_>) -> Result<(), BinsFlaw> {
    let ticks = TickCounts {
        planned: row.count(0)?,
        delivered: row.count(1)?,
        coalesced: row.known_count(2)?,
        skipped: row.known_count(3)?,
        missed: row.known_count(4)?,
        early: row.known_count(5)?,
    };
    let facts = IntervalCounts {
        ticks,
        max_ns: if row.text(6)?.is_empty() { None } else { Some(row.signed(6)?) },
        cpu_ns: row.time(7)?,
        steal_ns: row.time(8)?,
        run_queue_ns: row.time(9)?,
        throttled_ns: row.time(10)?,
    };
    if ticks.came() + ticks.skipped.unwrap_or(0) != ticks.planned {
        return Err(row.invalid(0, "delivered, coalesced and skipped together"));
    }
    match intervals.insert(key.clone(), Interval::empty(key, Some(facts))) {
        Some(existing) => Err(BinsFlaw::Twice(existing.key.to_string())),
        None => Ok(()),
    }
}

type Intervals = BTreeMap<Key, Interval>;

/// A part of a row.
struct Row<'a> {
    record: &'a csv::StringRecord,
    /// The columns of the part.
    columns: &'static [&'static str],
    /// Index of its first column.
    at: usize,
}

impl Row<'_> {
    fn text(&self, i: usize) -> Result<&str, BinsFlaw> {
        let text = self.record.get(self.at + i).unwrap_or_default();
        let max = if self.columns[i] == "labels" { MAX_LABEL_BYTES } else { MAX_CELL };
        if text.len() > max {
            let found = text.chars().take(MAX_QUOTE).collect();
            return Err(BinsFlaw::Cell {
                column: self.columns[i],
                expected: "as short as it may be",
                found,
            });
        }
        Ok(text)
    }

    fn invalid(&self, i: usize, expected: &'static str) -> BinsFlaw {
        let found = self.record.get(self.at + i).unwrap_or_default().to_owned();
        BinsFlaw::Cell { column: self.columns[i], expected, found }
    }

    fn signed(&self, i: usize) -> Result<i64, BinsFlaw> {
        self.text(i)?.parse().map_err(|_| self.invalid(i, "a whole number of nanoseconds"))
    }

    fn count(&self, i: usize) -> Result<u64, BinsFlaw> {
        let count = self.text(i)?.parse().ok().filter(|count| *count <= MAX_COUNT);
        count.ok_or_else(|| self.invalid(i, "an integer of at most 2^53"))
    }

    /// Returns a count; `None` for an empty cell, whose count was not measured.
    fn known_count(&self, i: usize) -> Result<Option<u64>, BinsFlaw> {
        if self.text(i)?.is_empty() { Ok(None) } else { self.count(i).map(Some) }
    }

    fn time(&self, i: usize) -> Result<Option<u64>, BinsFlaw> {
        if self.text(i)?.is_empty() {
            return Ok(None);
        }
        let ns = self.text(i)?.parse().ok().filter(|ns| *ns <= MAX_NS);
        ns.map(Some).ok_or_else(|| self.invalid(i, "a time in nanoseconds of at most 31 years"))
    }

    fn key(&self) -> Result<Key, BinsFlaw> {
        // As it would be written: keys that differ only in replaced characters are equal.
        let owned = |i: usize| self.text(i).map(|text| cell(text).into_owned());
        let start_us = match self.text(5)? {
            "" => None,
            start => Some(micros(start).ok_or_else(|| self.invalid(5, "a time in RFC 3339, UTC"))?),
        };
        let subject = owned(1)?;
        if subject.is_empty() {
            return Err(self.invalid(1, "a name"));
        }
        Ok(Key {
            host: owned(0)?,
            subject,
            period_ns: self.time(2)?.unwrap_or(0),
            runtime: owned(3)?,
            labels: Labels::parse(self.text(4)?)
                .map_err(|_| self.invalid(4, "key=value;key=value, each key once"))?,
            start_us,
            duration_ns: self.time(6)?.unwrap_or(0),
            run_id: owned(7)?,
        })
    }
}

/// Reads a file, and passes the key and the remaining cells of each row to `add`.
fn read(
    input: impl io::Read,
    kind: Cells,
    add: impl Fn(&mut Intervals, Key, &Row<'_>) -> Result<(), BinsFlaw>,
) -> Result<Vec<Interval>, BinsError> {
    let input = BoundedRows { input, row_bytes: 0, is_quoted: false, is_at_line_break: false };
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(input);
    let mut record = csv::StringRecord::new();
    let has_heading = reader.read_record(&mut record).map_err(csv_error)?;
    let heading = Heading::new(has_heading, &record, kind);
    let mut intervals = Intervals::new();
    let mut last_line = None;
    loop {
        let has_row = reader.read_record(&mut record).map_err(csv_error)?;
        let line = has_row.then(|| record.position().map(csv::Position::line)).flatten();
        let error = |flaw| BinsError { line, flaw };
        if has_row {
            // Checked before the heading: a later version may have other columns.
            heading.check_version(&record).map_err(error)?;
        }
        heading.check(kind)?;
        if !has_row {
            let is_open = last_line.is_some() && !reader.get_ref().is_at_line_break;
            return match is_open {
                true => Err(BinsError { line: last_line, flaw: BinsFlaw::OpenLine }),
                false => Ok(intervals.into_values().collect()),
            };
        }
        last_line = line;
        heading.check_length(&record).map_err(error)?;
        let shared = Row { record: &record, columns: CELLS[0], at: 0 };
        let key = shared.key().map_err(error)?;
        let specific =
            Row { record: &record, columns: kind.specific_columns(), at: CELLS[0].len() };
        add(&mut intervals, key, &specific).map_err(error)?;
        if intervals.len() > MAX_INTERVALS {
            return Err(error(BinsFlaw::TooMany(MAX_INTERVALS as u64)));
        }
    }
}

fn csv_error(error: csv::Error) -> BinsError {
    let line = error.position().map(csv::Position::line);
    let flaw = match error.kind() {
        csv::ErrorKind::Io(e) => BinsFlaw::Unreadable(e.to_string()),
        csv::ErrorKind::Utf8 { err, .. } => BinsFlaw::Unreadable(format!("not text: {err}")),
        _ => BinsFlaw::NotCsv(error.to_string()),
    };
    BinsError { line, flaw }
}

/// A reader that refuses endless rows, which would have to fit into memory.
struct BoundedRows<R> {
    input: R,
    /// Number of bytes of the current row.
    row_bytes: usize,
    /// Whether a quote is open, in which a line break does not end the row.
    is_quoted: bool,
    /// Whether the last byte so far ends a line.
    is_at_line_break: bool,
}

impl<R: io::Read> io::Read for BoundedRows<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.input.read(buffer)?;
        if let Some(last) = buffer[..length].last() {
            self.is_at_line_break = b"\r\n".contains(last);
        }
        for &byte in &buffer[..length] {
            self.row_bytes += 1;
            self.is_quoted ^= byte == b'"';
            if byte == b'\n' && !self.is_quoted {
                self.row_bytes = 0;
            }
            if self.row_bytes > MAX_ROW_BYTES {
                let reason = format!("a row is longer than {MAX_ROW_BYTES} bytes");
                return Err(io::Error::other(reason));
            }
        }
        Ok(length)
    }
}

/// The heading of a file.
struct Heading {
    is_expected: bool,
    /// Beginning of the text.
    text: String,
    /// Number of columns.
    columns: usize,
    /// Index of the column with the version of the format.
    version_column: Option<usize>,
}

impl Heading {
    fn new(is_present: bool, record: &csv::StringRecord, kind: Cells) -> Self {
        let cells: Vec<&str> = record.iter().collect();
        Self {
            is_expected: is_present && record.iter().eq(kind.columns()),
            text: cells.join(",").chars().take(MAX_QUOTE).collect(),
            columns: record.len(),
            version_column: cells.iter().position(|name| *name == CELLS[0][8]),
        }
    }

    /// Returns an error if a complete row states another version of the format.
    fn check_version(&self, record: &csv::StringRecord) -> Result<(), BinsFlaw> {
        let version = self.version_column.and_then(|column| record.get(column));
        match version.filter(|_| record.len() == self.columns) {
            Some(version) if version != VERSION.to_string() => {
                Err(BinsFlaw::Version(version.chars().take(MAX_QUOTE).collect()))
            }
            _ => Ok(()),
        }
    }

    fn check(&self, kind: Cells) -> Result<(), BinsError> {
        if self.is_expected {
            return Ok(());
        }
        let expected = kind.heading().chars().take(MAX_QUOTE).collect();
        let flaw = BinsFlaw::Heading { found: self.text.clone(), expected };
        Err(BinsError { line: Some(1), flaw })
    }

    fn check_length(&self, record: &csv::StringRecord) -> Result<(), BinsFlaw> {
        let (cells, columns) = (record.len(), self.columns);
        if cells == columns {
            return Ok(());
        }
        Err(BinsFlaw::NotCsv(format!("{cells} cells, and {columns} columns")))
    }
}
