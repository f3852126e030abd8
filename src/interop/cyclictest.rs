//! `cyclictest --json` of rt-tests: one thread a subject, bins of whole microseconds, or nanoseconds with `-N`.

use std::collections::BTreeMap;

use jitterstat::report::{Report, Status};
use serde::Deserialize;

use crate::interop::bins::{Binned, RawBins, Stated};
use crate::interop::json;
use crate::interop::rt_tests::Frame;
use crate::interop::source::{Source, clock, no_cost, no_rounds, not_too_many, rounded, subject, warning};
use crate::text::units;

const TOOL: &str = "cyclictest";
/// Its `-i`, if it is not given.
const DEFAULT_PERIOD_US: u64 = 1_000;
const HINT: &str = "Run cyclictest with a larger -h, so that every value has a bin.";

#[derive(Deserialize)]
struct File {
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

pub(super) fn read(text: &str, frame: &Frame) -> Result<Report, String> {
    let file: File = json(text, "cyclictest result")?;
    not_too_many("thread", file.thread.len())?;
    let unit_ns = if frame.resolution_in_ns == 1 { 1 } else { 1_000 };
    let mut warnings = vec![no_rounds(TOOL), no_cost(TOOL)];
    if unit_ns > 1 {
        warnings.push(rounded(TOOL, "microseconds", "the rest cut off"));
    }
    warnings.push(warning(
        "import-missed",
        "cyclictest leaves out the deadlines that passed while a thread was late: one long stall is one value, not as \
         many as it had ticks. Missed ticks are those known to be a period late, at least."
            .to_owned(),
        "Read the maximum beside the percentiles; osjitter run keeps every tick of the grid.",
    ));
    let mut subjects = Vec::new();
    for (name, thread) in &file.thread {
        let period_ns = period_ns(&frame.cmdline, thread.histogram.0.is_empty() && *name != 0);
        let id = match (&thread.subject, period_ns) {
            (Some(id), _) => id.clone(),
            (None, Some(ns)) => format!("{TOOL}@{}/thread-{name}", units::short(std::time::Duration::from_nanos(ns))),
            (None, None) => format!("{TOOL}/thread-{name}"),
        };
        let mut subject = subject(id, TOOL, period_ns);
        if thread.cycles > 0 {
            let stated = Stated { count: thread.cycles, min: thread.min, max: thread.max, avg: thread.avg };
            let binned = Binned::new(&thread.histogram, &stated, unit_ns).map_err(|e| format!("thread.{name}: {e}"))?;
            subject.summary = Some(binned.summary(period_ns));
            subject.histogram = binned.histogram();
            subject.status = Status::Measured;
            warnings.extend(binned.warning(&subject.id, HINT));
        }
        subjects.push(subject);
    }
    let (started_utc, duration_ns) = frame.times();
    let mut host = frame.sysinfo.host();
    host.versions.insert("rt-tests".to_owned(), frame.version.clone());
    Ok(Source {
        tool: TOOL,
        version: frame.version.clone(),
        started_utc,
        duration_ns,
        host,
        clock: clock("the kernel's clock, by cyclictest", unit_ns),
        warnings,
        subjects,
    }
    .report())
}

/// The period on the command line. Without a histogram each thread has one of its own, which is not worked out here.
fn period_ns(cmdline: &str, spread: bool) -> Option<u64> {
    if spread {
        return None;
    }
    let words = shlex::split(cmdline)?;
    let mut period_us = Some(DEFAULT_PERIOD_US);
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
            assert_eq!(period_ns(line, false), us.map(|us| us * 1_000), "{line}");
        }
        assert_eq!(period_ns("cyclictest -i 250", true), None);
    }
}
