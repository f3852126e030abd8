//! Timers that are never early, never rounded, and cancelled when dropped.
//!
//! A deadline is an [`Instant`]. A spinning loop checks the timers in every turn and wakes a task
//! slightly before its deadline. This [lead](crate::Builder::timer_lead) covers the delay from the
//! loop to the task; the task spins for the rest. A parked thread sets its timer to the exact
//! nanosecond (on Windows, to the next millisecond) and is late by the kernel's wake-up latency.
//!
//! A timer belongs to the runtime in which it was created and completes while that runtime runs. A
//! timer that outlives its runtime panics when it is polled before its deadline, because it would
//! otherwise wait forever. If a task of another runtime waits for such a timer, the task is woken
//! and then panics.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

pub use cadence::MissedTickBehavior;
use pin_project_lite::pin_project;

use crate::budget;
use crate::clock::now;
use crate::context;
use crate::executor::Executor;
use crate::timer_queue::TimerKey;

/// Replaces a delay after which no `Instant` is representable: about 30 years.
const FAR_FUTURE: Duration = Duration::from_secs(86_400 * 365 * 30);

fn deadline_after(duration: Duration) -> Instant {
    let now = now();
    now.checked_add(duration).unwrap_or_else(|| now + FAR_FUTURE)
}

/// Waits until `duration` has passed.
///
/// ```
/// use busypoll::{Runtime, time};
/// use std::time::{Duration, Instant};
///
/// Runtime::new()?.block_on(async {
///     let start = Instant::now();
///     time::sleep(Duration::from_micros(250)).await;
///     assert!(start.elapsed() >= Duration::from_micros(250));
///
///     time::sleep_until(start + Duration::from_millis(1)).await;
///     assert!(start.elapsed() >= Duration::from_millis(1));
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Panics
/// Panics outside [`block_on`](crate::Runtime::block_on).
pub fn sleep(duration: Duration) -> Sleep {
    sleep_until(deadline_after(duration))
}

/// Waits until `deadline`. See [`sleep`].
///
/// # Panics
/// Panics outside [`block_on`](crate::Runtime::block_on).
pub fn sleep_until(deadline: Instant) -> Sleep {
    let executor = context::current();
    Sleep { uses_lead: true, lead: executor.timer_lead.get(), executor, deadline, key: None }
}

/// Waits like [`sleep_until`], but without a lead, so that a future that is raced against the timer
/// is polled until the deadline.
fn sleep_without_lead(deadline: Instant) -> Sleep {
    Sleep {
        uses_lead: false,
        lead: Duration::ZERO,
        executor: context::current(),
        deadline,
        key: None,
    }
}

/// Waits until `deadline`, then runs the future.
///
/// ```
/// use busypoll::{Runtime, time};
/// use std::time::{Duration, Instant};
///
/// Runtime::new()?.block_on(async {
///     let deadline = Instant::now() + Duration::from_micros(100);
///     assert_eq!(time::after(deadline, async { 1 }).await, 1);
///     assert!(Instant::now() >= deadline);
///
///     time::after_delay(Duration::from_micros(100), async {}).await;
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Cancel safety
/// Cancel safe if the future is. Before the deadline, dropping it cancels the timer.
///
/// # Panics
/// Panics outside [`block_on`](crate::Runtime::block_on), at the first poll.
pub async fn after<F: Future>(deadline: Instant, future: F) -> F::Output {
    sleep_until(deadline).await;
    future.await
}

/// Waits for `delay`, counted from the first poll, then runs the future. See [`after`].
///
/// # Cancel safety
/// Cancel safe if the future is, like [`after`].
///
/// # Panics
/// Panics outside [`block_on`](crate::Runtime::block_on), at the first poll.
pub async fn after_delay<F: Future>(delay: Duration, future: F) -> F::Output {
    sleep(delay).await;
    future.await
}

/// The future returned by [`sleep`] and [`sleep_until`]. It is neither `Send` nor `Sync`.
///
/// # Panics
/// Panics if polled before its deadline after its runtime has been dropped.
///
/// # Cancel safety
/// Dropping the future cancels the timer and frees its memory at once, in time logarithmic in the
/// number of timers.
#[must_use = "futures do nothing unless polled"]
pub struct Sleep {
    executor: Rc<Executor>,
    deadline: Instant,
    /// Whether the task is woken a lead before the deadline.
    uses_lead: bool,
    /// The lead of the last registration.
    lead: Duration,
    key: Option<TimerKey>,
}

