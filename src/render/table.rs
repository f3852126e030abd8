//! The terminal table: one line a subject.

use jitterstat::report::{Distribution, Report, Status, Subject};

use crate::render::label::labels;
use crate::render::{quantity, reading};
use crate::text::time::Unit;

/// A heading and how to get its cell out of a distribution.
type Column = (&'static str, fn(&Distribution) -> Option<i64>);

const COLUMNS: [Column; 5] =
    [("p50", |d| d.p50), ("p90", |d| d.p90), ("p99", |d| d.p99), ("p99.9", |d| d.p99_9), ("max", |d| Some(d.max))];

/// Widest line of a paragraph: longer ones are hard to follow.
pub const WIDEST_PARAGRAPH: usize = 80;

/// The table, below it what it says in words, and what a reader should know; no line is wider than `columns`, as far as
/// words allow.
pub fn with_reading(report: &Report, columns: usize) -> String {
    let paragraph = |text: &str| reading::wrap(text, columns.min(WIDEST_PARAGRAPH));
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
            .map(|r| {
                let heading = reading::wrap(&heading_of(r), columns);
                format!("{}{}\n", printable(&heading), with_reading(r, columns))
            })
            .collect(),
    }
}

fn heading_of(report: &Report) -> String {
    let machine = report.host.cpu_model.as_deref().unwrap_or("unknown CPU");
    format!("{}, {machine}, {}", report.started_utc, report.host.kernel.as_deref().unwrap_or(&report.host.os))
}

/// A name in a file must not be able to command the terminal.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Lateness percentiles, missed ticks and CPU time a tick; a dash where the sample carries no such percentile.
fn table(report: &Report, columns: usize) -> String {
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
            // Without a period no tick can be told to be missed.
            row.push(if subject.period_ns > 0 { summary.missed.to_string() } else { "-".to_owned() });
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
    if report.partial {
        notes.push("interrupted: this is what was measured until then".to_owned());
    }
    let shared = if labels.shared.is_empty() { String::new() } else { format!("; {}", labels.shared) };
    let quantity = quantity::name(report);
    let title = format!("{quantity} in {}, CPU time in us per tick{shared}", unit.symbol());
    let mut text = reading::wrap(&title, columns);
    text += &layout(&rows, columns);
    for note in notes {
        text += &reading::wrap(&note, columns);
    }
    text
}

fn heading() -> Vec<String> {
    let names = COLUMNS.iter().map(|(name, _)| *name);
    ["subject"].into_iter().chain(names).chain(["missed", "CPU"]).map(str::to_owned).collect()
}

/// What a figure stands in under a name on a line of its own.
const INDENT: &str = "  ";

/// Rows under a heading, in the first of three shapes that fits: a line a row; the name above its figures; the name above
/// a line for each figure. No figure is ever left out for want of room.
fn layout(rows: &[Vec<String>], columns: usize) -> String {
    let wide = align(rows);
    let widest = |text: &str| text.lines().map(|l| l.chars().count()).max().unwrap_or(0);
    if widest(&wide) <= columns {
        return wide;
    }
    let names = rows.iter().map(|row| chunks(&row[0], columns));
    let mut figures: Vec<Vec<String>> = rows.iter().map(|row| row[1..].to_vec()).collect();
    for row in &mut figures {
        row.insert(0, String::new());
    }
    let below = align(&figures);
    if widest(&below) <= columns {
        return names.zip(below.lines()).map(|(name, line)| format!("{name}{line}\n")).collect();
    }
    let [heading, rows @ ..] = rows else { return String::new() };
    let label = heading.iter().skip(1).map(|h| h.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for row in rows {
        text += &chunks(&row[0], columns);
        for (name, figure) in heading.iter().zip(row).skip(1) {
            text += &format!("{INDENT}{name:<label$}{INDENT}{figure}\n");
        }
    }
    text
}

/// A name in lines of at most `columns` characters.
fn chunks(name: &str, columns: usize) -> String {
    let characters: Vec<char> = name.chars().collect();
    let lines = characters.chunks(columns.max(1));
    lines.map(|line| line.iter().collect::<String>() + "\n").collect()
}

/// First column to the left, the others to the right.
fn align(rows: &[Vec<String>]) -> String {
    let width = |c: usize| rows.iter().map(|r| r[c].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let mut text = String::new();
    for row in rows {
        text += &format!("{:<w$}", row[0], w = widths[0]);
        for (cell, w) in row.iter().zip(&widths).skip(1) {
            text += &format!("{INDENT}{cell:>w$}");
        }
        text.push('\n');
    }
    text
}
