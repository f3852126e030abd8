//! Errors in stored and encoded histograms.

use std::fmt;

use hdrhistogram::{CreationError, RecordError};

/// Encoding of the data of a stored histogram.
pub const ENCODING: &str = "hdr-v2-base64";

/// An error in a histogram.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HistogramError {
    /// The encoding is not [`ENCODING`]; contains the encoding.
    OtherEncoding(String),
    /// The text is not base64.
    NotBase64(base64::DecodeError),
    /// The bytes are in another encoding; contains their first word.
    OtherFormat(u32),
    /// The bytes end early.
    EndsEarly,
    /// The data is larger than any histogram.
    TooLarge,
    /// The bytes are inconsistent.
    Damaged(HistogramDamage),
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

impl std::error::Error for HistogramError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NotBase64(error) => Some(error),
            Self::Damaged(damage) => damage.source(),
            _ => None,
        }
    }
}

impl From<HistogramDamage> for HistogramError {
    fn from(damage: HistogramDamage) -> Self {
        Self::Damaged(damage)
    }
}

/// An inconsistency in the bytes of a histogram.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HistogramDamage {
    /// There are more bins than a file of this size can contain.
    #[error("it has too many bins")]
    TooManyBins,
    /// The header has an offset or a ratio, which those of stored histograms do not have.
    #[error("its header has an offset or a ratio")]
    OffsetOrRatio,
    /// The header has more than five significant digits.
    #[error("it has more than 5 digits")]
    TooManyDigits,
    /// The lowest value of the header is zero.
    #[error("its lowest value is 0")]
    LowestIsZero,
    /// The lowest value of the header leaves no bits for the bins.
    #[error("its lowest value is too large")]
    LowestTooLarge,
    /// The header has another size of a count than 2, 4 or 8 bytes.
    #[error("the size of a count is not 2, 4 or 8 bytes")]
    CountSize,
    /// A count is negative.
    #[error("a count is negative")]
    NegativeCount,
    /// A value has more than 63 bits.
    #[error("a value exceeds 63 bits")]
    ValueTooLarge,
    /// A value of a DoubleHistogram is negative, not a number, or too large.
    #[error("a value is negative or too large")]
    Fraction,
    /// The bytes cannot be inflated; contains the reason.
    #[error("{0}")]
    Compression(String),
    /// The header describes an impossible histogram.
    #[error("{0}")]
    Layout(#[source] CreationError),
    /// A value is outside of the range of the header.
    #[error("{0}")]
    Value(#[source] RecordError),
}
