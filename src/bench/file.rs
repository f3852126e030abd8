//! The file formats of all benches.

use cli::exit;
use cli::markdown::escape_cell;
use cli::wrap::wrap;
use files::file::File;
use files::report::Warning;

use render::formats::{Format, Rendering, sanitize, unsupported_format};
use render::picture::canvas::Picture;

/// Value of the key `schema` in the file of every bench.
pub const SCHEMA: &str = "osjitter.bench/1";

/// The formats of the file of every bench.
pub const FORMATS: [Format; 4] = [Format::Table, Format::Json, Format::Markdown, Format::Svg];

/// The file of a bench, in all its formats.
pub trait BenchFile: File {
    /// Whether the Markdown is also written next to the JSON file.
    const HAS_MARKDOWN_FILE: bool = false;

    /// Formats the report for a terminal. `reference` adds published figures, if there are any.
    fn table(&self, reference: bool) -> String;
    /// Formats the report as Markdown, for pull requests and job summaries.
    fn markdown(&self) -> String;
    /// Draws the report.
    fn pictures(&self) -> Vec<Picture>;

    /// Returns whether the bench was interrupted.
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

/// Formats the footnotes of a table: caveats for the reader.
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

/// Formats the footnotes as Markdown.
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
