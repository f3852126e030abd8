//! A verdict as a document, for the terminal, a step summary or a comment.

use files::gate::verdict::Verdict;
use render::document::{Document, Table};
use render::report::fitness;

use crate::gate::text::{RenderedVerdict, Row, Section, Title, verdict_sentence};

/// Describes a verdict: a table for each question, then the verdict in words.
pub fn document(rendered: &RenderedVerdict) -> Document {
    let RenderedVerdict { verdict, sections } = rendered;
    let mut document = Document::new();
    document.title(format!("Jitter gate: {}", verdict.verdict));
    for section in sections {
        add_section(&mut document, section);
    }
    document.notes(fitness::sentence(verdict.fitness.as_ref()));
    for warning in &verdict.warnings {
        document.warning(format!("{} {}", warning.message, warning.hint));
    }
    add_conclusion(&mut document, verdict, sections);
    document
}

fn add_section(document: &mut Document, section: &Section) {
    match &section.title {
        Title::Sides(sides) => document.sides(sides.clone()),
        Title::Subject(subject) => document.section(subject),
    }
    document.table(table(section.key_heading, &section.headings, &section.rows));
    let measured = [section.measured.clone()];
    document.notes(section.notes.iter().cloned().chain(measured).chain(section.side_summaries()));
}

/// Returns judged numbers as a table.
pub fn table(key_heading: &str, headings: &[&str], rows: &[Row]) -> Table {
    let heading = [key_heading].into_iter().chain(headings.iter().copied()).chain(["verdict"]);
    let mut table = Table::new(heading, 1).with_words_last();
    for row in rows {
        let mut cells = vec![row.name.clone()];
        cells.extend_from_slice(&row.cells);
        cells.push(row.verdict.to_string());
        table.row(cells);
    }
    table
}

/// Adds the verdict in words, and the failure that ended the gate, which can quote arbitrary output
/// of a program.
fn add_conclusion(document: &mut Document, verdict: &Verdict, sections: &[Section]) {
    document.paragraph(verdict_sentence(verdict, sections));
    if let Some(failure) = &verdict.failure {
        document.paragraph("The gate ended early:");
        document.code(failure);
    }
}
