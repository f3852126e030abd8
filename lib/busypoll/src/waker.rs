//! The thread-safe half of a task: all that a waker can reach.
//!
//! A waker owns a [`WakeState`] and nothing else, never the future. So a waker may be kept, cloned, sent and dropped
//! anywhere, for as long as anybody likes, and task memory is only ever touched, and freed, on the runtime's thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering, fence};
use std::task::Wake;

use crate::run_queue::{self, Key, Remote};

/// Queued already: a further wake does nothing.
const QUEUED: u8 = 1;
/// Ended: no wake does anything.
const DONE: u8 = 2;

#[derive(Debug)]
pub(crate) struct WakeState {
    flags: AtomicU8,
    index: u32,
    generation: AtomicU32,
    remote: Arc<Remote>,
}

impl WakeState {
    /// Of a task, or the root, that is in the run queue.
    pub(crate) fn queued(key: Key, remote: &Arc<Remote>) -> Arc<Self> {
        Arc::new(Self {
            flags: AtomicU8::new(QUEUED),
            index: key.index,
            generation: AtomicU32::new(key.generation),
            remote: Arc::clone(remote),
        })
    }

    #[inline]
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    fn key(&self) -> Key {
        Key { index: self.index, generation: self.generation.load(Ordering::Relaxed) }
    }

    /// Whether a task and its one waker hold this, and nobody else on any thread: then nobody can change it now.
    #[inline]
    pub(crate) fn is_unshared(self: &Arc<Self>) -> bool {
        const OWN: usize = 2;
        let unshared = Arc::strong_count(self) == OWN;
        // Orders us after whoever let go of it last.
        fence(Ordering::Acquire);
        unshared
    }

    /// Wakes from here on queue it again. Called before each poll, so that a wake during the poll counts.
    #[inline]
    pub(crate) fn clear_queued(&self) {
        self.flags.fetch_and(!QUEUED, Ordering::AcqRel);
    }

    /// Like [`clear_queued`](Self::clear_queued), without the atomic operation for a task whose wakers never left it.
    #[inline]
    pub(crate) fn clear_queued_of_task(self: &Arc<Self>) {
        if self.is_unshared() {
            self.flags.store(0, Ordering::Relaxed);
        } else {
            self.clear_queued();
        }
    }

    /// Wakes from here on do nothing.
    pub(crate) fn mark_done(&self) {
        self.flags.fetch_or(DONE, Ordering::AcqRel);
    }

    /// Like [`mark_done`](Self::mark_done), but leaves a task alone that nobody is left to wake.
    #[inline]
    pub(crate) fn mark_task_done(self: &Arc<Self>) {
        if !self.is_unshared() {
            self.mark_done();
        }
    }

    /// Hands it to the next task, which is in the run queue. Only while it is unshared.
    #[inline]
    pub(crate) fn reuse(&self, generation: u32) {
        self.generation.store(generation, Ordering::Relaxed);
        self.flags.store(QUEUED, Ordering::Relaxed);
    }

    /// Marks it queued; false if it already was, or is done.
    #[inline]
    pub(crate) fn mark_queued(&self) -> bool {
        self.flags.fetch_or(QUEUED, Ordering::AcqRel) & (QUEUED | DONE) == 0
    }
}

impl Wake for WakeState {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.mark_queued() {
            run_queue::wake(&self.remote, self.key());
        }
    }
}
