//! The record of a loop: its total since the monitor started, and its open interval. Does no I/O.

use std::time::{Duration, SystemTime};

use cli::units::{to_ns, to_signed_ns};
use files::bins::{Binning, Interval, IntervalCounts, Key};
use files::report::MAX_NS;
use files::tick_counts::TickCounts;
use jitterstat::stats::quantile;
use tickmeter::{LateTick, Snapshot};

use crate::meters::MeterClocks;

/// Bins of an interval's histogram.
pub const BINNING: Binning = Binning::Hdr2;
/// Maximum number of late ticks kept per interval; a meter keeps as many.
const MAX_LATE_TICKS: usize = 128;
/// Bins whose memory a loop allocates and touches at the start.
///
/// Few loops fill more in a month, so a monitor's memory does not grow after its first minute.
const PREALLOCATED_BINS: usize = 1_024;
/// Polls for which a loop that has ended is still exported, so that a scrape every minute sees its
/// last ticks.
pub const MAX_POLLS_AFTER_END: u64 = 30;

/// Counts by the lower bounds of [`BINNING`], in ascending order.
///
/// A sorted vector instead of a map: a total lives for months among short-lived allocations, and
/// the nodes of a map would be scattered between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bins(Vec<(i64, u64)>);

impl Bins {
    fn preallocated() -> Self {
        Self(vec_with_touched_capacity((i64::MAX, u64::MAX), PREALLOCATED_BINS))
    }

    fn add(&mut self, lower: i64, count: u64) {
        match self.0.binary_search_by_key(&lower, |(lower, _)| *lower) {
            Ok(index) => self.0[index].1 = self.0[index].1.saturating_add(count),
            Err(index) => self.0.insert(index, (lower, count)),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (i64, u64)> + '_ {
        self.0.iter().copied()
    }

    pub fn count(&self) -> u64 {
        self.iter().fold(0, |sum, (_, count)| sum.saturating_add(count))
    }
}

#[cfg(test)]
impl FromIterator<(i64, u64)> for Bins {
    fn from_iter<I: IntoIterator<Item = (i64, u64)>>(counts: I) -> Self {
        let mut bins = Self::default();
        for (lower, count) in counts {
            bins.add(lower, count);
        }
        bins
    }
}

/// Ticks of a loop since the monitor started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoopTotal {
    pub bins: Bins,
    pub ticks: TickCounts,
    /// Largest lateness of the last closed interval, if it had a tick.
    pub closed_max_ns: Option<u64>,
}

/// A late tick with its calendar time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatedLateTick {
    pub at: SystemTime,
    pub lateness_ns: u64,
    pub work_ns: Option<u64>,
    pub overrun_ns: u64,
}

impl DatedLateTick {
    /// Creates a late tick of a meter that was registered `age` before the time of the clocks.
    fn new(clocks: &MeterClocks, age: Duration, tick: &LateTick) -> Option<Self> {
        Some(Self {
            at: clocks.calendar_time(age.saturating_sub(tick.at))?,
            lateness_ns: to_ns(tick.lateness),
            work_ns: tick.work.map(to_ns),
            overrun_ns: to_ns(tick.overrun),
        })
    }
}

/// Statistics of one interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IntervalStats {
    pub bins: Bins,
    pub counts: IntervalCounts,
    /// The last late ticks, in order of time.
    pub late_ticks: Vec<DatedLateTick>,
}

impl IntervalStats {
    /// Resets the statistics and keeps their memory for the next interval.
    fn clear(&mut self) {
        self.bins.0.clear();
        self.late_ticks.clear();
        self.counts = IntervalCounts::default();
    }

    fn add_late_ticks(&mut self, clocks: &MeterClocks, delta: &Snapshot) {
        let ticks = &mut self.late_ticks;
        // If the last tick would be in the future, it is new.
        let age = clocks.age(delta).unwrap_or(delta.last_tick);
        ticks.extend(delta.late.iter().filter_map(|tick| DatedLateTick::new(clocks, age, tick)));
        ticks.drain(..ticks.len().saturating_sub(MAX_LATE_TICKS));
    }

    /// Returns the nearest-rank percentile, rounded up to the end of its bin. Returns `None` if
    /// there are too few ticks to support it.
    pub fn quantile_ns(&self, q: f64) -> Option<i64> {
        let ticks = usize::try_from(self.counts.ticks.came()).unwrap_or(usize::MAX);
        let interval = Interval::from_values(Key::default(), BINNING, self.bins.iter(), None);
        let upper = interval.percentile(q).filter(|_| quantile::is_supported(ticks, q))?;
        Some(upper.min(self.counts.max_ns.unwrap_or(i64::MAX)))
    }
}

