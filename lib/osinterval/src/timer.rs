//! A timer that waits for one deadline: the OS's own, or tokio's.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};
use std::time::Instant;

use tokio::task::coop;
use tokio::time::Sleep;

use crate::backend::{Backend, Fallback};
use crate::clock::{is_shifted, tokio_now};
use crate::driver::{catch_driver_panic, new_sleep};
use crate::pause_watch::PauseWatch;
use crate::sys;

/// A timer that follows tokio's clock.
///
/// While that is the real clock, which it always is in production, the kernel wakes the task. While
/// a test has paused or shifted it, a sleep of tokio replaces the kernel's timer.
#[derive(Debug)]
pub(crate) struct Timer {
    /// The timer that is used while the clock is the real one.
    backend: Backend,
    source: Source,
    arming: Arming,
    /// The waker of the last poll that waited for the kernel's timer.
    waker: Option<Waker>,
}

/// The timer that wakes the task.
#[derive(Debug)]
enum Source {
    Kernel {
        timer: sys::OneShot,
        /// Wakes the task if a test pauses tokio's clock while `timer` is armed.
        pause_watch: PauseWatch,
        /// The timer of tokio that is used while tokio's clock is not the real one.
        replacement: Option<Pin<Box<Sleep>>>,
    },
    Tokio(Pin<Box<Sleep>>),
}

/// The time for which a source is armed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arming {
    Disarmed,
    /// A waker is registered for this time. It is earlier than the current deadline if that was
    /// postponed.
    At(Instant),
}

impl Timer {
    /// Creates a disarmed timer on the current runtime.
    pub(crate) fn new(fallback: Fallback) -> io::Result<Self> {
        let Some(backend) = sys::native() else { return Self::new_tokio() };
        if is_shifted() {
            // The clock stays shifted after `resume` as well, so the kernel's timer would never be
            // used. A simulated runtime may have no I/O driver, which that needs.
            return Ok(Self { backend, ..Self::new_tokio()? });
        }
        match (catch_driver_panic(sys::OneShot::new), fallback) {
            (Ok(timer), _) => {
                let pause_watch = PauseWatch::new();
                Ok(Self::with_source(
                    backend,
                    Source::Kernel { timer, pause_watch, replacement: None },
                ))
            }
            (Err(error), Fallback::Never) => Err(error),
            (Err(_), Fallback::TokioSleep) => Self::new_tokio(),
        }
    }

    /// Creates a disarmed timer that is tokio's.
    pub(crate) fn new_tokio() -> io::Result<Self> {
        Ok(Self::with_source(Backend::TokioSleep, Source::Tokio(new_sleep()?)))
    }

    fn with_source(backend: Backend, source: Source) -> Self {
        Self { backend, source, arming: Arming::Disarmed, waker: None }
    }

    pub(crate) fn backend(&self) -> Backend {
        self.backend
    }

    /// Polls for a deadline. Ready once tokio's clock has reached `deadline`, never before;
    /// otherwise the task is woken when it has.
    pub(crate) fn poll_until(
        &mut self,
        cx: &mut Context<'_>,
        deadline: Instant,
    ) -> Poll<io::Result<()>> {
        let sleep = match &mut self.source {
            Source::Tokio(sleep) => sleep,
            Source::Kernel { timer, pause_watch, replacement } => loop {
                // The clock stays shifted, although it may coincide with the real one for a moment.
                if replacement.is_none() && is_shifted() {
                    self.arming = Arming::Disarmed;
                    pause_watch.disarm();
                    *replacement = Some(new_sleep()?);
                }
                if let Some(sleep) = replacement {
                    break sleep;
                }
                if tokio_now() >= deadline {
                    // If the timer is armed, it has fired or is about to, and no task waits for
                    // that.
                    self.arming = Arming::Disarmed;
                    return Poll::Ready(Ok(()));
                }
                let is_armed = matches!(self.arming, Arming::At(time) if time <= deadline);
                if !is_armed {
                    // Registers the waker before the timer can fire, and discards earlier
                    // expirations.
                    while let Poll::Ready(result) = timer.poll_fired(cx) {
                        result?;
                    }
                    timer.arm(deadline)?;
                    self.arming = Arming::At(deadline);
                    store_waker(&mut self.waker, cx);
                    pause_watch.watch(deadline, cx);
                    return Poll::Pending;
                }
                if timer.poll_fired(cx)?.is_pending() {
                    store_waker(&mut self.waker, cx);
                    pause_watch.watch(deadline, cx);
                    return Poll::Pending;
                }
                // It fired before the deadline: the arming was an earlier one, or the clocks
                // disagree. Arming again is right in both cases. Thus a deadline may be postponed
                // any number of times at the cost of one wake-up.
                self.arming = Arming::Disarmed;
            },
        };
        if self.arming == Arming::Disarmed {
            // The sleep keeps the waker of its last poll, and a reset into the past would call it.
            // Here rather than after that poll, whose tick is on its way.
            let last = pin!(coop::unconstrained(&mut *sleep));
            let _: Poll<()> = last.poll(&mut Context::from_waker(Waker::noop()));
        }
        if self.arming != Arming::At(deadline) {
            sleep.as_mut().reset(deadline.into());
            self.arming = Arming::At(deadline);
        }
        // The caller takes from the cooperative budget, once.
        ready!(pin!(coop::unconstrained(sleep)).poll(cx));
        self.arming = Arming::Disarmed;
        Poll::Ready(Ok(()))
    }
}

/// Returns a time before the runtime was created, at which a sleep of tokio ends at once.
#[cfg(feature = "interval")]
pub(crate) fn long_before(deadline: Instant) -> Instant {
    deadline.checked_sub(crate::real_clock::FAR_FUTURE / 30).unwrap_or(deadline)
}

fn store_waker(stored: &mut Option<Waker>, cx: &Context<'_>) {
    match stored {
        Some(waker) => waker.clone_from(cx.waker()),
        None => *stored = Some(cx.waker().clone()),
    }
}

#[cfg(feature = "interval")]
impl Timer {
    /// Returns whether the timer is the OS's while the clock is the real one.
    pub(crate) fn is_native(&self) -> bool {
        self.backend != Backend::TokioSleep
    }

    /// Ensures that a task that waits is woken no later than at `deadline`, and within this call if
    /// that has passed. Makes no system call unless the timer is armed for a later time.
    pub(crate) fn bring_forward(&mut self, deadline: Instant) -> io::Result<()> {
        if self.arming == Arming::Disarmed {
            return Ok(());
        }
        match &mut self.source {
            Source::Kernel { timer, pause_watch, replacement: None } => {
                if tokio_now() >= deadline {
                    self.arming = Arming::Disarmed;
                    pause_watch.disarm();
                    self.waker.take().into_iter().for_each(Waker::wake);
                    return Ok(());
                }
                if let Some(waker) = &self.waker {
                    pause_watch.watch(deadline, &mut Context::from_waker(waker));
                }
                if matches!(self.arming, Arming::At(time) if time <= deadline) {
                    return Ok(());
                }
                timer.arm(deadline)?;
            }
            Source::Kernel { replacement: Some(sleep), .. } | Source::Tokio(sleep) => {
                let has_passed = tokio_now() >= deadline && !is_shifted();
                let end = if has_passed { long_before(deadline) } else { deadline };
                sleep.as_mut().reset(end.into());
            }
        }
        self.arming = Arming::At(deadline);
        Ok(())
    }
}
