//! `oslat --json` of rt-tests: a busy loop on each CPU, every turn of it counted by how long it took.

use std::collections::BTreeMap;

use jitterstat::report::{Report, Status};
use serde::Deserialize;

use crate::interop::bins::{Binned, RawBins, Stated};
use crate::interop::json;
use crate::interop::rt_tests::Frame;
use crate::interop::source::{Source, clock, no_cost, no_rounds, not_too_many, rounded, subject, warning};
use crate::render::quantity::GAPS;

const TOOL: &str = "oslat";
const UNIT_NS: u64 = 1_000;
const HINT: &str = "Run oslat with a larger -b, so that every value has a bin.";

#[derive(Deserialize)]
struct File {
    thread: BTreeMap<u64, Thread>,
}

#[derive(Deserialize)]
struct Thread {
    cpu: u64,
    /// Of the CPU counter, in MHz.
    #[serde(default)]
    freq: u64,
    min: u64,
    max: u64,
    avg: f64,
    histogram: RawBins,
}

pub(super) fn read(text: &str, frame: &Frame) -> Result<Report, String> {
    let file: File = json(text, "oslat result")?;
    not_too_many("thread", file.thread.len())?;
    let mut warnings = vec![
        warning(
            GAPS,
            "oslat counts every turn of a busy loop by how long it took: these are gaps, not lateness, there is no period, \
             and millions of turns with nothing in them make up the percentiles."
                .to_owned(),
            "Compare the largest gap and the counts of long ones; the subject spin of osjitter run is its counterpart.",
        ),
        no_rounds(TOOL),
        no_cost(TOOL),
        rounded(TOOL, "microseconds", "rounded up"),
    ];
    let mut subjects = Vec::new();
    for (name, thread) in &file.thread {
        let mut subject = subject(format!("{TOOL}/cpu-{}", thread.cpu), TOOL, None);
        if file.thread.values().filter(|t| t.cpu == thread.cpu).count() > 1 {
            subject.id = format!("{TOOL}/cpu-{}/thread-{name}", thread.cpu);
        }
        let count = thread.histogram.0.values().sum();
        if count > 0 {
            let stated = Stated { count, min: thread.min, max: thread.max, avg: thread.avg };
            let binned = Binned::new(&thread.histogram, &stated, UNIT_NS).map_err(|e| format!("thread.{name}: {e}"))?;
            let binned = binned.with_open_last_bin();
            subject.summary = Some(binned.summary(None));
            subject.histogram = binned.histogram();
            subject.status = Status::Measured;
            warnings.extend(binned.warning(&subject.id, HINT));
        }
        subjects.push(subject);
    }
    let (started_utc, duration_ns) = frame.times();
    let mut host = frame.sysinfo.host();
    host.versions.insert("rt-tests".to_owned(), frame.version.clone());
    let mut clock = clock("the CPU counter, by oslat", UNIT_NS);
    if let Some(mhz) = file.thread.values().map(|t| t.freq).find(|&mhz| mhz > 0) {
        clock.rate_hz = mhz as f64 * 1e6;
        clock.rate_known_by = "oslat's own calibration, in whole MHz".to_owned();
    }
    Ok(Source { tool: TOOL, version: frame.version.clone(), started_utc, duration_ns, host, clock, warnings, subjects }
        .report())
}
