//! A verdict as JUnit XML, for CI systems that collect test results.
//!
//! Each judged number is a test case. Inconclusive ones are skipped rather than passed.

use std::fmt::Write;

use cli::printable::to_printable_line;
use files::gate::verdict::Verdict;
use jitterstat::gate::decision::Outcome;
use render::document::html;

use crate::gate::text::{
    RenderedVerdict, Row, UnjudgedRow, early_end, reason_without_row, remarks,
};

pub fn render(rendered: &RenderedVerdict) -> String {
    let RenderedVerdict { verdict, sections } = rendered;
    let rows: Vec<&Row> = sections.iter().flat_map(|section| &section.rows).collect();
    let unjudged: Vec<&UnjudgedRow> =
        sections.iter().flat_map(|section| &section.unjudged).collect();
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let open_reason = reason_without_row(verdict, sections);
    let open = unjudged.len() + usize::from(open_reason.is_some());
    text += &format_suite_tag(verdict, &rows, open);
    text.extend(rows.into_iter().map(format_case));
    text.extend(unjudged.into_iter().map(format_unjudged));
    if let Some(reason) = open_reason {
        let case = "  <testcase classname=\"osjitter.gate\" name=\"verdict\"";
        let _ = writeln!(text, "{case}><skipped message=\"{reason}\"/></testcase>");
    }
    if let Some(reason) = early_end(verdict) {
        let case = "  <testcase classname=\"osjitter.gate\" name=\"measuring\"";
        let message = escape_attribute(reason);
        let _ = writeln!(text, "{case}><error message=\"{message}\"/></testcase>");
    }
    let remarks: Vec<String> =
        remarks(verdict).iter().map(|remark| escape_attribute(&remark.text) + "\n").collect();
    if !remarks.is_empty() {
        let _ = writeln!(text, "  <system-out>{}</system-out>", remarks.concat());
    }
    text.push_str("</testsuite>\n");
    text
}

/// Formats the tag of the suite. `open` is the number of inconclusive cases that are no rows.
fn format_suite_tag(verdict: &Verdict, rows: &[&Row], open: usize) -> String {
    let count =
        |is_counted: fn(Outcome) -> bool| rows.iter().filter(|row| is_counted(row.verdict)).count();
    let errors = usize::from(early_end(verdict).is_some());
    format!(
        "<testsuite name=\"osjitter gate\" tests=\"{}\" failures=\"{}\" skipped=\"{}\" errors=\"{errors}\" time=\"{:.3}\">\n",
        rows.len() + open + errors,
        count(|outcome| matches!(outcome, Outcome::Regressed | Outcome::LimitBroken)),
        count(|outcome| outcome == Outcome::Inconclusive) + open,
        verdict.duration_ns as f64 / 1e9
    )
}

fn format_case(row: &Row) -> String {
    let (class, name) = (escape_attribute(&row.class), escape_attribute(&row.case));
    let detail = escape_attribute(&row.detail());
    let tag = format!("  <testcase classname=\"osjitter.gate.{class}\" name=\"{name}\"");
    match row.verdict {
        Outcome::Pass | Outcome::Improved => format!("{tag}/>\n"),
        Outcome::Regressed | Outcome::LimitBroken => {
            format!("{tag}><failure message=\"{detail}\"/></testcase>\n")
        }
        Outcome::Inconclusive => format!("{tag}><skipped message=\"{detail}\"/></testcase>\n"),
    }
}

fn format_unjudged(row: &UnjudgedRow) -> String {
    let (class, name) = (escape_attribute(&row.class), escape_attribute(&row.name));
    let message = escape_attribute(&format!("not judged: {}", row.reason()));
    let tag = format!("  <testcase classname=\"osjitter.gate.{class}\" name=\"{name}\"");
    format!("{tag}><skipped message=\"{message}\"/></testcase>\n")
}

/// Escapes the value of an XML attribute, or text of an element, on one line. XML does not allow
/// most control characters.
fn escape_attribute(text: &str) -> String {
    html::escape(&to_printable_line(text))
}
