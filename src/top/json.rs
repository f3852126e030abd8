//! The JSON output of `osjitter top`.

use std::time::SystemTime;

use cli::units::to_ns;
use files::file::{to_indented_json, to_json_line};
use serde::Serialize;
use tickmeter::Histogram;

use crate::top::late_functions::LateFunction;
use crate::top::loop_stats::{Loops, MeteredLoop, Window, WindowStats};

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Document {
    schema: &'static str,
    meters: Vec<Meter>,
    /// Number of meters that are not in the list, because their files are unreadable or there are
    /// too many.
    #[cfg_attr(test, schemars(default))]
    left_out: usize,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Meter {
    meter: String,
    program: String,
    pid: u32,
    registered_unix_ns: u64,
    period_ns: u64,
    /// Statistics since the meter was registered.
    total: LoopStats,
    /// Statistics of the last second; null if the loop has been watched for less time.
    last_1s: Option<LoopStats>,
    last_10s: Option<LoopStats>,
    last_60s: Option<LoopStats>,
    /// The last late tick with the function that ran meanwhile; null if none is known.
    late_function: Option<LateTick>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LateTick {
    lateness_ns: u64,
    /// The innermost function that was part of most samples.
    function: String,
    /// Its callers, from the direct one on.
    callers: Vec<String>,
    /// Share of the lateness in which the function or one of its callees ran.
    share: f64,
}

// It mirrors `WindowStats`, since `osjitter.top/1` has percentiles in place of histograms.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Line"))]
struct LoopStats {
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

/// Returns a document with all loops. `left_out` is the number of meters that were not read.
pub fn document(loops: &Loops, left_out: usize) -> String {
    let meters = loops.iter().map(Meter::from).collect();
    let contents = Document { schema: "osjitter.top/1", meters, left_out };
    to_indented_json(&contents)
}

/// Returns a line per loop.
pub fn lines(loops: &Loops) -> String {
    loops.iter().map(|metered| to_json_line(&Meter::from(metered))).collect()
}

impl From<&MeteredLoop> for Meter {
    fn from(metered: &MeteredLoop) -> Self {
        let snapshot = &metered.snapshot;
        let registered =
            snapshot.registered.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let last = |window| metered.has(window).then(|| LoopStats::from(metered.stats(window)));
        Self {
            meter: snapshot.name.clone(),
            program: snapshot.program.clone(),
            pid: snapshot.pid,
            registered_unix_ns: to_ns(registered),
            period_ns: to_ns(snapshot.period),
            total: LoopStats::from(&metered.total()),
            last_1s: last(Window::Second),
            last_10s: last(Window::TenSeconds),
            last_60s: last(Window::Minute),
            late_function: metered.late_function.as_ref().map(LateTick::from),
        }
    }
}

impl From<&LateFunction> for LateTick {
    fn from(LateFunction { lateness, code }: &LateFunction) -> Self {
        Self {
            lateness_ns: to_ns(*lateness),
            function: code.function.clone(),
            callers: code.callers.clone(),
            share: code.share,
        }
    }
}

impl From<&WindowStats> for LoopStats {
    fn from(stats: &WindowStats) -> Self {
        Self {
            ticks: stats.ticks,
            missed: stats.missed,
            missed_by_work: stats.missed_by_work,
            coalesced: stats.coalesced,
            skipped: stats.skipped,
            early: stats.early,
            overruns: stats.overruns,
            lateness_ns: Percentiles::from(&stats.lateness),
            work_ns: Percentiles::from(&stats.work),
        }
    }
}

impl From<&Histogram> for Percentiles {
    fn from(histogram: &Histogram) -> Self {
        Self {
            p50: histogram.quantile(0.5).map(to_ns),
            p99: histogram.quantile(0.99).map(to_ns),
            max: histogram.max().map(to_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_schema_is_current() {
        let schema = serde_json::to_value(schemars::schema_for!(Document)).unwrap();
        files::model::check_schema("osjitter.top.1.json", &schema);
    }
}
