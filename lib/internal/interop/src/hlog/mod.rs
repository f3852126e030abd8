//! Reads and writes HdrHistogram's interval log (`.hlog`), the format of jHiccup and many load
//! generators.
//!
//! A tag is a subject. A line is a round with a summary, but without samples. Every value counts at
//! the highest value that is equivalent to it, as in the format's own readers.

mod line;
mod time;
mod unit;
mod write;

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use cli::units;
use files::hdr_encoding::{self, BinBudget, DecodedHistogram, RecordedBin};
use files::histogram::{self, HistogramError};
use files::report::{
    Clock, Distribution, MAX_COUNT, MAX_INSTANCES, MAX_NS, PERCENTILES, Report, Round, Status,
    Subject, Summary, Warning,
};
use jitterstat::stats::{Interval, quantile};

use crate::hlog::line::{IntervalLine, Line};
use crate::hlog::time::{HeaderTimes, LogTimes};
use crate::hlog::unit::{AssumedUnit, UnitEvidence, UnitReason, comment_unit};
use crate::import_error::{ImportPlace, ImportReason, Result};
use crate::imported::{
    CUT_WARNING, ImportedReport, check_count, clock, no_cost, rfc3339, subject, unknown_period,
};
use crate::unit::Unit;

pub(super) use unit::stated_unit;
pub use write::write;

const TOOL: &str = "hdr-log";
/// Name of the subject of lines without a tag.
const UNTAGGED: &str = "untagged";
/// Number of different values of all tags that even a short log may have. Each needs some 30 bytes
/// while the log is read; a longer log may have one more for each of its bytes.
const MIN_MAX_VALUES: usize = 1 << 19;

/// Whether a line is one of an interval log, rather than a comment or a row of numbers of another
/// format.
pub(super) fn is_line(line: &str) -> bool {
    const COMMENTS: [&str; 6] = [
        "[Histogram log format version",
        "[StartTime:",
        "[BaseTime:",
        "[Logg",
        "[MaxValueDivisor:",
        histogram::LOG_COMMENT,
    ];
    match line::comment(line) {
        Some(comment) => {
            line::is_legend(comment) || COMMENTS.iter().any(|begin| comment.starts_with(begin))
        }
        None => line::is_interval(line),
    }
}

/// Counts the values of an encoded histogram, for tests of hostile bytes.
///
/// # Errors
/// Returns an error if the bytes are no histogram.
pub fn count_encoded(bytes: &[u8]) -> std::result::Result<u64, HistogramError> {
    let budget = &mut BinBudget::for_bytes(bytes.len());
    let decoded = hdr_encoding::decode(bytes, budget)?;
    Ok(decoded.bins.iter().fold(0, |total: u64, bin| total.saturating_add(bin.count)))
}

/// Reads a log whose values are in the given unit, or in one that is known or guessed.
pub(super) fn read(text: &str, unit: Option<Unit>) -> Result<Report> {
    let lines = LogLines::parse(text)?;
    let times =
        LogTimes::new(lines.header, &lines.intervals).ok_or(ImportReason::MissingIntervals)?;
    let mut values = LogValues::new(lines.is_own, text.len());
    values.fraction_unit = unit.or(lines.stated_unit.map(|assumed| assumed.unit));
    let mut is_cut = lines.is_cut;
    let last = lines.intervals.len() - 1;
    for (i, line) in lines.intervals.iter().enumerate() {
        let added = values.add(line, &times);
        // A killed writer leaves a line without its end.
        if i == last && last > 0 && added.is_err() && !text.ends_with('\n') {
            is_cut = true;
            break;
        }
        let tag = line.tag.unwrap_or(UNTAGGED);
        let place = ImportPlace::TaggedLine(lines.numbers[i], tag.to_owned());
        added.map_err(|e| e.at(place))?;
    }
    let assumed = values.unit(unit, lines.stated_unit, &times);
    let warnings = warnings(&values, assumed, is_cut);
    let kept = values.kept_unit(assumed.unit);
    // Most histograms have a step of one unit, which does not limit them.
    let step_ns = Some(values.step).filter(|step| *step > 1);
    let step_ns = step_ns.and_then(|step| step.checked_mul(kept.nanoseconds()));
    let clock = Clock { value_digits: Some(values.digits), ..clock("unknown", step_ns) };
    let subjects = values.into_subjects(kept)?;
    let imported = ImportedReport {
        started_utc: times.started.and_then(rfc3339),
        duration_ns: nanoseconds(times.length()),
        subjects,
        ..ImportedReport::new(TOOL, clock, warnings)
    };
    Ok(imported.report())
}

