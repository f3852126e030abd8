//! Rows as comma-separated values, out and in.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;

use crate::report::{MAX_COUNT, MAX_NS};

use super::error::{BinsError, BinsFlaw};
use super::key::{Key, Labels, MAX_CELL, MAX_LABEL_BYTES, cell, micros, stamp};
use super::model::{Bin, Binning, Interval, IntervalCounts, NEGATIVE, VERSION};

/// The two files of one set of intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cells {
    /// A row a bin.
    Bins,
    /// A row an interval.
    Intervals,
}

/// The columns that both have, and those of each.
pub const CELLS: [&[&str]; 3] = [
    &[
        "host",
        "subject",
        "period_ns",
        "runtime",
        "labels",
        "start",
        "duration_ns",
        "run_id",
        "schema_version",
    ],
    &["binning", "lower_ns", "upper_ns", "count"],
    &[
        "ticks",
        "delivered",
        "coalesced",
        "skipped",
        "missed",
        "early",
        "max_ns",
        "cpu_ns",
        "steal_ns",
        "run_queue_ns",
        "throttled_ns",
    ],
];

/// Most intervals of one file: each takes half a kilobyte, from as little as thirty bytes of text.
const MAX_INTERVALS: usize = 1 << 18;
/// How much of a wrong heading is shown.
const SHOWN: usize = 60;

impl Cells {
    /// The columns, in order.
    pub fn columns(self) -> impl Iterator<Item = &'static str> {
        let more = match self {
            Self::Bins => CELLS[1],
            Self::Intervals => CELLS[2],
        };
        CELLS[0].iter().chain(more).copied()
    }

    fn heading(self) -> String {
        self.columns().collect::<Vec<_>>().join(",")
    }
}

/// The first file: a line a bin.
#[must_use]
pub fn bins_csv(intervals: &[Interval]) -> String {
    let mut text = Vec::new();
    write_bins(&mut text, intervals).expect("memory takes it");
    String::from_utf8(text).expect("of texts")
}

/// The same, as it comes: a line of some 150 bytes each time.
///
/// # Errors
/// Those of the writer.
pub fn write_bins(to: &mut (impl io::Write + ?Sized), intervals: &[Interval]) -> io::Result<()> {
    writeln!(to, "{}", Cells::Bins.heading())?;
    for interval in intervals {
        let (key, binning) = (shared(&interval.key), interval.binning.name());
        for (Bin { lower, upper }, count) in interval.rows() {
            writeln!(to, "{key},{binning},{lower},{upper},{count}")?;
        }
    }
    Ok(())
}

/// The second file: a line an interval whose facts are known.
#[must_use]
pub fn intervals_csv(intervals: &[Interval]) -> String {
    let mut text = Cells::Intervals.heading() + "\n";
    for (key, facts) in
        intervals.iter().filter_map(|interval| Some((&interval.key, interval.facts.as_ref()?)))
    {
        text += &shared(key);
        for count in [
            facts.ticks,
            facts.delivered,
            facts.coalesced,
            facts.skipped,
            facts.missed,
            facts.early,
        ] {
            let _ = write!(text, ",{count}");
        }
        text.push(',');
        let _ = facts.max_ns.map_or(Ok(()), |ns| write!(text, "{ns}"));
        for ns in [facts.cpu_ns, facts.steal_ns, facts.run_queue_ns, facts.throttled_ns] {
            text.push(',');
            let _ = ns.map_or(Ok(()), |ns| write!(text, "{ns}"));
        }
        text.push('\n');
    }
    text
}

fn shared(key: &Key) -> String {
    let Key { host, subject, period_ns, runtime, labels, start_us, duration_ns, run_id } = key;
    let [host, subject, runtime, run_id] = [host, subject, runtime, run_id].map(|text| cell(text));
    let start = start_us.map_or(String::new(), stamp);
    format!(
        "{host},{subject},{period_ns},{runtime},{labels},{start},{duration_ns},{run_id},{VERSION}"
    )
}

