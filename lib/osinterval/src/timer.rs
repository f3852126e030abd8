//! A timer that waits for one deadline: the OS's own, or tokio's.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use tokio::task::coop;
use tokio::time::Sleep;

use crate::backend::{Backend, Fallback};
use crate::clock::{FAR_FUTURE, is_shifted, tokio_now};
use crate::driver::{catch_driver_panic, new_sleep};
use crate::pause_watch::PauseWatch;
use crate::sys;

/// Adds `after` to `deadline`. Returns a time in the far future if no instant can represent the
/// sum.
pub(crate) fn add_or_far(deadline: Instant, after: Duration, now: Instant) -> Instant {
    deadline.checked_add(after).or_else(|| now.checked_add(FAR_FUTURE)).unwrap_or(deadline)
}

/// A timer that follows tokio's clock.
///
/// While that is the real clock, which it always is in production, the kernel wakes the task. While
/// a test has paused or shifted it, a sleep of tokio replaces the kernel's timer.
#[derive(Debug)]
pub(crate) struct Timer {
    /// The timer that is used while the clock is the real one.
    backend: Backend,
    /// The OS's timer; `None` if the timer is tokio's in any case.
    native: Option<sys::OneShot>,
    /// Wakes the task if a test pauses the clock while `native` is armed.
    pause_watch: PauseWatch,
    /// tokio's timer, or the one that replaces `native` on a paused clock.
    sleep: Option<Pin<Box<Sleep>>>,
    /// The time for which the timer is armed, with a waker registered. It is earlier than the
    /// current deadline if that was postponed.
    armed: Option<Instant>,
    /// Whether the timer waits for a deadline to become known: nothing is armed in fact.
    is_idle: bool,
    /// The waker of the last poll that was pending.
    waker: Option<Waker>,
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
            (Ok(timer), _) => Ok(Self::from_parts(backend, Some(timer), PauseWatch::new(), None)),
            (Err(error), Fallback::Never) => Err(error),
            (Err(_), Fallback::TokioSleep) => Self::new_tokio(),
        }
    }

    /// Creates a disarmed timer that is tokio's.
    pub(crate) fn new_tokio() -> io::Result<Self> {
        let sleep = new_sleep()?;
        Ok(Self::from_parts(Backend::TokioSleep, None, PauseWatch::none(), Some(sleep)))
    }

    fn from_parts(
        backend: Backend,
        native: Option<sys::OneShot>,
        pause_watch: PauseWatch,
        sleep: Option<Pin<Box<Sleep>>>,
    ) -> Self {
        Self { backend, native, pause_watch, sleep, armed: None, is_idle: false, waker: None }
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
        if std::mem::take(&mut self.is_idle) {
            self.armed = None;
        }
        while self.native.is_some() {
            if tokio_now() >= deadline {
                // If the timer is armed, it has fired or is about to, and no task waits for that.
                self.armed = None;
                return Poll::Ready(Ok(()));
            }
            self.select_source()?;
            if self.sleep.is_some() {
                break;
            }
            if self.armed.is_none_or(|armed| armed > deadline) {
                return self.arm_native(cx, deadline);
            }
            if self.poll_fired(cx)?.is_pending() {
                self.pause_watch.watch(deadline, cx);
                return Poll::Pending;
            }
            // It fired before the deadline: the arming was an earlier one, or the clocks disagree.
            // Arming again is right in both cases. Thus a deadline may be postponed any number of
            // times at the cost of one wake-up.
            self.armed = None;
        }
        self.poll_sleep(cx, deadline)
    }

    /// Selects the kernel's timer or its replacement, whichever follows tokio's clock.
    #[inline]
    fn select_source(&mut self) -> io::Result<()> {
        let is_shifted = is_shifted();
        if is_shifted != self.sleep.is_some() {
            self.armed = None;
            self.pause_watch.disarm();
            self.sleep = if is_shifted { Some(new_sleep()?) } else { None };
        }
        Ok(())
    }

    fn poll_fired(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.native {
            Some(timer) => timer.poll_fired(cx),
            None => Poll::Pending,
        }
    }

    fn arm_native(&mut self, cx: &mut Context<'_>, deadline: Instant) -> Poll<io::Result<()>> {
        // Registers the waker before the timer can fire, and discards earlier expirations.
        while let Poll::Ready(result) = self.poll_fired(cx) {
            result?;
        }
        if let Some(timer) = &mut self.native {
            timer.arm(deadline)?;
        }
        self.armed = Some(deadline);
        self.store_waker(cx);
        self.pause_watch.watch(deadline, cx);
        Poll::Pending
    }

    fn poll_sleep(&mut self, cx: &mut Context<'_>, deadline: Instant) -> Poll<io::Result<()>> {
        let Some(sleep) = &mut self.sleep else { return Poll::Pending };
        if self.armed != Some(deadline) {
            sleep.as_mut().reset(deadline.into());
            self.armed = Some(deadline);
        }
        // The caller takes from the cooperative budget, once.
        ready!(pin!(coop::unconstrained(sleep)).poll(cx));
        self.armed = None;
        Poll::Ready(Ok(()))
    }

    fn store_waker(&mut self, cx: &Context<'_>) {
        match &mut self.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => self.waker = Some(cx.waker().clone()),
        }
    }
}