/// The parsed lines of a log.
struct LogLines<'a> {
    /// Whether the log was written by osjitter, so that tags contain periods.
    is_own: bool,
    header: HeaderTimes,
    stated_unit: Option<AssumedUnit>,
    intervals: Vec<IntervalLine<'a>>,
    /// Number of each interval's line in the text.
    numbers: Vec<usize>,
    /// Whether the last line is incomplete.
    is_cut: bool,
}

impl<'a> LogLines<'a> {
    fn parse(text: &'a str) -> Result<Self> {
        let mut comments = text.lines().map_while(|line| line::comment(line.trim()));
        let mut lines = Self {
            is_own: comments.any(|comment| comment == histogram::LOG_COMMENT),
            header: HeaderTimes::default(),
            stated_unit: None,
            intervals: Vec::new(),
            numbers: Vec::new(),
            is_cut: false,
        };
        let mut all = (1..).zip(text.lines()).peekable();
        while let Some((n, line)) = all.next() {
            let stated = line::comment(line.trim()).and_then(comment_unit);
            // Another log, whose values are in another unit.
            let differs = |first: AssumedUnit| stated.is_some_and(|later| later.unit != first.unit);
            if lines.stated_unit.is_some_and(differs) && !lines.intervals.is_empty() {
                return Err(ImportReason::DifferentUnits { line: n }.into());
            }
            lines.stated_unit = lines.stated_unit.or(stated);
            match Line::parse(line) {
                Some(parsed) => lines.add(n, parsed),
                None if all.peek().is_none() && lines.may_be_cut(text) => lines.is_cut = true,
                None => return Err(ImportReason::InvalidInterval { line: n }.into()),
            }
        }
        Ok(lines)
    }

    fn add(&mut self, number: usize, line: Line<'a>) {
        match line {
            Line::Ignored => {}
            Line::Legend { names_end } => self.header.names_end |= names_end,
            Line::StartTime { seconds, has_go_date } => {
                self.header.start = Some(seconds);
                self.header.has_go_date = has_go_date;
            }
            Line::BaseTime(at) => self.header.base = Some(at),
            Line::Interval(interval) => {
                self.intervals.push(interval);
                self.numbers.push(number);
            }
        }
    }

    /// Whether the last line of the text may be the beginning of a longer one.
    fn may_be_cut(&self, text: &str) -> bool {
        !self.intervals.is_empty() && !text.ends_with('\n')
    }
}

/// The decoded values of a log, in its own unit.
struct LogValues {
    is_own: bool,
    budget: BinBudget,
    max_values: usize,
    evidence: UnitEvidence,
    /// The unit that fractions need to become whole nanoseconds, if it is given or stated.
    fraction_unit: Option<Unit>,
    /// Whether the values were fractions, and are in nanoseconds.
    has_fractions: Option<bool>,
    /// The smallest number of digits of an interval, and the width of its smallest bin.
    digits: u32,
    step: u64,
    /// Number of different values of all tags.
    value_count: usize,
    tags: BTreeMap<String, TagValues>,
}

/// The values of one tag, and its lines as rounds.
#[derive(Default)]
struct TagValues {
    values: ValueCounts,
    rounds: Vec<RoundStats>,
}

/// An interval as a round. `stats` is `None` if it has no values.
struct RoundStats {
    start_ns: u64,
    stats: Option<ValueStats>,
}

impl LogValues {
    /// Creates the values of a log of this size.
    fn new(is_own: bool, bytes: usize) -> Self {
        Self {
            is_own,
            budget: BinBudget::for_bytes(bytes),
            max_values: MIN_MAX_VALUES.saturating_add(bytes),
            evidence: UnitEvidence::default(),
            fraction_unit: None,
            has_fractions: None,
            digits: u32::MAX,
            step: 1,
            value_count: 0,
            tags: BTreeMap::new(),
        }
    }

