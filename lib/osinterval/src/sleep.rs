//! Sleeps: wait once, until a deadline.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Instant;

use crate::backend::Backend;
use crate::current;
use crate::group::IntervalGroup;
use crate::queue::{TimerQueue, Wait};
use crate::timer::add_or_far;

/// Waits until `deadline`: [`tokio::time::sleep_until`] over the OS's timer.
///
/// All sleeps and timeouts of a runtime that are made without a group share one timer, which lives
/// as long as the runtime. [`IntervalGroup::sleep_until`] has one of its own, with settings.
///
/// # Panics
/// If there is no tokio runtime with I/O enabled (on Windows: no runtime), or if the OS has no
/// timer left for the first sleep of the runtime. [`IntervalGroup::builder`] returns an error for
/// both.
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
    Sleep::at(of_runtime(), deadline)
}

/// Waits for `duration`: [`tokio::time::sleep`] over the OS's timer. Durations too long for the
/// clock never end.
///
/// # Panics
/// As [`sleep_until`].
///
/// # Examples
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// osinterval::sleep(std::time::Duration::from_micros(300)).await;
/// # });
/// ```
#[track_caller]
pub fn sleep(duration: Duration) -> Sleep {
    Sleep::after(of_runtime(), duration)
}

#[track_caller]
pub(crate) fn of_runtime() -> Arc<TimerQueue> {
    match current::queue() {
        Ok(queue) => queue,
        // Not in a closure, which would be blamed instead of the caller.
        Err(error) => panic!("cannot make a sleep: {error}"),
    }
}

impl IntervalGroup {
    /// A sleep of this group that ends at `deadline`, or with its slot.
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
        Sleep::at(Arc::clone(self.queue()), deadline)
    }

    /// A sleep of this group that ends after `duration`, or with its slot.
    /// [`IntervalGroup::sleep_until`] has an example.
    pub fn sleep(&self, duration: Duration) -> Sleep {
        Sleep::after(Arc::clone(self.queue()), duration)
    }
}

/// A future that ends at its deadline: [`tokio::time::Sleep`] over the OS's timer. Made by
/// [`sleep`], [`sleep_until`], and the methods of the same names of [`IntervalGroup`].
///
/// It waits from its first poll on; made, polled and dropped it takes no system call, unless it is
/// the next of its group to end. Unlike tokio's it is `Unpin`: `select!` takes a `&mut` of it. It
/// may be polled on another thread, or another runtime, than that on which it was made, which has
/// to run for it to end.
///
/// # Precision
/// That of [`OsInterval`](crate::OsInterval): tens of microseconds on an idle Linux, or the
/// precision of the group; where there is no native timer, one to two milliseconds. Never early.
///
/// # Panics
/// Polling it panics if the runtime on which it, or its group, was made is shutting down or has
/// ended, as tokio's does.
///
/// # Cancel safety
/// Nothing is lost by dropping it: it no longer waits, and what it used is free for another.
///
/// # Examples
/// One sleep that watches a loop, put off by every message:
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
    queue: Arc<TimerQueue>,
    deadline: Instant,
    wait: Wait,
    /// It has ended, whatever the clock of the caller says.
    ended: bool,
}

impl Sleep {
    pub(crate) fn at(queue: Arc<TimerQueue>, deadline: Instant) -> Self {
        Self { queue, deadline, wait: Wait::new(), ended: false }
    }

    pub(crate) fn after(queue: Arc<TimerQueue>, duration: Duration) -> Self {
        let now = queue.now();
        let mut sleep = Self::at(queue, add_or_far(now, duration, now).into());
        sleep.ended = duration.is_zero();
        sleep
    }

    /// When it ends.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Whether its deadline has passed. [`Sleep`] has an example.
    pub fn is_elapsed(&self) -> bool {
        self.ended || self.queue.now() >= self.deadline.into_std()
    }

    /// What it is woken by.
    pub fn backend(&self) -> Backend {
        self.queue.backend()
    }

