//! Errors in stored and encoded histograms.

use std::fmt;

/// Encoding of the data of a stored histogram.
pub const ENCODING: &str = "hdr-v2-base64";

/// An error in a histogram.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HistogramError {
    /// The encoding is not [`ENCODING`]; contains the encoding.
    OtherEncoding(String),
    /// The text is not base64; contains the reason.
    NotBase64(String),
    /// The bytes are in another encoding; contains their first word.
    OtherFormat(u32),
    /// The bytes end early.
    EndsEarly,
    /// The data is larger than any histogram.
    TooLarge,
    /// The bytes are inconsistent; contains the reason.
    Damaged(String),
    /// The number of values does not match.
    OtherCount {
        /// Values in the data.
        holds: u64,
        /// Stated number of values.
        states: u64,
    },
}

impl fmt::Display for HistogramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherEncoding(found) => {
                write!(
                    f,
                    "histogram encoding {found:?} is not known; this version reads {ENCODING:?}"
                )
            }
            Self::NotBase64(why) => write!(f, "histogram data is not base64: {why}"),
            Self::OtherFormat(cookie) => {
                write!(f, "unknown histogram encoding 0x{cookie:08x}: expected one of HdrHistogram")
            }
            Self::EndsEarly => f.write_str("histogram data ends early"),
            Self::TooLarge => {
                f.write_str("histogram data inflates to more than any histogram takes")
            }
            Self::Damaged(why) => write!(f, "histogram data is damaged: {why}"),
            Self::OtherCount { holds, states } => {
                write!(f, "histogram holds {holds} values but states {states}")
            }
        }
    }
}

impl std::error::Error for HistogramError {}
