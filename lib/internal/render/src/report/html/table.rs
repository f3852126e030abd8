//! The table of numbers on the page `report.html`: a row per subject.

use cli::time::format_time;
use cli::words::or_dash;
use files::report::{Distribution, Report, Subject, Summary};

use crate::document::html::escape;
use crate::report::cost::{core_percent, per_tick_ci95};
use crate::report::label::unmeasured_reason;
use crate::report::quantity::is_gaps;
use crate::report::summary;
use crate::report::tradeoff::format_missed;

/// Renders the table with a row per subject, below a summary in words.
pub(super) fn render(report: &Report, names: &[String]) -> String {
    let mut headings = String::new();
    for heading in COLUMNS {
        headings += &format!("<th>{heading}</th>");
    }
    let mut rows = String::new();
    for (subject, name) in report.subjects.iter().zip(names) {
        rows += &format!("<tr><th>{}</th>{}</tr>\n", escape(name), render_cells(subject));
    }
    let meaning = if is_gaps(report) {
        "Gaps are turns of a busy loop"
    } else {
        "Lateness is wake time minus deadline"
    };
    format!(
        "<h2>Numbers</h2>\n<p class=\"reading\">{}</p>\n<table>\n<thead><tr><th>subject</th>{headings}</tr></thead>\n\
         <tbody>\n{rows}</tbody>\n</table>\n<p class=\"note\">{meaning}. Small: the 95 % confidence interval over rounds. \
         A dash: not known, or too few ticks to support that percentile.</p>\n",
        escape(&summary::summarize(report))
    )
}

/// Renders the numbers of a subject, or the reason for which there are none.
fn render_cells(subject: &Subject) -> String {
    let Some(summary) = &subject.summary else {
        let reason = escape(unmeasured_reason(subject));
        return format!(
            "<td colspan=\"{}\" class=\"left\">not measured: {reason}</td>",
            COLUMNS.len()
        );
    };
    let mut cells = String::new();
    for (heading, cell) in COLUMNS.iter().zip(row(subject, summary)) {
        cells += &format!("<td data-of=\"{heading}\">{cell}</td>");
    }
    cells
}

/// The columns of the table after the name of the subject.
const COLUMNS: [&str; 10] =
    ["p50", "p90", "p99", "p99.9", "p99.99", "max", "missed", "ticks", "CPU per tick", "of a core"];

fn row(subject: &Subject, summary: &Summary) -> Vec<String> {
    let lateness = &summary.lateness_ns;
    let mut cells = Vec::new();
    for (percentile, value) in lateness.percentiles() {
        cells.push(or_dash(value.map(|ns| percentile_cell(lateness, percentile.key, ns))));
    }
    cells.push(format_time(lateness.max));
    cells.push(or_dash(format_missed(subject, summary)));
    cells.push(summary.ticks.to_string());
    cells.push(or_dash(summary.cpu_ns_per_tick.map(|ns| cost_cell(subject, ns))));
    cells.push(or_dash(core_percent(subject).map(|percent| format!("{percent:.1} %"))));
    cells
}

fn percentile_cell(lateness: &Distribution, key: &str, ns: i64) -> String {
    let interval = lateness.ci95.get(key).map(|ends| ends.map(format_time));
    with_interval(&format_time(ns), interval)
}

fn cost_cell(subject: &Subject, ns: f64) -> String {
    let interval = per_tick_ci95(subject).map(|ends| ends.map(format_cost));
    with_interval(&format_cost(ns), interval)
}

fn format_cost(ns: f64) -> String {
    format_time(ns as i64)
}

/// Formats a value and its interval in small print. A unit shared by both ends is written once.
fn with_interval(value: &str, interval: Option<[String; 2]>) -> String {
    let Some([low, high]) = interval else { return value.to_owned() };
    let low = match (low.split_once(' '), high.split_once(' ')) {
        (Some((number, unit)), Some((_, other))) if unit == other => number,
        _ => &low,
    };
    format!("{value}<small>{low} &#8211; {high}</small>")
}
