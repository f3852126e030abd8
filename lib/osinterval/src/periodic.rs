//! `PeriodicInterval`: a timer that the kernel repeats, whose ticks count the periods.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Instant;

use crate::backend::{Backend, Fallback};
use crate::clock::{is_shifted, tokio_now};
use crate::driver::catch_driver_panic;
use crate::expirations::Expirations;
use crate::pause_watch::PauseWatch;
use crate::real_clock::add_or_far;
use crate::sys;
use crate::timer::Timer;

/// A periodic timer that the kernel repeats.
///
/// The schedule is absolute: start + k × period. A late reader gets one tick that reports how many
/// periods have ended and when each was due; no period is reported twice or left out. There is no
/// missed-tick behaviour and no reset: for those, and for one tick per period, use `OsInterval`.
///
/// Each `PeriodicInterval` has a timer of its own, which is a file descriptor if it is one of the
/// operating system, except on Windows.
/// Intervals of the type `OsInterval` share the timer of their runtime.
///
/// # Platform notes
/// The kernel repeats on Linux and Android (`timerfd`). By kqueue it repeats periods that it need
/// not round: on Apple's systems whole microseconds, for example, and whole seconds on FreeBSD. For
/// other periods and systems, and without the feature `os-native`, a timer that is armed again for
/// each tick produces the same sequence.
///
/// kqueue can only start to repeat from the present moment, which is when the first tick has been
/// delivered. All later wake-ups of the kernel are late by that offset. The reported deadlines are
/// nevertheless those of the schedule. If the offset matters, use `OsInterval`, which has none.
///
/// # Thread safety
/// A `PeriodicInterval` is `Send` and `Sync`. It may move to another thread or runtime, and ticks
/// only while the runtime on which it was created is running.
///
/// # Cancel safety
/// Dropping the future of [`PeriodicInterval::tick`] loses no period. Dropping the interval frees
/// its timer.
///
/// # Examples
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use std::time::Duration;
/// let mut interval = osinterval::PeriodicInterval::new(Duration::from_millis(1))?;
/// let mut elapsed = Duration::ZERO;
/// while elapsed < Duration::from_millis(10) {
///     let expirations = interval.tick().await?;
///     elapsed += interval.period() * expirations.count as u32;
/// }
/// println!("10 ms have passed by {}; next at {:?}", interval.backend(), interval.deadline());
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
#[derive(Debug)]
#[must_use = "intervals do nothing unless they are ticked"]
pub struct PeriodicInterval {
    repetition: Repetition,
    period: Duration,
    /// Deadline of the first period that has not been reported.
    next: Instant,
}

#[derive(Debug)]
enum Repetition {
    Kernel {
        timer: sys::Periodic,
        /// Wakes the task if a test pauses tokio's clock while the task waits.
        pause_watch: PauseWatch,
        /// The timer of tokio that is used while tokio's clock is not the real one.
        replacement: Option<Timer>,
    },
    Rearmed(Timer),
}

impl Repetition {
    /// Polls for the number of periods that have ended, if the first of them is due at `first`.
    /// Ready if there is one.
    fn poll_ended_periods(
        &mut self,
        cx: &mut Context<'_>,
        first: std::time::Instant,
        period: Duration,
    ) -> Poll<io::Result<u64>> {
        let timer = match self {
            Self::Kernel { timer, pause_watch, replacement } => {
                if replacement.is_some() && !is_shifted() {
                    *replacement = None;
                }
                if replacement.is_none() {
                    match poll_kernel(timer, cx, first, period)? {
                        Poll::Ready(Some(count)) => return Poll::Ready(Ok(count)),
                        Poll::Ready(None) => pause_watch.disarm(),
                        Poll::Pending => {
                            pause_watch.watch(first, cx);
                            return Poll::Pending;
                        }
                    }
                }
                match replacement {
                    Some(timer) => timer,
                    None => replacement.insert(Timer::new_tokio()?),
                }
            }
            Self::Rearmed(timer) => timer,
        };
        ready!(timer.poll_until(cx, first))?;
        Poll::Ready(Ok(count_ended_periods(first, tokio_now(), period).max(1)))
    }
}

/// Polls a timer that the kernel repeats for the number of periods that have ended. Returns `None`
/// if tokio's clock is not the real one, which the kernel follows.
///
/// The number comes from the clock, which is read before the kernel's expiration is taken if
/// possible. Taking that programs a hardware timer, which can wait until the tick is delivered. The
/// clock is read again after every expiration, since taking one may have taken another with it.
fn poll_kernel(
    timer: &mut sys::Periodic,
    cx: &mut Context<'_>,
    first: std::time::Instant,
    period: Duration,
) -> Poll<io::Result<Option<u64>>> {
    let count = count_ended_periods(first, tokio_now(), period);
    if count > 0 && timer.can_take_expiration_late() {
        return Poll::Ready(Ok(Some(count)));
    }
    while let Poll::Ready(result) = timer.poll_expired(cx) {
        result?;
        let count = count_ended_periods(first, tokio_now(), period);
        if count > 0 {
            return Poll::Ready(Ok(Some(count)));
        }
    }
    if is_shifted() { Poll::Ready(Ok(None)) } else { Poll::Pending }
}

