//! What a report of `osjitter bench timeout` says, as a table, and beside the figures that bench-tokio-timeout published.

use std::time::Duration;

use jitterstat::bench::cost::{Overhead, Verdict};
use jitterstat::bench::timeout::{Measured, Report, Workload};

use crate::render::reading::wrap;
use crate::text::align::align;
use crate::text::time::{cost as ns, time};
use crate::text::units;

/// The workload of ours that is bench-tokio-timeout's.
pub const LIKE_REFERENCE: &str = "channel-multi-thread";

/// Whether a workload, by name, is bench-tokio-timeout's.
pub fn is_like_reference(workload: &str) -> bool {
    workload == LIKE_REFERENCE
}

/// Width that every line keeps to.
const WIDTH: usize = 80;

/// One table for each workload, under what all figures have beside them: versions, clocks and their cost.
pub fn table(report: &Report) -> String {
    let mut text: String = heading(report).into_iter().map(|line| line + "\n").collect();
    for workload in &report.workloads {
        text += &format!("\n{}\n{}", title(workload), align(&rows(workload), 2));
        if is_fired(workload) {
            text += &format!("\n{}\n", align(&fired_rows(workload), 2).trim_end());
        }
        for stray in strays(workload) {
            text += &format!("{stray}\n");
        }
    }
    text += &format!("\n{}", wrap(NOTE, WIDTH));
    for warning in &report.warnings {
        text += &wrap(&format!("warning: {}; {}", warning.message, warning.hint), WIDTH);
    }
    if report.partial {
        text += "interrupted: this is what was measured until then\n";
    }
    text
}

/// What the columns mean.
pub const NOTE: &str = "overhead: median over rounds of the difference to the baseline in the same round, with its 95 % \
                        confidence interval; = where that holds zero. reads, made, regs, allocs: clock readings of the \
                        process, timers made, timers registered or reset, and allocations, for each message, counted in \
                        a run that is not timed; no column where nothing was allocated.";

/// Versions, seed, and the clocks with their cost; a line each.
pub fn heading(report: &Report) -> Vec<String> {
    let host = &report.host;
    let tokio = host.versions.get("tokio").map_or("unknown", String::as_str);
    let clock_source = host.clock_source.as_deref().unwrap_or("unknown");
    let (rounds, seed) = (report.plan.rounds, report.plan.seed);
    let first = format!("tokio {tokio}; clock source {clock_source}; {rounds} rounds, seed {seed}");
    let clocks =
        report.clocks.iter().map(|c| format!("clock {}: {:.1} ns a reading, {}", c.name, c.ns_per_read, c.source));
    std::iter::once(first).chain(clocks).collect()
}

/// What a workload is.
pub fn title(workload: &Workload) -> String {
    let length = units::short(Duration::from_nanos(workload.length_ns));
    format!("{}, timeout {length}, {}", workload.name, workload.runtime)
}

const COLUMNS: [&str; 8] = ["variant", "clock", "ns/msg", "overhead in ns", "%", "reads", "made", "regs"];

/// Least allocations for each message that two digits show.
const LEAST_SHOWN: f64 = 0.005;

/// Costs and counts of each variant, under a heading; two columns of names, the others numbers.
pub fn rows(workload: &Workload) -> Vec<Vec<String>> {
    let mut rows = vec![COLUMNS.map(str::to_owned).to_vec()];
    rows.extend(workload.results.iter().map(row));
    let allocations = |result: &Measured| result.counts.as_ref().map(|c| c.allocations);
    if workload.results.iter().filter_map(allocations).any(|n| n >= LEAST_SHOWN) {
        let cells = workload.results.iter().map(|r| allocations(r).map_or("-".to_owned(), |n| format!("{n:.2}")));
        rows.iter_mut().zip(std::iter::once("allocs".to_owned()).chain(cells)).for_each(|(row, cell)| row.push(cell));
    }
    rows
}

