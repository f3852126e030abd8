//! The task table and run queue: everything that lives on the runtime's thread.
//!
//! No borrow of a cell is held while foreign code runs: not while a future is polled or dropped, nor an output or a
//! waker dropped. Each of them may spawn, wake, abort or detach.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::task::{Context, Poll, Waker};

use crate::cell::{Stage, Stored};
use crate::io::Reactor;
use crate::join::JoinHandle;
use crate::resources::Resources;
use crate::slab::{Pool, Slot};
use crate::timers::Timers;
use crate::waker::{Header, Key, ROOT, Shared};

struct Entry {
    generation: u32,
    header: Arc<Header>,
    /// Of that header, so that a poll need not make one. None while the task is polled.
    waker: Option<Waker>,
    spawned_at: &'static Location<'static>,
    /// None while the task is polled, and while the place is free.
    stored: Option<Stored>,
    joiner: Option<Waker>,
    occupied: bool,
    finished: bool,
    aborted: bool,
    has_handle: bool,
}

#[derive(Default)]
struct Table {
    entries: Vec<Entry>,
    free: Vec<u32>,
}

impl Table {
    fn get(&mut self, key: Key) -> Option<&mut Entry> {
        self.entries.get_mut(key.index as usize).filter(|e| e.occupied && e.generation == key.generation)
    }
}

pub(crate) struct Core {
    pub(crate) shared: Arc<Shared>,
    pub(crate) timers: Timers,
    pub(crate) reactor: Rc<Reactor>,
    pub(crate) resources: Resources,
    pub(crate) root_ready: Cell<bool>,
    spawned: Cell<u64>,
    ended: Cell<u64>,
    /// Who waits for the moment in which no task is left.
    drained: Cell<Option<Waker>>,
    pub(crate) turns: Cell<u64>,
    pool: Option<Rc<Pool>>,
    table: RefCell<Table>,
    ready: RefCell<VecDeque<Key>>,
}

impl Core {
    pub(crate) fn new(shared: Arc<Shared>, reactor: Rc<Reactor>, pool: Option<Rc<Pool>>) -> Rc<Self> {
        Rc::new(Self {
            shared,
            timers: Timers::default(),
            reactor,
            resources: Resources::new(),
            spawned: Cell::new(0),
            ended: Cell::new(0),
            drained: Cell::new(None),
            root_ready: Cell::new(false),
            turns: Cell::new(0),
            pool,
            table: RefCell::default(),
            ready: RefCell::default(),
        })
    }

    #[inline]
    pub(crate) fn queue(&self, key: Key) {
        if key.index == ROOT {
            self.root_ready.set(true);
        } else {
            self.ready.borrow_mut().push_back(key);
        }
    }

    pub(crate) fn has_ready(&self) -> bool {
        self.root_ready.get() || !self.ready.borrow().is_empty()
    }

    pub(crate) fn ready_len(&self) -> usize {
        self.ready.borrow().len()
    }

    pub(crate) fn claim(&self) -> Option<Slot> {
        self.pool.as_ref().expect("this runtime has no slab: ask the builder for one").claim()
    }

    #[track_caller]
    pub(crate) fn spawn_boxed<F>(self: &Rc<Self>, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        self.insert(Stored::Boxed(Box::pin(Stage::Running { future })))
    }

    #[track_caller]
    pub(crate) fn spawn_in<F>(self: &Rc<Self>, slot: Slot, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        self.insert(Stored::Slab(slot.fill(Stage::Running { future })))
    }

    #[track_caller]
    fn insert<T>(self: &Rc<Self>, stored: Stored) -> JoinHandle<T> {
        let spawned_at = Location::caller();
        let key = {
            let mut table = self.table.borrow_mut();
            if let Some(index) = table.free.pop() {
                let entry = &mut table.entries[index as usize];
                entry.generation = entry.generation.wrapping_add(1);
                let key = Key { index, generation: entry.generation };
                // The entry's own, and its waker's.
                if entry.waker.is_some() && Arc::strong_count(&entry.header) == 2 {
                    // Nobody else holds it any more; the fence orders us after whoever let go of it last.
                    fence(Ordering::Acquire);
                    entry.header.recycle(key.generation);
                } else {
                    entry.header = Header::new(key, &self.shared);
                    entry.waker = Some(Waker::from(Arc::clone(&entry.header)));
                }
                entry.spawned_at = spawned_at;
                entry.stored = Some(stored);
                entry.occupied = true;
                entry.finished = false;
                entry.aborted = false;
                entry.has_handle = true;
                entry.header.mark_queued();
                key
            } else {
                let index = u32::try_from(table.entries.len()).ok().filter(|i| *i != ROOT).expect("too many tasks");
                let key = Key { index, generation: 0 };
                let header = Header::new(key, &self.shared);
                header.mark_queued();
                table.entries.push(Entry {
                    generation: 0,
                    waker: Some(Waker::from(Arc::clone(&header))),
                    header,
                    spawned_at,
                    stored: Some(stored),
                    joiner: None,
                    occupied: true,
                    finished: false,
                    aborted: false,
                    has_handle: true,
                });
                // Room for all, so that a task's end never allocates.
                let more = table.entries.len() - table.free.len();
                table.free.reserve(more);
                key
            }
        };
        self.spawned.set(self.spawned.get() + 1);
        self.queue(key);
        JoinHandle::new(Rc::clone(self), key)
    }

