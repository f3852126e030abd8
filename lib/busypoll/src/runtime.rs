//! The loop, its settings, and how it idles.

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
use crate::join::JoinHandle;
use crate::lead::Lead;
use crate::reactor::Reactor;
use crate::resources::Resources;
use crate::run_queue::{Key, RunQueue};
use crate::shutdown::Drained;
use crate::slab::Pool;
use crate::spawn::yield_now;
use crate::time;
use crate::waker::WakeState;

/// What the thread does while nothing is ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parking {
    /// Never sleeps: spins forever, at the price of a whole core.
    #[default]
    Spin,
    /// Spins for this long after something was last ready, then sleeps in the kernel.
    SpinThenPark(Duration),
    /// Sleeps in the kernel at once.
    Park,
}

/// How a parked runtime learns of the next deadline; [`Runtime::park_backend`] reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParkBackend {
    /// By the wait for events itself, or, on Linux and Android, by a timer of the kernel among
    /// them.
    Events,
    /// By the wait of an `io_uring`, which takes an absolute deadline.
    IoUring,
}

/// Default of [`Builder::tasks_per_turn`].
const TASKS_PER_TURN: usize = 64;
/// Default of [`Builder::io_every_turns`].
const IO_EVERY_TURNS: u32 = 64;

#[derive(Clone, Copy, Debug)]
struct Slab {
    slot_bytes: usize,
    /// In each chunk, of which there is one unless it grows.
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
    slab: Option<Slab>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            parking: Parking::Spin,
            park_margin: Duration::ZERO,
            park_on_io_uring: false,
            timer_lead: None,
            tasks_per_turn: TASKS_PER_TURN,
            io_every_turns: IO_EVERY_TURNS,
            slab: None,
        }
    }
}

impl Builder {
    /// How to idle. [`Parking::Spin`] unless set.
    #[must_use]
    pub fn parking(mut self, parking: Parking) -> Self {
        self.parking = parking;
        self
    }

    /// How long before a deadline a parked thread wakes up, to spin for the rest. Zero unless set.
    #[must_use]
    pub fn park_margin(mut self, margin: Duration) -> Self {
        self.park_margin = margin;
        self
    }

    /// Parks in `io_uring_enter`, where that can be had: one system call a wait, with the deadline
    /// in it, instead of one that sets a timer and one that waits. Off unless set.
    ///
    /// It needs Linux 6.12 and a process that may make a ring; elsewhere, and in most containers,
    /// the runtime parks as it does without. [`Runtime::park_backend`] reports which it is. Events
    /// of sources come through one more call than without.
    ///
    /// On one kernel, waits of hundreds of milliseconds in place of less than one were reported:
    /// soak it on yours before you rely on it.
    #[must_use]
    pub fn park_on_io_uring(mut self, on: bool) -> Self {
        self.park_on_io_uring = on;
        self
    }

    /// How long before its deadline a task that sleeps, or waits for an interval, is woken to spin
    /// for the rest inside its own poll. The task is still never early, and less late; whatever
    /// else becomes ready in that time waits until the deadline. [`timeout`](crate::time::timeout)
    /// uses no lead.
    ///
    /// Unless set, the runtime learns it: twice what the way from the loop to the task took lately
    /// where nothing else was ready, from 1 to 20 us. That is 1 us at short periods. After 10 ms of
    /// spinning, code and data have left the caches, and it becomes several.
    ///
    /// Only with [`Parking::Spin`].
    #[must_use]
    pub fn timer_lead(mut self, lead: Duration) -> Self {
        self.timer_lead = Some(lead);
        self
    }

    /// How many tasks are polled at most between two checks of the timers and of the wakes from
    /// other threads: 64 unless set, at least 1. If a poll takes *p*, timers are checked at least
    /// every 64 *p*.
    #[must_use]
    pub fn tasks_per_turn(mut self, tasks: usize) -> Self {
        self.tasks_per_turn = tasks.max(1);
        self
    }

    /// How many turns the loop makes between two checks for the kernel's events, while a source is
    /// registered: 64 unless set, at least 1.
    #[must_use]
    pub fn io_every_turns(mut self, turns: u32) -> Self {
        self.io_every_turns = turns.max(1);
        self
    }

    /// Pre-allocates `slots` slots for [`spawn_slab`](crate::spawn_slab). Each holds a task's
    /// future, or its output, and two words, in up to `slot_bytes`. The slab does not grow.
    #[must_use]
    pub fn slab(mut self, slot_bytes: usize, slots: usize) -> Self {
        self.slab = Some(Slab { slot_bytes, slots, grows: false });
        self
    }

