//! The runtime: its settings, its loop, and its behavior when idle.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::budget;
use crate::clock::now;
use crate::context;
use crate::event_queue::EventQueue;
use crate::executor::Executor;
use crate::inbox::Inbox;
use crate::join::JoinHandle;
use crate::reactor::Reactor;
use crate::resources::Resources;
use crate::run_queue::{RunQueue, TaskKey};
use crate::shutdown::Drained;
use crate::slab::Pool;
use crate::spawn::yield_now;
use crate::time;
use crate::timer_lead::TimerLead;
use crate::wait_limit::WaitLimit;
use crate::waker::WakeState;

/// Behavior of the thread while nothing is ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parking {
    /// Never sleeps. The thread spins forever and occupies a whole core.
    #[default]
    Spin,
    /// Spins for this long after something was last ready, then sleeps in the kernel.
    SpinThenPark(Duration),
    /// Sleeps in the kernel at once.
    Park,
}

/// The mechanism that wakes a parked runtime at the next deadline. [`Runtime::park_backend`]
/// returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParkBackend {
    /// The timeout of the wait for events or, on Linux and Android, a kernel timer among the
    /// events.
    Events,
    /// The wait of an `io_uring`, which accepts an absolute deadline.
    IoUring,
}

/// Default of [`Builder::tasks_per_turn`].
const DEFAULT_TASKS_PER_TURN: usize = 64;
/// Default of [`Builder::io_every_turns`].
const DEFAULT_IO_EVERY_TURNS: u32 = 64;

#[derive(Clone, Copy, Debug)]
struct SlabSettings {
    slot_bytes: usize,
    /// Slots in each chunk. There is a single chunk unless the slab grows.
    slots: usize,
    grows: bool,
}

/// Configures a [`Runtime`].
///
/// ```
/// use busypoll::{Parking, Runtime};
/// use std::time::Duration;
///
/// let runtime = Runtime::builder()
///     .parking(Parking::SpinThenPark(Duration::from_micros(50)))
///     .park_margin(Duration::from_micros(20))
///     .tasks_per_turn(16)
///     .io_every_turns(8)
///     .slab(256, 64)
///     .build()?;
/// assert_eq!(runtime.live_tasks(), 0);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    parking: Parking,
    park_margin: Duration,
    park_on_io_uring: bool,
    timer_lead: Option<Duration>,
    tasks_per_turn: usize,
    io_every_turns: u32,
    slab: Option<SlabSettings>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            parking: Parking::Spin,
            park_margin: Duration::ZERO,
            park_on_io_uring: false,
            timer_lead: None,
            tasks_per_turn: DEFAULT_TASKS_PER_TURN,
            io_every_turns: DEFAULT_IO_EVERY_TURNS,
            slab: None,
        }
    }
}

impl Builder {
    /// Sets the behavior when idle. [`Parking::Spin`] unless set.
    #[must_use]
    pub fn parking(mut self, parking: Parking) -> Self {
        self.parking = parking;
        self
    }

    /// Sets how long before a deadline a parked thread wakes up, to spin for the rest. Zero unless
    /// set.
    #[must_use]
    pub fn park_margin(mut self, margin: Duration) -> Self {
        self.park_margin = margin;
        self
    }

    /// Parks in `io_uring_enter` if it is available. A wait is then one system call that contains
    /// the deadline, instead of one call that sets a timer and another one that waits. Off unless
    /// set.
    ///
    /// This needs Linux 6.12 and the permission to create a ring. On other systems, in most
    /// containers, and in a time namespace, whose offset the kernel does not apply to this wait, the
    /// runtime parks as if this were off. [`Runtime::park_backend`] returns the
    /// mechanism in use. An event of a source costs one system call more than without a ring.
    ///
    /// On one kernel, waits of less than a millisecond were reported to take hundreds of
    /// milliseconds. Run a soak test on your kernel before you rely on this.
    #[must_use]
    pub fn park_on_io_uring(mut self, on: bool) -> Self {
        self.park_on_io_uring = on;
        self
    }

    /// Sets how long before its deadline a task that waits for a sleep or an interval is woken, to
    /// spin for the rest inside its own poll. The task is never early, and less late than without a
    /// lead. Anything else that becomes ready during the lead waits until the deadline.
    /// [`timeout`](crate::time::timeout) uses no lead.
    ///
    /// Unless set, the runtime adapts the lead: it is twice the recent delay from the loop to the
    /// task, measured while nothing else was ready, and at least 1 us and at most 20 us. At short
    /// periods it is 1 us. After 10 ms of spinning, code and data have left the caches, and the
    /// lead becomes several microseconds.
    ///
    /// The lead has an effect only with [`Parking::Spin`].
    #[must_use]
    pub fn timer_lead(mut self, lead: Duration) -> Self {
        self.timer_lead = Some(lead);
        self
    }

