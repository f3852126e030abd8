//! Recording of the evidence during profiled rounds.

use std::cell::RefCell;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use files::why::{Cycle, Reading, Standstill};
use tach::Conversion;

use crate::machine::os::{self, NotAvailable, Quota, SwitchRing, ThreadStats};
use crate::measure::why::occupants::CpuRings;
use crate::measure::why::wakeup_chains::WakeupChains;
use crate::measure::why::witness::Witnesses;
use crate::stacks::StackNamer;
use crate::subject::WaitKind;

/// Number of cycles per tick for which memory is reserved. A task of a load may wake the thread
/// between ticks.
const CYCLES_PER_TICK: usize = 16;
/// Maximum number of cycles per round.
const MAX_CYCLES: usize = 1 << 20;
/// Maximum time of an uninterrupted reading.
const MAX_READ_TIME: Duration = Duration::from_micros(50);

/// Recorders that all profiled rounds of a run share.
#[derive(Debug)]
pub struct Profiler {
    pub(super) quotas: Vec<Quota>,
    /// Cost of a page fault.
    pub(super) fault_ns: Option<u64>,
    /// A ring for each CPU that the process may use.
    pub(super) cpus: CpuRings,
    pub(super) chains: WakeupChains,
    /// Names of the functions of a user's program.
    pub(super) stacks: Mutex<StackNamer>,
    /// Whether the threads of further rounds have rings of their own, although all CPUs have some.
    has_lost_records: AtomicBool,
}

impl Profiler {
    /// Opens the recorders that are available.
    pub fn open() -> Self {
        os::install_stop_handler();
        let cpus = os::affinity().unwrap_or_else(|| vec![0]);
        let rings = cpus.into_iter().map(SwitchRing::for_cpu).collect::<Result<Vec<_>, _>>();
        Self {
            quotas: os::quotas(),
            fault_ns: os::fault_ns(),
            cpus: rings.map(Mutex::new),
            chains: WakeupChains::open(),
            stacks: Mutex::default(),
            has_lost_records: AtomicBool::new(false),
        }
    }

    /// Starts recording for a round of `ticks` ticks.
    pub fn begin(&self, ticks: usize, period: Duration) -> RoundProfiler {
        let witnesses = Mutex::new(Some(Witnesses::begin(period)));
        self.set_recording(true);
        let capacity = ticks.saturating_mul(CYCLES_PER_TICK).saturating_add(64).min(MAX_CYCLES);
        let shared = SharedState {
            quotas: self.quotas.clone(),
            capacity,
            has_thread_rings: self.cpus.is_err() || self.has_lost_records.load(Ordering::Relaxed),
            threads: AtomicUsize::new(0),
            logs: Mutex::default(),
            witnesses,
        };
        RoundProfiler(Arc::new(shared))
    }

    /// Records the threads of further rounds separately, since the rings of the CPUs are too small
    /// for the switches of all threads.
    pub(super) fn separate_threads(&self) {
        self.has_lost_records.store(true, Ordering::Relaxed);
    }

    /// Starts or stops recording the switches of the CPUs and the wake-ups.
    pub fn set_recording(&self, on: bool) {
        if let Ok(rings) = &self.cpus {
            let rings = rings.lock().unwrap_or_else(PoisonError::into_inner);
            for ring in rings.iter() {
                ring.record(on);
            }
        }
        self.chains.set_recording(on);
    }
}

/// Recorder of the threads of a round.
#[derive(Clone, Debug)]
pub struct RoundProfiler(Arc<SharedState>);

#[derive(Debug)]
struct SharedState {
    quotas: Vec<Quota>,
    /// Number of cycles per thread for which memory is reserved.
    capacity: usize,
    /// Whether each thread has a ring. Otherwise those of the CPUs record its switches, since a
    /// second record of a switch would cost as much as the first one.
    has_thread_rings: bool,
    /// Number of threads that have entered.
    threads: AtomicUsize,
    logs: Mutex<Vec<ThreadLog>>,
    /// Taken at the end of the round.
    witnesses: Mutex<Option<Witnesses>>,
}

/// Recorded evidence of a thread.
#[derive(Debug)]
pub struct ThreadLog {
    /// Index of the thread, in the order of entering.
    pub thread: usize,
    stats: ThreadStats,
    pub stats_error: Option<NotAvailable>,
    /// Number of the thread in the system.
    pub id: u32,
    /// Ring with the switches of the thread, unless only those of the CPUs record them.
    pub ring: Option<Result<SwitchRing, NotAvailable>>,
    cycles: Vec<RawCycle>,
    /// Number of cycles for which no memory was left.
    pub cycles_lost: u64,
    /// Timer slack; `None` for real-time threads.
    pub slack_ns: Option<u64>,
}

/// The period from one park to the next, in counts of the clock.
#[derive(Clone, Copy, Debug)]
struct RawCycle {
    /// Count before the reading.
    before: u64,
    /// Count after the reading.
    after: u64,
    reading: Reading,
    /// Count at which the park ended.
    unpark: Option<NonZeroU64>,
}

thread_local! {
    /// The log of this thread while a profiled round runs on it.
    static LOG: RefCell<Option<ThreadLog>> = const { RefCell::new(None) };
}

