//! The terminal table: one line a subject.

use jitterstat::report::{Distribution, Report, Status, Subject};

use crate::view::label::labels;
use crate::view::reading;
use crate::view::scale::Unit;

/// A heading and how to get its cell out of a distribution.
type Column = (&'static str, fn(&Distribution) -> Option<i64>);

const COLUMNS: [Column; 5] =
    [("p50", |d| d.p50), ("p90", |d| d.p90), ("p99", |d| d.p99), ("p99.9", |d| d.p99_9), ("max", |d| Some(d.max))];

/// Width of a terminal that every table and paragraph fits.
pub const COLUMNS_OF_TERMINAL: usize = 80;

/// The table, and below it what it says in words.
pub fn with_reading(report: &Report) -> String {
    format!("{}\n{}", table(report), reading::wrap(&reading::reading(report), COLUMNS_OF_TERMINAL))
}

/// The tables of several reports, one below the other, each under its date and machine.
pub fn of_several(reports: &[Report]) -> String {
    match reports {
        [one] => with_reading(one),
        several => several.iter().map(|r| format!("{}\n{}\n", heading_of(r), with_reading(r))).collect(),
    }
}

fn heading_of(report: &Report) -> String {
    let machine = report.host.cpu_model.as_deref().unwrap_or("unknown CPU");
    format!("{}, {machine}, {}", report.started_utc, report.host.kernel.as_deref().unwrap_or(&report.host.os))
}

/// Lateness percentiles, missed ticks and CPU time a tick; a dash where the sample carries no such percentile.
pub fn table(report: &Report) -> String {
    let measured = |s: &'_ Subject| s.summary.clone().map(|m| m.lateness_ns);
    let largest = report.subjects.iter().filter_map(measured).filter_map(|d| d.p50).max();
    let unit = Unit::for_largest(largest.unwrap_or(1_000));
    let labels = labels(report);
    let mut rows = vec![heading()];
    let mut notes = Vec::new();
    for (subject, name) in report.subjects.iter().zip(labels.names) {
        let mut row = vec![name];
        if let Some(summary) = &subject.summary {
            row.extend(COLUMNS.iter().map(|(_, get)| get(&summary.lateness_ns).map_or("-".into(), |v| unit.format(v))));
            row.push(summary.missed.to_string());
            row.push(summary.cpu_ns_per_tick.map_or("-".into(), |ns| format!("{:.1}", ns / 1e3)));
        } else {
            row.extend(std::iter::repeat_n("-".to_owned(), COLUMNS.len() + 2));
        }
        if let Status::Failed { reason } = &subject.status {
            notes.push(format!("{}: not measured: {reason}", subject.id));
        }
        if let Some(early) = subject.summary.as_ref().map(|s| s.early).filter(|&n| n > 0) {
            notes.push(format!("{}: {early} ticks came before their deadline", subject.id));
        }
        rows.push(row);
    }
    let shared = if labels.shared.is_empty() { String::new() } else { format!("; {}", labels.shared) };
    let mut text = format!("lateness in {}, CPU time in us per tick{shared}\n", unit.symbol());
    text += &align(&rows);
    for note in notes {
        text += &format!("{note}\n");
    }
    if report.partial {
        text += "interrupted: this is what was measured until then\n";
    }
    text
}

fn heading() -> Vec<String> {
    let names = COLUMNS.iter().map(|(name, _)| *name);
    ["subject"].into_iter().chain(names).chain(["missed", "CPU"]).map(str::to_owned).collect()
}

/// First column to the left, the others to the right.
fn align(rows: &[Vec<String>]) -> String {
    let width = |c: usize| rows.iter().map(|r| r[c].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let mut text = String::new();
    for row in rows {
        text += &format!("{:<w$}", row[0], w = widths[0]);
        for (cell, w) in row.iter().zip(&widths).skip(1) {
            text += &format!("  {cell:>w$}");
        }
        text.push('\n');
    }
    text
}
