//! Reads the histograms that bpftrace prints of `hist()` and `lhist()`: a map with its keys, then a row
//! for each bin with its range, its count and a bar (`src/output/text.cpp` of bpftrace).
//!
//! The bins of `hist()` are powers of two. A value counts at the largest number of its bin, and the
//! smallest and the largest value are known only as the edges of theirs. The unit may follow from the
//! name of the map.

use std::collections::{BTreeMap, BTreeSet};

use files::quantity::BIN_EDGES;
use files::report::{MAX_COUNT, MAX_NS, Report, Warning};

use crate::bins::{self, BinnedValues, RawBins, StatedFigures};
use crate::import_error::{ImportError, ImportPlace, ImportReason, Result};
use crate::imported::{
    ImportedReport, check_count, clock, no_cost, no_rounds, strip_escapes, subject, unknown_period,
};
use crate::unit::{UNIT_WARNING, Unit};

const TOOL: &str = "bpftrace";
/// Name of a map whose line is missing.
const UNNAMED: &str = "@";
const HINT: &str =
    "Use lhist() with narrow bins, or hist() with a second argument, for more of them.";

/// Whether a line is a row of a histogram.
pub(super) fn is_line(line: &str) -> bool {
    Row::parse(line).is_some()
}

/// A row such as `[2K, 4K)   100 |@@@@   |`: a range of whole numbers and the count of its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    /// The smallest number of the bin; `None` for all below the first bin of `lhist()`.
    first: Option<i64>,
    /// The largest number of the bin; `None` for all above the last one.
    last: Option<i64>,
    count: u64,
}

impl Row {
    fn parse(line: &str) -> Option<Self> {
        let (range, rest) = line.split_at_checked(line.find([']', ')'])? + 1)?;
        let (count, bar) = rest.split_once('|')?;
        let bar = bar.strip_suffix('|')?;
        if !bar.bytes().all(|byte| matches!(byte, b'@' | b' ')) {
            return None;
        }
        let bound = |text: &str| match text.trim() {
            "..." => Some(None),
            number => parse_bound(number).map(Some),
        };
        let inner = range.strip_prefix(['[', '('])?.strip_suffix([']', ')'])?;
        let (first, last) = match inner.split_once(',') {
            None => (bound(inner)?, bound(inner)?),
            // Old versions print the first bin as [0, 1].
            Some((from, to)) if range.ends_with(']') => (bound(from)?, bound(to)?),
            Some((from, to)) => (bound(from)?, bound(to)?.map(|end| end.saturating_sub(1))),
        };
        let is_range = first.is_some() || last.is_some();
        let is_ordered = first.zip(last).is_none_or(|(first, last)| first <= last);
        let count = count.trim().parse().ok()?;
        (is_range && is_ordered).then_some(Self { first, last, count })
    }
}

/// Parses a bound, in which K means 1,024, M its square, and so on.
fn parse_bound(text: &str) -> Option<i64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_uppercase());
    let power = match &text[digits.len()..] {
        "" => 0,
        suffix => "KMGTPE".find(suffix).filter(|_| suffix.len() == 1)? as u32 + 1,
    };
    digits.parse::<i64>().ok()?.checked_mul(1_024_i64.checked_pow(power)?)
}

/// The histogram of one key of a map.
struct MapHistogram {
    name: String,
    rows: Vec<Row>,
}

/// Reads the histograms of a text whose values are in the given unit, in that of the map's name, or
/// else in nanoseconds.
pub(super) fn read(text: &str, unit: Option<Unit>) -> Result<Report> {
    let histograms = parse_histograms(text)?;
    check_count("histogram", histograms.len())?;
    let named = histograms.iter().map(|histogram| unit_from_name(&histogram.name));
    let has_all_units = unit.is_some() || named.clone().all(|unit| unit.is_some());
    let units: Vec<Unit> = named.map(|named| unit.or(named).unwrap_or(Unit::Ns)).collect();
    let steps = histograms.iter().zip(&units).map(|(map, &unit)| map.widest_ns(unit));
    let mut imported =
        ImportedReport::new(TOOL, clock("unknown", steps.max()), warnings(has_all_units));
    let ids = subject_ids(&histograms);
    for ((histogram, unit), id) in histograms.iter().zip(units).zip(ids) {
        let values = histogram.values(unit).map_err(|e| e.at(ImportPlace::Subject(id.clone())))?;
        bins::add_subject(&mut imported, subject(id, TOOL, None), values, HINT);
    }
    Ok(imported.report())
}

