//! Why rows cannot be read.

use std::fmt;

use super::model::Bin;

/// A place in a text, and what is wrong there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BinsError {
    /// The line, from 1; `None` where two files contradict each other.
    pub line: Option<u64>,
    /// What is wrong.
    pub flaw: BinsFlaw,
}

/// What is wrong with a row, or with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BinsFlaw {
    /// The heading is another one.
    Heading {
        /// What it is.
        found: String,
        /// What it should be.
        expected: String,
    },
    /// Another version of the format.
    Version(String),
    /// No comma-separated values: why.
    NotCsv(String),
    /// A cell that cannot be.
    Cell {
        /// Its column.
        column: &'static str,
        /// What it should be.
        expected: &'static str,
        /// What it is.
        found: String,
    },
    /// A row whose ends are those of no bin of its binning.
    NotABin(Bin),
    /// A row, or an interval, that is there already.
    Twice(String),
    /// An interval in bins of two widths.
    TwoBinnings(String),
    /// More intervals than are read from one file, or more values than can be counted.
    TooMany(u64),
    /// The rows of an interval hold another number of values than its row in the other file states.
    Counts {
        /// Which interval.
        key: String,
        /// Values in its bins.
        holds: u64,
        /// Ticks that came, as its row states.
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
                    "the heading is not that of osjitter.bins/1: {found:?} where {expected:?} should be"
                )
            }
            BinsFlaw::Version(found) => {
                write!(f, "schema_version {found:?} is not known; this version reads 1")?;
                let newer =
                    found.parse::<u64>().is_ok_and(|version| version > super::model::VERSION);
                if newer { f.write_str(": a newer osjitter wrote it") } else { Ok(()) }
            }
            BinsFlaw::NotCsv(why) => write!(f, "not comma-separated values: {why}"),
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
