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
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BinsFlaw {
    /// The heading is wrong.
    #[error("the heading is not that of osjitter.bins/1: found {found:?}, expected {expected:?}")]
    Heading {
        /// The heading of the file.
        found: String,
        /// The expected heading.
        expected: String,
    },
    /// The version of the format is unknown; contains the version.
    #[error(
        "schema_version {:?} is not known; this version reads 1{}",
        .0,
        if is_newer(.0) { ": a newer osjitter wrote it" } else { "" }
    )]
    Version(String),
    /// The text is not valid CSV; contains the reason.
    #[error("not comma-separated values: {0}")]
    NotCsv(String),
    /// The text cannot be read; contains the reason.
    #[error("{0}")]
    Unreadable(String),
    /// A cell is invalid.
    #[error("{column} is {found:?}, not {expected}")]
    Cell {
        /// Column of the cell.
        column: &'static str,
        /// Description of valid cells.
        expected: &'static str,
        /// Text of the cell.
        found: String,
    },
    /// The ends of a row are not those of a bin; contains the ends.
    #[error(
        "lower_ns {} and upper_ns {} are not the ends of a bin of its binning",
        .0.lower,
        .0.upper
    )]
    NotABin(Bin),
    /// The last row has no line break.
    #[error(
        "the last line has no line break, so its end may be missing; add one if it is complete"
    )]
    OpenLine,
    /// A row or an interval occurs twice; contains its description.
    #[error("{0} comes twice")]
    Twice(String),
    /// An interval has bins of two widths; contains its key.
    #[error("{0} is in bins of two widths")]
    TwoBinnings(String),
    /// There are too many intervals in a file, or too many values in an interval; contains the
    /// maximum.
    #[error("more than {0} of them; divide the file")]
    TooMany(u64),
    /// The bins of an interval contain another number of values than its row states.
    #[error("{key}: its bins hold {holds} values, and {states} ticks came")]
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
        self.flaw.fmt(f)
    }
}

impl std::error::Error for BinsError {}

fn is_newer(version: &str) -> bool {
    version.parse().is_ok_and(|version: u64| version > super::model::VERSION)
}
