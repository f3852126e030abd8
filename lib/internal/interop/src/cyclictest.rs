//! Reads and writes `cyclictest --json` of rt-tests. A thread is a subject. Bins are whole
//! microseconds, or nanoseconds with `-N`.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::ValueEnum;
use cli::units;
use files::file::to_indented_json;
use files::report::{MAX_NS, Report, Subject, Warning};
use serde::{Deserialize, Serialize};

use crate::bins::{self, BinnedValues, RawBins, StatedFigures};
use crate::getopt::{Found, Options};
use crate::import_error::{ImportPlace, Result};
use crate::imported::{
    check_count, clock, json, no_cost, no_rounds, rfc3339, rounded, subject, unique_numbers,
    unknown_period,
};
use crate::rt_tests::{Frame, SysInfo, format_mail_date};
use files::entry::{Entry, entries};
use files::samples::Lateness;

pub(super) const TOOL: &str = "cyclictest";
/// Default of `-i` in all versions.
const DEFAULT_PERIOD_NS: u64 = 1_000_000;
pub(super) const HINT: &str = "Run cyclictest with a larger -h, so that every value has a bin.";

/// The options of rt-tests 2.0 to 2.10, which have `--json`.
const OPTIONS: Options = Options {
    short: "a::A::b:c:d:D:F:h:H:i:l:MNo:p:mqrRsSt::uvx",
    long_with_value: &[
        "breaktrace", "clock", "deepest-idle-state", "distance", "duration", "fifo", "histfile",
        "histofall", "histogram", "interval", "json", "latency", "loops", "mainaffinity", "oscope",
        "policy", "priority", "spike", "spike-nodes",
    ],
};

#[derive(Deserialize)]
struct Threads {
    #[serde(deserialize_with = "unique_numbers")]
    thread: BTreeMap<u64, CyclictestThread>,
}

/// A thread of the file. Versions of cyclictest leave out different keys.
#[derive(Deserialize, Serialize)]
struct CyclictestThread {
    /// In ascending order, since readers draw the bins in the order of the file.
    #[serde(default)]
    histogram: RawBins,
    cycles: u64,
    min: Option<u64>,
    max: Option<u64>,
    avg: Option<f64>,
    /// [`NONE`] for a thread that is not bound.
    cpu: Option<i64>,
    #[serde(skip_deserializing)]
    node: i64,
    /// Id of the subject, in files written by osjitter.
    subject: Option<String>,
}

pub(super) fn read(text: &str, frame: &Frame) -> Result<Report> {
    let file: Threads = json(text, "cyclictest result")?;
    check_count("thread", file.thread.len())?;
    frame.check_threads(file.thread.len())?;
    let unit_ns = if frame.resolution_in_ns == Some(1) { 1 } else { 1_000 };
    let mut imported =
        frame.imported(TOOL, clock("the kernel's clock, by cyclictest", Some(unit_ns)));
    imported.warnings.extend([no_rounds(TOOL), no_cost(TOOL)]);
    if unit_ns > 1 {
        imported.warnings.push(rounded(TOOL, "microseconds", "the rest cut off"));
    }
    let period = CommandPeriod::parse(&frame.cmdline, frame.program());
    let has_histogram = file.thread.values().any(|thread| !thread.histogram.0.is_empty());
    // Without a histogram, the other threads have longer periods than the first.
    let is_shared = has_histogram || file.thread.keys().all(|&name| name == 0);
    for (name, thread) in &file.thread {
        let period_ns = period.nanoseconds().filter(|_| is_shared || *name == 0);
        let id = thread.subject.clone().unwrap_or_else(|| thread_id(*name, period_ns));
        let stated = StatedFigures {
            count: Some(thread.cycles),
            min: thread.min,
            max: thread.max,
            mean: thread.avg,
        };
        let values = stated
            .check_maximum()
            .and_then(|()| BinnedValues::new(&thread.histogram, &stated, unit_ns))
            .map_err(|e| e.at(ImportPlace::Entry { object: "thread", number: *name }))?;
        let mut subject = subject(id, TOOL, period_ns);
        subject.cpu = thread.cpu.and_then(|cpu| u64::try_from(cpu).ok());
        bins::add_subject(&mut imported, subject, values, HINT);
    }
    if period == CommandPeriod::Default {
        imported.warnings.push(Warning::new(
            "import-default-period",
            "The command line states no period, so that cyclictest used its own default of 1 ms.",
            "Give cyclictest -i, so that the period is in its file.",
        ));
    }
    let has_periods = period != CommandPeriod::Unknown && is_shared;
    let missed = if has_periods { missed_warning() } else { unknown_period("The command line") };
    imported.warnings.push(missed);
    Ok(imported.report())
}

