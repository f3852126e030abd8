//! Timeouts: futures with a deadline.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::task::coop;
use tokio::time::Instant;

use crate::group::IntervalGroup;
use crate::sleep::{Sleep, expect_current_queue};

/// Waits for `future` until `deadline`: [`tokio::time::timeout_at`] over the OS's timer.
///
/// # Panics
/// Panics if [`sleep_until`](crate::sleep_until) would.
///
/// # Examples
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use std::time::Duration;
/// let deadline = tokio::time::Instant::now() + Duration::from_micros(300);
/// let never = std::future::pending::<()>();
/// assert!(osinterval::timeout_at(deadline, never).await.is_err());
/// # });
/// ```
#[track_caller]
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    Timeout { future: future.into_future(), sleep: Sleep::new(expect_current_queue(), deadline) }
}

/// Waits for `future` for at most `duration`: [`tokio::time::timeout`] over the OS's timer. If
/// `duration` is too long for the clock, the timeout never elapses.
///
/// # Panics
/// Panics if [`sleep_until`](crate::sleep_until) would.
///
/// # Examples
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use std::time::Duration;
/// let answer = osinterval::timeout(Duration::from_millis(5), async { 42 }).await?;
/// assert_eq!(answer, 42);
/// # Ok::<_, osinterval::Elapsed>(()) }).unwrap();
/// ```
#[track_caller]
pub fn timeout<F: IntoFuture>(duration: Duration, future: F) -> Timeout<F::IntoFuture> {
    Timeout {
        future: future.into_future(),
        sleep: Sleep::with_duration(expect_current_queue(), duration),
    }
}

impl IntervalGroup {
    /// Waits for `future` until `deadline`, or until the end of its slot.
    ///
    /// # Examples
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use std::time::Duration;
    /// // A database that batches its commits: all that come within 50 us wake the thread once.
    /// let group = osinterval::IntervalGroup::builder().resolution(Duration::from_micros(50)).build()?;
    /// let commit = async { "done" };
    /// assert_eq!(group.timeout(Duration::from_millis(5), commit).await?, "done");
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    pub fn timeout_at<F: IntoFuture>(
        &self,
        deadline: Instant,
        future: F,
    ) -> Timeout<F::IntoFuture> {
        Timeout { future: future.into_future(), sleep: self.sleep_until(deadline) }
    }

    /// Waits for `future` for at most `duration`, or until the end of the slot.
    /// [`IntervalGroup::timeout_at`] has an example.
    pub fn timeout<F: IntoFuture>(&self, duration: Duration, future: F) -> Timeout<F::IntoFuture> {
        Timeout { future: future.into_future(), sleep: self.sleep(duration) }
    }
}

pin_project! {
    /// A future with a deadline: [`tokio::time::Timeout`] over the OS's timer. It is returned by
    /// [`timeout`], [`timeout_at`], and the methods of [`IntervalGroup`] with these names.
    ///
    /// A poll first polls the future, whose output is returned even after the deadline. Then it
    /// checks the deadline, even if the future has used up tokio's cooperative budget. Precision
    /// and panics are those of [`Sleep`].
    ///
    /// # Thread safety
    /// A timeout is `Send` if its future is, and `Sync` if its future is.
    ///
    /// # Cancel safety
    /// Dropping a timeout drops its future, so a timeout is cancel safe if its future is. After
    /// [`Elapsed`] the future still exists: [`Timeout::into_inner`] returns it.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct Timeout<F> {
        #[pin]
        future: F,
        sleep: Sleep,
    }
}

impl<F> Timeout<F> {
    /// Returns a reference to the future.
    pub fn get_ref(&self) -> &F {
        &self.future
    }

    /// Returns a mutable reference to the future.
    pub fn get_mut(&mut self) -> &mut F {
        &mut self.future
    }

    /// Returns the future, without a deadline.
    pub fn into_inner(self) -> F {
        self.future
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let had_budget = coop::has_budget_remaining();
        if let Poll::Ready(output) = this.future.poll(cx) {
            return Poll::Ready(Ok(output));
        }
        let ended = match coop::poll_proceed(cx) {
            Poll::Ready(budget) => {
                let ended = this.sleep.poll_unbudgeted(cx);
                if ended.is_ready() {
                    budget.made_progress();
                }
                ended
            }
            // The future has used up the budget, and might do so at each poll. The deadline is
            // checked nevertheless.
            Poll::Pending if had_budget => this.sleep.poll_unbudgeted(cx),
            Poll::Pending => Poll::Pending,
        };
        ended.map(|()| Err(Elapsed(())))
    }
}

/// The error of a [`Timeout`] whose deadline came before its future was ready.
///
/// # Examples
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use std::io;
/// use std::time::Duration;
/// let elapsed = osinterval::timeout(Duration::ZERO, std::future::pending::<()>()).await.unwrap_err();
/// assert_eq!(io::Error::from(elapsed).kind(), io::ErrorKind::TimedOut);
/// # });
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct Elapsed(());

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("deadline has elapsed")
    }
}

impl std::error::Error for Elapsed {}

impl From<Elapsed> for io::Error {
    fn from(elapsed: Elapsed) -> Self {
        Self::new(io::ErrorKind::TimedOut, elapsed)
    }
}
