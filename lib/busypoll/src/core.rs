//! The task table and run queue: everything that lives on the runtime's thread.
//!
//! No borrow of a cell is held while foreign code runs: not while a future is polled or dropped, nor an output or a
//! waker dropped. Each of them may spawn, wake, abort or detach.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::cell::{Stage, Stored};
use crate::io::Reactor;
use crate::join::JoinHandle;
use crate::resources::Resources;
use crate::slab::{Pool, Slot};
use crate::task::{Polled, Task, drop_quietly};
use crate::timers::Timers;
use crate::waker::{Key, ROOT, Shared};

#[derive(Default)]
struct Table {
    tasks: Vec<Rc<Task>>,
    free: Vec<u32>,
}

impl Table {
    #[inline]
    fn get(&self, key: Key) -> Option<&Rc<Task>> {
        self.tasks.get(key.index as usize).filter(|task| task.key() == key && task.is_live())
    }
}

pub(crate) struct Core {
    pub(crate) shared: Arc<Shared>,
    pub(crate) timers: Timers,
    /// So long before its deadline the task of a timer is woken, to spin for the rest.
    pub(crate) timer_lead: Duration,
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
    pub(crate) fn new(
        shared: Arc<Shared>,
        reactor: Rc<Reactor>,
        pool: Option<Rc<Pool>>,
        timer_lead: Duration,
    ) -> Rc<Self> {
        Rc::new(Self {
            shared,
            timers: Timers::default(),
            timer_lead,
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

    #[inline]
    pub(crate) fn has_ready(&self) -> bool {
        self.root_ready.get() || !self.ready.borrow().is_empty()
    }

    #[inline]
    pub(crate) fn ready_len(&self) -> usize {
        self.ready.borrow().len()
    }

    #[inline]
    pub(crate) fn claim(&self) -> Option<Slot> {
        self.pool.as_ref().expect("this runtime has no slab: ask the builder for one").claim()
    }

    #[inline]
    #[track_caller]
    pub(crate) fn spawn_boxed<F>(self: &Rc<Self>, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let task = self.next_task(Location::caller());
        task.put(Stored::Boxed(Box::pin(Stage::Running { future })));
        self.start(task)
    }

    #[inline]
    #[track_caller]
    pub(crate) fn spawn_in<F>(self: &Rc<Self>, slot: Slot, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        // Before anything is changed that a panic would leave half done.
        slot.assert_fits::<Stage<F>>();
        let task = self.next_task(Location::caller());
        task.put(Stored::Slab(slot.fill(future)));
        self.start(task)
    }

    /// A place with no task in it yet.
    fn next_task(&self, spawned_at: &'static Location<'static>) -> Rc<Task> {
        let mut table = self.table.borrow_mut();
        let Some(index) = table.free.pop() else { return self.grow(&mut table, spawned_at) };
        let place = &mut table.tasks[index as usize];
        let generation = place.key().generation.wrapping_add(1);
        // A handle that outlived its task, in a runtime that is being dropped, keeps the place.
        if Rc::strong_count(place) == 1 && place.is_reusable() {
            place.reuse(generation, spawned_at);
        } else {
            *place = self.place(Key { index, generation }, spawned_at);
        }
        Rc::clone(place)
    }

    #[inline]
    fn start<T>(self: &Rc<Self>, task: Rc<Task>) -> JoinHandle<T> {
        self.spawned.set(self.spawned.get() + 1);
        self.ready.borrow_mut().push_back(task.key());
        JoinHandle::new(Rc::clone(self), task)
    }

    #[cold]
    fn grow(&self, table: &mut Table, spawned_at: &'static Location<'static>) -> Rc<Task> {
        let index = u32::try_from(table.tasks.len()).ok().filter(|i| *i != ROOT).expect("too many tasks");
        let task = self.place(Key { index, generation: 0 }, spawned_at);
        table.tasks.push(Rc::clone(&task));
        // Room for all, so that a task's end never allocates.
        let more = table.tasks.len() - table.free.len();
        table.free.reserve(more);
        task
    }

    #[cold]
    fn place(&self, key: Key, spawned_at: &'static Location<'static>) -> Rc<Task> {
        Rc::new(Task::new(key, &self.shared, spawned_at))
    }

    /// Polls the task at the head of the run queue. False if there is none.
    #[inline]
    pub(crate) fn run_one(&self) -> bool {
        let Some(key) = self.ready.borrow_mut().pop_front() else { return false };
        let Some(task) = self.table.borrow().get(key).map(Rc::clone) else { return true };
        if let Polled::Ended(joiner) = task.poll() {
            self.count_end();
            if !task.has_handle() {
                if let Some(stored) = task.take() {
                    drop_quietly(stored);
                }
                self.release(&task);
            }
            if let Some(joiner) = joiner {
                joiner.wake();
            }
        }
        true
    }

    /// Gives the place in the table back. The task's cell must have been taken out before.
    #[inline]
    fn release(&self, task: &Task) {
        if task.is_occupied() {
            task.release();
            self.table.borrow_mut().free.push(task.key().index);
        }
    }

    pub(crate) fn abort(&self, task: &Task) {
        if task.abort() {
            self.queue(task.key());
        }
    }

    /// Moves the result of an ended task into `out` and true; or registers the waker and false.
    #[inline]
    pub(crate) fn join(&self, task: &Task, waker: &Waker, out: &mut dyn Any) -> bool {
        if task.is_live() {
            task.join_with(waker);
            return false;
        }
        task.give(out);
        self.release(task);
        true
    }

    #[inline]
    pub(crate) fn detach(&self, task: &Task) {
        let ended = !task.is_live();
        drop(task.detach());
        if ended {
            if let Some(stored) = task.take() {
                drop_quietly(stored);
            }
            self.release(task);
        }
    }

    #[inline]
    fn count_end(&self) {
        self.ended.set(self.ended.get() + 1);
        if self.live() == 0
            && let Some(waiting) = self.drained.take()
        {
            waiting.wake();
        }
    }

    /// How many tasks have not ended.
    #[inline]
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
        self.table.borrow().tasks.iter().filter(|task| task.is_live()).map(|task| task.spawned_at()).collect()
    }

    /// Drops every task, also those that the destructors of others spawn.
    pub(crate) fn clear(&self) {
        let mut index = 0;
        loop {
            let Some(task) = self.table.borrow().tasks.get(index).map(Rc::clone) else { break };
            index += 1;
            if !task.is_occupied() {
                continue;
            }
            if task.is_live() {
                self.ended.set(self.ended.get() + 1);
            }
            let (stored, joiner) = task.stop();
            if let Some(stored) = stored {
                drop_quietly(stored);
                // A destructor may have spawned into a place already passed.
                index = 0;
            }
            self.release(&task);
            if let Some(joiner) = joiner {
                joiner.wake();
            }
        }
        self.ready.borrow_mut().clear();
    }
}
