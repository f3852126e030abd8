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
/// Tokio's wheel turns once in this time, and wakes nobody sooner.
const RESOLUTION: Duration = Duration::from_millis(1);

pin_project! {
    /// Fires when nothing has come for a given time; the [crate] defines exactly what that means.
    ///
    /// It is a future as well, for `select!`: it completes when it fires, and may be polled again
    /// for the next time.
    ///
    /// # Cancel safety
    /// It keeps its state between polls: dropping a future that borrows it, such as a [`Guard`],
    /// loses nothing but that future.
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
        // Share of the length by which it may fire late; zero for none.
        slack: f64,
        // When the silence began, unless something came.
        last: C::Stamp,
        // Something came; the silence that follows has not been stamped yet.
        came: bool,
        #[pin]
        sleep: Sleep,
        // The task that the armed timer wakes. `None` while it is not registered, or known to have
        // expired.
        waker: Option<Waker>,
        registrations: u64,
        // A firing was deferred because the task had used up its cooperative budget.
        deferred: bool,
    }
}

impl IdleTimeout {
    /// A timeout of `length`, stamped from the CPU counter and counted from now. [`IdleTimeout`]
    /// has an example.
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
            slack: 0.0,
            last,
            came: false,
            sleep: sleep_until(from_now(length)),
            waker: None,
            registrations: 0,
            deferred: false,
        }
    }

    /// Lets it fire up to `share` of its length late, so that neither a touch nor a wait ever reads
    /// the clock: each is one store, and the timer looks several times a length whether there was
    /// one. It fires between its length and `1 + share` times that after the last, never early; a
    /// share of less than 2 ms counts as that much.
    ///
    /// Each look wakes the task, which finds nothing to do. A share of 0 is no slack.
    ///
    /// # Panics
    /// If `share` is not from 0 to 1.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// use std::{pin::pin, time::Duration};
    /// // Between 10 and 11 seconds of silence.
    /// let mut idle = pin!(idletimeout::IdleTimeout::new(Duration::from_secs(10)).slack(0.1));
    /// assert_eq!(idle.as_mut().guard(async { "ready" }).await, Ok("ready"));
    /// # }
    /// ```
    #[must_use]
    pub fn slack(mut self, share: f64) -> Self {
        assert!((0.0..=1.0).contains(&share), "a slack of {share} is not from 0 to 1");
        self.slack = share;
        self.sleep = sleep_until(from_now(self.next_look(self.length)));
        self
    }

    /// Starts the length anew: something happened. Stores one stamp; with a [`slack`](Self::slack),
    /// a flag. [`IdleTimeout`] has an example.
    #[inline]
    pub fn touch(self: Pin<&mut Self>) {
        let this = self.project();
        if *this.slack > 0.0 {
            *this.came = true;
        } else {
            *this.last = this.clock.now();
            *this.came = false;
        }
    }

    /// What is waited for has come: the silence begins with the next wait.
    #[inline]
    pub(crate) fn come(self: Pin<&mut Self>) {
        *self.project().came = true;
    }

    /// A wait finds nothing there: stamps the silence, unless it has begun, or a look will tell.
    #[inline]
    fn begin_silence(self: Pin<&mut Self>) {
        let this = self.project();
        if *this.came && *this.slack <= 0.0 {
            *this.came = false;
            *this.last = this.clock.now();
        }
    }

    /// How long the timer may be left alone, of what is left until it would fire.
    fn next_look(&self, left: Duration) -> Duration {
        if self.slack <= 0.0 {
            return left;
        }
        // A look may be late by a resolution.
        let slack = self.length.mul_f64(self.slack);
        left.min(slack.saturating_sub(RESOLUTION).max(slack / 2).max(RESOLUTION))
    }

    /// Waits for `future`, or until nothing has happened for the length of this timeout.
    ///
    /// A wait that completes ends the silence, and the next begins when a later wait finds nothing
    /// there: the clock is not read for a wait that is ready at once, and the time that a loop
    /// spends on a message does not count, as with [`tokio::time::timeout`] around each wait. To
    /// have it count, [`touch`](Self::touch) before the work.
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

    /// Sets another length, counted from the beginning of the silence as well.
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
    pub fn set_length(mut self: Pin<&mut Self>, length: Duration) {
        *self.as_mut().project().length = length;
        let next_look = self.next_look(length.saturating_sub(self.idle_for()));
        let mut this = self.project();
        this.sleep.as_mut().reset(from_now(next_look));
        *this.registrations += 1;
        // The next poll registers whoever polls, and finds out if it is over already.
        *this.waker = None;
    }

    /// How long the silence has lasted: the time since the last touch, firing, or beginning of a
    /// wait after one that completed. Zero if none has begun since something came; with a
    /// [`slack`](Self::slack), if no look has found it over.
    #[must_use]
    pub fn idle_for(&self) -> Duration {
        if self.came { Duration::ZERO } else { self.clock.elapsed(self.last) }
    }

    /// How often a timer has been registered with the runtime: at the first wait, and then at most
    /// about once per length, or per look of a [`slack`](Self::slack), however many touches there
    /// were.
    #[must_use]
    pub fn registrations(&self) -> u64 {
        self.registrations
    }

    /// Ready if it fires now; if not, wakes the task when the armed timer expires.
    ///
    /// Takes from tokio's cooperative budget when it fires. A spent budget defers it, but only
    /// once: beside a future that spends the budget at every poll it would otherwise never fire.
    #[inline]
    pub(crate) fn poll_idle(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.as_mut().project();
        let same_task = this.waker.as_ref().is_some_and(|w| w.will_wake(cx.waker()));
        if same_task && !this.sleep.is_elapsed() {
            // Last: nothing that is read from memory then waits for the clock.
            self.begin_silence();
            return Poll::Pending;
        }
        self.poll_timer(cx)
    }

    #[cold]
    fn poll_timer(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.as_mut().begin_silence();
        loop {
            let this = self.as_mut().project();
            // A spent budget must not keep the waker from being registered: what follows relies on
            // it.
            if pin!(coop::unconstrained(this.sleep)).poll(cx).is_pending() {
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
            if std::mem::take(this.came) {
                // At some time since the last look, so no later than now.
                *this.last = this.clock.now();
            }
            let needed = this.length.saturating_add(this.clock.error_bound());
            let left = needed.saturating_sub(this.clock.elapsed(*this.last));
            if left.is_zero() {
                match coop::poll_proceed(cx) {
                    Poll::Ready(budget) => budget.made_progress(),
                    // The budget's owner has been woken for another poll.
                    Poll::Pending if !std::mem::replace(this.deferred, true) => {
                        return Poll::Pending;
                    }
                    Poll::Pending => {}
                }
                *this.deferred = false;
                *this.last = this.clock.now();
                return Poll::Ready(());
            }
            let next_look = self.next_look(left);
            let this = self.as_mut().project();
            this.sleep.reset(from_now(next_look));
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
        f.debug_struct("IdleTimeout")
            .field("length", &self.length)
            .field("idle_for", &self.idle_for())
            .finish()
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
            this.idle.as_mut().come();
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

/// The error of a guarded wait: nothing came for the length of the [`IdleTimeout`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed(pub(crate) ());

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing came within the idle timeout")
    }
}

impl std::error::Error for Elapsed {}
