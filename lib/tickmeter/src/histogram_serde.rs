//! The stored form of a histogram, which is checked when it is read.

use crate::layout::{MAX_BIN_BITS, MAX_FILE_BYTES};

/// A histogram as it is stored, unchecked.
#[derive(serde::Deserialize)]
pub(crate) struct StoredHistogram {
    pub bits: u32,
    pub bins: Vec<(u32, u64)>,
    pub max_ns: u64,
    pub last: u32,
}

impl StoredHistogram {
    /// Returns the histogram if a meter can have it.
    pub(crate) fn checked(self) -> Result<Self, &'static str> {
        let Self { bits, ref bins, last, .. } = self;
        if bits > MAX_BIN_BITS || u64::from(last) > MAX_FILE_BYTES / 8 {
            return Err("invalid layout of a histogram: expected that of a meter");
        }
        let is_in_order = bins.is_sorted_by(|(bin, _), (next, _)| bin < next);
        let is_filled = bins.iter().all(|&(bin, count)| bin <= last && count > 0);
        if !is_in_order || !is_filled {
            return Err("invalid bins of a histogram: expected counts of bins in ascending order");
        }
        Ok(self)
    }
}
