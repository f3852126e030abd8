//! Reads the output of Xenomai's `latency`, and of EVL's `latmus`, which prints the same table: a line
//! `RTD` for each second, a line `RTS` for the whole run, and histograms with `-h`
//! (`testsuite/latency/latency.c` of Xenomai). Old versions of Xenomai 2 print no column `msw`.
//!
//! The count of the values is known only from a histogram. Its bins are 1 us wide unless `-B` has
//! another width, which the output does not state; then only the largest value fits no bin.

use files::report::{MAX_COUNT, MAX_NS, Report, Status, Subject, Warning};
use jitterstat::stats::Interval;

use crate::bins::{self, BinnedValues, RawBins, StatedFigures};
use crate::import_error::{ImportPlace, ImportReason, Result};
use crate::imported::{
    CUT_WARNING, ImportedReport, MissedTicks, check_count, clock, no_cost, no_rounds, rounded,
    run_id, strip_escapes, subject, summary, unknown_period,
};

pub(super) const TOOL: &str = "xenomai-latency";
/// Beginning of the first line of a run.
const TITLE: &str = "== Sampling period:";
const NS_PER_US: f64 = 1e3;
/// Width of the bins without `-B`.
const BIN_NS: u64 = 1_000;
/// The last bin without `-H`, in Xenomai 2 and 3, which has all larger values as well.
const LAST_BINS: [u64; 2] = [199, 299];
const HINT: &str = "Run latency with -h, and with a larger -H if its last bin is full.";

/// Whether a line is one of the table.
pub(super) fn is_line(line: &str) -> bool {
    line.strip_prefix("RTH|")
        .is_some_and(|names| names.trim_start_matches('-').starts_with("lat min|"))
        || line.starts_with(TITLE)
        || { line.starts_with("RTT|") && line.contains(" us period") }
        || SecondLine::parse(line).is_some()
        || RunLine::parse(line).is_some()
}

/// Parses a time in microseconds, which may be negative: the timer of Xenomai is set early.
fn parse_us(cell: &str) -> Option<i64> {
    let ns = (cell.trim().parse::<f64>().ok()? * NS_PER_US).round();
    (ns.abs() <= MAX_NS as f64).then_some(ns as i64)
}

/// Parses hours, minutes and seconds.
fn parse_clock_ns(text: &str) -> Option<u64> {
    let parts: Vec<u64> =
        text.trim().split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [hours, minutes, seconds] = parts[..] else { return None };
    let minutes = hours.checked_mul(60)?.checked_add(minutes)?;
    minutes.checked_mul(60)?.checked_add(seconds)?.checked_mul(1_000_000_000)
}

/// The line of a second: the extremes and the missed periods since the start of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SecondLine {
    range: Interval<i64>,
    overruns: u64,
}

impl SecondLine {
    /// Returns whether later figures of the same run can follow.
    fn can_continue(&self, range: Interval<i64>, overruns: u64) -> bool {
        range.lower <= self.range.lower
            && range.upper >= self.range.upper
            && overruns >= self.overruns
    }

    fn parse(line: &str) -> Option<Self> {
        let cells: Vec<&str> = line.strip_prefix("RTD|")?.split('|').collect();
        let (overruns, lower, upper) = match cells[..] {
            [_, _, _, overruns, _, lower, upper] => (overruns, lower, upper),
            // The number of switches in a line that is cut off has no decimals.
            [_, _, _, overruns, lower, upper] if lower.contains('.') => (overruns, lower, upper),
            _ => return None,
        };
        let range = Interval { lower: parse_us(lower)?, upper: parse_us(upper)? };
        Some(Self { range, overruns: overruns.trim().parse().ok()? })
    }
}

/// The line of a whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RunLine {
    range: Interval<i64>,
    mean_ns: Option<i64>,
    overruns: u64,
    /// Measured length of the run.
    duration_ns: Option<u64>,
}

