//! `IntervalGroup`: many intervals, sleeps and timeouts from one timer.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use cadence::MissedTickBehavior;
use tokio::time::Instant;

use crate::backend::{Backend, Fallback};
use crate::clock::tokio_now;
use crate::precision::Precision;
use crate::queue::{TimerQueue, Wait};
use crate::schedule::{Schedule, impl_interval_methods};

/// The length of a slot unless set.
const DEFAULT_RESOLUTION: Duration = Duration::from_micros(100);

/// Any number of intervals, sleeps and timeouts from one timer of the OS.
///
/// An [`OsInterval`](crate::OsInterval) has a timer and a descriptor of its own, and wakes the
/// runtime for itself. This suits a few intervals. A thousand of them cost more than tokio's wheel
/// and may exceed the limit of open descriptors.
///
/// A group has one timer. It divides time into slots of its *resolution*, and serves all deadlines
/// of a slot together, at its end. This delays a tick by at most the resolution, and no tick is
/// early. [`IntervalGroup::sleep`] and [`IntervalGroup::timeout`] wait once, with the same slots;
/// [`sleep`](crate::sleep) and [`timeout`](crate::timeout) need no group and have no slots.
///
/// Each slot with a deadline wakes the thread once. If deadlines are spread evenly, these wake-ups
/// are the cost of a group: longer slots cost less and delay ticks more. If many deadlines
/// coincide, a group costs less than tokio's wheel. `scripts/results/publish.py osinterval` of the
/// project measures both cases and tokio's intervals.
///
/// A clone refers to the same group. A task on the runtime on which the group was created serves
/// its timer; it ends with the last clone and the last interval, sleep and timeout.
///
/// # Thread safety
/// A group is `Send` and `Sync`. It may create intervals, sleeps and timeouts on any thread. They
/// complete only while the runtime on which the group was created is running.
///
/// # Cancel safety
/// Dropping a group cancels nothing: its intervals, sleeps and timeouts keep its timer.
///
/// # Examples
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use std::time::Duration;
/// let group = osinterval::IntervalGroup::new()?;
/// let mut fast = group.interval(Duration::from_millis(1));
/// let mut slow = group.interval(Duration::from_millis(3));
/// tokio::join!(fast.tick(), slow.tick());
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use = "a group does nothing without intervals, sleeps and timeouts"]
pub struct IntervalGroup {
    queue: Arc<TimerQueue>,
}

/// Settings for an [`IntervalGroup`], created by [`IntervalGroup::builder`]. They are `Send` and
/// `Sync`.
///
/// # Examples
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use std::time::Duration;
/// use osinterval::{Fallback, IntervalGroup};
/// let half_a_millisecond = Duration::from_micros(500);
/// let group = IntervalGroup::builder().resolution(half_a_millisecond).fallback(Fallback::TokioSleep).build()?;
/// assert_eq!(group.resolution(), half_a_millisecond);
/// println!("ticking from {}", group.backend());
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct GroupBuilder {
    resolution: Duration,
    precision: Precision,
    fallback: Fallback,
}

impl GroupBuilder {
    /// Sets the length of a slot, by which a tick may be delayed so that it is served together with
    /// others; 100 us unless set, and at least 1 ns.
    pub fn resolution(mut self, resolution: Duration) -> Self {
        self.resolution = resolution.max(Duration::from_nanos(1));
        self
    }

    /// Sets how close to its deadline a task runs, and at what cost; [`Precision::Os`] unless set.
    ///
    /// With [`Precision::Spin`] each task is woken before the end of its slot by a lead that is
    /// estimated over the whole group, and spins until its deadline. Tasks that share a thread do
    /// so one after the other, so this mode is for few tasks, with slots of 1 ns.
    /// [`Spin::share`](crate::Spin::share) has no effect, since a group has no period.
    pub fn precision(
        mut self,
        precision: impl Into<Precision>, // pass a `Spin` as it is, without `.into()`
    ) -> Self {
        self.precision = precision.into();
        self
    }

