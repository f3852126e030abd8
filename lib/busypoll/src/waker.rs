//! The thread-safe half of a task: all that a waker can reach.
//!
//! A waker owns a [`Header`] and nothing else, never the future. So a waker may be kept, cloned, sent and dropped
//! anywhere, for as long as anybody likes, and task memory is only ever touched, and freed, on the runtime's thread.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Wake;

use crate::context;
use crate::inbox::Inbox;

const QUEUED: u8 = 1;
const DONE: u8 = 2;

/// The task number that stands for the root future.
pub(crate) const ROOT: u32 = u32::MAX;

/// What other threads share with a runtime.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) inbox: Inbox,
    /// None once the runtime is gone, whose descriptors a waker that is still around must not keep open.
    unpark: Mutex<Option<mio::Waker>>,
}

impl Shared {
    pub(crate) fn new(unpark: mio::Waker) -> Arc<Self> {
        Arc::new(Self { inbox: Inbox::new(), unpark: Mutex::new(Some(unpark)) })
    }

    /// Tells the runtime's thread, by whatever that takes.
    fn tell(&self, key: Key) {
        if self.inbox.push(key.pack()) {
            let unpark = self.unpark.lock().unwrap_or_else(PoisonError::into_inner);
            // Fails only where the system is out of memory for the event; the park's own limit bounds the harm.
            let _ = unpark.as_ref().map(mio::Waker::wake);
        }
    }

    /// There is no thread to tell any more.
    pub(crate) fn close(&self) {
        *self.unpark.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Which task, of all that were ever in this place of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl Key {
    /// As one word, never with all bits set: the root has generation 0.
    fn pack(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    #[allow(clippy::cast_possible_truncation, reason = "the halves of the word")]
    pub(crate) fn unpack(word: u64) -> Self {
        Self { index: word as u32, generation: (word >> 32) as u32 }
    }
}

#[derive(Debug)]
pub(crate) struct Header {
    state: AtomicU8,
    index: u32,
    generation: AtomicU32,
    shared: Arc<Shared>,
}

impl Header {
    pub(crate) fn new(key: Key, shared: &Arc<Shared>) -> Arc<Self> {
        Arc::new(Self {
            state: AtomicU8::new(0),
            index: key.index,
            generation: AtomicU32::new(key.generation),
            shared: Arc::clone(shared),
        })
    }

    /// The header of a task that is in the run queue.
    pub(crate) fn queued(key: Key, shared: &Arc<Shared>) -> Arc<Self> {
        let header = Self::new(key, shared);
        header.state.store(QUEUED, Ordering::Relaxed);
        header
    }

    #[inline]
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    pub(crate) fn key(&self) -> Key {
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
    pub(crate) fn unqueue(&self) {
        self.state.fetch_and(!QUEUED, Ordering::AcqRel);
    }

    /// The same for a task, whose wakers may not have left its hands yet.
    #[inline]
    pub(crate) fn unqueue_task(self: &Arc<Self>) {
        if self.is_unshared() {
            self.state.store(0, Ordering::Relaxed);
        } else {
            self.unqueue();
        }
    }

    /// Wakes from here on do nothing.
    pub(crate) fn close(&self) {
        self.state.fetch_or(DONE, Ordering::AcqRel);
    }

    /// The same for a task: if nobody is left to wake it, there is nothing to do.
    #[inline]
    pub(crate) fn close_task(self: &Arc<Self>) {
        if !self.is_unshared() {
            self.close();
        }
    }

    /// Makes it the header of the next task, which is in the run queue. Only while it is unshared.
    #[inline]
    pub(crate) fn recycle(&self, generation: u32) {
        self.generation.store(generation, Ordering::Relaxed);
        self.state.store(QUEUED, Ordering::Relaxed);
    }

    /// Marks it queued; false if it already was, or is done.
    #[inline]
    pub(crate) fn mark_queued(&self) -> bool {
        self.state.fetch_or(QUEUED, Ordering::AcqRel) & (QUEUED | DONE) == 0
    }
}

impl Wake for Header {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.mark_queued() && !context::queue_here(Arc::as_ptr(&self.shared), self.key()) {
            self.shared.tell(self.key());
        }
    }
}
