//! [`Meter`]: measures one loop and records its ticks.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
#[cfg(all(target_os = "linux", not(loom)))]
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use crate::clock::{Clock, saturating_ns};
use crate::layout::{
    self, HEADER_WORDS, LAYOUT_WORDS, Layout, MAX_NAME_BYTES, MAX_PROGRAM_BYTES, at,
};
use crate::names::UniqueName;
use crate::page::Page;
use crate::publication::{Wakeup, Writer};
use crate::reader::Reader;
use crate::series_writer::SeriesWriter;
use crate::snapshot::Snapshot;
use crate::storage::{MeterFile, Place, Why};

/// Number of meters that were registered so far, to give each file a different name.
static REGISTERED: AtomicU64 = AtomicU64::new(0);

/// Measures one loop of this process. Register a meter for each loop, before the loop begins.
///
/// Most programs wrap their interval (`Meter::wrap`, with the feature of its crate). A loop that
/// waits for something else calls [`tick`](Meter::tick) immediately after the wait, and
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
/// println!("lateness p99: {:?}", snapshot.lateness.quantile(0.99));
/// println!("work p99: {:?}", snapshot.work.quantile(0.99));
/// assert_eq!(snapshot.ticks, 5);
/// # Ok::<(), tickmeter::RegisterError>(())
/// ```
///
/// The meter's file is removed when the meter is dropped. A process that forks shares the memory
/// with its child: register after the fork. If the child drops its copy of a meter, the file stays.
///
/// # Precision
/// A lateness is accurate to [`Snapshot::clock_error`](crate::Snapshot::clock_error), some hundreds
/// of nanoseconds, plus the width of a bin, 0.8 %. A tick that seems early by less than that bound
/// is recorded as on time. Deadlines must be on the operating system's clock. Under
/// `tokio::time::pause` they are not.
#[must_use = "a meter records nothing unless its loop calls it, and ends when it is dropped"]
pub struct Meter {
    /// Removes the file when the meter is dropped.
    file: Option<MeterFile>,
    page: Arc<Page>,
    /// Whether the memory of all words is allocated, which the first tick does.
    is_reserved: bool,
    name: UniqueName,
    place: Place,
    period: Duration,
    period_ns: u64,
    late_from_ns: u64,
    /// Whether ticks are late from half of the period on, also of a later period.
    is_late_from_half: bool,
    clock: Clock,
    /// Time of the last wake-up.
    last_wakeup_ns: i64,
    /// The deadline that follows the last tick on its grid, as an instant and on `clock`.
    next_deadline: Option<(Instant, i64)>,
    /// Whether the last tick was late because of the work before it.
    was_late_by_work: bool,
    /// Part of the last tick's lateness that is not due to the loop's work.
    wait_lateness_ns: i64,
    /// Duration of the work since the last tick, if it is done.
    work_ns: Option<u64>,
    /// When the loop last began to wait.
    idle_since_ns: Option<i64>,
    /// Writes the ticks to a file if osjitter measures this program.
    series: Option<Box<SeriesWriter>>,
    #[cfg(feature = "tracing")]
    late_events: crate::late_events::LateEvents,
    #[cfg(feature = "stacks")]
    watched: crate::stacks::WatchedLoop,
}

/// An error of [`Meter::register`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegisterError {
    /// The name is empty, longer than 64 bytes, or contains control characters.
    Name(String),
    /// The period is zero or longer than 584 years.
    Period(Duration),
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(
                f,
                "invalid meter name {name:?}: expected 1 to {MAX_NAME_BYTES} printable bytes"
            ),
            Self::Period(period) => {
                write!(f, "invalid meter period {period:?}: expected more than 0, up to 584 years")
            }
        }
    }
}

impl std::error::Error for RegisterError {}

