//! `IntervalGroup`: many intervals, sleeps and timeouts from one timer.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::backend::{Backend, Fallback};
use crate::interval::OsInterval;
use crate::precision::Precision;
use crate::queue::TimerQueue;

/// The length of a slot unless set.
const DEFAULT_RESOLUTION: Duration = Duration::from_micros(100);

/// Any number of intervals, sleeps and timeouts from one timer of the OS.
///
/// All intervals, sleeps and timeouts of a runtime share a timer already. A group has one of its
/// own, with settings of its own. It divides time into slots of its *resolution*, and serves all
/// deadlines of a slot together, at its end. This delays a tick by at most the resolution, and no
/// tick is early. [`IntervalGroup::sleep`] and [`IntervalGroup::timeout`] wait once, with the same
/// slots.
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
        OsInterval::builder(period).start_at(start).build_on(Arc::clone(&self.queue))
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

/// An interval of an [`IntervalGroup`]: an [`OsInterval`] on the timer of the group.
pub type GroupInterval = OsInterval;

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::{Context, Poll, Waker};

    #[cfg(all(feature = "os-native", not(osinterval_force_fallback)))]
    const HOUR: Duration = Duration::from_secs(3_600);

    /// Polls once, with a waker that does nothing.
    fn poll(interval: &mut GroupInterval) -> Poll<Instant> {
        interval.poll_tick(&mut Context::from_waker(Waker::noop()))
    }

    #[cfg(all(feature = "os-native", not(osinterval_force_fallback)))]
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

    #[cfg(all(feature = "os-native", not(osinterval_force_fallback)))]
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