impl RunLine {
    fn parse(line: &str) -> Option<Self> {
        let cells: Vec<&str> = line.strip_prefix("RTS|")?.split('|').collect();
        let ([min, mean, max, overruns, _, length] | [min, mean, max, overruns, length]) =
            cells[..]
        else {
            return None;
        };
        let (measured, _) = length.split_once('/')?;
        Some(Self {
            range: Interval { lower: parse_us(min)?, upper: parse_us(max)? },
            mean_ns: Some(parse_us(mean)?),
            overruns: overruns.trim().parse().ok()?,
            duration_ns: parse_clock_ns(measured),
        })
    }
}

/// A row of the histogram of all values, such as `HSD|    avg|   2 -  3 |     1000`.
struct HistogramRow {
    bin: u64,
    count: u64,
}

impl HistogramRow {
    /// Parses a row. The histograms of the extremes of each second are ignored.
    fn parse(line: &str) -> Option<Self> {
        let cells: Vec<&str> = line.strip_prefix("HSD|")?.split('|').map(str::trim).collect();
        let ["avg", range, count] = cells[..] else { return None };
        let (bin, _) = range.split_once('-')?;
        Some(Self { bin: bin.trim().parse().ok()?, count: count.parse().ok()? })
    }
}

/// Error of a run that another one follows.
const UNFINISHED: ImportReason = ImportReason::CutOff { before: "the line \"RTS\" of a run" };

/// The parsed lines of a run.
#[derive(Default)]
struct Run {
    period_ns: Option<u64>,
    bins: Vec<HistogramRow>,
    /// Number of values in the bins, as stated below them.
    stated_count: Option<u64>,
    /// Elapsed time of the last heading, which is repeated.
    heading_ns: Option<u64>,
    last_second: Option<SecondLine>,
    whole: Option<RunLine>,
}

impl Run {
    fn add_second(&mut self, line: SecondLine) -> Result<()> {
        let last = self.last_second.replace(line);
        if last.is_some_and(|last| !last.can_continue(line.range, line.overruns)) {
            return Err(UNFINISHED.into());
        }
        Ok(())
    }

    fn add_whole(&mut self, line: RunLine) -> Result<()> {
        let last = self.last_second;
        // A reversed range is an error of its own.
        let is_ordered = line.range.lower <= line.range.upper;
        if is_ordered && last.is_some_and(|last| !last.can_continue(line.range, line.overruns)) {
            return Err(UNFINISHED.into());
        }
        self.whole = Some(line);
        Ok(())
    }

    /// Checks that the rows of the histogram are complete. With `-s` alone, only their number of
    /// values is printed.
    fn check_bins(&self) -> Result<()> {
        if self.bins.is_empty() {
            return Ok(());
        }
        let in_bins = self.bins.iter().fold(0, |sum: u64, row| sum.saturating_add(row.count));
        match self.stated_count {
            Some(stated) if stated != in_bins => {
                Err(ImportReason::WrongCount { in_bins, stated }.into())
            }
            _ if in_bins > MAX_COUNT => {
                Err(ImportReason::TooManyValues { max_bins: self.bins.len() }.into())
            }
            _ => Ok(()),
        }
    }

    /// Adds a line before or between those of the seconds.
    fn add_heading(&mut self, line: &str) -> Result<()> {
        let heading_ns = parse_heading_ns(line);
        let begins_again =
            line.starts_with(TITLE) || heading_ns < self.heading_ns && heading_ns.is_some();
        if begins_again && self.last_second.is_some() {
            return Err(UNFINISHED.into());
        }
        self.heading_ns = heading_ns.or(self.heading_ns);
        self.period_ns = parse_period_ns(line).or(self.period_ns);
        Ok(())
    }

    /// Returns the figures of the run; those of its last second, if it has no end.
    fn figures(&self) -> Option<RunLine> {
        self.whole.or_else(|| {
            let SecondLine { range, overruns } = self.last_second?;
            Some(RunLine { range, mean_ns: None, overruns, duration_ns: None })
        })
    }

    /// Returns whether the last bin has values above it.
    fn has_open_bin(&self, range: Interval<i64>) -> bool {
        let last = self.bins.last().map_or(0, |last| last.bin);
        let max = u64::try_from(range.upper).unwrap_or_default();
        LAST_BINS.contains(&last) && max / BIN_NS > last
    }

