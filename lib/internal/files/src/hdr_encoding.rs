//! The binary encodings of the HdrHistogram project: reads V0, V1 and V2, compressed or not, and
//! writes V2.
//!
//! A histogram is decoded into its recorded bins in the layout of the source, since a conversion to
//! another number of digits would change the values.
//!
//! The crate `hdrhistogram` writes them. It reads V2 only, and allocates the counts that a header
//! promises, so that the reader is our own. The tests compare both readers.

use std::borrow::Cow;
use std::io::{BufRead, BufReader};

use flate2::bufread::ZlibDecoder;
use hdrhistogram::Histogram as Hdr;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer, V2Serializer};

use crate::histogram_error::{HistogramDamage, HistogramError};

/// First words of an encoded histogram. The second hexadecimal digit from the right is the size of
/// a count.
const COOKIE_V0: u32 = 0x1c84_9308;
const COOKIE_V1: u32 = 0x1c84_9301;
const COOKIE_V2: u32 = 0x1c84_9303;
/// First words of a compressed histogram, which contains an encoded one.
const COMPRESSED_COOKIE_V2: u32 = 0x1c84_9304;
const COMPRESSED_COOKIES: [u32; 3] = [0x1c84_9309, 0x1c84_9302, COMPRESSED_COOKIE_V2];
/// First words of a DoubleHistogram, plain and compressed. The number of digits and a range follow,
/// and then an encoded histogram.
const DOUBLE_COOKIES: [u32; 2] = [0x0c72_124e, 0x0c72_124f];
const DOUBLE_HEADER_BYTES: usize = 16;
/// The digits of a cookie that are not part of its kind.
const SIZE_MASK: u32 = 0xf0;
/// Sizes of the header after the cookie.
const HEADER_BYTES_V0: usize = 28;
const HEADER_BYTES: usize = 36;
/// Maximum size of the counts: five digits over the range of a `u64` are 6.2 million counts of at
/// most nine bytes each.
const MAX_PAYLOAD_BYTES: u64 = 64 << 20;
/// Maximum number of significant digits in any implementation.
const MAX_DIGITS: u32 = 5;
/// Maximum number of bits of the first bucket in any implementation. A coarse histogram has only
/// part of this bucket below the largest value.
const MAX_MAGNITUDE: u32 = 63;
/// Size of the largest varint of V2, whose last byte has eight bits of the number.
const MAX_VARINT_BYTES: u32 = 9;

type Result<T> = std::result::Result<T, HistogramError>;

/// A recorded bin. All values from `lowest` to `highest` are equivalent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedBin {
    /// The smallest value.
    pub lowest: u64,
    /// The largest value.
    pub highest: u64,
    /// Number of values, at least one.
    pub count: u64,
}

impl RecordedBin {
    /// Returns the value of the bin in a mean.
    #[must_use]
    pub fn median(&self) -> u64 {
        self.lowest + (self.highest - self.lowest).div_ceil(2)
    }
}

/// A decoded histogram.
#[derive(Debug, PartialEq)]
pub struct DecodedHistogram {
    /// The recorded bins in ascending order.
    pub bins: Vec<RecordedBin>,
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
            is_possible.then_some(parts).ok_or(HistogramDamage::Fraction)
        };
        let convert = |bin: RecordedBin| {
            let lowest = to_parts(bin.lowest as f64)? as u64;
            let end = to_parts(bin.highest as f64 + 1.0)?.ceil() as u64;
            Ok(RecordedBin { lowest, highest: end.saturating_sub(1).max(lowest), count: bin.count })
        };
        let bins = self.bins.into_iter().map(convert).collect::<Result<_>>()?;
        let step = (to_parts(self.step as f64)? as u64).max(1);
        Ok(Self { bins, digits: self.digits, step, ratio: None })
    }
}

/// The number of bins that may still be decoded. It bounds the time for a log, since a compressed
/// histogram can contain a thousand bins for each of its bytes.
#[derive(Debug)]
pub struct BinBudget(u64);

