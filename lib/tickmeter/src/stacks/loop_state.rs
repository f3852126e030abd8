//! The state of each metered loop that the watcher of overdue ticks reads: when its next tick is due,
//! and which thread last ran it.

use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;

use super::stack_source::current_thread;
use crate::layout::at;
use crate::page::Page;

/// The metered loops of this process.
static LOOPS: Mutex<Vec<Arc<LoopState>>> = Mutex::new(Vec::new());

pub(super) fn loops() -> MutexGuard<'static, Vec<Arc<LoopState>>> {
    LOOPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread that watches the loops.
static WATCHER: Mutex<Option<Thread>> = Mutex::new(None);

pub(super) fn set_watcher(watcher: Option<Thread>) {
    *WATCHER.lock().unwrap_or_else(PoisonError::into_inner) = watcher;
}

/// Wakes the watcher, because a tick is due earlier than it may expect.
#[cold]
fn wake_watcher() {
    if let Some(watcher) = &*WATCHER.lock().unwrap_or_else(PoisonError::into_inner) {
        watcher.unpark();
    }
}

/// The bit of [`LoopState::runner`] that is set while the loop's work is not done.
const IS_WORKING: u64 = 1 << 32;

/// A time that no loop reaches.
const NEVER_NS: i64 = i64::MAX;

/// The published state of a loop. Its times are nanoseconds since `start`.
#[derive(Debug)]
pub(super) struct LoopState {
    pub(super) name: String,
    start: tach::Instant,
    /// Time by which the counter has run longer than the clock of the meter.
    ahead_ns: AtomicI64,
    page: Arc<Page>,
    period_ns: AtomicI64,
    /// When the next tick is due: a period after the last wake-up. `Burst` and `Skip` are due earlier
    /// after a late tick, and `Delay` is due then, so no tick is called overdue that is not.
    due_ns: AtomicI64,
    /// The thread that last ran the loop, and [`IS_WORKING`].
    runner: AtomicU64,
    /// The tick for which a stack was last requested, by the time when it was due.
    requested_due_ns: AtomicI64,
}

/// The thread that last ran a loop.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoopRunner {
    pub(super) thread_id: u32,
    pub(super) is_working: bool,
}

impl LoopState {
    /// Returns a time on the loop's clock.
    pub(super) fn ns_at(&self, now: tach::Instant) -> i64 {
        let ns = i64::try_from(now.duration_since(self.start).as_nanos()).unwrap_or(NEVER_NS);
        ns.saturating_sub(self.ahead_ns.load(Ordering::Relaxed))
    }

    /// Returns when the next tick without a requested stack is due at the earliest; `None` before the
    /// first tick.
    pub(super) fn next_due_ns(&self, now_ns: i64) -> Option<i64> {
        let due_ns = self.due_ns.load(Ordering::Acquire);
        if due_ns == self.requested_due_ns.load(Ordering::Relaxed) && due_ns != NEVER_NS {
            // The loop may wake up now, and is due a period later then.
            return Some(now_ns.saturating_add(self.period_ns.load(Ordering::Relaxed)));
        }
        (due_ns != NEVER_NS).then_some(due_ns)
    }

    pub(super) fn mark_requested(&self, due_ns: i64) {
        self.requested_due_ns.store(due_ns, Ordering::Relaxed);
    }

    /// Returns whether the tick that was due at `due_ns` had come by a later time.
    pub(super) fn had_come(&self, due_ns: i64, by_ns: i64) -> bool {
        let next_due_ns = self.due_ns.load(Ordering::Acquire);
        let woke_ns = next_due_ns.saturating_sub(self.period_ns.load(Ordering::Relaxed));
        next_due_ns != due_ns && woke_ns <= by_ns
    }

    pub(super) fn runner(&self) -> LoopRunner {
        let runner = self.runner.load(Ordering::Relaxed);
        LoopRunner { thread_id: runner as u32, is_working: runner & IS_WORKING != 0 }
    }

    /// Counts a stack in the meter's memory. Only the watcher calls this.
    pub(super) fn count_stack(&self) {
        self.page.current()[at::STACKS].fetch_add(1, Ordering::Relaxed);
    }
}

/// The state of the loop of one meter, which is watched until this is dropped.
#[derive(Debug)]
pub(crate) struct WatchedLoop(Arc<LoopState>);

impl WatchedLoop {
    pub(crate) fn new(name: &str, start: tach::Instant, page: &Arc<Page>, period_ns: u64) -> Self {
        let state = Arc::new(LoopState {
            name: name.to_owned(),
            start,
            ahead_ns: AtomicI64::new(0),
            page: Arc::clone(page),
            period_ns: AtomicI64::new(0),
            due_ns: AtomicI64::new(NEVER_NS),
            runner: AtomicU64::new(0),
            requested_due_ns: AtomicI64::new(NEVER_NS),
        });
        loops().push(Arc::clone(&state));
        let watched = Self(state);
        watched.set_period(period_ns);
        watched
    }

    pub(crate) fn set_period(&self, period_ns: u64) {
        let period_ns = i64::try_from(period_ns).unwrap_or(NEVER_NS);
        self.0.period_ns.store(period_ns, Ordering::Relaxed);
        wake_watcher();
    }

