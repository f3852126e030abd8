//! Where a wake puts its task: straight into the run queue on the runtime's own thread, through the
//! inbox from others.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use crate::inbox::Inbox;

/// The index that stands for the root future.
const ROOT_INDEX: u32 = u32::MAX;

/// A task: its slot in the task table, and which of all the tasks that slot has held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl Key {
    pub(crate) const ROOT: Self = Self { index: ROOT_INDEX, generation: 0 };

    /// The index of a new slot in the table; `None` if the table is full.
    pub(crate) fn index_of(slot: usize) -> Option<u32> {
        u32::try_from(slot).ok().filter(|index| *index != ROOT_INDEX)
    }

    /// As one word. Never all ones: the root has generation 0.
    fn pack(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    #[allow(clippy::cast_possible_truncation, reason = "the halves of the word")]
    fn unpack(word: u64) -> Self {
        Self { index: word as u32, generation: (word >> 32) as u32 }
    }
}

/// How other threads reach a runtime.
#[derive(Debug)]
pub(crate) struct Remote {
    inbox: Inbox,
    /// `None` once the runtime is gone: a waker that outlives it must not keep its descriptors
    /// open.
    unpark: Mutex<Option<mio::Waker>>,
}

impl Remote {
    pub(crate) fn push(&self, key: Key) {
        if self.inbox.push(key.pack()) {
            let unpark = self.unpark.lock().unwrap_or_else(PoisonError::into_inner);
            // Fails only where the system is out of memory for the event; the park's own limit
            // bounds the harm.
            let _ = unpark.as_ref().map(mio::Waker::wake);
        }
    }
}

/// The tasks that are ready, in the order in which they became so, and the root beside them.
pub(crate) struct RunQueue {
    remote: Arc<Remote>,
    tasks: RefCell<VecDeque<Key>>,
    root_ready: Cell<bool>,
}

impl RunQueue {
    pub(crate) fn new(unpark: mio::Waker) -> Rc<Self> {
        let remote = Arc::new(Remote { inbox: Inbox::new(), unpark: Mutex::new(Some(unpark)) });
        Rc::new(Self { remote, tasks: RefCell::default(), root_ready: Cell::new(false) })
    }

    pub(crate) fn remote(&self) -> &Arc<Remote> {
        &self.remote
    }

    /// Queues a task, or the root. Its wake state keeps it from being queued twice.
    #[inline]
    pub(crate) fn push(&self, key: Key) {
        if key.index == ROOT_INDEX {
            self.root_ready.set(true);
        } else {
            self.push_task(key);
        }
    }

    #[inline]
    pub(crate) fn push_task(&self, key: Key) {
        self.tasks.borrow_mut().push_back(key);
    }

    /// Takes as many from the head as there is room for.
    #[inline]
    pub(crate) fn take_tasks(&self, into: &mut [Key]) -> usize {
        let mut tasks = self.tasks.borrow_mut();
        let taken = into.len().min(tasks.len());
        into.iter_mut().zip(tasks.drain(..taken)).for_each(|(slot, key)| *slot = key);
        taken
    }

    /// Puts back what was taken and not polled.
    #[cold]
    pub(crate) fn put_back(&self, keys: &[Key]) {
        let mut tasks = self.tasks.borrow_mut();
        keys.iter().rev().for_each(|key| tasks.push_front(*key));
    }

    #[inline]
    pub(crate) fn pop_task(&self) -> Option<Key> {
        self.tasks.borrow_mut().pop_front()
    }

    #[inline]
    pub(crate) fn tasks(&self) -> usize {
        self.tasks.borrow().len()
    }

    /// With the root.
    #[inline]
    pub(crate) fn ready(&self) -> usize {
        self.tasks() + usize::from(self.root_ready.get())
    }

    /// Whether the root was woken since the last call.
    #[inline]
    pub(crate) fn take_root(&self) -> bool {
        self.root_ready.replace(false)
    }

    /// Whether another thread has woken something that was not taken yet.
    #[inline]
    pub(crate) fn has_woken(&self) -> bool {
        !self.remote.inbox.is_empty()
    }

    /// Takes the next of those that other threads have woken.
    #[inline]
    pub(crate) fn take_woken(&self) -> Option<Key> {
        self.remote.inbox.pop().map(Key::unpack)
    }

    /// Calls `wait`, which sleeps until another thread's wake unparks it; not at all if there was a
    /// wake before.
    pub(crate) fn park(&self, wait: impl FnOnce()) {
        if self.remote.inbox.prepare_park() {
            wait();
            self.remote.inbox.unparked();
        }
    }

    pub(crate) fn clear_tasks(&self) {
        self.tasks.borrow_mut().clear();
    }

    /// No thread is left to unpark.
    pub(crate) fn close(&self) {
        *self.remote.unpark.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

thread_local! {
    /// The run queue of the runtime that runs on this thread. Without a destructor, which whoever
    /// sets it makes needless: so it is there as long as the thread is.
    static RUNNING: ManuallyDrop<RefCell<Option<Rc<RunQueue>>>> = const { ManuallyDrop::new(RefCell::new(None)) };
}

/// Until it is called again, wakes on this thread go to this run queue.
pub(crate) fn set_running(queue: Option<Rc<RunQueue>>) {
    // On a system that takes all thread-locals from a thread that ends, wakes there take the long
    // way.
    let before = RUNNING.try_with(|running| running.replace(queue));
    drop(before);
}

/// Whether a runtime runs on this thread.
pub(crate) fn is_running() -> bool {
    RUNNING.try_with(|running| running.borrow().is_some()).unwrap_or(false)
}

/// Calls `f` with the run queue that `remote` reaches, if its runtime runs on this thread; returns
/// whether it does.
#[inline]
pub(crate) fn with_running(remote: &Arc<Remote>, f: impl FnOnce(&RunQueue)) -> bool {
    let found = RUNNING.try_with(|running| match &*running.borrow() {
        Some(queue) if Arc::ptr_eq(&queue.remote, remote) => {
            f(queue);
            true
        }
        _ => false,
    });
    found.unwrap_or(false)
}