    /// Returns the bins in nanoseconds, with the upper end of each; `None` if their width is not
    /// known, or if they have the absolute values of negative ones.
    fn raw_bins(&self, range: Interval<i64>) -> Option<RawBins> {
        let last = self.bins.last()?.bin;
        let max = u64::try_from(range.upper).ok()?;
        let min = u64::try_from(range.lower).ok()?;
        if max / BIN_NS != last && !self.has_open_bin(range) {
            return None;
        }
        let mut raw = RawBins::default();
        for row in &self.bins {
            let end = row.bin.checked_add(1)?.checked_mul(BIN_NS)?;
            *raw.0.entry(end.clamp(min, max.max(min))).or_default() += row.count;
        }
        Some(raw)
    }
}

pub(super) fn read(text: &str) -> Result<Report> {
    let runs = parse_runs(text)?;
    check_count("run", runs.len())?;
    let figures: Vec<RunLine> = runs.iter().filter_map(Run::figures).collect();
    if figures.is_empty() {
        return Err(ImportReason::CutOff { before: "a line \"RTD\"" }.into());
    }
    if runs.iter().any(|run| run.figures().is_none() && !run.bins.is_empty()) {
        return Err(UNFINISHED.into());
    }
    let count = figures.len();
    let mut durations = figures.iter().map(|figures| figures.duration_ns);
    let mut imported = ImportedReport {
        duration_ns: durations.try_fold(0_u64, |sum, ns| sum.checked_add(ns?)),
        ..ImportedReport::new(
            TOOL,
            clock("the kernel's clock, by Xenomai", Some(1)),
            warnings(&runs),
        )
    };
    for (number, run) in (1..).zip(&runs) {
        let Some(figures) = run.figures() else { continue };
        let id = run_id(TOOL, number, count);
        let place = ImportPlace::Subject(id.clone());
        add_run(&mut imported, subject(id, TOOL, run.period_ns), run, figures)
            .map_err(|e| e.at(place))?;
    }
    Ok(imported.report())
}

fn parse_runs(text: &str) -> Result<Vec<Run>> {
    let mut runs = vec![Run::default()];
    for (n, line) in (1..).zip(text.lines()) {
        let line = strip_escapes(line).trim();
        if runs.last().is_some_and(|run| run.whole.is_some()) {
            runs.push(Run::default());
        }
        let Some(run) = runs.last_mut() else { continue };
        let invalid = || ImportReason::InvalidRow { line: n, text: line.to_owned() };
        match line.get(..4) {
            Some("RTD|") => run.add_second(SecondLine::parse(line).ok_or_else(invalid)?)?,
            Some("RTS|") => run.add_whole(RunLine::parse(line).ok_or_else(invalid)?)?,
            Some("HSD|") => {
                let Some(row) = HistogramRow::parse(line) else { continue };
                if run.bins.last().is_some_and(|last| last.bin >= row.bin) {
                    return Err(ImportReason::UnorderedRow { line: n }.into());
                }
                run.bins.push(row);
            }
            Some("HSS|") => run.stated_count = parse_count(line).or(run.stated_count),
            _ => run.add_heading(line)?,
        }
    }
    Ok(runs)
}

/// Parses the number of values of a line such as `HSS|    avg|      2000|      1.910|      0.450`.
fn parse_count(line: &str) -> Option<u64> {
    let mut cells = line.split('|').map(str::trim).skip(1);
    cells.next().filter(|name| *name == "avg")?;
    cells.next()?.parse().ok()
}

/// Parses the elapsed time of a line such as `RTT|  00:00:01  (periodic user-mode task, ...)`.
fn parse_heading_ns(line: &str) -> Option<u64> {
    parse_clock_ns(line.strip_prefix("RTT|")?.split_whitespace().next()?)
}