impl Meter {
    /// Registers a loop under a name that readers see. Ticks that are at least half a period late
    /// are recorded individually.
    ///
    /// If the name is taken in this process, the meter gets the name `name-2`: see [`Meter::name`].
    /// If no memory can be shared, the meter works but only this process can read it: see
    /// [`Meter::place`].
    ///
    /// # Errors
    /// Returns an error if the name or the period is invalid: see [`RegisterError`]. Failures of
    /// the operating system are not errors.
    pub fn register(name: &str, period: Duration) -> Result<Self, RegisterError> {
        let mut meter = Self::register_with(name, period, period / 2)?;
        meter.is_late_from_half = true;
        Ok(meter)
    }

    /// Registers a loop like [`Meter::register`], but with ticks that are late by `late_from` or
    /// more recorded individually.
    ///
    /// # Errors
    /// Returns an error if the name or the period is invalid, like [`Meter::register`].
    pub fn register_with(
        name: &str,
        period: Duration,
        late_from: Duration,
    ) -> Result<Self, RegisterError> {
        if name.is_empty() || name.len() > MAX_NAME_BYTES || name.contains(char::is_control) {
            return Err(RegisterError::Name(name.to_owned()));
        }
        let period_ns = u64::try_from(period.as_nanos()).ok().filter(|&ns| ns > 0);
        let period_ns = period_ns.ok_or(RegisterError::Period(period))?;
        let late_from_ns = saturating_ns(late_from).max(1);
        let clock = Clock::new();
        let name = UniqueName::claim(name);
        let series = SeriesWriter::from_env(name.as_str(), period_ns, clock.origin());
        let mut header = initial_header(name.as_str(), period_ns, late_from_ns);
        header[at::CLOCK_ERROR] = clock.error_bound_ns();
        header[at::REGISTERED_MONOTONIC] = monotonic_ns_at(clock.origin()).unwrap_or(0);
        let number = REGISTERED.fetch_add(1, Ordering::Relaxed);
        let file = format!("{}-{:x}-{number}", std::process::id(), header[at::REGISTERED]);
        let Memory { file, page, place } = Memory::create(&file, &header);
        if let (Some(series), Place::Mapped(path)) = (&series, &place) {
            series.add_meter_file(path);
        }
        let page = Arc::new(page);
        #[cfg(feature = "stacks")]
        let watched =
            crate::stacks::WatchedLoop::new(name.as_str(), clock.start(), &page, period_ns);
        Ok(Self {
            file,
            page,
            is_reserved: false,
            name,
            place,
            period,
            period_ns,
            late_from_ns,
            is_late_from_half: false,
            clock,
            last_wakeup_ns: 0,
            next_deadline: None,
            was_late_by_work: false,
            wait_lateness_ns: 0,
            work_ns: None,
            idle_since_ns: None,
            series,
            #[cfg(feature = "tracing")]
            late_events: crate::late_events::LateEvents::default(),
            #[cfg(feature = "stacks")]
            watched,
        })
    }

    /// Returns the name that readers see: the registered one, with a suffix if that was taken.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Returns the location of the meter's memory. If other processes cannot read it, the place
    /// contains the reason.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Returns the nominal period.
    #[must_use]
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Records a tick that was due at `deadline`. Call it immediately after the wait.
    ///
    /// If deadlines are further apart than the period, by whole periods, the ticks in between are
    /// recorded as skipped. Any other distance means that the schedule has moved, as it does under
    /// `Delay` and after a reset.
    #[inline]
    pub fn tick(&mut self, deadline: Instant) {
        self.ticks(deadline, 1);
    }

    /// Records a wake-up for `count` coalesced ticks, as `osinterval`'s `PeriodicInterval` reports
    /// them. The first tick was due at `first`, and each other tick a period after the previous
    /// one. Does nothing if `count` is zero.
    #[inline]
    pub fn ticks(&mut self, first: Instant, count: u64) {
        self.record_wakeup(first, count, tach::count());
    }

