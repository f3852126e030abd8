//! The task table, and all else that a runtime's own thread reaches: run queue, timers, event
//! queue, resources.
//!
//! No cell stays borrowed while foreign code runs: not while a future is polled or dropped, nor an
//! output or a waker dropped. Each of them may spawn, wake, abort or detach.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::{Location, resume_unwind};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::budget;
use crate::clock::now;
use crate::inbox::Inbox;
use crate::lead::Lead;
use crate::reactor::Reactor;
use crate::resources::Resources;
use crate::run_queue::{Key, RunQueue};
use crate::slab::{Pool, Slot};
use crate::stage::JoinError;
use crate::task::{StoredStage, Task, TaskPoll, drop_quietly};
use crate::timer_queue::TimerQueue;
use crate::waker::WakeState;

#[derive(Default)]
struct Table {
    tasks: Vec<Rc<Task>>,
    free: Vec<u32>,
}

/// Tasks taken from the run queue at once.
const BATCH: usize = 64;

/// What is left of them goes back into the queue when a panic takes the loop out of it.
struct Taken<'a> {
    queue: &'a RunQueue,
    left: std::slice::Iter<'a, Key>,
}

impl Drop for Taken<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.left.as_slice().is_empty() {
            self.queue.put_back(self.left.as_slice());
        }
    }
}

impl Table {
    #[inline]
    fn live(&self, key: Key) -> Option<&Rc<Task>> {
        self.tasks.get(key.index as usize).filter(|task| task.is_live_as(key.generation))
    }
}

pub(crate) struct Executor {
    pub(crate) run_queue: Rc<RunQueue>,
    pub(crate) timers: TimerQueue,
    pub(crate) timer_lead: Lead,
    pub(crate) reactor: Rc<Reactor>,
    pub(crate) resources: Resources,
    pub(crate) turns: Cell<u64>,
    spawned: Cell<u64>,
    ended: Cell<u64>,
    /// The task whose future is being polled; the root's key while none is.
    polled: Cell<Key>,
    /// Waits for the moment in which no task is left.
    drain_waker: Cell<Option<Waker>>,
    pool: Option<Rc<Pool>>,
    table: RefCell<Table>,
}

impl Executor {
    pub(crate) fn new(
        run_queue: Rc<RunQueue>,
        reactor: Rc<Reactor>,
        pool: Option<Rc<Pool>>,
        timer_lead: Lead,
    ) -> Rc<Self> {
        Rc::new(Self {
            run_queue,
            timers: TimerQueue::default(),
            timer_lead,
            reactor,
            resources: Resources::new(),
            turns: Cell::new(0),
            spawned: Cell::new(0),
            ended: Cell::new(0),
            polled: Cell::new(Key::ROOT),
            drain_waker: Cell::new(None),
            pool,
            table: RefCell::default(),
        })
    }

    #[inline]
    pub(crate) fn begin_turn(&self) {
        self.turns.set(self.turns.get().wrapping_add(1));
    }

    /// Wakes everything whose time has come.
    #[inline]
    pub(crate) fn fire_timers(&self) {
        if self.timers.next().is_some() {
            let now = now();
            let fired = self.timers.fire(now);
            if fired > 0 {
                self.timer_lead.fired(now, fired == 1 && self.run_queue.ready() == 1);
            }
        }
    }

    /// # Panics
    /// Without a slab.
    #[inline]
    pub(crate) fn claim_slot(&self) -> Option<Slot> {
        self.pool.as_ref().expect("this runtime has no slab: ask the builder for one").claim()
    }

    #[inline]
    #[track_caller]
    pub(crate) fn spawn_boxed<F: Future<Output: 'static> + 'static>(&self, future: F) -> Rc<Task> {
        let task = self.next_task(Location::caller());
        task.store(StoredStage::boxed(future));
        self.start(task)
    }

