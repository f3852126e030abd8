//! The table of numbers on the page `report.html`: a row per subject.

use cli::time::format_time;
use cli::words::{or_dash, prefix_or_empty};
use files::report::{PERCENTILES, Report, Subject, Summary};

use crate::document::html::escape;
use crate::picture::canvas::title;
use crate::report::cost::{core_percent, per_tick_ci95};
use crate::report::label::unmeasured_reason;
use crate::report::tradeoff::format_missed;
use crate::report::trust::Trust;
use files::quantity::is_gaps;

/// Renders the table with a row per subject.
pub(super) fn render(report: &Report, names: &[String], shared: &str) -> String {
    let trust = Trust::from_report(report);
    let columns = columns(trust);
    let mut headings = String::new();
    for column in &columns {
        headings += &format!("<th scope=\"col\"{}>{}</th>", column.class(), column.heading);
    }
    let mut rows = String::new();
    for (subject, name) in report.subjects.iter().zip(names) {
        let (id, name) = (escape(&subject.id), escape(name));
        let cells = render_cells(subject, &columns, trust);
        rows += &format!("<tr><th scope=\"row\" data-id=\"{id}\">{name}</th>{cells}</tr>\n");
    }
    let distrusted = prefix_or_empty(" ", trust.note().map(|note| note + "."));
    let meaning = if is_gaps(report) {
        "Gaps are turns of a busy loop"
    } else {
        "Lateness is wake time minus deadline"
    };
    let caption = escape(&title(if is_gaps(report) { "Gaps" } else { "Lateness" }, shared));
    format!(
        "<table class=\"numbers\">\n<caption>{caption}</caption>\n<thead><tr><th scope=\"col\">subject</th>\
         {headings}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n<p class=\"note\">{meaning}. Small: the 95 % \
         confidence interval over rounds. A dash: not known, or too few ticks to support that percentile.{distrusted}\
         <span class=\"narrow\"> A wider window shows more columns.</span></p>\n"
    )
}

/// Renders the numbers of a subject, or the reason for which there are none.
fn render_cells(subject: &Subject, columns: &[Column], trust: Trust) -> String {
    let Some(summary) = &subject.summary else {
        let reason = escape(unmeasured_reason(subject));
        return format!(
            "<td colspan=\"{}\" class=\"left\">not measured: {reason}</td>",
            columns.len()
        );
    };
    let mut cells = String::new();
    for (column, cell) in columns.iter().zip(row(subject, summary, trust)) {
        cells += &format!("<td{}>{cell}</td>", column.class());
    }
    cells
}

/// A column of the table.
struct Column {
    heading: String,
    /// Whether the machine is trusted at these values. Others are shaded.
    is_trusted: bool,
    /// Class of a column that a narrow window leaves out.
    width_class: &'static str,
}

impl Column {
    /// Returns the attribute with the classes of its cells.
    fn class(&self) -> String {
        let distrusted = if self.is_trusted { "" } else { "distrusted" };
        match format!("{} {distrusted}", self.width_class).trim() {
            "" => String::new(),
            classes => format!(" class=\"{classes}\""),
        }
    }
}

/// Columns that are left out on the screen of a phone, and those that a tablet lacks as well.
const MEDIUM: &str = "medium";
const WIDE: &str = "wide";

/// Returns the columns of the table after the name of the subject.
fn columns(trust: Trust) -> Vec<Column> {
    let mut columns = Vec::new();
    let mut add = |heading: &str, is_trusted, width_class| {
        columns.push(Column { heading: heading.to_owned(), is_trusted, width_class });
    };
    for (percentile, width_class) in PERCENTILES.into_iter().zip(["", MEDIUM, "", MEDIUM, WIDE]) {
        add(&trust.heading(percentile), trust.covers(percentile.key), width_class);
    }
    add(&trust.max_heading(), trust.covers_max(), MEDIUM);
    add("missed", true, MEDIUM);
    add("ticks", true, WIDE);
    add("CPU per tick", true, WIDE);
    add("of a core", true, "");
    columns
}

fn row(subject: &Subject, summary: &Summary, trust: Trust) -> Vec<String> {
    let lateness = &summary.lateness_ns;
    let mut cells = Vec::new();
    for (percentile, value) in lateness.percentiles() {
        let interval = lateness.ci95.get(percentile.key).map(|ends| ends.map(format_time));
        cells.push(or_dash(value.map(|ns| with_interval(&format_time(ns), interval))));
    }
    cells.push(format_time(lateness.max));
    let missed = format_missed(subject, summary);
    cells.push(or_dash(missed.map(|cell| trust.count_cell(summary, "missed", &cell))));
    cells.push(summary.ticks.to_string());
    let cost_interval = per_tick_ci95(subject).map(|ends| ends.map(format_cost));
    let cost = summary.cpu_ns_per_tick.map(|ns| with_interval(&format_cost(ns), cost_interval));
    cells.push(or_dash(cost));
    cells.push(or_dash(core_percent(subject).map(|percent| format!("{percent:.1} %"))));
    cells
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
