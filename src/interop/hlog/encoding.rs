//! Decodes the histograms in HdrHistogram logs: the encodings V0, V1 and V2, compressed or not.
//!
//! A histogram is decoded into its recorded bins in the layout of the source, since a conversion to
//! another number of digits would change the values.

use std::io::{BufRead, BufReader};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use cli::exit::{Error, Result, usage};
use flate2::bufread::ZlibDecoder;

/// First words of an encoded histogram. The second hexadecimal digit from the right is the size of
/// a count.
const COOKIE_V0: u32 = 0x1c84_9308;
const COOKIE_V1: u32 = 0x1c84_9301;
const COOKIE_V2: u32 = 0x1c84_9303;
/// First words of a compressed histogram, which contains an encoded one.
const COMPRESSED_COOKIES: [u32; 3] = [0x1c84_9309, 0x1c84_9302, 0x1c84_9304];
/// First words of a DoubleHistogram, plain and compressed. The number of digits and a range follow,
/// and then an encoded histogram.
const DOUBLE_COOKIES: [u32; 2] = [0x0c72_124e, 0x0c72_124f];
const DOUBLE_HEADER_BYTES: usize = 16;
/// The digits of a cookie that are not part of its kind.
const SIZE_MASK: u32 = 0xf0;
/// Sizes of the header after the cookie.
const HEADER_BYTES_V0: usize = 28;
const HEADER_BYTES: usize = 36;
/// Maximum number of significant digits in any implementation.
const MAX_DIGITS: u32 = 5;
/// Maximum number of bits of the first bucket in any implementation. A coarse histogram has only
/// part of this bucket below the largest value.
const MAX_MAGNITUDE: u32 = 63;
/// Size of the largest varint of V2, whose last byte has eight bits of the number.
const MAX_VARINT_BYTES: u32 = 9;

/// A recorded bin. All values from `lowest` to `highest` are equivalent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bin {
    pub lowest: u64,
    pub highest: u64,
    pub count: u64,
}

impl Bin {
    /// Returns the value of the bin in a mean.
    pub fn median(&self) -> u64 {
        self.lowest + (self.highest - self.lowest).div_ceil(2)
    }
}

/// A histogram of one interval.
#[derive(Debug, PartialEq)]
pub(super) struct DecodedHistogram {
    /// The recorded bins in ascending order.
    pub bins: Vec<Bin>,
    /// Number of significant decimal digits.
    pub digits: u32,
    /// Width of the smallest bin.
    pub step: u64,
    /// The factor by which bins are multiplied, if it is a DoubleHistogram.
    pub ratio: Option<f64>,
}

impl DecodedHistogram {
    /// Converts the fractions of a DoubleHistogram to whole parts, of which a unit has this number.
    ///
    /// # Errors
    /// Returns an error if a value is negative, not a number, or too large.
    pub fn into_parts(self, ratio: f64, parts_per_unit: u64) -> Result<Self> {
        const MAX_PARTS: f64 = (1_u64 << 62) as f64;
        let factor = ratio * parts_per_unit as f64;
        let to_parts = |value: f64| {
            let parts = value * factor;
            let is_possible = (0.0..=MAX_PARTS).contains(&parts);
            is_possible.then_some(parts).ok_or_else(|| damaged("a value is no time"))
        };
        let convert = |bin: Bin| {
            let lowest = to_parts(bin.lowest as f64)? as u64;
            let end = to_parts(bin.highest as f64 + 1.0)?.ceil() as u64;
            Ok(Bin { lowest, highest: end.saturating_sub(1).max(lowest), count: bin.count })
        };
        let bins = self.bins.into_iter().map(convert).collect::<Result<_>>()?;
        let step = (to_parts(self.step as f64)? as u64).max(1);
        Ok(Self { bins, digits: self.digits, step, ratio: None })
    }
}

/// The number of bins that may still be decoded. It bounds the time for a log, since a compressed
/// histogram can contain a thousand bins for each of its bytes.
pub(super) struct BinBudget(u64);

