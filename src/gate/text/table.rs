//! A verdict as tables for the terminal.

use cli::align::fit;
use cli::wrap::wrap_paragraph;

use crate::gate::text::{RenderedVerdict, Row, Section, format_outcome, verdict_sentence};
use render::report::fitness;

/// Renders a verdict in at most `columns` columns.
pub fn render(rendered: &RenderedVerdict, columns: usize) -> String {
    let RenderedVerdict { verdict, sections } = rendered;
    let mut text: String =
        sections.iter().map(|section| render_section(section, columns)).collect();
    if let Some(line) = fitness::sentence(verdict.fitness.as_ref()) {
        text += &wrap_paragraph(&line, columns);
    }
    for warning in &verdict.warnings {
        let line = format!("warning: {} {}", warning.message, warning.hint);
        text += &wrap_paragraph(&line, columns);
    }
    text + &wrap_paragraph(&verdict_sentence(verdict, sections), columns)
}

fn render_section(section: &Section, columns: usize) -> String {
    let table = render_rows(&section.headings, &section.rows, columns);
    let mut text = format!("{}\n\n{table}\n", section.title.terminal);
    for note in &section.notes {
        text += &wrap_paragraph(note, columns);
    }
    if !section.measured.is_empty() {
        text += &wrap_paragraph(&section.measured, columns);
        for summary in section.side_summaries() {
            text += &wrap_paragraph(&summary, columns);
        }
        text.push('\n');
    }
    text
}

/// Renders judged numbers in aligned columns.
pub fn render_rows(headings: &[&str], rows: &[Row], columns: usize) -> String {
    let mut lines = vec![table_line("", headings.iter().copied(), "verdict")];
    for row in rows {
        let cells = row.cells.iter().map(String::as_str);
        lines.push(table_line(&row.name, cells, format_outcome(row.verdict)));
    }
    fit(&lines, columns)
}

fn table_line<'a>(
    name: &'a str,
    cells: impl Iterator<Item = &'a str>,
    verdict: &'a str,
) -> Vec<String> {
    let line = std::iter::once(name).chain(cells).chain([verdict]);
    line.map(str::to_owned).collect()
}
