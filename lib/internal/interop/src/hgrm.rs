//! Reads and writes HdrHistogram's percentile distribution (`.hgrm`), which wrk2 and vegeta print as
//! well: a row for each percentile, with the value and the number of values up to it.
//!
//! A table is recognized by the names of its columns (`heading`). Its columns may be rounded: several
//! rows can have a percentile that is printed as 1, or the same count. The footer may be missing, and
//! with it the mean.
//!
//! Our files are in microseconds, since readers expect a scaled column. Most other files do not state
//! their unit, which is milliseconds by convention.

mod heading;

use std::fmt::Write as _;

use files::histogram;
use files::report::{MAX_NS, Report, Subject, Warning};

use crate::bins::{self, BinnedValues, RawBins, StatedFigures};
use crate::hgrm::heading::{Distance, Heading, Row};
use crate::hlog;
use crate::import_error::{ExportError, ImportPlace, ImportReason, Result};
use crate::imported::{
    ImportedReport, check_count, clock, no_cost, no_rounds, run_id, subject, unknown_period,
};
use crate::unit::{UNIT_WARNING, Unit};

const TOOL: &str = "hdr-percentiles";
/// Name of the subject of a table.
const NAME: &str = "distribution";
const HINT: &str = "Write an interval log (.hlog), which has every bin.";
/// Line above the table of wrk2, whose values are in milliseconds.
const WRK2_TITLE: &str = "Detailed Percentile spectrum:";
/// Distance in the last row of vegeta, whose others have percentiles that are not rounded to 1.
const VEGETA_LAST: f64 = 1e7;
/// Comment of a file that osjitter writes, which states the unit as [`hlog::stated_unit`] reads it.
const OWN_COMMENT: &str = "#[Lateness in microseconds]";
const NS_PER_US: f64 = 1e3;
/// Number of subbuckets of a histogram in every implementation, by its number of digits.
const SUB_BUCKETS: [u32; 6] = [2, 32, 256, 2_048, 32_768, 262_144];
/// Reported steps for each halving of the distance to 100 %; the default of every implementation.
const STEPS_PER_HALF: u32 = 5;

/// Writes the distribution of a subject.
///
/// # Errors
/// Returns an error if the subject has no valid histogram.
pub fn write(subject: &Subject) -> std::result::Result<String, ExportError> {
    let Some(stored) = &subject.histogram else {
        return Err(ExportError::MissingHistogram { subject: subject.id.clone() });
    };
    let histogram = histogram::unpack(stored).map_err(|error| ExportError::InvalidHistogram {
        subject: subject.id.clone(),
        source: Box::new(error),
    })?;
    let mut text = String::from("       Value     Percentile TotalCount 1/(1-Percentile)\n\n");
    let mut total = 0_u64;
    for step in histogram.iter_quantiles(STEPS_PER_HALF) {
        // The bin of the longest time extends beyond it.
        let highest = histogram.highest_equivalent(step.value_iterated_to()).min(MAX_NS);
        let value = highest as f64 / NS_PER_US;
        let q = step.quantile_iterated_to();
        total += step.count_since_last_iteration();
        let _ = write!(text, "{value:12.3} {q:14.12} {total:10}");
        // The last line is at 100 % and has no distance.
        text += &if q < 1.0 { format!(" {:14.2}\n", 1.0 / (1.0 - q)) } else { "\n".to_owned() };
    }
    let (mean, deviation) = (histogram.mean() / NS_PER_US, histogram.stdev() / NS_PER_US);
    let (max, count) = (histogram.max().min(MAX_NS) as f64 / NS_PER_US, histogram.len());
    let _ = writeln!(text, "#[Mean    = {mean:12.3}, StdDeviation   = {deviation:12.3}]");
    let _ = writeln!(text, "#[Max     = {max:12.3}, Total count    = {count:12}]");
    let sub_buckets = SUB_BUCKETS[usize::from(histogram.sigfig())];
    let buckets = histogram.buckets();
    let _ = writeln!(text, "#[Buckets = {buckets:12}, SubBuckets     = {sub_buckets:12}]");
    text += OWN_COMMENT;
    text.push('\n');
    Ok(text)
}

/// Whether a line has the names of the columns.
pub(super) fn is_heading(line: &str) -> bool {
    Heading::parse(line).is_some()
}

