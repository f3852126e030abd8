//! One task, as its runtime's thread sees it.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use crate::run_queue::{Key, Remote};
use crate::slab::{PinnedSlot, Slot};
use crate::stage::{ErasedStage, JoinError, Stage};
use crate::waker::WakeState;

/// A task's future, later its result, in whichever memory it was spawned.
pub(crate) enum StoredStage {
    Boxed(Pin<Box<dyn ErasedStage>>),
    Slab(PinnedSlot),
}

impl StoredStage {
    #[inline]
    pub(crate) fn boxed<F: Future<Output: 'static> + 'static>(future: F) -> Self {
        Self::Boxed(Box::pin(Stage::Running { future }))
    }

    /// # Panics
    /// If the future does not fit the slot.
    #[inline]
    pub(crate) fn in_slot<F: Future<Output: 'static> + 'static>(slot: Slot, future: F) -> Self {
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

/// A destructor that panics ends its own task, not the runtime.
pub(crate) fn drop_quietly(stored: StoredStage) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(stored)));
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No task is here: the slot of the table waits for the next one.
    Free,
    Live,
    /// There is a result, or there was.
    Ended,
}

#[derive(Debug)]
pub(crate) enum TaskPoll {
    Pending,
    /// With whoever waits for the end.
    Ended(Option<Waker>),
}

/// A slot of the task table, used for one task after the other. The table and the task's handle
/// share it.
pub(crate) struct Task {
    wake_state: Arc<WakeState>,
    /// Of that state, so that a poll need not make one.
    waker: Waker,
    generation: Cell<u32>,
    state: Cell<State>,
    aborted: Cell<bool>,
    has_handle: Cell<bool>,
    spawned_at: Cell<&'static Location<'static>>,
    /// Borrowed while the future is polled; until the task has ended nothing else looks at it.
    stored: RefCell<Option<StoredStage>>,
    joiner: Cell<Option<Waker>>,
}

impl Task {
    pub(crate) fn new(
        key: Key,
        remote: &Arc<Remote>,
        spawned_at: &'static Location<'static>,
    ) -> Self {
        let wake_state = WakeState::queued(key, remote);
        Self {
            waker: Waker::from(Arc::clone(&wake_state)),
            wake_state,
            generation: Cell::new(key.generation),
            state: Cell::new(State::Live),
            aborted: Cell::new(false),
            has_handle: Cell::new(true),
            spawned_at: Cell::new(spawned_at),
            stored: RefCell::new(None),
            joiner: Cell::new(None),
        }
    }

    /// Whether no waker of an earlier task is around.
    #[inline]
    pub(crate) fn is_reusable(&self) -> bool {
        self.wake_state.is_unshared()
    }

    /// Another thread has woken it. True if the caller must queue it for that.
    #[inline]
    pub(crate) fn take_announced(&self) -> bool {
        self.wake_state.take_announced();
        self.wake_state.mark_queued()
    }

    /// Starts the next task here. Only if it is reusable.
    #[inline]
    pub(crate) fn reuse(&self, generation: u32, spawned_at: &'static Location<'static>) {
        self.wake_state.reuse(generation);
        self.generation.set(generation);
        self.state.set(State::Live);
        self.aborted.set(false);
        self.has_handle.set(true);
        self.spawned_at.set(spawned_at);
    }

    #[inline]
    pub(crate) fn store(&self, stored: StoredStage) {
        let before = self.stored.borrow_mut().replace(stored);
        debug_assert!(before.is_none(), "the slot was free");
        // Nothing is in it. Running its destructor here would take the new value through memory,
        // and a copy of what smaller writes have just written has to wait until they reach the
        // cache: longer than all the rest.
        std::mem::forget(before);
    }

    #[inline]
    pub(crate) fn key(&self) -> Key {
        Key { index: self.wake_state.index(), generation: self.generation.get() }
    }

    #[inline]
    pub(crate) fn is_occupied(&self) -> bool {
        self.state.get() != State::Free
    }

    #[inline]
    pub(crate) fn is_live(&self) -> bool {
        self.state.get() == State::Live
    }

    /// Whether it lives, as the task of that generation.
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

    /// Polls the future, or drops it if the task was aborted. Only while the task lives.
    ///
    /// # Panics
    /// As the future; then [`fail`](Self::fail) is due.
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

    /// Its future has panicked: ends it with that. Returns who waits for the end.
    #[cold]
    pub(crate) fn fail(&self, error: JoinError) -> Option<Waker> {
        if let Some(stored) = &mut *self.stored.borrow_mut() {
            stored.as_mut().fail(error);
        }
        self.mark_ended();
        self.joiner.take()
    }

    /// There is a result, or will never be one: wakes from here on do nothing.
    #[inline]
    fn mark_ended(&self) {
        self.wake_state.mark_done();
        self.state.set(State::Ended);
    }

    /// Ends the task as it is, without a result.
    pub(crate) fn shut_down(&self) -> (Option<StoredStage>, Option<Waker>) {
        self.mark_ended();
        (self.take_stored(), self.joiner.take())
    }

    #[inline]
    pub(crate) fn take_stored(&self) -> Option<StoredStage> {
        self.stored.borrow_mut().take()
    }

    /// Has the future dropped at the next turn. True if the caller must queue the task for that.
    pub(crate) fn abort(&self) -> bool {
        self.is_live() && {
            self.aborted.set(true);
            self.wake_state.mark_queued()
        }
    }

    /// Has this waker woken at the task's end, in place of an earlier one.
    #[inline]
    pub(crate) fn set_joiner(&self, waker: &Waker) {
        let known = self.joiner.take().filter(|known| known.will_wake(waker));
        self.joiner.set(Some(known.unwrap_or_else(|| waker.clone())));
    }

    /// Moves the result into `out`, a `Poll<Result<T, JoinError>>`. Only once the task has ended.
    #[inline]
    pub(crate) fn take_result(&self, out: &mut dyn Any) {
        let mut stored = self.stored.borrow_mut();
        if let Some(ended) = &mut *stored {
            ended.as_mut().take_result(out);
            // Only memory: nothing is left in it whose destructor could look at this task.
            *stored = None;
        }
    }

    /// Notes that the handle is gone. Returns the waker that it registered, whose destructor is
    /// foreign code.
    #[inline]
    pub(crate) fn drop_handle(&self) -> Option<Waker> {
        self.has_handle.set(false);
        self.joiner.take()
    }

    #[inline]
    pub(crate) fn mark_free(&self) {
        self.state.set(State::Free);
    }
}
