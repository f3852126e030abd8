//! A sleep of tokio next to a kernel's timer, for tests that pause tokio's clock while a task
//! waits.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::coop;
use tokio::time::Sleep;

use crate::clock::{CAN_PAUSE, is_shifted, tokio_now};
use crate::driver::new_sleep;

/// Waits below this length end in real time, since a test hardly notices that. Longer waits cost
/// little by a registration in tokio's wheel.
pub(crate) const MIN_WATCHED_WAIT: Duration = Duration::from_millis(2);

/// Wakes the task of a kernel's timer when tokio's clock reaches the deadline.
///
/// The kernel does not follow a clock that a test pauses after the timer was armed, and tokio does
/// not report a pause. So a sleep of tokio waits for the same deadline. It only wakes the task,
/// which then compares the clocks.
///
/// There is such a sleep only in builds and on runtimes whose clock can be paused.
#[derive(Debug)]
pub(crate) struct PauseWatch {
    /// The runtime on which the timer was created; `None` if its clock cannot be paused, or it has
    /// no timers.
    runtime: Option<Handle>,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl PauseWatch {
    /// Creates a watch for a timer of the current runtime.
    pub(crate) fn new() -> Self {
        // A runtime without timers is reported only by a panic.
        let can_pause = CAN_PAUSE && cfg!(panic = "unwind");
        let runtime = if can_pause { Handle::try_current().ok() } else { None };
        let is_single = |runtime: &Handle| runtime.runtime_flavor() == RuntimeFlavor::CurrentThread;
        Self { runtime: runtime.filter(is_single), sleep: None }
    }

    /// Watches for `deadline` instead of an earlier one, and wakes the task of `cx` then.
    #[inline]
    pub(crate) fn watch(&mut self, deadline: Instant, cx: &mut Context<'_>) {
        if CAN_PAUSE && self.runtime.is_some() {
            self.register(deadline, cx);
        }
    }

    fn register(&mut self, deadline: Instant, cx: &mut Context<'_>) {
        if deadline.saturating_duration_since(tokio_now()) < MIN_WATCHED_WAIT {
            self.sleep = None;
            return;
        }
        if self.sleep.is_none() {
            self.sleep = self.create_sleep();
        }
        let Some(sleep) = &mut self.sleep else { return };
        if sleep.deadline().into_std() != deadline {
            sleep.as_mut().reset(deadline.into());
        }
        // On the real clock the kernel wakes the task.
        let waker = waker_if(is_shifted, cx.waker());
        // It makes no difference if the time has come since.
        let _: Poll<()> = pin!(coop::unconstrained(sleep)).poll(&mut Context::from_waker(&waker));
    }

    fn create_sleep(&mut self) -> Option<Pin<Box<Sleep>>> {
        let sleep = {
            let _context = self.runtime.as_ref()?.enter();
            new_sleep().ok()
        };
        if sleep.is_none() {
            self.runtime = None;
        }
        sleep
    }

    /// Ends the watch, so that a paused clock does not advance to its deadline.
    #[inline]
    pub(crate) fn disarm(&mut self) {
        self.sleep = None;
    }
}

/// Returns a waker that wakes a task if a condition holds.
pub(crate) fn waker_if(
    condition: impl Fn() -> bool + Send + Sync + 'static,
    task: &Waker,
) -> Waker {
    Waker::from(Arc::new(WakerIf { condition, task: task.clone() }))
}

struct WakerIf<F> {
    condition: F,
    task: Waker,
}

impl<F: Fn() -> bool + Send + Sync + 'static> Wake for WakerIf<F> {
    fn wake(self: Arc<Self>) {
        if (self.condition)() {
            self.task.wake_by_ref();
        }
    }
}