    /// Sets the maximum number of tasks that are polled between two checks of the timers and of the
    /// wakes from other threads. 64 unless set, at least 1. If a poll takes *p*, timers are checked
    /// at least every 64 *p*.
    #[must_use]
    pub fn tasks_per_turn(mut self, tasks: usize) -> Self {
        self.tasks_per_turn = tasks.max(1);
        self
    }

    /// Sets the number of turns between two polls for the kernel's events, while a source is
    /// registered. 64 unless set, at least 1.
    #[must_use]
    pub fn io_every_turns(mut self, turns: u32) -> Self {
        self.io_every_turns = turns.max(1);
        self
    }

    /// Pre-allocates `slots` slots for [`spawn_slab`](crate::spawn_slab). A slot of `slot_bytes`
    /// holds two words and the future of a task, or later its output. The slab does not grow.
    #[must_use]
    pub fn slab(mut self, slot_bytes: usize, slots: usize) -> Self {
        self.slab = Some(SlabSettings { slot_bytes, slots, grows: false });
        self
    }

    /// Pre-allocates slots like [`slab`](Self::slab), and `chunk_slots` more slots whenever all slots
    /// are in use.
    #[must_use]
    pub fn slab_growing(mut self, slot_bytes: usize, chunk_slots: usize) -> Self {
        self.slab = Some(SlabSettings { slot_bytes, slots: chunk_slots, grows: true });
        self
    }

    /// Builds the runtime.
    ///
    /// # Errors
    /// Returns an error if the kernel provides no event queue, no timer to park with, or no
    /// descriptor to wake it, for example because no file descriptor is free or because a sandbox
    /// denies a system call.
    ///
    /// # Panics
    /// Panics if the slab's slot size or number of slots is zero, or their product overflows.
    pub fn build(self) -> io::Result<Runtime> {
        let pool = self.slab.map(|slab| Pool::new(slab.slot_bytes, slab.slots, slab.grows));
        let can_park = self.parking != Parking::Spin;
        let (events, unpark) = EventQueue::new(can_park, can_park && self.park_on_io_uring)?;
        let run_queue = RunQueue::new(unpark);
        let timer_lead = match (self.parking, self.timer_lead) {
            (Parking::Spin, None) => TimerLead::new_adaptive(),
            (Parking::Spin, Some(lead)) => TimerLead::new_fixed(lead),
            _ => TimerLead::new_fixed(Duration::ZERO),
        };
        let root = WakeState::new_queued(TaskKey::ROOT, run_queue.remote());
        Ok(Runtime {
            executor: Executor::new(run_queue, Reactor::new(events), pool, timer_lead),
            root,
            turns_until_io: self.io_every_turns,
            settings: self,
        })
    }
}

/// A single-threaded executor with timers and I/O. The [crate] documentation explains when to use
/// it.
///
/// ```
/// use busypoll::{Runtime, yield_now};
/// use std::time::Duration;
///
/// let mut runtime = Runtime::new()?;
/// let task = runtime.spawn_boxed(async {
///     yield_now().await;
///     "done"
/// });
/// assert_eq!(runtime.live_tasks(), 1);
///
/// let greeting = String::from("hello");
/// let borrowed = runtime.block_on(async { greeting.as_str() });
/// assert_eq!(borrowed, "hello");
///
/// let drained = runtime.drain(Duration::from_secs(1));
/// assert!(drained.is_complete() && runtime.turns() > 1);
/// assert_eq!(runtime.block_on(task).unwrap(), "done");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// A runtime is neither `Send` nor `Sync`.
pub struct Runtime {
    executor: Rc<Executor>,
    root: Arc<WakeState>,
    /// Persists between calls of `block_on`, so that events are polled even if every call is short.
    turns_until_io: u32,
    settings: Builder,
}

impl Runtime {
    /// Creates a runtime that spins.
    ///
    /// # Errors
    /// Returns the same errors as [`Builder::build`].
    pub fn new() -> io::Result<Self> {
        Self::builder().build()
    }

    /// Returns the default settings.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Spawns a task that first runs in the next [`block_on`](Self::block_on).
    #[track_caller]
    pub fn spawn_boxed<F: Future<Output: 'static> + 'static>(
        &self,
        future: F,
    ) -> JoinHandle<F::Output> {
        let task = self.executor.spawn_boxed(future);
        JoinHandle::new(Rc::clone(&self.executor), task)
    }

