//! The figures that bench-tokio-timeout published, for comparison with those measured here.

use cli::time::format_number;
use cli::words::or_dash;
use render::document::{Document, Table};

use crate::bench::timeout::file::{MeasuredVariant, TimeoutReport};

/// The workload that corresponds to that of bench-tokio-timeout.
pub const REFERENCE_WORKLOAD: &str = "channel-multi-thread";

/// Returns whether the workload with this name corresponds to that of bench-tokio-timeout.
pub fn is_reference_workload(workload: &str) -> bool {
    workload == REFERENCE_WORKLOAD
}

const COLUMNS: [&str; 4] = ["tokio 1.28", "1.28, quanta", "tokio 1.40", "1.40, quanta"];

/// Mean and spread in nanoseconds per message.
type Figure = (f64, f64);

/// Figures published by bench-tokio-timeout, all measured on an AMD Ryzen 7 4800HS.
const PUBLISHED: [(&str, [Option<Figure>; 4]); 5] = [
    (
        "control",
        [Some((356.6, 116.62)), Some((364.8, 119.89)), Some((486.4, 117.75)), Some((481.5, 92.26))],
    ),
    ("timeout", [Some((1768.7, 325.27)), None, Some((759.1, 204.54)), None]),
    (
        "sleep",
        [
            Some((1789.7, 324.50)),
            Some((496.1, 126.25)),
            Some((747.1, 153.93)),
            Some((702.4, 181.51)),
        ],
    ),
    (
        "reused-sleep",
        [
            Some((1643.4, 265.58)),
            Some((476.4, 154.02)),
            Some((605.9, 168.39)),
            Some((532.1, 134.60)),
        ],
    ),
    ("reused-boxed-sleep", [Some((1714.5, 302.61)), Some((470.3, 145.91)), None, None]),
];

fn published(variant: &str, column: usize) -> Option<Figure> {
    PUBLISHED.iter().find(|row| row.0 == variant)?.1[column]
}

/// Adds the published figures next to the measured ones, each with its ratio to the control loop of
/// its column.
pub fn add_comparison(document: &mut Document, report: &TimeoutReport) {
    let Some(workload) = report.workloads.iter().find(|w| is_reference_workload(&w.name)) else {
        return;
    };
    let control = workload.results.first().and_then(|r| r.ns_per_message.as_ref());
    let control_ns = control.map_or(f64::NAN, |costs| costs.p50);
    let heading = ["variant", "clock"].into_iter().chain(COLUMNS).chain(["here"]);
    let mut table = Table::new(heading, 2);
    for result in &workload.results {
        let mut row = vec![result.variant.clone(), result.clock.clone()];
        row.extend((0..COLUMNS.len()).map(|column| format_published(result, column)));
        let here_ns = result.ns_per_message.as_ref().map(|costs| costs.p50);
        let here = here_ns.map(|ns| format!("{} ({:.2}x)", format_number(ns), ns / control_ns));
        row.push(or_dash(here));
        table.row(row);
    }
    document.paragraph(LEGEND);
    document.table(table);
    document.paragraph(explain_differences(report));
}

/// Formats a published figure, or `-` if there is none for the variant and the clock of the result.
fn format_published(result: &MeasuredVariant, column: usize) -> String {
    // The published clock was quanta's in the columns that name it, and tokio's in the others.
    let is_comparable =
        matches!(result.clock.as_str(), "none" | "tokio") != COLUMNS[column].contains("quanta");
    let figure =
        published(&result.variant, column).filter(|_| is_comparable || result.variant == "control");
    let control = published("control", column).map_or(f64::NAN, |(mean, _)| mean);
    figure.map_or("-".to_owned(), |(mean, spread)| {
        format!("{mean:.0} ± {spread:.0} ({:.2}x)", mean / control)
    })
}

const LEGEND: &str = "bench-tokio-timeout (AMD Ryzen 7 4800HS), mean ± spread in ns per message; here the median; in brackets the ratio \
     to the control loop of the same column. A row with the clock tach is next to the figures with quanta: both read a \
     counter instead of the system clock.";

fn explain_differences(report: &TimeoutReport) -> String {
    let clock = report.clocks.first();
    let read = clock.map_or("unknown".to_owned(), |c| format!("{:.0} ns", c.ns_per_read));
    format!(
        "Why they differ: the first published table was measured with a slow clock source, with which a reading cost about a \
         microsecond, and a timeout reads the clock once or twice per message. The second one, on the same CPU with the \
         counter as clock source, shows the remaining cost. Here a reading costs {read}. Most of every figure, that of the \
         control loop included, is the hand-off between two tasks."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_ratios_are_relative_to_control() {
        let ratio = |variant: &str, to: &str| {
            published(variant, 0).unwrap().0 / published(to, 0).unwrap().0
        };
        // The published text claims up to seven times, but the published table shows five.
        assert_eq!(format!("{:.1}", ratio("sleep", "control")), "5.0");
        assert_eq!(format!("{:.3}", ratio("timeout", "reused-sleep")), "1.076");
    }
}
