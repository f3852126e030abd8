//! A verdict as a document, for the terminal, a step summary or a comment.

use files::gate::verdict::Verdict;
use jitterstat::gate::decision::Outcome;
use render::document::{Document, Table};
use render::report::fitness;

use crate::gate::text::{RenderedVerdict, Row, Section, Title, outcome_word, verdict_sentence};

/// Describes a verdict: a table for each question, then the verdict in words.
pub fn document(rendered: &RenderedVerdict) -> Document {
    let RenderedVerdict { verdict, sections } = rendered;
    let mut document = Document::new();
    document.title(title(verdict));
    for section in sections {
        add_section(&mut document, section, verdict.screen);
    }
    document.notes(fitness::sentence(verdict.fitness.as_ref()));
    for warning in &verdict.warnings {
        document.warning(format!("{} {}", warning.message, warning.hint));
    }
    add_conclusion(&mut document, verdict, sections);
    document
}

fn title(verdict: &Verdict) -> String {
    let name = if verdict.screen { "Jitter screen" } else { "Jitter gate" };
    format!("{name}: {}", outcome_word(verdict.verdict, verdict.screen))
}

fn add_section(document: &mut Document, section: &Section, is_screen: bool) {
    match &section.title {
        Title::Sides(sides) => document.sides(sides.clone()),
        Title::Subject(subject) => document.section(subject),
    }
    let words = |outcome| outcome_word(outcome, is_screen);
    document.table(table(section.key_heading, &section.headings, &section.rows, words));
    let measured = [section.measured.clone()];
    document.notes(section.notes.iter().cloned().chain(measured).chain(section.side_summaries()));
}

/// Returns judged numbers as a table. `words` returns the word for an outcome.
pub fn table(
    key_heading: &str,
    headings: &[&str],
    rows: &[Row],
    words: impl Fn(Outcome) -> String,
) -> Table {
    let heading = [key_heading].into_iter().chain(headings.iter().copied()).chain(["verdict"]);
    let mut table = Table::new(heading, 1).with_words_last();
    for row in rows {
        let mut cells = vec![row.name.clone()];
        cells.extend_from_slice(&row.cells);
        cells.push(words(row.verdict));
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
