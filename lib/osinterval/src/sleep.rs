//! Sleeps: futures that wait for one deadline.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Instant;

use crate::backend::Backend;
use crate::clock::tokio_now;
use crate::group::IntervalGroup;
use crate::queue::{QueuedWait, TimerQueue};
use crate::real_clock::add_or_far;
use crate::runtime_queue::current_queue;

/// Waits until `deadline`: [`tokio::time::sleep_until`] over the OS's timer.
///
/// All sleeps and timeouts of a runtime that are created without a group share one timer, which
/// lives as long as the runtime. The sleeps of a group, from [`IntervalGroup::sleep_until`], use
/// the group's timer and settings.
///
/// # Panics
/// Panics outside of a tokio runtime with I/O enabled (on Windows: of any runtime), or if the OS
/// has no timer left for the first sleep of the runtime. [`IntervalGroup::builder`] returns an
/// error for both.
///
/// # Examples
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use std::time::Duration;
/// use tokio::time::Instant;
/// let deadline = Instant::now() + Duration::from_micros(300);
/// osinterval::sleep_until(deadline).await;
/// assert!(Instant::now() >= deadline);
/// # });
/// ```
#[track_caller]
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep::new(expect_current_queue(), deadline)
}

/// Waits for `duration`: [`tokio::time::sleep`] over the OS's timer. If `duration` is too long for
/// the clock, the sleep never completes.
///
/// # Panics
/// Panics if [`sleep_until`] would.
///
/// # Examples
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// osinterval::sleep(std::time::Duration::from_micros(300)).await;
/// # });
/// ```
#[track_caller]
pub fn sleep(duration: Duration) -> Sleep {
    Sleep::with_duration(expect_current_queue(), duration)
}

/// Returns the queue of the current runtime.
///
/// # Panics
/// Panics if [`sleep_until`] would.
#[track_caller]
pub(crate) fn expect_current_queue() -> Arc<TimerQueue> {
    match current_queue() {
        Ok(queue) => queue,
        // Not in a closure: the panic would name its line instead of the caller's.
        Err(error) => panic!("cannot create the sleep: {error}"),
    }
}

impl IntervalGroup {
    /// Waits until `deadline`, or until the end of its slot, with this group's timer.
    ///
    /// # Examples
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use std::time::Duration;
    /// use osinterval::{IntervalGroup, Precision};
    /// // No slots, and awake before the deadline.
    /// let group =
    ///     IntervalGroup::builder().resolution(Duration::from_nanos(1)).precision(Precision::spin()).build()?;
    /// let deadline = tokio::time::Instant::now() + Duration::from_millis(1);
    /// group.sleep_until(deadline).await;
    /// println!("{:?} late", deadline.elapsed());
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        Sleep::new(Arc::clone(self.queue()), deadline)
    }

    /// Waits for `duration`, or until the end of the slot, with this group's timer.
    /// [`IntervalGroup::sleep_until`] has an example.
    pub fn sleep(&self, duration: Duration) -> Sleep {
        Sleep::with_duration(Arc::clone(self.queue()), duration)
    }
}

/// A future that completes at its deadline: [`tokio::time::Sleep`] over the OS's timer. It is
/// returned by [`sleep`], [`sleep_until`], and the methods of [`IntervalGroup`] with these names.
///
/// A sleep begins to wait at its first poll. Creating, polling and dropping one makes no system
/// call unless it is the next of its timer to complete. Unlike tokio's sleep, it is `Unpin`, so
/// `select!` accepts a `&mut` of it.
///
/// # Precision
/// A sleep is never early. On an idle Linux machine it is tens of microseconds late, as a tick of
/// [`OsInterval`](crate::OsInterval) is, or has the precision of its group. Without a native timer
/// it is one to two milliseconds late.
///
/// # Thread safety
/// A sleep is `Send` and `Sync`. It may be polled on any thread and any runtime. It completes only
/// while the runtime that created it is running.
///
/// # Panics
/// Panics if polled after the runtime on which the sleep or its group was created has begun to shut
/// down, as tokio's sleep does.
///
/// # Cancel safety
/// Dropping a sleep loses nothing and frees its place in the queue. A sleep that loses a `select!`
/// may be polled again.
///
/// # Examples
/// A sleep that watches for silence; every message postpones it:
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use std::pin::Pin;
/// use std::time::Duration;
/// use tokio::time::Instant;
/// # let mut messages = 3;
/// # let mut receive = async || { messages -= 1; if messages < 0 { std::future::pending::<()>().await } };
/// let silence = Duration::from_micros(500);
/// let mut sleep = osinterval::sleep(silence);
/// loop {
///     tokio::select! {
///         () = receive() => Pin::new(&mut sleep).reset(Instant::now() + silence),
///         () = &mut sleep => break,
///     }
/// }
/// assert!(sleep.is_elapsed());
/// # });
/// ```
#[derive(Debug)]
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct Sleep {
    deadline: Instant,
    wait: QueuedWait,
    /// Whether a poll has found that it has ended.
    has_ended: bool,
    /// Whether the deadline may have passed when it was set, which the next poll checks.
    may_have_passed: bool,
}

