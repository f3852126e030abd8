//! `PeriodicInterval`: the kernel repeats, the reader counts.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Instant;

use crate::backend::{Backend, Fallback};
use crate::sys;
use crate::timer::{Timer, add_or_far, on_runtime, real_now};

/// The periods that ended since the last tick: one, or several where the reader was late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expirations {
    /// Number of periods; at least one.
    pub count: u64,
    /// Deadline of the first.
    pub first: Instant,
    /// Deadline of the last: `first` + (`count` − 1) × period.
    pub last: Instant,
}

/// A periodic timer that the kernel arms again by itself.
///
/// The schedule is absolute: start + k × period. A late reader gets one tick that reports how many
/// periods have ended and when each was due; none is delivered twice, none is left out. There is no
/// missed-tick behaviour and no reset: for those, and for one tick per period, use `OsInterval`.
///
/// # Platform notes
/// The kernel repeats on Linux and Android (`timerfd`), on Apple's systems and on FreeBSD (kqueue).
/// Elsewhere, and without the feature `os-native`, the same sequence comes from a timer that is
/// armed again for each tick.
///
/// kqueue starts to repeat only from the moment it is asked to, which is when the first tick has
/// been delivered: the kernel's wake-ups then come that much after the deadlines for as long as the
/// interval lives. The deadlines it reports are those of the schedule all the same. Where that
/// offset matters, use `OsInterval`, which has none.
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
pub struct PeriodicInterval {
    repetition: Repetition,
    period: Duration,
    /// Deadline of the first period that has not been reported.
    next: Instant,
}

#[derive(Debug)]
enum Repetition {
    Kernel(sys::Periodic),
    Rearmed(Timer),
}

impl PeriodicInterval {
    /// Ticks one period from now, then every `period`. [`PeriodicInterval`] has an example.
    ///
    /// # Errors
    /// As [`PeriodicInterval::new_at`].
    ///
    /// # Panics
    /// If `period` is zero.
    #[track_caller]
    pub fn new(period: Duration) -> io::Result<Self> {
        let now = if sys::KERNEL_PERIODIC { real_now().into() } else { Instant::now() };
        Self::new_at(add_or_far(now.into_std(), period, now.into_std()).into(), period)
    }

    /// Ticks at `start`, then every `period`. Where `start` has passed, the first tick comes at
    /// once and reports how many periods have ended since.
    ///
    /// # Errors
    /// - [`io::ErrorKind::NotConnected`]: not called within a tokio runtime, or its I/O driver is
    ///   disabled.
    /// - The OS's own error where it refuses a timer.
    ///
    /// # Panics
    /// If `period` is zero.
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
        let repetition = if sys::KERNEL_PERIODIC {
            Repetition::Kernel(on_runtime(|| sys::Periodic::new(start.into_std(), period))?)
        } else {
            Repetition::Rearmed(Timer::new(Fallback::Never)?)
        };
        Ok(Self { repetition, period, next: start })
    }

    /// Waits until at least one period has ended since the last tick.
    ///
    /// # Errors
    /// If the runtime it was made on is shutting down.
    ///
    /// # Cancel safety
    /// Dropping the future before it is ready loses nothing.
    pub async fn tick(&mut self) -> io::Result<Expirations> {
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// Polls for the next tick, as [`PeriodicInterval::tick`] waits for it. A tick takes from
    /// tokio's cooperative budget.
    ///
    /// # Errors
    /// As [`PeriodicInterval::tick`].
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Expirations>> {
        let budget = ready!(tokio::task::coop::poll_proceed(cx));
        let count = match &mut self.repetition {
            Repetition::Kernel(timer) => {
                // The kernel wakes, the clock counts, and is asked first: what makes the kernel go
                // on with its repetition programs a hardware timer, and that can wait until the
                // tick is delivered. Asked again whenever an expiration was taken from the kernel:
                // another may have gone with it.
                let mut may_tick = timer.may_be_taken_late();
                loop {
                    let count = periods_ended(self.next.into_std(), real_now(), self.period);
                    if may_tick && count > 0 {
                        break count;
                    }
                    ready!(timer.poll_expired(cx))?;
                    may_tick = true;
                }
            }
            Repetition::Rearmed(timer) => {
                ready!(timer.poll_until(cx, self.next.into_std()))?;
                periods_ended(self.next.into_std(), timer.now(), self.period)
            }
        };
        budget.made_progress();
        let first = self.next;
        let last = add_periods(first, self.period, count.saturating_sub(1));
        self.next = add_periods(last, self.period, 1);
        Poll::Ready(Ok(Expirations { count, first, last }))
    }

    /// The time between deadlines.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// The end of the first period that has not been reported yet.
    pub fn deadline(&self) -> Instant {
        self.next
    }

    /// What this interval ticks from.
    pub fn backend(&self) -> Backend {
        match &self.repetition {
            Repetition::Kernel(_) => sys::native().unwrap_or(Backend::TokioSleep),
            Repetition::Rearmed(timer) => timer.backend(),
        }
    }
}

/// Periods that have ended by `now`, the first of them due at `first`.
fn periods_ended(first: std::time::Instant, now: std::time::Instant, period: Duration) -> u64 {
    let Some(late) = now.checked_duration_since(first) else { return 0 };
    1 + u64::try_from(late.as_nanos() / period.as_nanos()).unwrap_or(u64::MAX - 1)
}

/// `from` + `n` × `period`, exact; far in the future where no instant can hold that.
fn add_periods(from: Instant, period: Duration, n: u64) -> Instant {
    const NANOS: u128 = 1_000_000_000;
    let total = period.as_nanos().saturating_mul(u128::from(n));
    let after =
        Duration::new(u64::try_from(total / NANOS).unwrap_or(u64::MAX), (total % NANOS) as u32);
    add_or_far(from.into_std(), after, from.into_std()).into()
}
