//! The histogram kept in a report: HDR V2, three significant digits, no tick left out.

use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};

use crate::report;

/// Significant decimal digits of the stored histogram: a stored value is within 0.1 % of the measured one.
const SIGNIFICANT_DIGITS: u8 = 3;

/// How [`report::Histogram::data`] is written.
pub const ENCODING: &str = "hdr-v2-base64";

/// First line of an interval log of ours, behind its `#`: what its values and tags are, and how it is known as ours.
pub const LOG_COMMENT: &str = "[Lateness in nanoseconds; the tag is the subject]";

/// Most bytes that a histogram takes when it is not compressed: five digits over all of a `u64` are 6.2 million counts of
/// at most 9 bytes each, and a header.
const LARGEST: usize = 64 << 20;
/// First word of an uncompressed histogram, and of a compressed one; the low half byte of the second is the word size.
const COOKIE: u32 = 0x1c84_9303;
const COOKIE_COMPRESSED: u32 = 0x1c84_9304;
/// Cookie, length of the counts, offset, digits, lowest and highest value, ratio.
const HEADER: usize = 40;

/// Packs lateness into a histogram. An early tick counts at 0, so that `count` is the number of values given.
///
/// # Panics
/// Never: the histogram grows to any value an `i64` holds, and writing to memory does not fail.
#[must_use]
pub fn pack(lateness_ns: impl IntoIterator<Item = i64>) -> report::Histogram {
    pack_counts(lateness_ns.into_iter().map(|value| (value, 1)))
}

/// The same of values that come with how often they were met. A sum of counts beyond a `u64` stays there.
///
/// # Panics
/// As [`pack`]: never.
#[must_use]
pub fn pack_counts(counted: impl IntoIterator<Item = (i64, u64)>) -> report::Histogram {
    let mut histogram = Histogram::<u64>::new(SIGNIFICANT_DIGITS).expect("3 digits are within the bounds");
    for (value, count) in counted {
        let value = u64::try_from(value).unwrap_or(0);
        histogram.record_n(value, count).expect("an auto-resizing histogram takes any i64");
    }
    let mut bytes = Vec::new();
    V2Serializer::new().serialize(&histogram, &mut bytes).expect("writing to memory does not fail");
    report::Histogram { count: histogram.len(), encoding: ENCODING.to_owned(), data: BASE64.encode(bytes) }
}

/// Reads a stored histogram.
///
/// # Errors
/// A sentence that says what is wrong: another encoding, damaged data, or a count that the data does not have.
pub fn unpack(stored: &report::Histogram) -> Result<Histogram<u64>, String> {
    if stored.encoding != ENCODING {
        return Err(format!("histogram encoding {:?} is not known; this version reads {ENCODING:?}", stored.encoding));
    }
    let bytes = BASE64.decode(&stored.data).map_err(|e| format!("histogram data is not base64: {e}"))?;
    let histogram = decode(&bytes)?;
    if histogram.len() != stored.count {
        return Err(format!("histogram holds {} values but states {}", histogram.len(), stored.count));
    }
    Ok(histogram)
}

/// Reads a histogram as the `HdrHistogram` project encodes it (V2, compressed or not), in bounded memory: a header that
/// promises more than there is, or a few bytes that inflate to gigabytes, are errors.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn decode(bytes: &[u8]) -> Result<Histogram<u64>, String> {
    let word = |bytes: &[u8], at: usize| {
        let word = bytes.get(at..at + 4).and_then(|w| <[u8; 4]>::try_from(w).ok());
        word.map(u32::from_be_bytes).ok_or_else(|| "histogram data ends early".to_owned())
    };
    let inflated = match word(bytes, 0)? & !0xf0 {
        COOKIE_COMPRESSED => {
            let compressed = usize::try_from(word(bytes, 4)?).ok().and_then(|n| bytes.get(8..8_usize.checked_add(n)?));
            let compressed = compressed.ok_or("histogram data ends early")?;
            let mut inflated = Vec::new();
            let most = LARGEST as u64 + 1;
            let read = ZlibDecoder::new(compressed).take(most).read_to_end(&mut inflated);
            read.map_err(|e| format!("histogram data is damaged: {e}"))?;
            inflated
        }
        COOKIE => bytes.to_vec(),
        _ => return Err("histogram data is in no known encoding; V2 is read".to_owned()),
    };
    if inflated.len() > LARGEST {
        return Err("histogram data inflates to more than any histogram takes".to_owned());
    }
    // The library makes room for what the header promises before it looks for it.
    let counts = inflated.len().checked_sub(HEADER);
    if counts.is_none_or(|counts| counts < word(&inflated, 4).map_or(usize::MAX, |n| n as usize)) {
        return Err("histogram data ends early".to_owned());
    }
    Deserializer::new().deserialize(&mut inflated.as_slice()).map_err(|e| format!("histogram data is damaged: {e}"))
}

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
        let wrong_count = report::Histogram { count: 4, ..good.clone() };
        assert!(unpack(&wrong_count).unwrap_err().contains("states 4"));
        let garbage = report::Histogram { data: "!".into(), ..good.clone() };
        assert!(unpack(&garbage).unwrap_err().contains("base64"));
        let foreign = report::Histogram { encoding: "csv".into(), ..good };
        assert!(unpack(&foreign).unwrap_err().contains("csv"));
    }

    #[test]
    fn a_value_counts_as_often_as_it_was_met() {
        let counted = unpack(&pack_counts([(7, 3), (-1, 2), (900, 1 << 40)])).unwrap();
        assert_eq!((counted.count_at(7), counted.count_at(0), counted.len()), (3, 2, (1 << 40) + 5));
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
            assert!(error.contains(says), "{bytes:?}: {error}");
        }
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        std::io::copy(&mut std::io::repeat(0).take(LARGEST as u64 + 1), &mut encoder).unwrap();
        let bomb = encoder.finish().unwrap();
        assert!(bomb.len() < 100_000);
        let mut bytes = 0x1c84_9314_u32.to_be_bytes().to_vec();
        bytes.extend(u32::try_from(bomb.len()).unwrap().to_be_bytes());
        bytes.extend(bomb);
        assert!(decode(&bytes).unwrap_err().contains("inflates"));
    }
}
