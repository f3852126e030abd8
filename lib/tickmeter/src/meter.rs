//! The writer's side: [`Meter`].

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::book::{Book, Entry};
use crate::clock::Clock;
use crate::layout::{self, LONGEST_NAME, LONGEST_PROGRAM, Layout, at};
use crate::page::Page;
use crate::place::Place;
#[cfg(any(not(unix), loom))]
use crate::place::Why;
use crate::reader::Reader;
use crate::series::Series;
use crate::snapshot::Snapshot;

/// The names in use in this process.
static NAMES: Mutex<Vec<String>> = Mutex::new(Vec::new());
static REGISTERED: AtomicU64 = AtomicU64::new(0);

/// Measures one loop of this process. Register one for each loop, before the loop begins.
///
/// Most programs wrap their interval (`Meter::wrap`, with the feature of its crate). A loop that
/// waits for something else calls [`tick`](Meter::tick) first thing after the wait, and
/// [`work_done`](Meter::work_done) before it waits again:
///
/// ```
/// use std::time::{Duration, Instant};
/// use tickmeter::Meter;
///
/// let period = Duration::from_millis(1);
/// let mut meter = Meter::register("control-loop", period)?;
/// let mut deadline = Instant::now();
/// for _ in 0..5 {
///     deadline += period;
///     std::thread::sleep(deadline.saturating_duration_since(Instant::now()));
///     meter.tick(deadline);
///     // ... the work of the loop ...
///     meter.work_done();
/// }
/// let snapshot = meter.snapshot();
/// println!("p99: {:?} late, work {:?}", snapshot.lateness.quantile(0.99), snapshot.work.quantile(0.99));
/// assert_eq!(snapshot.ticks, 5);
/// # Ok::<(), tickmeter::RegisterError>(())
/// ```
///
/// Its file is removed when it is dropped. A process that forks shares the memory with its child:
/// register after the fork.
///
/// # Precision
/// A lateness is good to [`tach::error_bound_ns`], tens to hundreds of nanoseconds, and to the
/// width of a bin, 0.8 %. A tick that seems early by less than that bound is booked as on time.
/// Deadlines must be of the operating system's clock: under `tokio::time::pause` they are not.
pub struct Meter {
    page: Arc<Page>,
    name: String,
    place: Place,
    period: Duration,
    period_ns: u64,
    late_from_ns: u64,
    clock: Clock,
    /// When the last tick came.
    woke_ns: i64,
    /// When the next is due, if it is on the grid of the last.
    next: Option<(Instant, i64)>,
    was_by_work: bool,
    /// The work since the last tick, if it is done, and when the loop last began to wait.
    work_ns: Option<u64>,
    idle_ns: Option<i64>,
    /// Where this program is being measured.
    series: Option<Box<Series>>,
}

/// Why a meter cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegisterError {
    /// The name is empty, longer than 64 bytes, or has control characters.
    Name(String),
    /// The period is zero, or longer than 584 years.
    Period(Duration),
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(
                f,
                "{name:?} is no name for a meter: use 1 to {LONGEST_NAME} printable bytes"
            ),
            Self::Period(period) => write!(f, "{period:?} is no period for a meter"),
        }
    }
}

impl std::error::Error for RegisterError {}

impl Meter {
    /// Registers a loop under a name that readers will see; ticks at least half a period late are
    /// recorded one by one.
    ///
    /// Where the name is taken in this process, the second meter is called `name-2`: see
    /// [`Meter::name`]. Where no memory can be shared, the meter works and only this process can
    /// read it: see [`Meter::place`].
    ///
    /// # Errors
    /// A name or a period that is none: see [`RegisterError`]. Never because of the operating
    /// system.
    pub fn register(name: &str, period: Duration) -> Result<Self, RegisterError> {
        Self::register_with(name, period, period / 2)
    }