impl BinBudget {
    /// Creates the budget for a text of this size. Real logs have less than one bin per byte.
    #[must_use]
    pub fn for_bytes(bytes: usize) -> Self {
        const BINS_PER_BYTE: u64 = 16;
        const MIN_BINS: u64 = 1 << 20;
        Self((bytes as u64).saturating_mul(BINS_PER_BYTE).saturating_add(MIN_BINS))
    }

    fn take_one(&mut self) -> Result<()> {
        let left = self.0.checked_sub(1).ok_or(HistogramDamage::TooManyBins)?;
        self.0 = left;
        Ok(())
    }
}

/// Decodes a histogram, compressed or not.
///
/// # Errors
/// Returns an error if the encoding is unknown or the data is damaged. This includes more bins than
/// the budget allows.
pub fn decode(bytes: &[u8], budget: &mut BinBudget) -> Result<DecodedHistogram> {
    let (cookie, _) = split_word(bytes)?;
    if DOUBLE_COOKIES.contains(&cookie) {
        let encoded = bytes.get(DOUBLE_HEADER_BYTES..).ok_or(HistogramError::EndsEarly)?;
        let (header, bins) = decode_whole(encoded, budget)?;
        return Ok(header.histogram(bins, header.ratio));
    }
    let (header, bins) = decode_whole(bytes, budget)?;
    Ok(header.histogram(bins, None))
}

/// Decodes a histogram in V2, compressed or not, in bounded memory.
///
/// # Errors
/// Returns an error if the encoding is another one or the data is damaged. This includes bins above
/// the largest value that the header states, and a header with an offset or a ratio, which is not
/// one of ours.
pub fn decode_v2(bytes: &[u8]) -> Result<Hdr<u64>> {
    let (cookie, _) = split_word(bytes)?;
    if ![COOKIE_V2, COMPRESSED_COOKIE_V2].contains(&(cookie & !SIZE_MASK)) {
        return Err(HistogramError::OtherFormat(cookie));
    }
    let (header, bins) = decode_whole(bytes, &mut BinBudget::for_bytes(bytes.len()))?;
    if header.offset != 0 || header.ratio != Some(1.0) {
        return Err(HistogramDamage::OffsetOrRatio.into());
    }
    let digits = u8::try_from(header.digits).unwrap_or(u8::MAX);
    let mut histogram = Hdr::new_with_bounds(header.lowest, header.highest, digits)
        .map_err(HistogramDamage::Layout)?;
    for bin in &bins {
        histogram.record_n(bin.lowest, bin.count).map_err(HistogramDamage::Value)?;
    }
    // The maximum is that of the last bin, even if the only one is that of 0.
    if let Some(last) = bins.last() {
        histogram.record_n(last.highest, 0).map_err(HistogramDamage::Value)?;
    }
    Ok(histogram)
}

/// Decodes a histogram of whole numbers.
fn decode_whole(bytes: &[u8], budget: &mut BinBudget) -> Result<(Header, Vec<RecordedBin>)> {
    let (cookie, rest) = split_word(bytes)?;
    if !COMPRESSED_COOKIES.contains(&(cookie & !SIZE_MASK)) {
        return decode_plain(&mut &*bytes, budget);
    }
    let (length, rest) = split_word(rest)?;
    let compressed = usize::try_from(length)
        .ok()
        .and_then(|length| rest.get(..length))
        .ok_or(HistogramError::EndsEarly)?;
    decode_plain(&mut BufReader::new(ZlibDecoder::new(compressed)), budget)
}

fn split_word(bytes: &[u8]) -> Result<(u32, &[u8])> {
    let (word, rest) = bytes.split_first_chunk().ok_or(HistogramError::EndsEarly)?;
    Ok((u32::from_be_bytes(*word), rest))
}

