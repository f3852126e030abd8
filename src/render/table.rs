//! The terminal table: one line a subject.

use jitterstat::report::{Report, Status};

use crate::render::label::{labels, origin};
use crate::render::{quantity, reading};
use crate::text::align::fit;
use crate::text::printable::printable;
use crate::text::time::Unit;
use crate::text::wrap::{WIDEST_PARAGRAPH, wrap};

/// The table, below it a plain-English summary, and the warnings; no line is wider than `columns`, as far as words allow.
pub fn with_reading(report: &Report, columns: usize) -> String {
    let paragraph = |text: &str| wrap(text, columns.min(WIDEST_PARAGRAPH));
    let mut text = format!("{}\n{}", table(report, columns), paragraph(&reading::reading(report)));
    for warning in reading::warnings(report) {
        text += &format!("\n{}", paragraph(&warning));
    }
    printable(&text)
}

/// The tables of several reports, one below the other, each under its date and machine.
pub fn of_several(reports: &[Report], columns: usize) -> String {
    match reports {
        [one] => with_reading(one, columns),
        several => several
            .iter()
            .map(|r| format!("{}{}\n", printable(&wrap(&origin(r), columns)), with_reading(r, columns)))
            .collect(),
    }
}

/// Lateness percentiles, missed ticks and CPU time per tick; a dash where too few ticks support a percentile.
fn table(report: &Report, columns: usize) -> String {
    let medians = report.subjects.iter().filter_map(|s| s.summary.as_ref()?.lateness_ns.p50);
    let unit = Unit::for_largest(medians.max().unwrap_or(1_000));
    let labels = labels(report);
    let heading = ["subject", "p50", "p90", "p99", "p99.9", "max", "missed", "CPU"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    let mut notes = Vec::new();
    let dash = || "-".to_owned();
    for (subject, name) in report.subjects.iter().zip(labels.names) {
        let mut row = vec![name];
        if let Some(summary) = &subject.summary {
            let d = &summary.lateness_ns;
            let known = d.percentiles().into_iter().take(4).map(|(_, value)| value);
            row.extend(known.chain([Some(d.max)]).map(|value| value.map_or_else(dash, |ns| unit.format(ns))));
            // Without a period no tick can be missed.
            row.push(if subject.period_ns > 0 { summary.missed.to_string() } else { dash() });
            row.push(summary.cpu_ns_per_tick.map_or_else(dash, |ns| format!("{:.1}", ns / 1e3)));
        } else {
            row.resize_with(heading.len(), dash);
        }
        if let Status::Failed { reason } = &subject.status {
            notes.push(format!("{}: not measured: {reason}", subject.id));
        }
        if let Some(early) = subject.summary.as_ref().map(|s| s.early).filter(|&n| n > 0) {
            notes.push(format!("{}: {early} ticks came before their deadline", subject.id));
        }
        rows.push(row);
    }
    if report.partial {
        notes.push("interrupted: this is what was measured until then".to_owned());
    }
    let shared = if labels.shared.is_empty() { String::new() } else { format!("; {}", labels.shared) };
    let title = format!("{} in {}, CPU time in us per tick{shared}", quantity::name(report), unit.symbol());
    let notes: String = notes.iter().map(|note| wrap(note, columns)).collect();
    wrap(&title, columns) + &fit(&rows, columns) + &notes
}
