//! A verdict in Markdown, for a step summary or a comment.

use std::fmt::Write;

use cli::markdown::format_block;
use files::gate::verdict::Verdict;

use crate::gate::text::{RenderedVerdict, Section, format_outcome, verdict_sentence};
use render::report::fitness;

pub fn render(rendered: &RenderedVerdict) -> String {
    let RenderedVerdict { verdict, sections } = rendered;
    let mut text = format!("### Jitter gate: {}\n\n", format_outcome(verdict.verdict));
    text.extend(sections.iter().map(render_section));
    if let Some(line) = fitness::sentence(verdict.fitness.as_ref()) {
        let _ = writeln!(text, "> {line}\n");
    }
    for warning in &verdict.warnings {
        let _ = writeln!(text, "> {} {}\n", warning.message, warning.hint);
    }
    let without_failure = Verdict { failure: None, ..verdict.clone() };
    let _ = writeln!(text, "{}", verdict_sentence(&without_failure, sections));
    if let Some(failure) = &verdict.failure {
        // The failure can quote arbitrary output of a program, so it goes into a code block.
        let _ = write!(text, "\nIt could not go on:\n\n{}", format_block(failure));
    }
    text
}

fn render_section(section: &Section) -> String {
    let headings: Vec<String> = section.headings.iter().map(|text| capitalize(text)).collect();
    let mut text = format!("{}\n\n", section.title.markdown);
    text += &table_line(section.key_column.heading, &headings, "Verdict");
    let _ = writeln!(text, "|{}", "---|".repeat(headings.len() + 2));
    for row in &section.rows {
        let name = (section.key_column.format)(&row.name);
        text += &table_line(&name, &row.cells, format_outcome(row.verdict));
    }
    text.push('\n');
    let notes: Vec<String> =
        section.notes.iter().cloned().chain(section.side_summaries()).collect();
    for note in &notes {
        let _ = writeln!(text, "- {note}");
    }
    if !notes.is_empty() {
        text.push('\n');
    }
    text
}

fn table_line(name: &str, cells: &[String], verdict: &str) -> String {
    let cells: String = cells.iter().map(|cell| format!(" {cell} |")).collect();
    format!("| {name} |{cells} {verdict} |\n")
}

fn capitalize(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or(String::new(), |first| first.to_uppercase().chain(rest).collect())
}
