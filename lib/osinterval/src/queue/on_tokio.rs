//! Waits that are sleeps of tokio, since a test has paused its clock or the OS has no timer.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use tokio::runtime::Handle;
use tokio::task::coop;
use tokio::time::Sleep;

use super::TimerQueue;
use super::wait::Registration;
use crate::clock::{CAN_PAUSE, is_shifted, tokio_now};
use crate::driver::new_sleep;
use crate::heap::NIL;
use crate::pause_watch::{MIN_WATCHED_WAIT, waker_if};

impl TimerQueue {
    /// Returns whether waits are sleeps of tokio at present.
    pub(super) fn is_on_tokio(&self) -> bool {
        !self.has_kernel_timers || self.is_paused()
    }

    /// Returns whether a test has paused the clock of the queue's runtime at some time.
    pub(super) fn is_paused(&self) -> bool {
        if !CAN_PAUSE || !self.can_pause {
            return false;
        }
        let was_paused = self.was_paused.load(Ordering::Relaxed) || is_shifted();
        self.was_paused.store(was_paused, Ordering::Relaxed);
        was_paused
    }

    /// Polls a sleep of tokio for the end of a wait.
    pub(super) fn poll_tokio(
        &self,
        wait: &mut Registration,
        end: Instant,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        if wait.key != NIL {
            let waker = self.lock().deregister(wait);
            drop(waker);
        }
        let sleep = self.tokio_sleep(wait)?;
        if sleep.deadline() != end.into() {
            sleep.as_mut().reset(end.into());
        }
        // The caller takes from the cooperative budget, once.
        pin!(coop::unconstrained(sleep)).poll(cx).map(Ok)
    }

    /// Moves the end of a wait that is a sleep of tokio, or becomes one now.
    pub(super) fn reset_tokio(&self, wait: &mut Registration, end: Instant) {
        let is_registered = wait.key == NIL || wait.sleep.is_some();
        let waker = if is_registered { None } else { self.lock().deregister(wait) };
        let has_ended = match (self.tokio_sleep(wait), &waker) {
            (Ok(sleep), waker) => {
                sleep.as_mut().reset(end.into());
                waker.as_ref().is_some_and(|waker| {
                    let cx = &mut Context::from_waker(waker);
                    pin!(coop::unconstrained(sleep)).poll(cx).is_ready()
                })
            }
            // The next poll reports a runtime without timers.
            (Err(_), _) => true,
        };
        if has_ended {
            waker.into_iter().for_each(Waker::wake);
        }
    }

    /// Returns the sleep of tokio of a wait, which is created on the queue's runtime.
    fn tokio_sleep<'a>(&self, wait: &'a mut Registration) -> io::Result<&'a mut Pin<Box<Sleep>>> {
        match &mut wait.sleep {
            Some(sleep) => Ok(sleep),
            empty => {
                let runtime = self.lock().runtime.clone();
                let _context = runtime.as_ref().map(Handle::enter);
                Ok(empty.insert(new_sleep()?))
            }
        }
    }

    /// Registers a wait for the kernel with tokio as well, so that its task is woken if a test
    /// pauses tokio's clock and that reaches the deadline.
    pub(super) fn watch_pauses(self: &Arc<Self>, wait: &mut Registration, cx: &Context<'_>) {
        let end = self.to_instant(wait.due);
        if end.saturating_duration_since(tokio_now()) < MIN_WATCHED_WAIT {
            wait.sleep = None;
            return;
        }
        if wait.sleep.is_none() && !self.lock().watches_pauses {
            return;
        }
        let Ok(sleep) = self.tokio_sleep(wait) else {
            // A runtime without timers is reported only by a panic, which happens once.
            self.lock().watches_pauses = false;
            return;
        };
        if sleep.deadline() != end.into() {
            sleep.as_mut().reset(end.into());
        }
        // On the real clock the kernel wakes the task.
        let queue = Arc::downgrade(self);
        let is_paused = move || queue.upgrade().is_some_and(|queue| queue.is_paused());
        let waker = waker_if(is_paused, cx.waker());
        // It makes no difference if the time has come since.
        let _: Poll<()> = pin!(coop::unconstrained(sleep)).poll(&mut Context::from_waker(&waker));
    }
}
