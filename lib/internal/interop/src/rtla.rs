//! Reads the output of `rtla timerlat hist` and `rtla osnoise hist`: rows of buckets, and a column
//! for each CPU and stage.

use std::str::FromStr as _;

use cli::units::format_exact_ns;
use files::report::{MAX_NS, Report, Status, Warning};

use crate::bins::{self, BinnedValues, RawBins, StatedFigures};
use crate::import_error::{ImportError, ImportPlace, ImportReason, Result};
use crate::imported::{
    CUT_WARNING, ImportedReport, check_count, clock, compare_gaps_hint, no_cost, no_rounds,
    rounded, strip_escapes, subject, unknown_period,
};
use crate::oslat::greatest_common_divisor;
use files::quantity::GAPS;

/// Beginning of the first line of the output, behind the mark of a comment.
const BEGIN: &str = "RTLA ";
const HINT: &str = "Run rtla with a larger -E, so that every value has a bucket.";
/// The stages of a wake-up and their names in the columns: the timer interrupt, the thread, and its
/// return to user space.
const STAGES: [(&str, &str); 3] = [("IRQ", "irq"), ("Thr", "thread"), ("Usr", "user")];

/// Whether a line is the first one of the output. Without the mark of a comment, prose may begin so.
pub(super) fn is_title(line: &str) -> bool {
    let is_marked = line.starts_with('#') || line.ends_with(" histogram");
    is_marked && unmarked(line).starts_with(BEGIN)
}

/// Removes the mark of a comment, which an editor may have removed before.
fn unmarked(line: &str) -> &str {
    line.trim_start_matches('#').trim_start()
}

/// Whether a line has the figures of the columns.
fn is_figure_line(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let is_figure = words.next().is_some_and(|word| matches!(word, "count:" | "max:"));
    let mut values = words.peekable();
    is_figure
        && values.peek().is_some()
        && values.all(|word| word == "-" || word.parse::<u64>().is_ok())
}

/// A program of rtla.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    Timerlat,
    Osnoise,
}

impl Program {
    fn parse(title: &str) -> Option<Self> {
        match unmarked(title).strip_prefix(BEGIN)?.trim().strip_suffix(" histogram")? {
            "timerlat" => Some(Self::Timerlat),
            "osnoise" => Some(Self::Osnoise),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Timerlat => "timerlat",
            Self::Osnoise => "osnoise",
        }
    }

    fn command(self) -> &'static str {
        match self {
            Self::Timerlat => "rtla timerlat",
            Self::Osnoise => "rtla osnoise",
        }
    }
}

/// One CPU at one stage.
struct CpuColumn {
    name: String,
    id: String,
    cpu: u64,
    buckets: Vec<(u64, u64)>,
    over: Option<u64>,
    count: Option<u64>,
    min: Option<u64>,
    avg: Option<f64>,
    max: Option<u64>,
}

impl CpuColumn {
    fn parse(tool: &str, head: &str) -> Option<Self> {
        let (stage, cpu) = head.split_once('-')?;
        let cpu: u64 = cpu.parse().ok()?;
        let stage = match stage {
            "CPU" => "",
            _ => STAGES.iter().find(|(column, _)| *column == stage)?.1,
        };
        let name = [tool, stage].join("-").trim_end_matches('-').to_owned();
        let id = format!("{name}/cpu-{cpu}");
        Some(Self {
            name,
            id,
            cpu,
            buckets: Vec::new(),
            over: None,
            count: None,
            min: None,
            avg: None,
            max: None,
        })
    }

