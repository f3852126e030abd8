//! One timer that waits for a deadline: the OS's, or tokio's.

use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::time::Sleep;

use crate::backend::{Backend, Fallback};
use crate::sys;

/// Longer than any program runs, and not so long that a clock overflows.
const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);

/// `deadline` plus `after`, or a time in the far future where no instant can hold that.
pub(crate) fn add_or_far(deadline: Instant, after: Duration, now: Instant) -> Instant {
    deadline.checked_add(after).or_else(|| now.checked_add(FAR)).unwrap_or(deadline)
}

#[derive(Debug)]
pub(crate) struct Timer {
    kind: Kind,
    /// What the timer is armed for, and a waker registered with it: the deadline, or one from
    /// before it was put off.
    armed: Option<Instant>,
}

#[derive(Debug)]
enum Kind {
    Native(sys::OneShot),
    Tokio(Pin<Box<Sleep>>),
}

impl Timer {
    /// A disarmed timer on the current runtime.
    pub(crate) fn new(fallback: Fallback) -> io::Result<Self> {
        let native = sys::native().map(|_| on_runtime(sys::OneShot::new));
        let kind = match (native, fallback) {
            (Some(Ok(timer)), _) => Kind::Native(timer),
            (Some(Err(error)), Fallback::Never) => return Err(error),
            _ => return Self::tokio(),
        };
        Ok(Self { kind, armed: None })
    }

    /// The same from tokio's timer.
    pub(crate) fn tokio() -> io::Result<Self> {
        let sleep = on_runtime(|| Ok(tokio::time::sleep(FAR)))?;
        Ok(Self { kind: Kind::Tokio(Box::pin(sleep)), armed: None })
    }

    pub(crate) fn backend(&self) -> Backend {
        match &self.kind {
            Kind::Native(_) => sys::native().unwrap_or(Backend::TokioSleep),
            Kind::Tokio(_) => Backend::TokioSleep,
        }
    }

    /// The clock this timer follows.
    pub(crate) fn now(&self) -> Instant {
        match &self.kind {
            Kind::Native(_) => real_now(),
            Kind::Tokio(_) => tokio::time::Instant::now().into_std(),
        }
    }

    /// Ready once the clock has reached `deadline`, never before; otherwise the task is woken when
    /// it does.
    pub(crate) fn poll_until(
        &mut self,
        cx: &mut Context<'_>,
        deadline: Instant,
    ) -> Poll<io::Result<()>> {
        match &mut self.kind {
            Kind::Native(timer) => loop {
                if real_now() >= deadline {
                    // What is armed has fired or is about to, and nobody waits for it.
                    self.armed = None;
                    return Poll::Ready(Ok(()));
                }
                if self.armed.is_some_and(|armed| armed <= deadline) {
                    ready!(timer.poll_fired(cx))?;
                    // It fired and it is not time yet: an earlier arming, unless the clocks
                    // disagree. Arming again is right in both cases. So a deadline may be put off
                    // again and again at the price of one wake-up.
                    self.armed = None;
                } else {
                    // The waker is registered before the timer can fire, and what fired before is
                    // forgotten.
                    while let Poll::Ready(result) = timer.poll_fired(cx) {
                        result?;
                    }
                    timer.arm(deadline)?;
                    self.armed = Some(deadline);
                    return Poll::Pending;
                }
            },
            Kind::Tokio(sleep) => {
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
    /// Whether it is the OS's, and follows real time.
    pub(crate) fn is_native(&self) -> bool {
        matches!(self.kind, Kind::Native(_))
    }

    /// Nobody relies on what is armed: whoever waits polls again soon.
    pub(crate) fn forget(&mut self) {
        self.armed = None;
    }

    /// Pending, with the waker registered for [`Timer::bring_forward`]: there is no deadline to
    /// wait for. The OS is asked for nothing.
    pub(crate) fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let now = self.now();
        let far = add_or_far(now, Duration::MAX, now);
        match &mut self.kind {
            Kind::Native(timer) => {
                while let Poll::Ready(result) = timer.poll_fired(cx) {
                    result?;
                    self.armed = None;
                }
                self.armed.get_or_insert(far);
                Poll::Pending
            }
            Kind::Tokio(_) => self.poll_until(cx, far),
        }
    }

    /// The deadline has moved: a task that waits is woken no later than at the new one. Costs
    /// nothing unless the timer is armed for later.
    pub(crate) fn bring_forward(&mut self, deadline: Instant) -> io::Result<()> {
        if self.armed.is_none_or(|armed| armed <= deadline) {
            return Ok(());
        }
        match &mut self.kind {
            Kind::Native(timer) => timer.arm(deadline)?,
            Kind::Tokio(sleep) => sleep.as_mut().reset(deadline.into()),
        }
        self.armed = Some(deadline);
        Ok(())
    }
}

#[allow(clippy::disallowed_methods, reason = "a native timer follows the kernel's clock")]
pub(crate) fn real_now() -> Instant {
    Instant::now()
}

/// Reads a clock until it has reached `due`, and returns what it read last.
#[cfg(feature = "interval")]
pub(crate) fn spin_until(due: Instant, clock: impl Fn() -> Instant) -> Instant {
    /// A pause of the CPU between two readings is good for its other hyperthread; this close to the
    /// end, where it would make the step in which time is seen to pass half as long again, there is
    /// none.
    const CLOSE: Duration = Duration::from_micros(1);
    let close = due.checked_sub(CLOSE).unwrap_or(due);
    let mut now = clock();
    while now < due {
        if now < close {
            std::hint::spin_loop();
        }
        now = clock();
    }
    now
}

/// Runs `make` where a tokio runtime is there to register with; an error, not a panic, where it is
/// not or where its drivers are disabled. tokio reports the latter by a panic only, which is caught
/// here (the panic hook still sees it).
pub(crate) fn on_runtime<T>(make: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    tokio::runtime::Handle::try_current()
        .map_err(|error| io::Error::new(io::ErrorKind::NotConnected, error))?;
    catch_unwind(AssertUnwindSafe(make)).unwrap_or_else(|_| {
        Err(io::Error::new(
            io::ErrorKind::NotConnected,
            "the tokio runtime has its I/O or time driver disabled; call enable_all() on its builder",
        ))
    })
}
