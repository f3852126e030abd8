//! What the files of all benches have in common: the formats they have.

use cli::exit;
use cli::markdown::escape_cell;
use cli::wrap::wrap;
use files::file::File;
use files::report::Warning;

use crate::picture::canvas::Picture;
use crate::render::formats::{Format, Rendering, sanitize, unsupported_format};

/// Value of the key `schema` in the file of every bench.
pub const SCHEMA: &str = "osjitter.bench/1";

/// The formats of the file of every bench.
pub const FORMATS: [Format; 4] = [Format::Table, Format::Json, Format::Markdown, Format::Svg];

/// The file of a bench, in all its formats.
pub trait BenchFile: File {
    /// Whether the Markdown is written beside the file.
    const MARKDOWN_BESIDE: bool = false;

    /// For a terminal; with `reference` beside what others published, where anybody did.
    fn table(&self, reference: bool) -> String;
    /// For pull requests and job summaries.
    fn markdown(&self) -> String;
    fn pictures(&self) -> Vec<Picture>;

    /// Whether it was interrupted.
    fn is_partial(&self) -> bool {
        false
    }

    fn render(&self, format: Format, reference: bool) -> exit::Result<Rendering> {
        let made = match format {
            Format::Table => Rendering::Text(self.table(reference)),
            Format::Json => Rendering::Text(self.to_json()),
            Format::Markdown => Rendering::Text(self.markdown()),
            Format::Svg => Rendering::Pictures(self.pictures()),
            other => return Err(unsupported_format("the file of a bench", FORMATS, other)),
        };
        Ok(sanitize(format, made))
    }
}

/// What stands below a table: what to know before trusting it.
pub fn table_footer(warnings: &[Warning], partial: bool, width: usize) -> String {
    let mut text: String = warnings
        .iter()
        .map(|w| wrap(&format!("warning: {}; {}", w.message, w.hint), width))
        .collect();
    if partial {
        text += "interrupted: this is what was measured until then\n";
    }
    text
}

/// The same in Markdown.
pub fn markdown_footer(warnings: &[Warning], partial: bool) -> String {
    let mut text = String::new();
    if partial {
        text += "\n**Interrupted: this is what was measured until then.**\n";
    }
    for warning in warnings {
        text += &format!(
            "\n> **{}** {}; {}\n",
            escape_cell(&warning.code),
            escape_cell(&warning.message),
            escape_cell(&warning.hint)
        );
    }
    text
}
