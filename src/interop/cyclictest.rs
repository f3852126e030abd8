//! Reads and writes `cyclictest --json` of rt-tests. A thread is a subject. Bins are whole
//! microseconds, or nanoseconds with `-N` and in files written by osjitter.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use cli::exit::Result;
use cli::units;
use files::report::Report;
use serde::{Deserialize, Serialize};

use crate::interop::bins::{self, BinnedValues, RawBins, StatedFigures};
use crate::interop::imported::{
    check_count, clock, json, no_cost, no_rounds, rfc3339, rounded, subject, warning,
};
use crate::interop::rt_tests::{Frame, SysInfo, format_mail_date};
use render::report::entry::{Entry, entries};
use render::report::samples::Lateness;

const TOOL: &str = "cyclictest";
/// Default of `-i`.
const DEFAULT_PERIOD_US: u64 = 1_000;
const HINT: &str = "Run cyclictest with a larger -h, so that every value has a bin.";

#[derive(Deserialize)]
struct Threads {
    thread: BTreeMap<u64, Thread>,
}

#[derive(Deserialize)]
struct Thread {
    /// Id of the subject, in files written by osjitter.
    subject: Option<String>,
    #[serde(default)]
    histogram: RawBins,
    cycles: u64,
    min: u64,
    max: u64,
    avg: f64,
}

pub(super) fn read(text: &str, frame: &Frame) -> Result<Report> {
    let file: Threads = json(text, "cyclictest result")?;
    check_count("thread", file.thread.len())?;
    let unit_ns = if frame.resolution_in_ns == 1 { 1 } else { 1_000 };
    let mut imported = frame.imported(TOOL, clock("the kernel's clock, by cyclictest", unit_ns));
    imported.warnings = vec![no_rounds(TOOL), no_cost(TOOL)];
    if unit_ns > 1 {
        imported.warnings.push(rounded(TOOL, "microseconds", "the rest cut off"));
    }
    imported.warnings.push(warning(
        "import-missed",
        "cyclictest leaves out the deadlines that passed while a thread was late: one long stall is one value, not as \
         many as it had ticks. Missed ticks are those known to be a period late, at least.",
        "Read the maximum together with the percentiles; osjitter run keeps every tick of the grid.",
    ));
    let default_us = (frame.program() == TOOL).then_some(DEFAULT_PERIOD_US);
    for (name, thread) in &file.thread {
        let period_ns =
            period_ns(&frame.cmdline, default_us, thread.histogram.0.is_empty() && *name != 0);
        let at = period_ns.map_or(String::new(), |ns| {
            format!("@{}", units::format_exact_duration(Duration::from_nanos(ns)))
        });
        let id = thread.subject.clone().unwrap_or_else(|| format!("{TOOL}{at}/thread-{name}"));
        let stated = StatedFigures {
            count: thread.cycles,
            min: thread.min,
            max: thread.max,
            avg: thread.avg,
        };
        let values = (thread.cycles > 0)
            .then(|| BinnedValues::new(&thread.histogram, &stated, unit_ns))
            .transpose();
        let values = values.map_err(|e| e.context(format!("thread.{name}")))?;
        bins::add_subject(&mut imported, subject(id, TOOL, period_ns), values, HINT);
    }
    Ok(imported.report())
}

/// Returns the period on the command line, or the default. `None` without a histogram, since each
/// thread has a different period then.
fn period_ns(cmdline: &str, default_us: Option<u64>, spread: bool) -> Option<u64> {
    if spread {
        return None;
    }
    let words = shlex::split(cmdline)?;
    let mut period_us = default_us;
    let mut words = words.iter().skip(1).map(String::as_str).peekable();
    while let Some(word) = words.next() {
        let value = if word == "-i" || word == "--interval" {
            words.peek().copied()
        } else if let Some(value) = word.strip_prefix("--interval=") {
            Some(value)
        } else if let Some(value) = word.strip_prefix("-i") {
            Some(value)
        } else {
            continue;
        };
        period_us = value.and_then(|v| v.parse().ok()).filter(|&us| us > 0);
    }
    period_us?.checked_mul(1_000)
}

