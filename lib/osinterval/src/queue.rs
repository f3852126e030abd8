//! The timer queue behind a group: one timer, the tasks that wait for it, and the driver task that
//! wakes them.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::AbortHandle;

use crate::backend::{Backend, Fallback};
use crate::clock::{CAN_PAUSE, is_shifted, tokio_now};
use crate::heap::{NIL, TimerHeap};
use crate::precision::{Lead, Precision};
use crate::real_clock::{add_or_far, spin_until};
use crate::timer::Timer;

/// Wakes any number of tasks, each at its time, from one timer.
///
/// A driver task on the runtime on which the queue was created polls the timer and wakes the tasks.
/// It ends with the last owner of the queue.
///
/// Times are nanoseconds since the queue's origin, at the ends of slots.
pub(crate) struct TimerQueue {
    backend: Backend,
    /// End of slot 0.
    origin: Instant,
    resolution: Duration,
    /// The resolution in nanoseconds.
    slot_ns: u64,
    /// Whether waits end in spinning on the clock; then `state` has a lead.
    precise: bool,
    /// Whether the driver has ended: tasks that wait would not be woken any more.
    driver_ended: AtomicBool,
    state: Mutex<State>,
}

struct State {
    /// `None` once the timer has failed or its runtime has shut down. From then on `heap` is empty,
    /// and keys of registrations are invalid.
    timer: Option<Timer>,
    /// The error with which the timer has failed.
    failure: Option<TimerFailure>,
    heap: TimerHeap,
    /// The time that was last read from the clock.
    last_read: u64,
    /// In the precise mode: how long before its time a task is woken.
    lead: Option<Lead>,
    /// Whether the lead has no effect, because the clock is not the real one.
    ignores_lead: bool,
    driver: Option<AbortHandle>,
}

/// The parts of an [`io::Error`], which cannot be cloned.
struct TimerFailure {
    kind: io::ErrorKind,
    message: String,
}

/// A registration in a queue. Its owner ends it with [`TimerQueue::cancel`].
#[derive(Debug)]
pub(crate) struct Wait {
    /// The key in the queue's heap; [`NIL`] while no task waits.
    key: usize,
    /// The end of the slot of the deadline.
    due: u64,
}

impl Wait {
    pub(crate) const fn new() -> Self {
        Self { key: NIL, due: 0 }
    }
}

impl TimerQueue {
    /// Creates a queue on the current runtime, and spawns its driver.
    ///
    /// # Errors
    /// Returns an error if [`IntervalBuilder::build`](crate::IntervalBuilder::build) would.
    pub(crate) fn new(
        resolution: Duration,
        precision: Precision,
        fallback: Fallback,
    ) -> io::Result<Arc<Self>> {
        Ok(Self::with_timer(Timer::new(fallback)?, resolution, precision))
    }

    fn with_timer(timer: Timer, resolution: Duration, precision: Precision) -> Arc<Self> {
        let lead = match precision {
            // A queue has no period to take a share of.
            Precision::Spin(spin) if timer.is_native() => {
                Some(Lead::new(spin.with_share(1.0), Duration::MAX))
            }
            _ => None,
        };
        let queue = Arc::new(Self {
            backend: timer.backend(),
            origin: tokio_now(),
            resolution,
            slot_ns: saturating_nanos(resolution),
            precise: lead.is_some(),
            driver_ended: AtomicBool::new(false),
            state: Mutex::new(State {
                timer: Some(timer),
                failure: None,
                heap: TimerHeap::default(),
                last_read: 0,
                lead,
                ignores_lead: false,
                driver: None,
            }),
        });
        let driver = tokio::spawn(run_driver(DriverGuard(Arc::downgrade(&queue)))).abort_handle();
        let mut state = queue.lock();
        // A runtime that is shutting down has dropped the task already, and the handle would keep a
        // part of it alive.
        state.driver = state.timer.is_some().then_some(driver);
        drop(state);
        queue
    }

    /// Checks that the timer works and that its driver is alive.
    ///
    /// # Errors
    /// Returns the error that [`TimerQueue::poll`] would return.
    pub(crate) fn check_alive(&self) -> io::Result<()> {
        if self.has_driver() { Ok(()) } else { Err(self.lock().timer_error()) }
    }

    /// Returns whether the driver is alive.
    pub(crate) fn has_driver(&self) -> bool {
        !self.driver_ended.load(Ordering::Relaxed)
    }

    pub(crate) fn backend(&self) -> Backend {
        self.backend
    }

    pub(crate) fn resolution(&self) -> Duration {
        self.resolution
    }