    /// Like [`slab`](Self::slab), but allocates that many slots again whenever all are taken.
    #[must_use]
    pub fn slab_growing(mut self, slot_bytes: usize, chunk_slots: usize) -> Self {
        self.slab = Some(Slab { slot_bytes, slots: chunk_slots, grows: true });
        self
    }

    /// Builds the runtime.
    ///
    /// # Errors
    /// If the kernel refuses an event queue or a descriptor to wake it, for example for lack of
    /// file descriptors.
    ///
    /// # Panics
    /// If the slab's slot size or number of slots is zero, or their product overflows.
    pub fn build(self) -> io::Result<Runtime> {
        let pool = self.slab.map(|slab| Pool::new(slab.slot_bytes, slab.slots, slab.grows));
        let (events, unpark) =
            EventQueue::new(self.park_on_io_uring && self.parking != Parking::Spin)?;
        let run_queue = RunQueue::new(unpark);
        let timer_lead = match (self.parking, self.timer_lead) {
            (Parking::Spin, None) => Lead::learnt(),
            (Parking::Spin, Some(lead)) => Lead::fixed(lead),
            _ => Lead::fixed(Duration::ZERO),
        };
        let root = WakeState::queued(Key::ROOT, run_queue.remote());
        Ok(Runtime {
            executor: Executor::new(run_queue, Reactor::new(events), pool, timer_lead),
            root,
            turns_to_io: self.io_every_turns,
            settings: self,
        })
    }
}

/// A single-threaded executor with timers and I/O. See the [crate] documentation for when to use
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
/// It stays on its thread:
///
/// ```compile_fail,E0277
/// fn send<T: Send>() {}
/// send::<busypoll::Runtime>();
/// ```
///
/// ```compile_fail,E0277
/// fn sync<T: Sync>() {}
/// sync::<busypoll::Runtime>();
/// ```
pub struct Runtime {
    executor: Rc<Executor>,
    root: Arc<WakeState>,
    /// Kept from one `block_on` to the next: however short they are, events are taken at times.
    turns_to_io: u32,
    settings: Builder,
}

