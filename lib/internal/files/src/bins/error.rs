//! The errors of reading rows.

use std::fmt;

use super::model::Bin;

/// An error in a file of bins or intervals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BinsError {
    /// Number of the line, from 1; `None` if two files contradict each other.
    pub line: Option<u64>,
    /// The flaw.
    pub flaw: BinsFlaw,
}

/// A flaw of a row or a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BinsFlaw {
    /// The heading is wrong.
    Heading {
        /// The heading of the file.
        found: String,
        /// The expected heading.
        expected: String,
    },
    /// The version of the format is unknown; contains the version.
    Version(String),
    /// The text is not valid CSV; contains the reason.
    NotCsv(String),
    /// The text cannot be read; contains the reason.
    Unreadable(String),
    /// A cell is invalid.
    Cell {
        /// Column of the cell.
        column: &'static str,
        /// Description of valid cells.
        expected: &'static str,
        /// Text of the cell.
        found: String,
    },
    /// The ends of a row are not those of a bin; contains the ends.
    NotABin(Bin),
    /// A row or an interval occurs twice; contains its description.
    Twice(String),
    /// An interval has bins of two widths; contains its key.
    TwoBinnings(String),
    /// There are too many intervals in a file, or too many values in an interval; contains the
    /// maximum.
    TooMany(u64),
    /// The bins of an interval contain another number of values than its row states.
    Counts {
        /// Key of the interval.
        key: String,
        /// Number of values in its bins.
        holds: u64,
        /// Number of delivered ticks that its row states.
        states: u64,
    },
}

impl fmt::Display for BinsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        match &self.flaw {
            BinsFlaw::Heading { found, expected } => {
                write!(
                    f,
                    "the heading is not that of osjitter.bins/1: found {found:?}, expected {expected:?}"
                )
            }
            BinsFlaw::Version(found) => {
                write!(f, "schema_version {found:?} is not known; this version reads 1")?;
                let is_newer =
                    found.parse::<u64>().is_ok_and(|version| version > super::model::VERSION);
                if is_newer { f.write_str(": a newer osjitter wrote it") } else { Ok(()) }
            }
            BinsFlaw::NotCsv(why) => write!(f, "not comma-separated values: {why}"),
            BinsFlaw::Unreadable(why) => f.write_str(why),
            BinsFlaw::Cell { column, expected, found } => {
                write!(f, "{column} is {found:?}, not {expected}")
            }
            BinsFlaw::NotABin(Bin { lower, upper }) => {
                write!(
                    f,
                    "lower_ns {lower} and upper_ns {upper} are not the ends of a bin of its binning"
                )
            }
            BinsFlaw::Twice(what) => write!(f, "{what} comes twice"),
            BinsFlaw::TwoBinnings(key) => write!(f, "{key} is in bins of two widths"),
            BinsFlaw::TooMany(most) => write!(f, "more than {most} of them; divide the file"),
            BinsFlaw::Counts { key, holds, states } => {
                write!(f, "{key}: its bins hold {holds} values, and {states} ticks came")
            }
        }
    }
}

impl std::error::Error for BinsError {}
