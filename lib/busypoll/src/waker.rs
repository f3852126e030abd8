//! The thread-safe half of a task, which is everything that its wakers can access.
//!
//! A waker owns a [`WakeState`] and never the future. A waker can therefore be kept, cloned, sent
//! and dropped on any thread at any time, while the memory of a task is accessed and freed only on
//! the runtime's thread.
//!
//! A wake inside the runtime queues the task at once, without an atomic read-modify-write. A wake
//! from elsewhere announces itself, and the runtime's thread queues the task when it accepts the
//! announcement. The two mechanisms are independent: a task that is woken through both may be
//! polled once more than necessary.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use std::task::Wake;

use crate::remote_wake::RemoteWake;
use crate::run_queue::{self, RemoteHandle, RunQueue, TaskKey};

#[derive(Debug)]
pub(crate) struct WakeState {
    /// Set while the task is in the run queue or has ended: a further wake inside the runtime does
    /// nothing. Only the runtime's thread reads this.
    queued: AtomicBool,
    /// Set while a wake from another thread is pending, or after the task has ended.
    remote_wake: RemoteWake,
    index: u32,
    generation: AtomicU32,
    remote: Arc<RemoteHandle>,
}

impl WakeState {
    /// Creates the state of a task, or the root, that is in the run queue.
    pub(crate) fn new_queued(key: TaskKey, remote: &Arc<RemoteHandle>) -> Arc<Self> {
        Arc::new(Self {
            queued: AtomicBool::new(true),
            remote_wake: RemoteWake::new(),
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
    fn key(&self) -> TaskKey {
        TaskKey { index: self.index, generation: self.generation.load(Ordering::Relaxed) }
    }

    /// Returns whether only a task and its one waker own this state. No other thread can then
    /// change it.
    #[inline]
    pub(crate) fn is_unshared(self: &Arc<Self>) -> bool {
        const EXPECTED_OWNERS: usize = 2;
        let unshared = Arc::strong_count(self) == EXPECTED_OWNERS;
        // Orders the accesses of this thread after those of the last owner that dropped the state.
        fence(Ordering::Acquire);
        unshared
    }

    /// Lets the next wake queue the task. Called before each poll, so that a wake during the poll
    /// is not lost. All methods except [`wake`](Wake::wake) are called on the runtime's thread.
    #[inline]
    pub(crate) fn clear_queued(&self) {
        self.queued.store(false, Ordering::Relaxed);
    }

    /// Marks the task as queued. Returns false if it already was, or has ended.
    #[inline]
    pub(crate) fn mark_queued(&self) -> bool {
        !self.queued.load(Ordering::Relaxed) && {
            self.queued.store(true, Ordering::Relaxed);
            true
        }
    }

    /// Accepts a wake from another thread.
    #[inline]
    pub(crate) fn take_remote_wake(&self) {
        self.remote_wake.take();
    }

    /// Makes all further wakes do nothing.
    #[inline]
    pub(crate) fn mark_done(&self) {
        self.queued.store(true, Ordering::Relaxed);
        self.remote_wake.set(true);
    }

    /// Reuses the state for the next task, which is in the run queue. The state must be unshared.
    #[inline]
    pub(crate) fn reuse(&self, generation: u32) {
        self.generation.store(generation, Ordering::Relaxed);
        self.queued.store(true, Ordering::Relaxed);
        self.remote_wake.set(false);
    }
}

impl WakeState {
    /// Adds the task to the run queue of this thread, unless it is in it.
    #[inline]
    fn push_to(self: &Arc<Self>, queue: &RunQueue) {
        if self.mark_queued() {
            queue.push(self.key());
        }
    }
}

impl Wake for WakeState {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let woken_here = run_queue::with_running_queue(&self.remote, |queue| self.push_to(queue));
        if !woken_here && self.remote_wake.announce() {
            self.remote.push(self.key());
        }
    }
}