    pub(crate) fn set_ahead_ns(&self, ahead_ns: i64) {
        self.0.ahead_ns.store(ahead_ns, Ordering::Relaxed);
    }

    /// Publishes a wake-up, after which this thread works.
    #[inline]
    pub(crate) fn wake(&self, woke_ns: i64) {
        let period_ns = self.0.period_ns.load(Ordering::Relaxed);
        let is_first = self.0.due_ns.load(Ordering::Relaxed) == NEVER_NS;
        self.0.runner.store(u64::from(thread_id()) | IS_WORKING, Ordering::Relaxed);
        self.0.due_ns.store(woke_ns.saturating_add(period_ns), Ordering::Release);
        if is_first {
            wake_watcher();
        }
    }

    /// Publishes that this thread runs the loop, which waits for its next tick.
    #[inline]
    pub(crate) fn wait(&self) {
        self.0.runner.store(thread_id().into(), Ordering::Relaxed);
    }
}

impl Drop for WatchedLoop {
    fn drop(&mut self) {
        loops().retain(|state| !Arc::ptr_eq(state, &self.0));
    }
}

/// The number of watches that were started so far.
static STARTED_WATCHES: AtomicU32 = AtomicU32::new(0);

/// Forgets the ids of all threads. Called when a watch starts, since a forked child, which must start
/// its own watch, has another id than the thread of its parent.
pub(super) fn forget_thread_ids() {
    STARTED_WATCHES.fetch_add(1, Ordering::Relaxed);
}

/// The kernel's id of a thread, as found after a number of watches were started.
#[derive(Clone, Copy)]
struct KnownThreadId {
    started_watches: u32,
    id: u32,
}

thread_local! {
    /// The id of this thread, zero until it is known.
    static THREAD_ID: Cell<KnownThreadId> =
        const { Cell::new(KnownThreadId { started_watches: 0, id: 0 }) };
}

#[inline]
fn thread_id() -> u32 {
    let started_watches = STARTED_WATCHES.load(Ordering::Relaxed);
    match THREAD_ID.get() {
        known if known.id != 0 && known.started_watches == started_watches => known.id,
        _ => find_thread_id(started_watches),
    }
}

#[cold]
fn find_thread_id(started_watches: u32) -> u32 {
    let id = current_thread();
    THREAD_ID.set(KnownThreadId { started_watches, id });
    id
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{HEADER_WORDS, Layout};

    const PERIOD_NS: i64 = 1_000;

    fn watched_loop() -> WatchedLoop {
        let page = Arc::new(Page::private(&[0; HEADER_WORDS], Layout::CURRENT.words));
        WatchedLoop::new("watched", tach::Instant::from_count(0), &page, PERIOD_NS as u64)
    }

    #[test]
    fn ticks_are_due_after_wakeups() {
        let watched = watched_loop();
        assert_eq!(watched.0.next_due_ns(0), None);
        watched.wake(500);
        assert_eq!(watched.0.next_due_ns(1_600), Some(1_500));
        watched.0.mark_requested(1_500);
        assert_eq!(watched.0.next_due_ns(3_000), Some(4_000));
        watched.wake(3_500);
        assert_eq!(watched.0.next_due_ns(3_600), Some(4_500));
    }

    #[test]
    #[cfg_attr(miri, ignore = "reads the counter")]
    fn corrections_move_the_clock() {
        let watched = watched_loop();
        watched.set_ahead_ns(700);
        let now = watched.0.start + std::time::Duration::from_nanos(1_000);
        assert_eq!(watched.0.ns_at(now), 300);
    }

    #[test]
    fn ticks_come_with_later_wakeups() {
        let watched = watched_loop();
        watched.wake(500);
        assert!(!watched.0.had_come(1_500, 9_000));
        watched.wake(3_000);
        assert!(watched.0.had_come(1_500, 3_000));
        assert!(!watched.0.had_come(1_500, 2_999), "the stack was taken before the tick came");
    }

    #[test]
    fn runner_is_the_last_thread() {
        let watched = watched_loop();
        watched.wake(0);
        let runner = watched.0.runner();
        assert!(runner.is_working && runner.thread_id == current_thread());
        std::thread::scope(|scope| {
            scope.spawn(|| watched.wait());
        });
        let runner = watched.0.runner();
        assert!(!runner.is_working && runner.thread_id != current_thread());
    }

    /// The thread of a forked child inherits the id of its parent's thread.
    #[test]
    fn watch_forgets_inherited_thread_ids() {
        let watched = watched_loop();
        watched.wake(0);
        THREAD_ID.set(KnownThreadId { id: current_thread() + 1, ..THREAD_ID.get() });
        forget_thread_ids();
        watched.wake(1_000);
        assert_eq!(watched.0.runner().thread_id, current_thread());
    }

    #[test]
    fn dropped_loops_are_not_watched() {
        let watched = watched_loop();
        let state = Arc::downgrade(&watched.0);
        assert!(loops().iter().any(|state| Arc::ptr_eq(state, &watched.0)));
        drop(watched);
        assert!(state.upgrade().is_none());
    }
}
