//! Reads the text that cyclictest prints: the histogram of `-h` and `-H`, also in the file of
//! `--histfile`, the lines of the threads without `-q`, and the values of `-v`.
//!
//! A row of the histogram is a latency and its count for each thread. With `-H`, another column has
//! the sum of all threads. The text does not state the command line. Its unit follows only from the
//! width of the columns in the lines of the threads, which is larger with `-N`.

use std::collections::{BTreeMap, BTreeSet};

use files::report::{Report, Warning};

use crate::bins::{self, BinnedValues, RawBins, StatedFigures};
use crate::cyclictest::{HINT, TOOL, missed_warning, thread_id};
use crate::import_error::{ImportError, ImportPlace, ImportReason, Result};
use crate::imported::{
    CUT_WARNING, ImportedReport, check_count, clock, no_cost, no_rounds, rounded, strip_escapes,
    subject, unknown_period,
};
use crate::unit::{UNIT_WARNING, Unit};

/// Beginning of the first line of most runs, behind the mark of a comment.
const START: &str = "/dev/cpu_dma_latency set to";
/// Beginning of the line above a status that SIGUSR1 asks for.
const STATUS: &str = "cyclictest current status";
/// Beginnings of lines that only cyclictest prints, behind the mark of a comment.
const BEGINNINGS: [&str; 5] =
    [START, "Min Latencies:", "Avg Latencies:", "Max Latencies:", "Histogram Overflow"];
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
    cycle: u64,
    value: u64,
}

impl ValueLine {
    /// Parses a line such as `       0:      17:       4`, perhaps with a count of interrupts.
    fn parse(line: &str) -> Option<Self> {
        let (thread, cycle, value) = Self::columns(line)?;
        Some(Self { thread, cycle, value: value.parse().ok()? })
    }

    /// Returns whether a line has a value, even if it is not possible.
    fn is_complete(line: &str) -> bool {
        Self::columns(line).is_some()
    }

    /// Returns the thread, the cycle and the text of the value. The width of the columns distinguishes
    /// the line from a time of the day.
    fn columns(line: &str) -> Option<(u64, u64, &str)> {
        const WIDTH: usize = 8;
        let (thread, rest) = line.split_once(':')?;
        let (cycle, value) = rest.split_once(':')?;
        if cycle.len() < WIDTH || value.len() < WIDTH {
            return None;
        }
        let (thread, cycle) = (thread.trim().parse().ok()?, cycle.trim().parse().ok()?);
        Some((thread, cycle, value.split_whitespace().next()?))
    }
}

/// The figures of a thread.
#[derive(Clone, Copy, Debug, Default)]
struct ThreadFigures {
    /// Figures below the histogram.
    min: Option<u64>,
    mean: Option<u64>,
    max: Option<u64>,
    /// Number of values above the last row.
    overflow: Option<u64>,
    /// The last line of the thread.
    line: Option<ThreadLine>,
    /// The last cycle of `-v`.
    last_cycle: Option<u64>,
    /// The last cycle as it was printed.
    printed_cycle: Option<u64>,
}

impl ThreadFigures {
    fn period_us(&self) -> Option<u64> {
        self.line.map(|line| line.period_us).filter(|&us| us > 0)
    }
}

