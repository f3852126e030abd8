//! The shape of `cyclictest --json` of rt-tests: one "thread" a subject, bins of exact nanoseconds.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jitterstat::report::Report;
use serde::Serialize;

use crate::render::entry::{Entry, entries};
use crate::render::samples::Lateness;

/// The keys with a colon are as rt-tests writes them.
#[derive(Serialize)]
struct File {
    file_version: u32,
    #[serde(rename = "cmdline:")]
    cmdline: String,
    #[serde(rename = "rt_test_version:")]
    version: String,
    start_time: String,
    end_time: String,
    return_code: u32,
    sysinfo: SysInfo,
    num_threads: usize,
    resolution_in_ns: u32,
    thread: BTreeMap<usize, Thread>,
}

#[derive(Serialize)]
struct SysInfo {
    sysname: String,
    nodename: String,
    release: String,
    version: String,
    machine: String,
    realtime: u32,
}

#[derive(Serialize)]
struct Thread {
    /// In ascending order: readers draw the bins as they come.
    histogram: BTreeMap<i64, u64>,
    cycles: u64,
    min: i64,
    max: i64,
    avg: f64,
    cpu: usize,
    node: u32,
    /// Ours: which subject it was.
    subject: String,
}

/// One report in that shape.
pub fn json(report: &Report) -> String {
    let thread = |entry: Entry<'_>| {
        let values = Lateness::of(entry.subject);
        let d = &entry.summary.lateness_ns;
        Thread {
            histogram: values.counts().collect(),
            cycles: values.count(),
            min: d.min,
            max: d.max,
            avg: d.mean as f64,
            cpu: report.plan.cpu.unwrap_or(0),
            node: 0,
            subject: entry.subject.id.clone(),
        }
    };
    let threads: BTreeMap<usize, Thread> = entries(std::slice::from_ref(report)).map(thread).enumerate().collect();
    let start = humantime::parse_rfc3339(&report.started_utc).unwrap_or(UNIX_EPOCH);
    let end = start.checked_add(Duration::from_nanos(report.duration_ns)).unwrap_or(start);
    let host = &report.host;
    let file = File {
        file_version: 1,
        cmdline: format!("{} run", report.tool.name),
        version: format!("{} {}", report.tool.name, report.tool.version),
        start_time: rfc2822(start),
        end_time: rfc2822(end),
        return_code: 0,
        sysinfo: SysInfo {
            sysname: host.os.clone(),
            nodename: String::new(),
            release: host.kernel.clone().unwrap_or_default(),
            version: host.preempt.clone().unwrap_or_default(),
            machine: host.arch.clone(),
            realtime: u32::from(host.preempt.as_deref().is_some_and(|p| p.contains("RT"))),
        },
        num_threads: threads.len(),
        resolution_in_ns: 1,
        thread: threads,
    };
    serde_json::to_string_pretty(&file).expect("plain data") + "\n"
}

/// `Sat, 21 Nov 2026 07:00:00 +0000`.
fn rfc2822(time: SystemTime) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let days = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / 86_400;
    let text = humantime::format_rfc3339_seconds(time).to_string();
    let part = |range: std::ops::Range<usize>| text.get(range).unwrap_or_default().to_owned();
    let month = part(5..7).parse::<usize>().ok().and_then(|m| MONTHS.get(m.wrapping_sub(1))).unwrap_or(&"Jan");
    // The epoch was a Thursday.
    let day = DAYS[(days % 7) as usize];
    format!("{day}, {} {month} {} {} +0000", part(8..10), part(0..4), part(11..19))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_as_mail_writes_it() {
        let at = humantime::parse_rfc3339("2026-11-21T07:05:09Z").unwrap();
        assert_eq!(rfc2822(at), "Sat, 21 Nov 2026 07:05:09 +0000");
    }
}