    fn add(&mut self, line: &IntervalLine<'_>, times: &LogTimes) -> Result<()> {
        let tag = line.tag.unwrap_or(UNTAGGED);
        let decoded = self.decode(line.data)?;
        let since = times.since_earliest(times.interval(line));
        let start_ns =
            nanoseconds(since).ok_or(ImportReason::InvalidTimestamp { seconds: since })?;
        if !self.tags.contains_key(tag) {
            check_count("tags", self.tags.len() + 1)?;
        }
        if let Some(last) = decoded.bins.last() {
            self.evidence.add(last.highest, line.max);
        }
        self.digits = self.digits.min(decoded.digits);
        self.step = self.step.max(decoded.step);
        let period_ns = self.is_own.then(|| OwnTag::parse(tag).period_ns).flatten();
        let stats = ValueStats::from_histogram(&decoded, period_ns);
        let values = self.tags.entry(tag.to_owned()).or_default();
        self.value_count += values.values.add(&decoded.bins);
        if self.value_count > self.max_values {
            return Err(ImportReason::TooManyDifferentValues { max: self.max_values }.into());
        }
        values.rounds.push(RoundStats { start_ns, stats });
        Ok(())
    }

    /// Decodes a histogram. Fractions become whole nanoseconds.
    fn decode(&mut self, data: &str) -> Result<DecodedHistogram> {
        let bytes = BASE64.decode(data).map_err(ImportReason::Base64)?;
        let invalid = |error| ImportReason::Histogram(Box::new(error));
        let decoded = hdr_encoding::decode(&bytes, &mut self.budget).map_err(invalid)?;
        let has_fractions = decoded.ratio.is_some();
        if *self.has_fractions.get_or_insert(has_fractions) != has_fractions {
            return Err(ImportReason::MixedHistograms.into());
        }
        let Some(ratio) = decoded.ratio else { return Ok(decoded) };
        let unit = self.fraction_unit.ok_or(ImportReason::FractionsWithoutUnit)?;
        Ok(decoded.into_parts(ratio, unit.nanoseconds()).map_err(invalid)?)
    }

    /// Returns the unit in which values are kept, for a log whose values are in another one.
    fn kept_unit(&self, assumed: Unit) -> Unit {
        if self.has_fractions == Some(true) { Unit::Ns } else { assumed }
    }

    /// Returns the unit of the values.
    fn unit(
        &self,
        flag: Option<Unit>,
        stated: Option<AssumedUnit>,
        times: &LogTimes,
    ) -> AssumedUnit {
        let guess = || {
            let unit = self.evidence.guess(times.length())?;
            Some(AssumedUnit { unit, reason: UnitReason::Guess })
        };
        flag.map(|unit| AssumedUnit { unit, reason: UnitReason::Flag })
            .or(stated)
            .or_else(guess)
            .unwrap_or(AssumedUnit { unit: Unit::Ns, reason: UnitReason::Default })
    }

    fn into_subjects(self, unit: Unit) -> Result<Vec<Subject>> {
        let is_own = self.is_own;
        let convert = |(tag, values): (String, TagValues)| {
            values.into_subject(&tag, is_own, unit).map_err(|e| e.at(ImportPlace::Subject(tag)))
        };
        self.tags.into_iter().map(convert).collect()
    }
}

impl TagValues {
    fn into_subject(mut self, tag: &str, is_own: bool, unit: Unit) -> Result<Subject> {
        let parts = if is_own { OwnTag::parse(tag) } else { OwnTag::without_parts(tag) };
        let period_ns = parts.period_ns;
        let whole = self.values.stats(period_ns);
        // An impossible period shows that the tag has another meaning.
        let count = whole.as_ref().map_or(0, |stats| stats.count);
        let period_ns =
            period_ns.filter(|period| count.checked_mul(*period).is_some_and(|ns| ns <= MAX_NS));
        let mut subject = subject(tag.to_owned(), parts.name, period_ns);
        subject.instances = parts.instances;
        subject.runtime = parts.runtime.map(str::to_owned);
        subject.load = parts.load.map(str::to_owned);
        self.rounds.sort_by_key(|round| round.start_ns);
        for (index, round) in (0..).zip(self.rounds) {
            let summary =
                round.stats.map(|stats| stats.summary(unit, period_ns.is_some())).transpose()?;
            subject.rounds.push(Round {
                index,
                start_ns: round.start_ns,
                summary,
                ..Round::default()
            });
        }
        if let Some(whole) = whole {
            let mut summary = whole.summary(unit, period_ns.is_some())?;
            // A log has no values of skipped ticks, which follow those that are a period late.
            summary.missed_at_least = summary.missed.take_if(|missed| *missed > 0);
            subject.summary = Some(summary);
            let counts = self.values.counts.iter();
            let counts_ns = counts.map(|(&value, &count)| (bounded_ns(value, unit), count));
            subject.histogram = Some(histogram::pack_counts(counts_ns));
            subject.status = Status::Measured;
        }
        Ok(subject)
    }
}