impl Sleep {
    /// Returns the deadline.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Sets a new deadline. A task that waits is woken at the new one; if that is later, it may also
    /// be polled at the old one.
    ///
    /// ```
    /// use busypoll::{Runtime, time};
    /// use std::time::{Duration, Instant};
    ///
    /// Runtime::new()?.block_on(async {
    ///     let mut sleep = std::pin::pin!(time::sleep(Duration::from_secs(3600)));
    ///     sleep.reset(Instant::now());
    ///     sleep.await;
    /// });
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn reset(&mut self, deadline: Instant) {
        self.deadline = deadline;
        let wake_time = self.wake_time();
        // A task that is woken too early registers again.
        self.key = self.key.map(|key| self.executor.timers.advance(key, wake_time));
    }

    fn wake_time(&self) -> Instant {
        self.deadline.checked_sub(self.lead).unwrap_or(self.deadline)
    }

    fn cancel(&mut self) {
        if let Some(key) = self.key.take() {
            self.executor.timers.cancel(key);
        }
    }

    /// Polls the timer without checking or spending the task's budget.
    fn poll_unbudgeted(&mut self, cx: &Context<'_>) -> Poll<()> {
        let timers = &self.executor.timers;
        if timers.is_past(self.deadline) {
            return Poll::Ready(());
        }
        let polled_at = now();
        if polled_at >= self.wake_time() {
            if self.key.is_some() {
                self.executor.timer_lead.record_arrival(polled_at);
            }
            if polled_at < self.deadline {
                while now() < self.deadline {}
            }
            return Poll::Ready(());
        }
        assert!(!timers.is_closed(), "the runtime of this timer has been dropped");
        if self.uses_lead {
            self.lead = self.executor.timer_lead.get();
        }
        // Registers in every poll, since a timer that has fired is not registered any more.
        let key = timers.register(self.key, self.wake_time(), cx.waker());
        self.key = Some(key);
        Poll::Pending
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        ready!(budget::poll_proceed(cx));
        ready!(self.poll_unbudgeted(cx));
        budget::spend();
        Poll::Ready(())
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").field("deadline", &self.deadline).finish()
    }
}

/// The error returned when the time runs out before the future is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed(());

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("deadline has elapsed")
    }
}

impl std::error::Error for Elapsed {}

pin_project! {
    /// The future returned by [`timeout`] and [`timeout_at`]. It is neither `Send` nor `Sync`.
    ///
    /// # Panics
    /// Panics in the same cases as [`Sleep`].
    ///
    /// # Cancel safety
    /// Dropping the future drops the future inside and cancels the timer.
    #[must_use = "futures do nothing unless polled"]
    #[derive(Debug)]
    pub struct Timeout<F> {
        #[pin]
        future: F,
        #[pin]
        sleep: Sleep,
    }
}

/// Runs `future` for at most `duration`. The future is polled first: if it is ready, its output is
/// returned even if the poll is late, and no timer is set.
///
/// ```
/// use busypoll::{Runtime, time};
/// use std::time::{Duration, Instant};
///
/// Runtime::new()?.block_on(async {
///     let limit = Duration::from_micros(100);
///     assert_eq!(time::timeout(limit, async { 1 }).await, Ok(1));
///     assert!(time::timeout(limit, std::future::pending::<()>()).await.is_err());
///     assert!(time::timeout_at(Instant::now() + limit, std::future::pending::<()>()).await.is_err());
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Panics
/// Panics outside [`block_on`](crate::Runtime::block_on).
pub fn timeout<F: Future>(duration: Duration, future: F) -> Timeout<F> {
    Timeout { future, sleep: sleep_without_lead(deadline_after(duration)) }
}

