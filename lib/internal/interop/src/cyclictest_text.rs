//! Reads the text that cyclictest prints: the histogram of `-h` and `-H`, also in the file of
//! `--histfile`, the lines of the threads without `-q`, and the values of `-v`.
//!
//! A row of the histogram is a latency and its count for each thread. With `-H`, another column has
//! the sum of all threads. The text does not state the command line. Its unit follows only from the
//! width of the columns in the lines of the threads, which is larger with `-N`.

use std::collections::BTreeMap;

use files::report::{Report, Warning};

use crate::bins::{self, BinnedValues, RawBins, StatedFigures};
use crate::cyclictest::{HINT, TOOL, missed_warning, thread_id};
use crate::import_error::{ImportError, ImportPlace, ImportReason, Result};
use crate::imported::{
    ImportedReport, check_count, clock, no_cost, no_rounds, rounded, strip_escapes, subject,
    unknown_host, unknown_period, warning,
};
use crate::unit::Unit;

/// Beginnings of lines that only cyclictest prints, behind the mark of a comment.
const BEGINNINGS: [&str; 5] = [
    "/dev/cpu_dma_latency set to",
    "Min Latencies:",
    "Avg Latencies:",
    "Max Latencies:",
    "Histogram Overflow",
];
/// The line before the rows of a histogram, behind the mark of a comment.
const TITLE: &str = "Histogram";

/// Removes the mark of a comment, which an editor may have removed before.
fn unmarked(line: &str) -> &str {
    line.trim_start_matches('#').trim_start()
}

/// Whether a line is one of cyclictest's output, by itself or with the next line.
pub(super) fn is_line(line: &str, next: &str) -> bool {
    // Such a title is common in documents.
    let text = unmarked(line);
    let is_title = text == TITLE && line != text && parse_row(next.trim()).is_some();
    let has_cpus = line.strip_prefix("Max CPUs = ").is_some_and(|n| n.parse::<u64>().is_ok());
    is_title
        || has_cpus
        || BEGINNINGS.iter().any(|begin| text.starts_with(begin))
        || ThreadLine::parse(line).is_some()
}

/// A line of `-v`: the value of a cycle of a thread.
struct ValueLine {
    thread: u64,
    value: u64,
}

impl ValueLine {
    /// Parses a line such as `       0:      17:       4`, perhaps with a count of interrupts.
    fn parse(line: &str) -> Option<Self> {
        let (thread, value) = Self::columns(line)?;
        Some(Self { thread, value: value.parse().ok()? })
    }

    /// Returns whether a line has a value, even if it is not possible.
    fn is_complete(line: &str) -> bool {
        Self::columns(line).is_some()
    }

    /// Returns the thread and the text of the value. The width of the columns distinguishes the line
    /// from a time of the day.
    fn columns(line: &str) -> Option<(u64, &str)> {
        const WIDTH: usize = 8;
        let (thread, rest) = line.split_once(':')?;
        let (cycle, value) = rest.split_once(':')?;
        if cycle.len() < WIDTH || value.len() < WIDTH || cycle.trim().parse::<u64>().is_err() {
            return None;
        }
        Some((thread.trim().parse().ok()?, value.split_whitespace().next()?))
    }
}

/// The figures of a thread below the histogram, or in its own line.
#[derive(Clone, Copy, Debug, Default)]
struct ThreadFigures {
    min: Option<u64>,
    mean: Option<u64>,
    max: Option<u64>,
    /// Number of values above the last row.
    overflow: Option<u64>,
    /// Number of all values.
    cycles: Option<u64>,
    period_us: Option<u64>,
}

/// A line such as `T: 0 ( 1234) P:99 I:1000 C:  10000 Min:  3 Act:  5 Avg:  5 Max:  40`.
#[derive(Debug, PartialEq, Eq)]
struct ThreadLine {
    number: u64,
    period_us: u64,
    cycles: u64,
    min: u64,
    mean: u64,
    max: u64,
    unit: Option<Unit>,
}

impl ThreadLine {
    /// Returns whether a line has all figures of a thread, even if one is not possible.
    fn is_complete(line: &str) -> bool {
        let has_maximum = || {
            let (_, max) = line.split_once(" Max:")?;
            max.split_whitespace().next()
        };
        line.starts_with("T:") && line.contains(" Min:") && has_maximum().is_some()
    }

