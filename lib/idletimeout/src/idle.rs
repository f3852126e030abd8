//! The idle timeout, and the guard that puts a wait under it.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::task::coop;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::clock::{Clock, TachClock, is_tokio_clock_shifted};

/// The time for which the timer is armed if no instant can represent its deadline: 30 years.
const MAX_SLEEP: Duration = Duration::from_secs(30 * 365 * 86_400);
/// The resolution of tokio's timer wheel, which wakes no task earlier.
const TIMER_RESOLUTION: Duration = Duration::from_millis(1);

pin_project! {
    /// A timeout that fires when nothing has come for a given time. The [crate] defines exactly
    /// what that means.
    ///
    /// It is also a future, for `select!`. The future completes when the timeout fires, and may be
    /// polled again for the next time.
    ///
    /// # Cancel safety
    /// The timeout keeps its state between polls. Dropping a future that borrows it, such as a
    /// [`Guard`], loses only that future.
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
    #[must_use = "a timeout does nothing unless it is polled"]
    pub struct IdleTimeout<C: Clock = TachClock> {
        clock: C,
        length: Duration,
        // The share of the length by which the timeout may fire late; zero without slack.
        slack: f64,
        // The stamp of the last silence. It is outdated if `has_activity` is set.
        silence_start: C::Stamp,
        // Whether stamps are on tokio's clock, because that was not the real one at the last check.
        is_clock_shifted: bool,
        // The start of the last silence on tokio's clock. `None` if it was only stamped with
        // `clock`, which happens if a test pauses tokio's clock between two checks.
        tokio_start: Option<Instant>,
        // Whether something came after `silence_start`, so that the next silence needs a stamp.
        has_activity: bool,
        #[pin]
        sleep: Sleep,
        // The waker of the task that the armed timer wakes. `None` if the timer is not registered,
        // or is known to have expired.
        waker: Option<Waker>,
        registrations: u64,
        // Whether a firing was deferred because the task had used up its cooperative budget.
        is_deferred: bool,
    }
}

impl IdleTimeout {
    /// Creates a timeout of `length` from now, which reads the CPU counter. [`IdleTimeout`] has an
    /// example.
    ///
    /// # Panics
    /// Panics outside of a tokio runtime with its time driver enabled.
    pub fn new(length: Duration) -> Self {
        Self::with_clock(length, TachClock)
    }
}

impl<C: Clock> IdleTimeout<C> {
    /// Creates a timeout of `length` from now, which reads `clock`.
    ///
    /// # Panics
    /// Panics outside of a tokio runtime with its time driver enabled.
    ///
    /// # Examples
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
    /// use std::{pin::pin, time::Duration};
    /// use idletimeout::{IdleTimeout, TokioClock};
    ///
    /// // Tokio's clock, here paused: an hour passes at once.
    /// let hour = Duration::from_secs(3_600);
    /// let mut idle = pin!(IdleTimeout::with_clock(hour, TokioClock));
    /// let start = tokio::time::Instant::now();
    /// idle.as_mut().await;
    /// assert_eq!(start.elapsed(), hour);
    /// # });
    /// ```
    pub fn with_clock(length: Duration, clock: C) -> Self {
        let silence_start = clock.now();
        let is_clock_shifted = clock.yields_to_paused_clock() && is_tokio_clock_shifted();
        let now = Instant::now();
        Self {
            clock,
            length,
            slack: 0.0,
            silence_start,
            is_clock_shifted,
            tokio_start: Some(now),
            has_activity: false,
            sleep: sleep_until(add_or_far(now, length)),
            waker: None,
            registrations: 0,
            is_deferred: false,
        }
    }

    /// Lets the timeout fire late by up to `share` of its length, so that neither a touch nor a
    /// wait reads the clock. Each of them is one store, and the timer checks several times per
    /// length whether there was one.
    ///
    /// The timeout fires between its length and `1 + share` times its length after the last touch
    /// or wait, and never early. A share of less than 2 ms has the effect of 2 ms; a share of 0
    /// disables the slack. Each check wakes the task.
    ///
    /// # Panics
    /// Panics if `share` is not from 0 to 1.
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
    pub fn slack(mut self, share: f64) -> Self {
        assert!((0.0..=1.0).contains(&share), "invalid slack {share}: expected 0 to 1");
        self.slack = share;
        self.sleep = sleep_until(deadline_in(self.time_to_next_check(self.length)));
        self
    }