/// Which of the two files a text is, by its heading; a heading of a later version, too.
#[must_use]
pub fn kind(text: &str) -> Option<Cells> {
    let heading = text.lines().next()?.replace('"', "");
    let has = |column: &str| heading.split(',').any(|name| name == column);
    let of = |kind: Cells, own: &str| (has("schema_version") && has(own)).then_some(kind);
    of(Cells::Bins, "upper_ns").or_else(|| of(Cells::Intervals, "delivered"))
}

/// Reads the first file. The rows of an interval need not be neighbours.
///
/// # Errors
/// The first line that is wrong.
pub fn read_bins(text: &str) -> Result<Vec<Interval>, BinsError> {
    read(text, Cells::Bins, |all, key, row| {
        let name = row.text(0)?;
        let binning = Binning::ALL.into_iter().find(|binning| binning.name() == name);
        let binning = binning.ok_or_else(|| row.not(0, "hdr2 or hdr3"))?;
        let bin = Bin { lower: row.signed(1)?, upper: row.signed(2)? };
        let count = row.count(3)?;
        let is_in_range = (NEGATIVE.lower..=MAX_NS as i64).contains(&bin.lower);
        if binning.bin(bin.lower) != bin || !is_in_range {
            return Err(BinsFlaw::NotABin(bin));
        }
        if count == 0 {
            return Err(row.not(3, "at least 1"));
        }
        let is_new = !all.contains_key(&key);
        let interval = all.entry(key).or_insert_with_key(|key| Interval::empty(key.clone(), None));
        if is_new {
            interval.binning = binning;
        }
        if interval.binning != binning {
            return Err(BinsFlaw::TwoBinnings(interval.key.to_string()));
        }
        if interval.bins.insert(bin.lower, count).is_some() {
            return Err(BinsFlaw::Twice(format!(
                "the bin from {} ns of {}",
                bin.lower, interval.key
            )));
        }
        Ok(())
    })
    .and_then(|all| {
        let over = all.iter().any(|interval| interval.count() > MAX_COUNT);
        if over {
            Err(BinsError { line: None, flaw: BinsFlaw::TooMany(MAX_COUNT) })
        } else {
            Ok(all)
        }
    })
}

/// Reads the second file: intervals without bins.
///
/// # Errors
/// The first line that is wrong.
pub fn read_intervals(text: &str) -> Result<Vec<Interval>, BinsError> {
    read(text, Cells::Intervals, |all, key, row| {
        let facts = IntervalCounts {
            ticks: row.count(0)?,
            delivered: row.count(1)?,
            coalesced: row.count(2)?,
            skipped: row.count(3)?,
            missed: row.count(4)?,
            early: row.count(5)?,
            max_ns: if row.text(6)?.is_empty() { None } else { Some(row.signed(6)?) },
            cpu_ns: row.time(7)?,
            steal_ns: row.time(8)?,
            run_queue_ns: row.time(9)?,
            throttled_ns: row.time(10)?,
        };
        if facts.came() + facts.skipped != facts.ticks {
            return Err(row.not(0, "delivered, coalesced and skipped together"));
        }
        match all.insert(key.clone(), Interval::empty(key, Some(facts))) {
            Some(there) => Err(BinsFlaw::Twice(there.key.to_string())),
            None => Ok(()),
        }
    })
}

type All = BTreeMap<Key, Interval>;

/// A row behind the columns that both files have.
struct Row<'a> {
    record: &'a csv::StringRecord,
    columns: &'static [&'static str],
    at: usize,
}

