//! The code that a timer of the kernel runs when it fires: its waker, and the task that serves crowds.

use std::future::poll_fn;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};

use tokio::runtime::{Handle, RuntimeFlavor};

use super::{TimerFailure, TimerQueue};
use crate::sys;

/// The waker of a timer of the kernel.
pub(super) struct FiredWaker {
    pub(super) queue: Weak<TimerQueue>,
    pub(super) index: usize,
}

impl From<FiredWaker> for Waker {
    fn from(waker: FiredWaker) -> Self {
        Self::from(Arc::new(waker))
    }
}

impl Wake for FiredWaker {
    fn wake(self: Arc<Self>) {
        if let Some(queue) = self.queue.upgrade() {
            queue.wake_first(self.index);
        }
    }
}

/// The driver's reference to its queue.
///
/// When the driver ends, for whatever reason, this wakes all tasks that wait, so that their next
/// poll returns an error, and drops what belongs to the runtime.
pub(super) struct DriverGuard(pub(super) Weak<TimerQueue>);

impl Drop for DriverGuard {
    fn drop(&mut self) {
        let Some(queue) = self.0.upgrade() else { return };
        queue.driver_ended.store(true, Ordering::Relaxed);
        let mut state = queue.lock();
        let (timers, driver) = (state.timers.take(), state.driver.take());
        let (runtime, driver_waker) = (state.runtime.take(), state.driver_waker.take());
        let heap = std::mem::take(&mut state.heap);
        drop(state);
        drop((timers, driver, driver_waker, runtime));
        heap.into_wakers().for_each(Waker::wake);
    }
}

/// Serves a queue until that is dropped or its timer fails.
pub(super) async fn run_driver(guard: DriverGuard) {
    // On a current-thread runtime the woken tasks run before the driver polls the timers again. The
    // timers are armed after that, and tasks that came due in the meantime need no further wake-up
    // of the thread. A multi-thread runtime would wake another worker to take over this task.
    let yields_to_woken = Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread;
    let mut due = Vec::new();
    let polls = poll_fn(|cx| match guard.0.upgrade() {
        Some(queue) => queue.poll_driver(cx, &mut due, yields_to_woken),
        None => Poll::Ready(()),
    });
    polls.await;
}

impl TimerQueue {
    /// Wakes the first task if it is due, after a timer has fired. If the one after it is due as
    /// well, or no timer is armed for it, the driver does the rest.
    pub(super) fn wake_first(&self, index: usize) {
        let mut guard = self.lock();
        let state = &mut *guard;
        let Some(timers) = &mut state.timers else { return };
        timers.free(index);
        let now = self.read_clock(state);
        let due = state.heap.take_due(now);
        let driver = match (&state.timers, state.heap.first_time()) {
            (Some(timers), Some(first))
                if !state.is_driver_woken && (first <= now || !timers.is_armed_by(first)) =>
            {
                state.is_driver_woken = true;
                // The waker of a task of tokio, which may be cloned under the lock.
                state.driver_waker.clone()
            }
            _ => None,
        };
        drop(guard);
        due.into_iter().chain(driver).for_each(Waker::wake);
    }

    /// Wakes the tasks that are due, and arms the timers for the next ones. Ready only if a timer
    /// fails.
    fn poll_driver(
        &self,
        cx: &Context<'_>,
        due: &mut Vec<Waker>,
        yields_to_woken: bool,
    ) -> Poll<()> {
        loop {
            let result = self.take_due(cx, due);
            let has_woken = !due.is_empty();
            due.drain(..).for_each(Waker::wake);
            match result {
                Ok(false) => return Poll::Pending,
                Ok(true) if has_woken && yields_to_woken => {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Ok(true) => {}
                Err(error) => {
                    self.lock().failure =
                        Some(TimerFailure { kind: error.kind(), message: error.to_string() });
                    return Poll::Ready(());
                }
            }
        }
    }

    /// Moves the wakers of due tasks into `due`; if no task is due, arms the timers. Returns
    /// whether the driver has to do so again.
    fn take_due(&self, cx: &Context<'_>, due: &mut Vec<Waker>) -> io::Result<bool> {
        /// Tasks that are woken before any of them runs.
        const BATCH: usize = 256;
        let state = &mut *self.lock();
        if state.driver_waker.is_none() {
            // The waker of a task never changes.
            state.driver_waker = Some(cx.waker().clone());
            if let Some(timers) = &mut state.timers
                && !sys::WAKES_FROM_RUNTIME
            {
                timers.set_wakers(|_| cx.waker().clone());
            }
        }
        if let Some(timers) = &mut state.timers
            && !sys::WAKES_FROM_RUNTIME
        {
            timers.poll_fired()?;
        }
        let now = self.read_clock(state);
        due.extend(std::iter::from_fn(|| state.heap.take_due(now)).take(BATCH));
        // The tasks that were woken arm the timers if no other one waits.
        state.is_driver_woken = !due.is_empty() && state.heap.first_time().is_some();
        self.arm_timers(state, u64::MAX)?;
        Ok(state.is_driver_woken)
    }
}
