//! Reads and writes HdrHistogram's interval log (`.hlog`) in nanoseconds, the format of jHiccup and
//! many load generators.
//!
//! A tag is a subject. A line is a round with a summary, but without samples. Values are exact to
//! three digits.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use cli::exit::{Error, Result, usage};
use cli::units;
use files::histogram;
use files::report::{MAX_COUNT, MAX_NS, Report, Round, Status, Subject, Summary, Warning};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{
    IntervalLogHistogram, IntervalLogIterator, IntervalLogWriterBuilder, LogEntry, Tag,
};

use crate::interop::imported::{
    self, ImportedReport, UNKNOWN_TIME, clock, no_cost, subject, unknown_host, warning,
};
use render::report::entry::entries;

const TOOL: &str = "hdr-log";
/// Name of the subject of lines without a tag.
const UNTAGGED: &str = "untagged";
/// Maximum number of tags. Each needs up to half a megabyte while the log is read.
const MAX_TAGS: usize = 256;
/// Significant digits, as in every report.
const DIGITS: u8 = 3;

/// Whether a text is an interval log. JSON documents of osjitter begin differently.
pub(super) fn is_log(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with('#')
        || text.starts_with("Tag=")
        || text.starts_with("\"StartTimestamp\"")
        || text.starts_with(|c: char| c.is_ascii_digit())
}

/// The values of one tag, and its lines as rounds.
struct TagValues {
    histogram: Histogram<u64>,
    rounds: Vec<Round>,
}

pub(super) fn read(text: &str) -> Result<Report> {
    read_intervals(text).map_err(|e| e.context("not an HdrHistogram log"))
}

fn read_intervals(text: &str) -> Result<Report> {
    let mut log = Log { is_own: is_own_log(text), ..Log::default() };
    // One line at a time: the library would search the rest of the log for a value that a line
    // lacks.
    for (n, line) in (1..).zip(text.lines()) {
        let line = format!("{line}\n");
        let Some(entry) = IntervalLogIterator::new(line.as_bytes()).next() else { continue };
        match entry.map_err(|_| usage!("invalid entry in line {n}"))? {
            LogEntry::StartTime(at) => log.start = Some(at),
            LogEntry::BaseTime(at) => log.base = Some(at),
            LogEntry::Interval(interval) => {
                let tag = interval.tag().map_or(UNTAGGED, |tag| tag.as_str());
                log.add(tag, &interval).map_err(|e| e.context(format!("line {n} ({tag})")))?;
            }
        }
    }
    log.into_report()
}

/// Whether a log was written by osjitter.
fn is_own_log(text: &str) -> bool {
    let mut comments = text.lines().map_while(|line| line.strip_prefix('#'));
    comments.any(|comment| comment == histogram::LOG_COMMENT)
}

/// The content of a log.
#[derive(Default)]
struct Log {
    /// Whether it was written by osjitter, so that tags contain periods.
    is_own: bool,
    start: Option<Duration>,
    base: Option<Duration>,
    /// Time stamp of the first interval.
    first: Option<Duration>,
    /// End of the last interval.
    end: Duration,
    tags: BTreeMap<String, TagValues>,
}

impl Log {
    fn add(&mut self, tag: &str, interval: &IntervalLogHistogram<'_>) -> Result<()> {
        let histogram = decode(interval)?;
        let begin = interval.start_timestamp();
        let origin = *self.first.get_or_insert(begin);
        self.end = self.end.max(begin.saturating_add(interval.duration()));
        if !self.tags.contains_key(tag) && self.tags.len() >= MAX_TAGS {
            return Err(usage!("more than {MAX_TAGS} tags"));
        }
        let values = self
            .tags
            .entry(tag.to_owned())
            .or_insert_with(|| TagValues { histogram: empty(), rounds: Vec::new() });
        let start_ns = ns(begin.saturating_sub(origin))?;
        let period_ns = possible_period(parse_tag(tag, self.is_own).1, histogram.len());
        let summary = summary(&histogram, period_ns)?;
        values.histogram.add(&histogram).map_err(|e| Error::usage(e.to_string()))?;
        let index = values.rounds.len() as u64;
        values.rounds.push(Round { index, start_ns, summary, ..Round::default() });
        Ok(())
    }