/// Total and open interval of one loop.
#[derive(Debug)]
pub struct LoopRecord {
    pub total: LoopTotal,
    interval: IntervalStats,
    /// Number of the last poll that contained the loop.
    pub last_poll: u64,
    /// Whether the current poll contains the loop.
    pub is_live: bool,
}

impl LoopRecord {
    pub fn new() -> Self {
        Self {
            total: LoopTotal::default(),
            interval: IntervalStats::default(),
            last_poll: 0,
            is_live: false,
        }
    }

    pub fn preallocated() -> Self {
        let total = LoopTotal { bins: Bins::preallocated(), ..LoopTotal::default() };
        let filler = DatedLateTick {
            at: SystemTime::now(),
            lateness_ns: 1,
            work_ns: Some(1),
            overrun_ns: 1,
        };
        let interval = IntervalStats {
            bins: Bins::preallocated(),
            late_ticks: vec_with_touched_capacity(filler, 2 * MAX_LATE_TICKS),
            ..IntervalStats::default()
        };
        Self { total, interval, ..Self::new() }
    }

    /// Returns whether the record is kept after a poll. Ticks of the open interval are kept; a
    /// total may be dropped.
    pub fn is_kept(&self, polls: u64) -> bool {
        self.is_live || self.last_poll + MAX_POLLS_AFTER_END >= polls || self.has_open_ticks()
    }

    /// Ends the interval and returns its statistics, if the loop is live or ticked in it.
    pub fn close_interval(&mut self) -> Option<IntervalStats> {
        if !self.is_live && !self.has_open_ticks() {
            return None;
        }
        let stats = self.interval.clone();
        self.interval.clear();
        self.total.closed_max_ns = stats.counts.max_ns.and_then(|ns| u64::try_from(ns).ok());
        Some(stats)
    }

    fn has_open_ticks(&self) -> bool {
        self.interval.counts != IntervalCounts::default()
    }

    /// Adds the ticks since the previous snapshot, whose largest lateness was `previous_max`.
    pub fn add(
        &mut self,
        clocks: &MeterClocks,
        now: &Snapshot,
        delta: &Snapshot,
        previous_max: Option<Duration>,
    ) {
        self.add_bins(delta);
        let ticks = TickCounts {
            planned: delta.ticks.saturating_add(delta.skipped),
            delivered: delta.ticks.saturating_sub(delta.coalesced),
            coalesced: Some(delta.coalesced),
            skipped: Some(delta.skipped),
            missed: Some(delta.missed),
            early: Some(delta.early),
        };
        self.total.ticks += ticks;
        self.interval.counts.ticks += ticks;
        let max_ns = max_lateness_since(now, delta, previous_max).map(to_signed_ns);
        self.interval.counts.max_ns = self.interval.counts.max_ns.max(max_ns);
        self.interval.add_late_ticks(clocks, delta);
    }

    fn add_bins(&mut self, delta: &Snapshot) {
        // A meter counts an early tick in its bin of zero.
        let mut early = delta.early;
        for (lower, upper, count) in delta.lateness.bins() {
            let negative = if lower == 0 { early.min(count) } else { 0 };
            early -= negative;
            let upper = upper.min(delta.lateness.max().map_or(upper, to_ns));
            self.add_values(-1, negative);
            self.add_values(i64::try_from(upper).unwrap_or(i64::MAX), count - negative);
        }
    }

    fn add_values(&mut self, value_ns: i64, count: u64) {
        if count > 0 {
            let lower = BINNING.bin(value_ns.min(MAX_NS as i64)).lower;
            self.interval.bins.add(lower, count);
            self.total.bins.add(lower, count);
        }
    }
}

/// Returns the largest lateness since the previous snapshot.
///
/// The result is exact if it is the largest lateness ever or the meter recorded the tick.
/// Otherwise it is the upper end of its bin.
fn max_lateness_since(
    now: &Snapshot,
    delta: &Snapshot,
    previous_max: Option<Duration>,
) -> Option<Duration> {
    let bin_end = delta.lateness.max()?;
    let new_max =
        now.lateness.max().filter(|max| previous_max.is_none_or(|previous| *max > previous));
    let (lower, _, _) = delta.lateness.bins().last()?;
    let recorded = delta.late.iter().map(|tick| tick.lateness).max();
    let recorded = recorded.filter(|max| to_ns(*max) >= lower);
    Some(new_max.or(recorded).unwrap_or(bin_end))
}

/// Returns an empty vector whose memory has been written to, and is therefore resident.
fn vec_with_touched_capacity<T: Clone>(filler: T, capacity: usize) -> Vec<T> {
    let mut vec = vec![filler; capacity];
    vec.clear();
    vec
}
