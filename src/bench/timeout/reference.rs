//! The figures that bench-tokio-timeout published, beside ours.

use cli::align::align;
use cli::time::format_number as ns;
use cli::wrap::wrap;
use files::cost::Costs;

use crate::bench::timeout::file::TimeoutReport;

/// The workload of ours that is bench-tokio-timeout's.
pub const LIKE_REFERENCE: &str = "channel-multi-thread";

/// Whether a workload, by name, is bench-tokio-timeout's.
pub fn is_like_reference(workload: &str) -> bool {
    workload == LIKE_REFERENCE
}

const COLUMNS: [&str; 4] = ["tokio 1.28", "1.28, quanta", "tokio 1.40", "1.40, quanta"];

/// Mean and spread, in nanoseconds a message.
type Figure = (f64, f64);

/// As bench-tokio-timeout published them, all on an AMD Ryzen 7 4800HS.
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

/// The published tables and ours, each with its ratio to the control loop of its own column.
pub fn beside_reference(report: &TimeoutReport, width: usize) -> String {
    let Some(ours) = report.workloads.iter().find(|w| is_like_reference(&w.name)) else {
        return String::new();
    };
    let ours_control =
        ours.results.first().and_then(|r| r.ns_per_message.as_ref()).map_or(f64::NAN, |c| c.p50);
    let mut rows = vec![vec!["variant".to_owned(), "clock".to_owned()]];
    rows[0].extend(COLUMNS.map(str::to_owned));
    rows[0].push("here".to_owned());
    for result in &ours.results {
        let cell = |(column, heading): (usize, &&str)| {
            // Their clock was tokio's, or quanta's in the columns that say so.
            let is_comparable =
                matches!(result.clock.as_str(), "none" | "tokio") != heading.contains("quanta");
            let figure = published(&result.variant, column)
                .filter(|_| is_comparable || result.variant == "control");
            let control = published("control", column).map_or(f64::NAN, |(mean, _)| mean);
            figure.map_or("-".to_owned(), |(mean, spread)| {
                format!("{mean:.0} ± {spread:.0} ({:.2}x)", mean / control)
            })
        };
        let here = |c: &Costs| format!("{} ({:.2}x)", ns(c.p50), c.p50 / ours_control);
        let mut row = vec![result.variant.clone(), result.clock.clone()];
        row.extend(COLUMNS.iter().enumerate().map(cell));
        row.push(result.ns_per_message.as_ref().map_or("-".to_owned(), here));
        rows.push(row);
    }
    let clock = report.clocks.first();
    let read = clock.map_or("unknown".to_owned(), |c| format!("{:.0} ns", c.ns_per_read));
    let above = wrap(
        "bench-tokio-timeout (AMD Ryzen 7 4800HS), mean ± spread in ns a message; here the median; in brackets the ratio \
         to the control loop of the same column. A row with the clock tach stands beside their quanta: a counter read in \
         place of a system clock.",
        width,
    );
    let why = wrap(
        &format!(
            "Why they differ: the first table was taken with a slow clock source, where one reading cost about a \
             microsecond, and a timeout reads the clock once or twice a message; their second, on the same CPU with the \
             counter as clock source, shows what is left. Here a reading costs {read}. Most of every figure, the \
             control loop included, is the hand-off between two tasks."
        ),
        width,
    );
    format!("\n{above}{}\n{why}", align(&rows, 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_of_the_published_tables_are_computed_from_their_own_control_loop() {
        let ratio = |variant: &str, to: &str| {
            published(variant, 0).unwrap().0 / published(to, 0).unwrap().0
        };
        // Their text says up to seven times; their table says five.
        assert_eq!(format!("{:.1}", ratio("sleep", "control")), "5.0");
        assert_eq!(format!("{:.3}", ratio("timeout", "reused-sleep")), "1.076");
    }
}
