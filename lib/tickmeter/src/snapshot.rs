//! [`Snapshot`]: the records of a meter as plain data.

use std::time::{Duration, SystemTime};

use crate::layout::{
    BinsLayout, FormatError, Layout, MAX_NAME_BYTES, MAX_PROGRAM_BYTES, UNKNOWN_WORK, at,
    bin_index, bin_start, read_text,
};
use crate::publication::RawSnapshot;

/// The records of a meter since its registration, or between two snapshots.
///
/// The number of ticks is that of the wake-ups plus the coalesced ticks, and is also the number of
/// values of the lateness. Skipped ticks never came and have no lateness.
///
/// With the feature `serde`, a snapshot can be stored and read again:
///
/// ```
/// # #[cfg(feature = "serde")] {
/// # use std::time::{Duration, Instant};
/// # use tickmeter::{Meter, Snapshot};
/// let mut meter = Meter::register("stored", Duration::from_millis(1))?;
/// meter.tick(Instant::now());
/// let text = serde_json::to_string(&meter.snapshot())?;
/// let stored: Snapshot = serde_json::from_str(&text)?;
/// assert_eq!(stored, meter.snapshot());
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Snapshot {
    /// Name of the meter.
    pub name: String,
    /// Name of the program.
    pub program: String,
    /// Process id, in the process's own namespace.
    pub pid: u32,
    /// Time of registration.
    pub registered: SystemTime,
    /// Time of registration by the clock `CLOCK_MONOTONIC` of the program. Unlike
    /// [`registered`](Self::registered), it is comparable after the calendar clock was set, but not
    /// with the clock of another time namespace. `None` on systems other than Linux, and if the
    /// program's `tickmeter` is older than this field.
    #[cfg_attr(feature = "serde", serde(default))]
    pub registered_monotonic: Option<Duration>,
    /// Nominal period.
    pub period: Duration,
    /// Smallest lateness of the ticks in [`late`](Self::late).
    pub late_from: Duration,
    /// Error bound of the clock so far. The error of a lateness is at most this plus the width of its
    /// bin.
    pub clock_error: Duration,
    /// Time of the last tick since registration; zero before the first.
    pub last_tick: Duration,
    /// Whether nothing was recorded during the copy. Otherwise each count is from some moment
    /// during the copy: a tick that was recorded at the same time may be in one count and not in
    /// another.
    pub exact: bool,
    /// Number of ticks that came.
    pub ticks: u64,
    /// Number of ticks that came together with the one before.
    pub coalesced: u64,
    /// Number of ticks that never came.
    pub skipped: u64,
    /// Number of ticks that had not come when the next was due, including the skipped ones.
    pub missed: u64,
    /// Number of missed ticks that were missed because of the loop's work: slow, not late. Ticks with
    /// which a loop catches up after a late wake-up are late.
    pub missed_by_work: u64,
    /// Number of ticks that came before their deadline by more than the error of the clock.
    pub early: u64,
    /// Number of deadlines at which the loop was still at work, except while it catches up after a
    /// late wake-up.
    pub overruns: u64,
    /// Lateness: wake-up minus deadline. An early tick counts as zero.
    pub lateness: Histogram,
    /// Work: time from a wake-up until the loop waited again, if known.
    pub work: Histogram,
    /// Sum of the work.
    pub work_total: Duration,
    /// Number of stacks that were taken while a tick was overdue, with the feature `stacks`.
    #[cfg_attr(feature = "serde", serde(default))]
    pub stacks: u64,
    /// The last late ticks, the oldest first.
    pub late: Vec<LateTick>,
}

/// A tick that came late.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct LateTick {
    /// Number of the tick among the late ticks of the meter, from 1.
    pub number: u64,
    /// Time at which it came, since registration.
    pub at: Duration,
    /// Wake-up minus deadline.
    pub lateness: Duration,
    /// Duration of the work before it, if known.
    pub work: Option<Duration>,
    /// Part of the lateness that is due to work, which was not done at the deadline. The remaining
    /// part is due to the wake-up, or to an earlier one after which the loop still catches up.
    pub overrun: Duration,
}

/// Rounding margin of a rank: a quantile such as 0.55 has no exact binary form. The same as in
/// `jitterstat::stats::quantile`.
const RANK_MARGIN: f64 = 1e-6;

/// Counts of values in log-linear bins, which are at most 0.8 % of their values wide.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "crate::histogram_serde::StoredHistogram"))]
pub struct Histogram {
    pub(crate) bits: u32,
    /// The bins that are not empty, in order, with their counts.
    pub(crate) bins: Vec<(u32, u64)>,
    /// The largest value if it is known, otherwise the end of the highest bin.
    pub(crate) max_ns: u64,
    /// Index of the last bin of the layout, which has no end.
    pub(crate) last: u32,
}