/// Returns the id of each histogram. A script may print a map several times. These prints are
/// numbered, so that the name alone is none of them.
fn subject_ids(histograms: &[MapHistogram]) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for MapHistogram { name, .. } in histograms {
        *counts.entry(name).or_default() += 1;
    }
    // The last number of each map.
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    let mut taken = BTreeSet::new();
    let mut ids = Vec::new();
    for MapHistogram { name, .. } in histograms {
        let number = numbers.entry(name).or_default();
        let mut id = name.clone();
        if counts[name.as_str()] > 1 {
            *number += 1;
            id = format!("{name}-{number}");
        }
        // Another map may have this id.
        while !taken.insert(id.clone()) {
            *number += 1;
            id = format!("{name}-{number}");
        }
        ids.push(id);
    }
    ids
}

fn parse_histograms(text: &str) -> Result<Vec<MapHistogram>> {
    let mut histograms: Vec<MapHistogram> = Vec::new();
    let mut name = None;
    let mut continues = false;
    for (n, line) in (1..).zip(text.lines()) {
        let line = strip_escapes(line).trim();
        if let Some(row) = Row::parse(line) {
            if !continues {
                let name = name.take().unwrap_or_else(|| UNNAMED.to_owned());
                histograms.push(MapHistogram { name, rows: Vec::new() });
            }
            let rows = histograms.last_mut().map(|last| &mut last.rows);
            let follows = |rows: &Vec<Row>| {
                rows.last().is_none_or(|last| last.last.is_some() && last.last < row.first)
            };
            let rows = rows.filter(|rows| follows(rows));
            rows.ok_or(ImportReason::UnorderedRow { line: n })?.push(row);
            continues = true;
        } else if line.starts_with(['[', '(']) && line.contains(" |") {
            return Err(ImportReason::InvalidRow { line: n, text: line.to_owned() }.into());
        } else {
            name = line.strip_suffix(':').filter(|name| name.starts_with('@')).map(str::to_owned);
            continues = false;
        }
    }
    Ok(histograms)
}

/// Returns the unit that a word of a map's name states, such as `usecs` or `latency_ns`.
fn unit_from_name(name: &str) -> Option<Unit> {
    let map = name.split('[').next().unwrap_or_default();
    let mut words = map.rsplit(|c: char| !c.is_alphanumeric());
    // A single s is rarely a unit.
    words.find_map(|word| Unit::parse(word).filter(|_| word.len() > 1))
}

impl MapHistogram {
    /// Returns the width of the widest bin with values.
    fn widest_ns(&self, unit: Unit) -> u64 {
        let width = |row: &Row| Some(row.last?.checked_sub(row.first?)?.unsigned_abs() + 1);
        let occupied = self.rows.iter().filter(|row| row.count > 0);
        let widest = occupied.filter_map(width).max().unwrap_or(1);
        widest.saturating_mul(unit.nanoseconds()).min(MAX_NS)
    }

    fn values(&self, unit: Unit) -> Result<Option<BinnedValues>> {
        let occupied = || self.rows.iter().filter(|row| row.count > 0);
        let (Some(lowest), Some(highest)) = (occupied().next(), occupied().next_back()) else {
            return Ok(None);
        };
        let time = |number: i64| {
            u64::try_from(number)
                .map_err(|_| ImportReason::InvalidTime { time: number.to_string() }.into())
        };
        let missing = |figure| ImportError::from(ImportReason::MissingFigure { figure });
        let min = lowest.first.ok_or_else(|| missing("minimum")).and_then(time)?;
        let max = highest.last.ok_or_else(|| missing("maximum")).and_then(time)?;
        let mut bins = occupied().filter_map(|row| Some((row.last?, row.count)));
        let next = || match bins.next() {
            Some((last, count)) if count <= MAX_COUNT => Ok(Some((time(last)?, count))),
            Some((_, count)) => {
                Err(ImportReason::WrongCount { in_bins: count, stated: MAX_COUNT }.into())
            }
            None => Ok(None),
        };
        let raw = RawBins::collect(next, ImportError::from)?;
        let stated = StatedFigures { min: Some(min), max: Some(max), ..StatedFigures::default() };
        BinnedValues::new(&raw, &stated, unit.nanoseconds())
    }
}

