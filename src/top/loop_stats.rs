//! What each loop did of late: pure, from snapshots a second apart.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use tickmeter::{Histogram, Snapshot};

/// Looks that are kept: the longest window.
const KEPT: usize = 60;

/// How far back figures reach.
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

    /// Looks that it is made of.
    pub fn looks(self) -> usize {
        match self {
            Self::Second => 1,
            Self::TenSeconds => 10,
            Self::Minute => KEPT,
        }
    }
}

/// Which loop is shown first.
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
    /// The next one, the first after the last.
    pub fn next(self) -> Self {
        let all = Self::value_variants();
        let at = all.iter().position(|sort| *sort == self).map_or(0, |at| at + 1);
        all[at % all.len()]
    }
}

/// The figures of one window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
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

impl Figures {
    fn of(snapshot: &Snapshot) -> Self {
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

/// One metered loop.
#[derive(Clone, Debug)]
pub struct Loop {
    pub now: Snapshot,
    /// What was booked from one look to the next, the latest last: about a second each.
    looks: VecDeque<Figures>,
    /// By [`Window`].
    pub windows: [Figures; 3],
}

impl Loop {
    pub fn of(&self, window: Window) -> &Figures {
        &self.windows[window as usize]
    }

    /// Whether it was watched for so long.
    pub fn has(&self, window: Window) -> bool {
        self.looks.len() >= window.looks()
    }

    /// Since it was registered.
    pub fn total(&self) -> Figures {
        Figures::of(&self.now)
    }

    /// The p99 of each look, the latest last; `None` where no tick came.
    pub fn course(
        &self,
    ) -> impl DoubleEndedIterator<Item = Option<Duration>> + ExactSizeIterator + '_ {
        self.looks.iter().map(|look| look.lateness.quantile(0.99))
    }
}

/// All of them, in the order in which they are shown.
#[derive(Debug, Default)]
pub struct Loops {
    by_file: BTreeMap<PathBuf, Loop>,
    order: Vec<PathBuf>,
}

impl Loops {
    pub fn is_empty(&self) -> bool {
        self.by_file.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Loop> {
        self.order.iter().filter_map(|path| self.by_file.get(path))
    }

    /// Takes the next look. A loop that is not in it has ended.
    pub fn take(&mut self, looked: Vec<(PathBuf, Snapshot)>) {
        let mut before = std::mem::take(&mut self.by_file);
        for (path, now) in looked {
            let known = before
                .remove(&path)
                .and_then(|known| now.since(&known.now).map(|since| (known.looks, since)));
            let looks = match known {
                Some((mut looks, since)) => {
                    looks.push_back(Figures::of(&since));
                    looks.drain(..looks.len().saturating_sub(KEPT));
                    looks
                }
                None => VecDeque::new(),
            };
            let windows = Window::ALL.map(|window| {
                let last = looks.iter().rev().take(window.looks());
                last.fold(Figures::default(), |sum, look| sum.plus(look))
            });
            self.by_file.insert(path, Loop { now, looks, windows });
        }
        self.order = self.by_file.keys().cloned().collect();
    }

    /// The largest first, names alphabetically.
    pub fn sort(&mut self, sort: Sort, window: Window) {
        let key = |of: &Loop| {
            let figures = of.of(window);
            let ns = |value: Option<Duration>| value.map_or(0, |value| value.as_nanos() as u64);
            match sort {
                Sort::Name => 0,
                Sort::P50 => ns(figures.lateness.quantile(0.5)),
                Sort::P99 => ns(figures.lateness.quantile(0.99)),
                Sort::Max => ns(figures.lateness.max()),
                Sort::Missed => figures.missed,
                Sort::Slow => figures.missed_by_work,
                Sort::Work => ns(figures.work.quantile(0.99)),
            }
        };
        let by_file = &self.by_file;
        self.order.sort_by_cached_key(|path| {
            let of = by_file.get(path);
            (std::cmp::Reverse(of.map(key)), of.map(|of| of.now.name.clone()), path.clone())
        });
    }
}
