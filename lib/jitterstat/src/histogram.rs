//! The histogram kept in a report: HDR V2, three significant digits, no tick left out.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};

use crate::report;

/// Significant decimal digits of the stored histogram: a stored value is within 0.1 % of the measured one.
const SIGNIFICANT_DIGITS: u8 = 3;

/// How [`report::Histogram::data`] is written.
pub const ENCODING: &str = "hdr-v2-base64";

/// Packs lateness into a histogram. An early tick counts at 0, so that `count` is the number of values given.
///
/// # Panics
/// Never: the histogram grows to any value an `i64` holds, and writing to memory does not fail.
#[must_use]
pub fn pack(lateness_ns: impl IntoIterator<Item = i64>) -> report::Histogram {
    let mut histogram = Histogram::<u64>::new(SIGNIFICANT_DIGITS).expect("3 digits are within the bounds");
    for value in lateness_ns {
        let value = u64::try_from(value).unwrap_or(0);
        histogram.record(value).expect("an auto-resizing histogram takes any i64");
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
    let histogram: Histogram<u64> = Deserializer::new()
        .deserialize(&mut bytes.as_slice())
        .map_err(|e| format!("histogram data is damaged: {e}"))?;
    if histogram.len() != stored.count {
        return Err(format!("histogram holds {} values but states {}", histogram.len(), stored.count));
    }
    Ok(histogram)
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
}
