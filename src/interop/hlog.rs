//! HdrHistogram's interval log (`.hlog`), as jHiccup and many load generators write it, and as we do.
//!
//! A tag is a subject; a line is a round with a summary of its own. Values are kept to three digits.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{
    IntervalLogHistogram, IntervalLogIterator, LogEntry, LogIteratorError,
};
use jitterstat::histogram;
use jitterstat::report::{Distribution, LONGEST_NS, MOST_COUNT, Report, Round, Status, Summary};
use jitterstat::stats::quantile;

use crate::interop::source::{self, Source, clock, no_cost, subject, unknown_host, warning};
use crate::text::units;

const TOOL: &str = "hdr-log";
/// Name of a subject without a tag.
const UNTAGGED: &str = "untagged";
/// Most tags: each takes up to half a megabyte while the log is read.
const MOST_TAGS: usize = 256;
/// Digits that are kept, as in every report.
const DIGITS: u8 = 3;

/// Whether a text is an interval log: no JSON document of ours begins like this.
pub(super) fn is_one(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with('#')
        || text.starts_with("Tag=")
        || text.starts_with("\"StartTimestamp\"")
        || text.starts_with(|c: char| c.is_ascii_digit())
}

/// What a tag has come to.
struct Track {
    all: Histogram<u64>,
    rounds: Vec<Round>,
}

pub(super) fn read(text: &str) -> Result<Report, String> {
    // The library asks for the end of the last line.
    let text = if text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") };
    let ours =
        text.lines().take_while(|l| l.starts_with('#')).any(|l| l.strip_prefix('#') == Some(histogram::LOG_COMMENT));
    let (mut start, mut base) = (None, None);
    let mut first = None;
    let mut end = Duration::ZERO;
    let mut tracks: BTreeMap<String, Track> = BTreeMap::new();
    for (n, entry) in IntervalLogIterator::new(text.as_bytes()).enumerate() {
        match entry.map_err(|e| unreadable(&text, &e))? {
            LogEntry::StartTime(at) => start = Some(at),
            LogEntry::BaseTime(at) => base = Some(at),
            LogEntry::Interval(interval) => {
                let tag = interval.tag().map_or(UNTAGGED, |tag| tag.as_str()).to_owned();
                let at = |e: String| format!("not an HdrHistogram log: entry {} ({tag}): {e}", n + 1);
                let histogram = decoded(&interval).map_err(at)?;
                let begin = interval.start_timestamp();
                let origin = *first.get_or_insert(begin);
                end = end.max(begin.saturating_add(interval.duration()));
                let tags = tracks.len();
                let track = tracks.entry(tag.clone()).or_insert_with(|| Track {
                    all: Histogram::new(DIGITS).expect("3 digits are within the bounds"),
                    rounds: Vec::new(),
                });
                if track.rounds.is_empty() && tags >= MOST_TAGS {
                    return Err(at(format!("more than {MOST_TAGS} tags")));
                }
                let start_ns = ns(begin.saturating_sub(origin)).map_err(at)?;
                let (_, period_ns) = named(&tag, ours);
                let round = round(track.rounds.len() as u64, start_ns, &histogram, period_ns).map_err(at)?;
                track.all.add(&histogram).map_err(|e| at(e.to_string()))?;
                track.rounds.push(round);
            }
        }
    }
    let Some(first) = first else { return Err("not an HdrHistogram log: there is no interval in it".to_owned()) };
    let mut subjects = Vec::new();
    for (tag, track) in tracks {
        let (name, period_ns) = named(&tag, ours);
        let mut subject = subject(tag.clone(), name, period_ns);
        subject.runtime = tag.split_once('/').map(|(_, runtime)| runtime.to_owned()).filter(|_| ours);
        subject.rounds = track.rounds;
        subject.summary = summary(&track.all, period_ns).map_err(|e| format!("not an HdrHistogram log: {tag}: {e}"))?;
        if subject.summary.is_some() {
            let values = track.all.iter_recorded().map(|v| (signed(v.value_iterated_to()), v.count_at_value()));
            subject.histogram = Some(histogram::pack_counts(values));
            subject.status = Status::Measured;
        }
        subjects.push(subject);
    }
    let origin = base.map_or(first, |base| first.saturating_add(base));
    let started = SystemTime::UNIX_EPOCH.checked_add(start.unwrap_or(origin));
    Ok(Source {
        tool: TOOL,
        version: String::new(),
        started_utc: started.and_then(rfc3339).unwrap_or_else(|| "at an unknown time".to_owned()),
        duration_ns: ns(end.saturating_sub(first))?,
        host: unknown_host(),
        clock: clock("unknown", 0),
        warnings: warnings(ours),
        subjects,
    }
    .report())
}

