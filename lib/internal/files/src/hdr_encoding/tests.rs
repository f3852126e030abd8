//! Tests of the encodings, also against the reader of another implementation.

use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use hdrhistogram::serialization::Deserializer;
use proptest::prelude::*;

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
fn other_bins(histogram: &Hdr<u64>) -> Vec<RecordedBin> {
    let recorded = histogram.iter_recorded();
    let bin = |value: u64, count| RecordedBin {
        lowest: histogram.lowest_equivalent(value),
        highest: histogram.highest_equivalent(value),
        count,
    };
    recorded.map(|at| bin(at.value_iterated_to(), at.count_at_value())).collect()
}

fn decode_any(bytes: &[u8]) -> Result<DecodedHistogram> {
    decode(bytes, &mut BinBudget::for_bytes(bytes.len()))
}

#[test]
fn coarse_layouts_match_another_implementation() {
    for (digits, count_magnitude) in [(0, 1), (1, 5), (2, 8), (3, 11), (4, 15), (5, 18)] {
        for sum in 55..=63 {
            let lowest = 1 << (sum - count_magnitude);
            let Ok(mut histogram) = Hdr::<u64>::new_with_bounds(lowest, u64::MAX, digits) else {
                continue;
            };
            edge_values(lowest).into_iter().for_each(|value| histogram.record(value).unwrap());
            let decoded = decode_any(&encode_v2(&histogram)).unwrap();
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
fn encode(cookie: u32, digits: u32, lowest: u64, payload: &[u8]) -> Vec<u8> {
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
    bytes
}

#[test]
fn all_encodings_agree() {
    let expected = DecodedHistogram {
        bins: vec![
            RecordedBin { lowest: 1, highest: 1, count: 3 },
            RecordedBin { lowest: 3, highest: 3, count: 1 },
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
        assert_eq!(decode_any(&encode(cookie, 3, 1, payload)).unwrap(), expected);
    }
}

#[test]
fn double_histograms_are_scaled() {
    let mut bytes = vec![0x0c, 0x72, 0x12, 0x4e];
    bytes.extend([0; 12]);
    let mut whole = encode(0x1c84_9313, 0, 1, &[1, 6, 1, 2]);
    whole[32..40].copy_from_slice(&0.125_f64.to_be_bytes());
    bytes.extend(whole);
    let decoded = decode_any(&bytes).unwrap();
    assert_eq!(decoded.ratio, Some(0.125));
    // A bin of one and a bin of four eighths of a millisecond.
    let parts = decoded.into_parts(0.125, 1_000_000).unwrap();
    let bin = |lowest, highest, count| RecordedBin { lowest, highest, count };
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
    for (bytes, says) in [
        (vec![0x0c, 0x72, 0x12, 0x4f, 0, 0, 0, 0], "ends early"),
        (vec![1, 2, 3, 4, 5], "unknown histogram encoding 0x01020304"),
        (vec![0x1c], "ends early"),
        (vec![0x1c, 0x84, 0x93, 0x14, 0, 0, 1, 0], "ends early"),
        (encode(0x1c84_9313, 3, 1, &[0x80]), "ends early"),
        (encode(0x1c84_9321, 3, 1, &[0xff, 0xff]), "negative"),
        (encode(0x1c84_9331, 3, 1, &[0xff, 0xff]), "negative"),
        (encode(0x1c84_9361, 3, 1, &[]), "2, 4 or 8"),
        (encode(0x1c84_9313, 9, 1, &[]), "5 digits"),
        (encode(0x1c84_9313, 3, 0, &[]), "lowest value"),
        (encode(0x1c84_9313, 3, 1, &[0xff, 0xff, 0xff, 0x7f, 2]), "63 bits"),
    ] {
        let error = decode_any(&bytes).unwrap_err().to_string();
        assert!(error.contains(says), "{says}: {error}");
    }
    // Two gaps of 2⁶³ bins, and a bin without a value.
    let beyond = [[0xff; 18].as_slice(), &[0]].concat();
    assert!(decode_any(&encode(0x1c84_9313, 3, 1, &beyond)).unwrap().bins.is_empty());
    let mut budget = BinBudget(1);
    let two_bins = encode(0x1c84_9313, 3, 1, &[2, 2]);
    assert!(decode(&two_bins, &mut budget).unwrap_err().to_string().contains("too many"));
}

#[test]
fn empty_histograms_have_one_count() {
    let empty = Hdr::new(3).unwrap();
    let bytes = encode_v2(&empty);
    assert_eq!((bytes.len(), bytes[40]), (41, 0));
    assert_eq!(decode_v2(&bytes).unwrap(), empty);
}

#[test]
fn largest_value_may_have_no_count() {
    let mut histogram = Hdr::new(3).unwrap();
    histogram.record_n(5_000, 2).unwrap();
    histogram.record_n(1_000_000, 0).unwrap();
    let bytes = encode_v2(&histogram);
    // 3,298 bins without values, a count of 2, and 7,871 bins up to that of a million.
    assert_eq!(bytes[40..], [0xc3, 0x33, 4, 0xfd, 0x7a]);
}

#[test]
fn counts_above_63_bits_are_bounded() {
    let mut histogram = Hdr::new(3).unwrap();
    histogram.record_n(7, u64::MAX).unwrap();
    let decoded = decode_v2(&encode_v2(&histogram)).unwrap();
    assert_eq!(decoded.count_at(7), i64::MAX as u64);
}

/// A header of V2 that promises `payload` bytes of counts.
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
    assert!(decode_v2(&header(0, 3, 1 << 40)).unwrap().is_empty());
    for (bytes, expected) in [
        (header(u32::MAX, 3, 1 << 40), "ends early"),
        (header(0, 200, 1 << 40), "damaged"),
        (header(0, 3, 0), "damaged"),
        (header(0, 5, u64::MAX)[..20].to_vec(), "ends early"),
        (vec![0x1c], "ends early"),
        (vec![1, 2, 3, 4, 5], "unknown histogram encoding"),
    ] {
        let error = decode_v2(&bytes).unwrap_err();
        assert!(error.to_string().contains(expected), "{bytes:?}: {error}");
    }
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&header(u32::MAX, 3, u64::MAX)).unwrap();
    let mut zeros = std::io::repeat(0).take(MAX_PAYLOAD_BYTES + (1 << 20));
    std::io::copy(&mut zeros, &mut encoder).unwrap();
    let bomb = encoder.finish().unwrap();
    assert!(bomb.len() < 100_000);
    let mut bytes = 0x1c84_9314_u32.to_be_bytes().to_vec();
    bytes.extend(u32::try_from(bomb.len()).unwrap().to_be_bytes());
    bytes.extend(bomb);
    assert!(decode_v2(&bytes).unwrap_err().to_string().contains("inflates"));
}

#[test]
fn headers_of_stored_histograms_are_checked() {
    let good = encode_v2(&{
        let mut histogram = Hdr::new_with_bounds(1, 10_000, 3).unwrap();
        histogram.record(9_999).unwrap();
        histogram
    });
    assert_eq!(decode_v2(&good).unwrap().max(), 9_999);
    // The largest value that the bins cover is smaller than the recorded one.
    let mut low = good.clone();
    low[24..32].copy_from_slice(&2_u64.to_be_bytes());
    assert!(matches!(decode_v2(&low), Err(HistogramError::Damaged(_))));
    for (at, value) in [(8..12, &1_u32.to_be_bytes()[..]), (32..40, &2_f64.to_be_bytes()[..])] {
        let mut other = good.clone();
        other[at].copy_from_slice(value);
        let error = decode_v2(&other).unwrap_err();
        assert!(error.to_string().contains("an offset or a ratio"), "{error}");
    }
    let mut v1 = good;
    v1[3] = 0x41;
    assert_eq!(decode_v2(&v1), Err(HistogramError::OtherFormat(0x1c84_9341)));
}

/// Returns values with their counts. Both are spread over all magnitudes.
fn counted_values() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let spread = |bits: u32| (0..bits, any::<u64>()).prop_map(|(shift, value)| value >> 1 >> shift);
    proptest::collection::vec((spread(63), spread(60).prop_map(|count| count >> 8)), 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn encodings_match_another_implementation(
        values in counted_values(),
        // Five digits are slow in a test without optimization.
        digits in 0_u8..=4,
        lowest in 1_u64..100_000,
    ) {
        let mut histogram = Hdr::<u64>::new_with_bounds(lowest, 2 * lowest, digits).unwrap();
        histogram.auto(true);
        for (value, count) in values {
            histogram.record_n(value, count).unwrap();
        }
        for encoded in [encode_v2(&histogram), encode_compressed_v2(&histogram)] {
            let other = Deserializer::new().deserialize::<u64, _>(&mut encoded.as_slice()).unwrap();
            prop_assert_eq!(&decode_v2(&encoded).unwrap(), &other);
            prop_assert_eq!(decode_any(&encoded).unwrap().bins, other_bins(&histogram));
        }
    }

    /// A histogram that the other implementation reads is read in the same way.
    #[test]
    fn damaged_encodings_match_another_implementation(
        values in counted_values(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut histogram = Hdr::<u64>::new(2).unwrap();
        for (value, count) in values {
            histogram.record_n(value, count).unwrap();
        }
        let mut bytes = encode_v2(&histogram);
        // Not the length of the counts, of which the other implementation reads all that follow.
        let position = 8 + at.index(bytes.len() - 8);
        bytes[position] = byte;
        let is_minimum = bytes[40..].windows(9).any(|number| number == [0xff; 9]);
        if is_minimum {
            // The other implementation would negate it.
            return Ok(());
        }
        let other = Deserializer::new().deserialize::<u64, _>(&mut bytes.as_slice());
        if let Ok(other) = other && other.max() <= i64::MAX as u64 {
            prop_assert_eq!(&decode_v2(&bytes).unwrap(), &other);
        }
    }
}