    /// As [`Meter::register`]; ticks that are late by `late_from` or more are recorded one by one.
    ///
    /// # Errors
    /// As [`Meter::register`].
    pub fn register_with(
        name: &str,
        period: Duration,
        late_from: Duration,
    ) -> Result<Self, RegisterError> {
        if name.is_empty() || name.len() > LONGEST_NAME || name.contains(char::is_control) {
            return Err(RegisterError::Name(name.to_owned()));
        }
        let period_ns = u64::try_from(period.as_nanos()).ok().filter(|&ns| ns > 0);
        let period_ns = period_ns.ok_or(RegisterError::Period(period))?;
        let late_from_ns = u64::try_from(late_from.as_nanos()).unwrap_or(u64::MAX).max(1);
        let clock = Clock::new();
        let series = Series::claim(name, clock.origin());
        let name = claim(name);
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut words = vec![0; Layout::CURRENT.words];
        words[..11].copy_from_slice(&Layout::CURRENT.header());
        words[at::PID] = std::process::id().into();
        words[at::REGISTERED] = u64::try_from(unix.as_nanos()).unwrap_or(u64::MAX);
        words[at::PERIOD] = period_ns;
        words[at::LATE_FROM] = late_from_ns;
        words[at::CLOCK_ERROR] = tach::error_bound_ns();
        layout::put_text(&mut words[at::NAME..at::PROGRAM], &name);
        layout::put_text(&mut words[at::PROGRAM..at::BEGUN], &program());
        let number = REGISTERED.fetch_add(1, Ordering::Relaxed);
        let file = format!("{}-{:x}-{number}", std::process::id(), words[at::REGISTERED]);
        let (page, place) = page(&file, &words);
        Ok(Self {
            page: Arc::new(page),
            name,
            place,
            period,
            period_ns,
            late_from_ns,
            clock,
            woke_ns: 0,
            next: None,
            was_by_work: false,
            work_ns: None,
            idle_ns: None,
            series,
        })
    }

    /// The name that readers see: the one registered, or with a suffix where that was taken.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where its memory is; if nobody else can read it, why.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The period that ticks are judged by.
    #[must_use]
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Books a tick that was due at `deadline`: call it first thing after the wait.
    ///
    /// Where deadlines are further apart than the period, by whole periods, those in between are
    /// booked as skipped. By anything else, the schedule has moved, as `Delay` and a reset do.
    #[inline]
    pub fn tick(&mut self, deadline: Instant) {
        self.ticks(deadline, 1);
    }

    /// Books a wake-up for `count` ticks, the first of them due at `first` and the others a period
    /// apart: coalesced, as `osinterval`'s `PeriodicInterval` reports them. Nothing is booked for a
    /// count of zero.
    #[inline]
    pub fn ticks(&mut self, first: Instant, count: u64) {
        self.woke(first, count, tach::count());
    }

    /// As [`Meter::ticks`], of a loop that has read the clock already: it woke at `woke`.
    ///
    /// ```
    /// # use std::time::{Duration, Instant};
    /// # let mut meter = tickmeter::Meter::register("stamped", Duration::from_millis(1))?;
    /// # let deadline = Instant::now();
    /// let woke = tach::Instant::now();
    /// // ... what the loop does before it knows which tick this is ...
    /// meter.ticks_at(deadline, 1, woke);
    /// # assert_eq!(meter.snapshot().ticks, 1);
    /// # Ok::<(), tickmeter::RegisterError>(())
    /// ```
    #[inline]
    pub fn ticks_at(&mut self, first: Instant, count: u64, woke: tach::Instant) {
        self.woke(first, count, woke.count());
    }

    /// At a reading of the counter.
    #[inline]
    fn woke(&mut self, first: Instant, count: u64, reading: u64) {
        if count == 0 {
            return;
        }
        let now_ns = self.clock.ns_at(reading);
        // Two comparisons, where the difference of two instants costs as much as all the rest.
        let (due_ns, skipped) = match self.next {
            Some((next, due_ns)) if next == first => (due_ns, 0),
            _ => self.elsewhere(first),
        };
        let lateness_ns = now_ns.saturating_sub(due_ns);
        let overrun_ns =
            self.idle_ns.map_or(0, |idle| u64::try_from(idle.saturating_sub(due_ns)).unwrap_or(0));
        // The greater part of the lateness decides.
        let by_work = overrun_ns > 0 && overrun_ns as i64 >= lateness_ns / 2;
        let entry = Entry {
            at_ns: now_ns as u64,
            lateness_ns,
            ticks: count,
            period_ns: self.period_ns,
            skipped,
            early: lateness_ns < 0 && lateness_ns.unsigned_abs() > tach::error_bound_ns(),
            work_ns: self.work_ns.take(),
            overrun_ns,
            by_work,
            skipped_by_work: self.was_by_work,
            late_from_ns: self.late_from_ns,
        };
        Book::new(&self.page, &Layout::CURRENT).enter(&entry);
        self.woke_ns = now_ns;
        self.next = match count {
            1 => first
                .checked_add(self.period)
                .map(|next| (next, due_ns.saturating_add(self.period_ns as i64))),
            _ => self.after(first, count).map(|next| (next, self.clock.ns_of(next))),
        };
        self.was_by_work = by_work;
        self.idle_ns = None;
        if let Some(series) = &mut self.series {
            let seems_early = lateness_ns < 0 && !entry.early;
            series.push(if seems_early { 0 } else { lateness_ns }, count, self.period_ns, now_ns);
        }
    }

