//! The format `osjitter.bins/1`: histograms with one row per bin, and a second file with one row of
//! counts per interval.
//!
//! Any database can merge such rows over hosts and days with plain SQL. A percentile is found by
//! adding up integers, and is exact to the width of a bin. The text is CSV; [`CELLS`] are the
//! columns of both files.
//!
//! ```
//! use files::bins::{Binning, Interval, Key, bins_csv, join, read_bins};
//!
//! let key = Key {
//!     host: "web-17".into(),
//!     subject: "control-loop".into(),
//!     period_ns: 10_000_000,
//!     ..Key::default()
//! };
//! let interval = Interval::from_values(key, Binning::Hdr2, [(14_250, 1), (1_300_000, 2)], None);
//! let read = read_bins(&bins_csv(std::slice::from_ref(&interval)))?;
//! assert_eq!(read, [interval]);
//! assert_eq!(read[0].percentile(0.5), Some(1_302_527));
//! # Ok::<(), files::bins::BinsError>(())
//! ```

mod convert;
mod error;
mod fold;
mod key;
mod model;
mod text;

pub use convert::{ID, INSTANCES, LOAD, MissingHistogram, intervals_from_report};
pub use error::{BinsError, BinsFlaw};
pub use fold::{Fold, join};
pub use key::{Key, LabelError, Labels, cell, micros, stamp};
pub use model::{Bin, Binning, Interval, IntervalCounts, NEGATIVE, SCHEMA, VERSION};
pub use text::{
    CELLS, Cells, bins_csv, intervals_csv, kind, read_bins, read_bins_from, read_intervals,
    read_intervals_from, write_bins,
};

#[cfg(test)]
mod tests;