/// Returns the id of a thread.
pub(super) fn thread_id(number: u64, period_ns: Option<u64>) -> String {
    let at = period_ns.map_or(String::new(), |ns| {
        format!("@{}", units::format_exact_duration(Duration::from_nanos(ns)))
    });
    format!("{TOOL}{at}/thread-{number}")
}

/// Returns the warning about the missed ticks of a known period.
pub(super) fn missed_warning() -> Warning {
    Warning::new(
        "import-missed",
        "cyclictest leaves out the deadlines that passed while a thread was late: one long stall is one value, not as \
         many as it had ticks. Missed ticks are those known to be a period late, at least.",
        "Read the maximum together with the percentiles; osjitter run keeps every tick of the grid.",
    )
}

/// The period of the first thread, by the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommandPeriod {
    /// The command line states it, in nanoseconds.
    Stated(u64),
    /// The command line is understood and states none, so that cyclictest used its default.
    Default,
    /// The command line is not that of cyclictest, or may have a period that was not understood.
    Unknown,
}

impl CommandPeriod {
    fn parse(cmdline: &str, program: &str) -> Self {
        let stated = match OPTIONS.find(cmdline, 'i', "interval") {
            Found::Value(value) => leading_number(&value).filter(|&us| us > 0),
            Found::Absent if program.contains(TOOL) => return Self::Default,
            Found::Absent | Found::Unclear => None,
        };
        let ns = stated.and_then(|us| us.checked_mul(1_000)).filter(|&ns| ns <= MAX_NS);
        ns.map_or(Self::Unknown, Self::Stated)
    }

    fn nanoseconds(self) -> Option<u64> {
        match self {
            Self::Stated(ns) => Some(ns),
            Self::Default => Some(DEFAULT_PERIOD_NS),
            Self::Unknown => None,
        }
    }
}

/// Parses the number at the beginning of a text, as C's `atoi` does.
fn leading_number(text: &str) -> Option<u64> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// Resolutions of the bins of an exported file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Resolution {
    /// Microseconds, as cyclictest writes without -N
    #[default]
    Us,
    /// Nanoseconds, as cyclictest writes with -N
    Ns,
}

impl Resolution {
    fn nanoseconds(self) -> u64 {
        match self {
            Self::Us => 1_000,
            Self::Ns => 1,
        }
    }
}

#[derive(Serialize)]
struct CyclictestFile {
    #[serde(flatten)]
    frame: Frame,
    thread: BTreeMap<u64, CyclictestThread>,
}

/// Returns a command line that states the period in the syntax of cyclictest, if all subjects share
/// one.
fn cmdline(report: &Report, resolution: Resolution) -> String {
    let mut periods = entries(std::slice::from_ref(report)).map(|e| e.subject.period_ns);
    let shared = periods.next().filter(|&first| periods.all(|other| other == first));
    let us = shared.filter(|ns| *ns > 0 && ns.is_multiple_of(1_000)).map(|ns| ns / 1_000);
    let interval = us.map_or(String::new(), |us| format!(" -i {us}"));
    let nsecs = if resolution == Resolution::Ns { " -N" } else { "" };
    format!("osjitter run{interval}{nsecs}")
}