/// A table of percentiles, in the unit of its file.
struct Table {
    heading: Heading,
    /// The unit that a line below the heading implies.
    unit: Option<Unit>,
    rows: Vec<Row>,
    mean: Option<f64>,
    max: Option<f64>,
    count: Option<u64>,
    /// Whether a line was read that ends the rows.
    has_ended: bool,
    has_footer: bool,
}

/// The parsed lines of a text.
#[derive(Default)]
struct Tables {
    /// The unit that a line above the first table implies for all tables.
    unit: Option<Unit>,
    tables: Vec<Table>,
}

/// Whether a text may end within a figure: it has no line break after a number.
pub(super) fn may_lose_figures(text: &str) -> bool {
    let last = text.rsplit([' ', '\t', ',', ';', '|', '"', '\n']).next().unwrap_or_default();
    heading::parse_decimal(last).is_some()
}

/// Reads the tables of a text whose values are in the given unit, or in the one that it implies.
pub(super) fn read(text: &str, unit: Option<Unit>) -> Result<Report> {
    let Tables { unit: common, tables } = Tables::parse(text)?;
    if unit.is_none() {
        check_units(common, &tables)?;
    }
    let table_unit = |table: &Table| unit.or(table.heading.unit).or(table.unit).or(common);
    let has_units = tables.iter().all(|table| table_unit(table).is_some());
    check_count("table", tables.len())?;
    let mut imported = ImportedReport::new(TOOL, clock("unknown", None), warnings(has_units));
    for (number, table) in (1..).zip(&tables) {
        let id = run_id(NAME, number, tables.len());
        let unit = table_unit(table).unwrap_or(Unit::Ms);
        let values =
            table.values(unit.nanoseconds()).map_err(|e| e.at(ImportPlace::Subject(id.clone())))?;
        bins::add_subject(&mut imported, subject(id, TOOL, None), values, HINT);
    }
    Ok(imported.report())
}

/// Returns the unit that a line implies.
fn implied_unit(line: &str) -> Option<Unit> {
    if line.contains(WRK2_TITLE) {
        return Some(Unit::Ms);
    }
    line.strip_prefix('#').and_then(hlog::stated_unit)
}

/// Checks that the unit of one table is not taken for that of another.
fn check_units(common: Option<Unit>, tables: &[Table]) -> Result<()> {
    let stated = |table: &Table| [table.heading.unit, table.unit, common].into_iter().flatten();
    let first = tables.first().and_then(|table| stated(table).next());
    let differs = |table: &Table| {
        stated(table).next() != first || stated(table).any(|unit| Some(unit) != first)
    };
    if tables.iter().any(differs) {
        return Err(ImportReason::UnitsOfTables.into());
    }
    Ok(())
}

impl Tables {
    fn parse(text: &str) -> Result<Self> {
        let mut parsed = Self::default();
        // The end of a table, whose heading is missing.
        let mut has_footer = false;
        for (n, line) in (1..).zip(text.lines().map(str::trim)) {
            if let Some(heading) = Heading::parse(line) {
                if has_footer {
                    return Err(ImportReason::SecondRun { line: n }.into());
                }
                parsed.tables.push(Table::new(heading));
                continue;
            }
            let unit = implied_unit(line);
            if let Some(table) = parsed.tables.last_mut() {
                table.unit = table.unit.or(unit);
                if table.has_footer && table.repeats_figures(line) {
                    return Err(ImportReason::SecondRun { line: n }.into());
                }
                table.add(line).map_err(|e| e.at(ImportPlace::Line(n)))?;
            } else {
                parsed.unit = parsed.unit.or(unit);
                has_footer |= figures(line).is_some_and(|figures| figures.contains("Total count"));
            }
        }
        if parsed.tables.iter().any(|table| !table.is_complete() && !table.is_empty()) {
            return Err(ImportReason::CutOff { before: "the row of 100 %" }.into());
        }
        Ok(parsed)
    }
}

/// Returns the figures of a line such as `#[Mean    =        1.305, StdDeviation   =        0.210]`,
/// perhaps behind the prefix of a log.
fn figures(line: &str) -> Option<&str> {
    let (_, figures) = line.rsplit_once('[')?;
    let (first, _) = figures.split_once('=')?;
    let is_known = ["Mean", "Max", "Buckets"].contains(&first.trim());
    is_known.then(|| figures.trim_end().trim_end_matches(']'))
}

