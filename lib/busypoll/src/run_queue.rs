//! The run queue. A wake on the runtime's own thread puts its task into the queue directly; a wake
//! on another thread goes through the inbox.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use crate::inbox::Inbox;

/// The index that represents the root future.
const ROOT_INDEX: u32 = u32::MAX;

/// Identifies a task by its index in the task table and by the generation of that entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskKey {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl TaskKey {
    pub(crate) const ROOT: Self = Self { index: ROOT_INDEX, generation: 0 };

    /// Returns the index of a new entry in the table, or `None` if the table is full.
    pub(crate) fn index_for_slot(slot: usize) -> Option<u32> {
        u32::try_from(slot).ok().filter(|index| *index != ROOT_INDEX)
    }

    /// Packs the key into one word, which is never all ones because the root has generation 0.
    fn pack(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    #[allow(clippy::cast_possible_truncation, reason = "the halves of the word")]
    fn unpack(word: u64) -> Self {
        Self { index: word as u32, generation: (word >> 32) as u32 }
    }
}

/// The handle by which other threads reach a runtime.
#[derive(Debug)]
pub(crate) struct RemoteHandle {
    inbox: Inbox,
    /// `None` once the runtime has been dropped, because a waker that outlives the runtime must not
    /// keep its descriptors open.
    unpark: Mutex<Option<mio::Waker>>,
}

impl RemoteHandle {
    pub(crate) fn push(&self, key: TaskKey) {
        if self.inbox.push(key.pack()) {
            let unpark = self.unpark.lock().unwrap_or_else(PoisonError::into_inner);
            // This fails only if the system has no memory for the event. The limit of the park then
            // bounds the delay.
            let _ = unpark.as_ref().map(mio::Waker::wake);
        }
    }
}

/// The tasks that are ready, in the order in which they became ready, and the root.
pub(crate) struct RunQueue {
    remote: Arc<RemoteHandle>,
    tasks: RefCell<VecDeque<TaskKey>>,
    /// The number of tasks that were taken from the queue so far.
    taken_count: Cell<u64>,
    root_ready: Cell<bool>,
}

impl RunQueue {
    pub(crate) fn new(unpark: mio::Waker) -> Rc<Self> {
        let remote =
            Arc::new(RemoteHandle { inbox: Inbox::new(), unpark: Mutex::new(Some(unpark)) });
        Rc::new(Self {
            remote,
            tasks: RefCell::default(),
            taken_count: Cell::new(0),
            root_ready: Cell::new(false),
        })
    }

    pub(crate) fn remote(&self) -> &Arc<RemoteHandle> {
        &self.remote
    }

    /// Queues a task, or the root. Its wake state prevents it from being queued twice.
    #[inline]
    pub(crate) fn push(&self, key: TaskKey) {
        if key.index == ROOT_INDEX {
            self.root_ready.set(true);
        } else {
            self.push_task(key);
        }
    }

    #[inline]
    pub(crate) fn push_task(&self, key: TaskKey) {
        self.tasks.borrow_mut().push_back(key);
    }

    /// Takes tasks from the head until `into` is full or the queue is empty. Returns their number.
    #[inline]
    pub(crate) fn take_tasks(&self, into: &mut [TaskKey]) -> usize {
        let mut tasks = self.tasks.borrow_mut();
        let taken = into.len().min(tasks.len());
        for (slot, key) in into.iter_mut().zip(tasks.drain(..taken)) {
            *slot = key;
        }
        self.taken_count.set(self.taken_count.get() + taken as u64);
        taken
    }

    /// Puts tasks that were taken but not polled back at the head.
    #[cold]
    pub(crate) fn requeue(&self, keys: &[TaskKey]) {
        let mut tasks = self.tasks.borrow_mut();
        for key in keys.iter().rev() {
            tasks.push_front(*key);
        }
        self.taken_count.set(self.taken_count.get() - keys.len() as u64);
    }

    #[inline]
    pub(crate) fn pop_task(&self) -> Option<TaskKey> {
        let popped = self.tasks.borrow_mut().pop_front();
        self.taken_count.set(self.taken_count.get() + u64::from(popped.is_some()));
        popped
    }

    /// Returns the number of tasks that were taken from the queue so far.
    pub(crate) fn taken_count(&self) -> u64 {
        self.taken_count.get()
    }

    #[inline]
    pub(crate) fn task_count(&self) -> usize {
        self.tasks.borrow().len()
    }

    /// Returns the number of ready tasks, including the root.
    #[inline]
    pub(crate) fn ready_count(&self) -> usize {
        self.task_count() + usize::from(self.root_ready.get())
    }

    /// Returns whether the root was woken since the last call.
    #[inline]
    pub(crate) fn take_root_wake(&self) -> bool {
        self.root_ready.replace(false)
    }

    /// Returns whether a wake from another thread is pending.
    #[inline]
    pub(crate) fn has_remote_wakes(&self) -> bool {
        !self.remote.inbox.is_empty()
    }

    /// Returns the number of wakes from other threads that are pending.
    pub(crate) fn remote_wake_count(&self) -> usize {
        self.remote.inbox.len()
    }

    /// Takes the next task that another thread has woken.
    #[inline]
    pub(crate) fn pop_remote_wake(&self) -> Option<TaskKey> {
        self.remote.inbox.pop().map(TaskKey::unpack)
    }

    /// Calls `wait`, which sleeps until another thread unparks this one. Does not call it if a wake
    /// is already pending.
    pub(crate) fn park(&self, wait: impl FnOnce()) {
        if self.remote.inbox.prepare_park() {
            wait();
            self.remote.inbox.mark_unparked();
        }
    }

    pub(crate) fn clear_tasks(&self) {
        self.tasks.borrow_mut().clear();
    }

    /// Drops the unpark handle, since no thread is left to unpark.
    pub(crate) fn close(&self) {
        *self.remote.unpark.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

thread_local! {
    /// The run queue of the runtime that runs on this thread. It has no destructor, so that it
    /// exists as long as the thread does; [`set_running`] clears it instead.
    static RUNNING: ManuallyDrop<RefCell<Option<Rc<RunQueue>>>> = const { ManuallyDrop::new(RefCell::new(None)) };
}

/// Directs wakes on this thread to this run queue, until the next call.
pub(crate) fn set_running(queue: Option<Rc<RunQueue>>) {
    // Some systems destroy all thread-locals of a thread that ends. Wakes on such a thread take the
    // slower path through the inbox.
    let before = RUNNING.try_with(|running| running.replace(queue));
    drop(before);
}

/// Returns whether a runtime runs on this thread.
pub(crate) fn is_running() -> bool {
    RUNNING.try_with(|running| running.borrow().is_some()).unwrap_or(false)
}

/// Calls `f` with the run queue that `remote` reaches, if its runtime runs on this thread. Returns
/// whether it does.
#[inline]
pub(crate) fn with_running_queue(remote: &Arc<RemoteHandle>, f: impl FnOnce(&RunQueue)) -> bool {
    let found = RUNNING.try_with(|running| call_if_reached(running.borrow().as_deref(), remote, f));
    found.unwrap_or(false)
}

#[inline]
fn call_if_reached(
    running: Option<&RunQueue>,
    remote: &Arc<RemoteHandle>,
    f: impl FnOnce(&RunQueue),
) -> bool {
    match running {
        Some(queue) if Arc::ptr_eq(&queue.remote, remote) => {
            f(queue);
            true
        }
        _ => false,
    }
}
