//! Draws `--histogram`: percentiles and a histogram of each subject in characters.

use std::ops::RangeInclusive;

use cli::printable::to_printable;
use cli::time::format_time;
use cli::wrap::wrap;
use files::report::{Distribution, Report};

use crate::report::classes::{self, Class};
use crate::report::label::labels;
use crate::report::overflow;
use crate::report::trust::Trust;
use files::entry::summaries;
use files::quantity;
use files::samples::Lateness;

const CELL: &str = "\u{2588}";
/// Minimum number of cells of a bar. A terminal too narrow for them gets longer lines.
const MIN_CELLS: usize = 8;
/// Maximum width of the text. Longer bars, for example in a pipe, are hard to compare.
const MAX_COLUMNS: usize = 120;
/// Number of consecutive empty classes that are merged into one line.
const MIN_EMPTY_RUN: usize = 3;

/// Renders every measured subject of a report, all on the same scales.
pub fn text(report: &Report, columns: usize) -> String {
    let columns = columns.min(MAX_COLUMNS);
    let trust = Trust::from_report(report);
    let unit = if quantity::is_gaps(report) { "turns" } else { "ticks" };
    let scales =
        "by percentile, on a logarithmic scale, and as a histogram, with bars in proportion";
    let mut text = wrap(&format!("{} {scales}", quantity::name(report)), columns);
    let (low, high) = extremes(report);
    for (subject, name) in report.subjects.iter().zip(labels(report).names) {
        let Some(summary) = &subject.summary else { continue };
        let came = summary.came();
        text += &format!("\n{name}: {came} {unit}\n");
        text += &percentiles(&summary.lateness_ns, trust, low..=high, columns);
        text += &histogram(&Lateness::from_subject(subject), unit, columns);
        text.extend(overflow::describe(subject).map(|above| wrap(&above, columns)));
    }
    to_printable(&text)
}

/// Returns the ends of the scale of percentiles: the extremes of all subjects.
fn extremes(report: &Report) -> (i64, i64) {
    let low = summaries(report).map(|summary| summary.lateness_ns.min.max(1)).min();
    let high = summaries(report).map(|summary| summary.lateness_ns.max.max(1)).max();
    (low.unwrap_or(1), high.unwrap_or(1))
}

fn percentiles(
    lateness: &Distribution,
    trust: Trust,
    scale: RangeInclusive<i64>,
    columns: usize,
) -> String {
    let (low, high) = scale.into_inner();
    let mut values = vec![(trust.statistic_heading("min"), lateness.min)];
    values.extend(lateness.supported_percentiles().map(|(p, ns)| (trust.heading(p), ns)));
    values.push((trust.max_heading(), lateness.max));
    let mut text = String::new();
    for (name, ns) in values {
        let head = format!("{name:>8}  {:>9}  ", format_time(ns));
        // The shortest bar would have no cells; it gets one, so that it does not look missing.
        let cells = classes::time_cells(ns, low, high, bar_width(&head, columns)).max(1);
        text += &format!("{head}{}\n", CELL.repeat(cells));
    }
    text
}

/// Returns the number of cells available for a bar after `head`.
fn bar_width(head: &str, columns: usize) -> usize {
    columns.saturating_sub(head.chars().count()).max(MIN_CELLS)
}

fn histogram(values: &Lateness, unit: &str, columns: usize) -> String {
    let classes = classes::classes(values);
    if classes.is_empty() {
        return String::new();
    }
    let max_count = classes.iter().map(|c| c.count).max().unwrap_or(1);
    let digits = max_count.to_string().len().max(unit.len());
    let mut text = format!("{:>8}  {:>9}  {unit:>digits$}\n", "", "from");
    for run in classes.chunk_by(|a, b| a.count == 0 && b.count == 0) {
        if run.len() >= MIN_EMPTY_RUN {
            text += &format!("{:>8}  {:>9}  {:>digits$}\n", "", "...", 0);
            continue;
        }
        for Class { from, count } in run {
            // Early and punctual ticks have no position on a logarithmic scale.
            let from = if *from == i64::MIN { "0 or less".to_owned() } else { format_time(*from) };
            let head = format!("{:>8}  {from:>9}  {count:>digits$}  ", "");
            let bar =
                CELL.repeat(classes::count_cells(*count, max_count, bar_width(&head, columns)));
            text += format!("{head}{bar}").trim_end();
            text.push('\n');
        }
    }
    text
}
