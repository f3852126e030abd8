//! The formats of results: their names, which of them a kind of file offers, and what makes each.

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use cli::exit::{Error, Result, usage};
use cli::printable::to_printable;
use files::bins::{Interval, bins_csv};

use crate::picture::canvas::Picture;

/// Every format of any command.
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
    /// One row per histogram bin, which engines add up over hosts: CSV, and with --out
    /// NAME.bins.csv one row per interval beside it; .csv.gz, and .parquet in a build with that
    /// feature
    Bins,
    /// Apache Parquet, one row per subject, or with --samples one per tick; in a build with that
    /// feature
    Parquet,
}

impl Format {
    /// As it is written on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned())
    }
}

/// Accepts these formats of an argument, and lists them in its help.
pub fn parser(offered: impl IntoIterator<Item = Format>) -> impl TypedValueParser<Value = Format> {
    let values = offered.into_iter().filter_map(|format| format.to_possible_value());
    PossibleValuesParser::new(values)
        .map(|name| Format::from_str(&name, false).expect("a name of those offered"))
}

/// A result in some format.
#[derive(Debug)]
pub enum Made {
    Text(String),
    /// What no terminal can show.
    Bytes(Vec<u8>),
    Pictures(Vec<Picture>),
    /// Two files.
    Bins(Vec<Interval>),
}

impl Made {
    /// For a single file, or standard output.
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

/// A format that a `T` offers, and what makes it.
pub type Offer<T> = (Format, fn(&T) -> Result<Made>);

/// The only one of those, for a format that has no place for a second.
pub fn only<T>(all: &[T]) -> Result<&T> {
    match all {
        [one] => Ok(one),
        _ => Err(Error::usage("this format holds one file: give one")),
    }
}

/// Makes a format; one that is not offered is refused with those that are.
pub fn make<T>(what: &str, offers: &[Offer<T>], format: Format, of: &T) -> Result<Made> {
    if let Some((_, make)) = offers.iter().find(|(offered, _)| *offered == format) {
        return Ok(for_people(format, make(of)?));
    }
    Err(refused(what, offers.iter().map(|(offered, _)| *offered), format))
}

/// What a person reads in a terminal cannot command it, whatever a file has put into it.
pub fn for_people(format: Format, made: Made) -> Made {
    match made {
        Made::Text(text) if matches!(format, Format::Table | Format::Markdown) => {
            Made::Text(to_printable(&text))
        }
        other => other,
    }
}

/// That a format is not offered, and which are.
pub fn refused(what: &str, offered: impl IntoIterator<Item = Format>, format: Format) -> Error {
    let names: Vec<String> = offered.into_iter().map(Format::name).collect();
    usage!("{what} has no format {}; it offers {}", format.name(), names.join(", "))
}
