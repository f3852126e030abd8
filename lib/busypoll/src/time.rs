//! Timers: never early, never rounded, cancelled when dropped.
//!
//! A deadline is an [`Instant`]. A spinning loop checks timers every turn, and wakes the task a
//! [lead](crate::Builder::timer_lead) before its deadline: the way from the loop to the task is
//! over by then, and the task spins for the rest. A parked thread asks the kernel for the exact
//! nanosecond (on Windows the next millisecond), and is late by what the kernel takes.
//!
//! A timer belongs to the runtime it was made in, and completes while that runs. Kept past it and
//! polled again, it panics instead of waiting for ever; whoever waits for it in another runtime is
//! woken to find that out.

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

/// Stands in for a deadline that no `Instant` can hold: about 30 years ahead.
const FAR_FUTURE: Duration = Duration::from_secs(86_400 * 365 * 30);

fn from_now(duration: Duration) -> Instant {
    let now = now();
    now.checked_add(duration).unwrap_or_else(|| now + FAR_FUTURE)
}

/// Completes once `duration` has passed.
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
/// Outside [`block_on`](crate::Runtime::block_on).
pub fn sleep(duration: Duration) -> Sleep {
    sleep_until(from_now(duration))
}

/// Completes once `deadline` is reached: see [`sleep`].
///
/// # Panics
/// Outside [`block_on`](crate::Runtime::block_on).
pub fn sleep_until(deadline: Instant) -> Sleep {
    let executor = context::current();
    Sleep { spins: true, lead: executor.timer_lead.get(), executor, deadline, key: None }
}

/// Does not spin before its deadline: a future raced against it is polled until the end.
fn sleep_without_lead(deadline: Instant) -> Sleep {
    Sleep { spins: false, lead: Duration::ZERO, executor: context::current(), deadline, key: None }
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
/// # Panics
/// Outside [`block_on`](crate::Runtime::block_on), at the first poll.
pub async fn after<F: Future>(deadline: Instant, future: F) -> F::Output {
    sleep_until(deadline).await;
    future.await
}

/// Waits for `delay`, counted from the first poll, then runs the future: see [`after`].
///
/// # Panics
/// Outside [`block_on`](crate::Runtime::block_on), at the first poll.
pub async fn after_delay<F: Future>(delay: Duration, future: F) -> F::Output {
    sleep(delay).await;
    future.await
}

/// The future of [`sleep`] and [`sleep_until`].
///
/// # Panics
/// If polled before its deadline once the runtime it was made in is dropped.
///
/// # Cancel safety
/// Dropping it cancels the timer, in time logarithmic in the number of timers, and frees its memory
/// at once.
#[must_use = "futures do nothing unless polled"]
pub struct Sleep {
    executor: Rc<Executor>,
    deadline: Instant,
    /// Whether it is woken a lead before the deadline.
    spins: bool,
    /// How long before the deadline it was last asked to be woken, to spin for the rest.
    lead: Duration,
    key: Option<TimerKey>,
}

impl Sleep {
    /// When it completes.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Sets another deadline, which takes effect at the next poll.
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
        // The next registration replaces the last: nothing that takes time stands between a tick
        // and its task.
        self.deadline = deadline;
    }

    fn wake_at(&self) -> Instant {
        self.deadline.checked_sub(self.lead).unwrap_or(self.deadline)
    }

    fn cancel(&mut self) {
        if let Some(key) = self.key.take() {
            self.executor.timers.cancel(key);
        }
    }

    /// Polls it whatever is left of the task's budget, and takes nothing from that.
    fn poll_unbudgeted(&mut self, cx: &Context<'_>) -> Poll<()> {
        let timers = &self.executor.timers;
        if timers.is_past(self.deadline) {
            return Poll::Ready(());
        }
        let arrived = now();
        if arrived >= self.wake_at() {
            if self.key.is_some() {
                self.executor.timer_lead.arrived(arrived);
            }
            if arrived < self.deadline {
                while now() < self.deadline {}
            }
            return Poll::Ready(());
        }
        assert!(!timers.is_closed(), "the runtime of this timer has been dropped");
        if self.spins {
            self.lead = self.executor.timer_lead.get();
        }
        // Each time, not only the first: a timer that fired is no longer registered.
        let key = timers.register(self.key, self.wake_at(), cx.waker());
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

/// The time ran out before the future was ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed(());

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("deadline has elapsed")
    }
}