    /// Polls for a deadline.
    ///
    /// Ready once the slot of `deadline` has ended; otherwise the task is woken then. In the
    /// precise mode the task is woken before, and the last poll spins until `deadline`.
    ///
    /// # Errors
    /// Returns an error if the timer has failed or its runtime has shut down.
    pub(crate) fn poll(
        &self,
        wait: &mut Wait,
        deadline: Instant,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let due = self.slot_end(deadline);
        let result = if wait.key == NIL {
            self.poll_new(wait, due, cx)
        } else {
            self.poll_registered(wait, due, cx)
        };
        if self.precise && matches!(result, Poll::Ready(Ok(()))) {
            return self.finish_precise(wait, deadline, cx);
        }
        result
    }

    /// Waits for the rest of the lead: spins, unless the clock is one of a test, which may never
    /// move while it is read.
    fn finish_precise(
        &self,
        wait: &mut Wait,
        deadline: Instant,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let is_shifted = is_shifted();
        self.lock().ignores_lead = is_shifted;
        if !is_shifted {
            spin_until(deadline, tokio_now);
        } else if tokio_now() < deadline {
            return self.poll_new(wait, self.slot_end(deadline), cx);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_new(&self, wait: &mut Wait, due: u64, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Cloning or dropping a waker may run any code, so neither is done under the lock.
        let waker = cx.waker().clone();
        let state = self.lock();
        if state.timer.is_none() {
            return Poll::Ready(Err(state.timer_error()));
        }
        self.register(state, wait, due, waker)
    }

    /// Registers a wait, unless its time has come.
    fn register(
        &self,
        mut state: MutexGuard<'_, State>,
        wait: &mut Wait,
        due: u64,
        waker: Waker,
    ) -> Poll<io::Result<()>> {
        let time = state.wake_up_time(due);
        if time <= state.last_read {
            drop(state);
            drop(waker);
            return Poll::Ready(Ok(()));
        }
        wait.key = state.heap.insert(time, waker);
        wait.due = due;
        // Only a wait that is first reads the clock. If the time of any other one has come, so has
        // that of the first, and the timer is about to fire.
        if state.heap.is_first(wait.key) {
            if time <= self.read_clock(&mut state) {
                let waker = state.heap.remove(wait.key);
                wait.key = NIL;
                drop(state);
                drop(waker);
                return Poll::Ready(Ok(()));
            }
            self.bring_forward(&mut state, time)?;
        }
        Poll::Pending
    }

    fn poll_registered(
        &self,
        wait: &mut Wait,
        due: u64,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let mut new_waker = (due != wait.due).then(|| cx.waker().clone());
        loop {
            let mut state = self.lock();
            if state.timer.is_none() {
                return Poll::Ready(Err(state.timer_error()));
            }
            if state.heap.has_fired(wait.key) {
                return self.finish_fired(state, wait, due, new_waker);
            }
            let stored = state.heap.waker_mut(wait.key);
            let replaced = if stored.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                None
            } else if let Some(waker) = new_waker.take() {
                stored.replace(waker)
            } else {
                // The waker is cloned without the lock.
                drop(state);
                new_waker = Some(cx.waker().clone());
                continue;
            };
            let result = self.move_to(&mut state, wait, due);
            drop(state);
            drop(replaced);
            return match result {
                Ok(()) => Poll::Pending,
                Err(error) => Poll::Ready(Err(error)),
            };
        }
    }

    /// Ends a wait that has fired. If its deadline has moved since, registers it again.
    fn finish_fired(
        &self,
        mut state: MutexGuard<'_, State>,
        wait: &mut Wait,
        due: u64,
        new_waker: Option<Waker>,
    ) -> Poll<io::Result<()>> {
        let moved = due != wait.due;
        if !moved {
            self.update_lead(&mut state, wait.key);
        }
        state.heap.remove(wait.key);
        wait.key = NIL;
        match new_waker {
            // The old deadline has passed, and the task waits for another one now, as that of an
            // interval does.
            Some(waker) if moved => self.register(state, wait, due, waker),
            unused => {
                // A waker is not dropped under the lock.
                drop(state);
                drop(unused);
                Poll::Ready(Ok(()))
            }
        }
    }

    /// Moves the deadline of a wait. A task that waits is woken at the new one.
    pub(crate) fn reset(&self, wait: &mut Wait, deadline: Instant) -> io::Result<()> {
        if wait.key == NIL {
            return Ok(());
        }
        let due = self.slot_end(deadline);
        let mut state = self.lock();
        if state.timer.is_none() {
            wait.key = NIL;
        } else if state.heap.has_fired(wait.key) {
            // The task has been woken but has not polled yet. Its next poll registers it again.
            state.heap.remove(wait.key);
            wait.key = NIL;
        } else {
            self.move_to(&mut state, wait, due)?;
        }
        Ok(())
    }

    /// Removes a wait that has fired, and updates the lead from it. Only the precise mode needs it,
    /// before the task compares its deadline with the clock: if that has passed, the task does not
    /// poll the queue.
    pub(crate) fn acknowledge_wakeup(&self, wait: &mut Wait) {
        if !self.precise || wait.key == NIL {
            return;
        }
        let mut state = self.lock();
        if state.timer.is_some() && state.heap.has_fired(wait.key) {
            self.update_lead(&mut state, wait.key);
            state.heap.remove(wait.key);
            wait.key = NIL;
        }
    }

    /// Returns whether the deadline of a wait has come, and the task has been woken for it. Never
    /// true in the precise mode, in which the task is woken earlier.
    pub(crate) fn has_fired(&self, wait: &Wait) -> bool {
        if self.precise || wait.key == NIL {
            return false;
        }
        let state = self.lock();
        state.timer.is_some() && state.heap.has_fired(wait.key)
    }

    /// Removes a wait.
    pub(crate) fn cancel(&self, wait: &mut Wait) {
        if wait.key == NIL {
            return;
        }
        let mut state = self.lock();
        let waker = if state.timer.is_some() { state.heap.remove(wait.key) } else { None };
        wait.key = NIL;
        if CAN_PAUSE
            && state.heap.first_time().is_none()
            && let Some(timer) = &mut state.timer
        {
            timer.end_pause_watch();
        }
        drop(state);
        drop(waker);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn move_to(&self, state: &mut State, wait: &mut Wait, due: u64) -> io::Result<()> {
        if wait.due == due {
            return Ok(());
        }
        wait.due = due;
        let time = state.wake_up_time(due);
        state.heap.move_to(wait.key, time);
        if !state.heap.is_first(wait.key) {
            return Ok(());
        }
        self.bring_forward(state, time)
    }

    /// Arms the timer for `time`, at which the first wait is due now, unless it is armed for an
    /// earlier time.
    fn bring_forward(&self, state: &mut State, time: u64) -> io::Result<()> {
        let time = self.to_instant(time);
        state.timer.as_mut().map_or(Ok(()), |timer| timer.bring_forward(time))
    }

    /// Updates the lead by how late a task polls after its wake-up time. Does nothing outside the
    /// precise mode.
    fn update_lead(&self, state: &mut State, key: usize) {
        if self.precise {
            let late = self.read_clock(state).saturating_sub(state.heap.time(key));
            if let Some(lead) = &mut state.lead {
                lead.observe(Duration::from_nanos(late));
            }
        }
    }

    fn read_clock(&self, state: &mut State) -> u64 {
        state.last_read = self.since_origin(tokio_now());
        state.last_read
    }

    fn since_origin(&self, time: Instant) -> u64 {
        saturating_nanos(time.saturating_duration_since(self.origin))
    }

    /// Returns the end of the slot that contains a deadline.
    fn slot_end(&self, deadline: Instant) -> u64 {
        let time = self.since_origin(deadline);
        if self.slot_ns <= 1 {
            time
        } else {
            time.checked_next_multiple_of(self.slot_ns).unwrap_or(u64::MAX)
        }
    }

    fn to_instant(&self, time: u64) -> Instant {
        add_or_far(self.origin, Duration::from_nanos(time), self.origin)
    }
}

impl State {
    /// Returns when to wake a task whose slot ends at `due`.
    fn wake_up_time(&self, due: u64) -> u64 {
        match &self.lead {
            Some(lead) if !self.ignores_lead => {
                due.saturating_sub(saturating_nanos(lead.duration()))
            }
            _ => due,
        }
    }

    /// Returns the error to return if `timer` is `None`.
    fn timer_error(&self) -> io::Error {
        match &self.failure {
            Some(failure) => io::Error::new(failure.kind, failure.message.clone()),
            None => io::Error::new(
                io::ErrorKind::NotConnected,
                "the timer of the group is gone; is its runtime shutting down?",
            ),
        }
    }
}

impl Drop for TimerQueue {
    fn drop(&mut self) {
        if let Some(driver) = self.lock().driver.take() {
            driver.abort();
        }
    }
}

impl fmt::Debug for TimerQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { backend, resolution, .. } = self;
        f.debug_struct("TimerQueue")
            .field("backend", backend)
            .field("resolution", resolution)
            .finish_non_exhaustive()
    }
}