impl BinBudget {
    /// Creates the budget for a text of this size. Real logs have less than one bin per byte.
    pub fn for_bytes(bytes: usize) -> Self {
        const BINS_PER_BYTE: u64 = 16;
        const MIN_BINS: u64 = 1 << 20;
        Self((bytes as u64).saturating_mul(BINS_PER_BYTE).saturating_add(MIN_BINS))
    }

    fn take_one(&mut self) -> Result<()> {
        let left = self.0.checked_sub(1).ok_or_else(|| damaged("it has too many bins"))?;
        self.0 = left;
        Ok(())
    }
}

fn damaged(reason: &str) -> Error {
    usage!("damaged histogram: {reason}")
}

fn ends_early() -> Error {
    damaged("it ends early")
}

/// Decodes the base64 text of a histogram.
///
/// # Errors
/// Returns an error if the text is not base64, is in an unknown encoding, or is damaged. This includes more bins than the budget allows.
pub(super) fn decode(text: &str, budget: &mut BinBudget) -> Result<DecodedHistogram> {
    let bytes = BASE64.decode(text).map_err(|e| usage!("invalid base64: {e}"))?;
    decode_bytes(&bytes, budget)
}

/// Decodes a histogram, compressed or not.
///
/// # Errors
/// Returns the errors of [`decode`].
pub(super) fn decode_bytes(bytes: &[u8], budget: &mut BinBudget) -> Result<DecodedHistogram> {
    let (cookie, _) = split_word(bytes)?;
    if DOUBLE_COOKIES.contains(&cookie) {
        let encoded = bytes.get(DOUBLE_HEADER_BYTES..).ok_or_else(ends_early)?;
        return decode_whole(encoded, budget);
    }
    Ok(DecodedHistogram { ratio: None, ..decode_whole(bytes, budget)? })
}

/// Decodes a histogram of whole numbers, with the factor in its header.
fn decode_whole(bytes: &[u8], budget: &mut BinBudget) -> Result<DecodedHistogram> {
    let (cookie, rest) = split_word(bytes)?;
    if !COMPRESSED_COOKIES.contains(&(cookie & !SIZE_MASK)) {
        return decode_plain(&mut &*bytes, budget);
    }
    let (length, rest) = split_word(rest)?;
    let compressed = usize::try_from(length)
        .ok()
        .and_then(|length| rest.get(..length))
        .ok_or_else(ends_early)?;
    decode_plain(&mut BufReader::new(ZlibDecoder::new(compressed)), budget)
}

fn split_word(bytes: &[u8]) -> Result<(u32, &[u8])> {
    let (word, rest) = bytes.split_first_chunk().ok_or_else(ends_early)?;
    Ok((u32::from_be_bytes(*word), rest))
}

/// The header of an encoded histogram.
struct Header {
    digits: u32,
    /// The smallest value that differs from 0.
    lowest: u64,
    /// Size of the counts; `None` in V0, where they extend to the end.
    payload_bytes: Option<u64>,
    /// The factor of a DoubleHistogram, which V0 does not have.
    ratio: Option<f64>,
}

/// Decodes an encoded histogram that is not compressed.
fn decode_plain(reader: &mut impl BufRead, budget: &mut BinBudget) -> Result<DecodedHistogram> {
    let cookie = u32::from_be_bytes(read_array(reader)?);
    let kind = cookie & !SIZE_MASK;
    let header = match kind {
        COOKIE_V0 => parse_header_v0(&read_array(reader)?),
        COOKIE_V1 | COOKIE_V2 => parse_header(&read_array(reader)?),
        _ => {
            return Err(usage!(
                "unknown histogram encoding 0x{cookie:08x}: expected V0, V1 or V2 of HdrHistogram"
            ));
        }
    };
    let layout = Layout::new(header.digits, header.lowest)?;
    let mut counts = match kind {
        COOKIE_V2 => CountDecoder::varint(),
        // The lowest bit of the size marks run lengths, which these encodings do not have.
        _ => CountDecoder::word(((cookie & SIZE_MASK) >> 4) & 0xe)?,
    };
    let bins = decode_counts(reader, header.payload_bytes, &layout, &mut counts, budget)?;
    let step = 1 << layout.unit_magnitude;
    Ok(DecodedHistogram { bins, digits: header.digits, step, ratio: header.ratio })
}