    /// The work since the last tick is done, and the loop waits for the next: call it before the
    /// wait. It is what tells late from slow: the work is booked, and a deadline that passes before
    /// this is an overrun. The first call after a tick ends its work; each says that the loop was
    /// still busy until now.
    #[inline]
    pub fn work_done(&mut self) {
        let now_ns = self.clock.ns_at(tach::count());
        if self.next.is_some() && self.idle_ns.is_none() {
            self.work_ns = Some(u64::try_from(now_ns - self.woke_ns).unwrap_or(0));
        }
        self.idle_ns = Some(now_ns);
    }

    /// What has been booked so far. To look from another thread, take a [`Meter::reader`] there.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.reader().snapshot()
    }

    /// What reads this meter from any thread of this process, without disturbing it; it may outlive
    /// the meter.
    #[must_use]
    pub fn reader(&self) -> Reader {
        Reader::new(Arc::clone(&self.page))
    }

    /// Goes by the period of an interval from now on.
    pub(crate) fn set_period(&mut self, period: Duration) {
        let period_ns = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX).max(1);
        if period_ns != self.period_ns {
            (self.period, self.period_ns) = (period, period_ns);
            self.page[at::PERIOD].store(period_ns, crate::sync::Ordering::Relaxed);
        }
    }

    /// A deadline that is not the next of the grid: when that is, and the whole periods that it is
    /// beyond it.
    #[cold]
    #[inline(never)]
    fn elsewhere(&self, deadline: Instant) -> (i64, u64) {
        let due_ns = self.clock.ns_of(deadline);
        let beyond =
            self.next.and_then(|(_, next_ns)| u64::try_from(due_ns.saturating_sub(next_ns)).ok());
        let skipped = beyond
            .filter(|ns| ns.is_multiple_of(self.period_ns))
            .map_or(0, |ns| ns / self.period_ns);
        (due_ns, skipped)
    }

    /// The deadline so many periods on.
    #[cold]
    fn after(&self, first: Instant, count: u64) -> Option<Instant> {
        first.checked_add(Duration::from_nanos(self.period_ns.checked_mul(count)?))
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meter")
            .field("name", &self.name)
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if let Place::Mapped(path) = &self.place {
            // What is left behind is swept by the next one to look.
            let _ = std::fs::remove_file(path);
        }
        NAMES.lock().unwrap_or_else(PoisonError::into_inner).retain(|name| *name != self.name);
    }
}

/// A name that no other meter of this process has: with a suffix if need be.
fn claim(name: &str) -> String {
    let mut taken = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let numbered = |n: usize| {
        let suffix = format!("-{n}");
        let mut end = name.len().min(LONGEST_NAME - suffix.len());
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        format!("{}{suffix}", &name[..end])
    };
    let mut names = std::iter::once(name.to_owned()).chain((2..).map(numbered));
    let free = names.find(|name| !taken.contains(name)).expect("as many names as numbers");
    taken.push(free.clone());
    free
}

/// What this program is called, as far as there is room.
fn program() -> String {
    let path = std::env::args_os().next().unwrap_or_default();
    let mut name: String =
        Path::new(&path).file_name().unwrap_or_default().to_string_lossy().into_owned();
    while name.len() > LONGEST_PROGRAM {
        name.pop();
    }
    name
}

#[cfg(all(unix, not(loom)))]
fn page(file: &str, words: &[u64]) -> (Page, Place) {
    match crate::place::create(file, words) {
        Ok((mapping, path)) => (Page::Mapped(mapping), Place::Mapped(path)),
        Err(why) => (private(words), Place::Private(why)),
    }
}

#[cfg(any(not(unix), loom))]
fn page(_file: &str, words: &[u64]) -> (Page, Place) {
    (private(words), Place::Private(Why::NoDirectory))
}

fn private(words: &[u64]) -> Page {
    let page = Page::private(words.len());
    for (word, &value) in page.iter().zip(words) {
        word.store(value, crate::sync::Ordering::Relaxed);
    }
    page
}
