//! `cyclictest --json` of rt-tests. One thread a subject; bins of whole microseconds, or of
//! nanoseconds with `-N` and in the files we write.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use cli::exit::Result;
use cli::units;
use files::report::Report;
use serde::{Deserialize, Serialize};

use crate::interop::bins::{self, Binned, RawBins, Stated};
use crate::interop::imported::{
    clock, json, no_cost, no_rounds, not_too_many, rfc3339, rounded, subject, warning,
};
use crate::interop::rt_tests::{Frame, SysInfo, to_mail_date};
use crate::render::entry::{Entry, entries};
use crate::render::samples::Lateness;

const TOOL: &str = "cyclictest";
/// Its `-i`, if it is not given.
const DEFAULT_PERIOD_US: u64 = 1_000;
const HINT: &str = "Run cyclictest with a larger -h, so that every value has a bin.";

#[derive(Deserialize)]
struct Threads {
    thread: BTreeMap<u64, Thread>,
}

#[derive(Deserialize)]
struct Thread {
    /// Ours: the id of the subject.
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
    not_too_many("thread", file.thread.len())?;
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
        "Read the maximum beside the percentiles; osjitter run keeps every tick of the grid.",
    ));
    let default_us = (frame.program() == TOOL).then_some(DEFAULT_PERIOD_US);
    for (name, thread) in &file.thread {
        let period_ns =
            period_ns(&frame.cmdline, default_us, thread.histogram.0.is_empty() && *name != 0);
        let at = period_ns.map_or(String::new(), |ns| {
            format!("@{}", units::format_exact_duration(Duration::from_nanos(ns)))
        });
        let id = thread.subject.clone().unwrap_or_else(|| format!("{TOOL}{at}/thread-{name}"));
        let stated =
            Stated { count: thread.cycles, min: thread.min, max: thread.max, avg: thread.avg };
        let values = (thread.cycles > 0)
            .then(|| Binned::new(&thread.histogram, &stated, unit_ns))
            .transpose();
        let values = values.map_err(|e| e.context(format!("thread.{name}")))?;
        bins::add(&mut imported, subject(id, TOOL, period_ns), values, HINT);
    }
    Ok(imported.report())
}

/// The period on the command line, or the default. Without a histogram each thread has one of its
/// own, which is not worked out here.
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
struct Written {
    #[serde(flatten)]
    frame: Frame,
    thread: BTreeMap<usize, WrittenThread>,
}

#[derive(Serialize)]
struct WrittenThread {
    /// In ascending order: readers draw the bins as they come.
    histogram: BTreeMap<i64, u64>,
    cycles: u64,
    min: i64,
    max: i64,
    avg: f64,
    cpu: usize,
    node: u32,
    subject: String,
}

/// Our command line, as cyclictest would state the period: that of all subjects, where they share
/// one.
fn cmdline(report: &Report) -> String {
    let mut periods = entries(std::slice::from_ref(report)).map(|e| e.subject.period_ns);
    let shared = periods.next().filter(|&first| periods.all(|other| other == first));
    let us = shared.filter(|ns| *ns > 0 && ns.is_multiple_of(1_000)).map(|ns| ns / 1_000);
    format!("osjitter run{}", us.map_or(String::new(), |us| format!(" -i {us}")))
}

/// One report in that shape, its bins exact nanoseconds. It has no sign: an early tick counts at 0,
/// as in the stored histogram.
pub fn write(report: &Report) -> String {
    let thread = |entry: Entry<'_>| {
        let values = Lateness::from_subject(entry.subject);
        let d = &entry.summary.lateness_ns;
        let [min, mean, max] = [d.min, d.mean, d.max].map(|ns| ns.max(0));
        let mut histogram = BTreeMap::new();
        for (value, count) in values.counts() {
            // A bin of a stored histogram may reach beyond the largest value in it.
            let bin: &mut u64 = histogram.entry(value.clamp(min, max.max(min))).or_default();
            *bin = bin.saturating_add(count);
        }
        WrittenThread {
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
        start_time: to_mail_date(start),
        end_time: to_mail_date(end),
        return_code: 0,
        sysinfo: SysInfo::of(&report.host),
        num_threads: thread.len(),
        resolution_in_ns: 1,
    };
    serde_json::to_string_pretty(&Written { frame, thread }).expect("plain data") + "\n"
}

#[cfg(test)]
mod tests {
    use super::period_ns;

    #[test]
    fn the_period_is_read_off_the_command_line() {
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
