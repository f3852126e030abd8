//! The table of numbers on the page `report.html`: a row per subject.

use cli::time::{format_share, format_time};
use files::report::{Percentile, Report, Subject, Summary};

use crate::document::html::escape;
use crate::report::cost::{core_percent, per_tick_ci95};
use crate::report::label::unmeasured_reason;
use crate::report::quantity::is_gaps;
use crate::report::summary;

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
    let d = &summary.lateness_ns;
    let late = |(p, value): (Percentile, Option<i64>)| {
        value.map_or("-".into(), |v| {
            with_interval(format_time(v), d.ci95.get(p.key).map(|ci| ci.map(format_time)))
        })
    };
    let cost = |ns: f64| format_time(ns as i64);
    let cpu_cell = |ns| with_interval(cost(ns), per_tick_ci95(subject).map(|ci| ci.map(cost)));
    let others = [
        format_time(d.max),
        if subject.period_ns > 0 {
            format_share(summary.missed, summary.ticks)
        } else {
            "-".into()
        },
        summary.ticks.to_string(),
        summary.cpu_ns_per_tick.map_or("-".into(), cpu_cell),
        core_percent(subject).map_or("-".into(), |p| format!("{p:.1} %")),
    ];
    d.percentiles().map(late).into_iter().chain(others).collect()
}

/// Formats a value and its interval in small print. A unit shared by both ends is written once.
fn with_interval(value: String, interval: Option<[String; 2]>) -> String {
    let Some([low, high]) = interval else { return value };
    let split_unit = |text: &str| {
        text.split_once(' ').map(|(number, unit)| (number.to_owned(), unit.to_owned()))
    };
    let low = match (split_unit(&low), split_unit(&high)) {
        (Some((number, unit)), Some((_, other))) if unit == other => number,
        _ => low,
    };
    format!("{value}<small>{low} &#8211; {high}</small>")
}
