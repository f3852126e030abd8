//! A comparison in Markdown, for a pull request or a step summary.

use std::fmt::Write as _;

use cli::markdown::escape_cell;
use files::compare::{Comparison, Origin, SubjectComparison};

use crate::compare::wording::{
    self, BASELINE, MEDIAN_ROUND_NOTE, conditions_sentence, footnotes, format_finding, metric_rows,
    metrics_method, percentile_rows, subject_method,
};

pub fn render(comparison: &Comparison) -> String {
    let has_metrics = !comparison.metrics.is_empty();
    let compared = if has_metrics { "Runs" } else { "Lateness" };
    let mut text = format!("### {compared} of B against A\n");
    if let Some(warning) = wording::forced_warning(comparison) {
        let _ = writeln!(text, "\n> **{}**", escape_cell(&warning));
    }
    for subject in &comparison.subjects {
        text += &render_subject(comparison, subject);
    }
    if has_metrics {
        text += &render_metrics(comparison);
    }
    for note in footnotes(comparison) {
        let _ = writeln!(text, "\n> {}", escape_cell(&note));
    }
    for warning in &comparison.warnings {
        let _ = writeln!(
            text,
            "\n> **{}** {} {}",
            escape_cell(&warning.code),
            escape_cell(&warning.message),
            escape_cell(&warning.hint)
        );
    }
    text
}

fn render_subject(comparison: &Comparison, subject: &SubjectComparison) -> String {
    let mut text = format_sides(comparison, &subject.a.id, &subject.b.id);
    text += "| Percentile | A | B | B/A, 95 % | B-A, 95 % | Rounds | |\n|---|---:|---:|---:|---:|---:|---|\n";
    let rows = percentile_rows(subject);
    for row in &rows {
        text += &format_row(&row.cells(), format_finding(row.estimate.finding));
    }
    let marks = wording::used_marks(&rows);
    let marks: String = marks.map(|mark| format!(" {}: {}.", mark.text, mark.meaning)).collect();
    let _ = writeln!(
        text,
        "\nCompared {}: {MEDIAN_ROUND_NOTE}.{marks}\n{}",
        subject_method(subject),
        escape_cell(&conditions_sentence(subject))
    );
    text
}

/// Renders the metrics of whole runs.
fn render_metrics(comparison: &Comparison) -> String {
    let program = |origin: &Origin| origin.program.clone().unwrap_or("?".to_owned());
    let mut text = format_sides(comparison, &program(&comparison.a), &program(&comparison.b));
    text += "| Metric | A | B | B/A, 95 % | Runs | |\n|---|---:|---:|---:|---:|---|\n";
    for row in metric_rows(comparison) {
        text += &format_row(&row.cells, format_finding(row.estimate.finding));
    }
    let _ = write!(text, "\nCompared {}.", metrics_method(comparison));
    if wording::has_relative_metrics(comparison) {
        let _ = write!(text, " {}: {}.", BASELINE.text, BASELINE.meaning);
    }
    text.push('\n');
    text
}

fn format_sides(comparison: &Comparison, a: &str, b: &str) -> String {
    let side = |name: &str, origin: &Origin| {
        format!(
            "{} in {}, {}",
            escape_cell(name),
            escape_cell(&origin.file),
            escape_cell(&origin.started_utc)
        )
    };
    format!("\nA: {}  \nB: {}\n\n", side(a, &comparison.a), side(b, &comparison.b))
}

fn format_row(cells: &[String], finding: &str) -> String {
    let cells: Vec<String> = cells.iter().map(|text| escape_cell(text)).collect();
    format!("| {} | {finding} |\n", cells.join(" | "))
}
