//! The output formats: their names, which of them a kind of file offers, and the functions that
//! render them.

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use cli::exit::{Error, Result, usage};
use cli::printable::to_printable;
use files::bins::{Interval, bins_csv};

use crate::document::{self, Document};
use crate::picture::canvas::Picture;

/// An output format of any command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table for the terminal
    Table,
    /// The whole result as JSON
    Json,
    /// The whole result as JSON, one line each
    Jsonl,
    /// A table for pull requests and job summaries
    Markdown,
    /// A picture; several go into the directory given by --out
    Svg,
    /// One picture made for sharing, as SVG: the answer, the main subjects and the command
    Card,
    /// One self-contained page
    Html,
    /// A test report for CI
    Junit,
    /// SARIF, for code scanning
    Sarif,
    /// One line per subject, or with --samples one per tick
    Csv,
    /// HdrHistogram's percentile distribution, in microseconds
    Hgrm,
    /// HdrHistogram's interval log, in nanoseconds, one line per round
    Hlog,
    /// The format of `cyclictest --json`
    CyclictestJson,
    /// Bencher's metric format
    Bmf,
    /// github-action-benchmark's customSmallerIsBetter
    Gab,
    /// OpenMetrics text
    Openmetrics,
    /// One row per histogram bin as CSV, which a query engine can add up over hosts; --out
    /// NAME.bins.csv also writes NAME.intervals.csv; .csv.gz and, in a build with that feature,
    /// .parquet are possible
    Bins,
    /// A trace for ui.perfetto.dev: each tick from its deadline to its arrival
    Perfetto,
    /// Apache Parquet: one row per subject, or with --samples one per tick; in a build with that
    /// feature
    Parquet,
}

impl Format {
    /// Returns the name used on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned())
    }
}

/// Returns an argument parser that accepts these formats and lists them in the help.
pub fn parser(offered: impl IntoIterator<Item = Format>) -> impl TypedValueParser<Value = Format> {
    let values = offered.into_iter().filter_map(|format| format.to_possible_value());
    PossibleValuesParser::new(values)
        .map(|name| Format::from_str(&name, false).expect("the parser accepts offered names only"))
}

/// A result rendered in some format.
#[derive(Debug)]
pub enum Rendering {
    Text(String),
    /// Binary data, which a terminal cannot show.
    Bytes(Vec<u8>),
    Pictures(Vec<Picture>),
    /// Rendered as two files.
    Bins(Vec<Interval>),
}

impl Rendering {
    /// Renders a document for a terminal of `columns` columns.
    pub fn terminal(document: &Document, columns: usize) -> Self {
        Self::Text(document::terminal::render(document, columns))
    }

    pub fn markdown(document: &Document) -> Self {
        Self::Text(document::markdown::render(document))
    }

    /// Renders a document as a page. `title` ends its title in the browser.
    pub fn page(title: &str, document: &Document) -> Self {
        Self::Text(document::html::page(title, document))
    }

    /// Returns the content for a single file or standard output.
    pub fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.into_bytes(),
            Self::Bytes(bytes) => bytes,
            Self::Bins(intervals) => bins_csv(&intervals).into_bytes(),
            Self::Pictures(pictures) => {
                pictures.into_iter().flat_map(|picture| picture.svg.into_bytes()).collect()
            }
        }
    }
}

/// A format that a `T` offers, and the function that renders it.
pub type Offer<T> = (Format, fn(&T) -> Result<Rendering>);

/// Returns the only element.
///
/// # Errors
/// Returns an error if there are several: the format holds a single file.
pub fn single<T>(items: &[T]) -> Result<&T> {
    match items {
        [item] => Ok(item),
        _ => Err(Error::usage("expected a single file for this format: give one")),
    }
}

/// Renders `value` in a format.
///
/// # Errors
/// Returns an error that lists the offered formats if this one is not among them.
pub fn make<T>(what: &str, offers: &[Offer<T>], format: Format, value: &T) -> Result<Rendering> {
    if let Some((_, make)) = offers.iter().find(|(offered, _)| *offered == format) {
        return Ok(sanitize(format, make(value)?));
    }
    Err(unsupported_format(what, offers.iter().map(|(offered, _)| *offered), format))
}

/// Removes terminal control sequences from formats that are read in a terminal; they may come from
/// an input file.
pub fn sanitize(format: Format, rendering: Rendering) -> Rendering {
    match rendering {
        Rendering::Text(text) if matches!(format, Format::Table | Format::Markdown) => {
            Rendering::Text(to_printable(&text))
        }
        other => other,
    }
}

/// Returns the error for a format that is not offered, with those that are.
pub fn unsupported_format(
    what: &str,
    offered: impl IntoIterator<Item = Format>,
    format: Format,
) -> Error {
    let names: Vec<String> = offered.into_iter().map(Format::name).collect();
    usage!("{what} has no format {}; it offers {}", format.name(), names.join(", "))
}