fn read_array<const N: usize>(reader: &mut impl BufRead) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    reader.read_exact(&mut bytes).map_err(|_| ends_early())?;
    Ok(bytes)
}

/// Parses digits, lowest and highest value, and the number of values.
fn parse_header_v0(bytes: &[u8; HEADER_BYTES_V0]) -> Header {
    Header {
        digits: word_at(bytes, 0),
        lowest: long_at(bytes, 4),
        payload_bytes: None,
        ratio: None,
    }
}

/// Parses the size of the counts, an offset, digits, lowest and highest value, and a ratio.
///
/// The offset only rotates the array of counts in memory. Counts are written in the order of their
/// values, so that the offset has no effect here; some implementations write 1 for it. The ratio
/// has an effect in a DoubleHistogram only.
fn parse_header(bytes: &[u8; HEADER_BYTES]) -> Header {
    Header {
        digits: word_at(bytes, 8),
        lowest: long_at(bytes, 12),
        payload_bytes: Some(word_at(bytes, 0).into()),
        ratio: Some(f64::from_bits(long_at(bytes, 28))),
    }
}

fn word_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn long_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Decodes counts until the end of the payload, and assigns them to bins.
fn decode_counts(
    reader: &mut impl BufRead,
    payload_bytes: Option<u64>,
    layout: &Layout,
    counts: &mut CountDecoder,
    budget: &mut BinBudget,
) -> Result<Vec<Bin>> {
    let mut bins = Vec::new();
    let mut index = 0_u64;
    let mut left = payload_bytes.unwrap_or(u64::MAX);
    while left > 0 {
        let buffer = reader.fill_buf().map_err(|e| damaged(&e.to_string()))?;
        if buffer.is_empty() {
            break;
        }
        let length = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        for &byte in &buffer[..length] {
            match counts.push(byte) {
                None => {}
                Some(count @ 1..) => {
                    budget.take_one()?;
                    bins.push(layout.bin(index, count.unsigned_abs())?);
                    index = index.saturating_add(1);
                }
                Some(0) => index = index.saturating_add(1),
                Some(gap) if counts.has_gaps() => index = index.saturating_add(gap.unsigned_abs()),
                Some(_) => return Err(damaged("a count is negative")),
            }
        }
        reader.consume(length);
        left -= length as u64;
    }
    let is_cut = payload_bytes.is_some() && left > 0;
    if is_cut || !counts.is_complete() {
        return Err(ends_early());
    }
    Ok(bins)
}

/// Assembles counts from bytes.
enum CountDecoder {
    /// Numbers of a fixed size, most significant byte first.
    Word { size: u32, value: u64, bytes: u32 },
    /// LEB128 of at most nine bytes, zigzag. A negative number is a gap of so many bins.
    Varint { value: u64, bytes: u32 },
}

impl CountDecoder {
    fn word(size: u32) -> Result<Self> {
        match size {
            2 | 4 | 8 => Ok(Self::Word { size, value: 0, bytes: 0 }),
            _ => Err(damaged("the size of a count is not 2, 4 or 8 bytes")),
        }
    }

    fn varint() -> Self {
        Self::Varint { value: 0, bytes: 0 }
    }

    fn has_gaps(&self) -> bool {
        matches!(self, Self::Varint { .. })
    }

    /// Whether the last byte ended a count.
    fn is_complete(&self) -> bool {
        matches!(self, Self::Word { bytes: 0, .. } | Self::Varint { bytes: 0, .. })
    }

    /// Adds a byte, and returns the count that it completes.
    fn push(&mut self, byte: u8) -> Option<i64> {
        match self {
            Self::Word { size, value, bytes } => {
                *value = (*value << 8) | u64::from(byte);
                *bytes += 1;
                if *bytes < *size {
                    return None;
                }
                let shift = 64 - 8 * *size;
                let count = (*value << shift).cast_signed() >> shift;
                (*value, *bytes) = (0, 0);
                Some(count)
            }
            Self::Varint { value, bytes } => {
                let is_last = *bytes == MAX_VARINT_BYTES - 1;
                let part = if is_last { byte } else { byte & 0x7f };
                *value |= u64::from(part) << (7 * *bytes);
                *bytes += 1;
                if byte & 0x80 != 0 && !is_last {
                    return None;
                }
                let number = (*value >> 1).cast_signed() ^ -(*value & 1).cast_signed();
                (*value, *bytes) = (0, 0);
                Some(number)
            }
        }
    }
}