/// The header of an encoded histogram.
struct Header {
    digits: u32,
    /// The smallest value that differs from 0.
    lowest: u64,
    /// The largest value that the bins must cover.
    highest: u64,
    /// Size of the counts; `None` in V0, where they extend to the end.
    payload_bytes: Option<u64>,
    /// By how much the array of counts is rotated in memory, which V0 does not have.
    offset: u32,
    /// The factor of a DoubleHistogram, which V0 does not have.
    ratio: Option<f64>,
}

impl Header {
    /// Parses digits, lowest and highest value, and the number of values.
    fn parse_v0(bytes: &[u8; HEADER_BYTES_V0]) -> Self {
        Self {
            digits: word_at(bytes, 0),
            lowest: long_at(bytes, 4),
            highest: long_at(bytes, 12),
            payload_bytes: None,
            offset: 0,
            ratio: None,
        }
    }

    /// Parses the size of the counts, an offset, digits, lowest and highest value, and a ratio.
    ///
    /// Counts are written in the order of their values, so that the offset has no effect on them;
    /// some implementations write 1 for it.
    /// The ratio has an effect in a DoubleHistogram only.
    fn parse(bytes: &[u8; HEADER_BYTES]) -> Self {
        Self {
            digits: word_at(bytes, 8),
            lowest: long_at(bytes, 12),
            highest: long_at(bytes, 20),
            payload_bytes: Some(word_at(bytes, 0).into()),
            offset: word_at(bytes, 4),
            ratio: Some(f64::from_bits(long_at(bytes, 28))),
        }
    }

    fn histogram(&self, bins: Vec<RecordedBin>, ratio: Option<f64>) -> DecodedHistogram {
        // The layout is valid, since bins were decoded with it.
        let step = 1 << self.lowest.checked_ilog2().unwrap_or(0);
        DecodedHistogram { bins, digits: self.digits, step, ratio }
    }
}

fn word_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn long_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Decodes an encoded histogram that is not compressed.
fn decode_plain(
    reader: &mut dyn BufRead,
    budget: &mut BinBudget,
) -> Result<(Header, Vec<RecordedBin>)> {
    let cookie = u32::from_be_bytes(read_array(reader)?);
    let kind = cookie & !SIZE_MASK;
    let header = match kind {
        COOKIE_V0 => Header::parse_v0(&read_array(reader)?),
        COOKIE_V1 | COOKIE_V2 => Header::parse(&read_array(reader)?),
        _ => return Err(HistogramError::OtherFormat(cookie)),
    };
    let layout = Layout::new(header.digits, header.lowest)?;
    let mut counts = match kind {
        COOKIE_V2 => CountDecoder::varint(),
        // The lowest bit of the size marks run lengths, which these encodings do not have.
        _ => CountDecoder::word(((cookie & SIZE_MASK) >> 4) & 0xe)?,
    };
    let bins = decode_counts(reader, header.payload_bytes, &layout, &mut counts, budget)?;
    Ok((header, bins))
}

fn read_array<const N: usize>(reader: &mut dyn BufRead) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    reader.read_exact(&mut bytes).map_err(|_| HistogramError::EndsEarly)?;
    Ok(bytes)
}