impl Sleep {
    pub(crate) fn new(queue: Arc<TimerQueue>, deadline: Instant) -> Self {
        let wait = QueuedWait::new(queue);
        Self { deadline, wait, has_ended: false, may_have_passed: true }
    }

    pub(crate) fn with_duration(queue: Arc<TimerQueue>, duration: Duration) -> Self {
        let now = tokio_now();
        let mut sleep = Self::new(queue, add_or_far(now, duration, now).into());
        sleep.may_have_passed = duration.is_zero();
        sleep
    }

    /// Returns the deadline at which the sleep completes.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns whether the sleep has completed. As with tokio's, the result is false until the
    /// first poll or reset, even if the deadline has passed. [`Sleep`] has an example.
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        self.has_ended || self.wait.has_fired()
    }

    /// Returns the timer that wakes the task.
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.wait.queue().backend()
    }

    /// Moves the deadline, whether it has passed or not. A task that waits is woken at the new one;
    /// if that has passed, it is woken within this call. [`Sleep`] has an example.
    ///
    /// A later deadline costs no system call. An earlier one costs one if the sleep becomes the
    /// next of its timer to complete. Takes `Pin<&mut Self>` for compatibility with
    /// [`tokio::time::Sleep::reset`].
    ///
    /// # Panics
    /// Panics if the OS fails to re-arm the timer. No supported OS is known to do that.
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        let this = self.get_mut();
        this.deadline = deadline;
        this.has_ended = false;
        this.may_have_passed = true;
        if let Err(error) = this.wait.reset(deadline.into_std()) {
            panic!("cannot arm the timer of a sleep: {error}");
        }
    }

    /// Polls the sleep, like [`Future::poll`], but ignores the cooperative budget.
    pub(crate) fn poll_unbudgeted(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.has_ended {
            let is_fresh = std::mem::take(&mut self.may_have_passed);
            let deadline = self.deadline.into_std();
            let result: io::Result<()> = ready!(self.wait.poll_sleep(deadline, is_fresh, cx));
            if let Err(error) = result {
                panic!("the timer of a sleep failed: {error}");
            }
        }
        self.has_ended = true;
        Poll::Ready(())
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let budget = ready!(tokio::task::coop::poll_proceed(cx));
        ready!(self.get_mut().poll_unbudgeted(cx));
        budget.made_progress();
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Fallback;
    use crate::precision::Precision;
    use crate::test_waker::CountingWaker;
    use proptest::prelude::*;
    use std::task::Waker;

    #[derive(Clone, Debug)]
    enum Step {
        /// Times are in milliseconds from now, since tokio's clock counts milliseconds.
        Create(i64),
        Poll(usize),
        Reset(usize, i64),
        Drop(usize),
        Advance(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let time = prop_oneof![3 => -5_i64..60, 1 => Just(i64::from(i32::MAX))];
        prop_oneof![
            4 => time.clone().prop_map(Step::Create),
            4 => any::<usize>().prop_map(Step::Poll),
            2 => (any::<usize>(), time).prop_map(|(index, time)| Step::Reset(index, time)),
            1 => any::<usize>().prop_map(Step::Drop),
            3 => (0_u64..40).prop_map(Step::Advance),
        ]
    }

    /// A sleep and its expected state.
    struct ModelSleep {
        sleep: Sleep,
        deadline_ms: i64,
        /// Whether it was polled and has not been woken since.
        waits: bool,
        /// Whether it ends at its deadline without another poll, because it was polled or reset.
        is_registered: bool,
        /// Whether it has not been polled since its deadline was set.
        is_fresh: bool,
        /// Whether it has ended by a poll, or has been woken at its deadline.
        has_ended: bool,
        waker: Arc<CountingWaker>,
        wake_count: usize,
    }

    /// A sleep that was dropped, and how often its waker should have been called.
    struct DroppedSleep {
        waker: Arc<CountingWaker>,
        wake_count: usize,
    }

    /// A queue on a virtual clock, and a list of its sleeps.
    struct Model {
        queue: Arc<TimerQueue>,
        /// Whether the sleeps wait for the kernel.
        kernel: bool,
        origin: Instant,
        slot_ms: i64,
        now_ms: i64,
        sleeps: Vec<ModelSleep>,
        dropped: Vec<DroppedSleep>,
    }

    impl Model {
        async fn new(slot_ms: i64, kernel: bool) -> Self {
            let slot = Duration::from_millis(slot_ms as u64);
            let on_kernel = if kernel { TimerQueue::with_virtual_clock(slot) } else { None };
            let kernel = on_kernel.is_some();
            let on_tokio = || TimerQueue::new(slot, Precision::Os, Fallback::Never).unwrap();
            let queue = on_kernel.unwrap_or_else(on_tokio);
            // Far enough from the start of the queue for deadlines in the past, by whole slots.
            tokio::time::advance(Duration::from_millis(slot_ms as u64 * 100)).await;
            let origin = Instant::now();
            Self {
                queue,
                kernel,
                origin,
                slot_ms,
                now_ms: 0,
                sleeps: Vec::new(),
                dropped: Vec::new(),
            }
        }

        fn instant(&self, ms: i64) -> Instant {
            match u64::try_from(ms) {
                Ok(ms) => self.origin + Duration::from_millis(ms),
                Err(_) => self.origin - Duration::from_millis(ms.unsigned_abs()),
            }
        }

        /// Returns whether the slot of a deadline has ended.
        fn is_due(&self, deadline_ms: i64) -> bool {
            let slot = (deadline_ms + self.slot_ms - 1).div_euclid(self.slot_ms);
            slot * self.slot_ms <= self.now_ms
        }

        async fn apply(&mut self, step: Step) {
            match step {
                Step::Create(after) => self.create(after),
                Step::Advance(ms) => {
                    self.now_ms += ms as i64;
                    tokio::time::advance(Duration::from_millis(ms)).await;
                    self.queue.fire_timers();
                }
                Step::Poll(_) | Step::Reset(..) | Step::Drop(_) if self.sleeps.is_empty() => {}
                Step::Poll(index) => self.poll(index % self.sleeps.len()),
                Step::Reset(index, after) => self.reset(index % self.sleeps.len(), after),
                Step::Drop(index) => {
                    let index = index % self.sleeps.len();
                    let ModelSleep { waker, wake_count, .. } = self.sleeps.swap_remove(index);
                    self.dropped.push(DroppedSleep { waker, wake_count });
                }
            }
            // Lets the driver run.
            for _ in 0..4 {
                tokio::task::yield_now().await;
            }
        }

        fn create(&mut self, after: i64) {
            let deadline_ms = self.now_ms + after;
            self.sleeps.push(ModelSleep {
                sleep: Sleep::new(Arc::clone(&self.queue), self.instant(deadline_ms)),
                deadline_ms,
                waits: false,
                is_registered: false,
                is_fresh: true,
                has_ended: false,
                waker: Arc::default(),
                wake_count: 0,
            });
        }

        fn poll(&mut self, index: usize) {
            let is_due = self.is_due(self.sleeps[index].deadline_ms);
            let model = &mut self.sleeps[index];
            let had_passed =
                std::mem::take(&mut model.is_fresh) && model.deadline_ms <= self.now_ms;
            let waker = Waker::from(Arc::clone(&model.waker));
            let result = model.sleep.poll_unbudgeted(&mut Context::from_waker(&waker));
            assert_eq!(result.is_ready(), is_due || had_passed || model.has_ended);
            // A sleep of tokio keeps the waker of a poll that was ready.
            model.waits = result.is_pending() || !self.kernel;
            model.is_registered = true;
            model.has_ended = result.is_ready();
        }

        fn reset(&mut self, index: usize, after: i64) {
            let deadline_ms = self.now_ms + after;
            let deadline = self.instant(deadline_ms);
            let model = &mut self.sleeps[index];
            (model.deadline_ms, model.is_fresh) = (deadline_ms, true);
            model.is_registered = true;
            model.has_ended = after <= 0;
            if model.has_ended && std::mem::take(&mut model.waits) {
                model.wake_count += 1;
            }
            Pin::new(&mut model.sleep).reset(deadline);
            assert_eq!(model.waker.wake_count(), model.wake_count, "woken within the call");
        }

        /// Checks that every sleep was woken once, at its time.
        fn check(&mut self) {
            for index in 0..self.sleeps.len() {
                let deadline_ms = self.sleeps[index].deadline_ms;
                let (is_due, deadline) = (self.is_due(deadline_ms), self.instant(deadline_ms));
                let model = &mut self.sleeps[index];
                if model.is_registered && is_due && !model.has_ended {
                    model.has_ended = true;
                    model.wake_count += usize::from(std::mem::take(&mut model.waits));
                }
                assert_eq!(model.waker.wake_count(), model.wake_count, "woken once, at its time");
                assert_eq!(model.sleep.deadline(), deadline);
                assert_eq!(model.sleep.is_elapsed(), model.has_ended);
            }
            let waiting = self.sleeps.iter().filter(|sleep| sleep.waits).count();
            assert_eq!(self.queue.waiting_count(), if self.kernel { waiting } else { 0 });
        }

        fn finish(self) {
            drop(self.sleeps);
            assert_eq!(self.queue.waiting_count(), 0);
            for DroppedSleep { waker, wake_count } in self.dropped {
                assert_eq!(waker.wake_count(), wake_count, "woken after it was dropped");
                assert_eq!(Arc::strong_count(&waker), 1, "its waker is kept");
            }
        }
    }

    async fn check_against_model(steps: Vec<Step>, slot_ms: i64, kernel: bool) {
        let mut model = Model::new(slot_ms, kernel).await;
        for step in steps {
            model.apply(step).await;
            model.check();
        }
        model.finish();
    }

    proptest! {
        #[test]
        fn sleeps_match_list_model(
            steps in proptest::collection::vec(step(), 1..150),
            slot_ms in prop_oneof![Just(1_i64), 1_i64..20],
            kernel in any::<bool>(),
        ) {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            let paused = builder.enable_all().start_paused(true).build().unwrap();
            paused.block_on(check_against_model(steps, slot_ms, kernel));
        }
    }
}