    /// Returns the number of spawned tasks that have not ended.
    #[must_use]
    pub fn live_tasks(&self) -> usize {
        saturate_count(self.executor.live_tasks())
    }

    /// Returns the values that every task can reach through [`Resources::current`].
    #[must_use]
    pub fn resources(&self) -> &Resources {
        &self.executor.resources
    }

    /// Runs the spawned tasks, and the tasks that they spawn, until all of them have ended or
    /// `limit` has passed. Returns how many tasks ended, and where the others were spawned. A later
    /// [`block_on`](Self::block_on) or `drain` continues the others; dropping the runtime drops
    /// them.
    ///
    /// Signal the tasks to stop before the call, for example with a
    /// [`CancellationToken`](crate::CancellationToken). The limit is checked between turns, and not
    /// before every task that is ready at the start has run, even with a limit of zero. A task that
    /// never yields delays `drain`.
    ///
    /// ```
    /// # use busypoll::{CancellationToken, Runtime};
    /// # use std::time::Duration;
    /// let mut runtime = Runtime::new()?;
    /// let stop = CancellationToken::new();
    /// let stopped = stop.clone();
    /// drop(runtime.spawn_boxed(async move { stopped.cancelled().await }));
    /// drop(runtime.spawn_boxed(std::future::pending::<()>()));
    ///
    /// stop.cancel();
    /// let drained = runtime.drain(Duration::from_millis(1));
    /// assert_eq!((drained.finished, drained.unfinished.len()), (1, 1));
    /// eprintln!("{drained}"); // 1 tasks ended; not: src/main.rs:6:14
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Panics
    /// Panics in the same cases as [`block_on`](Self::block_on).
    pub fn drain(&mut self, limit: Duration) -> Drained {
        let executor = Rc::clone(&self.executor);
        let before = executor.ended_tasks();
        // All wakes so far, for example of tasks that this thread has cancelled outside of the
        // runtime. One of another thread may be incomplete yet.
        let start = now();
        let mut wakes = executor.run_queue.remote_wake_count();
        while wakes > 0 {
            let taken = executor.queue_remote_wakes(&self.root, wakes);
            if taken == 0 && start.elapsed() >= limit {
                break;
            }
            wakes -= taken;
            std::thread::yield_now();
        }
        let _ = self.block_on(async {
            let rest = limit.saturating_sub(start.elapsed());
            let drained = time::timeout(rest, poll_fn(|cx| executor.poll_drained(cx)));
            let ready = executor.run_queue.task_count() as u64;
            let last = executor.run_queue.taken_count() + ready;
            // A turn polls a limited number of tasks.
            loop {
                yield_now().await;
                if executor.run_queue.taken_count() >= last {
                    break;
                }
            }
            drained.await
        });
        Drained {
            finished: saturate_count(executor.ended_tasks() - before),
            unfinished: executor.unfinished_locations(),
        }
    }

    /// Returns the mechanism that wakes the runtime at the next deadline while it is parked.
    #[must_use]
    pub fn park_backend(&self) -> ParkBackend {
        if self.executor.reactor.parks_on_ring() {
            ParkBackend::IoUring
        } else {
            ParkBackend::Events
        }
    }

    /// Returns the number of turns the loop has made so far, in all calls of
    /// [`block_on`](Self::block_on).
    #[must_use]
    pub fn turns(&self) -> u64 {
        self.executor.turns.get()
    }

