//! Statistics of metered loops over the last seconds, from snapshots about a second apart. Does no
//! I/O.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use clap::ValueEnum;
use cli::units::to_ns;
use tickmeter::read::FileId;
use tickmeter::{Histogram, Snapshot};

use crate::meters::{MeterPoll, ReadMeter};
use crate::top::late_functions::LateFunction;

/// Maximum number of polls to keep: those of the longest window.
const MAX_POLLS: usize = 60;
/// Maximum time by which the polls of a window are shorter than it. They are a second apart or
/// more.
const MAX_SHORTFALL: Duration = Duration::from_millis(500);
/// Maximum time by which the polls of a window are longer than it.
const MAX_EXCESS: Duration = Duration::from_millis(900);

/// Time span of the statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Window {
    #[value(name = "1s")]
    Second,
    #[value(name = "10s")]
    TenSeconds,
    #[value(name = "60s")]
    Minute,
}

impl Window {
    pub const ALL: [Self; 3] = [Self::Second, Self::TenSeconds, Self::Minute];

    /// Returns the number of polls that the window consists of if they are a second apart.
    pub fn polls(self) -> usize {
        match self {
            Self::Second => 1,
            Self::TenSeconds => 10,
            Self::Minute => MAX_POLLS,
        }
    }

    pub fn length(self) -> Duration {
        Duration::from_secs(self.polls() as u64)
    }

    /// Returns whether polls of that length cover the window.
    fn is_covered_by(self, length: Duration) -> bool {
        length + MAX_SHORTFALL >= self.length()
    }
}

/// Column by which loops are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    Name,
    P50,
    P99,
    Max,
    Missed,
    Slow,
    Work,
}

impl Sort {
    /// Returns the next column, or the first one after the last.
    pub fn next(self) -> Self {
        let variants = Self::value_variants();
        let next = variants.iter().position(|sort| *sort == self).map_or(0, |index| index + 1);
        variants[next % variants.len()]
    }
}

/// Statistics of one loop over a window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WindowStats {
    pub ticks: u64,
    pub missed: u64,
    pub missed_by_work: u64,
    pub coalesced: u64,
    pub skipped: u64,
    pub early: u64,
    pub overruns: u64,
    pub lateness: Histogram,
    pub work: Histogram,
}

impl From<&Snapshot> for WindowStats {
    fn from(snapshot: &Snapshot) -> Self {
        Self {
            ticks: snapshot.ticks,
            missed: snapshot.missed,
            missed_by_work: snapshot.missed_by_work,
            coalesced: snapshot.coalesced,
            skipped: snapshot.skipped,
            early: snapshot.early,
            overruns: snapshot.overruns,
            lateness: snapshot.lateness.clone(),
            work: snapshot.work.clone(),
        }
    }
}

impl WindowStats {
    fn plus(&self, other: &Self) -> Self {
        Self {
            ticks: self.ticks.saturating_add(other.ticks),
            missed: self.missed.saturating_add(other.missed),
            missed_by_work: self.missed_by_work.saturating_add(other.missed_by_work),
            coalesced: self.coalesced.saturating_add(other.coalesced),
            skipped: self.skipped.saturating_add(other.skipped),
            early: self.early.saturating_add(other.early),
            overruns: self.overruns.saturating_add(other.overruns),
            lateness: self.lateness.plus(&other.lateness),
            work: self.work.plus(&other.work),
        }
    }
}

/// Statistics between two successive polls of a loop.
#[derive(Clone, Debug)]
struct PollStats {
    /// Time from one poll to the other: about a second, unless this program was stopped or the
    /// meter could not be read.
    length: Duration,
    stats: WindowStats,
}

impl PollStats {
    /// Returns the p99, or `None` without a tick or if the polls are more than a second apart.
    fn second_p99(&self) -> Option<Duration> {
        let is_second = self.length <= Window::Second.length() + MAX_EXCESS;
        self.stats.lateness.quantile(0.99).filter(|_| is_second)
    }
}