fn saturating_nanos(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1_000_000_000).saturating_add(duration.subsec_nanos().into())
}

/// The driver's reference to its queue.
///
/// When the driver ends, for whatever reason, this wakes all tasks that wait, so that their next
/// poll returns an error, and drops what belongs to the runtime.
struct DriverGuard(Weak<TimerQueue>);

impl DriverGuard {
    fn poll_driver(
        &self,
        cx: &mut Context<'_>,
        due_waker: &Waker,
        due: &mut Vec<Waker>,
        yields_to_woken: bool,
    ) -> Poll<io::Result<()>> {
        match self.0.upgrade() {
            Some(queue) => queue.poll_driver(cx, due_waker, due, yields_to_woken),
            None => Poll::Ready(Ok(())),
        }
    }
}

impl Drop for DriverGuard {
    fn drop(&mut self) {
        let Some(queue) = self.0.upgrade() else { return };
        queue.driver_ended.store(true, Ordering::Relaxed);
        let mut state = queue.lock();
        let (timer, driver) = (state.timer.take(), state.driver.take());
        let heap = std::mem::take(&mut state.heap);
        drop(state);
        drop((timer, driver));
        heap.into_wakers().for_each(Waker::wake);
    }
}

/// The waker of a queue's driver at a timer of tokio. It wakes the tasks that are due from within
/// tokio's time driver, as tokio's sleeps do, so a test that advances the clock finds them woken.
struct DueWaker {
    queue: Weak<TimerQueue>,
    driver: Waker,
}

