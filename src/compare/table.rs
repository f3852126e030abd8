//! A comparison as tables for the terminal.

use std::fmt::Write as _;

use cli::align::fit;
use cli::printable::to_printable;
use cli::wrap::wrap_paragraph;
use files::compare::{Comparison, Origin, SubjectComparison};

use crate::compare::wording::{
    self, BASELINE, MEDIAN_ROUND_NOTE, conditions_sentence, findings_sentence, footnotes,
    metric_rows, metrics_method, percentile_rows, subject_method,
};

/// Renders a comparison in at most `columns` columns; only file names can be longer.
pub fn render(comparison: &Comparison, columns: usize) -> String {
    let paragraph = |text: &str| wrap_paragraph(text, columns);
    let mut text = String::new();
    if let Some(warning) = wording::forced_warning(comparison) {
        text = paragraph(&warning) + "\n";
    }
    for (i, subject) in comparison.subjects.iter().enumerate() {
        if i > 0 {
            text.push('\n');
        }
        text += &render_subject(comparison, subject, columns);
    }
    if !comparison.metrics.is_empty() {
        text += &render_metrics(comparison, columns);
    }
    for note in footnotes(comparison) {
        text.push('\n');
        text += &paragraph(&note);
    }
    for warning in &comparison.warnings {
        text.push('\n');
        text += &paragraph(&format!("{} {}", warning.message, warning.hint));
    }
    to_printable(&text)
}

fn render_subject(comparison: &Comparison, subject: &SubjectComparison, columns: usize) -> String {
    let paragraph = |text: &str| wrap_paragraph(text, columns);
    let mut text = format!(
        "A  {}\n   in {}\nB  {}\n   in {}\n",
        subject.a.id, comparison.a.file, subject.b.id, comparison.b.file
    );
    let rows = percentile_rows(subject);
    let heading = ["", "A", "B", "B/A, 95 %", "B-A, 95 %", "rounds"].map(str::to_owned);
    let mut lines = vec![Vec::from(heading)];
    lines.extend(rows.iter().map(|row| Vec::from(row.cells())));
    text += &paragraph(&subject_method(subject));
    text += &paragraph(MEDIAN_ROUND_NOTE);
    let _ = write!(text, "\n{}", fit(&lines, columns));
    for mark in wording::used_marks(&rows) {
        text += &paragraph(&format!("{}: {}", mark.text, mark.meaning));
    }
    text.push('\n');
    text += &paragraph(&findings_sentence(subject));
    text + &paragraph(&conditions_sentence(subject))
}

/// Renders the metrics of whole runs.
fn render_metrics(comparison: &Comparison, columns: usize) -> String {
    let paragraph = |text: &str| wrap_paragraph(text, columns);
    let program = |origin: &Origin| {
        format!("{}\n   in {}", origin.program.as_deref().unwrap_or("?"), origin.file)
    };
    let (a, b) = (program(&comparison.a), program(&comparison.b));
    let mut text = format!("A  {a}\nB  {b}\n{}\n", paragraph(&metrics_method(comparison)));
    let rows = metric_rows(comparison);
    let heading = ["", "A", "B", "B/A, 95 %", "runs"].map(str::to_owned);
    let mut lines = vec![Vec::from(heading)];
    lines.extend(rows.iter().map(|row| Vec::from(row.cells.clone())));
    text += &fit(&lines, columns);
    if wording::has_relative_metrics(comparison) {
        text += &paragraph(&format!("{}: {}", BASELINE.text, BASELINE.meaning));
    }
    text.push('\n');
    let findings = rows.iter().map(|row| (row.name(), row.estimate.finding));
    text + &paragraph(&wording::group_findings(findings))
}