    /// Restarts the length, because something happened. This reads the clock once or, with a
    /// [`slack`](Self::slack), only sets a flag. [`IdleTimeout`] has an example.
    #[inline]
    pub fn touch(self: Pin<&mut Self>) {
        if self.slack > 0.0 {
            *self.project().has_activity = true;
        } else {
            self.stamp_silence();
        }
    }

    /// Stamps a silence that begins now.
    #[inline]
    fn stamp_silence(self: Pin<&mut Self>) {
        let this = self.project();
        *this.has_activity = false;
        *this.tokio_start = this.is_clock_shifted.then(Instant::now);
        *this.silence_start = this.clock.now();
    }

    /// Ends the silence because a wait has completed. The next silence begins with the next wait
    /// that is pending.
    #[inline]
    pub(crate) fn end_silence(self: Pin<&mut Self>) {
        *self.project().has_activity = true;
    }

    /// Stamps the silence because a wait is pending, unless it is already stamped. With a slack,
    /// the next check stamps it instead.
    #[inline]
    fn begin_silence(self: Pin<&mut Self>) {
        if self.has_activity && self.slack <= 0.0 {
            self.stamp_silence();
        }
    }

    /// Returns the time for which the timer may be armed, if the timeout would fire in `remaining`.
    fn time_to_next_check(&self, remaining: Duration) -> Duration {
        if self.slack <= 0.0 {
            return remaining;
        }
        // As a float, a length close to the maximum of durations exceeds that.
        let slack_secs = self.length.as_secs_f64() * self.slack;
        let slack = Duration::try_from_secs_f64(slack_secs).unwrap_or(self.length);
        // A check may be late by the resolution of the timer.
        let interval = slack.saturating_sub(TIMER_RESOLUTION).max(slack / 2);
        remaining.min(interval.max(TIMER_RESOLUTION))
    }

    /// Waits for `future`, or until nothing has happened for the length of this timeout.
    ///
    /// A wait that completes ends the silence, and the next silence begins when a later wait is
    /// pending. So the clock is not read for a wait that is ready at once, and the time that a loop
    /// spends on a message does not count, as with [`tokio::time::timeout`] around each wait. To
    /// count that time, [`touch`](Self::touch) before the work.
    ///
    /// The future is polled first, so a ready result is returned even if the timeout has elapsed.
    ///
    /// # Cancel safety
    /// The guard is cancel safe if `future` is.
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

    /// Returns the time of silence after which the timeout fires.
    #[must_use]
    pub fn length(&self) -> Duration {
        self.length
    }