/// Statistics of the last polls that fit a window.
#[derive(Clone, Debug, Default)]
struct RecentStats {
    length: Duration,
    stats: WindowStats,
}

impl RecentStats {
    fn new(polls: &VecDeque<PollStats>, window: Window) -> Self {
        let mut recent = Self::default();
        for poll in polls.iter().rev() {
            let length = recent.length + poll.length;
            if window.is_covered_by(recent.length) || length > window.length() + MAX_EXCESS {
                break;
            }
            recent = Self { length, stats: recent.stats.plus(&poll.stats) };
        }
        recent
    }
}

/// A metered loop.
#[derive(Clone, Debug)]
pub struct MeteredLoop {
    /// The latest snapshot.
    pub snapshot: Snapshot,
    /// Time of that snapshot.
    polled_at: Duration,
    /// Statistics between successive polls, the latest last.
    polls: VecDeque<PollStats>,
    /// Statistics by [`Window`].
    windows: [RecentStats; 3],
    /// The last late tick for which a function is known.
    pub late_function: Option<LateFunction>,
}

impl MeteredLoop {
    fn new(
        snapshot: Snapshot,
        polled_at: Duration,
        polls: VecDeque<PollStats>,
        late_function: Option<LateFunction>,
    ) -> Self {
        let windows = Window::ALL.map(|window| RecentStats::new(&polls, window));
        Self { snapshot, polled_at, polls, windows, late_function }
    }

    /// Returns the statistics of a window.
    pub fn stats(&self, window: Window) -> &WindowStats {
        &self.windows[window as usize].stats
    }

    /// Returns whether the loop has been watched for the whole window, and no longer.
    pub fn has(&self, window: Window) -> bool {
        window.is_covered_by(self.windows[window as usize].length)
    }

    /// Returns the statistics since the meter was registered.
    pub fn total(&self) -> WindowStats {
        WindowStats::from(&self.snapshot)
    }

    /// Returns the p99 of each second, the latest last. It is `None` without a tick, and for a time
    /// without a poll.
    pub fn p99_history(
        &self,
    ) -> impl DoubleEndedIterator<Item = Option<Duration>> + ExactSizeIterator + '_ {
        self.polls.iter().map(PollStats::second_p99)
    }
}

/// All metered loops, in the order in which they are shown.
#[derive(Debug, Default)]
pub struct Loops {
    by_file: BTreeMap<FileId, MeteredLoop>,
    order: Vec<FileId>,
}

impl Loops {
    pub fn is_empty(&self) -> bool {
        self.by_file.is_empty()
    }

    /// Returns whether any loop has been watched for the whole window, or there is none.
    pub fn has_window(&self, window: Window) -> bool {
        self.is_empty() || self.iter().any(|metered| metered.has(window))
    }

    pub fn iter(&self) -> impl Iterator<Item = &MeteredLoop> {
        self.order.iter().filter_map(|id| self.by_file.get(id))
    }

    /// Records a poll of all meters, at a time since the start of this program. A loop that is
    /// missing from it has ended; one that could not be read stays as it was.
    pub fn record_poll(&mut self, poll: MeterPoll, at: Duration) {
        let mut previous = std::mem::take(&mut self.by_file);
        for id in poll.unread {
            if let Some(known) = previous.remove(&id) {
                self.by_file.insert(id, known);
            }
        }
        for ReadMeter { id, snapshot, .. } in poll.read {
            let mut known = previous.remove(&id);
            let late_function = known.as_mut().and_then(|known| known.late_function.take());
            let polls = known.map_or(VecDeque::new(), |known| append_poll(known, &snapshot, at));
            self.by_file.insert(id, MeteredLoop::new(snapshot, at, polls, late_function));
        }
        self.order = self.by_file.keys().copied().collect();
    }

    /// Sets the functions of the last late ticks of some loops.
    pub fn set_late_functions(&mut self, found: Vec<(FileId, LateFunction)>) {
        for (id, function) in found {
            if let Some(metered) = self.by_file.get_mut(&id) {
                metered.late_function = Some(function);
            }
        }
    }

