//! A task, as seen by its runtime's thread.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use crate::run_queue::{RemoteHandle, TaskKey};
use crate::slab::{PinnedSlot, Slot};
use crate::stage::{ErasedStage, JoinError, Stage};
use crate::waker::WakeState;

/// A task's future and later its result, on the heap or in a slot of the slab.
pub(crate) enum StoredStage {
    Boxed(Pin<Box<dyn ErasedStage>>),
    Slab(PinnedSlot),
}

impl StoredStage {
    #[inline]
    pub(crate) fn new_boxed<F: Future<Output: 'static> + 'static>(future: F) -> Self {
        Self::Boxed(Box::pin(Stage::Running { future }))
    }

    /// # Panics
    /// Panics if the future does not fit the slot.
    #[inline]
    pub(crate) fn new_in_slot<F: Future<Output: 'static> + 'static>(slot: Slot, future: F) -> Self {
        Self::Slab(slot.fill(future))
    }

    #[inline]
    fn as_mut(&mut self) -> Pin<&mut dyn ErasedStage> {
        match self {
            Self::Boxed(stage) => stage.as_mut(),
            Self::Slab(slot) => slot.as_mut(),
        }
    }
}

/// Drops the stage of a task, or a resource. A panic of the destructor does not reach the runtime.
pub(crate) fn drop_quietly<T>(value: T) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(value)));
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaskState {
    /// The entry contains no task and can be reused.
    Free,
    Live,
    /// The task has ended. Its result may already have been taken.
    Ended,
}

#[derive(Debug)]
pub(crate) enum TaskPoll {
    Pending,
    /// The task has ended. Contains the waker of the task that waits for it, if any.
    Ended(Option<Waker>),
}

/// An entry of the task table, which is used for one task after another. The table and the task's
/// handle share it.
pub(crate) struct Task {
    wake_state: Arc<WakeState>,
    /// A waker for `wake_state`, kept so that a poll need not create one.
    waker: Waker,
    generation: Cell<u32>,
    state: Cell<TaskState>,
    aborted: Cell<bool>,
    has_handle: Cell<bool>,
    spawned_at: Cell<&'static Location<'static>>,
    /// Borrowed while the future is polled. Nothing else reads it before the task has ended.
    stored: RefCell<Option<StoredStage>>,
    joiner: Cell<Option<Waker>>,
}

impl Task {
    pub(crate) fn new(
        key: TaskKey,
        remote: &Arc<RemoteHandle>,
        spawned_at: &'static Location<'static>,
    ) -> Self {
        let wake_state = WakeState::new_queued(key, remote);
        Self {
            waker: Waker::from(Arc::clone(&wake_state)),
            wake_state,
            generation: Cell::new(key.generation),
            state: Cell::new(TaskState::Live),
            aborted: Cell::new(false),
            has_handle: Cell::new(true),
            spawned_at: Cell::new(spawned_at),
            stored: RefCell::new(None),
            joiner: Cell::new(None),
        }
    }

    /// Returns whether no waker of an earlier task exists.
    #[inline]
    pub(crate) fn is_reusable(&self) -> bool {
        self.wake_state.is_unshared()
    }

    /// Accepts a wake from another thread. Returns true if the caller must queue the task.
    #[inline]
    pub(crate) fn accept_remote_wake(&self) -> bool {
        self.wake_state.take_remote_wake();
        self.wake_state.mark_queued()
    }

    /// Starts the next task in this entry, which must be reusable.
    #[inline]
    pub(crate) fn reuse(&self, generation: u32, spawned_at: &'static Location<'static>) {
        self.wake_state.reuse(generation);
        self.generation.set(generation);
        self.state.set(TaskState::Live);
        self.aborted.set(false);
        self.has_handle.set(true);
        self.spawned_at.set(spawned_at);
    }

    #[inline]
    pub(crate) fn store(&self, stored: StoredStage) {
        let before = self.stored.borrow_mut().replace(stored);
        debug_assert!(before.is_none(), "the slot was free");
        // `before` is `None`. Running its destructor would move the new value through memory.
        // Copying data right after smaller writes must wait until these reach the cache, which
        // takes longer than all the rest.
        std::mem::forget(before);
    }

