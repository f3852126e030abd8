//! The executor: the task table and everything else that only the runtime's own thread uses, namely
//! the run queue, the timers, the event queue and the resources.
//!
//! No cell is borrowed while foreign code runs: that is, while a future is polled, a waker is
//! cloned, or a future, an output or a waker is dropped. Foreign code may spawn, wake, abort or detach tasks.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::{Location, resume_unwind};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::budget;
use crate::clock::now;
use crate::reactor::Reactor;
use crate::resources::Resources;
use crate::run_queue::{RunQueue, TaskKey};
use crate::slab::{Pool, Slot};
use crate::stage::JoinError;
use crate::task::{StoredStage, Task, TaskPoll, drop_quietly};
use crate::timer_lead::TimerLead;
use crate::timer_queue::TimerQueue;
use crate::waker::WakeState;

#[derive(Default)]
struct TaskTable {
    tasks: Vec<Rc<Task>>,
    free: Vec<u32>,
}

/// Maximum number of tasks taken from the run queue at once.
const POLL_BATCH_SIZE: usize = 64;

/// Requeues the remaining tasks if a poll panics.
struct RequeueGuard<'a> {
    queue: &'a RunQueue,
    remaining: std::slice::Iter<'a, TaskKey>,
}

impl Drop for RequeueGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.remaining.as_slice().is_empty() {
            self.queue.requeue(self.remaining.as_slice());
        }
    }
}

impl TaskTable {
    #[inline]
    fn get_live(&self, key: TaskKey) -> Option<&Rc<Task>> {
        self.tasks.get(key.index as usize).filter(|task| task.is_live_as(key.generation))
    }
}

pub(crate) struct Executor {
    pub(crate) run_queue: Rc<RunQueue>,
    pub(crate) timers: TimerQueue,
    pub(crate) timer_lead: TimerLead,
    pub(crate) reactor: Rc<Reactor>,
    pub(crate) resources: Resources,
    pub(crate) turns: Cell<u64>,
    spawned_count: Cell<u64>,
    ended_count: Cell<u64>,
    /// The task whose future is being polled, or the root's key between polls.
    current_task: Cell<TaskKey>,
    /// Woken when the last task ends.
    drain_waker: Cell<Option<Waker>>,
    /// Whether the runtime has dropped its tasks: the future of a new one is dropped at once.
    closed: Cell<bool>,
    pool: Option<Rc<Pool>>,
    table: RefCell<TaskTable>,
}

impl Executor {
    pub(crate) fn new(
        run_queue: Rc<RunQueue>,
        reactor: Rc<Reactor>,
        pool: Option<Rc<Pool>>,
        timer_lead: TimerLead,
    ) -> Rc<Self> {
        Rc::new(Self {
            run_queue,
            timers: TimerQueue::default(),
            timer_lead,
            reactor,
            resources: Resources::new(),
            turns: Cell::new(0),
            spawned_count: Cell::new(0),
            ended_count: Cell::new(0),
            current_task: Cell::new(TaskKey::ROOT),
            drain_waker: Cell::new(None),
            closed: Cell::new(false),
            pool,
            table: RefCell::default(),
        })
    }

    #[inline]
    pub(crate) fn begin_turn(&self) {
        self.turns.set(self.turns.get().wrapping_add(1));
    }

    /// Fires all timers that are due.
    #[inline]
    pub(crate) fn fire_timers(&self) {
        if self.timers.next_deadline().is_some() {
            let now = now();
            let fired = self.timers.fire(now);
            // Also if none fired: a task whose deadline was postponed has left the last one.
            self.timer_lead.record_firing(now, fired == 1 && self.run_queue.ready_count() == 1);
        }
    }

    /// Claims a slot of the slab.
    ///
    /// # Panics
    /// Panics if the runtime has no slab.
    #[inline]
    pub(crate) fn claim_slot(&self) -> Option<Slot> {
        self.pool
            .as_ref()
            .expect("this runtime has no slab: configure one with `Builder::slab`")
            .claim()
    }

    #[inline]
    #[track_caller]
    pub(crate) fn spawn_boxed<F: Future<Output: 'static> + 'static>(&self, future: F) -> Rc<Task> {
        let task = self.allocate_task(Location::caller());
        task.store(StoredStage::new_boxed(future));
        self.start_task(task)
    }