    /// Sets what to do if the OS refuses a timer; the error is returned unless set.
    pub fn fallback(mut self, fallback: Fallback) -> Self {
        self.fallback = fallback;
        self
    }

    /// Creates the group on the current tokio runtime. [`GroupBuilder`] has an example.
    ///
    /// # Errors
    /// Returns an error if [`IntervalBuilder::build`](crate::IntervalBuilder::build) would.
    pub fn build(self) -> io::Result<IntervalGroup> {
        Ok(IntervalGroup {
            queue: TimerQueue::new(self.resolution, self.precision, self.fallback)?,
        })
    }
}

impl IntervalGroup {
    /// Creates a group with slots of 100 us on the current tokio runtime.
    ///
    /// # Errors
    /// Returns an error if [`IntervalBuilder::build`](crate::IntervalBuilder::build) would.
    pub fn new() -> io::Result<Self> {
        Self::builder().build()
    }

    /// Creates a builder for a group; [`GroupBuilder`] has an example.
    pub fn builder() -> GroupBuilder {
        GroupBuilder {
            resolution: DEFAULT_RESOLUTION,
            precision: Precision::default(),
            fallback: Fallback::default(),
        }
    }

    /// Creates an interval of this group that ticks at once, then every `period`. [`IntervalGroup`]
    /// has an example.
    ///
    /// # Panics
    /// Panics if `period` is zero.
    #[track_caller]
    pub fn interval(&self, period: Duration) -> GroupInterval {
        self.interval_at(Instant::now(), period)
    }

    /// Creates an interval of this group that ticks at `start`, then every `period`.
    ///
    /// # Panics
    /// Panics if `period` is zero.
    ///
    /// # Examples
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use std::time::Duration;
    /// let group = osinterval::IntervalGroup::new()?;
    /// let start = tokio::time::Instant::now() + Duration::from_millis(5);
    /// let mut interval = group.interval_at(start, Duration::from_millis(1));
    /// assert_eq!(interval.tick().await, start);
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    #[track_caller]
    pub fn interval_at(&self, start: Instant, period: Duration) -> GroupInterval {
        assert!(!period.is_zero(), "`period` must be non-zero");
        let schedule = Schedule {
            deadline: start.into_std(),
            period,
            behavior: MissedTickBehavior::default(),
            tolerance: cadence::DEFAULT_TOLERANCE,
            missed: 0,
        };
        GroupInterval { queue: Arc::clone(&self.queue), wait: Wait::new(), schedule }
    }

    pub(crate) fn queue(&self) -> &Arc<TimerQueue> {
        &self.queue
    }

    /// Returns the length of a slot, by which a tick may be delayed.
    #[must_use]
    pub fn resolution(&self) -> Duration {
        self.queue.resolution()
    }

    /// Returns the timer that the group ticks from.
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.queue.backend()
    }
}

/// An interval of an [`IntervalGroup`], with the methods of [`OsInterval`](crate::OsInterval).
///
/// # Thread safety
/// A `GroupInterval` is `Send` and `Sync`. It may move to another thread or runtime, and ticks only
/// while the runtime on which the group was created is running.
///
/// # Cancel safety
/// Dropping the future of [`GroupInterval::tick`] loses no tick. Dropping the interval removes it
/// from the group.
#[derive(Debug)]
#[must_use = "intervals do nothing unless they are ticked"]
pub struct GroupInterval {
    queue: Arc<TimerQueue>,
    wait: Wait,
    schedule: Schedule,
}

impl_interval_methods!(
    GroupInterval,
    "group.interval",
    "let group = osinterval::IntervalGroup::new()?;"
);