    #[inline]
    pub(crate) fn key(&self) -> TaskKey {
        TaskKey { index: self.wake_state.index(), generation: self.generation.get() }
    }

    #[inline]
    pub(crate) fn is_occupied(&self) -> bool {
        self.state.get() != TaskState::Free
    }

    #[inline]
    pub(crate) fn is_live(&self) -> bool {
        self.state.get() == TaskState::Live
    }

    /// Returns whether the task of that generation is live.
    #[inline]
    pub(crate) fn is_live_as(&self, generation: u32) -> bool {
        self.generation.get() == generation && self.is_live()
    }

    #[inline]
    pub(crate) fn has_handle(&self) -> bool {
        self.has_handle.get()
    }

    pub(crate) fn spawned_at(&self) -> &'static Location<'static> {
        self.spawned_at.get()
    }

    /// Polls the future, or drops it if the task was aborted. The task must be live.
    ///
    /// # Panics
    /// Panics if the future panics. The caller must then call [`fail`](Self::fail).
    #[inline]
    pub(crate) fn poll(&self) -> TaskPoll {
        self.wake_state.clear_queued();
        {
            let mut stored = self.stored.borrow_mut();
            let Some(stored) = &mut *stored else { return TaskPoll::Pending };
            if self.aborted.get() {
                stored.as_mut().fail(JoinError::cancelled());
            } else if stored.as_mut().poll(&mut Context::from_waker(&self.waker)).is_pending() {
                return TaskPoll::Pending;
            }
        }
        self.mark_ended();
        TaskPoll::Ended(self.joiner.take())
    }

    /// Ends the task after its future has panicked. Returns the waker of the task that waits for
    /// it.
    #[cold]
    pub(crate) fn fail(&self, error: JoinError) -> Option<Waker> {
        if let Some(stored) = &mut *self.stored.borrow_mut() {
            stored.as_mut().fail(error);
        }
        self.mark_ended();
        self.joiner.take()
    }

    /// Marks the task as ended. Further wakes do nothing.
    #[inline]
    fn mark_ended(&self) {
        self.wake_state.mark_done();
        self.state.set(TaskState::Ended);
    }

    /// Ends the task without a result.
    pub(crate) fn shut_down(&self) -> (Option<StoredStage>, Option<Waker>) {
        self.mark_ended();
        (self.take_stored(), self.joiner.take())
    }

    #[inline]
    pub(crate) fn take_stored(&self) -> Option<StoredStage> {
        self.stored.borrow_mut().take()
    }

    /// Requests that the future be dropped in the next turn. Returns true if the caller must queue
    /// the task.
    pub(crate) fn abort(&self) -> bool {
        self.is_live() && {
            self.aborted.set(true);
            self.wake_state.mark_queued()
        }
    }

    /// Registers the waker to call when the task ends, in place of an earlier one.
    #[inline]
    pub(crate) fn set_joiner(&self, waker: &Waker) {
        let known = self.joiner.take().filter(|known| known.will_wake(waker));
        self.joiner.set(Some(known.unwrap_or_else(|| waker.clone())));
    }

    /// Moves the result into `out`, a `Poll<Result<T, JoinError>>`. The task must have ended.
    #[inline]
    pub(crate) fn take_result(&self, out: &mut dyn Any) {
        let mut stored = self.stored.borrow_mut();
        if let Some(ended) = &mut *stored {
            ended.as_mut().take_result(out);
            // Only memory is freed here: no destructor is left that could access this task.
            *stored = None;
        }
    }

    /// Records that the handle has been dropped. Returns the waker that the handle had registered,
    /// since its destructor is foreign code.
    #[inline]
    pub(crate) fn drop_handle(&self) -> Option<Waker> {
        self.has_handle.set(false);
        self.joiner.take()
    }

    #[inline]
    pub(crate) fn mark_free(&self) {
        self.state.set(TaskState::Free);
    }
}