/// Runs `future` until `deadline` at most, like [`timeout`].
///
/// # Panics
/// Panics outside [`block_on`](crate::Runtime::block_on).
pub fn timeout_at<F: Future>(deadline: Instant, future: F) -> Timeout<F> {
    Timeout { future, sleep: sleep_without_lead(deadline) }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let had_budget = budget::has_remaining();
        if let Poll::Ready(output) = this.future.poll(cx) {
            return Poll::Ready(Ok(output));
        }
        // A future that uses up the budget in every poll must not prevent the timeout from
        // expiring.
        let slept = if had_budget && !budget::has_remaining() {
            this.sleep.poll_unbudgeted(cx)
        } else {
            this.sleep.poll(cx)
        };
        slept.map(|()| Err(Elapsed(())))
    }
}

/// Creates an interval that ticks at once, and then every `period`.
///
/// ```
/// use busypoll::{Runtime, time};
/// use std::time::{Duration, Instant};
///
/// Runtime::new()?.block_on(async {
///     let period = Duration::from_micros(200);
///     let mut interval = time::interval(period);
///     let first = interval.tick().await;
///     assert_eq!(interval.tick().await, first + period);
///     assert!(Instant::now() >= first + period);
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Panics
/// Panics if `period` is zero, or outside [`block_on`](crate::Runtime::block_on).
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    interval_at(now(), period)
}

/// Creates an interval that ticks at `start`, and then every `period`. See [`interval`].
///
/// # Panics
/// Panics if `period` is zero, or outside [`block_on`](crate::Runtime::block_on).
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    assert!(!period.is_zero(), "`period` must be non-zero");
    Interval { sleep: sleep_until(start), period, behavior: MissedTickBehavior::default() }
}

/// A periodic timer. It ticks as `tokio::time::Interval` does and has the same policies for missed
/// ticks. It is neither `Send` nor `Sync`.
///
/// ```
/// use busypoll::{Runtime, time::{self, MissedTickBehavior}};
/// use std::time::{Duration, Instant};
///
/// Runtime::new()?.block_on(async {
///     let mut interval = time::interval(Duration::from_secs(3600));
///     interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
///     interval.tick().await;
///     // The next tick would come in an hour.
///     let soon = Instant::now() + Duration::from_micros(100);
///     interval.reset_at(soon);
///     assert_eq!(interval.tick().await, soon);
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use = "an interval does nothing unless its ticks are awaited"]
#[derive(Debug)]
pub struct Interval {
    sleep: Sleep,
    period: Duration,
    behavior: MissedTickBehavior,
}

impl Interval {
    /// Waits for the next tick and returns its deadline.
    ///
    /// # Panics
    /// Panics in the same cases as [`Sleep`].
    ///
    /// # Cancel safety
    /// If the future is dropped before it is ready, no tick is lost.
    pub async fn tick(&mut self) -> Instant {
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// Polls for the next tick.
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        if Pin::new(&mut self.sleep).poll(cx).is_pending() {
            return Poll::Pending;
        }
        let due = self.sleep.deadline();
        let late = match self.behavior {
            // `Burst` needs only the deadline. Without reading the clock, the task continues
            // sooner.
            MissedTickBehavior::Burst => Duration::ZERO,
            _ => now().saturating_duration_since(due),
        };
        let step = cadence::next(self.behavior, late, self.period, cadence::DEFAULT_TOLERANCE);
        // The timer is not moved here: the next registration replaces the old one. This keeps the
        // time between a tick and its task short.
        self.sleep.deadline = due.checked_add(step.after).unwrap_or_else(|| now() + FAR_FUTURE);
        Poll::Ready(due)
    }

    /// Schedules the next tick one period from now.
    pub fn reset(&mut self) {
        self.reset_after(self.period);
    }

    /// Schedules the next tick at once.
    pub fn reset_immediately(&mut self) {
        self.reset_at(now());
    }

    /// Schedules the next tick after `duration`.
    pub fn reset_after(&mut self, duration: Duration) {
        self.reset_at(deadline_after(duration));
    }

    /// Schedules the next tick at `deadline`. A task that waits is woken then, as after the other
    /// resets.
    pub fn reset_at(&mut self, deadline: Instant) {
        self.sleep.reset(deadline);
    }

    /// Returns the nominal time between ticks.
    #[must_use]
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Returns the policy for missed ticks: `Burst` unless set.
    #[must_use]
    pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.behavior
    }

    /// Sets the policy for missed ticks.
    pub fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
        self.behavior = behavior;
    }
}