impl Table {
    fn new(heading: Heading) -> Self {
        Self {
            heading,
            unit: None,
            rows: Vec::new(),
            mean: None,
            max: None,
            count: None,
            has_ended: false,
            has_footer: false,
        }
    }

    /// Whether the table is that of a histogram without a value, whose only line may be missing.
    fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.count == Some(0)
    }

    /// Whether the last row has all values. Its percentile may be one that is rounded to 100 %, unless
    /// the distance or the figures below it show that it is the last one.
    fn is_complete(&self) -> bool {
        // A share is not above 1, except in a column of percent.
        let is_percent = self.rows.iter().any(|row| row.share > 1.0);
        let whole = if is_percent { 100.0 } else { 1.0 };
        let Some(last) = self.rows.last().filter(|row| row.share >= whole) else { return false };
        match last.distance {
            Distance::Missing | Distance::Infinite => true,
            Distance::Other(number) => {
                // vegeta writes this number in its last row.
                self.has_footer || self.heading.unit.is_some() && number == Some(VEGETA_LAST)
            }
        }
    }

    /// Returns whether a line has a figure that the table has already.
    fn repeats_figures(&self, line: &str) -> bool {
        figures(line).is_some_and(|figures| {
            figures.starts_with("Mean") && self.mean.is_some()
                || figures.starts_with("Max") && self.max.is_some()
        })
    }

    /// Adds a line below the heading: a row, or a figure. Others end the rows once the table is
    /// complete, and are ignored before.
    fn add(&mut self, line: &str) -> Result<()> {
        let cells = line.trim_start_matches(['#', '/', '|', ' ', '\t']);
        if self.add_figures(line) {
            self.has_ended = true;
            self.has_footer = true;
        } else if !self.has_ended && self.heading.is_row_start(cells) {
            let invalid = || ImportReason::InvalidPercentileRow { text: line.to_owned() };
            match self.heading.row(cells) {
                Some(row) if self.is_next(row) => self.rows.push(row),
                None if self.is_complete() => self.has_ended = true,
                _ => return Err(invalid().into()),
            }
        } else if !line.is_empty() {
            self.has_ended |= self.is_complete();
        }
        Ok(())
    }

    /// Whether a row continues the table.
    fn is_next(&self, row: Row) -> bool {
        self.rows.last().is_none_or(|last| row.value >= last.value && row.count >= last.count)
    }

    /// Adds the figures of a line. Returns whether it has one of them.
    fn add_figures(&mut self, line: &str) -> bool {
        let Some(figures) = figures(line) else { return false };
        for (name, value) in figures.split(", ").filter_map(|figure| figure.split_once('=')) {
            let value = value.trim();
            match name.trim() {
                "Mean" => self.mean = heading::parse_decimal(value),
                "Max" => self.max = heading::parse_decimal(value),
                // Python writes the count with decimals.
                "Total count" | "TotalCount" => {
                    let count = heading::parse_decimal(value).filter(|count| *count >= 0.0);
                    self.count = value.parse().ok().or(count.map(|count| count as u64));
                }
                _ => {}
            }
        }
        true
    }

    /// Returns the values, each at the first row that contains it; `None` without a value.
    fn values(&self, unit_ns: u64) -> Result<Option<BinnedValues>> {
        let mut raw = RawBins::default();
        let mut seen = 0;
        for row in &self.rows {
            let ns = nanoseconds(row.value, unit_ns)?;
            if row.count > seen {
                *raw.0.entry(ns).or_default() += row.count - seen;
                seen = row.count;
            }
        }
        // Counts may be rounded, so that the row of the largest value adds none.
        if let Some(row) = self.rows.last() {
            add_largest(&mut raw, nanoseconds(row.value, unit_ns)?);
        }
        let first = self.rows.first().filter(|row| row.share == 0.0);
        let min = first.map(|row| nanoseconds(row.value, unit_ns)).transpose()?;
        let max = self.max.and_then(|max| nanoseconds(max, unit_ns).ok());
        let max = max.filter(|&max| limit_last_bin(&mut raw, max));
        let min = min.map(|min| min.min(raw.0.keys().next().copied().unwrap_or(min)));
        let mean = self.mean.map(|mean| mean * unit_ns as f64);
        let stated = StatedFigures { count: self.count, min, max, mean };
        BinnedValues::new(&raw, &stated, 1)
    }
}

