//! The formats of a verdict, and its document for the terminal, a step summary or a comment.

use cli::terminal;
use files::file::File as _;
use jitterstat::gate::decision::Outcome;
use render::document::{Document, Table};
use render::formats::{Format, Offer, Rendering};
use render::report::fitness;

use crate::gate::text::sarif::sarif;
use crate::gate::text::{
    RenderedVerdict, Row, Title, UnjudgedRow, junit, outcome_word, verdict_sentence,
};

pub const FORMATS: [Offer<RenderedVerdict>; 6] = [
    (Format::Table, |rendered| {
        Ok(Rendering::terminal(&document(rendered, MAX_LISTED_PASSES), terminal::columns()))
    }),
    (Format::Json, |rendered| Ok(Rendering::Text(rendered.verdict.to_json()))),
    (Format::Markdown, |rendered| Ok(Rendering::markdown(&document(rendered, usize::MAX)))),
    (Format::Html, |rendered| {
        Ok(Rendering::page("osjitter gate", &document(rendered, usize::MAX)))
    }),
    (Format::Junit, |rendered| Ok(Rendering::Text(junit::render(rendered)))),
    (Format::Sarif, |rendered| Ok(Rendering::Text(sarif(&rendered.verdict, &rendered.sections)))),
];

/// Maximum number of passed numbers that a terminal lists. A suite with more of them needs more
/// than a screen.
pub(super) const MAX_LISTED_PASSES: usize = 8;

/// Describes a verdict: a table for each question, then the verdict in words. A question with more
/// passed numbers than `max_passes` lists only the others.
pub(super) fn document(rendered: &RenderedVerdict, max_passes: usize) -> Document {
    let RenderedVerdict { verdict, sections } = rendered;
    let word = |outcome| outcome_word(outcome, verdict.screen);
    let mut document = Document::new();
    let name = if verdict.screen { "Jitter screen" } else { "Jitter gate" };
    document.title(format!("{name}: {}", word(verdict.verdict)));

    for section in sections {
        match &section.title {
            Title::Sides(sides) => document.sides(sides.clone()),
            Title::Subject(subject) => document.section(subject),
        }
        let (passed, others): (Vec<&Row>, Vec<&Row>) =
            section.rows.iter().partition(|row| row.verdict == Outcome::Pass);
        let is_short = passed.len() <= max_passes;
        let listed: Vec<&Row> = if is_short { section.rows.iter().collect() } else { others };
        let has_rows = !section.rows.is_empty();
        if has_rows && (is_short || !listed.is_empty()) {
            document.table(table(section.key_heading, &section.headings, &listed, word));
        }
        if !section.unjudged.is_empty() {
            document.table(unjudged_table(&section.unjudged));
        }
        let unlisted = (!is_short).then(|| {
            let noun = if listed.is_empty() { "numbers" } else { "other numbers" };
            format!("{} {noun} passed; --format markdown lists them.", passed.len())
        });
        let notes = section.notes.iter().cloned().chain(unlisted).chain([section.measured.clone()]);
        document.notes(notes.chain(section.side_summaries()));
    }
    document.notes(fitness::sentence(verdict.fitness.as_ref()));
    for warning in &verdict.warnings {
        document.warning(format!("{} {}", warning.message, warning.hint));
    }

    document.paragraph(verdict_sentence(verdict, sections));
    // A failure can quote arbitrary output of a program.
    if let Some(failure) = &verdict.failure {
        document.paragraph("The gate ended early:");
        document.code(failure);
    }
    document
}

/// Returns benchmarks that were not judged as a table.
fn unjudged_table(rows: &[UnjudgedRow]) -> Table {
    let mut table = Table::new(["not judged", "reason"], 1).with_words_last();
    for row in rows {
        table.row([row.name.clone(), row.reason()]);
    }
    table
}

/// Returns judged numbers as a table. `words` returns the word for an outcome.
pub fn table(
    key_heading: &str,
    headings: &[&str],
    rows: &[&Row],
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