    /// Records a wake-up like [`Meter::ticks`], for a loop that has already read the clock: it woke
    /// up at `woke`.
    ///
    /// ```
    /// # use std::time::{Duration, Instant};
    /// # let mut meter = tickmeter::Meter::register("stamped", Duration::from_millis(1))?;
    /// # let deadline = Instant::now();
    /// let woke = tach::Instant::now();
    /// // ... the loop finds out which tick this is ...
    /// meter.ticks_at(deadline, 1, woke);
    /// # assert_eq!(meter.snapshot().ticks, 1);
    /// # Ok::<(), tickmeter::RegisterError>(())
    /// ```
    #[inline]
    pub fn ticks_at(&mut self, first: Instant, count: u64, woke: tach::Instant) {
        self.record_wakeup(first, count, woke.count());
    }

    /// Records a wake-up at the time of a counter reading.
    #[inline]
    fn record_wakeup(&mut self, first: Instant, count: u64, reading: u64) {
        if count == 0 {
            return;
        }
        let now_ns = self.ns_at(reading);
        // Two comparisons: computing the difference of two instants costs as much as all the rest.
        let (due_ns, skipped) = match self.next_deadline {
            Some((next, due_ns)) if next == first => (due_ns, 0),
            _ => self.off_grid_deadline(first),
        };
        let lateness_ns = now_ns.saturating_sub(due_ns);
        // A tick that was overdue before the work began inherits the lateness that is not due to
        // work: a loop that catches up after a late wake-up is not slow.
        let inherited_ns = if due_ns < self.last_wakeup_ns { self.wait_lateness_ns } else { 0 };
        let overrun_ns = self.idle_since_ns.map_or(0, |idle_ns| {
            let past_deadline_ns = idle_ns.saturating_sub(due_ns).saturating_sub(inherited_ns);
            u64::try_from(past_deadline_ns).unwrap_or(0)
        });
        // The larger part of the lateness decides what caused it.
        let late_by_work = overrun_ns > 0 && overrun_ns as i64 >= lateness_ns / 2;
        let wakeup = Wakeup {
            at_ns: u64::try_from(now_ns).unwrap_or(0),
            lateness_ns,
            ticks: count,
            period_ns: self.period_ns,
            skipped,
            early: lateness_ns < 0 && lateness_ns.unsigned_abs() > self.clock.error_bound_ns(),
            work_ns: self.work_ns.take(),
            overrun_ns,
            late_by_work,
            skipped_by_work: self.was_late_by_work,
            late_from_ns: self.late_from_ns,
        };
        Writer::new(&self.page, &Layout::CURRENT).record(&wakeup);
        #[cfg(feature = "stacks")]
        self.watched.wake(now_ns);
        self.last_wakeup_ns = now_ns;
        self.next_deadline = self.following_deadline(first, count, due_ns);
        self.was_late_by_work = late_by_work;
        self.wait_lateness_ns = lateness_ns.saturating_sub_unsigned(overrun_ns).max(0);
        self.idle_since_ns = None;
        if let Some(series) = &mut self.series {
            let seems_early = lateness_ns < 0 && !wakeup.early;
            series.push(if seems_early { 0 } else { lateness_ns }, count, self.period_ns, now_ns);
        }
        #[cfg(feature = "tracing")]
        self.late_events.check(self.name.as_str(), &wakeup);
    }

    /// Converts a reading of the counter to a time on the clock of the meter.
    #[inline]
    fn ns_at(&mut self, reading: u64) -> i64 {
        self.clock.ns_at(reading).unwrap_or_else(|| self.move_anchor(reading))
    }

    /// Moves the anchor of the clock, and publishes its error bound, which may have grown.
    #[cold]
    #[inline(never)]
    fn move_anchor(&mut self, reading: u64) -> i64 {
        let ns = self.clock.move_anchor(reading);
        #[cfg(feature = "stacks")]
        self.watched.set_ahead_ns(self.clock.ahead_ns());
        let error_ns = self.clock.error_bound_ns();
        self.page[at::CLOCK_ERROR].store(error_ns, crate::sync::Ordering::Relaxed);
        ns
    }