    fn parse(line: &str) -> Option<Self> {
        let rest = line.strip_prefix("T:")?;
        let (number, rest) = rest.split_once('(')?;
        let number_after = |label: &str| {
            let (_, value) = rest.split_once(label)?;
            value.split_whitespace().next()?.parse().ok()
        };
        Some(Self {
            number: number.trim().parse().ok()?,
            period_us: number_after(" I:")?,
            cycles: number_after(" C:")?,
            min: number_after(" Min:")?,
            mean: number_after(" Avg:")?,
            max: number_after(" Max:")?,
            unit: column_unit(rest),
        })
    }
}

/// Returns the unit that the width of two columns shows: cyclictest prints a latency with at least
/// five characters, and with eight with `-N`. `None` if an editor has changed the widths.
fn column_unit(line: &str) -> Option<Unit> {
    let (_, rest) = line.split_once(" Act:")?;
    let (last, rest) = rest.split_once(" Avg:")?;
    let (mean, _) = rest.split_once(" Max:")?;
    match last.len().min(mean.len()) {
        8.. => Some(Unit::Ns),
        5.. => Some(Unit::Us),
        _ => None,
    }
}

/// The parsed lines of an output.
#[derive(Default)]
struct Output {
    /// Whether the rows of a histogram follow.
    has_title: bool,
    /// The bins of each column of the histogram.
    columns: Vec<BTreeMap<u64, u64>>,
    /// The largest latency that has a row.
    last_row: Option<u64>,
    threads: BTreeMap<u64, ThreadFigures>,
    /// The counts of the values of each thread, with `-v`.
    values: BTreeMap<u64, BTreeMap<u64, u64>>,
    /// The unit that the lines of the threads show.
    unit: Option<Unit>,
    /// Number of threads in the figures below the histogram.
    thread_count: Option<usize>,
}

/// Reads the text. Latencies are in the given unit, in the one that the text shows, or else in
/// microseconds, as they are without `-N`.
pub(super) fn read(text: &str, unit: Option<Unit>) -> Result<Report> {
    let mut output = Output::default();
    for (n, line) in (1..).zip(text.lines()) {
        output.add(n, strip_escapes(line).trim())?;
    }
    output.check_columns()?;
    let unit = unit.or(output.unit);
    let unit_ns = unit.unwrap_or(Unit::Us).nanoseconds();
    let mut imported = ImportedReport {
        tool: TOOL,
        version: None,
        started_utc: None,
        duration_ns: None,
        host: unknown_host(),
        clock: clock("the kernel's clock, by cyclictest", Some(unit_ns)),
        warnings: output.warnings(unit),
        subjects: Vec::new(),
    };
    for (&number, figures) in &output.threads {
        let period_ns = figures.period_us.and_then(|us| us.checked_mul(1_000));
        let values = output.values(number, figures, unit_ns);
        let values = values.map_err(|e| e.at(ImportPlace::Thread(number)))?;
        let subject = subject(thread_id(number, period_ns), TOOL, period_ns);
        bins::add_subject(&mut imported, subject, values, HINT);
    }
    Ok(imported.report())
}

impl Output {
    fn add(&mut self, n: usize, line: &str) -> Result<()> {
        let invalid = || ImportReason::InvalidRow { line: n, text: line.to_owned() };
        if let Some(thread) = ThreadLine::parse(line) {
            return self.add_thread(&thread);
        }
        if let Some(value) = ValueLine::parse(line) {
            return self.add_value(&value);
        }
        // A clock that went backwards gives negative values. Without them, the rest would be better
        // than what was measured.
        if ThreadLine::is_complete(line) || ValueLine::is_complete(line) {
            return Err(invalid().into());
        }
        if line.starts_with(|c: char| c.is_ascii_digit()) {
            return match parse_row(line) {
                Some(row) => self.add_row(n, row),
                None if !self.has_title => Ok(()),
                None => Err(invalid().into()),
            };
        }
        let text = unmarked(line);
        self.has_title |= text == TITLE;
        match text.split_once(':') {
            Some((label, values)) => self.add_figures(label, values),
            None => Ok(()),
        }
    }

    /// Adds a line of figures below the histogram.
    fn add_figures(&mut self, label: &str, values: &str) -> Result<()> {
        let set: fn(&mut ThreadFigures, u64) = match label {
            "Min Latencies" => |figures, value| figures.min = Some(value),
            "Avg Latencies" => |figures, value| figures.mean = Some(value),
            "Max Latencies" => |figures, value| figures.max = Some(value),
            "Histogram Overflows" => |figures, value| figures.overflow = Some(value),
            _ => return Ok(()),
        };
        let values: Vec<&str> = values.split_whitespace().collect();
        if label == "Min Latencies" {
            // Only this line has no sum of all threads with -H.
            check_count("thread", values.len())?;
            self.thread_count = Some(values.len());
        }
        let count = self.thread_count.unwrap_or(0);
        for (number, value) in (0..).zip(values).take(count) {
            // A figure that is not understood is not stated.
            if let Ok(value) = value.parse() {
                set(self.threads.entry(number).or_default(), value);
            }
        }
        Ok(())
    }

