//! The loop, its builder, and how it idles.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::clock::now;
use crate::context;
use crate::core::Core;
use crate::io::Reactor;
use crate::join::JoinHandle;
use crate::park::Driver;
use crate::resources::Resources;
use crate::shutdown::Drained;
use crate::slab::Pool;
use crate::spawn::yield_now;
use crate::time;
use crate::waker::{Header, Key, ROOT, Shared};

/// What the thread does while nothing is ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parking {
    /// Never sleeps: spins for ever, at the price of a whole core.
    #[default]
    Spin,
    /// Spins for so long after the last thing that was ready, then sleeps in the kernel.
    SpinThenPark(Duration),
    /// Sleeps in the kernel at once.
    Park,
}

/// Task polls between two looks at the timers and the inbox, at most.
const TASKS_PER_TURN: usize = 64;
/// Turns between two looks at the kernel's events while spinning.
const IO_EVERY_TURNS: u32 = 64;

/// What it takes from the loop to a task that has not run for a while, with caches that have forgotten it: a fraction of
/// this on a quick machine.
const TIMER_LEAD: Duration = Duration::from_micros(1);

/// Configures a [`Runtime`].
#[derive(Clone, Debug)]
pub struct Builder {
    parking: Parking,
    park_margin: Duration,
    timer_lead: Duration,
    tasks_per_turn: usize,
    io_every_turns: u32,
    slab: Option<(usize, usize, bool)>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            parking: Parking::Spin,
            park_margin: Duration::ZERO,
            timer_lead: TIMER_LEAD,
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

    /// How long before a deadline a parked thread gets up, to spin for the rest. Zero unless set.
    #[must_use]
    pub fn park_margin(mut self, margin: Duration) -> Self {
        self.park_margin = margin;
        self
    }

    /// How long before its deadline a task that sleeps, or waits for an interval, is woken while the thread spins, to spin
    /// for the rest inside its own poll: 1 us unless set. It is never early for that, and later by less; whatever else
    /// becomes ready in that time waits until the deadline. A [`timeout`](crate::time::timeout) has none.
    ///
    /// Without effect on a runtime that parks.
    #[must_use]
    pub fn timer_lead(mut self, lead: Duration) -> Self {
        self.timer_lead = lead;
        self
    }

    /// Task polls between two looks at timers and the wakes of other threads: 64 unless set, at least 1. With tasks that
    /// take *p* each, a timer is looked at every 64 *p* at the latest.
    #[must_use]
    pub fn tasks_per_turn(mut self, tasks: usize) -> Self {
        self.tasks_per_turn = tasks.max(1);
        self
    }

    /// Turns between two looks at the kernel's events while something is registered there: 64 unless set, at least 1.
    #[must_use]
    pub fn io_every_turns(mut self, turns: u32) -> Self {
        self.io_every_turns = turns.max(1);
        self
    }

    /// Pre-allocates `slots` places for tasks of up to `slot_bytes` each (their future, output and two words); there
    /// will be no more of them.
    #[must_use]
    pub fn slab(mut self, slot_bytes: usize, slots: usize) -> Self {
        self.slab = Some((slot_bytes, slots, false));
        self
    }

    /// Like [`slab`](Self::slab), but allocates as many slots again whenever all are taken.
    #[must_use]
    pub fn slab_growing(mut self, slot_bytes: usize, chunk_slots: usize) -> Self {
        self.slab = Some((slot_bytes, chunk_slots, true));
        self
    }

    /// Builds it.
    ///
    /// # Errors
    /// If the kernel refuses an event queue or what wakes it, for want of file descriptors for example.
    ///
    /// # Panics
    /// If the slab's slot size or number of slots is zero, or their product overflows.
    pub fn build(self) -> io::Result<Runtime> {
        let pool = self.slab.map(|(bytes, slots, grows)| Pool::new(bytes, slots, grows));
        let (driver, unpark) = Driver::new()?;
        let shared = Shared::new(unpark);
        let timer_lead = if self.parking == Parking::Spin { self.timer_lead } else { Duration::ZERO };
        let root = Header::new(Key { index: ROOT, generation: 0 }, &shared);
        Ok(Runtime {
            core: Core::new(shared, Reactor::new(driver), pool, timer_lead),
            root,
            turns_to_io: self.io_every_turns,
            settings: self,
        })
    }
}

