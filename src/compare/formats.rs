//! The formats of a comparison, and its documents.

use cli::terminal;
use files::compare::{Comparison, Origin, SubjectComparison};
use files::file::File as _;
use jitterstat::gate::Sides;
use render::document::{Document, Item, Table};
use render::formats::{Format, Offer, Rendering};
use render::report::command::quote_command;
use render::report::table::format_warning;

use crate::compare::wording::{
    self, MEDIAN_ROUND_NOTE, Mark, conditions_sentence, findings_sentence, footnotes, metric_rows,
    metrics_method, percentile_rows, subject_method,
};
use crate::compare::{overview, quantile_chart};

pub const FORMATS: [Offer<Comparison>; 5] = [
    (Format::Table, |comparison| {
        Ok(Rendering::terminal(&brief_document(comparison), terminal::columns()))
    }),
    (Format::Json, |comparison| Ok(Rendering::Text(comparison.to_json()))),
    (Format::Markdown, |comparison| Ok(Rendering::markdown(&document(comparison)))),
    (Format::Html, |comparison| Ok(Rendering::page("osjitter compare", &document(comparison)))),
    (Format::Svg, |comparison| {
        Ok(Rendering::Text(quantile_chart::draw_comparison(comparison)?.svg))
    }),
];

/// Describes a comparison: an overview if there are several subjects, then the details of each.
fn document(comparison: &Comparison) -> Document {
    let mut document = heading(comparison);
    if has_overview(comparison) {
        add_overview(&mut document, comparison);
    }
    for subject in &comparison.subjects {
        add_subject(&mut document, comparison, subject);
    }
    if !comparison.metrics.is_empty() {
        add_metrics(&mut document, comparison);
    }
    add_notes(&mut document, comparison);
    document
}

/// Describes a comparison for a terminal: the overview alone if there are several subjects.
fn brief_document(comparison: &Comparison) -> Document {
    if !has_overview(comparison) {
        return document(comparison);
    }
    let mut document = heading(comparison);
    add_overview(&mut document, comparison);
    let subject = &comparison.subjects[0];
    let side = |origin: &Origin, id: &str| format!("{}#{id}", origin.file);
    let mut words = vec!["osjitter".to_owned(), "compare".to_owned()];
    words.push(side(&comparison.a, &subject.a.id));
    words.push(side(&comparison.b, &subject.b.id));
    if !comparison.forced.is_empty() {
        words.push("--force".to_owned());
    }
    document.items([Item {
        text: "Details of all subjects: --format markdown or html. Details of one:".to_owned(),
        detail: None,
        command: Some(quote_command(&words)),
    }]);
    add_notes(&mut document, comparison);
    document
}

fn has_overview(comparison: &Comparison) -> bool {
    comparison.subjects.len() > 1
}

/// Creates a document with the title and a warning if the comparison was forced.
fn heading(comparison: &Comparison) -> Document {
    let compared = if comparison.metrics.is_empty() { "Lateness" } else { "Runs" };
    let mut document = Document::new();
    document.title(format!("{compared} of B against A"));
    if let Some(warning) = wording::forced_warning(comparison) {
        document.warning(warning);
    }
    document
}

/// Adds the answer for all subjects, the verdict on the machine, and a row for each subject.
fn add_overview(document: &mut Document, comparison: &Comparison) {
    document.sides(Sides {
        base: describe_origin(&comparison.a),
        candidate: describe_origin(&comparison.b),
    });
    document.paragraph(overview::answer(&comparison.subjects));
    add_fitness(document, comparison);
    document.table(overview::table(comparison));
    document.notes([format!("{MEDIAN_ROUND_NOTE}. The maximum is that of all ticks.")]);
}

fn add_fitness(document: &mut Document, comparison: &Comparison) {
    for sentence in wording::fitness_notes(comparison) {
        document.paragraph(sentence);
    }
}

fn add_notes(document: &mut Document, comparison: &Comparison) {
    document.notes(footnotes(comparison));
    for warning in &comparison.warnings {
        document.warning(format_warning(warning));
    }
}

fn add_subject(document: &mut Document, comparison: &Comparison, subject: &SubjectComparison) {
    document.sides(name_sides(comparison, &subject.a.id, &subject.b.id));
    document.paragraph(findings_sentence(subject));
    if !has_overview(comparison) {
        add_fitness(document, comparison);
    }
    let rows = percentile_rows(subject);
    let heading = ["percentile", "A", "B", "B/A, 95 %", "B-A, 95 %", "rounds"];
    let mut table = Table::new(heading, 1).with_expendable(&["rounds", "B/A, 95 %"]);
    for row in &rows {
        table.row(row.cells());
    }
    document.table(table);
    let mut notes = vec![format!("Compared {}. {MEDIAN_ROUND_NOTE}.", subject_method(subject))];
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
    let findings = rows.iter().map(|row| (row.name(), row.estimate.finding));
    document.paragraph(wording::group_findings(findings));
    add_fitness(document, comparison);
    let mut table = Table::new(["metric", "A", "B", "B/A, 95 %", "runs"], 1);
    for row in &rows {
        table.row(row.cells());
    }
    document.table(table);
    let mut notes = vec![format!("Compared {}.", metrics_method(comparison))];
    if wording::has_relative_metrics(comparison) {
        notes.push(Mark::Baseline.to_string());
    }
    document.notes(notes);
}

/// Names what was compared, with its file and date.
fn name_sides(comparison: &Comparison, a: &str, b: &str) -> Sides<String> {
    let name = |name: &str, origin: &Origin| format!("{name} in {}", describe_origin(origin));
    Sides { base: name(a, &comparison.a), candidate: name(b, &comparison.b) }
}

/// Names the file of a side and the start of its run.
fn describe_origin(origin: &Origin) -> String {
    format!("{}, {}", origin.file, origin.started_utc)
}
