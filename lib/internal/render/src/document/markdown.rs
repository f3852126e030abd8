//! Renders a document as Markdown, for pull requests, issues and job summaries.
//!
//! Text can come from files and programs: it cannot end its cell or become a tag.

use cli::printable::to_printable;

use crate::document::{Alignment, Block, Document, Item, Table};

/// Renders a document. Blocks are separated by an empty line.
pub fn render(document: &Document) -> String {
    let blocks: Vec<String> = document.blocks.iter().map(render_block).collect();
    to_printable(&blocks.join("\n"))
}

fn render_block(block: &Block) -> String {
    match block {
        Block::Title(text) => format!("### {}\n", escape(text)),
        Block::Section(text) => format!("#### {}\n", escape(text)),
        Block::Sides(sides) => {
            format!("A: {}  \nB: {}\n", escape(&sides.base), escape(&sides.candidate))
        }
        Block::Paragraph(text) => format!("{}\n", escape(text)),
        Block::Notes(notes) => notes.iter().map(|note| format!("- {}\n", escape(note))).collect(),
        Block::Items(items) => items.iter().map(render_item).collect(),
        Block::Warning(text) => format!("> **warning**: {}\n", escape(text)),
        Block::Table(table) => render_table(table),
        Block::Picture(_) => String::new(),
        Block::Code(text) => format_block(text),
    }
}

fn render_item(item: &Item) -> String {
    let mut text = format!("- {}", escape(&item.text));
    if let Some(detail) = &item.detail {
        text += &format!("  \n  {}", escape(detail));
    }
    if let Some(command) = &item.command {
        text += &format!("  \n  {}", format_code(command));
    }
    text + "\n"
}

pub fn render_table(table: &Table) -> String {
    let mut text = render_row(&table.heading) + "|";
    for alignment in &table.alignment {
        text += match alignment {
            Alignment::Left => "---|",
            Alignment::Right => "---:|",
        };
    }
    text.push('\n');
    for row in &table.rows {
        text += &render_row(row);
    }
    text
}

fn render_row(cells: &[String]) -> String {
    let mut row = "|".to_owned();
    for cell in cells {
        row += &format!(" {} |", escape(cell));
    }
    row + "\n"
}

/// Formats a line of text as code.
fn format_code(text: &str) -> String {
    format!("`{}`", text.replace(['`', '\n'], "'"))
}

/// Escapes text so that it cannot end its table cell or become an HTML tag.
pub fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' => out.extend(['\\', c]),
            '<' => out += "&lt;",
            '&' => out += "&amp;",
            '\n' | '\r' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// Puts text into a code block whose fence is longer than any run of backticks in the text.
fn format_block(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}text\n{}\n{fence}\n", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_end_its_block() {
        let mut document = Document::new();
        document.code("a\n```\n<b>\u{1b}");
        assert_eq!(render(&document), "````text\na\n```\n<b>\u{fffd}\n````\n");
    }

    #[test]
    fn text_cannot_end_its_cell() {
        assert_eq!(escape("a|b<img>\nc_d"), "a\\|b&lt;img> c\\_d");
        assert_eq!(format_code("a`b\nc"), "`a'b'c`");
    }
}