/// Parses the period of `== Sampling period: 1000 us`, or of a line `RTT`.
fn parse_period_ns(line: &str) -> Option<u64> {
    let us = if let Some(rest) = line.strip_prefix(TITLE) {
        rest.split_whitespace().next()?
    } else {
        let before = line.strip_prefix("RTT|")?.split_once(" us period")?.0;
        before.rsplit([' ', '(']).next()?
    };
    us.parse::<u64>().ok()?.checked_mul(1_000).filter(|&ns| ns > 0 && ns <= MAX_NS)
}

fn add_run(
    to: &mut ImportedReport,
    mut subject: Subject,
    run: &Run,
    figures: RunLine,
) -> Result<()> {
    let RunLine { range, mean_ns, overruns, .. } = figures;
    run.check_bins()?;
    if range.lower > range.upper {
        let (min_ns, max_ns) = (range.lower, range.upper);
        return Err(ImportReason::ReversedRange { min_ns, max_ns }.into());
    }
    let missed = missed_ticks(run.period_ns, range, overruns);
    if let Some(raw) = run.raw_bins(range) {
        let count = raw.0.values().fold(0, |sum: u64, &count| sum.saturating_add(count));
        let stated = StatedFigures {
            count: Some(count),
            min: u64::try_from(range.lower).ok(),
            max: u64::try_from(range.upper).ok(),
            mean: mean_ns.map(|mean| mean as f64),
        };
        let mut values = BinnedValues::new(&raw, &stated, 1)?;
        if run.has_open_bin(range) {
            values = values.map(BinnedValues::with_open_last_bin);
        }
        bins::add_subject(to, subject, values, HINT);
        if let Some(summary) = to.subjects.last_mut().and_then(|subject| subject.summary.as_mut()) {
            (summary.missed, summary.missed_at_least) = (missed.exact, missed.at_least);
        }
        return Ok(());
    }
    let count = run.bins.iter().fold(0, |sum: u64, row| sum.saturating_add(row.count));
    let mean = mean_ns.filter(|mean| (range.lower..=range.upper).contains(mean));
    subject.summary = Some(summary(count, missed, range, mean, |_| None));
    subject.status = Status::Measured;
    let message = format!(
        "{}: there are no bins of a known width, only the range of the values and perhaps their mean.",
        subject.id
    );
    to.warnings.push(Warning::new("import-no-histogram", message, HINT));
    to.subjects.push(subject);
    Ok(())
}

/// Returns the missed ticks. latency leaves out the periods that passed while it was late, and counts
/// them as overruns; the tick before them is missed as well, so that there are more.
fn missed_ticks(period_ns: Option<u64>, range: Interval<i64>, overruns: u64) -> MissedTicks {
    let is_in_time =
        period_ns.is_some_and(|period| u64::try_from(range.upper).is_ok_and(|max| max < period));
    match overruns {
        0 if is_in_time => MissedTicks { exact: Some(0), at_least: None },
        0 => MissedTicks::default(),
        overruns => MissedTicks { exact: None, at_least: Some(overruns) },
    }
}

