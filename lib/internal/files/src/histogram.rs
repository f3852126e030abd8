//! The stored histogram of a report: HDR V2 with three significant digits, which contains every
//! tick.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::Histogram as Hdr;

use crate::hdr_encoding;
use crate::model::model;

pub use crate::histogram_error::{ENCODING, HistogramDamage, HistogramError};

/// Number of significant decimal digits. A stored value is within 0.1 % of the measured one.
const SIGNIFICANT_DIGITS: u8 = 3;

/// First comment of an interval log that osjitter writes. It describes values and tags, and
/// identifies such logs.
pub const LOG_COMMENT: &str = "[Lateness in nanoseconds; the tag is the subject]";

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
/// Never panics, since the histogram grows to any `i64`.
#[must_use]
pub fn pack(lateness_ns: impl IntoIterator<Item = i64>) -> Histogram {
    pack_counts(lateness_ns.into_iter().map(|value| (value, 1)))
}

/// Packs values with their counts. The sum of the counts saturates.
///
/// # Panics
/// Never panics, for the reason given at [`pack`].
#[must_use]
pub fn pack_counts(counted: impl IntoIterator<Item = (i64, u64)>) -> Histogram {
    let histogram = from_counts(counted);
    Histogram {
        count: histogram.len(),
        encoding: ENCODING.to_owned(),
        data: BASE64.encode(hdr_encoding::encode_v2(&histogram)),
        overflow: None,
    }
}

/// Collects values with their counts as [`pack_counts`], without encoding them.
///
/// # Panics
/// Never panics, for the reason given at [`pack`].
#[must_use]
pub fn from_counts(counted: impl IntoIterator<Item = (i64, u64)>) -> Hdr<u64> {
    let mut histogram = empty();
    for (value, count) in counted {
        let value = u64::try_from(value).unwrap_or(0);
        histogram.record_n(value, count).expect("an auto-resizing histogram takes any i64");
    }
    histogram
}

/// Returns a histogram without values that has the digits of a stored one.
///
/// # Panics
/// Never panics, since the number of digits is within the bounds.
#[must_use]
pub fn empty() -> Hdr<u64> {
    Hdr::new(SIGNIFICANT_DIGITS).expect("3 digits are within the bounds")
}

/// Decodes a stored histogram.
///
/// # Errors
/// Returns an error if the encoding is unknown, the data is damaged, or the count does not match.
pub fn unpack(stored: &Histogram) -> Result<Hdr<u64>, HistogramError> {
    if stored.encoding != ENCODING {
        return Err(HistogramError::OtherEncoding(stored.encoding.clone()));
    }
    let bytes = BASE64.decode(&stored.data).map_err(HistogramError::NotBase64)?;
    let histogram = hdr_encoding::decode_v2(&bytes)?;
    if histogram.len() != stored.count {
        return Err(HistogramError::OtherCount { holds: histogram.len(), states: stored.count });
    }
    Ok(histogram)
}

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
}