/// Writes a report in the format of cyclictest, which cuts times off to its resolution. The format
/// has no negative values: early ticks are counted at 0, as in the stored histogram.
pub fn write(report: &Report, resolution: Resolution) -> String {
    let threads = entries(std::slice::from_ref(report))
        .map(|entry| CyclictestThread::from_entry(&entry, resolution));
    let thread: BTreeMap<u64, _> = (0..).zip(threads).collect();
    let start = humantime::parse_rfc3339(&report.started_utc).ok();
    let end = start
        .and_then(|start| start.checked_add(Duration::from_nanos(report.duration_ns)))
        .filter(|&end| report.duration_ns > 0 && rfc3339(end).is_some());
    let date = |time: Option<_>| time.map_or(String::new(), format_mail_date);
    let frame = Frame {
        file_version: 1,
        cmdline: cmdline(report, resolution),
        version: Some(format!("{} {}", report.tool.name, report.tool.version)),
        start_time: date(start),
        end_time: date(end),
        return_code: 0,
        sysinfo: SysInfo::from_host(&report.host),
        num_threads: Some(thread.len()),
        resolution_in_ns: Some(u64::from(resolution == Resolution::Ns)),
    };
    to_indented_json(&CyclictestFile { frame, thread })
}

impl CyclictestThread {
    fn from_entry(entry: &Entry<'_>, resolution: Resolution) -> Self {
        let unit_ns = resolution.nanoseconds();
        let units = |ns: i64| ns.max(0).unsigned_abs() / unit_ns;
        let d = &entry.summary.lateness_ns;
        let (min, max) = (units(d.min), units(d.max));
        let mut histogram = RawBins::default();
        let values = Lateness::from_subject(entry.subject);
        for (value, count) in values.counts() {
            // The bin of a stored histogram may extend beyond the largest value in it.
            let value = units(value).clamp(min, max.max(min));
            let bin = histogram.0.entry(value).or_default();
            *bin = bin.saturating_add(count);
        }
        // Values above the last bin are in it if it contains the largest of them, in this unit or
        // within the precision of the stored histogram.
        if let Some(bin) = histogram.0.get_mut(&max) {
            *bin = bin.saturating_add(values.above());
        }
        let possible = |ns: i64| (ns.max(0) as f64 / unit_ns as f64).clamp(min as f64, max as f64);
        Self {
            histogram,
            cycles: values.count().max(entry.summary.came()),
            min: Some(min),
            max: Some(max),
            // Two digits, as cyclictest writes. Rounding a long time could exceed the maximum.
            avg: d
                .mean
                .map(possible)
                .map(|mean| ((mean * 100.0).round() / 100.0).clamp(min as f64, max as f64)),
            cpu: bound_cpu(entry.report, entry.subject).or(Some(NONE)),
            node: NONE,
            subject: Some(entry.subject.id.clone()),
        }
    }
}

/// The value of cyclictest for no CPU and no node.
const NONE: i64 = -1;

/// Returns the CPU to which a subject was bound.
fn bound_cpu(report: &Report, subject: &Subject) -> Option<i64> {
    let planned = report.plan.cpu.and_then(|cpu| u64::try_from(cpu).ok());
    subject.cpu.or(planned).and_then(|cpu| i64::try_from(cpu).ok())
}

#[cfg(test)]
mod tests {
    use super::CommandPeriod;

    #[test]
    fn period_comes_from_command_line() {
        use CommandPeriod::{Default, Stated, Unknown};
        for (line, period) in [
            ("cyclictest -q -D 1 -i 250 -t 2", Stated(250_000)),
            ("/usr/bin/cyclictest -i250", Stated(250_000)),
            ("cyclictest --interval=2000 -q", Stated(2_000_000)),
            ("cyclictest -q", Default),
            ("cyclictest -qD1 -mi500 -t 1 -h 100 --json=x.json", Stated(500_000)),
            ("./cyclictest-static -i 500us", Stated(500_000)),
            ("cyclictest -i 200 -i0", Unknown),
            ("cyclictest -Zi500", Unknown),
            ("cyclictest -h 1000 --inter 300", Stated(300_000)),
            ("cyclictest -i", Unknown),
            ("cyclictest -i many", Unknown),
            ("cyclictest 'unbalanced", Unknown),
        ] {
            assert_eq!(CommandPeriod::parse(line, "cyclictest"), period, "{line}");
        }
        for program in ["osjitter", "stranger", ""] {
            assert_eq!(CommandPeriod::parse(&format!("{program} -q"), program), Unknown);
            let stated = CommandPeriod::parse(&format!("{program} -i 250 -q"), program);
            assert_eq!(stated.nanoseconds(), (!program.is_empty()).then_some(250_000));
        }
    }
}