    /// Returns the buckets and the figures below them; `None` if no sample was taken.
    fn values(&self, last_bucket: Option<u64>, unit_ns: u64) -> Result<Option<BinnedValues>> {
        let min = self.min.unwrap_or(0);
        // A bucket of several steps may begin below the smallest value in it.
        let mut buckets = self.buckets.iter().map(|&(from, n)| (from.max(min), n));
        let raw = RawBins::collect(|| Ok(buckets.next()), ImportError::from)?;
        let in_buckets: u64 = raw.0.values().sum();
        let count = self.count.or_else(|| in_buckets.checked_add(self.over?));
        let count = count.ok_or(ImportReason::MissingCountLine)?;
        self.check_figures(in_buckets, count, last_bucket)?;
        let stated =
            StatedFigures { count: Some(count), min: self.min, max: self.max, mean: self.avg };
        BinnedValues::new(&raw, &stated, unit_ns)
    }

    /// Checks that the figures below the buckets are complete and agree with them. `last_bucket` is
    /// the last one of all columns.
    fn check_figures(&self, in_buckets: u64, count: u64, last_bucket: Option<u64>) -> Result<()> {
        let sum = in_buckets.saturating_add(self.over.unwrap_or(count.saturating_sub(in_buckets)));
        if sum != count {
            return Err(ImportReason::WrongCount { in_bins: sum, stated: count }.into());
        }
        match last_bucket.zip(self.max) {
            Some((bucket, max)) if sum > in_buckets && max <= bucket => {
                let above = sum - in_buckets;
                Err(ImportReason::OverflowBelowBuckets { above, bucket, max }.into())
            }
            _ => Ok(()),
        }
    }
}

/// The parsed lines of a histogram.
struct Table {
    program: Program,
    unit_ns: Option<u64>,
    duration_ns: Option<u64>,
    /// Whether the heads of the columns were read.
    has_heads: bool,
    columns: Vec<CpuColumn>,
    /// The largest bucket that has a row.
    last_bucket: Option<u64>,
    /// The rows of buckets, also of those without a sample.
    rows: u64,
    /// The greatest common divisor of the buckets that have a row.
    step: u64,
    /// Whether the last row of buckets was read.
    has_rows: bool,
    /// Whether the figures are complete.
    has_ended: bool,
}

impl Table {
    /// Adds a line of the table.
    fn add(&mut self, n: usize, line: &str) -> Result<()> {
        if self.begins_second_run(line) {
            return Err(ImportReason::SecondRun { line: n }.into());
        }
        if self.has_ended {
            return Ok(());
        }
        let words: Vec<&str> = unmarked(line).split_whitespace().collect();
        let Some((&first, values)) = words.split_first() else { return Ok(()) };
        match first {
            "Time" if line.contains("unit is microseconds") => self.unit_ns = Some(1_000),
            "Time" if line.contains("unit is nanoseconds") => self.unit_ns = Some(1),
            "Duration:" => self.duration_ns = parse_duration_ns(values).or(self.duration_ns),
            "Index" => self.add_heads(n, line, values)?,
            "over:" | "count:" | "min:" | "avg:" | "max:" => {
                self.add_figures(first, values);
                self.has_rows = true;
                self.has_ended = first == "max:";
            }
            "ALL:" => self.has_ended = true,
            _ if self.has_rows => {}
            _ if !self.has_heads && CpuColumn::parse("", first).is_some() => {
                return Err(ImportReason::MissingBuckets.into());
            }
            _ => self.add_row(n, line, first, values)?,
        }
        Ok(())
    }

    /// Returns whether a line is one of another table. Its title may be missing.
    fn begins_second_run(&self, line: &str) -> bool {
        let first = unmarked(line).split_whitespace().next();
        is_title(line)
            || self.has_heads && first == Some("Index")
            || self.has_ended && first == Some("over:")
    }

    fn add_heads(&mut self, n: usize, line: &str, heads: &[&str]) -> Result<()> {
        check_count("column", heads.len())?;
        let columns = heads.iter().map(|head| CpuColumn::parse(self.program.name(), head));
        let columns: Option<Vec<_>> = columns.collect();
        let unknown = || ImportReason::UnknownColumn { line: n, text: line.to_owned() };
        self.columns = columns.ok_or_else(unknown)?;
        self.has_heads = true;
        Ok(())
    }