impl RoundProfiler {
    /// Starts recording the calling thread.
    pub fn enter(&self) {
        let (stats, stats_error) = match ThreadStats::for_current_thread(&self.0.quotas) {
            Ok(stats) => (stats, None),
            Err(why) => (ThreadStats::without_files(), Some(why)),
        };
        let mut cycles = Vec::new();
        // If this fails, all cycles count as lost.
        let _ = cycles.try_reserve_exact(self.0.capacity);
        let is_real_time =
            os::sched().is_some_and(|class| matches!(class.as_str(), "fifo" | "rr" | "deadline"));
        let log = ThreadLog {
            thread: self.0.threads.fetch_add(1, Ordering::Relaxed),
            stats,
            stats_error,
            id: os::thread_id(),
            ring: self.0.has_thread_rings.then(SwitchRing::for_current_thread),
            cycles,
            cycles_lost: 0,
            slack_ns: os::timer_slack_ns().filter(|_| !is_real_time),
        };
        LOG.set(Some(log));
        park();
        mark_awake();
    }

    /// Stops recording the calling thread.
    pub fn leave(&self) {
        park();
        if let Some(log) = LOG.take() {
            self.0.logs.lock().unwrap_or_else(PoisonError::into_inner).push(log);
        }
    }

    /// Returns whether the threads have rings of their own.
    pub(super) fn has_thread_rings(&self) -> bool {
        self.0.has_thread_rings
    }

    /// Takes the logs of all threads that have left, ordered by thread.
    pub(super) fn take_logs(&self) -> Vec<ThreadLog> {
        let mut logs = self.0.logs.lock().unwrap_or_else(PoisonError::into_inner);
        let mut logs = std::mem::take(&mut *logs);
        logs.sort_by_key(|log| log.thread);
        logs
    }

    /// Ends the witnesses and returns the standstills that they observed.
    pub(super) fn take_standstills(&self, origin: Instant) -> Option<Vec<Standstill>> {
        self.0.witnesses.lock().unwrap_or_else(PoisonError::into_inner).take()?.end(origin)
    }
}

impl ThreadLog {
    #[inline]
    fn park(&mut self) {
        if self.cycles.len() == self.cycles.capacity() {
            self.cycles_lost += 1;
            return;
        }
        let before = tach::count();
        let reading = self.stats.read();
        self.cycles.push(RawCycle { before, after: tach::count(), reading, unpark: None });
    }

    fn mark_awake(&mut self) {
        if let Some(cycle) = self.cycles.last_mut() {
            cycle.unpark = NonZeroU64::new(cycle.after);
        }
    }

    #[inline]
    fn unpark(&mut self, count: u64) {
        if let (0, Some(cycle)) = (self.cycles_lost, self.cycles.last_mut()) {
            cycle.unpark = cycle.unpark.or(NonZeroU64::new(count));
        }
    }

    /// Converts the cycles to nanoseconds after `origin`.
    pub fn cycles(&self, conversion: &Conversion, origin: Instant) -> Vec<Cycle> {
        self.cycles.iter().map(|raw| raw.to_cycle(conversion, origin)).collect()
    }
}

impl RawCycle {
    fn to_cycle(self, conversion: &Conversion, origin: Instant) -> Cycle {
        let ns = |count| conversion.ns_since(count, origin);
        let (park_ns, after_ns) = (ns(self.before), ns(self.after));
        Cycle {
            park_ns,
            reading: self.reading,
            torn: after_ns - park_ns > MAX_READ_TIME.as_nanos() as i64,
            unpark_ns: self.unpark.map(|count| ns(count.get())),
        }
    }
}

/// Records that the calling thread is about to park.
pub fn park() {
    with_log(ThreadLog::park);
}

/// Records that the calling thread has not parked since it read its statistics.
fn mark_awake() {
    with_log(ThreadLog::mark_awake);
}

/// Records that the park of the calling thread ended at `count`.
pub fn unpark(count: u64) {
    with_log(|log| log.unpark(count));
}

/// Calls a function with the log of the calling thread, if it has one.
#[inline]
fn with_log(record: impl FnMut(&mut ThreadLog)) {
    LOG.with_borrow_mut(|log| log.iter_mut().for_each(record));
}

/// The way in which the parks of a thread are detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParkDetection {
    /// The runtime calls hooks.
    RuntimeHooks,
    /// The loop blocks in its wait.
    BlockingWait,
    /// The thread never parks.
    NeverParks,
}

impl ParkDetection {
    pub fn new(wait_kind: WaitKind, has_hooks: bool) -> Self {
        match wait_kind {
            WaitKind::Spin => Self::NeverParks,
            _ if has_hooks => Self::RuntimeHooks,
            _ => Self::BlockingWait,
        }
    }
}

/// Recorder of a loop: the thread of each wake-up, and the parks that no hook of the runtime
/// reports.
#[derive(Debug)]
pub struct WakeupNotes {
    parks: ParkDetection,
    threads: Vec<usize>,
}

impl WakeupNotes {
    /// Creates a recorder for a loop of `ticks` ticks.
    pub fn with_capacity(ticks: u64, parks: ParkDetection) -> Self {
        Self { parks, threads: Vec::with_capacity(usize::try_from(ticks).unwrap_or(0)) }
    }

    /// Records the start of a wait.
    #[inline(never)]
    pub fn begin_wait(&mut self) {
        if self.parks != ParkDetection::RuntimeHooks {
            park();
        }
        if self.parks == ParkDetection::NeverParks {
            mark_awake();
        }
    }

    /// Records the end of a wait at `count`.
    #[inline(never)]
    pub fn end_wait(&mut self, count: u64) {
        if self.parks == ParkDetection::BlockingWait {
            unpark(count);
        }
        let thread = LOG.with_borrow(|log| log.as_ref().map_or(usize::MAX, |log| log.thread));
        self.threads.push(thread);
    }

    /// Returns the thread of each wake-up.
    pub fn into_threads(self) -> Vec<usize> {
        self.threads
    }
}