/// Added values with their counts.
#[derive(Default)]
struct ValueCounts {
    /// The count of each value, which is the highest of its bin.
    counts: BTreeMap<u64, u64>,
    /// The smallest value of the first bin.
    min: Option<u64>,
    /// The smallest value of the last bin.
    last: u64,
    /// Sum of the values in the middle of each bin.
    sum: f64,
}

impl ValueCounts {
    /// Adds bins, and returns the number of values that are new.
    fn add(&mut self, bins: &[RecordedBin]) -> usize {
        let before = self.counts.len();
        for bin in bins {
            let count = self.counts.entry(bin.highest).or_default();
            *count = count.saturating_add(bin.count);
            self.sum += bin.median() as f64 * bin.count as f64;
        }
        if let [first, ..] = bins {
            self.min = Some(self.min.map_or(first.lowest, |min| min.min(first.lowest)));
            self.last = bins.last().map_or(self.last, |last| last.lowest.max(self.last));
        }
        self.counts.len() - before
    }

    fn stats(&self, period_ns: Option<u64>) -> Option<ValueStats> {
        let range = Interval { lower: self.min?, upper: self.last };
        ValueStats::new(range, self.sum, period_ns, || {
            self.counts.iter().map(|(&value, &count)| (value, count))
        })
    }
}

/// Counts and percentiles of values in the unit of a log.
struct ValueStats {
    count: u64,
    /// Number of values that are at least a period, if the period is known.
    missed: u64,
    /// The smallest values of the first and of the last bin.
    range: Interval<u64>,
    mean: f64,
    /// The highest value of the last bin.
    max: u64,
    /// The supported ones of [`PERCENTILES`].
    percentiles: [Option<u64>; PERCENTILES.len()],
}

impl ValueStats {
    fn from_histogram(histogram: &DecodedHistogram, period_ns: Option<u64>) -> Option<Self> {
        let (first, last) = (histogram.bins.first()?, histogram.bins.last()?);
        let range = Interval { lower: first.lowest, upper: last.lowest };
        let sum = histogram.bins.iter().map(|bin| bin.median() as f64 * bin.count as f64).sum();
        Self::new(range, sum, period_ns, || {
            histogram.bins.iter().map(|bin| (bin.highest, bin.count))
        })
    }

    /// Computes the numbers of ascending values with their counts; `None` without a value. `range`
    /// is that of the smallest values of the bins.
    fn new<I: Iterator<Item = (u64, u64)>>(
        range: Interval<u64>,
        sum: f64,
        period_ns: Option<u64>,
        counts: impl Fn() -> I,
    ) -> Option<Self> {
        let count = counts().fold(0_u64, |total, (_, count)| total.saturating_add(count));
        let max = counts().last()?.0;
        let is_missed = |value: u64| period_ns.is_some_and(|period| value >= period);
        let missed = counts().filter(|(value, _)| is_missed(*value));
        let missed = missed.fold(0_u64, |total, (_, count)| total.saturating_add(count));
        let n = usize::try_from(count).unwrap_or(usize::MAX);
        let ranks = PERCENTILES.map(|percentile| quantile::rank(n, percentile.quantile) as u64);
        let mut percentiles = [None; PERCENTILES.len()];
        let mut seen = 0_u64;
        let mut next = 0;
        for (value, count) in counts() {
            seen = seen.saturating_add(count);
            while next < ranks.len() && seen >= ranks[next] {
                let is_supported = quantile::is_supported(n, PERCENTILES[next].quantile);
                percentiles[next] = Some(value).filter(|_| is_supported);
                next += 1;
            }
        }
        let mean = sum / count as f64;
        Some(Self { count, missed, range, mean, max, percentiles })
    }