impl Row<'_> {
    fn text(&self, i: usize) -> Result<&str, BinsFlaw> {
        let text = self.record.get(self.at + i).unwrap_or_default();
        let most = if self.columns[i] == "labels" { MAX_LABEL_BYTES } else { MAX_CELL };
        if text.len() > most {
            let found = text.chars().take(SHOWN).collect();
            return Err(BinsFlaw::Cell {
                column: self.columns[i],
                expected: "as short as it may be",
                found,
            });
        }
        Ok(text)
    }

    fn not(&self, i: usize, expected: &'static str) -> BinsFlaw {
        let found = self.record.get(self.at + i).unwrap_or_default().to_owned();
        BinsFlaw::Cell { column: self.columns[i], expected, found }
    }

    fn signed(&self, i: usize) -> Result<i64, BinsFlaw> {
        self.text(i)?.parse().map_err(|_| self.not(i, "a whole number of nanoseconds"))
    }

    fn count(&self, i: usize) -> Result<u64, BinsFlaw> {
        let count = self.text(i)?.parse().ok().filter(|count| *count <= MAX_COUNT);
        count.ok_or_else(|| self.not(i, "a number that can be counted to"))
    }

    fn time(&self, i: usize) -> Result<Option<u64>, BinsFlaw> {
        if self.text(i)?.is_empty() {
            return Ok(None);
        }
        let ns = self.text(i)?.parse().ok().filter(|ns| *ns <= MAX_NS);
        ns.map(Some).ok_or_else(|| self.not(i, "a time in nanoseconds of at most 31 years"))
    }

    fn key(&self) -> Result<Key, BinsFlaw> {
        // As it would be written: two keys that differ only in what no cell holds are one.
        let owned = |i: usize| self.text(i).map(|text| cell(text).into_owned());
        let start_us = match self.text(5)? {
            "" => None,
            start => Some(micros(start).ok_or_else(|| self.not(5, "a time in RFC 3339, UTC"))?),
        };
        let subject = owned(1)?;
        if subject.is_empty() {
            return Err(self.not(1, "a name"));
        }
        Ok(Key {
            host: owned(0)?,
            subject,
            period_ns: self.time(2)?.unwrap_or(0),
            runtime: owned(3)?,
            labels: Labels::parse(self.text(4)?)
                .map_err(|_| self.not(4, "key=value;key=value, each key once"))?,
            start_us,
            duration_ns: self.time(6)?.unwrap_or(0),
            run_id: owned(7)?,
        })
    }
}

fn read(
    text: &str,
    kind: Cells,
    mut add: impl FnMut(&mut All, Key, &Row<'_>) -> Result<(), BinsFlaw>,
) -> Result<Vec<Interval>, BinsError> {
    let mut reader =
        csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
    let mut record = csv::StringRecord::new();
    let not_csv = |e: csv::Error| BinsError {
        line: e.position().map(csv::Position::line),
        flaw: BinsFlaw::NotCsv(e.to_string()),
    };
    let there = reader.read_record(&mut record).map_err(not_csv)?;
    let is_ours = there && record.iter().eq(kind.columns());
    let found: String = record.iter().collect::<Vec<_>>().join(",").chars().take(SHOWN).collect();
    let version_at = record.iter().position(|name| name == CELLS[0][8]);
    let columns = record.len();
    let mut all = All::new();
    loop {
        let more = reader.read_record(&mut record).map_err(not_csv)?;
        let line = more.then(|| record.position().map(csv::Position::line)).flatten();
        let fails = |flaw| BinsError { line, flaw };
        // The version before all else: a later one may have other columns.
        let version =
            version_at.and_then(|at| record.get(at)).filter(|_| more && record.len() == columns);
        if let Some(version) = version.filter(|version| *version != VERSION.to_string()) {
            return Err(fails(BinsFlaw::Version(version.chars().take(SHOWN).collect())));
        }
        if !is_ours {
            let expected = kind.heading().chars().take(SHOWN).collect();
            return Err(BinsError { line: Some(1), flaw: BinsFlaw::Heading { found, expected } });
        }
        if !more {
            return Ok(all.into_values().collect());
        }
        if record.len() != columns {
            return Err(fails(BinsFlaw::NotCsv(format!(
                "{} cells, and {columns} columns",
                record.len()
            ))));
        }
        let own = if kind == Cells::Bins { CELLS[1] } else { CELLS[2] };
        let of = |columns, at| Row { record: &record, columns, at };
        let key = of(CELLS[0], 0).key().map_err(fails)?;
        add(&mut all, key, &of(own, CELLS[0].len())).map_err(fails)?;
        if all.len() > MAX_INTERVALS {
            return Err(fails(BinsFlaw::TooMany(MAX_INTERVALS as u64)));
        }
    }
}
