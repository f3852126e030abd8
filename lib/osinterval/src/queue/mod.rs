//! The timer queue that the intervals, sleeps and timeouts of a runtime or of a group share.

mod driver;
mod on_tokio;
mod wait;

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::AbortHandle;

use crate::backend::{Backend, Fallback};
use crate::clock::{CAN_PAUSE, is_shifted, tokio_now};
use crate::driver::new_sleep;
use crate::heap::{NIL, TimerHeap};
use crate::kernel_timers::KernelTimers;
use crate::precision::{Lead, Precision};
use crate::real_clock::{add_or_far, real_now, spin_until};
use crate::sys;

pub(crate) use wait::QueuedWait;

use driver::{DriverGuard, FiredWaker, run_driver};
use wait::{Deadline, Registration};

/// Wakes any number of tasks, each at its time.
///
/// While tokio's clock is the real one, the tasks wait in a heap for the kernel's timers. These are
/// armed for the first two deadlines, or one if that is all the platform gains from. A timer that
/// fires wakes the first task from within the runtime's poller. When that task waits again, it arms
/// the timer, so no other task runs for it. If the next deadline has no timer yet, a driver task
/// wakes all tasks that are due, and arms the timers after they have run. It ends with the last
/// owner of the queue.
///
/// While a test has paused or shifted tokio's clock, and if the OS has no timer, each wait is a
/// sleep of tokio. So it has tokio's resolution, and wakes its task whenever that of tokio would.
///
/// Times are nanoseconds since the queue's origin, at the ends of slots.
pub(crate) struct TimerQueue {
    backend: Backend,
    has_kernel_timers: bool,
    /// Whether a test may pause the clock of the queue's runtime.
    can_pause: bool,
    /// Whether that clock has been found not to be the real one, which it never is again, although
    /// the two may coincide for a moment.
    was_paused: AtomicBool,
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
    /// `None` without timers of the kernel, and once the driver has ended. In the second case
    /// `heap` is empty, and keys of registrations are invalid.
    timers: Option<KernelTimers>,
    /// The error with which a timer has failed.
    failure: Option<TimerFailure>,
    heap: TimerHeap,
    /// The time that was last read from the clock.
    last_read: u64,
    /// In the precise mode: how long before its time a task is woken.
    lead: Option<Lead>,
    /// Whether the driver is about to run, and will arm the timers.
    is_driver_woken: bool,
    /// The waker of the driver, once that has run.
    driver_waker: Option<Waker>,
    driver: Option<AbortHandle>,
    /// The runtime of the queue, if waits may be sleeps of tokio.
    runtime: Option<Handle>,
    /// Whether waits for the kernel are also registered with tokio, in case its clock is paused.
    watches_pauses: bool,
}

/// Deadlines that are closer than this are served by one wake-up of the thread, which takes about as
/// long. So no timer is armed in advance for the second.
const MIN_TURN_NS: u64 = 20_000;

