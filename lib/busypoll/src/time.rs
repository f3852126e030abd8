//! Timers: never early, in nanoseconds, gone when dropped.
//!
//! A deadline is an [`Instant`]; nothing rounds it. A timer is looked at every turn of the loop while it spins, and the
//! task is woken a [lead](crate::Builder::timer_lead) before its deadline, to spin for the rest by itself: the way from
//! the loop to the task is behind it then. A parked
//! thread is woken by the kernel's timer to the nanosecond asked for (to the millisecond above it on Windows), and late
//! by what the kernel takes.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

pub use cadence::MissedTickBehavior;
use pin_project_lite::pin_project;

use crate::clock::now;
use crate::context;
use crate::core::Core;
use crate::timers::TimerKey;

/// How far ahead a deadline is put that no `Instant` can hold: about 30 years.
const FAR: Duration = Duration::from_secs(86_400 * 365 * 30);

fn from_now(duration: Duration) -> Instant {
    let now = now();
    now.checked_add(duration).unwrap_or_else(|| now + FAR)
}

/// Completes once `duration` has passed.
///
/// # Panics
/// Outside [`block_on`](crate::Runtime::block_on).
pub fn sleep(duration: Duration) -> Sleep {
    sleep_until(from_now(duration))
}

/// Completes once `deadline` is reached.
///
/// # Panics
/// Outside [`block_on`](crate::Runtime::block_on).
pub fn sleep_until(deadline: Instant) -> Sleep {
    let core = context::current();
    Sleep { lead: core.timer_lead, core, deadline, key: None }
}

/// One that leaves even the last stretch to the loop, so that what is raced against it has its turn until the end.
fn unhurried(deadline: Instant) -> Sleep {
    Sleep { lead: Duration::ZERO, core: context::current(), deadline, key: None }
}

/// Waits until `deadline`, and only then polls the future.
///
/// # Panics
/// Outside [`block_on`](crate::Runtime::block_on), at the first poll.
pub async fn after<F: Future>(deadline: Instant, future: F) -> F::Output {
    sleep_until(deadline).await;
    future.await
}

/// Waits for `delay`, counted from the first poll, and only then polls the future.
///
/// # Panics
/// Outside [`block_on`](crate::Runtime::block_on), at the first poll.
pub async fn after_delay<F: Future>(delay: Duration, future: F) -> F::Output {
    sleep(delay).await;
    future.await
}

/// The future of [`sleep`] and [`sleep_until`].
///
/// # Cancel safety
/// Dropping it cancels the timer, in time logarithmic in the number of timers, and frees its memory at once.
#[must_use = "futures do nothing unless polled"]
pub struct Sleep {
    core: Rc<Core>,
    deadline: Instant,
    /// So long before the deadline it is woken, to spin for the rest.
    lead: Duration,
    key: Option<TimerKey>,
}

impl Sleep {
    /// When it completes.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Sets another deadline. Takes effect at the next poll.
    pub fn reset(&mut self, deadline: Instant) {
        // What is registered goes with the next registration: nothing that takes time stands between a tick and its task.
        self.deadline = deadline;
    }

    fn cancel(&mut self) {
        if let Some(key) = self.key.take() {
            self.core.timers.cancel(key);
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.core.timers.is_past(self.deadline) {
            return Poll::Ready(());
        }
        let wake_at = self.deadline.checked_sub(self.lead).unwrap_or(self.deadline);
        loop {
            let now = now();
            if now >= self.deadline {
                return Poll::Ready(());
            }
            if now < wake_at {
                break;
            }
        }
        // Each time, not only the first: a timer that fired is no longer registered.
        let key = self.core.timers.register(self.key, wake_at, cx.waker());
        self.key = Some(key);
        Poll::Pending
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

/// The time was up before the future was ready.
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
    #[must_use = "futures do nothing unless polled"]
    #[derive(Debug)]
    pub struct Timeout<F> {
        #[pin]
        future: F,
        #[pin]
        sleep: Sleep,
    }
}

/// `future`, but for at most `duration`. The future is polled first: one that is ready gives its output however late it
/// is looked at, and costs no timer.
///
/// # Panics
/// Outside [`block_on`](crate::Runtime::block_on).
pub fn timeout<F: Future>(duration: Duration, future: F) -> Timeout<F> {
    Timeout { future, sleep: unhurried(from_now(duration)) }
}

/// Like [`timeout`], until a point in time.
///
/// # Panics
/// Outside [`block_on`](crate::Runtime::block_on).
pub fn timeout_at<F: Future>(deadline: Instant, future: F) -> Timeout<F> {
    Timeout { future, sleep: unhurried(deadline) }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(output) = this.future.poll(cx) {
            return Poll::Ready(Ok(output));
        }
        this.sleep.poll(cx).map(|()| Err(Elapsed(())))
    }
}

/// Ticks at once, and then every `period`.
///
/// # Panics
/// If `period` is zero, and outside [`block_on`](crate::Runtime::block_on).
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    interval_at(now(), period)
}

/// Ticks at `start`, and then every `period`.
///
/// # Panics
/// If `period` is zero, and outside [`block_on`](crate::Runtime::block_on).
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    assert!(!period.is_zero(), "`period` must be non-zero");
    Interval { sleep: sleep_until(start), period, behavior: MissedTickBehavior::default() }
}

/// A periodic timer with the ticks, and the missed-tick policy, of `tokio::time::Interval`.
#[derive(Debug)]
pub struct Interval {
    sleep: Sleep,
    period: Duration,
    behavior: MissedTickBehavior,
}

impl Interval {
    /// Waits for the next tick and returns its deadline.
    ///
    /// # Cancel safety
    /// A tick that was not returned is not lost.
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
            // It asks for nothing but the deadline; not to read the clock for it lets the task go on sooner.
            MissedTickBehavior::Burst => Duration::ZERO,
            _ => now().saturating_duration_since(due),
        };
        let step = cadence::next(self.behavior, late, self.period, cadence::DEFAULT_TOLERANCE);
        self.sleep.reset(due.checked_add(step.after).unwrap_or_else(|| now() + FAR));
        Poll::Ready(due)
    }

    /// Restarts it: the next tick is one period from now.
    pub fn reset(&mut self) {
        self.reset_after(self.period);
    }

    /// The next tick is now.
    pub fn reset_immediately(&mut self) {
        self.reset_at(now());
    }

    /// The next tick is after `duration`.
    pub fn reset_after(&mut self, duration: Duration) {
        self.reset_at(from_now(duration));
    }

    /// The next tick is at `deadline`.
    pub fn reset_at(&mut self, deadline: Instant) {
        self.sleep.reset(deadline);
    }

    /// Its period.
    #[must_use]
    pub fn period(&self) -> Duration {
        self.period
    }

    /// What it does about missed ticks: `Burst` unless set.
    #[must_use]
    pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.behavior
    }

    /// Sets what it does about missed ticks.
    pub fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
        self.behavior = behavior;
    }
}