    /// Adds a row of a bucket. Other lines among them, such as those of a shell, are ignored.
    fn add_row(&mut self, n: usize, line: &str, first: &str, counts: &[&str]) -> Result<()> {
        let Ok(bucket) = first.parse() else { return Ok(()) };
        let is_complete = self.has_heads && counts.len() == self.columns.len();
        let counts: Option<Vec<u64>> = counts.iter().map(|count| count.parse().ok()).collect();
        let invalid = || ImportReason::InvalidRow { line: n, text: line.to_owned() };
        let counts = counts.filter(|_| is_complete).ok_or_else(invalid)?;
        self.last_bucket = self.last_bucket.max(Some(bucket));
        self.rows += 1;
        self.step = greatest_common_divisor(self.step, bucket);
        for (column, count) in self.columns.iter_mut().zip(counts) {
            if count > 0 {
                column.buckets.push((bucket, count));
            }
        }
        Ok(())
    }

    /// Adds a line of figures below the buckets. The means have decimals since Linux 6.3, and a
    /// dash is a value that was not measured.
    fn add_figures(&mut self, name: &str, values: &[&str]) {
        for (column, value) in self.columns.iter_mut().zip(values) {
            match name {
                "over:" => column.over = value.parse().ok(),
                "count:" => column.count = value.parse().ok(),
                "min:" => column.min = value.parse().ok(),
                "avg:" => column.avg = f64::from_str(value).ok(),
                _ => column.max = value.parse().ok(),
            }
        }
    }
}

pub(super) fn read(text: &str) -> Result<Report> {
    let mut lines = (1..).zip(text.lines().map(|line| strip_escapes(line).trim()));
    let mut has_figures = false;
    let title = lines.by_ref().find(|(_, line)| {
        has_figures |= is_figure_line(line);
        is_title(line)
    });
    // The end of a run, whose title is missing.
    if let Some((line, _)) = title.filter(|_| has_figures) {
        return Err(ImportReason::SecondRun { line }.into());
    }
    let program = title.and_then(|(_, line)| Program::parse(line));
    let program = program.ok_or(ImportReason::UnknownTitle)?;
    let mut table = Table {
        program,
        unit_ns: None,
        duration_ns: None,
        has_heads: false,
        columns: Vec::new(),
        last_bucket: None,
        rows: 0,
        step: 0,
        has_rows: false,
        has_ended: false,
    };
    for (n, line) in lines {
        table.add(n, line)?;
    }
    table.into_report()
}

impl Table {
    fn into_report(self) -> Result<Report> {
        let unit_ns = self.unit_ns.ok_or(ImportReason::MissingUnit)?;
        if !self.has_heads {
            return Err(ImportReason::CutOff { before: "the column \"Index\"" }.into());
        }
        let command = self.program.command();
        let width_ns = self.widest_bucket().saturating_mul(unit_ns).min(MAX_NS);
        let mut imported = ImportedReport {
            duration_ns: self.duration_ns,
            ..ImportedReport::new(
                command,
                clock("the kernel's clock, by its tracer", Some(width_ns)),
                warnings(self.program, width_ns),
            )
        };
        if self.columns.is_empty() {
            // Only CPUs with a sample have a column.
            let name = self.program.name();
            let mut empty = subject(name.to_owned(), name, None);
            let reason = match self.program {
                Program::Timerlat => "no sample was taken",
                Program::Osnoise => "no noise above the threshold",
            };
            empty.status = Status::Failed { reason: reason.to_owned() };
            bins::add_subject(&mut imported, empty, None, HINT);
        }
        self.check_printed()?;
        let lacks_max = |column: &CpuColumn| column.max.is_none() && !column.buckets.is_empty();
        if self.columns.iter().any(lacks_max) {
            imported.warnings.push(Warning::new(
                CUT_WARNING,
                "The line \"max:\" is missing: a maximum is known only as the lower edge of its bucket.",
                "Run rtla without --no-summary, and keep its whole output.",
            ));
        }
        for column in self.columns {
            let values = column
                .values(self.last_bucket, unit_ns)
                .map_err(|e| e.at(ImportPlace::Subject(column.id.clone())))?;
            let mut subject = subject(column.id, &column.name, None);
            subject.cpu = Some(column.cpu);
            bins::add_subject(&mut imported, subject, values, HINT);
        }
        Ok(imported.report())
    }
}

