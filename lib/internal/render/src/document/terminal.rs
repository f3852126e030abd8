//! Renders a document for a terminal.

use cli::printable::to_printable;
use cli::wrap::{MAX_PARAGRAPH_WIDTH, wrap};
use unicode_width::UnicodeWidthStr;

use crate::document::align::{self, GAP, align_by, stack};
use crate::document::{Block, Document, Item, Table};

const ITEM_INDENT: &str = "  ";
const DETAIL_INDENT: &str = "      ";
/// Minimum width of a column of wrapped words.
const MIN_WORDS_WIDTH: usize = 24;

/// Renders a document in at most `columns` columns, unless a word or a command is longer.
///
/// Blocks are separated by an empty line. A heading is directly above its block.
pub fn render(document: &Document, columns: usize) -> String {
    let tables = document.blocks.iter().filter_map(|block| match block {
        Block::Table(table) => Some(render_table(table, columns)),
        _ => None,
    });
    let prose_width = prose_width(&tables.collect::<String>(), columns);
    let mut text = String::new();
    let mut is_below_heading = true;
    for block in &document.blocks {
        let is_heading = matches!(block, Block::Title(_) | Block::Section(_));
        if !text.is_empty() && (is_heading || !is_below_heading) {
            text.push('\n');
        }
        text += &render_block(block, columns, prose_width);
        is_below_heading = is_heading;
    }
    to_printable(&text)
}

/// Returns the width of prose next to a rendered table: that of the table, but at least
/// [`MAX_PARAGRAPH_WIDTH`] if there are as many columns.
pub fn prose_width(table: &str, columns: usize) -> usize {
    let table_width = table.lines().map(UnicodeWidthStr::width).max().unwrap_or(0);
    columns.min(table_width.max(MAX_PARAGRAPH_WIDTH))
}

fn render_block(block: &Block, columns: usize, prose_width: usize) -> String {
    match block {
        Block::Title(text) | Block::Section(text) => wrap(text, columns),
        Block::Sides(sides) => {
            render_side("A", &sides.base, columns) + &render_side("B", &sides.candidate, columns)
        }
        Block::Paragraph(text) => wrap(text, prose_width),
        Block::Notes(notes) => notes.iter().map(|note| wrap(note, prose_width)).collect(),
        Block::Items(items) => items.iter().map(|item| render_item(item, prose_width)).collect(),
        Block::Warning(text) => wrap(&format!("warning: {text}"), prose_width),
        Block::Table(table) => render_table(table, columns),
        Block::Picture(_) => String::new(),
        Block::Code(text) => format!("{}\n", text.trim_end()),
    }
}

/// Renders the name of a side. Further lines of a long name are indented.
fn render_side(side: &str, name: &str, columns: usize) -> String {
    indent(name, "   ", columns).replacen("   ", &format!("{side}  "), 1)
}

/// Renders an entry of a list: its text, its explanation indented below, and its command, which is
/// not wrapped so that it can be copied.
fn render_item(item: &Item, width: usize) -> String {
    let mut text = indent(&item.text, ITEM_INDENT, width);
    if let Some(detail) = &item.detail {
        text += &indent(detail, DETAIL_INDENT, width);
    }
    if let Some(command) = &item.command {
        text += &format!("    > {command}\n");
    }
    text
}

/// Wraps a text to `width` columns and puts `prefix` in front of each line.
fn indent(text: &str, prefix: &str, width: usize) -> String {
    let lines = wrap(text, width.saturating_sub(prefix.len()));
    lines.lines().map(|line| format!("{prefix}{line}\n")).collect()
}

/// Renders a table in at most `columns` columns, with all its columns if they fit. Otherwise some of
/// them are left out, and a line below the table names them.
///
/// If the names need more than half of the width, each is above its values instead. A table with
/// several columns of names is too wide if it does not fit with a single value: its rows have no
/// single name that could be above the values.
pub fn render_table(table: &Table, columns: usize) -> String {
    if let Some(text) = render_rows(table, columns, WordPlacement::Column) {
        return text;
    }
    if table.has_words {
        // Rows of one line are easier to compare than all columns.
        let shorter = render_without(table, &table.expendable, columns, WordPlacement::Column);
        if let Some(text) = shorter.or_else(|| render_rows(table, columns, WordPlacement::Below)) {
            return text;
        }
    }
    let name_width = table.rows.iter().map(|row| row[0].width()).max();
    if table.names > 1 || name_width.unwrap_or(0) <= columns / 2 {
        let order = table.drop_order();
        if let Some(text) = render_without(table, &order, columns, WordPlacement::Below) {
            return text;
        }
    }
    if table.names > 1 {
        return align_lines(table, &lines(table));
    }
    stack(&lines(&without_name_heading(table)), |column| table.is_left(column), columns)
}

