//! What a report of `osjitter bench timeout` says, as a table, and beside the figures that bench-tokio-timeout published.

use std::time::Duration;

use jitterstat::bench::cost::{Overhead, Verdict};
use jitterstat::bench::timeout::{Measured, Report, Workload};

use super::columns::align;
use super::scale::{cost as ns, time};
use crate::units;

/// The workload of ours that is bench-tokio-timeout's.
pub const LIKE_REFERENCE: &str = "channel-multi-thread";

/// Whether a workload, by name, is bench-tokio-timeout's.
pub fn is_like_reference(workload: &str) -> bool {
    workload == LIKE_REFERENCE
}

/// One table for each workload, under what all figures have beside them: versions, clocks and their cost.
pub fn table(report: &Report) -> String {
    let mut text = heading(report);
    for workload in &report.workloads {
        text.push('\n');
        text += &of_workload(workload);
    }
    text += "\n+/- overhead: median over rounds of the difference to the baseline in the same round, with its 95 % confidence\n\
             interval; = where that holds zero. reads, timers, regs, allocs: clock readings of the process, timers made, timers\n\
             registered or reset, and allocations, for each message, counted in a run that is not timed.\n";
    for warning in &report.warnings {
        text += &format!("warning: {}; {}\n", warning.message, warning.hint);
    }
    if report.partial {
        text += "interrupted: this is what was measured until then\n";
    }
    text
}

fn heading(report: &Report) -> String {
    let host = &report.host;
    let tokio = host.versions.get("tokio").map_or("unknown", String::as_str);
    let clocks: Vec<String> =
        report.clocks.iter().map(|c| format!("{} {:.1} ns a reading ({})", c.name, c.ns_per_read, c.source)).collect();
    format!(
        "tokio {tokio}; clock source {}; {}; {} rounds, seed {}\n",
        host.clock_source.as_deref().unwrap_or("unknown"),
        clocks.join(", "),
        report.plan.rounds,
        report.plan.seed,
    )
}

const COLUMNS: [&str; 9] =
    ["variant", "clock", "ns/message", "overhead in ns", "%", "reads", "timers", "regs", "allocs"];

fn of_workload(workload: &Workload) -> String {
    let length = units::short(Duration::from_nanos(workload.length_ns));
    let fires = workload.results.iter().any(|r| r.lateness_ns.is_some());
    let mut rows = vec![COLUMNS.map(str::to_owned).to_vec()];
    if fires {
        rows[0].extend(["fired", "late p50", "late max", "early"].map(str::to_owned));
    }
    for result in &workload.results {
        let mut row = row(result);
        if fires {
            let late = result.lateness_ns.as_ref();
            row.push(result.fired.to_string());
            row.push(late.and_then(|d| d.p50).map_or("-".into(), time));
            row.push(late.map_or("-".into(), |d| time(d.max)));
            row.push(late.map_or("-".into(), |_| result.early.to_string()));
        }
        rows.push(row);
    }
    let mut text = format!("{}, timeout {length}, {}\n", workload.name, workload.runtime);
    text += &align(&rows, 2);
    let strays = workload.results.iter().filter(|r| !fires && r.fired > 0);
    for result in strays {
        text += &format!("{} ({}): {} timeouts fired\n", result.variant, result.clock, result.fired);
    }
    text
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
        count(counts.map(|c| c.allocations)),
    ]
}

fn overhead(overhead: &Overhead) -> String {
    let sign = if overhead.verdict == Verdict::NoDifference { "= " } else { "" };
    let interval =
        overhead.ns_ci95.map_or(String::new(), |[low, high]| format!(" [{}, {}]", signed(low), signed(high)));
    format!("{sign}{}{interval}", signed(overhead.ns))
}

/// No ratio to a baseline that is next to nothing: it would say how empty an empty loop is.
const MOST_PERCENT: f64 = 1_000.0;

fn percent(overhead: &Overhead) -> String {
    match overhead.percent {
        p if p.abs() > MOST_PERCENT => "-".to_owned(),
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
    format!(
        "\nbench-tokio-timeout (AMD Ryzen 7 4800HS), mean ± spread in ns a message; here the median; in brackets the ratio to the\n\
         baseline of the same column. A row with the clock tach stands beside their quanta: a counter read in place of a system clock.\n{}\n\
         Why they differ: the first table was taken with a slow clock source, where one reading cost about a microsecond, and a\n\
         timeout reads the clock once or twice a message; their second, on the same CPU with the counter as clock source, shows what is\n\
         left. Here a reading costs {read}. Most of every figure, the baseline included, is the hand-off between two tasks.\n",
        align(&rows, 2)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overhead_says_what_its_interval_says() {
        let baseline = vec![100.0; 20];
        let of = |rounds: &[f64]| overhead(&Overhead::of(&baseline, rounds).unwrap());
        assert_eq!(of(&[104.25; 20]), "+4.25 [+4.25, +4.25]");
        let noise: Vec<f64> = (0..20).map(|r| 99.0 + f64::from(r % 3)).collect();
        assert_eq!(of(&noise), "= +0.00 [-1.00, +1.00]");
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