fn warnings(runs: &[Run]) -> Vec<Warning> {
    let mut warnings = vec![no_rounds(TOOL), no_cost(TOOL)];
    if runs.iter().any(|run| !run.bins.is_empty()) {
        warnings.push(rounded(TOOL, "microseconds", "rounded up"));
    } else {
        warnings.push(Warning::new("import-no-count", "The number of values is not stated.", HINT));
    }
    if runs.iter().any(|run| run.figures().is_some() && run.period_ns.is_none()) {
        warnings.push(unknown_period(TOOL));
    }
    if runs.iter().any(|run| run.whole.is_none() && run.last_second.is_some()) {
        let message = "The line of the whole run is missing: the figures are those up to the last second, and the mean is unknown.";
        warnings.push(Warning::new(
            CUT_WARNING,
            message,
            "End latency with Ctrl-C, or give it -T.",
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{assert_rejected, read_prefixes};

    const TEXT: &str = "\
== Sampling period: 1000 us
== Test mode: periodic user-mode task
== All results in microseconds
warming up...
RTT|  00:00:01  (periodic user-mode task, 1000 us period, priority 99)
RTH|----lat min|----lat avg|----lat max|-overrun|---msw|---lat best|--lat worst
RTD|      0.723|      2.302|      3.740|       0|     0|      0.723|      3.740
RTD|      0.363|      2.162|      4.036|       0|     0|      0.363|      4.036
---|--param|----range-|--samples
HSD|    min|   0 -  1 |        2
---|--param|----range-|--samples
HSD|    avg|   0 -  1 |      100
HSD|    avg|   2 -  3 |     1890
HSD|    avg|   4 -  5 |       10
HSH|--param|--samples-|--average--|---stddev--
HSS|    avg|      2000|      1.910|      0.450
---|-----------|-----------|-----------|--------|------|-------------------------
RTS|      0.363|      2.232|      4.036|       0|     0|    00:00:02/00:00:02
";

    fn figures(report: &Report) -> (u64, i64, Option<i64>, Option<i64>, i64, Option<u64>) {
        let summary = report.subjects[0].summary.as_ref().unwrap();
        let d = &summary.lateness_ns;
        (summary.ticks, d.min, d.mean, d.p50, d.max, summary.missed)
    }

    fn codes(report: &Report) -> Vec<&str> {
        report.warnings.iter().map(|w| w.code.as_str()).collect()
    }

    fn without_histogram() -> String {
        let lines = TEXT.lines().filter(|line| !line.starts_with("HS"));
        lines.map(|line| format!("{line}\n")).collect()
    }

    #[test]
    fn histogram_has_every_value() {
        let report = read(TEXT).unwrap();
        let expected = (2_000, 363, Some(2_232), Some(3_000), 4_036, Some(0));
        assert_eq!(figures(&report), expected);
        assert_eq!(report.subjects[0].period_ns, 1_000_000);
        assert_eq!(report.duration_ns, 2_000_000_000);
    }

    #[test]
    fn count_without_histogram_is_unknown() {
        let report = read(&without_histogram()).unwrap();
        assert_eq!(figures(&report), (0, 363, Some(2_232), None, 4_036, Some(0)));
        assert!(codes(&report).contains(&"import-no-count"));
    }

    #[test]
    fn overruns_are_missed_at_least() {
        let text = without_histogram().replace("4.036|       0", "1004.036|       3");
        let report = read(&text).unwrap();
        let summary = report.subjects[0].summary.as_ref().unwrap();
        assert_eq!((summary.missed, summary.missed_at_least), (None, Some(3)));
    }

    #[test]
    fn column_of_switches_may_be_missing() {
        let lines = TEXT.lines().map(|line| match line.get(..4) {
            Some("RTD|" | "RTS|") => line.replace("       0|     0|", "       0|"),
            _ => line.replace("|----lat", "|-----lat").replace("|---msw|---lat", "|----lat"),
        });
        let old: String = lines.map(|line| format!("{line}\n")).collect();
        assert_eq!(read(&old).unwrap(), read(TEXT).unwrap());
        let heading = old.lines().find(|line| line.starts_with("RTH|")).unwrap();
        assert!(is_line(heading), "{heading}");
        let (cut, _) = TEXT.split_once("|      3.740\n").unwrap();
        assert!(read(cut).unwrap_err().to_string().contains("invalid row in line 7"));
    }

    #[test]
    fn bins_of_unknown_width_are_dropped() {
        // With -B 500, the last bin is 8; with a smaller -H, it may be any.
        for last in ["8 -  9", "3 -  4"] {
            let report = read(&TEXT.replace("4 -  5", last)).unwrap();
            assert_eq!(figures(&report), (2_000, 363, Some(2_232), None, 4_036, Some(0)), "{last}");
            assert!(codes(&report).contains(&"import-no-histogram"));
        }
        let early = TEXT.replace("      0.363|      2.232", "     -0.363|      2.232");
        assert_eq!(figures(&read(&early).unwrap()).1, -363);
    }

    /// With `-s`, `latency` prints the number of values without the histogram.
    #[test]
    fn statistics_need_no_histogram() {
        let text: String = TEXT
            .lines()
            .filter(|line| !line.starts_with("HSD|"))
            .map(|line| format!("{line}\n"))
            .collect();
        assert_eq!(figures(&read(&text).unwrap()).4, 4_036);
    }

    #[test]
    fn full_last_bin_is_open() {
        let text = TEXT.replace("  4 -  5", "199 -200").replace("    4.036", "  512.036");
        let report = read(&text).unwrap();
        let expected = (2_000, 363, Some(2_232), Some(3_000), 512_036, Some(0));
        assert_eq!(figures(&report), expected);
        let histogram = report.subjects[0].histogram.as_ref().unwrap();
        assert_eq!(histogram.overflow.as_ref().map(|overflow| overflow.count), Some(10));
    }

    #[test]
    fn run_before_another_needs_an_end() {
        let (cut, _) = TEXT.split_once("---|--param").unwrap();
        let (_, untitled) = cut.split_once("RTT|").unwrap();
        let (_, second) = untitled.split_once("RTD|      0.723").unwrap();
        let (_, second) = second.split_once('\n').unwrap();
        let later = format!("RTT|  00:00:22  (periodic user-mode task)\n{second}");
        let without_title = |text: &str| text.replace("== Sampling period: 1000 us\n", "");
        for text in [
            format!("{cut}{TEXT}"),
            format!("{later}RTT|{untitled}"),
            format!("{cut}{}", without_title(&TEXT.replace("4.036", "4.035"))),
            format!(
                "{cut}RTD|      0.723|      2.302|      3.740|       0|     0|      0.363|      4.035\n"
            ),
            TEXT.replace("2.232|      4.036", "2.232|      4.035"),
            format!("{TEXT}HSD|    avg|   0 -  1 |      100\n"),
        ] {
            let error = read(&text).unwrap_err().to_string();
            assert!(error.contains("cut off before the line \"RTS\" of a run"), "{error}");
        }
        // The heading is repeated.
        assert!(read(&format!("RTT|{untitled}{later}")).is_ok());
    }

    #[test]
    fn run_may_have_no_end() {
        let (cut, _) = TEXT.split_once("---|--param").unwrap();
        let report = read(cut).unwrap();
        assert_eq!(figures(&report), (0, 363, None, None, 4_036, Some(0)));
        assert!(codes(&report).contains(&"import-cut"));
        // latmus of EVL names the CPU, and its line of the run has wider gaps.
        let latmus = "RTT|  00:00:01  (user, 500 us period, priority 90, CPU1)\n\
                      RTD|      1.211|      1.325|      2.476|       0|     0|      1.211|      2.476\n\
                      RTS|      1.182|      1.316|      3.899|       0|     0|      00:00:08/00:00:08\n";
        let report = read(latmus).unwrap();
        assert_eq!(report.subjects[0].period_ns, 500_000);
        assert_eq!(figures(&report), (0, 1_182, Some(1_316), None, 3_899, Some(0)));
        let twice = read(&format!("{latmus}{latmus}")).unwrap();
        let ids: Vec<&str> = twice.subjects.iter().map(|s| s.id.as_str()).collect();
        assert_eq!(ids, ["xenomai-latency-1", "xenomai-latency-2"]);
    }

    #[test]
    fn damaged_lines_are_named() {
        let cases = [
            ("|     0|      0.363", "|     0|      x", "invalid row in line 8"),
            ("RTS|      0.363", "RTS|      9.363", "the minimum 9363 ns is above"),
            ("HSD|    avg|   2", "HSD|    avg|   0", "line 13 does not continue"),
            ("|     1890", "|     1889", "1999 values, but the stated count is 2000"),
        ];
        assert_rejected(TEXT, read, &cases);
        let uncounted = TEXT.replace("HSS|    avg", "HSS|    all");
        let huge = uncounted.replace("|     1890", "|18446744073709551615");
        assert!(read(&huge).unwrap_err().to_string().contains("values in one histogram"));
        let (head, _) = TEXT.split_once("RTD").unwrap();
        assert!(read(head).unwrap_err().to_string().contains("cut off before"));
        read_prefixes(TEXT, read);
    }
}
