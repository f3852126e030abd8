//! Writes HdrHistogram's interval log, with the header that the C implementation demands.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use files::report::{Report, Round, Subject};
use files::{hdr_encoding, histogram};
use hdrhistogram::Histogram;

use crate::import_error::ExportError;
use crate::rt_tests::format_mail_date;
use files::entry::entries;

/// The newest version of the format. The log has tags, which came with it.
const VERSION_COMMENT: &str = "[Histogram log format version 1.3]";
const LEGEND: &str =
    "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"";
const NS_PER_MS: f64 = 1e6;

/// A line of the log. It does not keep its histogram, because all histograms of a long run need much
/// more memory than their lines.
struct LogLine {
    /// Time since the start of the log.
    start: Duration,
    text: String,
}

impl LogLine {
    fn new(tag: &str, start: Duration, length: Duration, histogram: &Histogram<u64>) -> Self {
        let max_ms = histogram.max() as f64 / NS_PER_MS;
        let data = BASE64.encode(hdr_encoding::encode_compressed_v2(histogram));
        let (start_s, length_s) = (start.as_secs_f64(), length.as_secs_f64());
        let text = format!("Tag={tag},{start_s:.3},{length_s:.3},{max_ms:.3},{data}\n");
        Self { start, text }
    }
}

/// Writes the interval log of a report in nanoseconds: one line for each round of each subject with
/// all of its instances, tagged with the id of the subject. In a report without samples a subject
/// has one line. Early ticks are counted at 0, as in the stored histogram.
///
/// # Errors
/// Returns an error if a stored histogram is damaged, or if a subject has neither samples nor one.
pub fn write(report: &Report) -> Result<String, ExportError> {
    let (mut lines, mut tags) = (Vec::new(), BTreeSet::new());
    for entry in entries(std::slice::from_ref(report)) {
        let tag = unused_tag(&entry.subject.id, &tags);
        lines.extend(subject_lines(entry.subject, &tag, report.duration_ns)?);
        tags.insert(tag);
    }
    // In the order of the rounds, since readers cut a log by time.
    lines.sort_by_key(|line| line.start);
    let mut text = header(report);
    lines.iter().for_each(|line| text += &line.text);
    Ok(text)
}

/// Returns the comments and the legend. A start that the report does not have is left out.
fn header(report: &Report) -> String {
    let mut text = format!("#{}\n#{VERSION_COMMENT}\n", histogram::LOG_COMMENT);
    if let Ok(start) = humantime::parse_rfc3339(&report.started_utc)
        && let Ok(since_epoch) = start.duration_since(UNIX_EPOCH)
    {
        let (seconds, date) = (since_epoch.as_secs_f64(), format_mail_date(start));
        let _ = writeln!(text, "#[StartTime: {seconds:.3} (seconds since epoch), {date}]");
        let _ = writeln!(text, "#[BaseTime: {seconds:.3} (seconds since epoch)]");
    }
    text + LEGEND + "\n"
}

/// Returns the tag of a subject, which no other one has.
fn unused_tag(id: &str, taken: &BTreeSet<String>) -> String {
    // A comma or a blank would end the tag.
    let tag = id.replace([',', ' ', '\n', '\r', '\t'], "_");
    let mut unused = tag.clone();
    for number in 2.. {
        if !taken.contains(&unused) {
            break;
        }
        unused = format!("{tag}_{number}");
    }
    unused
}

/// Returns the lines of a subject.
fn subject_lines(
    subject: &Subject,
    tag: &str,
    duration_ns: u64,
) -> Result<Vec<LogLine>, ExportError> {
    let mut lines = Vec::new();
    // The instances of a round depend on each other, so they share a line.
    for instances in subject.rounds.chunk_by(|a, b| a.index == b.index) {
        let recorded = || instances.iter().filter(|round| !round.lateness_ns.is_empty());
        let Some(start_ns) = recorded().map(|round| round.start_ns).min() else { continue };
        let last_end_ns = recorded().map(|round| end_ns(round, subject, duration_ns)).max();
        let length_ns = last_end_ns.map_or(0, |end_ns| end_ns.saturating_sub(start_ns));
        let counts = recorded().flat_map(|round| &round.lateness_ns).map(|&late| (late, 1));
        let [start, length] = [start_ns, length_ns].map(Duration::from_nanos);
        lines.push(LogLine::new(tag, start, length, &histogram::from_counts(counts)));
    }
    if lines.is_empty() {
        let id = || subject.id.clone();
        let stored = subject.histogram.as_ref();
        let stored = stored.ok_or_else(|| ExportError::MissingHistogram { subject: id() })?;
        let histogram = histogram::unpack(stored).map_err(|error| {
            ExportError::InvalidHistogram { subject: id(), source: Box::new(error) }
        })?;
        let length = Duration::from_nanos(duration_ns);
        lines.push(LogLine::new(tag, Duration::ZERO, length, &histogram));
    }
    Ok(lines)
}

/// Returns the deadline after the last tick of a round.
fn end_ns(round: &Round, subject: &Subject, duration_ns: u64) -> u64 {
    let ticks = round.tick_index(round.lateness_ns.len().saturating_sub(1)).saturating_add(1);
    let length_ns = match subject.period_ns {
        // The wake-ups of a trace without a period are within the whole time.
        0 => duration_ns,
        period_ns => ticks.saturating_mul(period_ns),
    };
    round.start_ns.saturating_add(length_ns)
}