    fn add_thread(&mut self, line: &ThreadLine) -> Result<()> {
        let figures = self.threads.entry(line.number).or_default();
        figures.min = Some(line.min);
        figures.mean = Some(line.mean);
        figures.max = Some(line.max);
        figures.cycles = Some(line.cycles);
        figures.period_us = Some(line.period_us).filter(|&us| us > 0);
        self.unit = self.unit.or(line.unit);
        check_count("thread", self.threads.len())
    }

    fn add_value(&mut self, line: &ValueLine) -> Result<()> {
        self.threads.entry(line.thread).or_default();
        let count = self.values.entry(line.thread).or_default().entry(line.value).or_default();
        *count += 1;
        check_count("thread", self.threads.len())
    }

    fn add_row(&mut self, n: usize, (latency, counts): (u64, Vec<u64>)) -> Result<()> {
        check_count("column", counts.len())?;
        if self.last_row.is_none() {
            self.columns = vec![BTreeMap::new(); counts.len()];
        }
        if self.columns.len() != counts.len() || self.last_row.is_some_and(|last| last >= latency) {
            return Err(ImportReason::UnorderedRow { line: n }.into());
        }
        self.last_row = Some(latency);
        for (column, count) in self.columns.iter_mut().zip(counts) {
            if count > 0 {
                column.insert(latency, count);
            }
        }
        Ok(())
    }

    /// Checks that the histogram is complete and belongs to the figures below it.
    fn check_columns(&self) -> Result<()> {
        const CUT_OFF: ImportReason = ImportReason::CutOff { before: "\"# Min Latencies\"" };
        if self.threads.is_empty() {
            return Err(CUT_OFF.into());
        }
        let Some(threads) = self.thread_count else {
            let is_cut = !self.columns.is_empty();
            return if is_cut { Err(CUT_OFF.into()) } else { Ok(()) };
        };
        let columns = self.columns.len();
        // With -H, the last column is the sum of several threads.
        if columns == threads || columns == threads + 1 && threads > 1 {
            return Ok(());
        }
        if columns == 0 {
            return Err(ImportReason::MissingRows.into());
        }
        Err(ImportReason::WrongThreadCount { columns, threads }.into())
    }

    fn warnings(&self, unit: Option<Unit>) -> Vec<Warning> {
        let mut warnings = vec![no_rounds(TOOL), no_cost(TOOL)];
        let assumed = unit.unwrap_or(Unit::Us);
        if assumed != Unit::Ns {
            warnings.push(rounded(TOOL, assumed.plural(), "the rest cut off"));
        }
        if unit.is_none() {
            let message =
                "The output of cyclictest states no unit: values are taken as microseconds.";
            let hint = "If it ran with -N, they are nanoseconds: give --unit ns.";
            warnings.push(warning("import-unit", message, hint));
        }
        let has_periods = self.threads.values().all(|figures| figures.period_us.is_some());
        warnings.push(if has_periods {
            missed_warning()
        } else {
            unknown_period("The output of cyclictest with -q")
        });
        warnings
    }

    /// Returns the values of a thread.
    fn values(
        &self,
        number: u64,
        figures: &ThreadFigures,
        unit_ns: u64,
    ) -> Result<Option<BinnedValues>> {
        let column = usize::try_from(number).ok().and_then(|number| self.columns.get(number));
        let column = column.or_else(|| self.values.get(&number));
        let mut bins = column.into_iter().flatten().map(|(&value, &count)| (value, count));
        let raw = RawBins::collect(|| Ok(bins.next()), ImportError::from)?;
        let in_bins: u64 = raw.0.values().sum();
        if self.columns.is_empty() && in_bins > 0 {
            // The lines of -v have every value, which they alone describe.
            let sum: f64 = raw.0.iter().map(|(&value, &count)| value as f64 * count as f64).sum();
            let stated =
                StatedFigures { mean: Some(sum / in_bins as f64), ..StatedFigures::default() };
            return BinnedValues::new(&raw, &stated, unit_ns);
        }
        // If every value has a row, there is none above the last.
        let is_covered = figures.max.zip(self.last_row).is_some_and(|(max, last)| max <= last);
        let overflow = figures.overflow.or_else(|| is_covered.then_some(0));
        let count = overflow.and_then(|overflow| in_bins.checked_add(overflow));
        let count = count.or(figures.cycles).ok_or(ImportReason::UnknownValueCount)?;
        let mean = figures.mean.map(|mean| mean as f64);
        let stated = StatedFigures { count: Some(count), min: figures.min, max: figures.max, mean };
        BinnedValues::new(&raw, &stated, unit_ns)
    }
}

