//! Intervals with their bins and counts.

use std::collections::BTreeMap;

use crate::counters::add_if_complete;
use crate::report::MAX_NS;
use crate::tick_counts::TickCounts;
use jitterstat::stats::quantile;

use super::key::Key;

/// The name of the format.
pub const SCHEMA: &str = "osjitter.bins/1";
/// Value of the column `schema_version`.
pub const VERSION: u64 = 1;

/// The bin of every negative value.
pub const NEGATIVE: Bin = Bin { lower: -(MAX_NS as i64), upper: -1 };

/// A bin with its range of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bin {
    /// The smallest value.
    pub lower: i64,
    /// The largest value.
    pub upper: i64,
}

/// The widths of bins: those of an HDR histogram, each a power of two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Binning {
    /// Two digits: the width of a bin is less than 0.79 % of its values.
    #[default]
    Hdr2,
    /// Three digits: the width of a bin is less than 0.1 % of its values.
    Hdr3,
}

impl Binning {
    /// All binnings, the coarsest first. Each can be converted to the previous ones without loss.
    pub const ALL: [Self; 2] = [Self::Hdr2, Self::Hdr3];

    /// Returns the name in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Hdr2 => "hdr2",
            Self::Hdr3 => "hdr3",
        }
    }

    /// Returns the maximum width of a bin in per cent of its values.
    #[must_use]
    pub fn width_percent(self) -> f64 {
        100.0 / f64::from(1_u32 << self.bits())
    }

    /// Number of binary digits after the first that the values of a bin share.
    fn bits(self) -> u32 {
        match self {
            Self::Hdr2 => 7,
            Self::Hdr3 => 10,
        }
    }

    /// Returns the bin of a value.
    #[must_use]
    pub fn bin(self, value: i64) -> Bin {
        if value < 0 {
            return NEGATIVE;
        }
        let below = value.checked_ilog2().unwrap_or(0).saturating_sub(self.bits());
        let width = 1_i64 << below;
        let lower = value & !(width - 1);
        Bin { lower, upper: lower + (width - 1) }
    }
}

/// The counts of an interval. A time is `None` if it was not measured.
///
/// By default, ticks are counted and nothing else is measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IntervalCounts {
    /// The counts of the ticks.
    pub ticks: TickCounts,
    /// The exact maximum lateness; `None` if it was not measured, or no tick came.
    pub max_ns: Option<i64>,
    /// CPU time of the measured subject: of a monitor, in the whole interval; of a report, of the
    /// ticks above, at the CPU time per tick in the windows of its rounds.
    pub cpu_ns: Option<u64>,
    /// Time stolen by the hypervisor. In a report, this and the following times are those of whole
    /// rounds, with their warm-up.
    pub steal_ns: Option<u64>,
    /// Time for which its thread was runnable and waited for a CPU.
    pub run_queue_ns: Option<u64>,
    /// Time for which its control group was throttled because its quota was used up.
    pub throttled_ns: Option<u64>,
}

impl IntervalCounts {
    /// Adds the counts of another interval. A count that is unknown in one of them is unknown in
    /// the sum.
    pub fn add(&mut self, other: &Self) {
        let both = |a, b| add_if_complete(a, b).map(|ns| ns.min(MAX_NS));
        self.max_ns = match (self.ticks.came(), other.ticks.came()) {
            (_, 0) => self.max_ns,
            (0, _) => other.max_ns,
            _ => self.max_ns.zip(other.max_ns).map(|(a, b)| a.max(b)),
        };
        self.ticks += other.ticks;
        self.cpu_ns = both(self.cpu_ns, other.cpu_ns);
        self.steal_ns = both(self.steal_ns, other.steal_ns);
        self.run_queue_ns = both(self.run_queue_ns, other.run_queue_ns);
        self.throttled_ns = both(self.throttled_ns, other.throttled_ns);
    }
}

/// The values of one subject or meter over a period of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The key.
    pub key: Key,
    /// Widths of the bins; the finest without a bin.
    pub binning: Binning,
    /// Lower end of each bin, with its number of values, which is at least one.
    pub bins: BTreeMap<i64, u64>,
    /// The counts; `None` without the second file.
    pub facts: Option<IntervalCounts>,
}

impl Interval {
    /// Creates an interval without values.
    #[must_use]
    pub fn empty(key: Key, facts: Option<IntervalCounts>) -> Self {
        Self { key, binning: Binning::Hdr3, bins: BTreeMap::new(), facts }
    }

    /// Creates an interval from values with their counts.
    pub fn from_values(
        key: Key,
        binning: Binning,
        counted: impl IntoIterator<Item = (i64, u64)>,
        facts: Option<IntervalCounts>,
    ) -> Self {
        let mut interval = Self::empty(key, facts);
        interval.add_values(binning, counted);
        interval
    }

    /// Returns the number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.bins.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Returns the bins in ascending order, with their number of values.
    pub fn rows(&self) -> impl Iterator<Item = (Bin, u64)> + '_ {
        self.bins.iter().map(|(&lower, &count)| (self.binning.bin(lower), count))
    }

    /// Returns the upper end of the bin with the nearest rank of the quantile, which is never below
    /// the exact percentile; `None` without values.
    #[must_use]
    pub fn percentile(&self, q: f64) -> Option<i64> {
        let uppers = self.rows().map(|(bin, count)| (bin.upper, count));
        quantile::nearest_rank_of_counts(uppers, self.count(), q)
    }

    /// Adds the values and counts of another interval, in the coarser of both binnings, as if it
    /// had the given key. Parts of the keys that differ become empty. The time becomes that from
    /// the earlier start to the later end, if both are known.
    pub fn add(&mut self, other: &Self, key: &Key) {
        self.key.join(key);
        self.add_values(other.binning, other.bins.iter().map(|(lower, count)| (*lower, *count)));
        self.facts = match (self.facts.take(), &other.facts) {
            (Some(mut facts), Some(more)) => {
                facts.add(more);
                Some(facts)
            }
            _ => None,
        };
    }

    fn add_values(&mut self, binning: Binning, counted: impl IntoIterator<Item = (i64, u64)>) {
        let mut counted = counted.into_iter().filter(|(_, count)| *count > 0).peekable();
        if counted.peek().is_none() {
            return;
        }
        if binning < self.binning {
            self.binning = binning;
            let finer = std::mem::take(&mut self.bins);
            self.add_values(binning, finer);
        }
        for (value, count) in counted {
            let total = self.bins.entry(self.binning.bin(value).lower).or_default();
            *total = total.saturating_add(count);
        }
    }
}

impl Key {
    fn join(&mut self, other: &Self) {
        let start = self.start_us.zip(other.start_us).map(|(a, b)| a.min(b));
        let end = self.end_us().zip(other.end_us()).map(|(a, b)| a.max(b));
        self.duration_ns = match (start, end) {
            (Some(start), Some(end)) => end.saturating_sub(start).saturating_mul(1_000),
            _ => 0,
        };
        self.start_us = start;
        clear_if_different(&mut self.host, &other.host);
        clear_if_different(&mut self.run_id, &other.run_id);
    }

    fn end_us(&self) -> Option<u64> {
        Some(self.start_us?.saturating_add(self.duration_ns / 1_000))
    }
}

fn clear_if_different(text: &mut String, other: &str) {
    if text != other {
        text.clear();
    }
}
