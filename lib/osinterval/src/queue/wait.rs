//! The place of a sleep or an interval in a queue.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::time::Sleep;

use super::TimerQueue;
use crate::clock::{CAN_PAUSE, tokio_now};
use crate::heap::NIL;
use crate::real_clock::add_or_far;
use crate::timer::long_before;

/// A place in a queue, which a task may wait in.
#[derive(Debug)]
pub(crate) struct QueuedWait {
    queue: Arc<TimerQueue>,
    registration: Registration,
}

#[derive(Debug)]
pub(super) struct Registration {
    /// The key in the queue's heap; [`NIL`] while no task waits for the kernel.
    pub(super) key: usize,
    /// The end of the slot of the deadline, or the deadline itself if that had passed when it was
    /// set. [`u64::MAX`] before a task waits for the kernel or the deadline is reset.
    pub(super) due: u64,
    /// A sleep of tokio that wakes the task while tokio's clock is not the real one. If there is a
    /// key, the task has waited since before that.
    pub(super) sleep: Option<Pin<Box<Sleep>>>,
}

/// A deadline of a wait.
#[derive(Clone, Copy)]
pub(super) struct Deadline {
    pub(super) time: Instant,
    /// The end of its slot.
    pub(super) due: u64,
    /// The end of the slot of the deadline that probably follows; [`u64::MAX`] if unknown.
    pub(super) next_due: u64,
}

impl QueuedWait {
    pub(crate) fn new(queue: Arc<TimerQueue>) -> Self {
        Self { queue, registration: Registration::new() }
    }

    pub(crate) fn queue(&self) -> &TimerQueue {
        &self.queue
    }

    /// Polls for the deadline of a sleep.
    ///
    /// Ready once the slot of `deadline` has ended; otherwise the task is woken then. A deadline
    /// that had passed before the first poll since it was set, for which `is_fresh` is true, does
    /// not wait for its slot. In the precise mode the task is woken before, and the last poll spins
    /// until `deadline`.
    ///
    /// # Errors
    /// Returns an error if the timer has failed or its runtime has shut down.
    pub(crate) fn poll_sleep(
        &mut self,
        deadline: Instant,
        is_fresh: bool,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { queue, registration } = self;
        queue.check_alive()?;
        let has_passed = is_fresh && tokio_now() >= deadline;
        if has_passed && !queue.is_paused() {
            self.cancel();
            return Poll::Ready(Ok(()));
        }
        if queue.is_on_tokio() {
            if has_passed && queue.slot_ns > 1 {
                // A reset to before the end of the slot would wake the task.
                registration.sleep = None;
            }
            let end = if has_passed { deadline } else { queue.end_of_slot(deadline) };
            ready!(queue.poll_tokio(registration, end, cx))?;
            if !queue.is_paused() {
                // It keeps the waker of this poll.
                registration.sleep = None;
            }
            return Poll::Ready(Ok(()));
        }
        let deadline =
            Deadline { time: deadline, due: queue.slot_end(deadline), next_due: u64::MAX };
        queue.poll(registration, deadline, cx)
    }

    /// Polls for the deadline of an interval, which is probably followed by one a period later.
    ///
    /// Ready with the current time, which is not before the deadline, once the slot of `deadline`
    /// has ended or a poll comes after the deadline.
    ///
    /// # Errors
    /// Returns an error if [`QueuedWait::poll_sleep`] would, even if the deadline has passed.
    pub(crate) fn poll_tick(
        &mut self,
        deadline: Instant,
        period: Duration,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Instant>> {
        let Self { queue, registration } = self;
        queue.check_alive()?;
        queue.acknowledge_wakeup(registration);
        let now = tokio_now();
        if now >= deadline && !queue.is_paused() {
            registration.end_pause_watch();
            return Poll::Ready(Ok(now));
        }
        if queue.is_on_tokio() {
            let end = if now >= deadline { deadline } else { queue.end_of_slot(deadline) };
            ready!(queue.poll_tokio(registration, end, cx))?;
            // It keeps the waker of this poll.
            registration.sleep = None;
        } else {
            let next = add_or_far(deadline, period, deadline);
            let (due, next_due) = (queue.slot_end(deadline), queue.slot_end(next));
            let deadline = Deadline { time: deadline, due, next_due };
            ready!(queue.poll(registration, deadline, cx))?;
        }
        // The queue has reached the deadline, even if the caller's runtime has another clock.
        Poll::Ready(Ok(tokio_now().max(deadline)))
    }

    /// Moves the deadline. A task that waits is woken at the new one: within this call if that has
    /// passed.
    ///
    /// # Errors
    /// Returns an error if a timer cannot be armed.
    pub(crate) fn reset(&mut self, deadline: Instant) -> io::Result<()> {
        let Self { queue, registration } = self;
        if !queue.has_driver() {
            *registration = Registration::new();
            return Ok(());
        }
        let has_passed = tokio_now() >= deadline;
        if queue.is_on_tokio() {
            let end = match has_passed {
                false => queue.end_of_slot(deadline),
                true if queue.is_paused() => deadline,
                // tokio may not have noticed yet that the deadline has passed.
                true => long_before(deadline),
            };
            queue.reset_tokio(registration, end);
            return Ok(());
        }
        // If it has passed, not the end of its slot, which may be ahead: a later deadline may have the
        // same.
        let due = if has_passed { queue.since_origin(deadline) } else { queue.slot_end(deadline) };
        if registration.key == NIL {
            registration.due = due;
            return Ok(());
        }
        let mut state = queue.lock();
        let woken = if state.timers.is_none() {
            state.deregister(registration)
        } else if has_passed && !queue.precise {
            registration.due = due;
            state.heap.fire(registration.key)
        } else if has_passed || state.heap.has_fired(registration.key) {
            // The next poll registers it again.
            registration.due = due;
            state.deregister(registration)
        } else {
            queue.move_to(&mut state, registration, due)?;
            None
        };
        drop(state);
        match woken {
            Some(waker) => {
                registration.end_pause_watch();
                waker.wake();
            }
            None if registration.key == NIL => registration.end_pause_watch(),
            None => {
                let end = queue.to_instant(registration.due).into();
                registration.sleep.iter_mut().for_each(|sleep| sleep.as_mut().reset(end));
            }
        }
        Ok(())
    }

    /// Returns whether the deadline has come, and the task, if one waits, has been woken for it.
    /// False before the first poll or reset. While a task waits in the precise mode, in which it is
    /// woken earlier, never true unless the clock is that of a test.
    pub(crate) fn has_fired(&self) -> bool {
        let Self { queue, registration: Registration { key, due, sleep } } = self;
        match sleep {
            Some(sleep) if *key == NIL || queue.is_on_tokio() => sleep.is_elapsed(),
            _ if *key == NIL => queue.since_origin(tokio_now()) >= *due,
            _ if queue.precise => false,
            _ => {
                let state = queue.lock();
                state.timers.is_some() && state.heap.has_fired(*key)
            }
        }
    }

    /// Ends the wait.
    fn cancel(&mut self) {
        self.registration.sleep = None;
        if self.registration.key != NIL {
            let waker = self.queue.lock().deregister(&mut self.registration);
            drop(waker);
        }
    }
}

impl Drop for QueuedWait {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl Registration {
    const fn new() -> Self {
        Self { key: NIL, due: u64::MAX, sleep: None }
    }

    /// Ends the registration with tokio of a wait for the kernel.
    pub(super) fn end_pause_watch(&mut self) {
        if CAN_PAUSE {
            self.sleep = None;
        }
    }
}
