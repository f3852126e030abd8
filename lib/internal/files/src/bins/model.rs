//! Intervals, their bins, and what was counted beside them.

use std::collections::BTreeMap;

use crate::report::MAX_NS;
use jitterstat::stats::quantile;

use super::key::Key;

/// The name of the format.
pub const SCHEMA: &str = "osjitter.bins/1";
/// Value of the column `schema_version`.
pub const VERSION: u64 = 1;

/// The bin of every negative value.
pub const NEGATIVE: Bin = Bin { lower: -(MAX_NS as i64), upper: -1 };

/// The values that a bin holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bin {
    /// The least of them.
    pub lower: i64,
    /// The largest of them.
    pub upper: i64,
}

/// How wide bins are: those of an HDR histogram, of a power of two each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Binning {
    /// Two digits: a bin is less than 0.79 % of its values wide.
    #[default]
    Hdr2,
    /// Three digits: less than 0.1 %.
    Hdr3,
}

impl Binning {
    /// All of them, the coarsest first: each folds into those before it without loss.
    pub const ALL: [Self; 2] = [Self::Hdr2, Self::Hdr3];

    /// As it is written in a file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Hdr2 => "hdr2",
            Self::Hdr3 => "hdr3",
        }
    }

    /// The largest part of a value that its bin is wide, in per cent.
    #[must_use]
    pub fn width_percent(self) -> f64 {
        100.0 / f64::from(1_u32 << self.bits())
    }

    /// Binary digits of a value, behind the first, that its bin shares.
    fn bits(self) -> u32 {
        match self {
            Self::Hdr2 => 7,
            Self::Hdr3 => 10,
        }
    }

    /// The least and the largest value of the bin that a value is in.
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

/// What was counted beside the values of an interval; `None` where it was not measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IntervalCounts {
    /// Planned ticks: delivered + coalesced + skipped.
    pub ticks: u64,
    /// With a wake-up of their own.
    pub delivered: u64,
    /// Sharing the wake-up of a later tick.
    pub coalesced: u64,
    /// Never delivered.
    pub skipped: u64,
    /// Not delivered before the next deadline, late or never.
    pub missed: u64,
    /// Delivered before their deadline.
    pub early: u64,
    /// The largest lateness, exactly; `None` where no tick came.
    pub max_ns: Option<i64>,
    /// CPU time of what was measured.
    pub cpu_ns: Option<u64>,
    /// Time stolen by the hypervisor.
    pub steal_ns: Option<u64>,
    /// Time that its thread was runnable and waited for a CPU.
    pub run_queue_ns: Option<u64>,
    /// Time that its control group stood still because its quota was used up.
    pub throttled_ns: Option<u64>,
}

impl IntervalCounts {
    /// How many values its interval holds.
    #[must_use]
    pub fn came(&self) -> u64 {
        self.delivered.saturating_add(self.coalesced)
    }

    /// Adds those of another interval; what either does not know is not known of both.
    pub fn add(&mut self, other: &Self) {
        let both = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?).min(MAX_NS));
        self.ticks = self.ticks.saturating_add(other.ticks);
        self.delivered = self.delivered.saturating_add(other.delivered);
        self.coalesced = self.coalesced.saturating_add(other.coalesced);
        self.skipped = self.skipped.saturating_add(other.skipped);
        self.missed = self.missed.saturating_add(other.missed);
        self.early = self.early.saturating_add(other.early);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.cpu_ns = both(self.cpu_ns, other.cpu_ns);
        self.steal_ns = both(self.steal_ns, other.steal_ns);
        self.run_queue_ns = both(self.run_queue_ns, other.run_queue_ns);
        self.throttled_ns = both(self.throttled_ns, other.throttled_ns);
    }
}

/// One subject or meter over one stretch of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interval {
    /// What it is of.
    pub key: Key,
    /// How wide its bins are; the finest, where it has none.
    pub binning: Binning,
    /// The least value of each bin, and how many values are in it: at least one.
    pub bins: BTreeMap<i64, u64>,
    /// What was counted; `None` where the file beside is missing.
    pub facts: Option<IntervalCounts>,
}

impl Interval {
    /// An interval without a value.
    #[must_use]
    pub fn empty(key: Key, facts: Option<IntervalCounts>) -> Self {
        Self { key, binning: Binning::Hdr3, bins: BTreeMap::new(), facts }
    }

    /// From values that come with their counts.
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

    /// How many values it holds.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.bins.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Its bins in ascending order: least and largest value, and the count.
    pub fn rows(&self) -> impl Iterator<Item = (Bin, u64)> + '_ {
        self.bins.iter().map(|(&lower, &count)| (self.binning.bin(lower), count))
    }

    /// The largest value of the bin that the quantile's nearest rank is in: never below the exact
    /// percentile. `None` without values.
    #[must_use]
    pub fn percentile(&self, q: f64) -> Option<i64> {
        let rank = quantile::rank(usize::try_from(self.count()).unwrap_or(usize::MAX), q) as u64;
        let mut seen = 0_u64;
        let mut at = self.rows().skip_while(|(_, count)| {
            seen = seen.saturating_add(*count);
            seen < rank
        });
        at.next().map(|(bin, _)| bin.upper)
    }

    /// Adds the values and counts of another interval, in the coarser of both binnings, as if its
    /// key were that one. What the keys do not share is left empty; the time runs from the earlier
    /// start to the later end, where both are known.
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
        let end = |key: &Self| Some(key.start_us?.saturating_add(key.duration_ns / 1_000));
        let shared = |a: &mut String, b: &String| {
            if a != b {
                a.clear();
            }
        };
        let start = self.start_us.zip(other.start_us).map(|(a, b)| a.min(b));
        let end = end(self).zip(end(other)).map(|(a, b)| a.max(b));
        let known = start.zip(end);
        (self.start_us, self.duration_ns) = (
            start,
            known.map_or(0, |(start, end)| end.saturating_sub(start).saturating_mul(1_000)),
        );
        shared(&mut self.host, &other.host);
        shared(&mut self.run_id, &other.run_id);
    }
}