/// A line such as `T: 0 ( 1234) P:99 I:1000 C:  10000 Min:  3 Act:  5 Avg:  5 Max:  40`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ThreadLine {
    number: u64,
    /// 0 until the thread runs.
    thread_id: u64,
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
        let (thread_id, _) = rest.split_once(')')?;
        Some(Self {
            number: number.trim().parse().ok()?,
            thread_id: thread_id.trim().parse().ok()?,
            period_us: number_after(" I:")?,
            cycles: number_after(" C:")?,
            min: number_after(" Min:")?,
            mean: number_after(" Avg:")?,
            max: number_after(" Max:")?,
            unit: column_unit(rest),
        })
    }

    /// Returns whether a later line of the same run can follow. Only the cycles and the extremes change
    /// then, each in one direction.
    fn can_continue(&self, next: &Self) -> bool {
        let has_units = self.unit.is_some() && next.unit.is_some();
        (self.thread_id == next.thread_id || self.thread_id == 0)
            && self.period_us == next.period_us
            && self.cycles <= next.cycles
            && self.min >= next.min
            && self.max <= next.max
            && (!has_units || self.unit == next.unit)
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
    /// Number of values in each column of the histogram, as stated below it.
    totals: Vec<Option<u64>>,
    /// Labels of the figures below the histogram.
    labels: BTreeSet<String>,
    /// Number of the line that begins the histogram.
    histogram_line: Option<usize>,
    /// Whether the values of `-v` begin after the first cycle, or skip cycles.
    skips_cycles: bool,
    /// Whether the lines of the threads are rewritten during the run, as without `-q`.
    is_live: bool,
    /// Whether the run was asked for its status, by SIGUSR1.
    has_status: bool,
    has_start: bool,
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
    let mut imported = ImportedReport::new(
        TOOL,
        clock("the kernel's clock, by cyclictest", Some(unit_ns)),
        output.warnings(unit),
    );
    for (&number, figures) in &output.threads {
        let period_ns = figures.period_us().and_then(|us| us.checked_mul(1_000));
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
        if self.begins_second_run(line) {
            return Err(ImportReason::SecondRun { line: n }.into());
        }
        if let Some(thread) = ThreadLine::parse(line) {
            return self.add_thread(n, thread);
        }
        if let Some(value) = ValueLine::parse(line) {
            return self.add_value(n, &value);
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
        if text == TITLE {
            self.has_title = true;
            self.histogram_line = self.histogram_line.or(Some(n));
        }
        self.is_live |= text.contains("loadavg:");
        self.has_status |= text.starts_with(STATUS);
        self.has_start |= text.starts_with(START);
        match text.split_once(':') {
            Some((label, values)) => self.add_figures(n, label, values),
            None => Ok(()),
        }
    }

    /// Returns whether a line is the beginning of a run, although one has begun before it.
    fn begins_second_run(&self, line: &str) -> bool {
        let text = unmarked(line);
        // The histogram is the end of a run.
        let has_histogram = self.thread_count.is_some() || self.last_row.is_some();
        let is_value = || ThreadLine::is_complete(line) || ValueLine::is_complete(line);
        if text.starts_with(START) {
            // A file may have this line behind those of a status.
            has_histogram || self.has_start || !self.threads.is_empty() && !self.has_status
        } else {
            has_histogram && (text == TITLE || is_value())
        }
    }

    /// Adds a line of figures below the histogram.
    fn add_figures(&mut self, n: usize, label: &str, values: &str) -> Result<()> {
        let set: fn(&mut ThreadFigures, u64) = match label {
            "Total" if self.last_row.is_some() && self.thread_count.is_none() => |_, _| (),
            "Min Latencies" => |figures, value| figures.min = Some(value),
            "Avg Latencies" => |figures, value| figures.mean = Some(value),
            "Max Latencies" => |figures, value| figures.max = Some(value),
            "Histogram Overflows" => |figures, value| figures.overflow = Some(value),
            _ => return Ok(()),
        };
        if !self.labels.insert(label.to_owned()) {
            return Err(ImportReason::SecondRun { line: n }.into());
        }
        let values: Vec<&str> = values.split_whitespace().collect();
        if label == "Min Latencies" {
            // Only this line has no sum of all threads with -H.
            check_count("thread", values.len())?;
            self.thread_count = Some(values.len());
        }
        if label == "Total" {
            self.totals = values.iter().map(|value| value.parse().ok()).collect();
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

    fn add_thread(&mut self, n: usize, line: ThreadLine) -> Result<()> {
        let figures = self.threads.entry(line.number).or_default();
        let last = figures.line.replace(line);
        let has_units = self.unit.is_some() && line.unit.is_some();
        if last.is_some_and(|last| !last.can_continue(&line)) || has_units && self.unit != line.unit
        {
            return Err(ImportReason::SecondRun { line: n }.into());
        }
        self.is_live |= last.is_some();
        self.unit = self.unit.or(line.unit);
        check_count("thread", self.threads.len())
    }

    fn add_value(&mut self, n: usize, line: &ValueLine) -> Result<()> {
        let figures = self.threads.entry(line.thread).or_default();
        let next = figures.last_cycle.map_or(0, |last| last.saturating_add(1));
        // A value of zero has the number of the cycle before it.
        let is_zero = line.value == 0 && figures.printed_cycle == Some(line.cycle);
        let cycle = if is_zero { next } else { line.cycle };
        // With -q, the line of the thread follows its values.
        if cycle < next || figures.line.is_some() {
            return Err(ImportReason::SecondRun { line: n }.into());
        }
        self.skips_cycles |= cycle != next;
        (figures.last_cycle, figures.printed_cycle) = (Some(cycle), Some(line.cycle));
        let count = self.values.entry(line.thread).or_default().entry(line.value).or_default();
        *count += 1;
        check_count("thread", self.threads.len())
    }

    fn add_row(&mut self, n: usize, (latency, counts): (u64, Vec<u64>)) -> Result<()> {
        check_count("column", counts.len())?;
        self.histogram_line.get_or_insert(n);
        if self.thread_count.is_some() {
            return Err(ImportReason::UnorderedRow { line: n }.into());
        }
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
            warnings.push(Warning::new(UNIT_WARNING, message, hint));
        }
        if self.skips_cycles && self.columns.is_empty() {
            let message = "The values of -v skip cycles: lines are missing, or -o left out values.";
            let hint = "Keep all lines, and run cyclictest without -o.";
            warnings.push(Warning::new(CUT_WARNING, message, hint));
        }
        let has_periods = self.threads.values().all(|figures| figures.period_us().is_some());
        warnings.push(if has_periods {
            missed_warning()
        } else {
            unknown_period("The output of cyclictest with -q")
        });
        warnings
    }

    /// Returns the values of a thread, by the histogram if there is one.
    fn values(
        &self,
        number: u64,
        figures: &ThreadFigures,
        unit_ns: u64,
    ) -> Result<Option<BinnedValues>> {
        if !self.columns.is_empty() {
            return self.binned_values(number, figures, unit_ns);
        }
        let raw = raw_bins(self.values.get(&number))?;
        let in_bins: u64 = raw.0.values().sum();
        // The lines of -v have every value.
        let sum: f64 = raw.0.iter().map(|(&value, &count)| value as f64 * count as f64).sum();
        let mean = (in_bins > 0).then(|| sum / in_bins as f64);
        let Some(line) = figures.line else {
            let stated = StatedFigures { mean, ..StatedFigures::default() };
            return BinnedValues::new(&raw, &stated, unit_ns);
        };
        let stated = StatedFigures {
            count: Some(line.cycles),
            min: Some(line.min),
            max: Some(line.max),
            mean: mean.or(Some(line.mean as f64)),
        };
        if in_bins >= line.cycles {
            return BinnedValues::new(&raw, &stated, unit_ns);
        }
        // The last values may not be printed. The others must be possible.
        BinnedValues::new(&raw, &StatedFigures { count: None, ..stated }, unit_ns)?;
        let stated = StatedFigures { mean: Some(line.mean as f64), ..stated };
        BinnedValues::new(&RawBins::default(), &stated, unit_ns)
    }

    /// Returns the values of a column of the histogram.
    fn binned_values(
        &self,
        number: u64,
        figures: &ThreadFigures,
        unit_ns: u64,
    ) -> Result<Option<BinnedValues>> {
        let column = usize::try_from(number).ok().and_then(|number| self.columns.get(number));
        let raw = raw_bins(column)?;
        let in_bins: u64 = raw.0.values().sum();
        let total = usize::try_from(number).ok().and_then(|number| *self.totals.get(number)?);
        if let Some(stated) = total.filter(|&total| total != in_bins) {
            return Err(ImportReason::WrongCount { in_bins, stated }.into());
        }
        // If every value has a row, there is none above the last.
        let is_covered = figures.max.zip(self.last_row).is_some_and(|(max, last)| max <= last);
        let overflow = figures.overflow.or_else(|| is_covered.then_some(0));
        let count = overflow.and_then(|overflow| in_bins.checked_add(overflow));
        let count = count.ok_or(ImportReason::UnknownValueCount)?;
        let mean = figures.mean.map(|mean| mean as f64);
        let stated = StatedFigures { count: Some(count), min: figures.min, max: figures.max, mean };
        stated.check_maximum()?;
        if !self.contains_lines(number, figures, &raw, count) {
            let line = self.histogram_line.unwrap_or_default();
            return Err(ImportReason::SecondRun { line }.into());
        }
        BinnedValues::new(&raw, &stated, unit_ns)
    }

    /// Returns whether the histogram has all values of the lines above it, as it does at the end of
    /// their run.
    fn contains_lines(
        &self,
        number: u64,
        figures: &ThreadFigures,
        column: &RawBins,
        count: u64,
    ) -> bool {
        // With -q, the lines of the threads replace the histogram.
        let has_line = figures.line.is_none_or(|line| {
            let is_in_range =
                figures.min.is_none_or(|min| min <= line.min) && figures.max >= Some(line.max);
            (self.is_live || self.has_status)
                && line.cycles <= count
                && (line.cycles == 0 || is_in_range)
        });
        let mut values = self.values.get(&number).into_iter().flatten();
        let last = self.last_row.unwrap_or_default();
        has_line
            && values.all(|(value, count)| {
                let has_row = column.0.get(value).is_some_and(|in_row| in_row >= count);
                has_row || *value > last && Some(*value) <= figures.max
            })
    }
}

fn raw_bins(counts: Option<&BTreeMap<u64, u64>>) -> Result<RawBins> {
    let mut bins = counts.into_iter().flatten().map(|(&value, &count)| (value, count));
    RawBins::collect(|| Ok(bins.next()), ImportError::from)
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
    use crate::tests::{assert_rejected, read_prefixes};

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
        let start = "# /dev/cpu_dma_latency set to 0us\n";
        let lines = "policy: fifo: loadavg: 0.10 0.06 0.02 1/101 1234\n\n\
                     T: 0 ( 1233) P:99 I:1000 C:    999 Min:      5 Act:   7 Avg:    8 Max:     300\n\
                     \u{1b}[2AT: 0 ( 1233) P:99 I:1000 C:   1000 Min:      5 Act:   7 Avg:    8 Max:     412\n\
                     T: 1 ( 1234) P:99 I:1500 C:   1000 Min:      3 Act:   6 Avg:    6 Max:      40\n";
        let (_, histogram) = TEXT.split_once('\n').unwrap();
        let report = read(&format!("{start}{lines}{histogram}"), None).unwrap();
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
        let is_cut = |lines: &str| {
            let warnings = read(lines, None).unwrap().warnings;
            warnings.iter().any(|warning| warning.code == CUT_WARNING)
        };
        assert!(!is_cut(lines));
        // Values of zero repeat the number of the cycle before them.
        let zeros = [(0, 5), (0, 0), (0, 0), (3, 6)]
            .map(|(cycle, value)| format!("       0:{cycle:8}:{value:8}\n"));
        assert!(!is_cut(&zeros.concat()));
        assert_eq!(
            read(&zeros.concat(), None).unwrap().subjects[0].summary.as_ref().unwrap().ticks,
            4
        );
        assert!(is_cut(&lines.replace("0:       2:", "0:       3:")));
        assert!(is_cut(&lines.replace("1:       0:      11", "1:       1:      11")));
    }

    const LINES: &str = "\
# /dev/cpu_dma_latency set to 0us
T: 0 ( 1233) P:99 I:1000 C:   1000 Min:      5 Act:    7 Avg:    8 Max:     412
T: 1 ( 1234) P:99 I:1500 C:   1000 Min:      3 Act:    6 Avg:    6 Max:      40
";

    #[test]
    fn second_run_is_rejected() {
        let (start, lines) = LINES.split_once('\n').unwrap();
        let (_, histogram) = TEXT.split_once('\n').unwrap();
        let value = |cycle: u64, value: u64| format!("       0:{cycle:8}:{value:8}\n");
        let next = |from: &str, to: &str| {
            assert!(lines.contains(from), "{from}");
            format!("{LINES}{}", lines.replace(from, to))
        };
        // The same threads may go on.
        for next in [next("C:   1000", "C:   1001"), next("Max:     412", "Max:     512")] {
            assert!(read(&next, None).is_ok(), "{next}");
        }
        let live = format!("{start}\npolicy: fifo: loadavg: 0.1\n{lines}");
        for text in [
            format!("{LINES}{LINES}"),
            next("C:   1000", "C:    999"),
            next("( 1233)", "( 2233)"),
            next("I:1000", "I:2000"),
            next("Max:     412", "Max:     411"),
            next("Min:      5", "Min:      6"),
            next("Act:    7 Avg:    8", "Act:       7 Avg:       8"),
            // The unit of another thread.
            LINES.replace("Act:    6 Avg:    6", "Act:       6 Avg:       6"),
            format!("{LINES}{histogram}"),
            format!("{TEXT}{lines}"),
            format!("{TEXT}{TEXT}"),
            format!("{TEXT}# Max Latencies: 00005 00005\n"),
            format!("{live}{histogram}").replace("C:   1000", "C:   1001"),
            format!("{live}{histogram}").replace("Max:     412", "Max:     512"),
            format!("{}{}", value(7, 12), value(7, 12)),
            format!("{}{LINES}", value(7, 12)),
            format!("{LINES}{}", value(7, 12)),
            format!("{TEXT}{}", value(7, 12)),
            format!("{}{}{histogram}", value(7, 4), value(8, 4)),
            format!("{}{histogram}", value(7, 413)),
        ] {
            let error = read(&text, None).map(|_| text).unwrap_err().to_string();
            assert!(error.contains("a second run begins in line "), "{error}");
        }
        assert!(read(&format!("{live}{histogram}"), None).is_ok());
        let status = format!("# cyclictest current status:\n{lines}");
        assert!(read(&format!("{status}{TEXT}"), None).is_ok());
        assert!(read(&format!("{start}\n{status}{histogram}"), None).is_ok());
        assert!(read(&format!("{}{}{histogram}", value(7, 5), value(8, 412)), None).is_ok());
    }

    #[test]
    fn quiet_lines_follow_values() {
        let line =
            "T: 0 ( 12) P:99 I:1000 C:      2 Min:      5 Act:    7 Avg:    6 Max:       7\n";
        let values = "       0:       0:       5\n       0:       1:       7\n";
        let report = read(&format!("{values}{line}"), None).unwrap();
        assert_eq!(figures(&report.subjects[0]), (2, 5_000, 6_000, 7_000, None));
        assert!(report.subjects[0].histogram.is_some());
        // Only the line has the maximum.
        let more = line.replace("C:      2", "C:      3").replace("Max:       7", "Max:      90");
        let report = read(&format!("{values}{more}"), None).unwrap();
        assert_eq!(figures(&report.subjects[0]), (3, 5_000, 6_000, 90_000, None));
        for (from, to, says) in [
            ("C:      2", "C:      1", "but the stated count is 1"),
            ("Max:       7", "Max:       6", "outside of the stated minimum"),
        ] {
            let error = read(&format!("{values}{}", line.replace(from, to)), None).unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
        }
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
        let cases = [
            ("# Min Latencies", "# Least", "cut off before"),
            ("000005 000900\t000950", "000005 000900", "line 5 does not continue"),
            ("000005 000900", "000004 000900", "line 5 does not continue"),
            ("000005 000900", "000005 many", "invalid row in line 5"),
            (" 00005 00003", " 00005", "2 columns for 1 threads"),
            ("# Histogram Overflows: 00001 00000\n", "", "thread 0: the number of values"),
            ("00412", "00039", "outside of the stated minimum"),
            ("00412", "00040", "thread 0: 1 values are above the last bin, 40000 ns"),
            ("00412 00040", "00412", "thread 1: the maximum is missing"),
            ("Total: 000000999", "Total: 000000998", "but the stated count is 998"),
            ("000005 000900\t000950\n", "", "but the stated count is 999"),
        ];
        assert_rejected(TEXT, |text| read(text, None), &cases);
        read_prefixes(TEXT, |text| read(text, None));
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
