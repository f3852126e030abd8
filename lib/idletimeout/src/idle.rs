//! The timeout, and the wait that it guards.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::task::coop;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::clock::{Clock, TachClock};

/// What a length that no instant can hold is cut to: nobody waits for it.
const FAR_FUTURE: Duration = Duration::from_secs(30 * 365 * 86_400);

pin_project! {
    /// Fires when nothing has touched it for a given time; the [crate] defines exactly what that means.
    ///
    /// It is a future as well, for `select!`: it completes when it fires, and may be polled again for the next time.
    ///
    /// # Cancel safety
    /// It keeps its state between polls: dropping a future that borrows it, such as a [`Guard`], loses nothing but that
    /// future.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// use std::{pin::pin, time::Duration};
    /// use idletimeout::IdleTimeout;
    ///
    /// let mut idle = pin!(IdleTimeout::new(Duration::from_millis(20)));
    /// let mut beats = tokio::time::interval(Duration::from_millis(1));
    /// for _ in 0..10 {
    ///     tokio::select! {
    ///         _ = beats.tick() => idle.as_mut().touch(),
    ///         elapsed = idle.as_mut() => println!("{elapsed}, for {:?}", idle.length()),
    ///     }
    /// }
    /// println!("idle for {:?}; {} timers registered", idle.idle_for(), idle.registrations());
    /// # }
    /// ```
    pub struct IdleTimeout<C: Clock = TachClock> {
        clock: C,
        length: Duration,
        last: C::Stamp,
        #[pin]
        sleep: Sleep,
        // The task that the armed timer wakes. `None` while it is not registered, or known to have expired.
        waker: Option<Waker>,
        registrations: u64,
        // A firing was deferred because the task had used up its cooperative budget.
        deferred: bool,
    }
}

impl IdleTimeout {
    /// A timeout of `length`, stamped from the CPU counter and counted from now. [`IdleTimeout`] has an example.
    ///
    /// # Panics
    /// Outside a tokio runtime with its time driver enabled.
    #[must_use]
    pub fn new(length: Duration) -> Self {
        Self::with_clock(length, TachClock)
    }
}

impl<C: Clock> IdleTimeout<C> {
    /// A timeout of `length`, stamped from `clock` and counted from now.
    ///
    /// # Panics
    /// Outside a tokio runtime with its time driver enabled.
    ///
    /// # Examples
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
    /// use std::{pin::pin, time::Duration};
    /// use idletimeout::{IdleTimeout, TokioClock};
    ///
    /// // The test's clock is paused: an hour passes at once.
    /// let hour = Duration::from_secs(3_600);
    /// let mut idle = pin!(IdleTimeout::with_clock(hour, TokioClock));
    /// let start = tokio::time::Instant::now();
    /// idle.as_mut().await;
    /// assert_eq!(start.elapsed(), hour);
    /// # });
    /// ```
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
            deferred: false,
        }
    }

    /// Starts the length anew: something happened. Stores one stamp. [`IdleTimeout`] has an example.
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
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// use std::{future::pending, pin::pin, time::Duration};
    /// let mut idle = pin!(idletimeout::IdleTimeout::new(Duration::from_millis(2)));
    /// assert_eq!(idle.as_mut().guard(async { "ready" }).await, Ok("ready"));
    /// assert!(idle.as_mut().guard(pending::<()>()).await.is_err());
    /// # }
    /// ```
    #[inline]
    pub fn guard<F: Future>(self: Pin<&mut Self>, future: F) -> Guard<'_, F, C> {
        Guard { idle: self, future }
    }

    /// The time without a touch after which it fires.
    #[must_use]
    pub fn length(&self) -> Duration {
        self.length
    }

    /// Sets another length, counted from the last touch as well.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// use std::{pin::pin, time::Duration};
    /// let mut idle = pin!(idletimeout::IdleTimeout::new(Duration::from_secs(3_600)));
    /// idle.as_mut().set_length(Duration::from_millis(2));
    /// idle.as_mut().await;
    /// # }
    /// ```
    pub fn set_length(self: Pin<&mut Self>, length: Duration) {
        let mut this = self.project();
        *this.length = length;
        let left = length.saturating_sub(this.clock.elapsed(*this.last));
        this.sleep.as_mut().reset(from_now(left));
        *this.registrations += 1;
        // The next poll registers whoever polls, and finds out if it is over already.
        *this.waker = None;
    }

    /// The time since the last touch or firing.
    #[must_use]
    pub fn idle_for(&self) -> Duration {
        self.clock.elapsed(self.last)
    }

    /// How often a timer has been registered with the runtime: at the first wait, and then at most about once per length,
    /// however many touches there were.
    #[must_use]
    pub fn registrations(&self) -> u64 {
        self.registrations
    }

    /// Ready if it fires now; if not, wakes the task when the armed timer expires.
    ///
    /// Takes from tokio's cooperative budget when it fires. A spent budget defers it, but only once: beside a future that
    /// spends the budget at every poll it would otherwise never fire.
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
                    Poll::Pending if !std::mem::replace(this.deferred, true) => return Poll::Pending,
                    Poll::Pending => {}
                }
                *this.deferred = false;
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
    /// A future under an [`IdleTimeout`], from [`IdleTimeout::guard`].
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

/// The error of a guarded wait: nothing touched the [`IdleTimeout`] for its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed(pub(crate) ());

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing came within the idle timeout")
    }
}

impl std::error::Error for Elapsed {}