impl Table {
    /// Returns the largest possible width of the buckets, which begin at multiples of it.
    fn widest_bucket(&self) -> u64 {
        // A single bucket does not show its width.
        if self.rows < 2 { 1 } else { self.step.max(1) }
    }

    /// Checks that the samples of the columns are printed. If all of them are above the last bucket,
    /// osnoise prints a single 0 for all CPUs, although only CPUs with a sample have a column.
    fn check_printed(&self) -> Result<()> {
        let has_bucket = self.columns.iter().any(|column| !column.buckets.is_empty());
        let first = self.columns.first().and_then(|column| column.count);
        if self.program == Program::Osnoise && !has_bucket && first == Some(0) {
            return Err(ImportReason::UnprintedSamples.into());
        }
        Ok(())
    }
}

fn warnings(program: Program, width_ns: u64) -> Vec<Warning> {
    let command = program.command();
    let mut warnings = vec![no_rounds(command), no_cost(command)];
    warnings.push(match program {
        Program::Timerlat => unknown_period(command),
        Program::Osnoise => Warning::new(
            GAPS,
            "osnoise counts what took a CPU from a busy loop, by how long: these are gaps, not lateness, and there is no \
             period.",
            &compare_gaps_hint(),
        ),
    });
    let step = match width_ns {
        1_000 => "microseconds".to_owned(),
        _ => format!("buckets of up to {}", format_exact_ns(width_ns)),
    };
    if width_ns > 1 {
        warnings.push(rounded(command, &step, "the rest cut off"));
    }
    warnings
}

