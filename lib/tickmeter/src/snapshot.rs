//! What a meter had booked at a moment, as plain data.

use std::time::{Duration, SystemTime};

use crate::book::Copied;
use crate::layout::{Fault, LONGEST_NAME, LONGEST_PROGRAM, Layout, UNKNOWN, at, bin_start, text};

/// What a meter has booked since it was registered, or between two moments.
///
/// ticks = delivered + coalesced, and the lateness has as many values. Skipped ticks never came and
/// have none.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Name of the meter.
    pub name: String,
    /// Name of the program.
    pub program: String,
    /// Its process, as that numbers itself.
    pub pid: u32,
    /// When it was registered.
    pub registered: SystemTime,
    /// Nominal period.
    pub period: Duration,
    /// From this lateness on, ticks are in [`late`](Self::late).
    pub late_from: Duration,
    /// How far a lateness can be off, beside the width of its bin.
    pub clock_error: Duration,
    /// When the last tick came, since registration; zero before the first.
    pub last_tick: Duration,
    /// Whether nothing was booked while this was copied. Else every count is that of some moment
    /// meanwhile: a tick booked in that moment may be in one and not in another.
    pub exact: bool,
    /// Ticks that came.
    pub ticks: u64,
    /// Those of them that came together with the one before.
    pub coalesced: u64,
    /// Ticks that never came.
    pub skipped: u64,
    /// Ticks that had not come when the next was due, the skipped ones included.
    pub missed: u64,
    /// Those of them that were missed because the loop was still at work: slow, not late.
    pub missed_by_work: u64,
    /// Ticks that came before their deadline by more than the clock can be off.
    pub early: u64,
    /// Ticks whose deadline found the loop still at work.
    pub overruns: u64,
    /// Wake-up minus deadline; an early tick counts as zero.
    pub lateness: Histogram,
    /// From a wake-up until the loop waited again, where that is known.
    pub work: Histogram,
    /// Sum of that.
    pub work_total: Duration,
    /// The last ticks that were late, the oldest first.
    pub late: Vec<LateTick>,
}

/// A tick that came late.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LateTick {
    /// Late ticks are counted from 1.
    pub number: u64,
    /// When it came, since registration.
    pub at: Duration,
    /// By how much.
    pub lateness: Duration,
    /// How long the work before it took, where that is known.
    pub work: Option<Duration>,
    /// How much of the lateness is due to that work, which was not done at the deadline. The rest
    /// is the wake-up's.
    pub overrun: Duration,
}

/// Counts of values in log-linear bins, no wider than 0.8 % of their values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    bits: u32,
    /// Bins that are not empty, in order, with their counts.
    bins: Vec<(u32, u64)>,
    /// Exact where it is known, else the end of the highest bin.
    max_ns: u64,
    /// The last bin has no end.
    last: u32,
}

impl Snapshot {
    pub(crate) fn of(copied: &Copied, layout: &Layout) -> Result<Self, Fault> {
        let words = &copied.words;
        let (first, _, each) = layout.recorder;
        let late = copied.recorded(layout).filter_map(|number| {
            let at = first + ((number - 1) % layout.recorder.1 as u64) as usize * each;
            let record = words.get(at..at + each).filter(|record| record[0] == number)?;
            let [at, lateness, overrun] =
                [record[1], record[2], record[4]].map(Duration::from_nanos);
            let work = Some(record[3]).filter(|&ns| ns != UNKNOWN).map(Duration::from_nanos);
            Some(LateTick { number, at, lateness, work, overrun })
        });
        let lateness =
            Histogram::of(words, layout.bin_bits, layout.lateness, words[at::MAX_LATENESS]);
        Ok(Self {
            name: text(&words[at::NAME..at::PROGRAM], LONGEST_NAME)?,
            program: text(&words[at::PROGRAM..at::BEGUN], LONGEST_PROGRAM)?,
            pid: u32::try_from(words[at::PID])
                .map_err(|_| Fault::Malformed("a process that cannot be"))?,
            registered: SystemTime::UNIX_EPOCH
                .checked_add(Duration::from_nanos(words[at::REGISTERED]))
                .ok_or(Fault::Malformed("a time that cannot be"))?,
            period: Duration::from_nanos(words[at::PERIOD]),
            late_from: Duration::from_nanos(words[at::LATE_FROM]),
            clock_error: Duration::from_nanos(words[at::CLOCK_ERROR]),
            last_tick: Duration::from_nanos(words[at::LAST]),
            exact: copied.is_exact(),
            ticks: lateness.count(),
            coalesced: words[at::COALESCED],
            skipped: words[at::SKIPPED],
            missed: words[at::MISSED],
            missed_by_work: words[at::MISSED_OVERRUN],
            early: words[at::EARLY],
            overruns: words[at::OVERRUNS],
            lateness,
            work: Histogram::of(words, layout.bin_bits, layout.work, words[at::MAX_WORK]),
            work_total: Duration::from_nanos(words[at::WORK_SUM]),
            late: late.collect(),
        })
    }

