//! The histogram kept in a report: HDR V2, three significant digits, no tick left out.

use std::fmt;
use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram as Hdr;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};

use crate::model::model;

/// Significant decimal digits of the stored histogram: a stored value is within 0.1 % of the
/// measured one.
const SIGNIFICANT_DIGITS: u8 = 3;

/// How [`Histogram::data`] is written.
pub const ENCODING: &str = "hdr-v2-base64";

/// First line of an interval log of ours, behind its `#`: what its values and tags are, and how it
/// is known as ours.
pub const LOG_COMMENT: &str = "[Lateness in nanoseconds; the tag is the subject]";

/// Most bytes that a histogram takes when it is not compressed: five digits over all of a `u64` are
/// 6.2 million counts of at most 9 bytes each, and a header.
const MAX_HISTOGRAM_BYTES: usize = 64 << 20;
/// First word of an uncompressed histogram, and of a compressed one; the low half byte of the
/// second is the word size.
const COOKIE: u32 = 0x1c84_9303;
const COOKIE_COMPRESSED: u32 = 0x1c84_9304;
/// Cookie, length of the counts, offset, digits, lowest and highest value, ratio.
const HEADER: usize = 40;

model! {
    /// A stored histogram.
    pub struct Histogram {
        /// How many values it holds: ticks minus skipped.
        pub count: u64,
        /// How `data` is written.
        pub encoding: String,
        /// The histogram.
        pub data: String,
        /// What its source had no bins for; counted at the largest value. Never in a report of
        /// `osjitter run`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub overflow: Option<Overflow>,
    }

    /// Values of which only the number and the largest are known.
    pub struct Overflow {
        /// How many.
        pub count: u64,
    }
}

/// Packs lateness into a histogram. An early tick counts at 0, so `count` is the number of values.
///
/// # Panics
/// Never: the histogram grows to any value an `i64` holds, and writing to memory does not fail.
#[must_use]
pub fn pack(lateness_ns: impl IntoIterator<Item = i64>) -> Histogram {
    pack_counts(lateness_ns.into_iter().map(|value| (value, 1)))
}

/// Packs values that come with their counts. A sum of counts beyond a `u64` saturates.
///
/// # Panics
/// As [`pack`]: never.
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

/// Reads a stored histogram.
///
/// # Errors
/// Another encoding, damaged data, or a count that the data does not have.
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

/// Reads a histogram as the `HdrHistogram` project encodes it (V2, compressed or not), in bounded
/// memory: a header that promises more than there is, or a few bytes that inflate to gigabytes, are
/// errors.
///
/// # Errors
/// Another encoding, or damaged data.
pub fn decode(bytes: &[u8]) -> Result<Hdr<u64>, HistogramError> {
    use HistogramError::{Damaged, EndsEarly, OtherFormat, TooLarge};
    let word = |bytes: &[u8], at: usize| {
        let word = bytes.get(at..at + 4).and_then(|w| <[u8; 4]>::try_from(w).ok());
        word.map(u32::from_be_bytes).ok_or(EndsEarly)
    };
    let inflated = match word(bytes, 0)? & !0xf0 {
        COOKIE_COMPRESSED => {
            let compressed = usize::try_from(word(bytes, 4)?)
                .ok()
                .and_then(|n| bytes.get(8..8_usize.checked_add(n)?));
            let compressed = compressed.ok_or(EndsEarly)?;
            let mut inflated = Vec::new();
            let most = MAX_HISTOGRAM_BYTES as u64 + 1;
            let read = ZlibDecoder::new(compressed).take(most).read_to_end(&mut inflated);
            read.map_err(|e| Damaged(e.to_string()))?;
            inflated
        }
        COOKIE => bytes.to_vec(),
        _ => return Err(OtherFormat),
    };
    if inflated.len() > MAX_HISTOGRAM_BYTES {
        return Err(TooLarge);
    }
    // The library makes room for what the header promises before it looks for it.
    let counts = inflated.len().checked_sub(HEADER);
    if counts.is_none_or(|counts| counts < word(&inflated, 4).map_or(usize::MAX, |n| n as usize)) {
        return Err(EndsEarly);
    }
    if has_endless_gap(&inflated[HEADER..]) {
        return Err(Damaged("a gap of more bins than there can be".to_owned()));
    }
    Deserializer::new().deserialize(&mut inflated.as_slice()).map_err(|e| Damaged(e.to_string()))
}

/// Whether among the numbers (LEB128 of at most nine bytes, zigzag) is the least there is: the
/// library negates those below zero, which are gaps between bins, and of this one that overflows.
fn has_endless_gap(mut numbers: &[u8]) -> bool {
    const MAX_VARINT_BYTES: usize = 9;
    while !numbers.is_empty() {
        let ends = numbers.iter().take(MAX_VARINT_BYTES - 1).position(|&byte| byte < 0x80);
        let length = ends.map_or(MAX_VARINT_BYTES, |last| last + 1).min(numbers.len());
        let (number, others) = numbers.split_at(length);
        if number == [0xff; MAX_VARINT_BYTES] {
            return true;
        }
        numbers = others;
    }
    false
}

/// Why a histogram cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HistogramError {
    /// Not [`ENCODING`], but this.
    OtherEncoding(String),
    /// The text is not base64: why.
    NotBase64(String),
    /// The bytes are no HDR V2 histogram.
    OtherFormat,
    /// The bytes end before what they promise.
    EndsEarly,
    /// More bytes than any histogram takes.
    TooLarge,
    /// The bytes contradict themselves: how.
    Damaged(String),
    /// It does not hold what it states.
    OtherCount {
        /// Values in it.
        holds: u64,
        /// Values it should have.
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
    fn nothing_is_lost_and_negatives_count_at_zero() {
        let stored = pack([-5, 0, 14_000, 86_400_000_000_000]);
        assert_eq!(stored.count, 4);
        let read = unpack(&stored).unwrap();
        assert_eq!(read.count_at(0), 2);
        assert!(read.equivalent(read.max(), 86_400_000_000_000));
    }

    #[test]
    fn damage_is_named() {
        let good = pack([1, 2, 3]);
        let wrong_count = Histogram { count: 4, ..good.clone() };
        assert!(unpack(&wrong_count).unwrap_err().to_string().contains("states 4"));
        let garbage = Histogram { data: "!".into(), ..good.clone() };
        assert!(unpack(&garbage).unwrap_err().to_string().contains("base64"));
        let foreign = Histogram { encoding: "csv".into(), ..good };
        assert!(unpack(&foreign).unwrap_err().to_string().contains("csv"));
    }

    #[test]
    fn a_value_counts_as_often_as_it_occurs() {
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
    fn promises_and_bombs_are_refused() {
        assert!(decode(&header(0, 3, 1 << 40)).unwrap().is_empty());
        for (bytes, says) in [
            (header(u32::MAX, 3, 1 << 40), "ends early"),
            (header(0, 200, 1 << 40), "damaged"),
            (header(0, 3, 0), "damaged"),
            (header(0, 5, u64::MAX)[..20].to_vec(), "ends early"),
            (vec![0x1c], "ends early"),
            (vec![1, 2, 3, 4, 5], "no known encoding"),
        ] {
            let error = decode(&bytes).unwrap_err();
            assert!(error.to_string().contains(says), "{bytes:?}: {error}");
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