#[cfg(feature = "serde")]
impl TryFrom<crate::histogram_serde::StoredHistogram> for Histogram {
    type Error = &'static str;

    fn try_from(stored: crate::histogram_serde::StoredHistogram) -> Result<Self, Self::Error> {
        let stored = stored.checked()?;
        Ok(Self { bits: stored.bits, bins: stored.bins, max_ns: stored.max_ns, last: stored.last })
    }
}

impl Snapshot {
    /// Decodes a copy of a meter.
    ///
    /// # Errors
    /// Returns an error if a value of the header is invalid.
    pub(crate) fn decode(raw: &RawSnapshot, layout: &Layout) -> Result<Self, FormatError> {
        let words = &raw.header;
        let duration = |at: usize| Duration::from_nanos(words[at]);
        let bits = layout.bin_bits;
        let lateness =
            Histogram::from_words(&raw.lateness, bits, layout.lateness, words[at::MAX_LATENESS]);
        let work = Histogram::from_words(&raw.work, bits, layout.work, words[at::MAX_WORK]);
        let late = raw.complete_records(layout);
        Ok(Self {
            name: read_text(&words[at::NAME..at::PROGRAM], MAX_NAME_BYTES)?,
            program: read_text(&words[at::PROGRAM..at::BEGUN], MAX_PROGRAM_BYTES)?,
            pid: u32::try_from(words[at::PID])
                .map_err(|_| FormatError::Malformed("invalid process id"))?,
            registered: SystemTime::UNIX_EPOCH
                .checked_add(duration(at::REGISTERED))
                .ok_or(FormatError::Malformed("invalid time of registration"))?,
            registered_monotonic: Some(duration(at::REGISTERED_MONOTONIC))
                .filter(|time| !time.is_zero()),
            period: duration(at::PERIOD),
            late_from: duration(at::LATE_FROM),
            clock_error: duration(at::CLOCK_ERROR),
            last_tick: duration(at::LAST),
            exact: raw.is_exact(),
            ticks: lateness.count(),
            coalesced: words[at::COALESCED],
            skipped: words[at::SKIPPED],
            missed: words[at::MISSED],
            missed_by_work: words[at::MISSED_OVERRUN],
            early: words[at::EARLY],
            overruns: words[at::OVERRUNS],
            lateness,
            work,
            work_total: duration(at::WORK_SUM),
            stacks: words[at::STACKS],
            late: late.filter_map(|number| LateTick::decode(raw, layout, number)).collect(),
        })
    }

    /// Returns what was recorded since an earlier snapshot, or `None` if that is of another meter.
    ///
    /// ```
    /// # use std::time::{Duration, Instant};
    /// # let mut meter = tickmeter::Meter::register("since", Duration::from_millis(1))?;
    /// let before = meter.snapshot();
    /// meter.tick(Instant::now());
    /// let since = meter.snapshot().since(&before).expect("the same meter");
    /// assert_eq!(since.ticks, 1);
    /// # Ok::<(), tickmeter::RegisterError>(())
    /// ```
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        let is_same_meter = (&self.name, self.pid, self.registered)
            == (&earlier.name, earlier.pid, earlier.registered);
        let has_same_bins =
            self.lateness.has_bins_of(&earlier.lateness) && self.work.has_bins_of(&earlier.work);
        if !(is_same_meter && has_same_bins) {
            return None;
        }
        let last_known = earlier.late.last().map_or(0, |late| late.number);
        Some(Self {
            exact: self.exact && earlier.exact,
            ticks: self.ticks.saturating_sub(earlier.ticks),
            coalesced: self.coalesced.saturating_sub(earlier.coalesced),
            skipped: self.skipped.saturating_sub(earlier.skipped),
            missed: self.missed.saturating_sub(earlier.missed),
            missed_by_work: self.missed_by_work.saturating_sub(earlier.missed_by_work),
            early: self.early.saturating_sub(earlier.early),
            overruns: self.overruns.saturating_sub(earlier.overruns),
            lateness: self.lateness.since(&earlier.lateness),
            work: self.work.since(&earlier.work),
            work_total: self.work_total.saturating_sub(earlier.work_total),
            stacks: self.stacks.saturating_sub(earlier.stacks),
            late: self.late.iter().filter(|late| late.number > last_known).cloned().collect(),
            name: self.name.clone(),
            program: self.program.clone(),
            pid: self.pid,
            registered: self.registered,
            registered_monotonic: self.registered_monotonic,
            period: self.period,
            late_from: self.late_from,
            clock_error: self.clock_error,
            last_tick: self.last_tick,
        })
    }
}