impl Runtime {
    /// A runtime that spins.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn new() -> io::Result<Self> {
        Self::builder().build()
    }

    /// Settings to start from.
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

    /// How many spawned tasks have not ended.
    #[must_use]
    pub fn live_tasks(&self) -> usize {
        count(self.executor.live_tasks())
    }

    /// The values that every task can reach through [`Resources::current`].
    #[must_use]
    pub fn resources(&self) -> &Resources {
        &self.executor.resources
    }

    /// Runs the spawned tasks, and those they spawn meanwhile, until all have ended or `limit` has
    /// passed. Reports how many ended, and where the others were spawned. A later
    /// [`block_on`](Self::block_on) or `drain` continues those; dropping the runtime drops them.
    ///
    /// Ask the tasks to stop first, with a [`CancellationToken`](crate::CancellationToken). The
    /// limit is checked between turns, after the first: what is ready runs even with a limit of
    /// zero, and a task that never yields holds up `drain`.
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
    /// As [`block_on`](Self::block_on).
    pub fn drain(&mut self, limit: Duration) -> Drained {
        let executor = Rc::clone(&self.executor);
        let before = executor.ended_tasks();
        let _ = self.block_on(async {
            let drained = time::timeout(limit, poll_fn(|cx| executor.poll_drained(cx)));
            // A turn for what is ready, however short the limit.
            yield_now().await;
            drained.await
        });
        Drained {
            finished: count(executor.ended_tasks() - before),
            unfinished: executor.unfinished(),
        }
    }

    /// How it learns of the next deadline while it is parked.
    #[must_use]
    pub fn park_backend(&self) -> ParkBackend {
        if self.executor.reactor.parks_on_ring() {
            ParkBackend::IoUring
        } else {
            ParkBackend::Events
        }
    }

    /// How many turns the loop has made so far, in all calls of [`block_on`](Self::block_on).
    #[must_use]
    pub fn turns(&self) -> u64 {
        self.executor.turns.get()
    }

    /// Runs `future` to its end on this thread, and spawned tasks beside it; tasks that have not
    /// ended by then continue in the next call. The future is only borrowed for the call: it need
    /// not be `'static`, and is not boxed.
    ///
    /// Each turn polls the future if it was woken, takes the wakes from other threads, polls up to
    /// [`tasks_per_turn`](Builder::tasks_per_turn) tasks, and fires the timers that are due. Every
    /// [`io_every_turns`](Builder::io_every_turns) turns it takes the kernel's events, if anything
    /// is registered. Nothing preempts: a task that never yields stops all of this.
    ///
    /// # Panics
    /// If a busypoll runtime already runs on this thread, if the future panics, and if the kernel
    /// refuses to wait for events: because another part of the program closed the runtime's
    /// descriptors, or, on the BSDs and Apple's systems, because it is out of memory.
    pub fn block_on<F: Future>(&mut self, future: F) -> F::Output {
        let _entered = context::enter(&self.executor);
        let mut future = pin!(future);
        let waker = Waker::from(Arc::clone(&self.root));
        let mut cx = Context::from_waker(&waker);
        // It may have been woken after an earlier future ended.
        self.executor.run_queue.take_root();
        self.executor.begin_turn();
        loop {
            self.root.clear_queued();
            budget::refill();
            if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
                return output;
            }
            self.until_root_is_woken();
        }
    }

    /// All but the root's polls, compiled once for all roots.
    fn until_root_is_woken(&mut self) {
        let mut has_begun = true;
        // Around as many turns as there are: entered for each task, it costs as much as the rest of
        // a poll.
        while let Err(payload) =
            catch_unwind(AssertUnwindSafe(|| self.turn_until_root_is_woken(has_begun)))
        {
            self.executor.caught(payload);
            has_begun = false;
        }
    }

    /// From the middle of a turn on, where the root has just been polled.
    ///
    /// # Panics
    /// As a task; then [`Executor::caught`] is due.
    fn turn_until_root_is_woken(&mut self, mut has_begun: bool) {
        let executor = &*self.executor;
        let run_queue = &*executor.run_queue;
        let mut idle_since: Option<Instant> = None;
        loop {
            if !std::mem::take(&mut has_begun) {
                executor.begin_turn();
                if run_queue.take_root() {
                    return;
                }
            }
            if run_queue.has_woken() {
                executor.take_woken(&self.root);
            }
            let tasks = self.settings.tasks_per_turn.min(run_queue.tasks());
            if tasks > 0 {
                executor.poll_tasks(tasks);
                idle_since = None;
            }
            executor.fire_timers();
            self.turns_to_io -= 1;
            if self.turns_to_io == 0 {
                self.turns_to_io = self.settings.io_every_turns;
                executor.reactor.poll_now();
            }
            if run_queue.ready() > 0 {
                continue;
            }
            // What another thread wakes now waits for a pause of the CPU at most: a park looks for
            // that itself.
            match self.settings.parking {
                // With a timer, reading the clock is pause enough, and no deadline should wait for
                // both.
                Parking::Spin if executor.timers.next().is_some() => {}
                Parking::Spin => std::hint::spin_loop(),
                Parking::Park => self.park(),
                Parking::SpinThenPark(spin) => {
                    let now = now();
                    let since = *idle_since.get_or_insert(now);
                    if now.duration_since(since) < spin {
                        std::hint::spin_loop();
                    } else {
                        self.park();
                        idle_since = None;
                    }
                }
            }
        }
    }

    /// Sleeps until the next deadline less the margin, an event, or a wake from another thread.
    fn park(&self) {
        let limit = match self.executor.timers.next() {
            None => None,
            Some(deadline) => {
                let left = deadline.saturating_duration_since(now());
                if left <= self.settings.park_margin {
                    std::hint::spin_loop();
                    return;
                }
                // Does not underflow: the deadline lies ahead by more than the margin.
                Some((deadline - self.settings.park_margin, left - self.settings.park_margin))
            }
        };
        self.executor.run_queue.park(|| self.executor.reactor.wait(limit));
    }
}

/// On a 32-bit system more tasks may have ended, after weeks, than a `usize` counts.
fn count(tasks: u64) -> usize {
    usize::try_from(tasks).unwrap_or(usize::MAX)
}

impl Drop for Runtime {
    fn drop(&mut self) {
        // Inside the runtime: destructors of tasks may spawn or set timers, which end with the
        // rest.
        let entered = context::try_current().is_none().then(|| context::enter(&self.executor));
        self.root.mark_done();
        self.executor.drop_tasks();
        self.executor.run_queue.close();
        // A timer or a handle among them would keep the executor alive, and the executor them.
        self.executor.resources.clear();
        self.executor.timers.close();
        self.executor.reactor.close();
        drop(entered);
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