    /// Spawns a task in a slot of the slab.
    ///
    /// # Panics
    /// Panics if the future does not fit the slot.
    #[inline]
    #[track_caller]
    pub(crate) fn spawn_in<F: Future<Output: 'static> + 'static>(
        &self,
        slot: Slot,
        future: F,
    ) -> Rc<Task> {
        // Checked before any change, which a panic would leave incomplete.
        slot.assert_fits::<F>();
        let task = self.allocate_task(Location::caller());
        task.store(StoredStage::new_in_slot(slot, future));
        self.start_task(task)
    }

    /// Returns an entry of the table that contains no future yet.
    fn allocate_task(&self, spawned_at: &'static Location<'static>) -> Rc<Task> {
        let mut table = self.table.borrow_mut();
        let Some(index) = table.free.pop() else { return self.grow_table(&mut table, spawned_at) };
        let task = &mut table.tasks[index as usize];
        let generation = task.key().generation.wrapping_add(1);
        // An entry is not reused while a handle still refers to it, which happens if a handle
        // outlives its task while the runtime is being dropped.
        if Rc::strong_count(task) == 1 && task.is_reusable() {
            task.reuse(generation, spawned_at);
        } else {
            *task = self.new_task(TaskKey { index, generation }, spawned_at);
        }
        Rc::clone(task)
    }

    #[cold]
    fn grow_table(
        &self,
        table: &mut TaskTable,
        spawned_at: &'static Location<'static>,
    ) -> Rc<Task> {
        let index = TaskKey::index_for_slot(table.tasks.len()).expect("too many tasks");
        let task = self.new_task(TaskKey { index, generation: 0 }, spawned_at);
        table.tasks.push(Rc::clone(&task));
        // `free` has capacity for all entries, so that the end of a task never allocates.
        let more = table.tasks.len() - table.free.len();
        table.free.reserve(more);
        task
    }

    #[cold]
    fn new_task(&self, key: TaskKey, spawned_at: &'static Location<'static>) -> Rc<Task> {
        Rc::new(Task::new(key, self.run_queue.remote(), spawned_at))
    }

    #[inline]
    fn start_task(&self, task: Rc<Task>) -> Rc<Task> {
        self.spawned_count.set(self.spawned_count.get() + 1);
        if self.closed.get() {
            self.drop_task(&task);
        } else {
            self.run_queue.push_task(task.key());
        }
        task
    }

    /// Takes the wakes by other threads, `limit` at most, and queues their tasks. Returns their
    /// number. Without a limit, a storm of wakes could keep the tasks from running.
    #[inline(never)]
    pub(crate) fn queue_remote_wakes(&self, root: &WakeState, limit: usize) -> usize {
        for taken in 0..limit {
            let Some(key) = self.run_queue.pop_remote_wake() else { return taken };
            if key == TaskKey::ROOT {
                root.take_remote_wake();
                if root.mark_queued() {
                    self.run_queue.push(key);
                }
            } else if let Some(task) = self.table.borrow().get_live(key)
                && task.accept_remote_wake()
            {
                self.run_queue.push_task(key);
            }
        }
        limit
    }

    /// Polls up to `max_tasks` tasks from the head of the run queue.
    ///
    /// # Panics
    /// Panics if a task's future or a waker panics. The caller must then call
    /// [`handle_panic`](Self::handle_panic).
    #[inline]
    pub(crate) fn poll_tasks(&self, max_tasks: usize) {
        // A single ready task is common, and a batch has a fixed cost.
        if max_tasks > 1 {
            self.poll_many(max_tasks);
        } else if let Some(key) = self.run_queue.pop_task() {
            self.poll_task(key);
        }
        self.current_task.set(TaskKey::ROOT);
    }

    fn poll_many(&self, mut max_tasks: usize) {
        let mut keys = [TaskKey::ROOT; POLL_BATCH_SIZE];
        while max_tasks > 0 {
            let batch = self.run_queue.take_tasks(&mut keys[..max_tasks.min(POLL_BATCH_SIZE)]);
            if batch == 0 {
                return;
            }
            max_tasks -= batch;
            let mut guard =
                RequeueGuard { queue: &self.run_queue, remaining: keys[..batch].iter() };
            for key in guard.remaining.by_ref() {
                self.poll_task(*key);
            }
        }
    }

