//! One task, as its runtime's thread sees it.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Waker};

use crate::cell::Stored;
use crate::waker::{Header, Key, Shared};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nobody's: the place waits for the next task.
    Free,
    Live,
    /// There is a result, or there was.
    Ended,
}

/// What a poll came to.
#[derive(Debug)]
pub(crate) enum Polled {
    Pending,
    /// It has ended, and this is who waits for that.
    Ended(Option<Waker>),
}

/// A place for a task, used for one after the other. The table and the handle of its task share it.
pub(crate) struct Task {
    header: Arc<Header>,
    /// Of that header, so that a poll need not make one.
    waker: Waker,
    generation: Cell<u32>,
    state: Cell<State>,
    aborted: Cell<bool>,
    has_handle: Cell<bool>,
    spawned_at: Cell<&'static Location<'static>>,
    /// Borrowed while the future is polled; until the task has ended nothing else looks at it.
    stored: RefCell<Option<Stored>>,
    joiner: Cell<Option<Waker>>,
}

impl Task {
    pub(crate) fn new(key: Key, shared: &Arc<Shared>, spawned_at: &'static Location<'static>) -> Self {
        let header = Header::queued(key, shared);
        Self {
            waker: Waker::from(Arc::clone(&header)),
            header,
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
        self.header.is_unshared()
    }

    /// Makes it the place of the next task. Only if it is reusable.
    #[inline]
    pub(crate) fn reuse(&self, generation: u32, spawned_at: &'static Location<'static>) {
        self.header.recycle(generation);
        self.generation.set(generation);
        self.state.set(State::Live);
        self.aborted.set(false);
        self.has_handle.set(true);
        self.spawned_at.set(spawned_at);
    }

    /// Puts the task in.
    #[inline]
    pub(crate) fn put(&self, stored: Stored) {
        let before = self.stored.borrow_mut().replace(stored);
        debug_assert!(before.is_none(), "the place was free");
        // Nothing is in it. Were its destructor to be run here, what is put in would go through memory, and a copy of
        // what smaller writes have just written has to wait until they reach the cache: longer than all the rest.
        std::mem::forget(before);
    }

    #[inline]
    pub(crate) fn key(&self) -> Key {
        Key { index: self.header.index(), generation: self.generation.get() }
    }

    #[inline]
    pub(crate) fn is_occupied(&self) -> bool {
        self.state.get() != State::Free
    }

    #[inline]
    pub(crate) fn is_live(&self) -> bool {
        self.state.get() == State::Live
    }

    #[inline]
    pub(crate) fn has_handle(&self) -> bool {
        self.has_handle.get()
    }

    pub(crate) fn spawned_at(&self) -> &'static Location<'static> {
        self.spawned_at.get()
    }

    /// Polls the future, or drops it if the task was aborted. Only while the task lives.
    #[inline]
    pub(crate) fn poll(&self) -> Polled {
        self.header.unqueue_task();
        {
            let mut stored = self.stored.borrow_mut();
            let Some(stored) = &mut *stored else { return Polled::Pending };
            if self.aborted.get() {
                stored.as_mut().cancel();
            } else if stored.as_mut().poll(&mut Context::from_waker(&self.waker)).is_pending() {
                return Polled::Pending;
            }
        }
        self.end();
        Polled::Ended(self.joiner.take())
    }

    /// There is a result, or will never be one: wakes from here on do nothing.
    #[inline]
    fn end(&self) {
        self.header.close_task();
        self.state.set(State::Ended);
    }

    /// Whatever it has come to, it is to come to nothing more.
    pub(crate) fn stop(&self) -> (Option<Stored>, Option<Waker>) {
        self.end();
        (self.take(), self.joiner.take())
    }

    /// Takes out what is stored. Of a task that lives, only to stop it.
    #[inline]
    pub(crate) fn take(&self) -> Option<Stored> {
        self.stored.borrow_mut().take()
    }

    /// Has the future dropped at the next turn. True if it is up to the caller to queue the task for that.
    pub(crate) fn abort(&self) -> bool {
        self.is_live() && {
            self.aborted.set(true);
            self.header.mark_queued()
        }
    }

    /// Who is to be told when it ends, in place of who was.
    #[inline]
    pub(crate) fn join_with(&self, waker: &Waker) {
        let known = self.joiner.take().filter(|known| known.will_wake(waker));
        self.joiner.set(Some(known.unwrap_or_else(|| waker.clone())));
    }

    /// Moves the result into `out`, a `Poll<Result<T, JoinError>>`. Only once the task has ended.
    #[inline]
    pub(crate) fn give(&self, out: &mut dyn Any) {
        let mut stored = self.stored.borrow_mut();
        if let Some(ended) = &mut *stored {
            ended.as_mut().take(out);
            // Only memory: nothing is in it any more whose destructor could look at this task.
            *stored = None;
        }
    }

    /// There is no handle any more. Who waited through it is returned: its destructor is foreign.
    #[inline]
    pub(crate) fn detach(&self) -> Option<Waker> {
        self.has_handle.set(false);
        self.joiner.take()
    }

    /// The place is free.
    #[inline]
    pub(crate) fn release(&self) {
        self.state.set(State::Free);
    }
}

/// A destructor that panics ends its own task, not the runtime.
pub(crate) fn drop_quietly(stored: Stored) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(stored)));
}