/// The place of words that are too long for their row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WordPlacement {
    /// In their column, on several lines.
    Column,
    /// In their column if it is wide enough, otherwise below the row.
    Below,
}

/// Renders a table with as few columns left out as possible, in this order. Returns `None` if it
/// does not fit without all of them.
fn render_without(
    table: &Table,
    order: &[usize],
    columns: usize,
    placement: WordPlacement,
) -> Option<String> {
    for count in 1..=order.len() {
        let dropped = &order[..count];
        if let Some(text) = render_rows(&table.without_columns(dropped), columns, placement) {
            return Some(text + &describe_dropped(table, dropped, columns));
        }
    }
    None
}

/// Renders a table with one line per row, and as a second choice without the heading of the names
/// or with the words of the last column wrapped. Returns `None` if it does not fit.
fn render_rows(table: &Table, columns: usize, placement: WordPlacement) -> Option<String> {
    let full = align_lines(table, &lines(table));
    if align::fits(&full, columns) {
        return Some(full);
    }
    let unlabelled = align_lines(table, &lines(&without_name_heading(table)));
    if align::fits(&unlabelled, columns) {
        return Some(unlabelled);
    }
    wrap_words(table, columns, placement)
}

/// Removes the heading of the names if they are in a single column, so that this is not wider than
/// the names.
fn without_name_heading(table: &Table) -> Table {
    let mut unlabelled = table.clone();
    if table.names == 1 {
        unlabelled.heading[0].clear();
    }
    unlabelled
}

/// Names the columns that were left out.
fn describe_dropped(table: &Table, dropped: &[usize], columns: usize) -> String {
    let mut dropped = dropped.to_vec();
    dropped.sort_unstable();
    let headings: Vec<&str> = dropped.into_iter().map(|i| table.heading[i].as_str()).collect();
    wrap(&format!("Columns left out to fit the width: {}", headings.join("; ")), columns)
}

/// Renders a table whose last column contains words: they are wrapped within their column if it is
/// wide enough, otherwise below the row if they may be there. Returns `None` if there are no words,
/// or if they or the other columns do not fit.
fn wrap_words(table: &Table, columns: usize, placement: WordPlacement) -> Option<String> {
    if !table.has_words {
        return None;
    }
    let last = table.heading.len() - 1;
    let short: Vec<&[String]> = lines(table).into_iter().map(|line| &line[..last]).collect();
    let aligned = align_lines(table, &short);
    if !align::fits(&aligned, columns) {
        return None;
    }
    let start = aligned.lines().map(UnicodeWidthStr::width).max().unwrap_or(0) + GAP.len();
    let words_width = columns.saturating_sub(start);
    if words_width < MIN_WORDS_WIDTH && placement == WordPlacement::Column {
        return None;
    }
    let mut text = String::new();
    for (short, line) in aligned.lines().zip(lines(table)) {
        if words_width >= MIN_WORDS_WIDTH {
            let words = wrap(&line[last], words_width);
            text += &hang(&align::pad_right(short, start), &words);
        } else {
            text += &format!("{short}\n{}", indent(&line[last], DETAIL_INDENT, columns));
        }
    }
    Some(text)
}

/// Puts lines of words to the right of the start of a line.
fn hang(start: &str, words: &str) -> String {
    let margin = " ".repeat(start.width());
    let mut text = String::new();
    let mut start = start;
    for line in words.lines() {
        text += &format!("{start}{line}\n");
        start = &margin;
    }
    if words.is_empty() { format!("{}\n", start.trim_end()) } else { text }
}

/// Returns whether a table fits with one line per row.
pub fn fits(table: &Table, columns: usize) -> bool {
    align::fits(&align_lines(table, &lines(table)), columns)
}

/// Returns the heading and the rows.
fn lines(table: &Table) -> Vec<&[String]> {
    std::iter::once(&table.heading).chain(&table.rows).map(Vec::as_slice).collect()
}

fn align_lines(table: &Table, lines: &[&[String]]) -> String {
    align_by(lines, |column| table.is_left(column))
}