    /// Converts the numbers to nanoseconds.
    fn summary(&self, unit: Unit, knows_period: bool) -> Result<Summary> {
        // The highest value of a bin may be above the values in it.
        let largest_ns = self.range.upper.checked_mul(unit.nanoseconds());
        if self.count > MAX_COUNT || largest_ns.is_none_or(|ns| ns > MAX_NS) {
            let (count, max) = (self.count, self.max);
            return Err(ImportReason::ImpossibleTimes { count, max, unit }.into());
        }
        let ns = |value| bounded_ns(value, unit);
        let (min, max) = (ns(self.range.lower), ns(self.max));
        let mean = ((self.mean * unit.nanoseconds() as f64) as i64).clamp(min, max);
        let [p50, p90, p99, p99_9, p99_99] = self.percentiles.map(|value| value.map(ns));
        let ci95 = BTreeMap::new();
        Ok(Summary {
            ticks: self.count,
            delivered: self.count,
            missed: if knows_period { Some(self.missed) } else { None },
            lateness_ns: Distribution {
                min,
                mean: Some(mean),
                p50,
                p90,
                p99,
                p99_9,
                p99_99,
                max,
                ci95,
            },
            ..Summary::default()
        })
    }
}

fn bounded_ns(value: u64, unit: Unit) -> i64 {
    let ns = value.saturating_mul(unit.nanoseconds()).min(MAX_NS);
    i64::try_from(ns).unwrap_or(i64::MAX)
}

/// Converts seconds to nanoseconds. Times of logs have at most microseconds, and the difference of
/// two of them has the rounding error of both.
fn nanoseconds(seconds: f64) -> Option<u64> {
    let micros = (seconds * 1e6).round();
    if !(0.0..=MAX_NS as f64 / 1e3).contains(&micros) {
        return None;
    }
    (micros as u64).checked_mul(1_000).filter(|ns| *ns <= MAX_NS)
}

/// The parts of a tag that osjitter has written, such as `os-interval@500us/current-thread`.
struct OwnTag<'a> {
    name: &'a str,
    /// Number of instances, which a tag with more than one states.
    instances: u64,
    period_ns: Option<u64>,
    runtime: Option<&'a str>,
    load: Option<&'a str>,
}

impl<'a> OwnTag<'a> {
    /// Parses a tag such as `os-interval*3@500us/current-thread+cpu:2`.
    fn parse(tag: &'a str) -> Self {
        let has_name = |(name, _): &(&str, &str)| !name.is_empty() && !name.starts_with('*');
        let Some((subject, rest)) = tag.split_once('@').filter(has_name) else {
            return Self::without_parts(tag);
        };
        let (name, instances) = split_instances(subject);
        let (scenario, load) = split_optional(rest, '+');
        let (period, runtime) = split_optional(scenario, '/');
        let period_ns = units::parse_duration(period)
            .ok()
            .and_then(|period| u64::try_from(period.as_nanos()).ok());
        Self { name, instances, period_ns, runtime, load }
    }

    fn without_parts(tag: &'a str) -> Self {
        Self { name: tag, instances: 1, period_ns: None, runtime: None, load: None }
    }
}

/// Splits the number of instances from the name of a subject. A name without one has one instance.
fn split_instances(subject: &str) -> (&str, u64) {
    let split = subject.rsplit_once('*').and_then(|(name, number)| {
        let instances = number.parse().ok().filter(|n| (1..=MAX_INSTANCES).contains(n))?;
        Some((name, instances))
    });
    split.unwrap_or((subject, 1))
}

/// Splits a text at the first separator, if it has one.
fn split_optional(text: &str, separator: char) -> (&str, Option<&str>) {
    text.split_once(separator).map_or((text, None), |(before, after)| (before, Some(after)))
}

fn warnings(values: &LogValues, assumed: AssumedUnit, is_cut: bool) -> Vec<Warning> {
    let digits = match values.digits {
        1 => "one significant digit".to_owned(),
        digits => format!("{digits} significant digits"),
    };
    let step = match values.step {
        1 => String::new(),
        step => {
            format!(" and are multiples of {step} {}", values.kept_unit(assumed.unit).plural())
        }
    };
    let mut warnings = vec![
        Warning::new(
            "import-rounded",
            format!(
                "Values have {digits}{step}, each the highest of its bin; their order within an interval is not kept."
            ),
            "Smaller differences mean nothing.",
        ),
        Warning::new(
            "import-no-samples",
            "An interval of the log is shown as a round, without samples: there are no confidence intervals.",
            "report.json of osjitter run keeps every sample.",
        ),
        no_cost("an HdrHistogram log"),
    ];
    warnings.extend(assumed.warning());
    if !values.is_own {
        warnings.push(unknown_period("An HdrHistogram log"));
    }
    if is_cut {
        let message = "The last line of the log is incomplete and left out.";
        warnings.push(Warning::new(
            CUT_WARNING,
            message,
            "The writer was killed, or the copy is partial.",
        ));
    }
    warnings
}

#[cfg(test)]
mod tests;