    /// Polls the task at the head of the run queue. False if there is none.
    pub(crate) fn run_one(&self) -> bool {
        let Some(key) = self.ready.borrow_mut().pop_front() else { return false };
        let (mut stored, waker, aborted) = {
            let mut table = self.table.borrow_mut();
            let Some(entry) = table.get(key) else { return true };
            if entry.finished {
                return true;
            }
            let Some(stored) = entry.stored.take() else { return true };
            entry.header.unqueue();
            let waker = entry.waker.take().unwrap_or_else(|| Waker::from(Arc::clone(&entry.header)));
            (stored, waker, entry.aborted)
        };
        let finished = if aborted {
            stored.as_mut().cancel();
            true
        } else {
            stored.as_mut().poll(&mut Context::from_waker(&waker)).is_ready()
        };
        let mut dead = None;
        let mut joiner = None;
        let mut table = self.table.borrow_mut();
        if let Some(entry) = table.get(key) {
            entry.waker = Some(waker);
            if finished {
                entry.header.close();
                entry.finished = true;
                if entry.has_handle {
                    entry.stored = Some(stored);
                } else {
                    dead = Some(stored);
                }
                joiner = entry.joiner.take();
            } else {
                entry.stored = Some(stored);
            }
        } else {
            dead = Some(stored);
        }
        drop(table);
        if finished {
            self.count_end();
        }
        if let Some(dead) = dead {
            drop_quietly(dead);
            self.release(key);
        }
        if let Some(joiner) = joiner {
            joiner.wake();
        }
        true
    }

    /// Gives the place in the table back. The task's cell must have been taken out before.
    fn release(&self, key: Key) {
        let mut table = self.table.borrow_mut();
        let Some(entry) = table.get(key) else { return };
        entry.occupied = false;
        let joiner = entry.joiner.take();
        table.free.push(key.index);
        drop(table);
        drop(joiner);
    }

    pub(crate) fn is_finished(&self, key: Key) -> bool {
        self.table.borrow_mut().get(key).is_none_or(|entry| entry.finished)
    }

    pub(crate) fn abort(&self, key: Key) {
        let mut table = self.table.borrow_mut();
        let Some(entry) = table.get(key) else { return };
        if entry.finished {
            return;
        }
        entry.aborted = true;
        if entry.header.mark_queued() {
            drop(table);
            self.queue(key);
        }
    }

    /// Moves the result of an ended task into `out` and true; or registers the waker and false.
    pub(crate) fn join(&self, key: Key, waker: &Waker, out: &mut dyn Any) -> bool {
        let mut replaced = None;
        let stored = {
            let mut table = self.table.borrow_mut();
            let Some(entry) = table.get(key) else { return true };
            if entry.finished {
                entry.stored.take()
            } else {
                if !entry.joiner.as_ref().is_some_and(|known| known.will_wake(waker)) {
                    replaced = entry.joiner.replace(waker.clone());
                }
                drop(table);
                drop(replaced);
                return false;
            }
        };
        if let Some(mut stored) = stored {
            stored.as_mut().take(out);
            drop(stored);
        }
        drop(replaced);
        self.release(key);
        true
    }

    pub(crate) fn detach(&self, key: Key) {
        let (stored, joiner, finished) = {
            let mut table = self.table.borrow_mut();
            let Some(entry) = table.get(key) else { return };
            entry.has_handle = false;
            (if entry.finished { entry.stored.take() } else { None }, entry.joiner.take(), entry.finished)
        };
        drop(joiner);
        if finished {
            if let Some(stored) = stored {
                drop_quietly(stored);
            }
            self.release(key);
        }
    }

    fn count_end(&self) {
        self.ended.set(self.ended.get() + 1);
        if self.live() == 0
            && let Some(waiting) = self.drained.take()
        {
            waiting.wake();
        }
    }

    /// How many tasks have not ended.
    pub(crate) fn live(&self) -> u64 {
        self.spawned.get() - self.ended.get()
    }

    /// How many tasks have ended, ever.
    pub(crate) fn ended(&self) -> u64 {
        self.ended.get()
    }

    /// Ready when no task is left.
    pub(crate) fn poll_drained(&self, cx: &Context<'_>) -> Poll<()> {
        if self.live() == 0 {
            return Poll::Ready(());
        }
        self.drained.set(Some(cx.waker().clone()));
        Poll::Pending
    }

    /// Where the tasks were spawned that have not ended.
    pub(crate) fn unfinished(&self) -> Vec<&'static Location<'static>> {
        self.table.borrow().entries.iter().filter(|e| e.occupied && !e.finished).map(|e| e.spawned_at).collect()
    }

    /// Drops every task, also those that the destructors of others spawn.
    pub(crate) fn clear(&self) {
        let mut index = 0;
        loop {
            let (stored, key, joiner) = {
                let mut table = self.table.borrow_mut();
                let Some(entry) = table.entries.get_mut(index) else { break };
                index += 1;
                if !entry.occupied {
                    continue;
                }
                entry.header.close();
                let key = Key { index: entry.header.key().index, generation: entry.generation };
                if !std::mem::replace(&mut entry.finished, true) {
                    self.ended.set(self.ended.get() + 1);
                }
                (entry.stored.take(), key, entry.joiner.take())
            };
            if let Some(stored) = stored {
                drop_quietly(stored);
                // A destructor may have spawned into a place already passed.
                index = 0;
            }
            self.release(key);
            if let Some(joiner) = joiner {
                joiner.wake();
            }
        }
        self.ready.borrow_mut().clear();
    }
}

/// A destructor that panics ends its own task, not the runtime.
fn drop_quietly(stored: Stored) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(stored)));
}
