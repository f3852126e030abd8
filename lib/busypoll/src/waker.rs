//! The thread-safe half of a task: all that a waker can reach.
//!
//! A waker owns a [`WakeState`] and nothing else, never the future. So a waker may be kept, cloned,
//! sent and dropped anywhere, for as long as anybody likes, and task memory is only ever touched,
//! and freed, on the runtime's thread.
//!
//! A wake inside the runtime queues the task at once, without an atomic read-modify-write. One from
//! elsewhere announces it, and the runtime's thread queues it when it takes the announcement. The
//! two do not know of each other: a task that is woken both ways may be polled once more than it
//! needs to be.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use std::task::Wake;

use crate::announced::Announced;
use crate::run_queue::{self, Key, Remote};

#[derive(Debug)]
pub(crate) struct WakeState {
    /// In the run queue, or ended: a further wake inside the runtime does nothing. Only its thread
    /// looks at this.
    queued: AtomicBool,
    /// On its way there from another thread, or ended.
    announced: Announced,
    index: u32,
    generation: AtomicU32,
    remote: Arc<Remote>,
}

impl WakeState {
    /// Of a task, or the root, that is in the run queue.
    pub(crate) fn queued(key: Key, remote: &Arc<Remote>) -> Arc<Self> {
        Arc::new(Self {
            queued: AtomicBool::new(true),
            announced: Announced::new(),
            index: key.index,
            generation: AtomicU32::new(key.generation),
            remote: Arc::clone(remote),
        })
    }

    #[inline]
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    #[inline]
    fn key(&self) -> Key {
        Key { index: self.index, generation: self.generation.load(Ordering::Relaxed) }
    }

    /// Whether a task and its one waker hold this, and nobody else on any thread: then nobody can
    /// change it now.
    #[inline]
    pub(crate) fn is_unshared(self: &Arc<Self>) -> bool {
        const OWN: usize = 2;
        let unshared = Arc::strong_count(self) == OWN;
        // Orders us after whoever let go of it last.
        fence(Ordering::Acquire);
        unshared
    }

    /// Wakes from here on queue it again. Called before each poll, so that a wake during the poll
    /// counts. On the runtime's thread, as all but [`wake`](Wake::wake).
    #[inline]
    pub(crate) fn clear_queued(&self) {
        self.queued.store(false, Ordering::Relaxed);
    }

    /// Marks it queued; false if it already was, or has ended.
    #[inline]
    pub(crate) fn mark_queued(&self) -> bool {
        !self.queued.load(Ordering::Relaxed) && {
            self.queued.store(true, Ordering::Relaxed);
            true
        }
    }

    /// It has come from another thread.
    #[inline]
    pub(crate) fn take_announced(&self) {
        self.announced.take();
    }

    /// Wakes from here on do nothing.
    #[inline]
    pub(crate) fn mark_done(&self) {
        self.queued.store(true, Ordering::Relaxed);
        self.announced.set(true);
    }

    /// Hands it to the next task, which is in the run queue. Only while it is unshared.
    #[inline]
    pub(crate) fn reuse(&self, generation: u32) {
        self.generation.store(generation, Ordering::Relaxed);
        self.queued.store(true, Ordering::Relaxed);
        self.announced.set(false);
    }
}

impl Wake for WakeState {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let woken_here = run_queue::with_running(&self.remote, |queue| {
            if self.mark_queued() {
                queue.push(self.key());
            }
        });
        if !woken_here && self.announced.announce() {
            self.remote.push(self.key());
        }
    }
}