/// Moves one value of the last bin to the largest value, if that is above the bin.
fn add_largest(raw: &mut RawBins, max: u64) {
    let Some(mut last) = raw.0.last_entry().filter(|last| *last.key() < max) else { return };
    *last.get_mut() -= 1;
    if *last.get() == 0 {
        last.remove();
    }
    raw.0.insert(max, 1);
}

/// Moves the last bin to the largest value, if it is in this bin: a row has the upper end of a bin.
/// Returns whether the largest value is possible.
fn limit_last_bin(raw: &mut RawBins, max: u64) -> bool {
    let mut last_two = raw.0.iter().rev().map(|(&value, &count)| (value, count));
    match (last_two.next(), last_two.next()) {
        (Some((last, count)), before) if max < last => {
            let is_possible = before.is_none_or(|(before, _)| max > before);
            if is_possible {
                raw.0.remove(&last);
                raw.0.insert(max, count);
            }
            is_possible
        }
        _ => true,
    }
}

/// Converts a value of the file, which is not negative.
fn nanoseconds(value: f64, unit_ns: u64) -> Result<u64> {
    let ns = (value * unit_ns as f64).round();
    if (0.0..=MAX_NS as f64).contains(&ns) {
        Ok(ns as u64)
    } else {
        Err(ImportReason::InvalidTime { time: value.to_string() }.into())
    }
}