fn warnings(ours: bool) -> Vec<source::Warning> {
    let mut warnings = vec![
        warning(
            "import-rounded",
            "An HdrHistogram log keeps two or three digits of a value, and no order of values within an interval."
                .into(),
            "Differences below a thousandth (two digits: a hundredth) say nothing.",
        ),
        warning(
            "import-no-samples",
            "An interval of the log is shown as a round, without samples: there are no confidence intervals.".into(),
            "report.json of osjitter run keeps every sample.",
        ),
        no_cost("an HdrHistogram log"),
    ];
    if !ours {
        warnings.push(warning(
            "import-unit",
            "An HdrHistogram log tells no unit: values are taken as nanoseconds.".into(),
            "If they are something else, read every time as so many of it.",
        ));
        warnings.push(warning(
            "import-no-period",
            "An HdrHistogram log tells no period, and not what was measured: missed ticks are not known.".into(),
            "Keep the command line beside the log.",
        ));
    }
    warnings
}

/// Name and period of a subject; a log that we wrote has both in its tag, as `os-interval@500us/current-thread`.
fn named(tag: &str, ours: bool) -> (&str, Option<u64>) {
    let Some((name, rest)) = tag.split_once('@').filter(|_| ours) else { return (tag, None) };
    let period = units::duration(rest.split('/').next().unwrap_or(rest)).ok();
    (name.split('*').next().unwrap_or(name), period.and_then(|p| ns(p).ok()))
}

fn decoded(interval: &IntervalLogHistogram<'_>) -> Result<Histogram<u64>, String> {
    let bytes = BASE64.decode(interval.encoded_histogram().trim()).map_err(|e| format!("not base64: {e}"))?;
    histogram::decode(&bytes).map_err(|e| e.to_string())
}

fn unreadable(text: &str, error: &LogIteratorError) -> String {
    let LogIteratorError::ParseError { offset } = error;
    let before = text.as_bytes().get(..*offset).unwrap_or_default();
    format!("not an HdrHistogram log: {} is no entry of one", super::place(before))
}

fn round(index: u64, start_ns: u64, histogram: &Histogram<u64>, period_ns: Option<u64>) -> Result<Round, String> {
    Ok(Round {
        index,
        slot: 0,
        instance: 0,
        start_ns,
        phase_ns: 0,
        cpu_ns: None,
        steal_ns: None,
        run_queue_ns: None,
        switches_voluntary: None,
        switches_involuntary: None,
        summary: summary(histogram, period_ns)?,
        first_tick: 0,
        lateness_ns: Vec::new(),
        tick: None,
        until_unpark_ns: None,
    })
}

/// Counts and percentiles of a histogram; `None` where it is empty.
fn summary(histogram: &Histogram<u64>, period_ns: Option<u64>) -> Result<Option<Summary>, String> {
    let n = histogram.len();
    if n == 0 {
        return Ok(None);
    }
    if n > MOST_COUNT || histogram.max() > LONGEST_NS {
        return Err(format!("{n} values up to {} cannot be times in nanoseconds", histogram.max()));
    }
    let supported = |q: f64| quantile::is_supported(usize::try_from(n).unwrap_or(usize::MAX), q);
    // The most that a bin can stand for may lie above the largest value that was met.
    let at = |q: f64| supported(q).then(|| signed(histogram.value_at_quantile(q).min(histogram.max())));
    let (min, max) = (signed(histogram.min()), signed(histogram.max()));
    let mean = (histogram.mean() as i64).clamp(min, max);
    let late = |period: u64| {
        histogram.iter_recorded().filter(|v| v.value_iterated_to() >= period).map(|v| v.count_at_value()).sum()
    };
    let missed = period_ns.map_or(0, late);
    Ok(Some(source::summary(n, missed, Distribution::new([min, max], mean, at))))
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

fn ns(duration: Duration) -> Result<u64, String> {
    let ns = u64::try_from(duration.as_nanos()).ok().filter(|&ns| ns <= LONGEST_NS);
    ns.ok_or_else(|| format!("a time stamp {}s after the first cannot be", duration.as_secs()))
}

/// `None` for a year that has more than four digits.
fn rfc3339(at: SystemTime) -> Option<String> {
    const LAST: Duration = Duration::from_secs(253_402_300_799);
    (at.duration_since(SystemTime::UNIX_EPOCH).ok()? <= LAST).then(|| humantime::format_rfc3339_seconds(at).to_string())
}
