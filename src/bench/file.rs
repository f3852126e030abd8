//! The file formats of all benches.

use cli::exit;
use cli::file_io::ResultNames;
use cli::terminal;
use files::file::File;
use files::report::Warning;
use render::document::{self, Document};
use render::formats::{Format, Rendering, sanitize, unsupported_format};
use render::picture::canvas::Picture;

/// Value of the key `schema` in the file of every bench.
pub const SCHEMA: &str = "osjitter.bench/1";

/// The formats of the file of every bench.
pub const FORMATS: [Format; 5] =
    [Format::Table, Format::Json, Format::Markdown, Format::Html, Format::Svg];

/// The file of a bench, in all its formats.
pub trait BenchFile: File {
    /// Names of the files of the bench.
    const RESULTS: ResultNames;
    /// Whether the Markdown is also written next to the JSON file.
    const HAS_MARKDOWN_FILE: bool = false;
    /// Whether the number of pictures depends on the report, so that they go into a directory.
    const HAS_SEVERAL_PICTURES: bool = false;

    /// Describes the report. `reference` adds published figures, if there are any.
    fn document(&self, reference: bool) -> Document;
    /// Draws the report.
    fn pictures(&self) -> Vec<Picture>;

    /// Returns whether the bench was interrupted.
    fn is_partial(&self) -> bool {
        false
    }

    fn markdown(&self) -> String {
        document::markdown::render(&self.document(false))
    }

    fn render(&self, format: Format, reference: bool) -> exit::Result<Rendering> {
        let document = || self.document(reference);
        let made = match format {
            Format::Table => Rendering::terminal(&document(), terminal::columns()),
            Format::Json => Rendering::Text(self.to_json()),
            Format::Markdown => Rendering::markdown(&document()),
            Format::Html => Rendering::page("osjitter bench", &document()),
            Format::Svg if Self::HAS_SEVERAL_PICTURES => Rendering::Pictures(self.pictures()),
            Format::Svg => {
                Rendering::Text(self.pictures().into_iter().map(|picture| picture.svg).collect())
            }
            other => return Err(unsupported_format("the file of a bench", FORMATS, other)),
        };
        Ok(sanitize(format, made))
    }
}

/// Adds the caveats of a report.
pub fn add_caveats(document: &mut Document, warnings: &[Warning], is_partial: bool) {
    for warning in warnings {
        document.warning(format!("{}: {}; {}", warning.code, warning.message, warning.hint));
    }
    if is_partial {
        document.warning("interrupted: the values cover the time until then");
    }
}
