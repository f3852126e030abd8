//! A comparison as a document.

use files::compare::{Comparison, Origin, SubjectComparison};
use jitterstat::gate::Sides;
use render::document::{Document, Table};

use crate::compare::wording::{
    self, BASELINE, MEDIAN_ROUND_NOTE, conditions_sentence, findings_sentence, footnotes,
    metric_rows, metrics_method, percentile_rows, subject_method,
};

/// Describes a comparison.
pub fn document(comparison: &Comparison) -> Document {
    let has_metrics = !comparison.metrics.is_empty();
    let compared = if has_metrics { "Runs" } else { "Lateness" };
    let mut document = Document::new();
    document.title(format!("{compared} of B against A"));
    if let Some(warning) = wording::forced_warning(comparison) {
        document.warning(warning);
    }
    for subject in &comparison.subjects {
        add_subject(&mut document, comparison, subject);
    }
    if has_metrics {
        add_metrics(&mut document, comparison);
    }
    document.notes(footnotes(comparison));
    for warning in &comparison.warnings {
        document.warning(format!("{}: {} {}", warning.code, warning.message, warning.hint));
    }
    document
}

fn add_subject(document: &mut Document, comparison: &Comparison, subject: &SubjectComparison) {
    document.sides(name_sides(comparison, &subject.a.id, &subject.b.id));
    let rows = percentile_rows(subject);
    let heading = ["percentile", "A", "B", "B/A, 95 %", "B-A, 95 %", "rounds"];
    let mut table = Table::new(heading, 1);
    for row in &rows {
        table.row(row.cells());
    }
    document.table(table);
    document.paragraph(findings_sentence(subject));
    let mut notes = vec![format!("Compared {}; {MEDIAN_ROUND_NOTE}.", subject_method(subject))];
    notes.extend(wording::used_marks(&rows).map(|mark| mark.to_string()));
    notes.push(wording::control_sentence(&rows));
    notes.push(conditions_sentence(subject));
    document.notes(notes);
}

/// Adds the metrics of whole runs.
fn add_metrics(document: &mut Document, comparison: &Comparison) {
    let name = |origin: &Origin| origin.program.clone().unwrap_or("?".to_owned());
    document.sides(name_sides(comparison, &name(&comparison.a), &name(&comparison.b)));
    let rows = metric_rows(comparison);
    let mut table = Table::new(["metric", "A", "B", "B/A, 95 %", "runs"], 1);
    for row in &rows {
        table.row(row.cells.clone());
    }
    document.table(table);
    let findings = rows.iter().map(|row| (row.name(), row.estimate.finding));
    document.paragraph(wording::group_findings(findings));
    let mut notes = vec![format!("Compared {}.", metrics_method(comparison))];
    if wording::has_relative_metrics(comparison) {
        notes.push(BASELINE.to_string());
    }
    document.notes(notes);
}

/// Names what was compared, with its file and date.
fn name_sides(comparison: &Comparison, a: &str, b: &str) -> Sides<String> {
    let name =
        |name: &str, origin: &Origin| format!("{name} in {}, {}", origin.file, origin.started_utc);
    Sides { base: name(a, &comparison.a), candidate: name(b, &comparison.b) }
}