/// The layout of bins, which follows from the number of digits and the lowest value.
struct Layout {
    /// The smallest bin has two to this power values.
    unit_magnitude: u32,
    /// Half of the bins in each bucket are two to this power.
    half_magnitude: u32,
}

impl Layout {
    fn new(digits: u32, lowest: u64) -> Result<Self> {
        if digits > MAX_DIGITS {
            return Err(damaged("it has more than 5 digits"));
        }
        let unit_magnitude = lowest.checked_ilog2();
        let unit_magnitude = unit_magnitude.ok_or_else(|| damaged("its lowest value is 0"))?;
        // A bucket resolves twice as many values as there are numbers with so many digits.
        let bins: u64 = 2 * 10_u64.pow(digits);
        let half_magnitude = bins.next_power_of_two().ilog2() - 1;
        // Java's implementation allows 62, that of Rust, which stores reports, 63.
        if unit_magnitude + half_magnitude + 1 > MAX_MAGNITUDE {
            return Err(damaged("its lowest value is too large"));
        }
        Ok(Self { unit_magnitude, half_magnitude })
    }

    /// Returns the bin at an index in the array of counts.
    fn bin(&self, index: u64, count: u64) -> Result<Bin> {
        let half = 1 << self.half_magnitude;
        // The lower half of the first bucket has no counterpart in others.
        let (bucket, position) = match index >> self.half_magnitude {
            0 => (0, index),
            bucket => (bucket - 1, half + (index & (half - 1))),
        };
        let too_large = || damaged("a value exceeds 63 bits");
        let magnitude = bucket.saturating_add(self.unit_magnitude.into());
        if magnitude >= 63 {
            return Err(too_large());
        }
        let end = u128::from(position + 1) << magnitude;
        if end > 1 << 63 {
            return Err(too_large());
        }
        Ok(Bin { lowest: position << magnitude, highest: end as u64 - 1, count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout_bins(digits: u32, lowest: u64, indices: &[u64]) -> Vec<(u64, u64)> {
        let layout = Layout::new(digits, lowest).unwrap();
        let bin = |&index: &u64| {
            let bin = layout.bin(index, 1).unwrap();
            (bin.lowest, bin.highest)
        };
        indices.iter().map(bin).collect()
    }

    #[test]
    fn bins_follow_the_specification() {
        // 3 digits: 2,048 values of one unit, then 1,024 bins of two, and so on.
        assert_eq!(
            layout_bins(3, 1, &[0, 1, 1_023, 1_024, 2_047, 2_048, 3_071, 3_072]),
            [
                (0, 0),
                (1, 1),
                (1_023, 1_023),
                (1_024, 1_024),
                (2_047, 2_047),
                (2_048, 2_049),
                (4_094, 4_095),
                (4_096, 4_099)
            ]
        );
        // jHiccup's defaults: 2 digits and a lowest value of 20 us, that is steps of 2^14 ns.
        assert_eq!(
            layout_bins(2, 20_000, &[0, 20, 255, 256]),
            [(0, 16_383), (327_680, 344_063), (4_177_920, 4_194_303), (4_194_304, 4_227_071)]
        );
        assert_eq!(layout_bins(0, 1, &[0, 1, 2, 3]), [(0, 0), (1, 1), (2, 3), (4, 7)]);
        assert!(Layout::new(3, 1).unwrap().bin(54_271, 1).is_ok());
        for index in [1 << 17, 1 << 40, u64::MAX] {
            assert!(Layout::new(3, 1).unwrap().bin(index, 1).is_err(), "{index}");
        }
        assert!(Layout::new(6, 1).is_err() && Layout::new(3, 0).is_err());
        assert!(Layout::new(5, 1 << 50).is_err());
    }

    /// Returns values at the edges of bins, from the smallest to the largest one of 63 bits.
    fn edge_values(lowest: u64) -> Vec<u64> {
        let powers = lowest.ilog2()..63;
        let edges = powers.flat_map(|power| [(1_u64 << power) - 1, 1 << power, 3 << power >> 1]);
        edges.chain([0, i64::MAX as u64]).collect()
    }

    /// Returns the bins of a histogram of the implementation for Rust.
    fn other_bins(histogram: &hdrhistogram::Histogram<u64>) -> Vec<Bin> {
        let recorded = histogram.iter_recorded();
        let bin = |value: u64, count| Bin {
            lowest: histogram.lowest_equivalent(value),
            highest: histogram.highest_equivalent(value),
            count,
        };
        recorded.map(|at| bin(at.value_iterated_to(), at.count_at_value())).collect()
    }

    #[test]
    fn coarse_layouts_match_another_implementation() {
        use hdrhistogram::serialization::{Serializer as _, V2Serializer};
        for (digits, count_magnitude) in [(0, 1), (1, 5), (2, 8), (3, 11), (4, 15), (5, 18)] {
            for sum in 55..=63 {
                let lowest = 1 << (sum - count_magnitude);
                let Ok(mut histogram) =
                    hdrhistogram::Histogram::<u64>::new_with_bounds(lowest, u64::MAX, digits)
                else {
                    continue;
                };
                edge_values(lowest).into_iter().for_each(|value| histogram.record(value).unwrap());
                let mut bytes = Vec::new();
                V2Serializer::new().serialize(&histogram, &mut bytes).unwrap();
                let decoded = decode_bytes(&bytes, &mut BinBudget::for_bytes(bytes.len())).unwrap();
                assert_eq!(decoded.bins, other_bins(&histogram), "{digits} digits, {lowest}");
                assert_eq!((decoded.digits, decoded.step), (digits.into(), lowest));
            }
        }
        for (digits, magnitude) in [(0, 62), (1, 58), (2, 55), (3, 52), (4, 48), (5, 45)] {
            assert!(Layout::new(digits, 1 << magnitude).is_ok(), "{digits}");
            assert!(Layout::new(digits, 1 << (magnitude + 1)).is_err(), "{digits}");
        }
    }

    #[test]
    fn varints_are_zigzag_of_nine_bytes() {
        let decode = |bytes: &[u8]| {
            let mut decoder = CountDecoder::varint();
            let counts: Vec<i64> = bytes.iter().filter_map(|&byte| decoder.push(byte)).collect();
            (counts, decoder.is_complete())
        };
        assert_eq!(decode(&[2, 1, 0x80, 0x01]), (vec![1, -1, 64], true));
        assert_eq!(decode(&[0xff; 9]), (vec![i64::MIN], true));
        assert_eq!(decode(&[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]).0, [i64::MAX]);
        assert_eq!(decode(&[0x80]), (vec![], false));
    }

    #[test]
    fn words_are_signed() {
        let decode = |size, bytes: &[u8]| {
            let mut decoder = CountDecoder::word(size).unwrap();
            bytes.iter().filter_map(|&byte| decoder.push(byte)).collect::<Vec<i64>>()
        };
        assert_eq!(decode(2, &[0, 7, 0xff, 0xff, 1]), [7, -1]);
        assert_eq!(decode(8, &[0, 0, 0, 0, 0, 0, 1, 0]), [256]);
        assert!(CountDecoder::word(3).is_err());
    }

    /// Encodes a histogram without compression.
    fn encode(cookie: u32, digits: u32, lowest: u64, payload: &[u8]) -> String {
        let mut bytes = cookie.to_be_bytes().to_vec();
        if cookie & !SIZE_MASK != COOKIE_V0 {
            bytes.extend((payload.len() as u32).to_be_bytes());
            bytes.extend(0_u32.to_be_bytes());
        }
        bytes.extend(digits.to_be_bytes());
        bytes.extend(lowest.to_be_bytes());
        bytes.extend(u64::MAX.to_be_bytes());
        bytes.extend(0_u64.to_be_bytes());
        bytes.extend(payload);
        BASE64.encode(bytes)
    }

    fn decode_text(text: &str) -> Result<DecodedHistogram> {
        decode(text, &mut BinBudget::for_bytes(text.len()))
    }

    #[test]
    fn all_encodings_agree() {
        let expected = DecodedHistogram {
            bins: vec![
                Bin { lowest: 1, highest: 1, count: 3 },
                Bin { lowest: 3, highest: 3, count: 1 },
            ],
            digits: 3,
            step: 1,
            ratio: None,
        };
        for (cookie, payload) in [
            (0x1c84_9328, &[0, 0, 0, 3, 0, 0, 0, 1][..]),
            (0x1c84_9321, &[0, 0, 0, 3, 0, 0, 0, 1]),
            (0x1c84_9313, &[1, 6, 1, 2]),
        ] {
            assert_eq!(decode_text(&encode(cookie, 3, 1, payload)).unwrap(), expected);
        }
    }

    #[test]
    fn double_histograms_are_scaled() {
        let mut bytes = vec![0x0c, 0x72, 0x12, 0x4e];
        bytes.extend([0; 12]);
        let mut whole = BASE64.decode(encode(0x1c84_9313, 0, 1, &[1, 6, 1, 2])).unwrap();
        whole[32..40].copy_from_slice(&0.125_f64.to_be_bytes());
        bytes.extend(whole);
        let decoded = decode_text(&BASE64.encode(bytes)).unwrap();
        assert_eq!(decoded.ratio, Some(0.125));
        // A bin of one and a bin of four eighths of a millisecond.
        let parts = decoded.into_parts(0.125, 1_000_000).unwrap();
        let bin = |lowest, highest, count| Bin { lowest, highest, count };
        assert_eq!(parts.bins, [bin(125_000, 249_999, 3), bin(500_000, 999_999, 1)]);
        assert_eq!((parts.step, parts.ratio), (125_000, None));
        for ratio in [-1.0, f64::NAN, f64::INFINITY, 1e300] {
            let bins = vec![bin(1, 1, 1)];
            let decoded = DecodedHistogram { bins, digits: 3, step: 1, ratio: None };
            assert!(decoded.into_parts(ratio, 1).is_err(), "{ratio}");
        }
    }

    #[test]
    fn invalid_histograms_are_named() {
        for (text, says) in [
            ("%".to_owned(), "base64"),
            (BASE64.encode([0x0c, 0x72, 0x12, 0x4f, 0, 0, 0, 0]), "ends early"),
            (BASE64.encode([1, 2, 3, 4, 5]), "unknown histogram encoding 0x01020304"),
            (BASE64.encode([0x1c]), "ends early"),
            (BASE64.encode([0x1c, 0x84, 0x93, 0x14, 0, 0, 1, 0]), "ends early"),
            (encode(0x1c84_9313, 3, 1, &[0x80]), "ends early"),
            (encode(0x1c84_9321, 3, 1, &[0xff, 0xff]), "negative"),
            (encode(0x1c84_9331, 3, 1, &[0xff, 0xff]), "negative"),
            (encode(0x1c84_9361, 3, 1, &[]), "2, 4 or 8"),
            (encode(0x1c84_9313, 9, 1, &[]), "5 digits"),
            (encode(0x1c84_9313, 3, 0, &[]), "lowest value"),
            (encode(0x1c84_9313, 3, 1, &[0xff, 0xff, 0xff, 0x7f, 2]), "63 bits"),
        ] {
            let error = decode_text(&text).unwrap_err().to_string();
            assert!(error.contains(says), "{says}: {error}");
        }
        // Two gaps of 2⁶³ bins, and a bin without a value.
        let beyond = [[0xff; 18].as_slice(), &[0]].concat();
        assert!(decode_text(&encode(0x1c84_9313, 3, 1, &beyond)).unwrap().bins.is_empty());
        let mut budget = BinBudget(1);
        let two_bins = encode(0x1c84_9313, 3, 1, &[2, 2]);
        assert!(decode(&two_bins, &mut budget).unwrap_err().to_string().contains("too many"));
    }
}