    fn into_report(self) -> Result<Report> {
        let Some(first) = self.first else { return Err(Error::usage("no interval found")) };
        let tags = self.tags.into_iter();
        let subjects = tags.map(|(tag, values)| values.into_subject(&tag, self.is_own));
        let subjects = subjects.collect::<Result<Vec<Subject>>>()?;
        let origin = self.base.map_or(first, |base| first.saturating_add(base));
        let started = UNIX_EPOCH.checked_add(self.start.unwrap_or(origin));
        let started_utc = started.and_then(imported::rfc3339);
        let imported = ImportedReport {
            tool: TOOL,
            version: String::new(),
            started_utc: started_utc.unwrap_or_else(|| UNKNOWN_TIME.to_owned()),
            duration_ns: bounded_ns(self.end.saturating_sub(first)),
            host: unknown_host(),
            clock: clock("unknown", 0),
            warnings: warnings(self.is_own),
            subjects,
        };
        Ok(imported.report())
    }
}

impl TagValues {
    fn into_subject(self, tag: &str, is_own: bool) -> Result<Subject> {
        let (name, period_ns) = parse_tag(tag, is_own);
        let period_ns = possible_period(period_ns, self.histogram.len());
        let mut subject = subject(tag.to_owned(), name, period_ns);
        if is_own {
            let (scenario, load) =
                tag.split_once('+').map_or((tag, None), |(id, load)| (id, Some(load)));
            subject.load = load.map(str::to_owned);
            subject.runtime = scenario.split_once('/').map(|(_, runtime)| runtime.to_owned());
        }
        subject.rounds = self.rounds;
        if period_ns.is_none() {
            let summaries = subject.rounds.iter_mut().filter_map(|round| round.summary.as_mut());
            summaries.for_each(|summary| summary.missed = 0);
        }
        subject.summary = summary(&self.histogram, period_ns).map_err(|e| e.context(tag))?;
        if subject.summary.is_some() {
            let bins = self.histogram.iter_recorded();
            let values = bins.map(|v| (signed(v.value_iterated_to()), v.count_at_value()));
            subject.histogram = Some(histogram::pack_counts(values));
            subject.status = Status::Measured;
        }
        Ok(subject)
    }
}

fn warnings(is_own: bool) -> Vec<Warning> {
    let mut warnings = vec![
        warning(
            "import-rounded",
            "An HdrHistogram log keeps two or three digits of a value, and no order of values within an interval.",
            "Differences below a thousandth (two digits: a hundredth) mean nothing.",
        ),
        warning(
            "import-no-samples",
            "An interval of the log is shown as a round, without samples: there are no confidence intervals.",
            "report.json of osjitter run keeps every sample.",
        ),
        no_cost("an HdrHistogram log"),
    ];
    if !is_own {
        warnings.push(warning(
            "import-unit",
            "An HdrHistogram log states no unit: values are taken as nanoseconds.",
            "If they are something else, read every time as so many of it.",
        ));
        warnings.push(warning(
            "import-no-period",
            "An HdrHistogram log states neither a period nor what was measured: missed ticks are not known.",
            "Keep the command line with the log.",
        ));
    }
    warnings
}

/// Returns the name and period of a subject. The tags of logs written by osjitter contain both, as
/// in `os-interval@500us/current-thread`.
fn parse_tag(tag: &str, is_own: bool) -> (&str, Option<u64>) {
    let has_name = |(name, _): &(&str, &str)| is_own && !name.is_empty() && !name.starts_with('*');
    let Some((name, rest)) = tag.split_once('@').filter(has_name) else { return (tag, None) };
    let period = units::parse_duration(rest.split('/').next().unwrap_or(rest)).ok();
    (name.split('*').next().unwrap_or(name), period.and_then(|p| ns(p).ok()))
}

/// Returns the period if a run with this many ticks is possible; otherwise the tag has another
/// meaning.
fn possible_period(period_ns: Option<u64>, ticks: u64) -> Option<u64> {
    period_ns.filter(|period| ticks.checked_mul(*period).is_some_and(|ns| ns <= MAX_NS))
}

fn decode(interval: &IntervalLogHistogram<'_>) -> Result<Histogram<u64>> {
    let bytes = BASE64
        .decode(interval.encoded_histogram().trim())
        .map_err(|e| usage!("not base64: {e}"))?;
    histogram::decode(&bytes).map_err(|e| Error::usage(e.to_string()))
}