impl Wake for DueWaker {
    fn wake(self: Arc<Self>) {
        if let Some(queue) = self.queue.upgrade() {
            queue.wake_due();
        }
        self.driver.wake_by_ref();
    }
}

/// Serves a queue until that is dropped or its timer fails.
async fn run_driver(guard: DriverGuard) {
    // On a current-thread runtime the woken tasks run before the driver polls the timer again. The
    // timer is armed after that, and tasks that came due in the meantime need no further wake-up of
    // the thread. A multi-thread runtime would wake another worker to take over this task.
    let yields_to_woken = Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread;
    // The waker of a task never changes.
    let driver = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
    let due_waker = Waker::from(Arc::new(DueWaker { queue: guard.0.clone(), driver }));
    let mut due = Vec::new();
    let polls = poll_fn(|cx| guard.poll_driver(cx, &due_waker, &mut due, yields_to_woken));
    let _: io::Result<()> = polls.await;
}

impl TimerQueue {
    /// Wakes the tasks that are due, and waits for the next one. Ready only if the timer fails.
    fn poll_driver(
        &self,
        cx: &mut Context<'_>,
        due_waker: &Waker,
        due: &mut Vec<Waker>,
        yields_to_woken: bool,
    ) -> Poll<io::Result<()>> {
        loop {
            let result = self.poll_due(cx, due_waker, due);
            if let Poll::Ready(Err(error)) = &result {
                self.lock().failure =
                    Some(TimerFailure { kind: error.kind(), message: error.to_string() });
            }
            if due.is_empty() {
                return result;
            }
            due.drain(..).for_each(Waker::wake);
            if yields_to_woken {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
    }

    /// Wakes the tasks that are due, unless the queue is in use: resetting a timer of tokio may
    /// call its waker. The driver wakes the rest.
    fn wake_due(&self) {
        let Ok(mut guard) = self.state.try_lock() else { return };
        let state = &mut *guard;
        let mut due = Vec::new();
        if let Some(timer) = &mut state.timer {
            timer.forget_armed();
            let now = self.read_clock(state);
            state.heap.take_due(now, usize::MAX, &mut due);
        }
        drop(guard);
        due.into_iter().for_each(Waker::wake);
    }

    /// Moves the wakers of due tasks into `due`; if no task is due, polls the timer for the first.
    fn poll_due(
        &self,
        cx: &Context<'_>,
        due_waker: &Waker,
        due: &mut Vec<Waker>,
    ) -> Poll<io::Result<()>> {
        /// Tasks that are woken before any of them runs.
        const BATCH: usize = 256;
        let state = &mut *self.lock();
        loop {
            let now = self.read_clock(state);
            state.heap.take_due(now, BATCH, due);
            let Some(timer) = &mut state.timer else {
                return Poll::Ready(Err(state.timer_error()));
            };
            if !due.is_empty() {
                timer.forget_armed();
                return Poll::Pending;
            }
            let waker = if timer.is_tokio() { due_waker } else { cx.waker() };
            let cx = &mut Context::from_waker(waker);
            let result = match state.heap.first_time() {
                Some(first) => timer.poll_until(cx, self.to_instant(first)),
                None => timer.poll_idle(cx),
            };
            match result {
                Poll::Ready(Ok(())) => {}
                result => return result,
            }
        }
    }
}

#[cfg(test)]
impl TimerQueue {
    /// Creates a queue on tokio's clock, which a test can set.
    pub(crate) fn with_tokio_clock(resolution: Duration) -> Arc<Self> {
        Self::with_timer(Timer::new_tokio().expect("on a runtime"), resolution, Precision::Os)
    }

    /// Returns the number of tasks that wait.
    pub(crate) fn waiting_count(&self) -> usize {
        self.lock().heap.check_invariants()
    }
}