    /// What was booked since an earlier snapshot; `None` if that is of another meter.
    ///
    /// ```
    /// # use std::time::{Duration, Instant};
    /// # let mut meter = tickmeter::Meter::register("since", Duration::from_millis(1))?;
    /// let before = meter.snapshot();
    /// meter.tick(Instant::now());
    /// let since = meter.snapshot().since(&before).expect("of the same meter");
    /// assert_eq!(since.ticks, 1);
    /// # Ok::<(), tickmeter::RegisterError>(())
    /// ```
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        let same = (&self.name, self.pid, self.registered)
            == (&earlier.name, earlier.pid, earlier.registered);
        let known = earlier.late.last().map_or(0, |late| late.number);
        same.then(|| Self {
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
            late: self.late.iter().filter(|late| late.number > known).cloned().collect(),
            ..self.clone()
        })
    }
}

impl Histogram {
    fn of(words: &[u64], bits: u32, (first, bins): (usize, usize), max_ns: u64) -> Self {
        let counts = words[first..first + bins].iter().enumerate();
        let used = counts.filter(|(_, count)| **count > 0).map(|(bin, &count)| (bin as u32, count));
        // A reader takes these for months: with few sizes, one lies where another did.
        let mut bins_used = Vec::with_capacity(used.clone().count().next_power_of_two());
        bins_used.extend(used);
        Self { bits, bins: bins_used, max_ns, last: bins as u32 - 1 }
    }

    /// Number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.bins.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// The largest value; of a difference, to the width of a bin. `None` without a value.
    #[must_use]
    pub fn max(&self) -> Option<Duration> {
        self.bins.last().map(|_| Duration::from_nanos(self.max_ns))
    }

    /// The nearest-rank quantile: no less than the exact one, and at most a bin's width more.
    /// `None` without a value.
    ///
    /// # Panics
    /// If `q` is not within 0 to 1.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        assert!((0.0..=1.0).contains(&q), "a quantile of {q}");
        let rank = ((q * self.count() as f64).ceil() as u64).max(1);
        let mut seen = 0_u64;
        let reached = self.bins.iter().find(|(_, count)| {
            seen = seen.saturating_add(*count);
            seen >= rank
        });
        reached
            .or(self.bins.last())
            .map(|&(bin, _)| Duration::from_nanos(self.end(bin).min(self.max_ns)))
    }

    /// The bins that are not empty: least value, largest value, both in nanoseconds, and the count.
    pub fn bins(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.bins
            .iter()
            .map(|&(bin, count)| (bin_start(self.bits, bin as usize), self.end(bin), count))
    }

    /// The values of both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let (last, max_ns) = (self.last.max(other.last), self.max_ns.max(other.max_ns));
        let mut bins: Vec<(u32, u64)> = self.bins.iter().chain(&other.bins).copied().collect();
        bins.sort_unstable_by_key(|(bin, _)| *bin);
        bins.dedup_by(|more, kept| {
            let same = more.0 == kept.0;
            if same {
                kept.1 = kept.1.saturating_add(more.1);
            }
            same
        });
        Self { bits: self.bits.max(other.bits), bins, max_ns, last }
    }

    fn end(&self, bin: u32) -> u64 {
        if bin == self.last { u64::MAX } else { bin_start(self.bits, bin as usize + 1) - 1 }
    }

    fn since(&self, earlier: &Self) -> Self {
        let before = |bin: u32| match earlier.bins.binary_search_by_key(&bin, |(bin, _)| *bin) {
            Ok(at) => earlier.bins[at].1,
            Err(_) => 0,
        };
        let more = self.bins.iter().map(|&(bin, count)| (bin, count.saturating_sub(before(bin))));
        let bins: Vec<(u32, u64)> = more.filter(|(_, count)| *count > 0).collect();
        let highest = bins.last().map_or(0, |(bin, _)| self.end(*bin));
        Self { bits: self.bits, bins, max_ns: highest.min(self.max_ns), last: self.last }
    }
}
