//! The stored histogram of a report: HDR V2 with three significant digits, which contains every
//! tick.

use std::fmt;
use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram as Hdr;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};

use crate::model::model;

/// Number of significant decimal digits. A stored value is within 0.1 % of the measured one.
const SIGNIFICANT_DIGITS: u8 = 3;

/// Encoding of [`Histogram::data`].
pub const ENCODING: &str = "hdr-v2-base64";

/// First comment of an interval log that osjitter writes. It describes values and tags, and
/// identifies such logs.
pub const LOG_COMMENT: &str = "[Lateness in nanoseconds; the tag is the subject]";

/// Maximum size of an uncompressed histogram: five digits over the range of a `u64` are 6.2 million
/// counts of at most 9 bytes each, plus a header.
const MAX_HISTOGRAM_BYTES: usize = 64 << 20;
/// First word of an uncompressed histogram, without the bits of the word size.
const COOKIE: u32 = 0x1c84_9303;
/// First word of a compressed histogram, without the bits of the word size.
const COOKIE_COMPRESSED: u32 = 0x1c84_9304;
/// Size of the header: cookie, length of the counts, offset, digits, lowest and highest value,
/// ratio.
const HEADER_BYTES: usize = 40;

model! {
    /// A stored histogram.
    pub struct Histogram {
        /// Number of values: ticks minus skipped.
        pub count: u64,
        /// Encoding of `data`.
        pub encoding: String,
        /// The encoded histogram.
        pub data: String,
        /// Values beyond the bins of the source, which are counted at the maximum. Never present in
        /// a report of `osjitter run`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub overflow: Option<Overflow>,
    }

    /// Values of which only the number and the maximum are known.
    pub struct Overflow {
        /// Number of values.
        pub count: u64,
    }
}

/// Packs lateness into a histogram. An early tick counts at 0, so `count` is the number of values.
///
/// # Panics
/// Never panics: the histogram grows to any `i64`, and writing to memory does not fail.
#[must_use]
pub fn pack(lateness_ns: impl IntoIterator<Item = i64>) -> Histogram {
    pack_counts(lateness_ns.into_iter().map(|value| (value, 1)))
}

/// Packs values with their counts. The sum of the counts saturates.
///
/// # Panics
/// Never panics, for the reasons given at [`pack`].
#[must_use]
pub fn pack_counts(counted: impl IntoIterator<Item = (i64, u64)>) -> Histogram {
    let mut histogram =
        Hdr::<u64>::new(SIGNIFICANT_DIGITS).expect("3 digits are within the bounds");
    for (value, count) in counted {
        let value = u64::try_from(value).unwrap_or(0);
        histogram.record_n(value, count).expect("an auto-resizing histogram takes any i64");
    }
    let mut bytes = Vec::new();
    V2Serializer::new().serialize(&histogram, &mut bytes).expect("writing to memory does not fail");
    Histogram {
        count: histogram.len(),
        encoding: ENCODING.to_owned(),
        data: BASE64.encode(bytes),
        overflow: None,
    }
}

/// Decodes a stored histogram.
///
/// # Errors
/// Returns an error if the encoding is unknown, the data is damaged, or the count does not match.
pub fn unpack(stored: &Histogram) -> Result<Hdr<u64>, HistogramError> {
    if stored.encoding != ENCODING {
        return Err(HistogramError::OtherEncoding(stored.encoding.clone()));
    }
    let bytes =
        BASE64.decode(&stored.data).map_err(|e| HistogramError::NotBase64(e.to_string()))?;
    let histogram = decode(&bytes)?;
    if histogram.len() != stored.count {
        return Err(HistogramError::OtherCount { holds: histogram.len(), states: stored.count });
    }
    Ok(histogram)
}

/// Decodes a histogram in the V2 encoding of the `HdrHistogram` project, compressed or not, in
/// bounded memory.
///
/// # Errors
/// Returns an error if the encoding is unknown or the data is damaged. This includes headers that
/// promise more data than there is, and data that inflates to more than any histogram needs.
pub fn decode(bytes: &[u8]) -> Result<Hdr<u64>, HistogramError> {
    use HistogramError::{Damaged, EndsEarly, TooLarge};
    let inflated = inflate(bytes)?;
    if inflated.len() > MAX_HISTOGRAM_BYTES {
        return Err(TooLarge);
    }
    // The library allocates the counts that the header promises before it reads them.
    let promised = word(&inflated, 4)? as usize;
    if inflated.len().checked_sub(HEADER_BYTES).is_none_or(|counts| counts < promised) {
        return Err(EndsEarly);
    }
    if has_overflowing_gap(&inflated[HEADER_BYTES..]) {
        return Err(Damaged("a gap of more bins than there can be".to_owned()));
    }
    Deserializer::new().deserialize(&mut inflated.as_slice()).map_err(|e| Damaged(e.to_string()))
}