/// A single-threaded executor with timers and I/O. See the [crate] documentation for when to use it.
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
    core: Rc<Core>,
    root: Arc<Header>,
    /// Kept from one `block_on` to the next: however short they are, events are looked at.
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
    pub fn spawn_boxed<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        self.core.spawn_boxed(future)
    }

    /// How many spawned tasks have not ended.
    #[must_use]
    pub fn live_tasks(&self) -> usize {
        count(self.core.live())
    }

    /// The values that every task can reach through [`Resources::current`].
    #[must_use]
    pub fn resources(&self) -> &Resources {
        &self.core.resources
    }

    /// Runs the spawned tasks until all have ended, those included that they spawn meanwhile, or until `limit` has
    /// passed; says how many ended, and where those were spawned that did not. These stay: a later
    /// [`block_on`](Self::block_on) or `drain` runs them on, dropping the runtime drops them.
    ///
    /// Tell the tasks to stop before, with a [`CancellationToken`](crate::CancellationToken). The limit is looked at
    /// between two turns, after the first: what is ready runs even with a limit of zero, and a task that never yields is
    /// waited for.
    ///
    /// # Panics
    /// As [`block_on`](Self::block_on).
    pub fn drain(&mut self, limit: Duration) -> Drained {
        let core = Rc::clone(&self.core);
        let before = core.ended();
        let _ = self.block_on(async {
            let drained = time::timeout(limit, poll_fn(|cx| core.poll_drained(cx)));
            // A turn for what is ready, however short the limit.
            yield_now().await;
            drained.await
        });
        Drained { finished: count(core.ended() - before), unfinished: core.unfinished() }
    }

    /// How many turns of its loop this runtime has made so far, in all calls of [`block_on`](Self::block_on).
    #[must_use]
    pub fn turns(&self) -> u64 {
        self.core.turns.get()
    }

    /// Runs `future` to its end on this thread, and spawned tasks beside it, which stay for the next call if they do not
    /// end before. The future is borrowed for the call only: it need not be `'static`, and is not boxed.
    ///
    /// Each turn: the future if it was woken; wakes from other threads; up to
    /// [`tasks_per_turn`](Builder::tasks_per_turn) tasks; timers that are due; every
    /// [`io_every_turns`](Builder::io_every_turns) turns the kernel's events, if anything is registered.
    /// A task that never yields stops all of these: nothing here preempts.
    ///
    /// # Panics
    /// If a busypoll runtime runs on this thread already, if the future panics, and if the kernel refuses to wait for
    /// events: because another part of the program closed the runtime's descriptors, or, on the BSDs and Apple's systems,
    /// because it is out of memory.
    pub fn block_on<F: Future>(&mut self, future: F) -> F::Output {
        let _entered = context::enter(&self.core);
        let mut future = pin!(future);
        let waker = Waker::from(Arc::clone(&self.root));
        let mut cx = Context::from_waker(&waker);
        let core = &*self.core;
        let mut idle_since: Option<Instant> = None;
        self.root.mark_queued();
        core.root_ready.set(true);
        loop {
            core.turns.set(core.turns.get().wrapping_add(1));
            if core.root_ready.replace(false) {
                self.root.unqueue();
                if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
                    return output;
                }
                idle_since = None;
            }
            if !core.shared.inbox.is_empty() {
                // Not for as long as there are any: a storm of wakes must not keep the tasks from running.
                for _ in 0..core.shared.inbox.at_once() {
                    let Some(word) = core.shared.inbox.pop() else { break };
                    core.queue(Key::unpack(word));
                }
            }
            for _ in 0..self.settings.tasks_per_turn.min(core.ready_len()) {
                core.run_one();
                idle_since = None;
            }
            if core.timers.next().is_some() {
                core.timers.fire(now());
            }
            self.turns_to_io -= 1;
            if self.turns_to_io == 0 {
                self.turns_to_io = self.settings.io_every_turns;
                core.reactor.poll_now();
            }
            if core.has_ready() || !core.shared.inbox.is_empty() {
                continue;
            }
            match self.settings.parking {
                // With a timer, the next look at the clock is pause enough, and no deadline should wait for two.
                Parking::Spin if core.timers.next().is_some() => {}
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
        let limit = match self.core.timers.next() {
            None => None,
            Some(deadline) => {
                let left = deadline.saturating_duration_since(now());
                if left <= self.settings.park_margin {
                    std::hint::spin_loop();
                    return;
                }
                // The margin is less than what is left of a deadline that lies ahead: the difference is an instant.
                Some((deadline - self.settings.park_margin, left - self.settings.park_margin))
            }
        };
        if self.core.shared.inbox.prepare_park() {
            self.core.reactor.wait(limit);
            self.core.shared.inbox.unparked();
        }
    }
}

/// As many tasks as there are addresses cannot be exceeded by those that have lived in memory at once; those that ever
/// ended can, on a 32-bit system, after weeks.
fn count(tasks: u64) -> usize {
    usize::try_from(tasks).unwrap_or(usize::MAX)
}

impl Drop for Runtime {
    fn drop(&mut self) {
        // Destructors of tasks may spawn or set timers, which end with the rest; so they run inside, where they can.
        let entered = context::try_current().is_none().then(|| context::enter(&self.core));
        self.root.close();
        self.core.clear();
        self.core.shared.close();
        // A timer or a handle among them would keep the core, and the core them.
        self.core.resources.clear();
        self.core.reactor.close();
        drop(entered);
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("settings", &self.settings).field("live_tasks", &self.live_tasks()).finish()
    }
}