    /// # Panics
    /// If the future does not fit the slot.
    #[inline]
    #[track_caller]
    pub(crate) fn spawn_in<F: Future<Output: 'static> + 'static>(
        &self,
        slot: Slot,
        future: F,
    ) -> Rc<Task> {
        // Before anything is changed that a panic would leave half done.
        slot.assert_fits::<F>();
        let task = self.next_task(Location::caller());
        task.store(StoredStage::in_slot(slot, future));
        self.start(task)
    }

    /// A slot of the table with no future in it yet.
    fn next_task(&self, spawned_at: &'static Location<'static>) -> Rc<Task> {
        let mut table = self.table.borrow_mut();
        let Some(index) = table.free.pop() else { return self.grow(&mut table, spawned_at) };
        let task = &mut table.tasks[index as usize];
        let generation = task.key().generation.wrapping_add(1);
        // A handle that outlived its task, in a runtime that is being dropped, keeps what it has.
        if Rc::strong_count(task) == 1 && task.is_reusable() {
            task.reuse(generation, spawned_at);
        } else {
            *task = self.new_task(Key { index, generation }, spawned_at);
        }
        Rc::clone(task)
    }

    #[cold]
    fn grow(&self, table: &mut Table, spawned_at: &'static Location<'static>) -> Rc<Task> {
        let index = Key::index_of(table.tasks.len()).expect("too many tasks");
        let task = self.new_task(Key { index, generation: 0 }, spawned_at);
        table.tasks.push(Rc::clone(&task));
        // Room for all, so that a task's end never allocates.
        let more = table.tasks.len() - table.free.len();
        table.free.reserve(more);
        task
    }

    #[cold]
    fn new_task(&self, key: Key, spawned_at: &'static Location<'static>) -> Rc<Task> {
        Rc::new(Task::new(key, self.run_queue.remote(), spawned_at))
    }

    #[inline]
    fn start(&self, task: Rc<Task>) -> Rc<Task> {
        self.spawned.set(self.spawned.get() + 1);
        self.run_queue.push_task(task.key());
        task
    }

    /// Queues what other threads have woken. Not for as long as there are wakes: a storm of them
    /// must not keep the tasks from running.
    // Apart from the loop, which mostly finds none.
    #[inline(never)]
    pub(crate) fn take_woken(&self, root: &WakeState) {
        for _ in 0..Inbox::BATCH {
            let Some(key) = self.run_queue.take_woken() else { break };
            if key == Key::ROOT {
                root.take_announced();
                if root.mark_queued() {
                    self.run_queue.push(key);
                }
            } else if let Some(task) = self.table.borrow().live(key)
                && task.take_announced()
            {
                self.run_queue.push_task(key);
            }
        }
    }

    /// Polls as many tasks from the head of the run queue, or as there are.
    ///
    /// # Panics
    /// As a task's future, or a waker; then [`caught`](Self::caught) is due.
    #[inline]
    pub(crate) fn poll_tasks(&self, most: usize) {
        // One alone is common, and many have their own price.
        if most > 1 {
            self.poll_many(most);
        } else if let Some(key) = self.run_queue.pop_task() {
            self.poll_task(key);
        }
        self.polled.set(Key::ROOT);
    }

    fn poll_many(&self, mut most: usize) {
        let mut keys = [Key::ROOT; BATCH];
        while most > 0 {
            let batch = self.run_queue.take_tasks(&mut keys[..most.min(BATCH)]);
            if batch == 0 {
                return;
            }
            most -= batch;
            let mut taken = Taken { queue: &self.run_queue, left: keys[..batch].iter() };
            taken.left.by_ref().for_each(|key| self.poll_task(*key));
        }
    }

    #[inline]
    fn poll_task(&self, key: Key) {
        let Some(task) = self.table.borrow().live(key).map(Rc::clone) else { return };
        budget::refill();
        self.polled.set(key);
        if let TaskPoll::Ended(joiner) = task.poll() {
            self.polled.set(Key::ROOT);
            self.ended(&task, joiner);
        }
    }

