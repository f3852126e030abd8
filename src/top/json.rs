//! Loops for programs.

use std::time::{Duration, SystemTime};

use serde::Serialize;

use crate::top::figures::{Figures, Loop, Loops, Window};

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Document {
    schema: &'static str,
    meters: Vec<Meter>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Meter {
    meter: String,
    program: String,
    pid: u32,
    registered_unix_ns: u64,
    period_ns: u64,
    /// Since it was registered.
    total: Line,
    /// Null where fewer seconds have been watched.
    last_1s: Option<Line>,
    last_10s: Option<Line>,
    last_60s: Option<Line>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Line {
    ticks: u64,
    missed: u64,
    missed_by_work: u64,
    coalesced: u64,
    skipped: u64,
    early: u64,
    overruns: u64,
    lateness_ns: Percentiles,
    work_ns: Percentiles,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Percentiles {
    p50: Option<u64>,
    p99: Option<u64>,
    max: Option<u64>,
}

/// One document of all.
pub fn document(loops: &Loops) -> String {
    let document = Document { schema: "osjitter.top/1", meters: loops.iter().map(meter).collect() };
    serde_json::to_string_pretty(&document).expect("plain data") + "\n"
}

/// One line each.
pub fn lines(loops: &Loops) -> String {
    loops.iter().map(|of| serde_json::to_string(&meter(of)).expect("plain data") + "\n").collect()
}

fn meter(of: &Loop) -> Meter {
    let [last_1s, last_10s, last_60s] =
        Window::ALL.map(|window| of.has(window).then(|| line(of.of(window))));
    Meter {
        meter: of.now.name.clone(),
        program: of.now.program.clone(),
        pid: of.now.pid,
        registered_unix_ns: whole(
            of.now.registered.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default(),
        ),
        period_ns: whole(of.now.period),
        total: line(&of.total()),
        last_1s,
        last_10s,
        last_60s,
    }
}

fn line(of: &Figures) -> Line {
    let percentiles = |of: &tickmeter::Histogram| Percentiles {
        p50: of.quantile(0.5).map(whole),
        p99: of.quantile(0.99).map(whole),
        max: of.max().map(whole),
    };
    Line {
        ticks: of.ticks,
        missed: of.missed,
        missed_by_work: of.missed_by_work,
        coalesced: of.coalesced,
        skipped: of.skipped,
        early: of.early,
        overruns: of.overruns,
        lateness_ns: percentiles(&of.lateness),
        work_ns: percentiles(&of.work),
    }
}

fn whole(length: Duration) -> u64 {
    u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_schema_is_of_this_document() {
        let schema = serde_json::to_value(schemars::schema_for!(Document)).unwrap();
        crate::file_io::check_schema("osjitter.top.1.json", &schema);
    }
}