/// Whether messages were left out so that timeouts fire.
pub fn is_fired(workload: &Workload) -> bool {
    workload.results.iter().any(|r| r.lateness_ns.is_some())
}

/// How late the timeouts of each variant fired, under a heading.
pub fn fired_rows(workload: &Workload) -> Vec<Vec<String>> {
    let mut rows = vec![["variant", "clock", "fired", "late p50", "late max", "early"].map(str::to_owned).to_vec()];
    for result in &workload.results {
        let Some(late) = &result.lateness_ns else { continue };
        rows.push(vec![
            result.variant.clone(),
            result.clock.clone(),
            result.fired.to_string(),
            late.p50.map_or("-".into(), time),
            time(late.max),
            result.early.to_string(),
        ]);
    }
    rows
}

/// Timeouts that fired although every message came.
pub fn strays(workload: &Workload) -> Vec<String> {
    let fired = workload.results.iter().filter(|r| !is_fired(workload) && r.fired > 0);
    let plural = |n: u64| if n == 1 { "timeout" } else { "timeouts" };
    fired.map(|r| format!("{} ({}): {} {} fired", r.variant, r.clock, r.fired, plural(r.fired))).collect()
}

fn row(result: &Measured) -> Vec<String> {
    let dash = || "-".to_owned();
    let counts = result.counts.as_ref();
    let count = |of: Option<f64>| of.map_or_else(dash, |n| format!("{n:.2}"));
    vec![
        result.variant.clone(),
        result.clock.clone(),
        result.ns_per_message.as_ref().map_or_else(dash, |c| ns(c.p50)),
        result.overhead.as_ref().map_or_else(dash, overhead),
        result.overhead.as_ref().map_or_else(dash, percent),
        count(counts.and_then(|c| c.clock_reads)),
        count(counts.map(|c| c.timers_made)),
        count(counts.map(|c| c.timer_registrations)),
    ]
}

fn overhead(overhead: &Overhead) -> String {
    let sign = if overhead.verdict == Verdict::NoDifference { "= " } else { "" };
    let interval = overhead.ns_ci95.map_or(String::new(), |[low, high]| format!(" [{}, {}]", ns(low), ns(high)));
    format!("{sign}{}{interval}", signed(overhead.ns))
}

/// No ratio to a baseline that is next to nothing: it would say how empty an empty loop is.
const MOST_PERCENT: f64 = 1_000.0;

fn percent(overhead: &Overhead) -> String {
    match overhead.percent {
        p if p.abs() > MOST_PERCENT => "-".to_owned(),
        p if p.abs() >= 100.0 => format!("{p:+.0}"),
        p => format!("{p:+.1}"),
    }
}

fn signed(value: f64) -> String {
    let digits = ns(value.abs());
    if value < 0.0 { format!("-{digits}") } else { format!("+{digits}") }
}

/// A column of published figures: mean and spread in nanoseconds a message, by variant.
struct Published {
    heading: &'static str,
    figures: &'static [(&'static str, f64, f64)],
}

/// As bench-tokio-timeout published them, all on an AMD Ryzen 7 4800HS.
const PUBLISHED: [Published; 4] = [
    Published {
        heading: "tokio 1.28",
        figures: &[
            ("baseline", 356.6, 116.62),
            ("timeout", 1768.7, 325.27),
            ("sleep", 1789.7, 324.50),
            ("reused-sleep", 1643.4, 265.58),
            ("reused-boxed-sleep", 1714.5, 302.61),
        ],
    },
    Published {
        heading: "1.28, quanta",
        figures: &[
            ("baseline", 364.8, 119.89),
            ("sleep", 496.1, 126.25),
            ("reused-sleep", 476.4, 154.02),
            ("reused-boxed-sleep", 470.3, 145.91),
        ],
    },
    Published {
        heading: "tokio 1.40",
        figures: &[
            ("baseline", 486.4, 117.75),
            ("timeout", 759.1, 204.54),
            ("sleep", 747.1, 153.93),
            ("reused-sleep", 605.9, 168.39),
        ],
    },
    Published {
        heading: "1.40, quanta",
        figures: &[("baseline", 481.5, 92.26), ("sleep", 702.4, 181.51), ("reused-sleep", 532.1, 134.60)],
    },
];

