//! The timeout itself, and the wait that it guards.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::task::coop;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::clock::{Clock, TachClock};

/// A length that no instant can tell stands for this: nobody waits for it.
const FAR_FUTURE: Duration = Duration::from_secs(30 * 365 * 86_400);

pin_project! {
    /// Fires when nothing has touched it for a given time. See the [crate] for what that means exactly.
    ///
    /// It is a future as well, for `select!`: it completes when it fires, and may be polled again for the next time.
    ///
    /// # Cancel safety
    ///
    /// It keeps its state between polls: dropping a future that borrows it, a [`Guard`] among them, loses nothing but
    /// that future.
    pub struct IdleTimeout<C: Clock = TachClock> {
        clock: C,
        length: Duration,
        last: C::Stamp,
        #[pin]
        sleep: Sleep,
        // Whom the armed timer wakes. `None` while it is not registered, or known to have run out.
        waker: Option<Waker>,
        registrations: u64,
        // A firing was put off, because the task had used its cooperative budget up.
        put_off: bool,
    }
}

impl IdleTimeout {
    /// A timeout that is stamped from the CPU counter; idle from now on.
    ///
    /// # Panics
    /// Outside a tokio runtime with its time driver enabled.
    #[must_use]
    pub fn new(length: Duration) -> Self {
        Self::with_clock(length, TachClock)
    }
}

impl<C: Clock> IdleTimeout<C> {
    /// A timeout that is stamped from `clock`; idle from now on.
    ///
    /// # Panics
    /// Outside a tokio runtime with its time driver enabled.
    #[must_use]
    pub fn with_clock(length: Duration, clock: C) -> Self {
        let last = clock.now();
        Self {
            clock,
            length,
            last,
            sleep: sleep_until(from_now(length)),
            waker: None,
            registrations: 0,
            put_off: false,
        }
    }

    /// Says that something happened: from here on it takes the whole length again. Stores one stamp.
    #[inline]
    pub fn touch(self: Pin<&mut Self>) {
        let this = self.project();
        *this.last = this.clock.now();
    }

    /// Waits for `future`, or until nothing has touched this for its length. The future's completion is a touch.
    ///
    /// The future is polled first: what is there is delivered, however late.
    ///
    /// # Cancel safety
    /// That of `future`.
    #[inline]
    pub fn guard<F: Future>(self: Pin<&mut Self>, future: F) -> Guard<'_, F, C> {
        Guard { idle: self, future }
    }

    /// The time without a touch after which it fires.
    #[must_use]
    pub fn length(&self) -> Duration {
        self.length
    }

    /// Another length, counted from the last touch too.
    pub fn set_length(self: Pin<&mut Self>, length: Duration) {
        let mut this = self.project();
        *this.length = length;
        let left = length.saturating_sub(this.clock.elapsed(*this.last));
        this.sleep.as_mut().reset(from_now(left));
        *this.registrations += 1;
        // The next poll registers whoever polls, and finds out if it is over already.
        *this.waker = None;
    }

    /// Time since the last touch or firing.
    #[must_use]
    pub fn idle_for(&self) -> Duration {
        self.clock.elapsed(self.last)
    }

    /// How often a timer was registered with the runtime so far: at the first wait, and then at most about once in a
    /// length, however many touches there were.
    #[must_use]
    pub fn registrations(&self) -> u64 {
        self.registrations
    }

    /// Whether it fires now; if not, wakes the task when the armed timer runs out.
    ///
    /// Takes from tokio's cooperative budget when it fires. A budget that is spent puts it off, but only once: beside a
    /// future that spends it at every poll it would else never fire.
    #[inline]
    pub(crate) fn poll_idle(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.as_mut().project();
        let same_task = this.waker.as_ref().is_some_and(|w| w.will_wake(cx.waker()));
        if same_task && !this.sleep.is_elapsed() {
            return Poll::Pending;
        }
        self.poll_timer(cx)
    }

    #[cold]
    fn poll_timer(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        loop {
            // A spent budget must not keep the waker from being registered: what follows relies on it.
            if pin!(coop::unconstrained(this.sleep.as_mut())).poll(cx).is_pending() {
                match this.waker {
                    Some(waker) => waker.clone_from(cx.waker()),
                    None => {
                        *this.waker = Some(cx.waker().clone());
                        // A timer that has just been reset is counted there.
                        *this.registrations = (*this.registrations).max(1);
                    }
                }
                return Poll::Pending;
            }
            *this.waker = None;
            let needed = this.length.saturating_add(this.clock.error_bound());
            let left = needed.saturating_sub(this.clock.elapsed(*this.last));
            if left.is_zero() {
                match coop::poll_proceed(cx) {
                    Poll::Ready(budget) => budget.made_progress(),
                    // The budget's owner has been woken for another poll.
                    Poll::Pending if !std::mem::replace(this.put_off, true) => return Poll::Pending,
                    Poll::Pending => {}
                }
                *this.put_off = false;
                *this.last = this.clock.now();
                return Poll::Ready(());
            }
            this.sleep.as_mut().reset(from_now(left));
            *this.registrations += 1;
        }
    }
}

fn from_now(length: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(length).unwrap_or_else(|| now + FAR_FUTURE)
}

impl<C: Clock> Future for IdleTimeout<C> {
    type Output = Elapsed;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Elapsed> {
        self.poll_idle(cx).map(|()| Elapsed(()))
    }
}

impl<C: Clock> fmt::Debug for IdleTimeout<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdleTimeout").field("length", &self.length).field("idle_for", &self.idle_for()).finish()
    }
}

pin_project! {
    /// A future under an [`IdleTimeout`]; made by [`IdleTimeout::guard`].
    #[must_use = "a future does nothing unless it is awaited"]
    pub struct Guard<'a, F, C: Clock = TachClock> {
        idle: Pin<&'a mut IdleTimeout<C>>,
        #[pin]
        future: F,
    }
}

impl<F: Future, C: Clock> Future for Guard<'_, F, C> {
    type Output = Result<F::Output, Elapsed>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(value) = this.future.poll(cx) {
            this.idle.as_mut().touch();
            return Poll::Ready(Ok(value));
        }
        this.idle.as_mut().poll_idle(cx).map(|()| Err(Elapsed(())))
    }
}

impl<F, C: Clock> fmt::Debug for Guard<'_, F, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("idle", &self.idle).finish_non_exhaustive()
    }
}

/// Nothing touched an [`IdleTimeout`] for its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed(pub(crate) ());

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing came within the idle timeout")
    }
}

impl std::error::Error for Elapsed {}
