//! Renders a document as HTML.

use cli::printable::to_printable;

use crate::document::{Alignment, Block, Document, Item, Table};

const STYLE: &str = include_str!("page.css");

/// The content security policy, with which the browser ensures that the page loads nothing.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/// Renders a document as a self-contained page that loads nothing from the network. `title` is the
/// end of its title in the browser.
pub fn page(title: &str, document: &Document) -> String {
    frame(&page_title(title, document), &render(document), "")
}

/// Returns the title by which tabs of a browser differ: that of the document, its sides, and the
/// title of all its pages.
fn page_title(title: &str, document: &Document) -> String {
    let mut parts = Vec::new();
    for block in &document.blocks {
        match block {
            Block::Title(text) => parts.push(text.clone()),
            Block::Sides(sides) => {
                parts.push(format!("{} against {}", sides.candidate, sides.base))
            }
            _ => {}
        }
    }
    if parts.is_empty() { title.to_owned() } else { format!("{} - {title}", parts.join(", ")) }
}

/// Puts the content of a page, which is HTML, into its frame. `script` may be empty.
pub fn frame(title: &str, content: &str, script: &str) -> String {
    let script =
        if script.is_empty() { String::new() } else { format!("<script>\n{script}</script>\n") };
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         {content}</main>\n{script}</body>\n</html>\n",
        escape(title)
    )
}

/// Renders the blocks of a document without the frame of a page.
pub fn render(document: &Document) -> String {
    document.blocks.iter().map(render_block).collect()
}

fn render_block(block: &Block) -> String {
    match block {
        Block::Title(text) => format!("<h1>{}</h1>\n", escape(text)),
        Block::Section(text) => format!("<h2>{}</h2>\n", escape(text)),
        Block::Sides(sides) => {
            format!("<p>A: {}<br>B: {}</p>\n", escape(&sides.base), escape(&sides.candidate))
        }
        Block::Paragraph(text) => format!("<p>{}</p>\n", escape(text)),
        Block::Notes(notes) => render_list(notes.iter().map(|note| escape(note))),
        Block::Items(items) => render_list(items.iter().map(render_item)),
        Block::Warning(text) => {
            format!("<p class=\"warning\"><strong>warning</strong>: {}</p>\n", escape(text))
        }
        Block::Table(table) => render_table(table),
        Block::Picture(svg) => svg.clone(),
        Block::Code(text) => format!("<pre>{}</pre>\n", escape(text.trim_end())),
    }
}

fn render_list(entries: impl Iterator<Item = String>) -> String {
    let entries: String = entries.map(|entry| format!("<li>{entry}</li>\n")).collect();
    format!("<ul>\n{entries}</ul>\n")
}

fn render_item(item: &Item) -> String {
    let mut html = escape(&item.text);
    if let Some(detail) = &item.detail {
        html += &format!("<br>{}", escape(detail));
    }
    if let Some(command) = &item.command {
        html += &format!("<br><code>{}</code>", escape(command));
    }
    html
}

fn render_table(table: &Table) -> String {
    let mut html = "<table>\n<thead><tr>".to_owned();
    for cell in &table.heading {
        html += &format!("<th scope=\"col\">{}</th>", escape(cell));
    }
    html += "</tr></thead>\n<tbody>\n";
    for row in &table.rows {
        html += &render_row(table, row);
    }
    html + "</tbody>\n</table>\n"
}

/// Renders a row, whose first cell is its heading. On a narrow screen the style shows the heading
/// of the column in front of each cell.
fn render_row(table: &Table, cells: &[String]) -> String {
    let mut html = String::new();
    for (column, cell) in cells.iter().enumerate() {
        let (cell, heading) = (escape(cell), escape(&table.heading[column]));
        html += &match (column, table.alignment[column]) {
            (0, _) => format!("<th scope=\"row\">{cell}</th>"),
            (_, Alignment::Left) => format!("<td class=\"left\" data-of=\"{heading}\">{cell}</td>"),
            (_, Alignment::Right) => format!("<td data-of=\"{heading}\">{cell}</td>"),
        };
    }
    format!("<tr>{html}</tr>\n")
}

/// Escapes the characters that have a meaning in HTML, and control characters.
pub fn escape(text: &str) -> String {
    to_printable(text)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