/// The published tables and ours, each with its ratio to the baseline of its own column.
pub fn beside_reference(report: &Report) -> String {
    let Some(ours) = report.workloads.iter().find(|w| is_like_reference(&w.name)) else { return String::new() };
    let base = |figures: &[(&str, f64, f64)]| figures.iter().find(|f| f.0 == "baseline").map_or(f64::NAN, |f| f.1);
    let ours_base = ours.results.first().and_then(|r| r.ns_per_message.as_ref()).map_or(f64::NAN, |c| c.p50);
    let mut rows = vec![vec!["variant".to_owned(), "clock".to_owned()]];
    rows[0].extend(PUBLISHED.iter().map(|p| p.heading.to_owned()));
    rows[0].push("here".to_owned());
    for result in &ours.results {
        let mut row = vec![result.variant.clone(), result.clock.clone()];
        for column in &PUBLISHED {
            // Their clock was tokio's, or quanta's in the columns that say so.
            let comparable = matches!(result.clock.as_str(), "none" | "tokio") != column.heading.contains("quanta")
                || result.variant == "baseline";
            let figure = column.figures.iter().find(|f| f.0 == result.variant && comparable);
            row.push(figure.map_or("-".to_owned(), |&(_, mean, spread)| {
                format!("{mean:.0} ± {spread:.0} ({:.2}x)", mean / base(column.figures))
            }));
        }
        row.push(
            result
                .ns_per_message
                .as_ref()
                .map_or("-".to_owned(), |c| format!("{} ({:.2}x)", ns(c.p50), c.p50 / ours_base)),
        );
        rows.push(row);
    }
    let clock = report.clocks.first();
    let read = clock.map_or("unknown".to_owned(), |c| format!("{:.0} ns", c.ns_per_read));
    let above = wrap(
        "bench-tokio-timeout (AMD Ryzen 7 4800HS), mean ± spread in ns a message; here the median; in brackets the ratio \
         to the baseline of the same column. A row with the clock tach stands beside their quanta: a counter read in \
         place of a system clock.",
        WIDTH,
    );
    let why = wrap(
        &format!(
            "Why they differ: the first table was taken with a slow clock source, where one reading cost about a \
             microsecond, and a timeout reads the clock once or twice a message; their second, on the same CPU with the \
             counter as clock source, shows what is left. Here a reading costs {read}. Most of every figure, the \
             baseline included, is the hand-off between two tasks."
        ),
        WIDTH,
    );
    format!("\n{above}{}\n{why}", align(&rows, 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overhead_says_what_its_interval_says() {
        let baseline = vec![100.0; 20];
        let of = |rounds: &[f64]| overhead(&Overhead::of(&baseline, rounds).unwrap());
        assert_eq!(of(&[104.25; 20]), "+4.25 [4.25, 4.25]");
        let noise: Vec<f64> = (0..20).map(|r| 99.0 + f64::from(r % 3)).collect();
        assert_eq!(of(&noise), "= +0.00 [-1.00, 1.00]");
        assert_eq!(of(&[99.0; 3]), "-1.00");
    }

    #[test]
    fn ratios_of_the_published_tables_are_computed_from_their_own_baseline() {
        let [first, ..] = &PUBLISHED;
        let ratio = |variant: &str| first.figures.iter().find(|f| f.0 == variant).unwrap().1 / first.figures[0].1;
        // Their text says up to seven times; their table says five.
        assert_eq!(format!("{:.1}", ratio("sleep")), "5.0");
        assert_eq!(format!("{:.3}", ratio("timeout") / ratio("reused-sleep")), "1.076");
    }
}