/// Returns the uncompressed bytes of an encoded histogram, or one byte more than the maximum.
fn inflate(bytes: &[u8]) -> Result<Vec<u8>, HistogramError> {
    use HistogramError::{Damaged, EndsEarly, OtherFormat};
    match word(bytes, 0)? & !0xf0 {
        COOKIE_COMPRESSED => {
            let length = usize::try_from(word(bytes, 4)?).unwrap_or(usize::MAX);
            let compressed = bytes.get(8..8_usize.saturating_add(length)).ok_or(EndsEarly)?;
            let mut inflated = Vec::new();
            let limit = MAX_HISTOGRAM_BYTES as u64 + 1;
            let read = ZlibDecoder::new(compressed).take(limit).read_to_end(&mut inflated);
            read.map_err(|e| Damaged(e.to_string()))?;
            Ok(inflated)
        }
        COOKIE => Ok(bytes.to_vec()),
        _ => Err(OtherFormat),
    }
}

/// Reads a word of the header.
fn word(bytes: &[u8], at: usize) -> Result<u32, HistogramError> {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
    word.copied().map(u32::from_be_bytes).ok_or(HistogramError::EndsEarly)
}

/// Returns the value with a rank among ascending values with their counts.
pub(crate) fn value_at_rank(
    counted: impl IntoIterator<Item = (i64, u64)>,
    rank: u64,
) -> Option<i64> {
    let mut seen = 0_u64;
    for (value, count) in counted {
        seen = seen.saturating_add(count);
        if seen >= rank {
            return Some(value);
        }
    }
    None
}

/// Whether the numbers (LEB128 of at most nine bytes, zigzag) include the minimum. The library
/// negates negative numbers, which are gaps between bins, and that of the minimum overflows.
fn has_overflowing_gap(mut numbers: &[u8]) -> bool {
    const MAX_VARINT_BYTES: usize = 9;
    while !numbers.is_empty() {
        let last = numbers.iter().take(MAX_VARINT_BYTES - 1).position(|&byte| byte < 0x80);
        let length = last.map_or(MAX_VARINT_BYTES, |last| last + 1).min(numbers.len());
        let (number, others) = numbers.split_at(length);
        if number == [0xff; MAX_VARINT_BYTES] {
            return true;
        }
        numbers = others;
    }
    false
}

/// An error in a histogram.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HistogramError {
    /// The encoding is not [`ENCODING`]; contains the encoding.
    OtherEncoding(String),
    /// The text is not base64; contains the reason.
    NotBase64(String),
    /// The bytes are not an HDR V2 histogram.
    OtherFormat,
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
            Self::OtherFormat => f.write_str("histogram data is in no known encoding; V2 is read"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_values_count_at_zero() {
        let stored = pack([-5, 0, 14_000, 86_400_000_000_000]);
        assert_eq!(stored.count, 4);
        let read = unpack(&stored).unwrap();
        assert_eq!(read.count_at(0), 2);
        assert!(read.equivalent(read.max(), 86_400_000_000_000));
    }

    #[test]
    fn damaged_histograms_are_rejected() {
        let good = pack([1, 2, 3]);
        let wrong_count = Histogram { count: 4, ..good.clone() };
        assert!(unpack(&wrong_count).unwrap_err().to_string().contains("states 4"));
        let garbage = Histogram { data: "!".into(), ..good.clone() };
        assert!(unpack(&garbage).unwrap_err().to_string().contains("base64"));
        let foreign = Histogram { encoding: "csv".into(), ..good };
        assert!(unpack(&foreign).unwrap_err().to_string().contains("csv"));
    }

    #[test]
    fn counts_are_kept() {
        let counted = unpack(&pack_counts([(7, 3), (-1, 2), (900, 1 << 40)])).unwrap();
        assert_eq!(
            (counted.count_at(7), counted.count_at(0), counted.len()),
            (3, 2, (1 << 40) + 5)
        );
    }

    /// A header that promises `payload` bytes of counts.
    fn header(payload: u32, digits: u32, high: u64) -> Vec<u8> {
        let mut bytes = 0x1c84_9313_u32.to_be_bytes().to_vec();
        bytes.extend(payload.to_be_bytes());
        bytes.extend(0_u32.to_be_bytes());
        bytes.extend(digits.to_be_bytes());
        bytes.extend(1_u64.to_be_bytes());
        bytes.extend(high.to_be_bytes());
        bytes.extend(1_f64.to_be_bytes());
        bytes
    }

    #[test]
    fn oversized_histograms_are_rejected() {
        assert!(decode(&header(0, 3, 1 << 40)).unwrap().is_empty());
        for (bytes, expected) in [
            (header(u32::MAX, 3, 1 << 40), "ends early"),
            (header(0, 200, 1 << 40), "damaged"),
            (header(0, 3, 0), "damaged"),
            (header(0, 5, u64::MAX)[..20].to_vec(), "ends early"),
            (vec![0x1c], "ends early"),
            (vec![1, 2, 3, 4, 5], "no known encoding"),
        ] {
            let error = decode(&bytes).unwrap_err();
            assert!(error.to_string().contains(expected), "{bytes:?}: {error}");
        }
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        std::io::copy(&mut std::io::repeat(0).take(MAX_HISTOGRAM_BYTES as u64 + 1), &mut encoder)
            .unwrap();
        let bomb = encoder.finish().unwrap();
        assert!(bomb.len() < 100_000);
        let mut bytes = 0x1c84_9314_u32.to_be_bytes().to_vec();
        bytes.extend(u32::try_from(bomb.len()).unwrap().to_be_bytes());
        bytes.extend(bomb);
        assert!(decode(&bytes).unwrap_err().to_string().contains("inflates"));
    }
}