/// Parses a latency and its counts.
fn parse_row(line: &str) -> Option<(u64, Vec<u64>)> {
    let mut numbers = line.split_whitespace().map(|word| word.parse().ok());
    let latency = numbers.next()??;
    let counts: Vec<u64> = numbers.collect::<Option<_>>()?;
    Some((latency, counts)).filter(|(_, counts)| !counts.is_empty())
}

#[cfg(test)]
mod tests {
    use files::report::Subject;

    use super::*;

    const TEXT: &str = "\
# /dev/cpu_dma_latency set to 0us
# Histogram
000003 000000\t000001
000004 000000\t000009
000005 000900\t000950
000040 000099\t000040
# Total: 000000999 000001000
# Min Latencies: 00005 00003
# Avg Latencies: 00008 00006
# Max Latencies: 00412 00040
# Histogram Overflows: 00001 00000
# Histogram Overflow at cycle number:
# Thread 0: 00512
# Thread 1:

";

    fn figures(subject: &Subject) -> (u64, i64, i64, i64, Option<i64>) {
        let summary = subject.summary.as_ref().unwrap();
        let d = &summary.lateness_ns;
        (summary.ticks, d.min, d.mean.unwrap(), d.max, d.p50)
    }

    #[test]
    fn threads_are_subjects() {
        let report = read(TEXT, None).unwrap();
        let ids: Vec<&str> = report.subjects.iter().map(|s| s.id.as_str()).collect();
        assert_eq!(ids, ["cyclictest/thread-0", "cyclictest/thread-1"]);
        assert_eq!(figures(&report.subjects[0]), (1_000, 5_000, 8_000, 412_000, Some(5_000)));
        assert_eq!(figures(&report.subjects[1]), (1_000, 3_000, 6_000, 40_000, Some(5_000)));
        let codes: Vec<&str> = report.warnings.iter().map(|w| w.code.as_str()).collect();
        for code in ["import-unit", "import-no-period", "import-overflow"] {
            assert!(codes.contains(&code), "{code}");
        }
        let in_ns = read(TEXT, Some(Unit::Ns)).unwrap();
        assert_eq!(figures(&in_ns.subjects[1]), (1_000, 3, 6, 40, Some(5)));
    }

    #[test]
    fn sum_of_threads_is_no_thread() {
        let with_sum = TEXT
            .replace("000000\t000001", "000000\t000001\t000001")
            .replace("000000\t000009", "000000\t000009\t000009")
            .replace("000900\t000950", "000900\t000950\t001850")
            .replace("000099\t000040", "000099\t000040\t000139")
            .replace("000001000\n", "000001000 000001999\n")
            .replace("00412 00040\n", "00412 00040 00412\n")
            .replace("00001 00000\n", "00001 00000 00001\n");
        assert_eq!(read(&with_sum, None).unwrap(), read(TEXT, None).unwrap());
    }

    #[test]
    fn thread_lines_state_period() {
        let lines = "policy: fifo: loadavg: 0.10 0.06 0.02 1/101 1234\n\n\
                     T: 0 ( 1233) P:99 I:1000 C:    999 Min:      5 Act:   7 Avg:    8 Max:     300\n\
                     \u{1b}[2AT: 0 ( 1233) P:99 I:1000 C:   1000 Min:      5 Act:   7 Avg:    8 Max:     412\n\
                     T: 1 ( 1234) P:99 I:1500 C:   1000 Min:      3 Act:   6 Avg:    6 Max:      40\n";
        let report = read(&format!("{lines}{TEXT}"), None).unwrap();
        let first = &report.subjects[0];
        assert_eq!((first.id.as_str(), first.period_ns), ("cyclictest@1ms/thread-0", 1_000_000));
        assert_eq!(report.subjects[1].period_ns, 1_500_000);
        assert_eq!(figures(first), (1_000, 5_000, 8_000, 412_000, Some(5_000)));
        let alone = read(lines, None).unwrap();
        assert_eq!(figures(&alone.subjects[0]), (1_000, 5_000, 8_000, 412_000, None));
        assert!(alone.subjects[0].histogram.is_none());
    }