/// Parses the words behind `Duration:`, such as `0 00:10:00`: days, hours, minutes and seconds.
fn parse_duration_ns(words: &[&str]) -> Option<u64> {
    let [days, time] = words else { return None };
    let parts: Vec<u64> = time.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [hours, minutes, seconds] = parts[..] else { return None };
    // More than a century is an error.
    let days: u64 = days.parse().ok().filter(|&days| days < 36_525)?;
    let is_time = [hours, minutes, seconds].iter().all(|&part| part < 60);
    let seconds = || ((days * 24 + hours) * 60 + minutes) * 60 + seconds;
    is_time.then(|| seconds() * 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{assert_rejected, read_prefixes};

    /// Written by hand in the layout of the kernel documentation.
    const TIMERLAT: &str = include_str!("../../../../tests/fixtures/rtla-timerlat.txt");

    #[test]
    fn cpus_and_stages_are_subjects() {
        let report = read(TIMERLAT).unwrap();
        let ids: Vec<&str> = report.subjects.iter().map(|s| s.id.as_str()).collect();
        assert_eq!(
            ids,
            [
                "timerlat-irq/cpu-0", "timerlat-thread/cpu-0", "timerlat-user/cpu-0",
                "timerlat-irq/cpu-12", "timerlat-thread/cpu-12", "timerlat-user/cpu-12"
            ]
        );
        assert_eq!(report.duration_ns, 12_000_000_000);
        let thread = report.subjects[1].summary.as_ref().unwrap();
        assert_eq!(
            (thread.ticks, thread.lateness_ns.min, thread.lateness_ns.max),
            (12_000, 1_000, 310_000)
        );
        assert_eq!(thread.lateness_ns.p50, Some(2_000));
        // A single value is above the last bucket, and only its size as the largest is known.
        assert_eq!(
            report.subjects[1].histogram.as_ref().unwrap().overflow.as_ref().map(|o| o.count),
            Some(1)
        );
        assert!(report.warnings.iter().any(|w| w.code == "import-overflow"));
        assert!(matches!(report.subjects[5].status, Status::Failed { .. }), "it took no sample");
    }

    #[test]
    fn marks_may_be_missing() {
        let plain = TIMERLAT.replace("# ", "").replace('\n', "\r\n");
        assert_eq!(read(&plain).unwrap(), read(TIMERLAT).unwrap());
    }

    #[test]
    fn osnoise_values_are_gaps() {
        let text = "# RTLA osnoise histogram\n# Time unit is nanoseconds (ns)\n# Duration: 1 00:00:01\nIndex CPU-003\n0 7\n10 3\n\
                    over: 0\ncount: 10\nmin: 4\navg: 6\nmax: 13\nALL: CPU\ncount: 99\n";
        let report = read(text).unwrap();
        assert_eq!(report.subjects[0].id, "osnoise/cpu-3");
        assert_eq!(report.duration_ns, 86_401_000_000_000);
        let summary = report.subjects[0].summary.as_ref().unwrap();
        assert_eq!((summary.ticks, summary.lateness_ns.p50), (10, Some(4)));
        assert!(report.warnings.iter().any(|w| w.code == GAPS));
    }

    #[test]
    fn samples_above_all_buckets_are_named() {
        let text = "# RTLA osnoise histogram\n# Time unit is microseconds (us)\n# Duration: 0 00:00:01\n\
                    Index   CPU-000   CPU-001\nover: 0\ncount: 0\nmin: 0\navg: 0\nmax: 0\n";
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains("larger -E"), "{error}");
    }

    #[test]
    fn missing_maximum_is_named() {
        let is_named = |text: &str| {
            let warnings = read(text).unwrap().warnings;
            warnings.iter().any(|warning| warning.code == CUT_WARNING)
        };
        let text = "# RTLA osnoise histogram\n# Time unit is microseconds (us)\nIndex CPU-000 CPU-001\n\
                    10 3 0\nover: 0 0\ncount: 3 0\nmin: 12 -\navg: 14 -\nmax: 19 -\n";
        assert!(!is_named(text));
        for next in ["count:", "min:", "max:"] {
            assert!(is_named(text.split_once(next).unwrap().0), "{next}");
        }
    }

    #[test]
    fn second_run_is_rejected() {
        let (head, figures) = TIMERLAT.split_once("over:").unwrap();
        let (_, untitled) = TIMERLAT.split_once("Index").unwrap();
        for text in [
            format!("{TIMERLAT}{TIMERLAT}"),
            format!("{TIMERLAT}Index{untitled}"),
            format!("{TIMERLAT}over:{figures}"),
            format!("{head}{TIMERLAT}"),
            format!("over:{figures}{TIMERLAT}"),
        ] {
            let error = read(&text).unwrap_err().to_string();
            assert!(error.contains("a second run begins in line "), "{error}");
        }
    }

    #[test]
    fn errors_name_the_line() {
        let cases = [
            ("timerlat histogram", "hwnoise top", "neither timerlat nor osnoise"),
            ("# Time unit is microseconds (us)\n", "", "no unit"),
            ("Thr-012", "Fro-012", "line 4 names an unknown column"),
            ("\n2 ", "\n2 17 ", "invalid row in line 7"),
            ("Index", "IRQ-000", "without --no-index"),
            ("max: 2 310", "max: 2 -", "the maximum is missing"),
            ("count: 12000", "count: 12", "but the stated count is 12"),
            ("max: 2 310", "max: 2 9", "above the last bucket, 9, but the maximum is 9"),
            ("310 330 5 9", "310 330 5 1", "outside of the stated minimum"),
        ];
        assert_rejected(TIMERLAT, read, &cases);
        read_prefixes(TIMERLAT, read);
    }
}