    #[inline]
    fn ended(&self, task: &Task, joiner: Option<Waker>) {
        self.count_end();
        if !task.has_handle() {
            self.discard(task);
        }
        if let Some(joiner) = joiner {
            joiner.wake();
        }
    }

    /// A panic of the task that was polled ends that; any other goes on.
    #[cold]
    pub(crate) fn caught(&self, payload: Box<dyn Any + Send>) {
        let polled = self.polled.replace(Key::ROOT);
        let Some(task) = self.table.borrow().live(polled).map(Rc::clone) else {
            resume_unwind(payload)
        };
        let joiner = task.fail(JoinError::panicked(payload));
        self.ended(&task, joiner);
    }

    /// Drops the result of an ended task and frees its slot of the table.
    #[inline]
    fn discard(&self, task: &Task) {
        if let Some(stored) = task.take_stored() {
            drop_quietly(stored);
        }
        self.free(task);
    }

    /// Frees the slot of a task whose result has been taken out.
    #[inline]
    fn free(&self, task: &Task) {
        if task.is_occupied() {
            task.mark_free();
            self.table.borrow_mut().free.push(task.key().index);
        }
    }

    pub(crate) fn abort(&self, task: &Task) {
        if task.abort() {
            self.run_queue.push_task(task.key());
        }
    }

    /// Moves the result of an ended task into `out`, a `Poll<Result<T, JoinError>>`, and returns
    /// true; otherwise registers the waker.
    #[inline]
    pub(crate) fn poll_join(&self, task: &Task, waker: &Waker, out: &mut dyn Any) -> bool {
        if task.is_live() {
            task.set_joiner(waker);
            return false;
        }
        task.take_result(out);
        self.free(task);
        true
    }

    #[inline]
    pub(crate) fn detach(&self, task: &Task) {
        let ended = !task.is_live();
        drop(task.drop_handle());
        if ended {
            self.discard(task);
        }
    }

    #[inline]
    fn count_end(&self) {
        self.ended.set(self.ended.get() + 1);
        if self.live_tasks() == 0
            && let Some(waker) = self.drain_waker.take()
        {
            waker.wake();
        }
    }

    #[inline]
    pub(crate) fn live_tasks(&self) -> u64 {
        self.spawned.get() - self.ended.get()
    }

    /// How many tasks have ended, ever.
    pub(crate) fn ended_tasks(&self) -> u64 {
        self.ended.get()
    }

    /// Ready when no task is left.
    pub(crate) fn poll_drained(&self, cx: &Context<'_>) -> Poll<()> {
        if self.live_tasks() == 0 {
            return Poll::Ready(());
        }
        self.drain_waker.set(Some(cx.waker().clone()));
        Poll::Pending
    }

    /// Where the tasks were spawned that have not ended.
    pub(crate) fn unfinished(&self) -> Vec<&'static Location<'static>> {
        self.table
            .borrow()
            .tasks
            .iter()
            .filter(|task| task.is_live())
            .map(|task| task.spawned_at())
            .collect()
    }

    /// Drops every task, also those that the destructors of others spawn. In time linear in their
    /// number.
    pub(crate) fn drop_tasks(&self) {
        // What is ready is among the tasks of the table; from here on only what destructors spawn
        // and wake is queued.
        self.run_queue.clear_tasks();
        let mut index = 0;
        loop {
            let Some(task) = self.table.borrow().tasks.get(index).map(Rc::clone) else { break };
            index += 1;
            self.drop_task(&task);
        }
        // Into slots already passed.
        while let Some(key) = self.run_queue.pop_task() {
            let Some(task) = self.table.borrow().live(key).map(Rc::clone) else { continue };
            self.drop_task(&task);
        }
    }

    fn drop_task(&self, task: &Task) {
        if !task.is_occupied() {
            return;
        }
        if task.is_live() {
            self.ended.set(self.ended.get() + 1);
        }
        let (stored, joiner) = task.shut_down();
        if let Some(stored) = stored {
            drop_quietly(stored);
        }
        self.free(task);
        if let Some(joiner) = joiner {
            joiner.wake();
        }
    }
}