    /// Marks the end of the work since the last tick. Call it before the loop waits again.
    ///
    /// The mark separates late from slow: the work is recorded, and a deadline that passes before
    /// the mark counts as an overrun, except while the loop catches up after a late wake-up. The
    /// first call after a tick ends the work. Every call marks the loop as busy until now.
    #[inline]
    pub fn work_done(&mut self) {
        let now_ns = self.ns_at(tach::count());
        if self.next_deadline.is_some() && self.idle_since_ns.is_none() {
            self.work_ns = Some(u64::try_from(now_ns - self.last_wakeup_ns).unwrap_or(0));
        }
        self.idle_since_ns = Some(now_ns);
        self.note_waiting_thread();
    }

    /// Publishes that this thread runs the loop, which waits for its next tick.
    #[inline]
    pub(crate) fn note_waiting_thread(&self) {
        #[cfg(feature = "stacks")]
        self.watched.wait();
    }

    /// Returns what was recorded so far. Use [`Meter::reader`] to take snapshots on another thread.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.reader().snapshot()
    }

    /// Returns a reader of this meter for any thread of this process. Reading does not disturb the
    /// meter, and the reader may outlive it.
    #[must_use]
    pub fn reader(&self) -> Reader {
        Reader::new(Arc::clone(&self.page))
    }

    /// Replaces the nominal period with that of an interval.
    pub(crate) fn set_period(&mut self, period: Duration) {
        let period_ns = saturating_ns(period).max(1);
        if period_ns != self.period_ns {
            (self.period, self.period_ns) = (period, period_ns);
            self.page[at::PERIOD].store(period_ns, crate::sync::Ordering::Relaxed);
            if self.is_late_from_half {
                self.late_from_ns = (period_ns / 2).max(1);
                self.page[at::LATE_FROM].store(self.late_from_ns, crate::sync::Ordering::Relaxed);
            }
            #[cfg(feature = "stacks")]
            self.watched.set_period(period_ns);
            if let Some(series) = &self.series {
                series.set_period(period_ns);
            }
        }
    }

    /// Returns the deadline after `count` ticks, the first of which was due at `first`, which is
    /// `due_ns` on the clock.
    #[inline]
    fn following_deadline(
        &self,
        first: Instant,
        count: u64,
        due_ns: i64,
    ) -> Option<(Instant, i64)> {
        if count == 1 {
            let next = first.checked_add(self.period)?;
            return Some((next, due_ns.saturating_add_unsigned(self.period_ns)));
        }
        let next = self.deadline_after(first, count)?;
        Some((next, self.clock.ns_of(next)))
    }

    /// Handles a deadline other than the next one of the grid. Returns its time on the clock, and
    /// the number of ticks that were skipped if it is on the grid, and zero if it is not.
    ///
    /// The first deadline of a meter is one of these.
    #[cold]
    #[inline(never)]
    fn off_grid_deadline(&mut self, deadline: Instant) -> (i64, u64) {
        if !self.is_reserved {
            self.reserve();
        }
        let due_ns = self.clock.ns_of(deadline);
        let distance_ns = self
            .next_deadline
            .and_then(|(_, next_ns)| u64::try_from(due_ns.saturating_sub(next_ns)).ok());
        // A time that saturates is on no grid.
        let is_exact = due_ns < i64::MAX;
        let skipped = distance_ns
            .filter(|ns| is_exact && ns.is_multiple_of(self.period_ns))
            .map_or(0, |ns| ns / self.period_ns);
        (due_ns, skipped)
    }

    /// Allocates the memory of the meter. If the system refuses it, because the file system is full
    /// for example, the meter continues in private memory without a file.
    fn reserve(&mut self) {
        self.is_reserved = true;
        let Err(error) = self.page.reserve() else { return };
        self.page = self.page.replace();
        self.file = None;
        if let Place::Mapped(path) = &self.place {
            let directory = path.parent().unwrap_or(path).to_owned();
            self.place = Place::Private(Why::Refused(directory, error));
        }
    }

    /// Returns the deadline `count` periods after `first`.
    #[cold]
    fn deadline_after(&self, first: Instant, count: u64) -> Option<Instant> {
        first.checked_add(Duration::from_nanos(self.period_ns.checked_mul(count)?))
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meter")
            .field("name", &self.name())
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

/// Returns the file name of this program, shortened to [`MAX_PROGRAM_BYTES`].
fn program_name() -> String {
    let path = std::env::args_os().next().unwrap_or_default();
    let mut name: String =
        Path::new(&path).file_name().unwrap_or_default().to_string_lossy().into_owned();
    while name.len() > MAX_PROGRAM_BYTES {
        name.pop();
    }
    name
}

/// Returns the header of a meter that has recorded nothing yet.
fn initial_header(name: &str, period_ns: u64, late_from_ns: u64) -> [u64; HEADER_WORDS] {
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut header = [0; HEADER_WORDS];
    header[..LAYOUT_WORDS].copy_from_slice(&Layout::CURRENT.header_words());
    header[at::PID] = std::process::id().into();
    header[at::REGISTERED] = saturating_ns(unix);
    header[at::PERIOD] = period_ns;
    header[at::LATE_FROM] = late_from_ns;
    layout::write_text(&mut header[at::NAME..at::PROGRAM], name);
    layout::write_text(&mut header[at::PROGRAM..at::BEGUN], &program_name());
    header
}

/// Returns the monotonic clock of the kernel at an instant; `None` if it cannot be read.
#[cfg(all(target_os = "linux", not(loom)))]
fn monotonic_ns_at(instant: Instant) -> Option<u64> {
    /// A time by both clocks, which are the same except for their origin.
    static PAIR: OnceLock<tach::Paired<Option<u64>>> = OnceLock::new();
    let pair = PAIR.get_or_init(|| tach::read_paired(crate::calls::monotonic_ns));
    match instant.checked_duration_since(pair.at) {
        Some(after) => pair.value?.checked_add(saturating_ns(after)),
        None => pair.value?.checked_sub(saturating_ns(pair.at - instant)),
    }
}

#[cfg(any(not(target_os = "linux"), loom))]
fn monotonic_ns_at(_instant: Instant) -> Option<u64> {
    None
}

/// The memory of a meter.
struct Memory {
    file: Option<MeterFile>,
    page: Page,
    place: Place,
}

impl Memory {
    /// Creates a shared file if possible, otherwise private memory.
    #[cfg(all(unix, not(loom)))]
    fn create(name: &str, header: &[u64; HEADER_WORDS]) -> Self {
        match crate::storage::create(name, header, Layout::CURRENT.words) {
            Ok(created) => Self {
                place: Place::Mapped(created.file.path()),
                page: Page::mapped(created.mapping),
                file: Some(created.file),
            },
            Err(why) => Self::private(header, why),
        }
    }

    #[cfg(any(not(unix), loom))]
    fn create(_name: &str, header: &[u64; HEADER_WORDS]) -> Self {
        Self::private(header, Why::NoDirectory)
    }

    fn private(header: &[u64; HEADER_WORDS], why: Why) -> Self {
        let page = Page::private(header, Layout::CURRENT.words);
        Self { file: None, page, place: Place::Private(why) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "reads the counter")]
    fn moved_anchor_publishes_clock_error() {
        let mut meter = Meter::register("anchor", Duration::from_millis(1)).unwrap();
        meter.page[at::CLOCK_ERROR].store(0, Ordering::Relaxed);
        // The first tick moves the anchor.
        meter.tick(meter.clock.origin());
        assert!(meter.snapshot().clock_error.as_nanos() > 0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "reads the counter")]
    fn late_limit_follows_the_period() {
        let ms = Duration::from_millis;
        let mut meter = Meter::register("half", ms(10)).unwrap();
        meter.set_period(ms(2));
        meter.tick(meter.clock.origin() - ms(3));
        let snapshot = meter.snapshot();
        assert_eq!((snapshot.late_from, snapshot.late.len()), (ms(1), 1));
        let mut meter = Meter::register_with("fixed", ms(10), ms(3)).unwrap();
        meter.set_period(ms(2));
        assert_eq!(meter.snapshot().late_from, ms(3));
    }
}