    /// Moves the deadline, whether it has passed or not. A task that waits is woken at the new one.
    /// Pinned only because tokio's is. [`Sleep`] has an example.
    ///
    /// To put it off takes no system call; to move it nearer takes one where it becomes the next of
    /// its group to end.
    ///
    /// # Panics
    /// If the OS refuses to arm the timer again, for which it has no reason.
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        let this = self.get_mut();
        this.deadline = deadline;
        this.ended = false;
        if let Err(error) = this.queue.reset(&mut this.wait, deadline.into_std()) {
            panic!("cannot arm the timer of a sleep: {error}");
        }
    }

    /// As [`Future::poll`], with no regard to the cooperative budget.
    pub(crate) fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.ended {
            let result: io::Result<()> =
                ready!(self.queue.poll(&mut self.wait, self.deadline.into_std(), cx));
            if let Err(error) = result {
                panic!("the timer of a sleep failed: {error}");
            }
            self.ended = true;
        }
        Poll::Ready(())
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let budget = ready!(tokio::task::coop::poll_proceed(cx));
        ready!(self.get_mut().poll_ended(cx));
        budget.made_progress();
        Poll::Ready(())
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.queue.cancel(&mut self.wait);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::woken::Woken;
    use proptest::prelude::*;
    use std::task::Waker;

    /// What should become of a sleep.
    struct Known {
        sleep: Sleep,
        deadline_ms: i64,
        /// It was polled, and has not been woken since.
        waits: bool,
        woken: Arc<Woken>,
        wakes: usize,
    }

    #[derive(Clone, Debug)]
    enum Step {
        /// Times in milliseconds from now: tokio's clock has no finer ones.
        Make(i64),
        Poll(usize),
        Reset(usize, i64),
        Drop(usize),
        Advance(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let time = prop_oneof![3 => -5_i64..60, 1 => Just(i64::from(i32::MAX))];
        prop_oneof![
            4 => time.clone().prop_map(Step::Make),
            4 => any::<usize>().prop_map(Step::Poll),
            2 => (any::<usize>(), time).prop_map(|(which, time)| Step::Reset(which, time)),
            1 => any::<usize>().prop_map(Step::Drop),
            3 => (0_u64..40).prop_map(Step::Advance),
        ]
    }

    async fn play(steps: Vec<Step>, slot_ms: i64) {
        let queue = TimerQueue::on_tokios_clock(Duration::from_millis(slot_ms as u64));
        // Far enough from the start of the queue for deadlines in the past, by whole slots.
        let start = Duration::from_millis(slot_ms as u64 * 100);
        tokio::time::advance(start).await;
        let origin = Instant::now();
        let at = |ms: i64| match u64::try_from(ms) {
            Ok(ms) => origin + Duration::from_millis(ms),
            Err(_) => origin - Duration::from_millis(ms.unsigned_abs()),
        };
        let slot_end = |ms: i64| (ms + slot_ms - 1).div_euclid(slot_ms) * slot_ms;
        let (mut now, mut known, mut gone) = (0_i64, Vec::<Known>::new(), Vec::new());
        for step in steps {
            match step {
                Step::Make(after) => {
                    let sleep = Sleep::at(Arc::clone(&queue), at(now + after));
                    let deadline_ms = now + after;
                    known.push(Known {
                        sleep,
                        deadline_ms,
                        waits: false,
                        woken: Arc::default(),
                        wakes: 0,
                    });
                }
                Step::Poll(which) if !known.is_empty() => {
                    let which = which % known.len();
                    let of = &mut known[which];
                    let waker = Waker::from(Arc::clone(&of.woken));
                    let mut context = Context::from_waker(&waker);
                    let result = of.sleep.poll_ended(&mut context);
                    assert_eq!(result.is_ready(), slot_end(of.deadline_ms) <= now);
                    of.waits = result.is_pending();
                }
                Step::Reset(which, after) if !known.is_empty() => {
                    let which = which % known.len();
                    let of = &mut known[which];
                    of.deadline_ms = now + after;
                    Pin::new(&mut of.sleep).reset(at(of.deadline_ms));
                }
                Step::Drop(which) if !known.is_empty() => {
                    let of = known.swap_remove(which % known.len());
                    gone.push((of.woken, of.wakes));
                }
                Step::Advance(by) => {
                    now += by as i64;
                    tokio::time::advance(Duration::from_millis(by)).await;
                }
                Step::Poll(_) | Step::Reset(..) | Step::Drop(_) => {}
            }
            // The driver takes its turns.
            for _ in 0..4 {
                tokio::task::yield_now().await;
            }
            for of in &mut known {
                if of.waits && slot_end(of.deadline_ms) <= now {
                    of.waits = false;
                    of.wakes += 1;
                }
                assert_eq!(of.woken.times(), of.wakes, "woken once, at its time");
                assert_eq!(of.sleep.deadline(), at(of.deadline_ms));
                assert_eq!(of.sleep.is_elapsed(), of.deadline_ms <= now);
            }
            assert_eq!(queue.waiting(), known.iter().filter(|of| of.waits).count());
        }
        drop(known);
        assert_eq!(queue.waiting(), 0);
        for (woken, wakes) in gone {
            assert_eq!(woken.times(), wakes, "woken after it was dropped");
            assert_eq!(Arc::strong_count(&woken), 1, "its waker is kept");
        }
    }

    proptest! {
        #[test]
        fn sleeps_end_as_a_list_of_them_says(
            steps in proptest::collection::vec(step(), 1..150),
            slot_ms in prop_oneof![Just(1_i64), 1_i64..20],
        ) {
            let paused = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
            paused.block_on(play(steps, slot_ms));
        }
    }
}