    /// Sorts the loops: numbers in descending order, names alphabetically.
    pub fn sort(&mut self, sort: Sort, window: Window) {
        let by_file = &self.by_file;
        self.order.sort_by_cached_key(|id| {
            let metered = by_file.get(id);
            let value = metered.map(|metered| sort_value(metered.stats(window), sort));
            let name = metered.map(|metered| metered.snapshot.name.clone());
            (Reverse(value), name, *id)
        });
    }
}

/// Returns the polls of a loop with the latest one, or none if another meter has replaced it.
fn append_poll(known: MeteredLoop, snapshot: &Snapshot, at: Duration) -> VecDeque<PollStats> {
    let Some(delta) = snapshot.since(&known.snapshot) else { return VecDeque::new() };
    let mut polls = known.polls;
    let length = at.saturating_sub(known.polled_at);
    polls.push_back(PollStats { length, stats: WindowStats::from(&delta) });
    polls.drain(..polls.len().saturating_sub(MAX_POLLS));
    polls
}

fn sort_value(stats: &WindowStats, sort: Sort) -> u64 {
    match sort {
        Sort::Name => 0,
        Sort::P50 => stats.lateness.quantile(0.5).map_or(0, to_ns),
        Sort::P99 => stats.lateness.quantile(0.99).map_or(0, to_ns),
        Sort::Max => stats.lateness.max().map_or(0, to_ns),
        Sort::Missed => stats.missed,
        Sort::Slow => stats.missed_by_work,
        Sort::Work => stats.work.quantile(0.99).map_or(0, to_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meters::test_meter::MeterContents;

    /// Returns a loop with 100 ticks per second that was polled at these times, in milliseconds.
    fn watched_loop(times_ms: &[u64]) -> Loops {
        let mut loops = Loops::default();
        for &at_ms in times_ms {
            let lateness: &[(u64, u64)] = &[(14_000, at_ms / 10)];
            let contents =
                MeterContents { period_ns: 10_000_000, lateness, ..MeterContents::default() };
            let id = FileId::new(1, 1);
            let meter = ReadMeter { id, snapshot: contents.snapshot(), is_new: false };
            let poll = MeterPoll { read: vec![meter], unread: Vec::new() };
            loops.record_poll(poll, Duration::from_millis(at_ms));
        }
        loops
    }

    /// Returns the ticks of each window, and whether it is complete.
    fn windows(times_ms: &[u64]) -> [(u64, bool); 3] {
        let loops = watched_loop(times_ms);
        let metered = loops.iter().next().unwrap();
        Window::ALL.map(|window| (metered.stats(window).ticks, metered.has(window)))
    }

    #[test]
    fn windows_are_as_long_as_named() {
        let every_ms = |step: u64| (0..=80).map(|n| n * step).collect::<Vec<u64>>();
        assert_eq!(windows(&every_ms(1_000)), [(100, true), (1_000, true), (6_000, true)]);
        assert_eq!(windows(&every_ms(1_020)), [(102, true), (1_020, true), (6_018, true)]);
        assert_eq!(windows(&every_ms(1_700)), [(170, true), (1_020, true), (5_950, true)]);
        assert_eq!(windows(&every_ms(2_500)), [(0, false), (1_000, true), (6_000, true)]);
    }

    #[test]
    fn windows_exclude_long_pauses() {
        let before = [0, 1_000, 2_000, 3_000];
        let after = |times: &[u64]| windows(&[&before, times].concat());
        assert_eq!(after(&[9_300]), [(0, false), (930, false), (930, false)]);
        assert_eq!(after(&[9_300, 10_300]), [(100, true), (1_030, true), (1_030, false)]);
        assert_eq!(after(&[30_000]), [(0, false), (0, false), (3_000, false)]);
        assert_eq!(after(&[30_000, 31_000]), [(100, true), (100, false), (3_100, false)]);
        let loops = watched_loop(&[0, 1_000, 30_000, 31_000]);
        let history = loops.iter().next().unwrap().p99_history();
        assert_eq!(history.map(|p99| p99.is_some()).collect::<Vec<_>>(), [true, false, true]);
    }
}