impl LateTick {
    /// Decodes the record of a late tick; `None` if the record is that of another tick.
    fn decode(raw: &RawSnapshot, layout: &Layout, number: u64) -> Option<Self> {
        let record = raw.record(layout, number).filter(|record| record[0] == number)?;
        let work = Some(record[3]).filter(|&ns| ns != UNKNOWN_WORK);
        Some(Self {
            number,
            at: Duration::from_nanos(record[1]),
            lateness: Duration::from_nanos(record[2]),
            work: work.map(Duration::from_nanos),
            overrun: Duration::from_nanos(record[4]),
        })
    }
}

impl Histogram {
    /// Creates a histogram from the counts of the first bins of a layout.
    fn from_words(counts: &[u64], bits: u32, layout: BinsLayout, max_ns: u64) -> Self {
        let counts = counts.iter().enumerate();
        let nonempty =
            counts.filter(|(_, count)| **count > 0).map(|(bin, &count)| (bin as u32, count));
        // A process may take snapshots for months. With few different capacities, the allocator can
        // reuse the memory of earlier histograms.
        let mut bins = Vec::with_capacity(nonempty.clone().count().next_power_of_two());
        bins.extend(nonempty);
        Self { bits, bins, max_ns, last: layout.bins as u32 - 1 }
    }

    /// Returns the number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.bins.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// Returns the largest value, or `None` if the histogram is empty. In a difference of two
    /// snapshots, it is accurate to the width of a bin.
    #[must_use]
    pub fn max(&self) -> Option<Duration> {
        self.bins.last().map(|_| Duration::from_nanos(self.max_ns))
    }

    /// Returns the nearest-rank quantile, or `None` if the histogram is empty. The result is never
    /// less than the exact quantile, and at most the width of a bin more.
    ///
    /// # Panics
    /// Panics if `q` is not between 0 and 1.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        assert!((0.0..=1.0).contains(&q), "invalid quantile {q}: expected 0 to 1");
        let rank = ((q * self.count() as f64 - RANK_MARGIN).ceil() as u64).max(1);
        let bin = self.bin_at_rank(rank)?;
        Some(Duration::from_nanos(self.bin_end(bin).min(self.max_ns)))
    }

    /// Returns the bin with a rank, or the last bin for a higher rank.
    fn bin_at_rank(&self, rank: u64) -> Option<u32> {
        let mut cumulated = 0_u64;
        for &(bin, count) in &self.bins {
            cumulated = cumulated.saturating_add(count);
            if cumulated >= rank {
                return Some(bin);
            }
        }
        self.bins.last().map(|&(bin, _)| bin)
    }

    /// Returns the bins that are not empty: the smallest and the largest value in nanoseconds, and
    /// the count.
    pub fn bins(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.bins
            .iter()
            .map(|&(bin, count)| (bin_start(self.bits, bin as usize), self.bin_end(bin), count))
    }

    /// Returns the histogram of the values of both. If their bins differ, the result has the wider
    /// ones, and its last bin, which has no end, begins at the lower start of their last bins.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        // An empty histogram may have the bins of no meter.
        if self.bins.is_empty() {
            return other.clone();
        } else if other.bins.is_empty() {
            return self.clone();
        }
        let bits = self.bits.min(other.bits);
        let last = self.bin_of_width(bits, self.last).min(other.bin_of_width(bits, other.last));
        let mut bins = Vec::with_capacity(self.bins.len() + other.bins.len());
        for histogram in [self, other] {
            for &(bin, count) in &histogram.bins {
                bins.push((histogram.bin_of_width(bits, bin).min(last), count));
            }
        }
        bins.sort_unstable_by_key(|(bin, _)| *bin);
        bins.dedup_by(merge_equal_bins);
        Self { bits, bins, max_ns: self.max_ns.max(other.max_ns), last }
    }

    /// Returns the bin of a layout with `bits`, which is not narrower, that contains a bin.
    fn bin_of_width(&self, bits: u32, bin: u32) -> u32 {
        bin_index(bits, bin_start(self.bits, bin as usize)) as u32
    }

    /// Returns whether two histograms have the same bins.
    fn has_bins_of(&self, other: &Self) -> bool {
        (self.bits, self.last) == (other.bits, other.last)
    }

    /// Returns the largest value of a bin.
    fn bin_end(&self, bin: u32) -> u64 {
        if bin == self.last {
            return u64::MAX;
        }
        match bin_start(self.bits, bin as usize + 1) {
            // The next bin is beyond the values.
            u64::MAX => u64::MAX,
            next => next - 1,
        }
    }

    fn since(&self, earlier: &Self) -> Self {
        let mut earlier_bins = earlier.bins.iter().copied().peekable();
        let mut bins = Vec::new();
        for &(bin, count) in &self.bins {
            while earlier_bins.next_if(|(earlier_bin, _)| *earlier_bin < bin).is_some() {}
            let earlier_bin = earlier_bins.next_if(|(earlier_bin, _)| *earlier_bin == bin);
            let added = count.saturating_sub(earlier_bin.map_or(0, |(_, count)| count));
            if added > 0 {
                bins.push((bin, added));
            }
        }
        let highest_end = bins.last().map_or(0, |(bin, _)| self.bin_end(*bin));
        Self { bits: self.bits, bins, max_ns: highest_end.min(self.max_ns), last: self.last }
    }
}