impl std::error::Error for Elapsed {}

pin_project! {
    /// The future of [`timeout`] and [`timeout_at`].
    ///
    /// # Panics
    /// As [`Sleep`], once its runtime is dropped.
    #[must_use = "futures do nothing unless polled"]
    #[derive(Debug)]
    pub struct Timeout<F> {
        #[pin]
        future: F,
        #[pin]
        sleep: Sleep,
    }
}

/// Runs `future` for at most `duration`. The future is polled first: if it is ready, its output
/// counts however late the poll is, and no timer is set.
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
/// Outside [`block_on`](crate::Runtime::block_on).
pub fn timeout<F: Future>(duration: Duration, future: F) -> Timeout<F> {
    Timeout { future, sleep: sleep_without_lead(from_now(duration)) }
}

/// Like [`timeout`], but until a deadline.
///
/// # Panics
/// Outside [`block_on`](crate::Runtime::block_on).
pub fn timeout_at<F: Future>(deadline: Instant, future: F) -> Timeout<F> {
    Timeout { future, sleep: sleep_without_lead(deadline) }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let had_budget = budget::is_left();
        if let Poll::Ready(output) = this.future.poll(cx) {
            return Poll::Ready(Ok(output));
        }
        // A future that used up the budget, each time it is polled, must not keep the time from
        // running out.
        let slept = if had_budget && !budget::is_left() {
            this.sleep.poll_unbudgeted(cx)
        } else {
            this.sleep.poll(cx)
        };
        slept.map(|()| Err(Elapsed(())))
    }
}

/// Ticks at once, and then every `period`.
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
/// If `period` is zero, and outside [`block_on`](crate::Runtime::block_on).
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    interval_at(now(), period)
}

/// Ticks at `start`, and then every `period`: see [`interval`].
///
/// # Panics
/// If `period` is zero, and outside [`block_on`](crate::Runtime::block_on).
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    assert!(!period.is_zero(), "`period` must be non-zero");
    Interval { sleep: sleep_until(start), period, behavior: MissedTickBehavior::default() }
}

/// A periodic timer that ticks as `tokio::time::Interval` does, with the same policy for missed
/// ticks.
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
    /// As [`Sleep`], once its runtime is dropped.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, it loses no tick.
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
            // Needs only the deadline; without reading the clock the task continues sooner.
            MissedTickBehavior::Burst => Duration::ZERO,
            _ => now().saturating_duration_since(due),
        };
        let step = cadence::next(self.behavior, late, self.period, cadence::DEFAULT_TOLERANCE);
        self.sleep.reset(due.checked_add(step.after).unwrap_or_else(|| now() + FAR_FUTURE));
        Poll::Ready(due)
    }

    /// Makes the next tick come one period from now.
    pub fn reset(&mut self) {
        self.reset_after(self.period);
    }

    /// Makes the next tick come at once.
    pub fn reset_immediately(&mut self) {
        self.reset_at(now());
    }

    /// Makes the next tick come after `duration`.
    pub fn reset_after(&mut self, duration: Duration) {
        self.reset_at(from_now(duration));
    }

    /// Makes the next tick come at `deadline`.
    pub fn reset_at(&mut self, deadline: Instant) {
        self.sleep.reset(deadline);
    }

    /// The nominal time between ticks.
    #[must_use]
    pub fn period(&self) -> Duration {
        self.period
    }

    /// What happens to missed ticks: `Burst` unless set.
    #[must_use]
    pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.behavior
    }

    /// Sets what happens to missed ticks.
    pub fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
        self.behavior = behavior;
    }
}