    #[inline]
    fn poll_task(&self, key: TaskKey) {
        let Some(task) = self.table.borrow().get_live(key).map(Rc::clone) else { return };
        budget::refill();
        self.current_task.set(key);
        if let TaskPoll::Ended(joiner) = task.poll() {
            self.current_task.set(TaskKey::ROOT);
            self.finish_task(&task, joiner);
        }
    }

    #[inline]
    fn finish_task(&self, task: &Task, joiner: Option<Waker>) {
        self.count_end();
        if !task.has_handle() {
            self.discard_result(task);
        }
        if let Some(joiner) = joiner {
            joiner.wake();
        }
    }

    /// Ends the task that was being polled with this panic. Resumes the panic if no task was being
    /// polled.
    #[cold]
    pub(crate) fn handle_panic(&self, payload: Box<dyn Any + Send>) {
        let polled = self.current_task.replace(TaskKey::ROOT);
        let Some(task) = self.table.borrow().get_live(polled).map(Rc::clone) else {
            resume_unwind(payload)
        };
        let joiner = task.fail(JoinError::panicked(payload));
        self.finish_task(&task, joiner);
    }

    /// Drops the result of an ended task and frees its entry in the table.
    #[inline]
    fn discard_result(&self, task: &Task) {
        if let Some(stored) = task.take_stored() {
            drop_quietly(stored);
        }
        self.free_entry(task);
    }

    /// Frees the table entry of a task whose result has been taken.
    #[inline]
    fn free_entry(&self, task: &Task) {
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
    /// true. Registers the waker and returns false if the task has not ended.
    #[inline]
    pub(crate) fn poll_join(&self, task: &Task, waker: &Waker, out: &mut dyn Any) -> bool {
        if task.is_live() {
            task.set_joiner(waker);
            return false;
        }
        task.take_result(out);
        self.free_entry(task);
        true
    }

    #[inline]
    pub(crate) fn detach(&self, task: &Task) {
        let ended = !task.is_live();
        drop(task.drop_handle());
        if ended {
            self.discard_result(task);
        }
    }

    #[inline]
    fn count_end(&self) {
        self.ended_count.set(self.ended_count.get() + 1);
        if self.live_tasks() == 0
            && let Some(waker) = self.drain_waker.take()
        {
            waker.wake();
        }
    }

    #[inline]
    pub(crate) fn live_tasks(&self) -> u64 {
        self.spawned_count.get() - self.ended_count.get()
    }

    /// Returns the number of tasks that have ended since the runtime was built.
    pub(crate) fn ended_tasks(&self) -> u64 {
        self.ended_count.get()
    }

    /// Completes when no task is left.
    pub(crate) fn poll_drained(&self, cx: &Context<'_>) -> Poll<()> {
        if self.live_tasks() == 0 {
            return Poll::Ready(());
        }
        self.drain_waker.set(Some(cx.waker().clone()));
        Poll::Pending
    }

    /// Returns where the tasks that have not ended were spawned.
    pub(crate) fn unfinished_locations(&self) -> Vec<&'static Location<'static>> {
        self.table
            .borrow()
            .tasks
            .iter()
            .filter(|task| task.is_live())
            .map(|task| task.spawned_at())
            .collect()
    }

    /// Drops every task, including tasks that the destructors of others spawn, in time linear in
    /// the number of tasks. From then on, a task that is spawned is dropped at once.
    pub(crate) fn drop_tasks(&self) {
        // All tasks that are ready are in the table. From here on, the queue contains only tasks
        // that destructors spawn or wake.
        self.run_queue.clear_tasks();
        let mut index = 0;
        loop {
            let Some(task) = self.table.borrow().tasks.get(index).map(Rc::clone) else { break };
            index += 1;
            self.drop_task(&task);
        }
        // Destructors may have spawned into entries that the loop has passed.
        while let Some(key) = self.run_queue.pop_task() {
            let Some(task) = self.table.borrow().get_live(key).map(Rc::clone) else { continue };
            self.drop_task(&task);
        }
        self.closed.set(true);
    }

    #[cold]
    fn drop_task(&self, task: &Task) {
        if !task.is_occupied() {
            return;
        }
        if task.is_live() {
            self.ended_count.set(self.ended_count.get() + 1);
        }
        let (stored, joiner) = task.shut_down();
        if let Some(stored) = stored {
            drop_quietly(stored);
        }
        self.free_entry(task);
        if let Some(joiner) = joiner {
            joiner.wake();
        }
    }
}