impl GroupInterval {
    /// Polls for the next tick. Returns its deadline once that has come. Otherwise the task is
    /// woken at the end of the slot of that deadline, or earlier if a `reset` method moves it. A
    /// tick takes from tokio's cooperative budget.
    ///
    /// # Panics
    /// Panics if the runtime on which the group was created is shutting down.
    ///
    /// # Examples
    /// See [`GroupInterval::tick`], which awaits it.
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        let budget = ready!(tokio::task::coop::poll_proceed(cx));
        let deadline = self.schedule.deadline;
        // A failed timer is reported even if every deadline has passed, so that no tick polls it.
        let mut timer = self.queue.check_alive();
        self.queue.acknowledge_wakeup(&mut self.wait);
        if timer.is_ok() && tokio_now() < deadline {
            timer = ready!(self.queue.poll(&mut self.wait, deadline, cx));
        }
        if let Err(error) = timer {
            panic!("the timer of an interval failed: {error}");
        }
        // The queue has reached the deadline, even if the caller's runtime has another clock.
        let now = tokio_now().max(deadline);
        budget.made_progress();
        Poll::Ready(self.schedule.observe(now).into())
    }

    /// Returns the timer that the group ticks from.
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.queue.backend()
    }

    fn rearm(&mut self) -> io::Result<()> {
        self.queue.reset(&mut self.wait, self.schedule.deadline)
    }
}

impl Drop for GroupInterval {
    fn drop(&mut self) {
        self.queue.cancel(&mut self.wait);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    const HOUR: Duration = Duration::from_secs(3_600);

    /// Polls once, with a waker that does nothing.
    fn poll(interval: &mut GroupInterval) -> Poll<Instant> {
        interval.poll_tick(&mut Context::from_waker(Waker::noop()))
    }

    #[tokio::test]
    async fn dropped_intervals_are_deregistered() {
        let group = IntervalGroup::new().unwrap();
        let start = Instant::now() + HOUR;
        for i in 0..1_000 {
            let mut interval = group.interval_at(start + Duration::from_millis(i), HOUR);
            assert!(poll(&mut interval).is_pending());
            assert_eq!(group.queue.waiting_count(), 1);
        }
        assert_eq!(group.queue.waiting_count(), 0);
        // Dropped from the middle, the front and the end of the list of one node.
        let mut together: Vec<_> = (0..10).map(|_| group.interval_at(start, HOUR)).collect();
        assert!(together.iter_mut().all(|interval| poll(interval).is_pending()));
        for remaining in (0..10).rev() {
            drop(together.swap_remove(remaining * 7 % together.len()));
            assert_eq!(group.queue.waiting_count(), remaining);
        }
    }

    #[test]
    fn late_tick_reports_ended_driver() {
        let new_runtime =
            || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let runtime = new_runtime();
        let mut interval = runtime.block_on(async {
            let group = IntervalGroup::new().unwrap();
            group.interval_at(Instant::now(), Duration::from_nanos(1))
        });
        let other_runtime = new_runtime();
        assert!(other_runtime.block_on(async { poll(&mut interval) }).is_ready());
        drop(runtime);
        let ticked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            other_runtime.block_on(async { poll(&mut interval) })
        }));
        let panic = ticked.expect_err("the runtime of the group has shut down");
        let message = panic.downcast_ref::<String>().expect("a formatted message");
        assert!(message.contains("is its runtime shutting down?"), "{message}");
    }

    #[tokio::test]
    async fn repeated_resets_leave_one_entry() {
        let group = IntervalGroup::new().unwrap();
        let mut interval = group.interval_at(Instant::now() + HOUR, HOUR);
        for i in 0..1_000 {
            assert!(poll(&mut interval).is_pending());
            // Earlier in each round.
            interval.reset_after(HOUR / 2 + Duration::from_millis(1_000 - i));
            assert_eq!(group.queue.waiting_count(), 1);
            interval.reset_immediately();
            assert!(group.queue.waiting_count() <= 1);
            assert!(poll(&mut interval).is_ready());
            // Lets the driver run, and restores the budget.
            tokio::task::yield_now().await;
        }
    }
}
