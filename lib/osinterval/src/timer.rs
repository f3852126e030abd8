//! A timer that waits for one deadline: the OS's own, or tokio's.

use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use tokio::task::coop;
use tokio::time::Sleep;

use crate::backend::{Backend, Fallback};
use crate::clock::{ClockReading, tokio_now};
use crate::sys;

/// Added to the current time for a deadline that never comes: longer than any program runs, and too
/// short to overflow a clock.
const FAR_FUTURE: Duration = Duration::from_secs(30 * 365 * 86_400);

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
    /// The OS's timer; `None` if the timer is tokio's in any case.
    native: Option<sys::OneShot>,
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
        let native = sys::native().map(|_| catch_driver_panic(sys::OneShot::new));
        match (native, fallback) {
            (Some(Ok(timer)), _) => Ok(Self::from_parts(Some(timer), None)),
            (Some(Err(error)), Fallback::Never) => Err(error),
            _ => Self::new_tokio(),
        }
    }

    /// Creates a disarmed timer that is tokio's.
    pub(crate) fn new_tokio() -> io::Result<Self> {
        Ok(Self::from_parts(None, Some(new_sleep()?)))
    }

    fn from_parts(native: Option<sys::OneShot>, sleep: Option<Pin<Box<Sleep>>>) -> Self {
        Self { native, sleep, armed: None, is_idle: false, waker: None }
    }

    pub(crate) fn backend(&self) -> Backend {
        match self.native {
            Some(_) => sys::native().unwrap_or(Backend::TokioSleep),
            None => Backend::TokioSleep,
        }
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
            let is_armed = self.armed.is_some_and(|armed| armed <= deadline);
            if is_armed && self.sleep.is_none() {
                if tokio_now() >= deadline {
                    // The timer has fired or is about to, and no task waits for that.
                    self.armed = None;
                    return Poll::Ready(Ok(()));
                }
                ready!(self.poll_fired(cx))?;
                // It fired before the deadline: the arming was an earlier one, or the clocks
                // disagree. Arming again is right in both cases. Thus a deadline may be postponed
                // any number of times at the cost of one wake-up.
                self.armed = None;
                continue;
            }
            let reading = ClockReading::take();
            if reading.tokio >= deadline {
                self.armed = None;
                return Poll::Ready(Ok(()));
            }
            self.select_source(reading)?;
            if self.sleep.is_some() {
                break;
            }
            return self.arm_native(cx, deadline);
        }
        self.poll_sleep(cx, deadline)
    }

    /// Selects the kernel's timer or its replacement, whichever follows tokio's clock.
    fn select_source(&mut self, reading: ClockReading) -> io::Result<()> {
        let is_shifted = reading.is_shifted();
        if is_shifted != self.sleep.is_some() {
            self.armed = None;
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
    /// Whether the timer is the OS's.
    pub(crate) fn is_native(&self) -> bool {
        self.native.is_some()
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
    /// unless the timer is armed for a later time. `reading` is one that the caller has made since
    /// the deadline was known to be in the future, if there is one.
    pub(crate) fn bring_forward(
        &mut self,
        deadline: Instant,
        reading: Option<ClockReading>,
    ) -> io::Result<()> {
        if self.armed.is_none_or(|armed| armed <= deadline) {
            return Ok(());
        }
        match (&mut self.sleep, &mut self.native) {
            (Some(sleep), _) if !self.is_idle => sleep.as_mut().reset(deadline.into()),
            (None, Some(timer)) if !reading.unwrap_or_else(ClockReading::take).is_shifted() => {
                timer.arm(deadline)?;
            }
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

/// Creates a sleep of tokio that is not armed yet.
fn new_sleep() -> io::Result<Pin<Box<Sleep>>> {
    catch_driver_panic(|| Ok(Box::pin(tokio::time::sleep(FAR_FUTURE))))
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

/// Calls `make`, which registers a timer with the current tokio runtime.
///
/// tokio reports a disabled driver only by a panic. That is caught here, although the panic hook
/// still runs.
///
/// # Errors
/// Returns an error if `make` does, outside of a tokio runtime, or if the driver that `make` needs
/// is disabled.
pub(crate) fn catch_driver_panic<T>(make: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    tokio::runtime::Handle::try_current()
        .map_err(|error| io::Error::new(io::ErrorKind::NotConnected, error))?;
    catch_unwind(AssertUnwindSafe(make)).unwrap_or_else(|_| Err(driver_disabled()))
}

fn driver_disabled() -> io::Error {
    io::Error::new(
        io::ErrorKind::NotConnected,
        "the tokio runtime has its I/O or time driver disabled; call enable_all() on its builder",
    )
}
