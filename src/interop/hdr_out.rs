//! The two text formats of the HdrHistogram project: percentile distribution (`.hgrm`) and interval log (`.hlog`).
//!
//! Values are nanoseconds in `.hlog`, as its encoding is of integers, and microseconds in `.hgrm`, as its readers expect
//! a scaled column.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use jitterstat::histogram;
use jitterstat::report::{Report, Subject};

use crate::render::entry::entries;

const NS_PER_US: f64 = 1e3;
/// Reporting steps for each halving of the distance to 100 %: the default of every implementation.
const STEPS_PER_HALF: u32 = 5;

/// The percentile distribution of one subject in microseconds.
pub fn hgrm(subject: &Subject) -> Result<String, String> {
    let stored = subject.histogram.as_ref().ok_or_else(|| format!("{} has no histogram", subject.id))?;
    let histogram = histogram::unpack(stored).map_err(|e| format!("{}: {e}", subject.id))?;
    let mut text = String::from("       Value     Percentile TotalCount 1/(1-Percentile)\n\n");
    let mut total = 0_u64;
    for step in histogram.iter_quantiles(STEPS_PER_HALF) {
        let value = histogram.highest_equivalent(step.value_iterated_to()) as f64 / NS_PER_US;
        let q = step.quantile_iterated_to();
        total += step.count_since_last_iteration();
        let _ = write!(text, "{value:12.3} {q:14.12} {total:10}");
        // The last line has no distance to 100 % left.
        text += &if q < 1.0 { format!(" {:14.2}\n", 1.0 / (1.0 - q)) } else { "\n".to_owned() };
    }
    let (mean, deviation) = (histogram.mean() / NS_PER_US, histogram.stdev() / NS_PER_US);
    let (max, count) = (histogram.max() as f64 / NS_PER_US, histogram.len());
    let _ = writeln!(text, "#[Mean    = {mean:12.3}, StdDeviation   = {deviation:12.3}]");
    let _ = writeln!(text, "#[Max     = {max:12.3}, Total count    = {count:12}]");
    let _ = writeln!(text, "#[Buckets = {:12}, SubBuckets     = {:12}]", histogram.buckets(), 2048);
    Ok(text)
}

/// The interval log of one report: a line for each round of each subject, tagged with the subject's id; a report without
/// samples has one line a subject. Early ticks count at 0, as in the stored histogram.
pub fn hlog(report: &Report) -> Result<String, String> {
    let start = humantime::parse_rfc3339(&report.started_utc).unwrap_or(SystemTime::UNIX_EPOCH);
    let mut bytes = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let failed = |e: &dyn std::fmt::Debug| format!("cannot encode the interval log: {e:?}");
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment(histogram::LOG_COMMENT)
        .with_start_time(start)
        .with_base_time(start)
        .begin_log_with(&mut bytes, &mut serializer)
        .map_err(|e| failed(&e))?;
    let mut lines = Vec::new();
    for entry in entries(std::slice::from_ref(report)) {
        // A tag ends at a comma or a blank.
        let tag = entry.subject.id.replace([',', ' ', '\n', '\r', '\t'], "_");
        for round in entry.subject.rounds.iter().filter(|r| !r.lateness_ns.is_empty()) {
            let ticks = round.tick_of(round.lateness_ns.len() - 1).saturating_add(1);
            let length = Duration::from_nanos(ticks.saturating_mul(entry.subject.period_ns));
            lines.push((Duration::from_nanos(round.start_ns), length, tag.clone(), of_values(&round.lateness_ns)));
        }
        if entry.subject.rounds.iter().all(|r| r.lateness_ns.is_empty())
            && let Some(stored) = &entry.subject.histogram
        {
            let whole = histogram::unpack(stored).map_err(|e| format!("{}: {e}", entry.subject.id))?;
            lines.push((Duration::ZERO, Duration::from_nanos(report.duration_ns), tag, whole));
        }
    }
    // In the order in which the rounds ran: readers cut a log by time.
    lines.sort_by_key(|line| line.0);
    for (at, length, tag, histogram) in &lines {
        let tag = Tag::new(tag).ok_or_else(|| format!("{tag:?} cannot be a tag"))?;
        log.write_histogram(histogram, *at, *length, Some(tag)).map_err(|e| failed(&e))?;
    }
    String::from_utf8(bytes).map_err(|e| failed(&e))
}

fn of_values(lateness_ns: &[i64]) -> Histogram<u64> {
    let mut histogram = Histogram::<u64>::new(3).expect("3 digits are within the bounds");
    for &value in lateness_ns {
        histogram.record(u64::try_from(value).unwrap_or(0)).expect("an auto-resizing histogram takes any i64");
    }
    histogram
}
