//! Statistics of metered loops over the last seconds, from snapshots a second apart. Does no I/O.

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

    /// Returns the number of polls that the window consists of.
    pub fn polls(self) -> usize {
        match self {
            Self::Second => 1,
            Self::TenSeconds => 10,
            Self::Minute => MAX_POLLS,
        }
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

/// A metered loop.
#[derive(Clone, Debug)]
pub struct MeteredLoop {
    /// The latest snapshot.
    pub snapshot: Snapshot,
    /// Statistics between successive polls, about a second each, the latest last.
    polls: VecDeque<WindowStats>,
    /// Statistics by [`Window`].
    windows: [WindowStats; 3],
    /// The last late tick for which a function is known.
    pub late_function: Option<LateFunction>,
}

impl MeteredLoop {
    fn new(
        snapshot: Snapshot,
        polls: VecDeque<WindowStats>,
        late_function: Option<LateFunction>,
    ) -> Self {
        let windows = Window::ALL.map(|window| {
            let recent = polls.iter().rev().take(window.polls());
            recent.fold(WindowStats::default(), |sum, poll| sum.plus(poll))
        });
        Self { snapshot, polls, windows, late_function }
    }

    /// Returns the statistics of a window.
    pub fn stats(&self, window: Window) -> &WindowStats {
        &self.windows[window as usize]
    }

    /// Returns whether the loop has been watched for the whole window.
    pub fn has(&self, window: Window) -> bool {
        self.polls.len() >= window.polls()
    }

    /// Returns the statistics since the meter was registered.
    pub fn total(&self) -> WindowStats {
        WindowStats::from(&self.snapshot)
    }

    /// Returns the p99 of each poll, the latest last, or `None` for polls without a tick.
    pub fn p99_history(
        &self,
    ) -> impl DoubleEndedIterator<Item = Option<Duration>> + ExactSizeIterator + '_ {
        self.polls.iter().map(|poll| poll.lateness.quantile(0.99))
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

    pub fn iter(&self) -> impl Iterator<Item = &MeteredLoop> {
        self.order.iter().filter_map(|id| self.by_file.get(id))
    }

    /// Records a poll of all meters. A loop that is missing from it has ended; one that could not be
    /// read stays as it was.
    pub fn record_poll(&mut self, poll: MeterPoll) {
        let mut previous = std::mem::take(&mut self.by_file);
        for id in poll.unread {
            if let Some(known) = previous.remove(&id) {
                self.by_file.insert(id, known);
            }
        }
        for ReadMeter { id, snapshot, .. } in poll.read {
            let mut known = previous.remove(&id);
            let late_function = known.as_mut().and_then(|known| known.late_function.take());
            let polls = known.map_or(VecDeque::new(), |known| append_poll(known, &snapshot));
            self.by_file.insert(id, MeteredLoop::new(snapshot, polls, late_function));
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
fn append_poll(known: MeteredLoop, snapshot: &Snapshot) -> VecDeque<WindowStats> {
    let Some(delta) = snapshot.since(&known.snapshot) else { return VecDeque::new() };
    let mut polls = known.polls;
    polls.push_back(WindowStats::from(&delta));
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