fn warnings(has_units: bool) -> Vec<Warning> {
    let mut warnings = vec![
        Warning::new(
            "import-rounded",
            "A percentile is the value of the first row of the table that reaches it, and may be later than the exact \
             one.",
            HINT,
        ),
        no_rounds("HdrHistogram's percentile distribution"),
        no_cost("a percentile distribution"),
        unknown_period("A percentile distribution"),
    ];
    if !has_units {
        let message = "The file states no unit: values are taken as milliseconds, by convention.";
        let hint = "If they are in another unit, give it with --unit.";
        warnings.push(Warning::new(UNIT_WARNING, message, hint));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::read_prefixes;

    const TEXT: &str = "\
       Value     Percentile TotalCount 1/(1-Percentile)

       1.000 0.000000000000          1           1.00
       1.200 0.500000000000        520           2.00
       1.500 0.900000000000        900          10.00
       1.500 0.950000000000        900          20.00
       2.500 0.990000000000        995         100.00
       9.000 1.000000000000       1000
#[Mean    =        1.305, StdDeviation   =        0.210]
#[Max     =        9.000, Total count    =         1000]
#[Buckets =           22, SubBuckets     =         2048]
";

    fn figures(
        report: &Report,
        i: usize,
    ) -> (u64, i64, Option<i64>, Option<i64>, Option<i64>, i64) {
        let summary = report.subjects[i].summary.as_ref().unwrap();
        let d = &summary.lateness_ns;
        (summary.ticks, d.min, d.mean, d.p50, d.p90, d.max)
    }

    #[test]
    fn rows_are_bins() {
        let report = read(TEXT, None).unwrap();
        let expected =
            (1_000, 1_000_000, Some(1_305_000), Some(1_200_000), Some(1_500_000), 9_000_000);
        assert_eq!(figures(&report, 0), expected);
        assert!(report.warnings.iter().any(|w| w.code == "import-unit"));
        let in_us = read(TEXT, Some(Unit::Us)).unwrap();
        assert_eq!(
            figures(&in_us, 0),
            (1_000, 1_000, Some(1_305), Some(1_200), Some(1_500), 9_000)
        );
        let csv: String = TEXT
            .lines()
            .map(|line| {
                let cells: Vec<&str> = line.split_whitespace().collect();
                if line.starts_with('#') { format!("{line}\n") } else { cells.join(",") + "\n" }
            })
            .collect();
        assert_eq!(read(&csv, None).unwrap(), report);
    }

    #[test]
    fn tables_of_wrk2_are_subjects() {
        let table = TEXT.replace("Value     Percentile", "Value   Percentile");
        let text = format!("  {WRK2_TITLE}\n{table}----\n  1000 requests in 2.00s\n{table}");
        let report = read(&text, None).unwrap();
        let ids: Vec<&str> = report.subjects.iter().map(|s| s.id.as_str()).collect();
        assert_eq!(ids, ["distribution-1", "distribution-2"]);
        assert_eq!(figures(&report, 1), figures(&report, 0));
        assert!(report.warnings.iter().all(|w| w.code != "import-unit"));
    }

    #[test]
    fn own_distribution_is_read_again() {
        let mut subject = subject("x".to_owned(), "x", None);
        subject.histogram = Some(histogram::pack((1..=1_000).map(|n| n * 1_000)));
        let text = write(&subject).unwrap();
        assert!(text.contains("SubBuckets     =         2048]"), "{text}");
        let report = read(&text, None).unwrap();
        let (count, min, _, p50, p90, max) = figures(&report, 0);
        assert_eq!((count, min, max), (1_000, 1_000, 1_000_447));
        // The row of 90 % has the next value, because the share is rounded up.
        assert_eq!((p50, p90), (Some(500_223), Some(901_119)));
    }

    /// Removes the figures below the table.
    fn without_footer(text: &str) -> &str {
        text.split_once("#[").unwrap().0
    }

    #[test]
    fn rounded_percentile_ends_no_table() {
        let rows = "       9.000 1.000000000000       1000";
        let more = "       9.000 1.000000000000        999           inf\n      11.000 1.000000         1001";
        let text = TEXT.replace(rows, more).replace("=         1000", "=         1001");
        let text = text.replace("Max     =        9.000", "Max     =       11.000");
        let report = read(&text, None).unwrap();
        let stored = histogram::unpack(report.subjects[0].histogram.as_ref().unwrap()).unwrap();
        assert_eq!(stored.count_between(8_900_000, 9_100_000), 4);
        assert_eq!(stored.count_between(10_900_000, 11_100_000), 2);
        assert_eq!(figures(&report, 0).5, 11_000_000);
        // Lines below a complete table are none of its rows.
        let below =
            format!("{}----\n  1000 requests in 2.00s\n  2 1.0 1 9\n", without_footer(TEXT));
        assert_eq!(figures(&read(&below, None).unwrap(), 0).0, 1_000);
        let falls = TEXT.replace(rows, &format!("{rows}\n       8.000 1.000000       1001"));
        let error = read(&falls, None).unwrap_err().to_string();
        assert!(error.contains("line 9: invalid row"), "{error}");
    }

    #[test]
    fn rounded_count_keeps_largest_value() {
        // vegeta computes the counts from the percentiles, and rounds them.
        let text = "Value(ms)  Percentile  TotalCount  1/(1-Percentile)\n\
                    1.250000   0.000000    0           1.000000\n\
                    1.500000   0.500000    500         2.000000\n\
                    40.000000  0.999900    1000        10000.000000\n\
                    55.500000  1.000000    1000        10000000.000000\n";
        let report = read(text, None).unwrap();
        let expected = (1_000, 1_250_000, None, Some(1_500_000), Some(40_000_000), 55_500_000);
        assert_eq!(figures(&report, 0), expected);
        assert!(report.warnings.iter().all(|w| w.code != "import-unit"));
    }

    #[test]
    fn mean_without_footer_is_unknown() {
        let report = read(without_footer(TEXT), None).unwrap();
        let expected = (1_000, 1_000_000, None, Some(1_200_000), Some(1_500_000), 9_000_000);
        assert_eq!(figures(&report, 0), expected);
        assert!(report.warnings.iter().any(|w| w.code == "import-mean"));
    }

    #[test]
    fn footer_may_have_a_prefix() {
        let expected = read(TEXT, None).unwrap();
        assert_eq!(read(&TEXT.replace("#[", "[Info]    #["), None).unwrap(), expected);
        assert_eq!(read(&TEXT.replace("#[", "12:30 ["), None).unwrap(), expected);
        assert_eq!(read(&TEXT.replace('\n', "\r\n"), None).unwrap(), expected);
        let percent = TEXT.replace("0.500000000000", "50.0").replace("0.900000000000", "90.0");
        let percent = percent.replace("0.950000000000", "95").replace("0.990000000000", "99.0");
        let percent = percent.replace("1.000000000000", "100.0");
        assert_eq!(read(&percent, None).unwrap(), expected);
        let cut = percent.split_once("       9.000").unwrap().0;
        assert!(read(cut, None).is_err());
    }

    #[test]
    fn rounded_row_is_no_end() {
        let rounded = "       9.000 1.000000         1000      50000000.00\n";
        let text =
            without_footer(TEXT).replace("       9.000 1.000000000000       1000\n", rounded);
        let error = read(&text, None).unwrap_err().to_string();
        assert!(error.contains("cut off before the row of 100 %"), "{error}");
        // Only vegeta, which states the unit, ends so.
        let vegeta = text.replace("50000000.00", "10000000.00");
        assert!(read(&vegeta, None).is_err());
        assert!(read(&vegeta.replace("Value ", "Value(ms)"), None).is_ok());
        for end in ["inf", "Infinity", ""] {
            assert!(read(&text.replace("50000000.00", end), None).is_ok(), "{end}");
        }
        // Lines of a log may interrupt the rows.
        let noise = text.replace(rounded, &format!("{rounded}note\n      11.000 1.0 1001 inf\n"));
        assert_eq!(figures(&read(&noise, None).unwrap(), 0).5, 11_000_000);
    }

    #[test]
    fn parts_of_second_table_are_rejected() {
        let (_, rows) = TEXT.split_once('\n').unwrap();
        let (_, footer) = TEXT.split_once("#[").unwrap();
        for text in [format!("{TEXT}{rows}"), format!("{TEXT}#[{footer}"), format!("{rows}{TEXT}")]
        {
            let error = read(&text, None).unwrap_err().to_string();
            assert!(error.contains("a second run begins in line "), "{error}");
        }
    }

    #[test]
    fn units_of_tables_are_separate() {
        let own = format!("{TEXT}{OWN_COMMENT}\n");
        let stated = TEXT.replace("Value ", "Value(ms)");
        for text in [
            format!("{own}{TEXT}"),
            format!("{TEXT}{own}"),
            format!("{own}{stated}"),
            format!("{stated}{}", without_footer(TEXT)),
            format!("{own}{WRK2_TITLE}\n{TEXT}"),
        ] {
            let error = read(&text, None).unwrap_err().to_string();
            assert!(error.contains("not all of its tables state one unit"), "{error}");
            assert_eq!(read(&text, Some(Unit::Us)).unwrap().subjects.len(), 2);
        }
        for text in [format!("{own}{own}"), format!("{stated}{stated}"), format!("{TEXT}{TEXT}")] {
            assert_eq!(read(&text, None).unwrap().subjects.len(), 2);
        }
    }

    #[test]
    fn exact_maximum_is_kept() {
        for (max, expected) in [("8.700", 8_700_000), ("9.000", 9_000_000), ("2.000", 9_000_000)] {
            let text = TEXT.replace("Max     =        9.000", &format!("Max = {max}"));
            assert_eq!(figures(&read(&text, None).unwrap(), 0).5, expected, "{max}");
        }
    }

    #[test]
    fn incomplete_tables_are_rejected() {
        let (cut, _) = TEXT.split_once("       9.000").unwrap();
        for (text, says) in [
            (cut.to_owned(), "cut off before the row of 100 %"),
            (TEXT.replace("1.200", "0.200"), "line 4: invalid row"),
            (TEXT.replace("520", "0"), "line 4: invalid row"),
            (TEXT.replace("1.200", "1.2x"), "line 4: invalid row"),
            (TEXT.replace("1.200", "-1.200"), "line 4: invalid row"),
            (TEXT.replace("1.200", "NaN"), "line 4: invalid row"),
            (TEXT.replace("=         1000]", "=          900]"), "but the stated count is 900"),
            (TEXT.replace("=         1000]", "=         1001]"), "1 values are above the last bin"),
        ] {
            let error = read(&text, None).err().map_or(String::new(), |e| e.to_string());
            assert!(error.contains(says), "{says}: {error}");
        }
        read_prefixes(TEXT, |text| read(text, None));
        let heading = TEXT.lines().next().unwrap();
        let empty = format!("{heading}\n\n#[Max = 0.000, Total count = 0]\n");
        assert!(read(&empty, None).unwrap().subjects[0].summary.is_none());
    }
}