fn warnings(has_all_units: bool) -> Vec<Warning> {
    let mut warnings = vec![
        Warning::new(
            BIN_EDGES,
            "bpftrace prints the counts of bins alone: a percentile and the maximum are the upper end of their bin, which \
             with hist() may be twice the exact value, and the minimum is the lower end of its bin.",
            "Differences within a bin mean nothing; lhist() has bins of a width that you choose.",
        ),
        no_rounds(TOOL),
        no_cost(TOOL),
        unknown_period(TOOL),
    ];
    if !has_all_units {
        let message = "The name of a map states no unit: values are taken as nanoseconds, in which bpftrace's clock counts.";
        let hint = "If they are in another unit, give it with --unit, or name the map @usecs.";
        warnings.push(Warning::new(UNIT_WARNING, message, hint));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{assert_rejected, read_prefixes};

    const TEXT: &str = "\
Attaching 3 probes...
^C

@usecs:
[0]                   12 |@@                                                  |
[1]                  220 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|
[2, 4)               100 |@@@@@@@@@@@@@@@@@@@@@@@                             |
[4, 8)                 0 |                                                    |
[1K, 2K)               3 |                                                    |

@latency_ns[java, 12]:
[512K, 1M)            20 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|

@count: 335
";

    fn figures(report: &Report, i: usize) -> (u64, i64, Option<i64>, Option<i64>, i64) {
        let summary = report.subjects[i].summary.as_ref().unwrap();
        let d = &summary.lateness_ns;
        (summary.ticks, d.min, d.mean, d.p50, d.max)
    }

    #[test]
    fn keys_of_maps_are_subjects() {
        let report = read(TEXT, None).unwrap();
        let ids: Vec<&str> = report.subjects.iter().map(|s| s.id.as_str()).collect();
        assert_eq!(ids, ["@usecs", "@latency_ns[java, 12]"]);
        assert_eq!(figures(&report, 0), (335, 0, None, Some(1_000), 2_047_000));
        let (min, max) = (512 << 10, (1 << 20) - 1);
        assert_eq!(figures(&report, 1), (20, min, None, Some(max), max));
        assert_eq!(report.clock.error_bound_ns, 1_024_000, "the widest bin");
        let codes: Vec<&str> = report.warnings.iter().map(|w| w.code.as_str()).collect();
        assert!(codes.contains(&BIN_EDGES) && codes.contains(&"import-mean"), "{codes:?}");
        assert!(!codes.contains(&"import-unit"), "{codes:?}");
    }

    #[test]
    fn unit_follows_from_name() {
        for (name, unit) in [
            ("@usecs", Some(Unit::Us)),
            ("@lat_ms", Some(Unit::Ms)),
            ("@ns[tid]", Some(Unit::Ns)),
            ("@bytes[us]", None),
            ("@s", None),
            ("@", None),
        ] {
            assert_eq!(unit_from_name(name), unit, "{name}");
        }
        let unnamed = TEXT.replace("@usecs", "@");
        let report = read(&unnamed, None).unwrap();
        assert_eq!(figures(&report, 0).4, 2_047);
        assert!(report.warnings.iter().any(|w| w.code == "import-unit"));
        assert_eq!(figures(&read(&unnamed, Some(Unit::Ms)).unwrap(), 0).4, 2_047_000_000);
    }

    #[test]
    fn rows_have_ranges() {
        let row = |range: &str| Row::parse(&format!("{range:<16}       7 |@@  |"));
        for (range, first, last) in [
            ("[3]", Some(3), Some(3)),
            ("[0, 1]", Some(0), Some(1)),
            ("[8, 16)", Some(8), Some(15)),
            ("[512, 1K)", Some(512), Some(1_023)),
            ("[2M, 4M)", Some(2 << 20), Some((4 << 20) - 1)),
            ("(..., 10)", None, Some(9)),
            ("[200, ...)", Some(200), None),
            ("[-10, 0)", Some(-10), Some(-1)),
        ] {
            assert_eq!(row(range), Some(Row { first, last, count: 7 }), "{range}");
        }
        for range in ["[]", "[x, 4)", "[4, 2)", "(..., ...)", "[1X, 2X)", "[9E, 10E)"] {
            assert_eq!(row(range), None, "{range}");
        }
        for line in ["[2, 4)  7", "[2, 4)  7 |text|", "[2, 4)  |@@|", "| 1 | 2 |", "[Info] 7 ||x"] {
            assert_eq!(Row::parse(line), None, "{line}");
        }
    }

    #[test]
    fn repeated_maps_are_numbered() {
        let report = read(&format!("{TEXT}{TEXT}"), None).unwrap();
        let ids: Vec<&str> = report.subjects.iter().map(|s| s.id.as_str()).collect();
        let expected =
            ["@usecs-1", "@latency_ns[java, 12]-1", "@usecs-2", "@latency_ns[java, 12]-2"];
        assert_eq!(ids, expected);
    }

    #[test]
    fn open_bins_are_rejected() {
        let cases = [
            ("[1K, 2K) ", "[1K, ...)", "@usecs: the maximum is missing"),
            ("[0]      ", "(..., 1) ", "@usecs: the minimum is missing"),
            ("[0]      ", "[-5, 0)  ", "@usecs: invalid time -5"),
            ("[2, 4)", "[1, 4)", "line 7 does not continue"),
            ("220 |", "many |", "invalid row in line 6"),
        ];
        assert_rejected(TEXT, |text| read(text, None), &cases);
        read_prefixes(TEXT, |text| read(text, None));
    }
}