    #[test]
    fn every_value_of_verbose_output_counts() {
        let lines = "# /dev/cpu_dma_latency set to 0us\nMax CPUs = 2\nThread 0 Interval: 1000\n\
                     \x20      0:       0:       7\n       0:       1:       9\n       1:       0:      11\n12:30:45\n\
                     \x20      0:       2:       7\n";
        let report = read(lines, None).unwrap();
        let ids: Vec<&str> = report.subjects.iter().map(|s| s.id.as_str()).collect();
        assert_eq!(ids, ["cyclictest/thread-0", "cyclictest/thread-1"]);
        assert_eq!(figures(&report.subjects[0]), (3, 7_000, 7_666, 9_000, None));
        assert_eq!(figures(&report.subjects[1]), (1, 11_000, 11_000, 11_000, None));
    }

    #[test]
    fn impossible_values_are_rejected() {
        let good =
            "T: 0 ( 1233) P:99 I:1000 C:   1000 Min:      5 Act:   7 Avg:    8 Max:     412\n";
        for bad in [
            "T: 1 ( 1234) P:99 I:1000 C:   1000 Min:     -3 Act:   7 Avg:    8 Max:     412",
            "T: 1 ( 1234) P:99 I:1000 C:   1000 Min:      3 Act:   7 Avg:    8 Max:18446744073709551617",
            "       1:      17:      -4",
        ] {
            let error = read(&format!("{good}{bad}\n"), None).unwrap_err().to_string();
            assert!(error.contains("invalid row in line 2"), "{bad}: {error}");
        }
        let open = "T: 1 ( 1234) P:99 I:1000 C:   1000 Min:     -3 Act:   7 Avg:    8 Max:";
        assert_eq!(read(&format!("{good}{open}"), None).unwrap().subjects.len(), 1);
    }

    #[test]
    fn width_of_columns_shows_unit() {
        for (line, unit) in [
            (" I:1000 C: 7 Min:      5 Act:    7 Avg:    8 Max:     300", Some(Unit::Us)),
            (" I:1000 C: 7 Min:      5 Act:    7 Avg:123456789 Max:     300", Some(Unit::Us)),
            (" I:1000 C: 7 Min:   5000 Act:    7123 Avg:    8007 Max:  300000", Some(Unit::Ns)),
            (" I:1000 C: 7 Min: 5 Act: 7 Avg: 8 Max: 300", None),
        ] {
            assert_eq!(column_unit(line), unit, "{line}");
        }
    }

    #[test]
    fn incomplete_text_is_rejected() {
        for (from, to, says) in [
            ("# Min Latencies", "# Least", "cut off before"),
            ("000005 000900\t000950", "000005 000900", "line 5 does not continue"),
            ("000005 000900", "000004 000900", "line 5 does not continue"),
            ("000005 000900", "000005 many", "invalid row in line 5"),
            (" 00005 00003", " 00005", "2 columns for 1 threads"),
            ("# Histogram Overflows: 00001 00000\n", "", "thread 0: the number of values"),
            ("00412", "00039", "outside of the stated minimum"),
        ] {
            assert!(TEXT.contains(from), "{from}");
            let error = read(&TEXT.replacen(from, to, 1), None).unwrap_err().to_string();
            assert!(error.contains(says), "{says}: {error}");
        }
        for end in 0..TEXT.len() {
            let _ = read(&TEXT[..end], None);
        }
        let figures = TEXT.lines().filter(|line| line.starts_with("# M"));
        let figures: String = figures.map(|line| format!("{line}\n")).collect();
        let error = read(&figures, None).unwrap_err().to_string();
        assert!(error.contains("rows of the histogram are missing"), "{error}");
    }

    #[test]
    fn marks_may_be_missing() {
        let plain = TEXT.replace("# ", "").replace('\n', "\r\n");
        assert_eq!(read(&plain, None).unwrap(), read(TEXT, None).unwrap());
    }

    #[test]
    fn own_lines_are_recognized() {
        for line in TEXT.lines().filter(|line| line.starts_with("# M") || line.starts_with("# /")) {
            assert!(is_line(line, ""), "{line}");
        }
        assert!(is_line("# Histogram", "000003 000000\t000001") && !is_line("# Histogram", "text"));
        for line in ["# Histogram of something", "#", "000003 000000", "T: 0 of 5", "Max CPUs = x"]
        {
            assert!(!is_line(line, "000003 000000"), "{line}");
        }
    }
}
