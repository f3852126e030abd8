//! Checks a [`Histogram`] that is deserialized.

use crate::layout::{MAX_BIN_BITS, MAX_FILE_BYTES};
use crate::snapshot::Histogram;

/// A histogram as it is stored, unchecked.
#[derive(serde::Deserialize)]
pub(crate) struct StoredHistogram {
    bits: u32,
    bins: Vec<(u32, u64)>,
    max_ns: u64,
    last: u32,
}

impl TryFrom<StoredHistogram> for Histogram {
    type Error = &'static str;

    fn try_from(stored: StoredHistogram) -> Result<Self, Self::Error> {
        let StoredHistogram { bits, bins, max_ns, last } = stored;
        if bits > MAX_BIN_BITS || u64::from(last) > MAX_FILE_BYTES / 8 {
            return Err("invalid layout of a histogram: expected that of a meter");
        }
        let is_in_order = bins.is_sorted_by(|(bin, _), (next, _)| bin < next);
        let is_filled = bins.iter().all(|&(bin, count)| bin <= last && count > 0);
        if !is_in_order || !is_filled {
            return Err("invalid bins of a histogram: expected counts of bins in ascending order");
        }
        Ok(Self { bits, bins, max_ns, last })
    }
}