    /// Runs `future` to its end on this thread, along with the spawned tasks. Tasks that have not
    /// ended by then continue in the next call. The future is only borrowed for the call: it is not
    /// boxed and need not be `'static`.
    ///
    /// Each turn polls the future if it was woken, accepts the wakes from other threads, polls up
    /// to [`tasks_per_turn`](Builder::tasks_per_turn) tasks, and fires the timers that are due.
    /// Every [`io_every_turns`](Builder::io_every_turns) turns, it polls for the kernel's events if
    /// a source is registered. Nothing preempts a task: a task that never yields stops all of this.
    ///
    /// # Panics
    /// Panics if a busypoll runtime already runs on this thread, if the future panics, or if the
    /// kernel refuses to wait for events. The kernel refuses if another part of the program has
    /// closed the runtime's descriptors or, on the BSDs and Apple's systems, if it is out of
    /// memory.
    pub fn block_on<F: Future>(&mut self, future: F) -> F::Output {
        let _guard = context::enter(&self.executor);
        let mut future = pin!(future);
        let waker = Waker::from(Arc::clone(&self.root));
        let mut cx = Context::from_waker(&waker);
        // A waker may have been called after the previous root future ended.
        self.executor.run_queue.take_root_wake();
        self.executor.begin_turn();
        loop {
            self.root.clear_queued();
            budget::refill();
            if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
                return output;
            }
            self.run_until_root_woken();
        }
    }

    /// Runs turns until the root is woken. This part of the loop does not depend on the type of the
    /// root future.
    fn run_until_root_woken(&mut self) {
        let mut is_turn_begun = true;
        // `catch_unwind` encloses as many turns as possible: around each task, it would cost as
        // much as the rest of a poll.
        while let Err(payload) =
            catch_unwind(AssertUnwindSafe(|| self.run_turns_until_root_woken(is_turn_begun)))
        {
            self.executor.handle_panic(payload);
            is_turn_begun = false;
        }
    }

    /// Runs turns until the root is woken. With `is_turn_begun`, the first turn has already polled
    /// the root and continues from there.
    ///
    /// # Panics
    /// Panics if a task or a waker panics. The caller must then call [`Executor::handle_panic`].
    fn run_turns_until_root_woken(&mut self, mut is_turn_begun: bool) {
        let executor = &*self.executor;
        let run_queue = &*executor.run_queue;
        let mut idle_since: Option<Instant> = None;
        loop {
            if !std::mem::take(&mut is_turn_begun) {
                executor.begin_turn();
                if run_queue.take_root_wake() {
                    return;
                }
            }
            if run_queue.has_remote_wakes() {
                executor.queue_remote_wakes(&self.root, Inbox::BATCH_SIZE);
            }
            let tasks = self.settings.tasks_per_turn.min(run_queue.task_count());
            if tasks > 0 {
                executor.poll_tasks(tasks);
                idle_since = None;
            }
            executor.fire_timers();
            self.turns_until_io -= 1;
            if self.turns_until_io == 0 {
                self.turns_until_io = self.settings.io_every_turns;
                executor.reactor.poll_now();
            }
            if run_queue.ready_count() > 0 {
                continue;
            }
            self.idle(&mut idle_since);
        }
    }

    /// Pauses the CPU or parks, as the parking policy requires.
    ///
    /// A wake from another thread is delayed by one pause at most, since parking checks for such a
    /// wake itself.
    #[inline]
    fn idle(&self, idle_since: &mut Option<Instant>) {
        match self.settings.parking {
            // With a timer, the next turn reads the clock, which is a sufficient pause. A second
            // pause would only delay the deadline.
            Parking::Spin if self.executor.timers.next_deadline().is_some() => {}
            Parking::Spin => std::hint::spin_loop(),
            Parking::Park => self.park(),
            Parking::SpinThenPark(spin) => {
                let now = now();
                let since = *idle_since.get_or_insert(now);
                if now.duration_since(since) < spin {
                    std::hint::spin_loop();
                } else {
                    self.park();
                    *idle_since = None;
                }
            }
        }
    }

    /// Sleeps until an event, a wake from another thread, or the next deadline less the margin.
    fn park(&self) {
        let limit = match self.executor.timers.next_deadline() {
            None => None,
            Some(deadline) => {
                let remaining = deadline.saturating_duration_since(now());
                if remaining <= self.settings.park_margin {
                    std::hint::spin_loop();
                    return;
                }
                // This does not underflow, since the deadline is ahead by more than the margin.
                Some(WaitLimit {
                    deadline: deadline - self.settings.park_margin,
                    remaining: remaining - self.settings.park_margin,
                })
            }
        };
        self.executor.run_queue.park(|| self.executor.reactor.wait(limit));
    }
}

/// Converts a count of tasks, and saturates on a 32-bit system on which more tasks have ended.
fn saturate_count(tasks: u64) -> usize {
    usize::try_from(tasks).unwrap_or(usize::MAX)
}

impl Drop for Runtime {
    fn drop(&mut self) {
        // Destructors of tasks may spawn tasks or set timers. They run inside the runtime, so that
        // these are dropped with the rest.
        let guard = context::try_current().is_none().then(|| context::enter(&self.executor));
        self.root.mark_done();
        self.executor.drop_tasks();
        self.executor.run_queue.close();
        // A timer or a handle among the resources would keep the executor alive, and the executor
        // keeps the resources alive.
        self.executor.resources.clear_quietly();
        self.executor.timers.close();
        self.executor.reactor.close();
        drop(guard);
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("settings", &self.settings)
            .field("live_tasks", &self.live_tasks())
            .finish()
    }
}