/// The parts of an [`io::Error`], which cannot be cloned.
struct TimerFailure {
    kind: io::ErrorKind,
    message: String,
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
        let mut backend = sys::native().unwrap_or(Backend::TokioSleep);
        // On a clock that is shifted already, the kernel's timers would not be used. A simulated
        // runtime may have no I/O driver, which they need.
        let timers = if backend == Backend::TokioSleep || is_shifted() {
            None
        } else {
            match (KernelTimers::new(), fallback) {
                (Ok(timers), _) => Some(timers),
                (Err(error), fallback) => {
                    if let Some(ended) = Self::ended(backend, resolution) {
                        return Ok(ended);
                    }
                    if fallback == Fallback::Never {
                        return Err(error);
                    }
                    backend = Backend::TokioSleep;
                    None
                }
            }
        };
        if timers.is_none() {
            // Returns an error if the runtime has no timers.
            drop(new_sleep()?);
        }
        let is_single = Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread;
        let can_pause = CAN_PAUSE && is_single;
        Ok(Self::with_timers(timers, backend, can_pause, resolution, precision))
    }

    /// Creates a queue that has ended, if the current runtime has shut down. tokio's timers can be
    /// created then as well, and panic at their first poll, which does not come if the future of a
    /// timeout is ready.
    fn ended(backend: Backend, resolution: Duration) -> Option<Arc<Self>> {
        Handle::try_current().ok()?;
        let queue = Self::with_timers(None, backend, false, resolution, Precision::Os);
        (!queue.has_driver()).then_some(queue)
    }

    fn with_timers(
        timers: Option<KernelTimers>,
        backend: Backend,
        can_pause: bool,
        resolution: Duration,
        precision: Precision,
    ) -> Arc<Self> {
        let lead = match precision {
            // A queue has no period to take a share of.
            Precision::Spin(spin) if backend != Backend::TokioSleep => {
                Some(Lead::new(spin.with_share(1.0), Duration::MAX))
            }
            _ => None,
        };
        let runtime = (can_pause || timers.is_none()).then(Handle::current);
        let queue = Arc::new(Self {
            backend,
            has_kernel_timers: timers.is_some(),
            can_pause,
            was_paused: AtomicBool::new(false),
            origin: tokio_now().min(real_now()),
            resolution,
            slot_ns: saturating_nanos(resolution),
            precise: lead.is_some(),
            driver_ended: AtomicBool::new(false),
            state: Mutex::new(State {
                timers,
                failure: None,
                heap: TimerHeap::default(),
                last_read: 0,
                lead,
                is_driver_woken: !sys::WAKES_FROM_RUNTIME,
                driver_waker: None,
                driver: None,
                runtime,
                watches_pauses: can_pause && cfg!(panic = "unwind"),
            }),
        });
        if let Some(timers) = &mut queue.lock().timers {
            let queue = Arc::downgrade(&queue);
            timers.set_wakers(|index| FiredWaker { queue: queue.clone(), index }.into());
        }
        let driver = tokio::spawn(run_driver(DriverGuard(Arc::downgrade(&queue)))).abort_handle();
        let mut state = queue.lock();
        // A runtime that is shutting down has dropped the task already, and the handle would keep a
        // part of it alive.
        state.driver = queue.has_driver().then_some(driver);
        drop(state);
        queue
    }

    /// Returns whether the driver is alive.
    pub(crate) fn has_driver(&self) -> bool {
        !self.driver_ended.load(Ordering::Relaxed)
    }

    /// Returns an error if the driver has ended.
    fn check_alive(&self) -> io::Result<()> {
        if self.has_driver() { Ok(()) } else { Err(self.lock().timer_error()) }
    }

    pub(crate) fn backend(&self) -> Backend {
        self.backend
    }

    pub(crate) fn resolution(&self) -> Duration {
        self.resolution
    }

    /// Returns how long before its time a task is woken; `None` outside the precise mode.
    pub(crate) fn lead(&self) -> Option<Duration> {
        if self.precise { self.lock().lead.as_ref().map(Lead::duration) } else { None }
    }

    /// Polls for a deadline on the real clock.
    fn poll(
        self: &Arc<Self>,
        wait: &mut Registration,
        deadline: Deadline,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let result = if wait.key == NIL {
            // Cloning or dropping a waker may run any code, so neither is done under the lock.
            let waker = cx.waker().clone();
            self.register(self.lock(), wait, deadline, waker)
        } else {
            self.poll_registered(wait, deadline, cx)
        };
        if result.is_ready() {
            wait.end_pause_watch();
            // A paused clock would never end a spin.
            if self.precise && matches!(result, Poll::Ready(Ok(()))) && !is_shifted() {
                spin_until(deadline.time, tokio_now);
            }
        } else if CAN_PAUSE && self.can_pause {
            self.watch_pauses(wait, cx);
        }
        result
    }

    /// Registers a wait, unless its time has come.
    fn register(
        &self,
        mut state: MutexGuard<'_, State>,
        wait: &mut Registration,
        deadline: Deadline,
        waker: Waker,
    ) -> Poll<io::Result<()>> {
        if state.timers.is_none() {
            let error = state.timer_error();
            drop(state);
            drop(waker);
            return Poll::Ready(Err(error));
        }
        let time = state.wake_up_time(deadline.due);
        if time <= state.last_read {
            drop(state);
            drop(waker);
            return Poll::Ready(Ok(()));
        }
        wait.key = state.heap.insert(time, waker);
        wait.due = deadline.due;
        let mut next_time = u64::MAX;
        // Only a wait that is first reads the clock. If the time of any other one has come, so has
        // that of the first, and the timer is about to fire.
        if state.heap.is_first(wait.key) {
            if time <= self.read_clock(&mut state) {
                let waker = state.deregister(wait);
                drop(state);
                drop(waker);
                return Poll::Ready(Ok(()));
            }
            next_time = state.wake_up_time(deadline.next_due);
        }
        self.arm_timers(&mut state, next_time)?;
        Poll::Pending
    }

    fn poll_registered(
        &self,
        wait: &mut Registration,
        deadline: Deadline,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let mut new_waker = (deadline.due != wait.due).then(|| cx.waker().clone());
        loop {
            let mut state = self.lock();
            if state.timers.is_none() {
                return Poll::Ready(Err(state.timer_error()));
            }
            if state.heap.has_fired(wait.key) {
                return self.finish_fired(state, wait, deadline, new_waker);
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
            let result = self.move_to(&mut state, wait, deadline.due);
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
        wait: &mut Registration,
        deadline: Deadline,
        new_waker: Option<Waker>,
    ) -> Poll<io::Result<()>> {
        let moved = deadline.due != wait.due;
        if !moved {
            self.update_lead(&mut state, wait.key);
        }
        state.deregister(wait);
        match new_waker {
            // The old deadline has passed, and the task waits for another one now, as that of an
            // interval does.
            Some(waker) if moved => self.register(state, wait, deadline, waker),
            unused => {
                // A waker is not dropped under the lock.
                drop(state);
                drop(unused);
                Poll::Ready(Ok(()))
            }
        }
    }

    /// Removes a wait that has fired, and updates the lead from it. Only the precise mode needs it,
    /// before the task compares its deadline with the clock: if that has passed, the task does not
    /// poll the queue.
    fn acknowledge_wakeup(&self, wait: &mut Registration) {
        if !self.precise || wait.key == NIL {
            return;
        }
        let mut state = self.lock();
        if state.timers.is_some() && state.heap.has_fired(wait.key) {
            self.update_lead(&mut state, wait.key);
            state.deregister(wait);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn move_to(&self, state: &mut State, wait: &mut Registration, due: u64) -> io::Result<()> {
        if wait.due == due {
            return Ok(());
        }
        wait.due = due;
        state.heap.move_to(wait.key, state.wake_up_time(due));
        if !state.heap.is_first(wait.key) {
            return Ok(());
        }
        self.arm_timers(state, u64::MAX)
    }

    /// Arms the timers for the first two deadlines, unless the driver is about to. `next_time` is
    /// that of another deadline, which probably follows.
    ///
    /// A timer that is armed for an earlier time stays so. A deadline may thus be postponed any
    /// number of times at the cost of one wake-up.
    fn arm_timers(&self, state: &mut State, next_time: u64) -> io::Result<()> {
        let State { timers: Some(timers), heap, is_driver_woken: false, .. } = state else {
            return Ok(());
        };
        let Some(first) = heap.first_time() else { return Ok(()) };
        timers.arm_by(first, self.to_instant(first))?;
        if sys::TIMERS_PER_QUEUE > 1 && timers.has_free() {
            let second = heap.second_time().unwrap_or(u64::MAX).min(next_time);
            if second != u64::MAX && second.saturating_sub(first) >= MIN_TURN_NS {
                timers.arm_free(second, self.to_instant(second))?;
            }
        }
        Ok(())
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
        // A test without a pausable runtime has paused the clock nevertheless.
        let now = if cfg!(test) && !self.can_pause { tokio_now() } else { real_now() };
        state.last_read = self.since_origin(now);
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

    /// Returns the end of the slot that contains a deadline, as an instant.
    fn end_of_slot(&self, deadline: Instant) -> Instant {
        if self.slot_ns <= 1 { deadline } else { self.to_instant(self.slot_end(deadline)) }
    }

    fn to_instant(&self, time: u64) -> Instant {
        add_or_far(self.origin, Duration::from_nanos(time), self.origin)
    }
}

impl State {
    /// Returns when to wake a task whose slot ends at `due`.
    fn wake_up_time(&self, due: u64) -> u64 {
        self.lead.as_ref().map_or(due, |lead| due.saturating_sub(saturating_nanos(lead.duration())))
    }

    /// Ends a wait for the kernel. Returns its waker if that was not called.
    fn deregister(&mut self, wait: &mut Registration) -> Option<Waker> {
        let key = std::mem::replace(&mut wait.key, NIL);
        if self.timers.is_some() { self.heap.remove(key) } else { None }
    }

    /// Returns the error to return once the driver has ended.
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

#[cfg(test)]
impl TimerQueue {
    /// Creates a queue whose tasks wait for the kernel, on tokio's paused clock; `None` without
    /// timers of the kernel.
    pub(crate) fn with_virtual_clock(resolution: Duration) -> Option<Arc<Self>> {
        let (backend, timers) = (sys::native()?, KernelTimers::new().expect("on a runtime"));
        Some(Self::with_timers(Some(timers), backend, false, resolution, Precision::Os))
    }

    /// Acts as if every timer had fired.
    pub(crate) fn fire_timers(&self) {
        (0..sys::TIMERS_PER_QUEUE).for_each(|index| self.wake_first(index));
    }

    /// Returns the number of tasks that wait for the kernel.
    pub(crate) fn waiting_count(&self) -> usize {
        self.lock().heap.check_invariants()
    }
}