/// Computes counts and percentiles of a histogram; `None` if it is empty.
fn summary(histogram: &Histogram<u64>, period_ns: Option<u64>) -> Result<Option<Summary>> {
    let n = histogram.len();
    if n == 0 {
        return Ok(None);
    }
    // The value of the largest bin may be above the values in it.
    let max = histogram.lowest_equivalent(histogram.max());
    if n > MAX_COUNT || max > MAX_NS {
        return Err(usage!("{n} values up to {max} cannot be times in nanoseconds"));
    }
    let late = |period: u64| {
        histogram
            .iter_recorded()
            .filter(|v| v.value_iterated_to() >= period)
            .map(|v| v.count_at_value())
            .sum()
    };
    let (min, max) = (signed(histogram.min()), signed(histogram.max()));
    let mean = (histogram.mean() as i64).clamp(min, max);
    // The upper end of a bin may be above the largest value.
    let at = |q: f64| Some(signed(histogram.value_at_quantile(q)).min(max));
    Ok(Some(imported::summary(n, period_ns.map_or(0, late), [min, mean, max], at)))
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns.min(MAX_NS)).unwrap_or(i64::MAX)
}

fn bounded_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX).min(MAX_NS)
}

fn ns(duration: Duration) -> Result<u64> {
    // Time stamps are rounded.
    let is_possible = duration.as_secs() <= MAX_NS / 1_000_000_000;
    let error = || usage!("invalid time stamp: {}s after the first", duration.as_secs());
    is_possible.then(|| bounded_ns(duration)).ok_or_else(error)
}

fn empty() -> Histogram<u64> {
    Histogram::new(DIGITS).expect("3 digits are within the bounds")
}

/// Writes the interval log of a report: one line for each round of each subject, tagged with the id
/// of the subject. In a report without samples a subject has one line. Early ticks are counted at
/// 0, as in the stored histogram.
///
/// # Errors
/// Returns an error if an id cannot be a tag, or if a stored histogram is damaged.
pub fn write(report: &Report) -> Result<String> {
    let start = humantime::parse_rfc3339(&report.started_utc).unwrap_or(UNIX_EPOCH);
    let mut bytes = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let failed = |e: &dyn std::fmt::Debug| usage!("cannot encode the interval log: {e:?}");
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment(histogram::LOG_COMMENT)
        .with_start_time(start)
        .with_base_time(start)
        .begin_log_with(&mut bytes, &mut serializer)
        .map_err(|e| failed(&e))?;
    let mut lines = Vec::new();
    for entry in entries(std::slice::from_ref(report)) {
        // A comma or a blank would end the tag.
        let tag = entry.subject.id.replace([',', ' ', '\n', '\r', '\t'], "_");
        for round in entry.subject.rounds.iter().filter(|r| !r.lateness_ns.is_empty()) {
            let ticks = round.tick_index(round.lateness_ns.len() - 1).saturating_add(1);
            let length = Duration::from_nanos(ticks.saturating_mul(entry.subject.period_ns));
            lines.push((
                Duration::from_nanos(round.start_ns),
                length,
                tag.clone(),
                histogram_from_values(&round.lateness_ns),
            ));
        }
        if entry.subject.rounds.iter().all(|r| r.lateness_ns.is_empty())
            && let Some(stored) = &entry.subject.histogram
        {
            let whole =
                histogram::unpack(stored).map_err(|e| usage!("{}: {e}", entry.subject.id))?;
            lines.push((Duration::ZERO, Duration::from_nanos(report.duration_ns), tag, whole));
        }
    }
    // In the order of the rounds, since readers cut a log by time.
    lines.sort_by_key(|line| line.0);
    for (at, length, tag, histogram) in &lines {
        let tag = Tag::new(tag).ok_or_else(|| usage!("{tag:?} cannot be a tag"))?;
        log.write_histogram(histogram, *at, *length, Some(tag)).map_err(|e| failed(&e))?;
    }
    String::from_utf8(bytes).map_err(|e| failed(&e))
}

fn histogram_from_values(lateness_ns: &[i64]) -> Histogram<u64> {
    let mut histogram = empty();
    for &value in lateness_ns {
        histogram
            .record(u64::try_from(value).unwrap_or(0))
            .expect("an auto-resizing histogram takes any i64");
    }
    histogram
}