#[cfg(feature = "interval")]
impl Timer {
    /// Whether the timer is the OS's while the clock is the real one.
    pub(crate) fn is_native(&self) -> bool {
        self.backend != Backend::TokioSleep
    }

    /// Whether the timer is tokio's, because there is no other or the clock is shifted.
    pub(crate) fn is_tokio(&self) -> bool {
        self.sleep.is_some() || is_shifted()
    }

    /// Forgets the deadline of tasks that no longer wait. The kernel's timer stays armed, but a
    /// paused clock does not advance to the deadline.
    pub(crate) fn end_pause_watch(&mut self) {
        self.pause_watch.disarm();
    }

    /// Forgets what is armed: until the next poll, [`Timer::bring_forward`] does nothing. For a
    /// caller that polls again soon.
    pub(crate) fn forget_armed(&mut self) {
        self.armed = None;
    }

    /// Registers the waker for a later [`Timer::bring_forward`], while no deadline is known.
    /// Pending unless the timer fails. Nothing is armed for this: a paused clock would advance to
    /// a timer of tokio, however far it is.
    pub(crate) fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Poll::Ready(result) = self.poll_fired(cx) {
            result?;
            self.armed = None;
        }
        self.pause_watch.disarm();
        if self.sleep.is_some() && !self.is_idle {
            self.armed = None;
            self.sleep = if self.native.is_some() { None } else { Some(new_sleep()?) };
        }
        self.store_waker(cx);
        if self.armed.is_none() {
            let now = tokio_now();
            self.armed = Some(add_or_far(now, Duration::MAX, now));
            self.is_idle = true;
        }
        Poll::Pending
    }

    /// Ensures that a task that waits is woken no later than at `deadline`. Makes no system call
    /// unless the timer is armed for a later time.
    pub(crate) fn bring_forward(&mut self, deadline: Instant) -> io::Result<()> {
        let Some(armed) = self.armed else { return Ok(()) };
        if self.sleep.is_none()
            && let Some(waker) = &self.waker
        {
            self.pause_watch.watch(deadline, &mut Context::from_waker(waker));
        }
        if armed <= deadline {
            return Ok(());
        }
        match (&mut self.sleep, &mut self.native) {
            (Some(sleep), _) if !self.is_idle => sleep.as_mut().reset(deadline.into()),
            (None, Some(timer)) if !is_shifted() => timer.arm(deadline)?,
            _ => {
                // Only a poll registers the waker with a sleep.
                self.armed = None;
                self.waker.iter().for_each(Waker::wake_by_ref);
                return Ok(());
            }
        }
        self.armed = Some(deadline);
        self.is_idle = false;
        Ok(())
    }
}

/// Reads a clock until it has reached `due`, and returns the last reading.
#[cfg(feature = "interval")]
pub(crate) fn spin_until(due: Instant, clock: impl Fn() -> Instant) -> Instant {
    /// The last part of the spin, without pauses. A pause of the CPU between two readings helps its
    /// other hyperthread, but makes the time between them half as long again.
    const UNPAUSED_SPAN: Duration = Duration::from_micros(1);
    let pause_until = due.checked_sub(UNPAUSED_SPAN).unwrap_or(due);
    let mut now = clock();
    while now < due {
        if now < pause_until {
            std::hint::spin_loop();
        }
        now = clock();
    }
    now
}