impl PeriodicInterval {
    /// Creates an interval that ticks one period from now, then every `period`.
    /// [`PeriodicInterval`] has an example.
    ///
    /// # Errors
    /// Returns an error if [`PeriodicInterval::new_at`] would.
    ///
    /// # Panics
    /// Panics if `period` is zero.
    #[track_caller]
    pub fn new(period: Duration) -> io::Result<Self> {
        let now = tokio_now();
        Self::new_at(add_or_far(now, period, now).into(), period)
    }

    /// Creates an interval that ticks at `start`, then every `period`. If `start` has passed, the
    /// first tick comes at once and reports how many periods have ended since.
    ///
    /// # Errors
    /// Returns an error if
    /// - it is not called within a tokio runtime, or the runtime's I/O driver is disabled
    ///   ([`io::ErrorKind::NotConnected`]).
    /// - the OS refuses a timer.
    ///
    /// # Panics
    /// Panics if `period` is zero.
    ///
    /// # Examples
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use std::time::Duration;
    /// let start = tokio::time::Instant::now() + Duration::from_millis(5);
    /// let mut interval = osinterval::PeriodicInterval::new_at(start, Duration::from_millis(1))?;
    /// assert_eq!(interval.tick().await?.first, start);
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    #[track_caller]
    pub fn new_at(start: Instant, period: Duration) -> io::Result<Self> {
        assert!(!period.is_zero(), "`period` must be non-zero");
        // On a shifted clock the kernel's timer would not be used, as in `Timer::new`.
        let repetition = if sys::can_repeat(period) && !is_shifted() {
            let timer = catch_driver_panic(|| sys::Periodic::new(start.into_std(), period))?;
            Repetition::Kernel { timer, pause_watch: PauseWatch::new(), replacement: None }
        } else {
            Repetition::Rearmed(Timer::new(Fallback::Never)?)
        };
        Ok(Self { repetition, period, next: start })
    }

    /// Waits until at least one period has ended since the last tick.
    ///
    /// # Errors
    /// Returns an error if the runtime on which the interval was created is shutting down. Periods
    /// that have ended may be reported first.
    ///
    /// # Cancel safety
    /// This method is cancel safe. If the future is dropped before it is ready, the next call
    /// reports the same periods.
    pub async fn tick(&mut self) -> io::Result<Expirations> {
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// Polls for the next tick, like [`PeriodicInterval::tick`]. A tick takes from tokio's
    /// cooperative budget.
    ///
    /// # Errors
    /// Returns an error if [`PeriodicInterval::tick`] would.
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Expirations>> {
        let budget = ready!(tokio::task::coop::poll_proceed(cx));
        let count =
            ready!(self.repetition.poll_ended_periods(cx, self.next.into_std(), self.period))?;
        budget.made_progress();
        let first = self.next;
        let last = add_periods(first, self.period, count.saturating_sub(1));
        self.next = add_periods(last, self.period, 1);
        Poll::Ready(Ok(Expirations { count, first, last }))
    }

    /// Returns the time between deadlines.
    #[must_use]
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Returns the deadline of the first period that has not been reported yet.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.next
    }

    /// Returns the timer that this interval ticks from.
    #[must_use]
    pub fn backend(&self) -> Backend {
        match &self.repetition {
            Repetition::Kernel { .. } => sys::native().unwrap_or(Backend::TokioSleep),
            Repetition::Rearmed(timer) => timer.backend(),
        }
    }
}

/// Returns how many periods have ended by `now`, if the first of them is due at `first`.
fn count_ended_periods(
    first: std::time::Instant,
    now: std::time::Instant,
    period: Duration,
) -> u64 {
    let Some(late) = now.checked_duration_since(first) else { return 0 };
    1 + u64::try_from(late.as_nanos() / period.as_nanos()).unwrap_or(u64::MAX - 1)
}

/// Returns `from` + `n` × `period`, exactly, or a time in the far future if no instant can
/// represent that.
fn add_periods(from: Instant, period: Duration, n: u64) -> Instant {
    const NANOS: u128 = 1_000_000_000;
    let total = period.as_nanos().saturating_mul(u128::from(n));
    let after =
        Duration::new(u64::try_from(total / NANOS).unwrap_or(u64::MAX), (total % NANOS) as u32);
    add_or_far(from.into_std(), after, from.into_std()).into()
}
