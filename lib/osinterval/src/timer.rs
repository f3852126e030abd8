//! A timer that waits for one deadline: the OS's own, or tokio's.

use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::time::Sleep;

use crate::backend::{Backend, Fallback};
use crate::sys;

/// Added to the current time for a deadline that never comes: longer than any program runs, and too
/// short to overflow a clock.
const FAR_FUTURE: Duration = Duration::from_secs(30 * 365 * 86_400);

/// Adds `after` to `deadline`. Returns a time in the far future if no instant can represent the
/// sum.
pub(crate) fn add_or_far(deadline: Instant, after: Duration, now: Instant) -> Instant {
    deadline.checked_add(after).or_else(|| now.checked_add(FAR_FUTURE)).unwrap_or(deadline)
}

#[derive(Debug)]
pub(crate) struct Timer {
    source: TimerSource,
    /// The time for which the timer is armed, with a waker registered. It is earlier than the
    /// current deadline if that was postponed.
    armed: Option<Instant>,
}

#[derive(Debug)]
enum TimerSource {
    Native(sys::OneShot),
    Tokio(Pin<Box<Sleep>>),
}

impl Timer {
    /// Creates a disarmed timer on the current runtime.
    pub(crate) fn new(fallback: Fallback) -> io::Result<Self> {
        let native = sys::native().map(|_| catch_driver_panic(sys::OneShot::new));
        let source = match (native, fallback) {
            (Some(Ok(timer)), _) => TimerSource::Native(timer),
            (Some(Err(error)), Fallback::Never) => return Err(error),
            _ => return Self::new_tokio(),
        };
        Ok(Self { source, armed: None })
    }

    /// Creates a disarmed timer that is tokio's.
    pub(crate) fn new_tokio() -> io::Result<Self> {
        let sleep = catch_driver_panic(|| Ok(tokio::time::sleep(FAR_FUTURE)))?;
        Ok(Self { source: TimerSource::Tokio(Box::pin(sleep)), armed: None })
    }

    pub(crate) fn backend(&self) -> Backend {
        match &self.source {
            TimerSource::Native(_) => sys::native().unwrap_or(Backend::TokioSleep),
            TimerSource::Tokio(_) => Backend::TokioSleep,
        }
    }

    /// The current time of the clock that this timer follows.
    pub(crate) fn now(&self) -> Instant {
        match &self.source {
            TimerSource::Native(_) => real_now(),
            TimerSource::Tokio(_) => tokio::time::Instant::now().into_std(),
        }
    }

    /// Polls for a deadline. Ready once the clock has reached `deadline`, never before; otherwise
    /// the task is woken when it has.
    pub(crate) fn poll_until(
        &mut self,
        cx: &mut Context<'_>,
        deadline: Instant,
    ) -> Poll<io::Result<()>> {
        match &mut self.source {
            TimerSource::Native(timer) => loop {
                if real_now() >= deadline {
                    // The timer has fired or is about to, and no task waits for that.
                    self.armed = None;
                    return Poll::Ready(Ok(()));
                }
                if self.armed.is_some_and(|armed| armed <= deadline) {
                    ready!(timer.poll_fired(cx))?;
                    // It fired before the deadline: the arming was an earlier one, or the clocks
                    // disagree. Arming again is right in both cases. Thus a deadline may be
                    // postponed any number of times at the cost of one wake-up.
                    self.armed = None;
                } else {
                    // Registers the waker before the timer can fire, and discards earlier
                    // expirations.
                    while let Poll::Ready(result) = timer.poll_fired(cx) {
                        result?;
                    }
                    timer.arm(deadline)?;
                    self.armed = Some(deadline);
                    return Poll::Pending;
                }
            },
            TimerSource::Tokio(sleep) => {
                if self.armed != Some(deadline) {
                    sleep.as_mut().reset(deadline.into());
                    self.armed = Some(deadline);
                }
                ready!(sleep.as_mut().poll(cx));
                self.armed = None;
                Poll::Ready(Ok(()))
            }
        }
    }
}

#[cfg(feature = "interval")]
impl Timer {
    /// Whether the timer is the OS's, and follows real time.
    pub(crate) fn is_native(&self) -> bool {
        matches!(self.source, TimerSource::Native(_))
    }

    /// Forgets what is armed: until the next poll, [`Timer::bring_forward`] does nothing. For a
    /// caller that polls again soon.
    pub(crate) fn forget_armed(&mut self) {
        self.armed = None;
    }

    /// Registers the waker for a later [`Timer::bring_forward`], while no deadline is known.
    /// Pending unless the timer fails. A native timer is not armed for this.
    pub(crate) fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let now = self.now();
        let far = add_or_far(now, Duration::MAX, now);
        match &mut self.source {
            TimerSource::Native(timer) => {
                while let Poll::Ready(result) = timer.poll_fired(cx) {
                    result?;
                    self.armed = None;
                }
                self.armed.get_or_insert(far);
                Poll::Pending
            }
            TimerSource::Tokio(_) => self.poll_until(cx, far),
        }
    }

    /// Ensures that a task that waits is woken no later than at `deadline`. Makes no system call
    /// unless the timer is armed for a later time.
    pub(crate) fn bring_forward(&mut self, deadline: Instant) -> io::Result<()> {
        if self.armed.is_none_or(|armed| armed <= deadline) {
            return Ok(());
        }
        match &mut self.source {
            TimerSource::Native(timer) => timer.arm(deadline)?,
            TimerSource::Tokio(sleep) => sleep.as_mut().reset(deadline.into()),
        }
        self.armed = Some(deadline);
        Ok(())
    }
}

#[allow(clippy::disallowed_methods, reason = "a native timer follows the kernel's clock")]
pub(crate) fn real_now() -> Instant {
    Instant::now()
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
