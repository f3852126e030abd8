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
            Self::Damaged(HistogramDamage::Layout(error)) => Some(error),
            Self::Damaged(HistogramDamage::Value(error)) => Some(error),
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
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HistogramDamage {
    /// There are more bins than a file of this size can contain.
    TooManyBins,
    /// The header has an offset or a ratio, which those of stored histograms do not have.
    OffsetOrRatio,
    /// The header has more than five significant digits.
    TooManyDigits,
    /// The lowest value of the header is zero.
    LowestIsZero,
    /// The lowest value of the header leaves no bits for the bins.
    LowestTooLarge,
    /// The header has another size of a count than 2, 4 or 8 bytes.
    CountSize,
    /// A count is negative.
    NegativeCount,
    /// A value has more than 63 bits.
    ValueTooLarge,
    /// A value of a DoubleHistogram is negative, not a number, or too large.
    Fraction,
    /// The bytes cannot be inflated; contains the reason.
    Compression(String),
    /// The header describes an impossible histogram.
    Layout(CreationError),
    /// A value is outside of the range of the header.
    Value(RecordError),
}

impl fmt::Display for HistogramDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyBins => f.write_str("it has too many bins"),
            Self::OffsetOrRatio => f.write_str("its header has an offset or a ratio"),
            Self::TooManyDigits => f.write_str("it has more than 5 digits"),
            Self::LowestIsZero => f.write_str("its lowest value is 0"),
            Self::LowestTooLarge => f.write_str("its lowest value is too large"),
            Self::CountSize => f.write_str("the size of a count is not 2, 4 or 8 bytes"),
            Self::NegativeCount => f.write_str("a count is negative"),
            Self::ValueTooLarge => f.write_str("a value exceeds 63 bits"),
            Self::Fraction => f.write_str("a value is negative or too large"),
            Self::Compression(reason) => f.write_str(reason),
            Self::Layout(error) => error.fmt(f),
            Self::Value(error) => error.fmt(f),
        }
    }
}
