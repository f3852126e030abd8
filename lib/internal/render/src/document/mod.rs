//! Documents: what a command shows, independent of where it is shown.
//!
//! A command fills a [`Document`] once; [`terminal`], [`markdown`] and [`html`] render it.

pub mod align;
pub mod html;
pub mod markdown;
pub mod terminal;

use cli::printable::to_printable_line;
use jitterstat::gate::Sides;

/// Blocks of text and tables, from top to bottom.
#[derive(Clone, Debug, Default)]
pub struct Document {
    blocks: Vec<Block>,
}

/// A part of a document.
#[derive(Clone, Debug)]
enum Block {
    Title(String),
    Section(String),
    Sides(Sides<String>),
    Paragraph(String),
    Notes(Vec<String>),
    Items(Vec<Item>),
    Warning(String),
    Table(Table),
    Code(String),
    Picture(String),
}

/// A table with a heading. Every row has as many cells as the heading.
#[derive(Clone, Debug)]
pub struct Table {
    heading: Vec<String>,
    rows: Vec<Vec<String>>,
    alignment: Vec<Alignment>,
    /// Number of the columns at the left that name the row.
    names: usize,
    /// Whether the last column contains words, which can be wrapped.
    has_words: bool,
    /// The columns that a narrow terminal leaves out first, in this order.
    expendable: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Alignment {
    Left,
    Right,
}

/// An entry of a list, with an explanation and a command that can be copied.
#[derive(Clone, Debug)]
pub struct Item {
    pub text: String,
    pub detail: Option<String>,
    pub command: Option<String>,
}

impl Document {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Adds the title of the document.
    pub fn title(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Title(text.into()));
    }

    /// Adds the heading of a section.
    pub fn section(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Section(text.into()));
    }

    /// Adds the names of the two sides of a comparison, A and B.
    pub fn sides(&mut self, sides: Sides<String>) {
        self.blocks.push(Block::Sides(sides.map(|side| to_printable_line(&side))));
    }

    /// Adds a paragraph, unless it is empty.
    pub fn paragraph(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !text.is_empty() {
            self.blocks.push(Block::Paragraph(text));
        }
    }

    /// Adds short notes, unless there are none.
    pub fn notes(&mut self, notes: impl IntoIterator<Item = String>) {
        let notes: Vec<String> = notes.into_iter().filter(|note| !note.is_empty()).collect();
        if !notes.is_empty() {
            self.blocks.push(Block::Notes(notes));
        }
    }

    /// Adds a list, unless it is empty.
    pub fn items(&mut self, items: impl IntoIterator<Item = Item>) {
        let items: Vec<Item> = items.into_iter().collect();
        if !items.is_empty() {
            self.blocks.push(Block::Items(items));
        }
    }

    /// Adds a warning, which is more visible than a note.
    pub fn warning(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Warning(text.into()));
    }

    pub fn table(&mut self, table: Table) {
        self.blocks.push(Block::Table(table));
    }

    /// Adds text of a program, which is shown as it is.
    pub fn code(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Code(text.into()));
    }

    /// Adds a picture as SVG, which only pages contain, unless it is empty.
    pub fn picture(&mut self, svg: String) {
        if !svg.is_empty() {
            self.blocks.push(Block::Picture(svg));
        }
    }

    /// Adds the blocks of another document.
    pub fn append(&mut self, other: Document) {
        self.blocks.extend(other.blocks);
    }
}

impl Table {
    /// Creates a table. The first `names` columns contain the names of the rows and are aligned to
    /// the left; the others contain numbers and are aligned to the right.
    pub fn new<T: Into<String>>(heading: impl IntoIterator<Item = T>, names: usize) -> Self {
        let heading: Vec<String> = heading.into_iter().map(Into::into).collect();
        let column = |index| if index < names { Alignment::Left } else { Alignment::Right };
        let alignment = (0..heading.len()).map(column).collect();
        Self {
            heading,
            rows: Vec::new(),
            alignment,
            names,
            has_words: false,
            expendable: Vec::new(),
        }
    }

    /// States which columns a narrow terminal leaves out first, by their headings in this order. The
    /// other columns with values follow, from right to left.
    pub fn with_expendable<T: AsRef<str>>(mut self, headings: &[T]) -> Self {
        for heading in headings {
            let column = self.heading.iter().position(|known| known == heading.as_ref());
            self.expendable.extend(column);
        }
        self
    }

    /// Returns the order in which columns are left out. The names, the words and the last remaining
    /// value are always shown.
    fn drop_order(&self) -> Vec<usize> {
        let end = self.heading.len() - usize::from(self.has_words);
        let mut order = self.expendable.clone();
        for column in (self.names..end).rev() {
            if !order.contains(&column) {
                order.push(column);
            }
        }
        order.pop();
        order
    }

    /// Returns a table without some columns.
    fn without_columns(&self, dropped: &[usize]) -> Self {
        let keep = |cells: &[String]| {
            let kept = cells.iter().enumerate().filter(|(column, _)| !dropped.contains(column));
            kept.map(|(_, cell)| cell.clone()).collect()
        };
        let kept = (0..self.heading.len()).filter(|column| !dropped.contains(column));
        Self {
            heading: keep(&self.heading),
            rows: self.rows.iter().map(|row| keep(row)).collect(),
            alignment: kept.map(|column| self.alignment[column]).collect(),
            names: self.names,
            has_words: self.has_words,
            expendable: Vec::new(),
        }
    }

    /// Marks the last column as words, which are aligned to the left and can be wrapped.
    pub fn with_words_last(mut self) -> Self {
        self.has_words = true;
        if let Some(last) = self.alignment.last_mut() {
            *last = Alignment::Left;
        }
        self
    }

    fn is_left(&self, column: usize) -> bool {
        self.alignment[column] == Alignment::Left
    }

    /// Adds a row. Missing cells are empty. A cell is a line, even if a name in it has line breaks.
    pub fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let cells = cells.into_iter().map(|cell| to_printable_line(&cell.into()));
        let mut cells: Vec<String> = cells.collect();
        debug_assert!(cells.len() <= self.heading.len(), "more cells than headings: {cells:?}");
        cells.resize(self.heading.len(), String::new());
        self.rows.push(cells);
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the headings of all columns.
    pub fn headings(&self) -> impl Iterator<Item = &str> {
        self.heading.iter().map(String::as_str)
    }

    /// Returns the cells of all rows without the heading.
    pub fn cells(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().flatten().map(String::as_str)
    }
}

#[cfg(test)]
mod tests;