/// Decodes counts until the end of the payload, and assigns them to bins.
fn decode_counts(
    reader: &mut dyn BufRead,
    payload_bytes: Option<u64>,
    layout: &Layout,
    counts: &mut CountDecoder,
    budget: &mut BinBudget,
) -> Result<Vec<RecordedBin>> {
    let mut bins = Vec::new();
    let mut index = 0_u64;
    let payload = payload_bytes.unwrap_or(u64::MAX);
    let mut read = 0;
    while read < payload {
        let buffer = reader.fill_buf().map_err(|e| HistogramDamage::Compression(e.to_string()))?;
        if buffer.is_empty() {
            break;
        }
        if read >= MAX_PAYLOAD_BYTES {
            return Err(HistogramError::TooLarge);
        }
        let length = buffer.len().min(usize::try_from(payload - read).unwrap_or(usize::MAX));
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
                Some(_) => return Err(HistogramDamage::NegativeCount.into()),
            }
        }
        reader.consume(length);
        read += length as u64;
    }
    let is_cut = payload_bytes.is_some() && read < payload;
    if is_cut || !counts.is_complete() {
        return Err(HistogramError::EndsEarly);
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
            _ => Err(HistogramDamage::CountSize.into()),
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

/// Encodes a histogram in V2 without compression. The encoding has counts of 63 bits; a larger one
/// becomes the largest of these.
///
/// # Panics
/// Never panics, for the reasons given at `encode`.
#[must_use]
pub fn encode_v2(histogram: &Hdr<u64>) -> Vec<u8> {
    encode(histogram, V2Serializer::new())
}

/// Encodes a histogram in V2 with compression.
///
/// # Panics
/// Never panics, for the reasons given at `encode`.
#[must_use]
pub fn encode_compressed_v2(histogram: &Hdr<u64>) -> Vec<u8> {
    encode(histogram, V2DeflateSerializer::new())
}

/// # Panics
/// Never panics, since the counts are bounded, and writing to memory does not fail.
fn encode<S: Serializer>(histogram: &Hdr<u64>, mut serializer: S) -> Vec<u8> {
    let mut bytes = Vec::new();
    let written = serializer.serialize(&bound_counts(histogram), &mut bytes);
    assert!(written.is_ok(), "a histogram with counts of 63 bits can be encoded");
    bytes
}

/// Replaces counts of more than 63 bits by the largest one of 63 bits.
fn bound_counts(histogram: &Hdr<u64>) -> Cow<'_, Hdr<u64>> {
    const MAX_COUNT: u64 = i64::MAX as u64;
    if histogram.len() <= MAX_COUNT {
        return Cow::Borrowed(histogram);
    }
    let mut bounded = Hdr::new_from(histogram);
    for recorded in histogram.iter_recorded() {
        let count = recorded.count_at_value().min(MAX_COUNT);
        bounded.saturating_record_n(recorded.value_iterated_to(), count);
    }
    // The largest value can have a count of 0.
    bounded.saturating_record_n(histogram.max(), 0);
    Cow::Owned(bounded)
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
            return Err(HistogramDamage::TooManyDigits.into());
        }
        let unit_magnitude = lowest.checked_ilog2();
        let unit_magnitude = unit_magnitude.ok_or(HistogramDamage::LowestIsZero)?;
        // A bucket resolves twice as many values as there are numbers with so many digits.
        let bins: u64 = 2 * 10_u64.pow(digits);
        let half_magnitude = bins.next_power_of_two().ilog2() - 1;
        // Java's implementation allows 62, that of Rust, which stores reports, 63.
        if unit_magnitude + half_magnitude + 1 > MAX_MAGNITUDE {
            return Err(HistogramDamage::LowestTooLarge.into());
        }
        Ok(Self { unit_magnitude, half_magnitude })
    }

    /// Returns the bin at an index in the array of counts.
    fn bin(&self, index: u64, count: u64) -> Result<RecordedBin> {
        let half = 1 << self.half_magnitude;
        // The lower half of the first bucket has no counterpart in others.
        let (bucket, position) = match index >> self.half_magnitude {
            0 => (0, index),
            bucket => (bucket - 1, half + (index & (half - 1))),
        };
        let too_large = || HistogramError::from(HistogramDamage::ValueTooLarge);
        let magnitude = bucket.saturating_add(self.unit_magnitude.into());
        if magnitude >= 63 {
            return Err(too_large());
        }
        let end = u128::from(position + 1) << magnitude;
        if end > 1 << 63 {
            return Err(too_large());
        }
        Ok(RecordedBin { lowest: position << magnitude, highest: end as u64 - 1, count })
    }
}

#[cfg(test)]
mod tests;