#[derive(Serialize)]
struct CyclictestFile {
    #[serde(flatten)]
    frame: Frame,
    thread: BTreeMap<usize, CyclictestThread>,
}

#[derive(Serialize)]
struct CyclictestThread {
    /// In ascending order, since readers draw the bins in the order of the file.
    histogram: BTreeMap<i64, u64>,
    cycles: u64,
    min: i64,
    max: i64,
    avg: f64,
    cpu: usize,
    node: u32,
    subject: String,
}

/// Returns a command line that states the period in the syntax of cyclictest, if all subjects share
/// one.
fn cmdline(report: &Report) -> String {
    let mut periods = entries(std::slice::from_ref(report)).map(|e| e.subject.period_ns);
    let shared = periods.next().filter(|&first| periods.all(|other| other == first));
    let us = shared.filter(|ns| *ns > 0 && ns.is_multiple_of(1_000)).map(|ns| ns / 1_000);
    format!("osjitter run{}", us.map_or(String::new(), |us| format!(" -i {us}")))
}

/// Writes a report in the format of cyclictest with bins of one nanosecond. The format has no
/// negative values: early ticks are counted at 0, as in the stored histogram.
pub fn write(report: &Report) -> String {
    let thread = |entry: Entry<'_>| {
        let values = Lateness::from_subject(entry.subject);
        let d = &entry.summary.lateness_ns;
        let [min, mean, max] = [d.min, d.mean, d.max].map(|ns| ns.max(0));
        let mut histogram = BTreeMap::new();
        for (value, count) in values.counts() {
            // The bin of a stored histogram may extend beyond the largest value in it.
            let bin: &mut u64 = histogram.entry(value.clamp(min, max.max(min))).or_default();
            *bin = bin.saturating_add(count);
        }
        CyclictestThread {
            histogram,
            cycles: values.count().max(entry.summary.ticks - entry.summary.skipped),
            min,
            max,
            avg: mean as f64,
            cpu: report.plan.cpu.unwrap_or(0),
            node: 0,
            subject: entry.subject.id.clone(),
        }
    };
    let thread: BTreeMap<_, _> =
        entries(std::slice::from_ref(report)).map(thread).enumerate().collect();
    let start = humantime::parse_rfc3339(&report.started_utc).unwrap_or(UNIX_EPOCH);
    let end = start
        .checked_add(Duration::from_nanos(report.duration_ns))
        .filter(|&end| rfc3339(end).is_some());
    let end = end.unwrap_or(start);
    let frame = Frame {
        file_version: 1,
        cmdline: cmdline(report),
        version: format!("{} {}", report.tool.name, report.tool.version),
        start_time: format_mail_date(start),
        end_time: format_mail_date(end),
        return_code: 0,
        sysinfo: SysInfo::from_host(&report.host),
        num_threads: thread.len(),
        resolution_in_ns: 1,
    };
    serde_json::to_string_pretty(&CyclictestFile { frame, thread }).expect("plain data") + "\n"
}

#[cfg(test)]
mod tests {
    use super::period_ns;

    #[test]
    fn period_comes_from_command_line() {
        for (line, us) in [
            ("cyclictest -q -D 1 -i 250 -t 2", Some(250)),
            ("/usr/bin/cyclictest -i250", Some(250)),
            ("cyclictest --interval=2000 -q", Some(2_000)),
            ("cyclictest -q", Some(1_000)),
            ("cyclictest -i", None),
            ("cyclictest -i many", None),
            ("cyclictest 'unbalanced", None),
        ] {
            assert_eq!(period_ns(line, Some(1_000), false), us.map(|us| us * 1_000), "{line}");
        }
        assert_eq!(period_ns("cyclictest -i 250", Some(1_000), true), None);
        assert_eq!(period_ns("osjitter run", None, false), None);
    }
}