/// Adds a bin to the one before if they are the same bin; for [`Vec::dedup_by`].
fn merge_equal_bins(bin: &mut (u32, u64), kept: &mut (u32, u64)) -> bool {
    let is_same_bin = bin.0 == kept.0;
    if is_same_bin {
        kept.1 = kept.1.saturating_add(bin.1);
    }
    is_same_bin
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the histogram of these values in the first `bins` bins of a layout.
    fn histogram(bits: u32, bins: usize, values: &[u64]) -> Histogram {
        let mut counts = vec![0; bins];
        for &value in values {
            counts[bin_index(bits, value).min(bins - 1)] += 1;
        }
        let max_ns = values.iter().copied().max().unwrap_or(0);
        Histogram::from_words(&counts, bits, BinsLayout { first: 0, bins }, max_ns)
    }

    fn quantile_ns(histogram: &Histogram, q: f64) -> u64 {
        histogram.quantile(q).unwrap().as_nanos() as u64
    }

    #[test]
    fn different_layouts_add_up() {
        let values = [10_000_000; 100];
        let meters = [(7, 3_968), (5, 1_024), (7, 1_000)];
        let histograms = meters.map(|(bits, bins)| histogram(bits, bins, &values));
        for a in &histograms {
            for b in &histograms {
                let sum = a.plus(b);
                assert_eq!((sum.count(), sum.max()), (200, Some(Duration::from_millis(10))));
                assert_eq!([0.25, 0.5, 0.75].map(|q| quantile_ns(&sum, q)), [10_000_000; 3]);
            }
            let empty = Histogram::default();
            assert_eq!((a.plus(&empty), empty.plus(a)), (a.clone(), a.clone()));
        }
    }

    #[test]
    fn ranks_are_those_of_jitterstat() {
        let values: Vec<u64> = (1..=100).collect();
        let histogram = histogram(7, 3_968, &values);
        for percent in 1..=100 {
            assert_eq!(quantile_ns(&histogram, percent as f64 / 100.0), percent);
        }
        assert_eq!(quantile_ns(&histogram, 0.0), 1);
    }

    /// A file may state more bins than there are values.
    #[test]
    fn bins_beyond_values_are_in_order() {
        for bits in [1, 7, 16] {
            let beyond = bin_index(bits, u64::MAX) + 1;
            let mut counts = vec![1; beyond + 10];
            let layout = BinsLayout { first: 0, bins: counts.len() };
            let histogram = Histogram::from_words(&counts, bits, layout, u64::MAX);
            assert!(histogram.bins().all(|(start, end, _)| start <= end), "{bits}");
            counts.truncate(beyond);
            let layout = BinsLayout { first: 0, bins: beyond };
            let exact = Histogram::from_words(&counts, bits, layout, u64::MAX);
            let ends = |histogram: &Histogram| {
                histogram.bins().take(beyond).map(|(_, end, _)| end).collect::<Vec<_>>()
            };
            assert_eq!(ends(&histogram), ends(&exact), "{bits}");
        }
    }

    fn parts() -> impl Strategy<Value = (u32, usize, Vec<u64>)> {
        let value = (any::<u64>(), 0_u32..64).prop_map(|(ns, shift)| ns >> shift);
        (1_u32..=10, 1_usize..4_000, prop::collection::vec(value, 1..20))
    }

    proptest! {
        #[test]
        fn sums_cover_all_values((a_bits, a_bins, a) in parts(), (b_bits, b_bins, b) in parts()) {
            let sum = histogram(a_bits, a_bins, &a).plus(&histogram(b_bits, b_bins, &b));
            let mut values = [a, b].concat();
            values.sort_unstable();
            let mut bins = sum.bins().flat_map(|(start, end, n)| (0..n).map(move |_| (start, end)));
            for value in &values {
                let (start, end) = bins.next().unwrap();
                prop_assert!(start <= *value && *value <= end, "{start} {value} {end}");
            }
            prop_assert!(bins.next().is_none() && sum.bins.is_sorted_by(|a, b| a.0 < b.0));
            prop_assert_eq!(quantile_ns(&sum, 1.0), values[values.len() - 1]);
        }
    }
}