    /// Sets another length, which is also counted from the beginning of the silence.
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
        let remaining = length.saturating_sub(self.idle_for());
        let time_to_check = self.time_to_next_check(remaining);
        let mut this = self.project();
        this.sleep.as_mut().reset(deadline_in(time_to_check));
        *this.registrations += 1;
        // The next poll registers the polling task, or fires if the new length is already over.
        *this.waker = None;
    }

    /// Returns how long the silence has lasted: the time since the last touch, firing, or first
    /// pending wait after a wait that completed. Zero if a silence has not begun since something
    /// came or, with a [`slack`](Self::slack), if no check has run since.
    #[must_use]
    pub fn idle_for(&self) -> Duration {
        if self.has_activity {
            return Duration::ZERO;
        }
        match self.tokio_start {
            Some(start) if self.should_use_tokio_clock() => start.elapsed(),
            _ => self.clock.elapsed(self.silence_start),
        }
    }

    /// Returns how often a timer has been registered with the runtime. This happens at the first
    /// wait, and then at most about once per length, or per check of a [`slack`](Self::slack). The
    /// number of touches does not matter.
    #[must_use]
    pub fn registrations(&self) -> u64 {
        self.registrations
    }

    /// Returns ready if the timeout fires now. Otherwise the task is woken when the armed timer
    /// expires.
    ///
    /// A firing consumes tokio's cooperative budget. A spent budget defers it, but only once.
    /// Otherwise the timeout would never fire if the guarded future spends the budget at every
    /// poll.
    #[inline]
    pub(crate) fn poll_idle(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.as_mut().project();
        let is_same_task = this.waker.as_ref().is_some_and(|w| w.will_wake(cx.waker()));
        if is_same_task && !this.sleep.is_elapsed() {
            // The clock is read last, so that no load from memory waits for it.
            self.begin_silence();
            return Poll::Pending;
        }
        self.poll_timer(cx)
    }

    /// Polls the timer until it is pending or the timeout fires.
    #[cold]
    fn poll_timer(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.as_mut().begin_silence();
        loop {
            let this = self.as_mut().project();
            // A spent budget must not prevent the registration of the waker, on which later polls
            // rely.
            if pin!(coop::unconstrained(this.sleep)).poll(cx).is_pending() {
                self.set_waker(cx);
                return Poll::Pending;
            }
            let remaining = self.as_mut().check_silence();
            if remaining.is_zero() {
                return self.fire(cx);
            }
            let time_to_check = self.time_to_next_check(remaining);
            let this = self.as_mut().project();
            this.sleep.reset(deadline_in(time_to_check));
            *this.registrations += 1;
        }
    }

    /// Stores the waker of the task that the timer wakes.
    fn set_waker(self: Pin<&mut Self>, cx: &mut Context<'_>) {
        let this = self.project();
        match this.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => {
                *this.waker = Some(cx.waker().clone());
                // A registration after a reset has been counted by the reset.
                *this.registrations = (*this.registrations).max(1);
            }
        }
    }

    /// Returns whether tokio's clock is not the real one, and the timeout follows it then.
    fn should_use_tokio_clock(&self) -> bool {
        self.clock.yields_to_paused_clock() && is_tokio_clock_shifted()
    }

    /// Returns the time until the timeout would fire, after its timer has expired.
    fn check_silence(mut self: Pin<&mut Self>) -> Duration {
        let is_clock_shifted = self.should_use_tokio_clock();
        let mut this = self.as_mut().project();
        *this.is_clock_shifted = is_clock_shifted;
        *this.waker = None;
        if *this.has_activity {
            // The activity was at some time since the last check, so no later than now.
            self.as_mut().stamp_silence();
            this = self.project();
        }
        if is_clock_shifted {
            // If the clock was paused after the stamp, the silence is taken to begin now: the
            // timeout may be late once, but not early.
            let start = *this.tokio_start.get_or_insert_with(Instant::now);
            return this.length.saturating_sub(start.elapsed());
        }
        let needed = this.length.saturating_add(this.clock.error_bound());
        needed.saturating_sub(this.clock.elapsed(*this.silence_start))
    }

    /// Fires and begins a new silence, unless the cooperative budget defers the firing.
    fn fire(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        match coop::poll_proceed(cx) {
            Poll::Ready(budget) => budget.made_progress(),
            // Tokio has woken the task for another poll.
            Poll::Pending if !std::mem::replace(this.is_deferred, true) => return Poll::Pending,
            Poll::Pending => {}
        }
        *this.is_deferred = false;
        *this.tokio_start = Some(Instant::now());
        *this.silence_start = this.clock.now();
        Poll::Ready(())
    }
}

/// Returns the instant `length` from now, or one in the far future if that is not representable.
fn deadline_in(length: Duration) -> Instant {
    add_or_far(Instant::now(), length)
}

/// Returns the instant `length` after `now`, or one in the far future if that is not representable.
fn add_or_far(now: Instant, length: Duration) -> Instant {
    now.checked_add(length).unwrap_or_else(|| now + MAX_SLEEP)
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
    /// A future under an [`IdleTimeout`]. It is created by [`IdleTimeout::guard`].
    ///
    /// # Cancel safety
    /// Dropping the guard drops the future inside. The timeout keeps its state.
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
            this.idle.as_mut().end_silence();
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

/// The error of a guarded wait if nothing came for the length of the [`IdleTimeout`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed(pub(crate) ());

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("idle timeout elapsed")
    }
}

impl std::error::Error for Elapsed {}
