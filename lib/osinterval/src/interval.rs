//! `OsInterval`: an interval in the shape of tokio's, from the OS's own timer.

use std::io;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Instant;

use crate::backend::{Backend, Fallback};
use crate::clock::{is_shifted, tokio_now};
use crate::precision::{Lead, Precision};
use crate::real_clock::spin_until;
use crate::schedule::{Schedule, impl_interval_methods};
use crate::timer::Timer;

pub use cadence::MissedTickBehavior;

/// Creates an interval that ticks at once, then every `period`: [`tokio::time::interval`] over the
/// OS's timer.
///
/// # Panics
/// Panics if `period` is zero, outside of a tokio runtime with I/O enabled, or if the OS has no
/// timer left. [`OsInterval::builder`] returns an error for the last two.
///
/// # Examples
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let mut interval = osinterval::interval(std::time::Duration::from_millis(1));
/// let first = interval.tick().await;
/// let second = interval.tick().await;
/// assert_eq!(second - first, interval.period());
/// # });
/// ```
#[track_caller]
pub fn interval(period: Duration) -> OsInterval {
    unwrap_built(OsInterval::builder(period).build())
}

/// Creates an interval that ticks at `start`, then every `period`: [`tokio::time::interval_at`]
/// over the OS's timer.
///
/// # Panics
/// Panics if [`interval`] would.
///
/// # Examples
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use std::time::Duration;
/// let start = tokio::time::Instant::now() + Duration::from_millis(5);
/// let mut interval = osinterval::interval_at(start, Duration::from_millis(1));
/// assert_eq!(interval.tick().await, start);
/// # });
/// ```
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> OsInterval {
    unwrap_built(OsInterval::builder(period).start_at(start).build())
}

#[track_caller]
fn unwrap_built(built: io::Result<OsInterval>) -> OsInterval {
    match built {
        Ok(interval) => interval,
        // Not in a closure: the panic would name its line instead of the caller's.
        Err(error) => panic!("cannot create the interval: {error}"),
    }
}

/// Settings for an [`OsInterval`], created by [`OsInterval::builder`]. Unlike [`interval`], it
/// returns errors instead of panicking. It is `Send` and `Sync`.
///
/// # Examples
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use std::time::Duration;
/// use osinterval::{MissedTickBehavior, OsInterval, Precision};
/// let period = Duration::from_micros(500);
/// let mut interval = OsInterval::builder(period)
///     .start_at(tokio::time::Instant::now() + Duration::from_millis(2))
///     .missed_tick_behavior(MissedTickBehavior::Skip)
///     .tolerance(period / 2)
///     .precision(Precision::spin())
///     .build()?;
/// interval.tick().await;
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct IntervalBuilder {
    start: Option<Instant>,
    period: Duration,
    behavior: MissedTickBehavior,
    tolerance: Duration,
    fallback: Fallback,
    precision: Precision,
}

impl IntervalBuilder {
    /// Sets the deadline of the first tick; the first tick comes at once unless set.
    pub fn start_at(mut self, start: Instant) -> Self {
        self.start = Some(start);
        self
    }

    /// Sets the behaviour for missed ticks; [`MissedTickBehavior::Burst`] unless set.
    pub fn missed_tick_behavior(
        mut self,
        behavior: impl Into<MissedTickBehavior>, // pass tokio's as it is, without `.into()`
    ) -> Self {
        self.behavior = behavior.into();
        self
    }

    /// Sets how late a tick must be observed to count as missed; tokio's 5 ms unless set, so that
    /// both deliver the same sequences. At a period of 500 us that is ten periods: a program that
    /// uses `Delay` or `Skip` may want less.
    pub fn tolerance(mut self, tolerance: Duration) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// Sets how close to its deadline a tick is delivered, and at what cost; [`Precision::Os`]
    /// unless set.
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

    /// Creates the interval on the current tokio runtime. [`IntervalBuilder`] has an example.
    ///
    /// # Errors
    /// Returns an error if
    /// - it is not called within a tokio runtime, or the runtime's I/O driver is disabled
    ///   ([`io::ErrorKind::NotConnected`]). tokio reports the latter by a panic, which is caught
    ///   here: the panic hook runs, and a program built with `panic = "abort"` aborts.
    /// - the OS refuses a timer, for example because no descriptor is left. This does not happen
    ///   with [`Fallback::TokioSleep`].
    pub fn build(self) -> io::Result<OsInterval> {
        let timer = Timer::new(self.fallback)?;
        let deadline = self.start.unwrap_or_else(Instant::now);
        let lead = match self.precision {
            Precision::Spin(spin) if timer.is_native() => Some(Lead::new(spin, self.period)),
            _ => None,
        };
        let schedule = Schedule {
            deadline: deadline.into_std(),
            period: self.period,
            behavior: self.behavior,
            tolerance: self.tolerance,
            missed: 0,
        };
        let mut interval = OsInterval {
            timer,
            schedule,
            lead,
            wake_up_time: deadline.into_std(),
            has_waited: false,
        };
        interval.update_wake_up_time();
        Ok(interval)
    }
}

/// A periodic timer in the shape of [`tokio::time::Interval`], ticking from the OS's own timer.
///
/// Deadlines are absolute: tick k is due at start + k × period, however late the ticks before it
/// were, unless a missed-tick behaviour other than `Burst` moves the schedule. Each interval has
/// one timer of the OS, armed again for every tick: one system call arms it, and the runtime waits
/// in another.
///
/// # Precision
/// On an idle Linux machine a tick is tens of microseconds late: the kernel's high-resolution
/// timer, the wake-up of the thread and the turn of the runtime together. With [`Precision::Spin`]
/// nine ticks in ten are tens of nanoseconds late, and one in a hundred is later than microseconds
/// or tens of them. If the timer falls back to tokio's, ticks are one to two milliseconds late with
/// either precision.
///
/// # Thread safety
/// An `OsInterval` is `Send` and `Sync`. It may move to another thread or runtime, and ticks only
/// while the runtime on which it was created is running.
///
/// # Cancel safety
/// Dropping the future of [`OsInterval::tick`] loses no tick. Dropping the interval frees its
/// timer.
///
/// # Examples
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use std::time::Duration;
/// use osinterval::{MissedTickBehavior, OsInterval, Precision};
/// let mut interval = OsInterval::builder(Duration::from_millis(1)).precision(Precision::spin()).build()?;
/// interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
/// interval.set_tolerance(Duration::from_micros(100));
/// for _ in 0..10 {
///     let deadline = interval.tick().await;
///     println!("{:?} late; the timer is armed {:?} early", deadline.elapsed(), interval.lead());
/// }
/// println!("{} ticks from {} were missed", interval.missed(), interval.backend());
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
#[derive(Debug)]
#[must_use = "intervals do nothing unless they are ticked"]
pub struct OsInterval {
    timer: Timer,
    schedule: Schedule,
    lead: Option<Lead>,
    /// The time for which the timer is armed: the deadline, or the lead before it.
    wake_up_time: std::time::Instant,
    /// Whether the task has waited for the timer since `wake_up_time` was set. Only then its
    /// lateness is the timer's.
    has_waited: bool,
}

impl_interval_methods!(OsInterval, "osinterval::interval");

impl OsInterval {
    /// Creates a builder for an interval of this period; [`IntervalBuilder`] has an example.
    ///
    /// # Panics
    /// Panics if `period` is zero.
    #[track_caller]
    pub fn builder(period: Duration) -> IntervalBuilder {
        assert!(!period.is_zero(), "`period` must be non-zero");
        IntervalBuilder {
            start: None,
            period,
            behavior: MissedTickBehavior::default(),
            tolerance: cadence::DEFAULT_TOLERANCE,
            fallback: Fallback::default(),
            precision: Precision::default(),
        }
    }

    /// Polls for the next tick. Returns its deadline once that has come. Otherwise the task is
    /// woken then, or earlier if a `reset` method moves it.
    ///
    /// A tick takes from tokio's cooperative budget, so that a task which is always behind lets
    /// others run.
    ///
    /// # Panics
    /// Panics if the runtime on which the interval was created is shutting down, as
    /// [`tokio::time::Interval`] does.
    ///
    /// # Examples
    /// See [`OsInterval::tick`], which awaits it.
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        let budget = ready!(tokio::task::coop::poll_proceed(cx));
        ready!(self.poll_timer(cx, self.wake_up_time));
        let spins = self.lead.is_some() && !is_shifted();
        if spins {
            self.update_lead();
        } else if self.lead.is_some() {
            // A paused clock would never end a spin.
            ready!(self.poll_timer(cx, self.schedule.deadline));
        }
        budget.made_progress();
        // Dropping the budget takes time, so that is done before the deadline as well.
        drop(budget);
        let (due, punctual_until) = (self.schedule.deadline, self.schedule.punctual_until());
        // The next tick is computed before the deadline of this one, so that little work remains
        // after it.
        self.schedule.advance();
        self.update_wake_up_time();
        // In the precise mode this spins for the rest of the lead.
        let now = if spins { spin_until(due, tokio_now) } else { tokio_now() };
        if self.schedule.apply_behavior(due, punctual_until, now) {
            self.update_wake_up_time();
        }
        Poll::Ready(due.into())
    }

    fn poll_timer(&mut self, cx: &mut Context<'_>, deadline: std::time::Instant) -> Poll<()> {
        match self.timer.poll_until(cx, deadline) {
            Poll::Pending => {
                self.has_waited = true;
                Poll::Pending
            }
            Poll::Ready(Ok(())) => Poll::Ready(()),
            Poll::Ready(Err(error)) => {
                panic!("the timer of an interval failed; is its runtime shutting down? {error}")
            }
        }
    }

    /// Updates the lead by how late the timer has woken the task. Does nothing outside the precise
    /// mode.
    fn update_lead(&mut self) {
        if let Some(lead) = self.lead.as_mut().filter(|_| self.has_waited) {
            lead.observe(tokio_now().saturating_duration_since(self.wake_up_time));
        }
    }

    /// Recomputes the wake-up time after the deadline or the lead has changed.
    fn update_wake_up_time(&mut self) {
        let deadline = self.schedule.deadline;
        let lead = self.lead.as_ref().map(Lead::duration);
        self.wake_up_time = lead.and_then(|lead| deadline.checked_sub(lead)).unwrap_or(deadline);
        self.has_waited = false;
    }

    fn rearm(&mut self) -> io::Result<()> {
        self.update_wake_up_time();
        self.timer.bring_forward(self.wake_up_time)
    }

    /// Returns how long before a deadline the timer wakes the task at present; `None` outside the
    /// precise mode.
    #[must_use]
    pub fn lead(&self) -> Option<Duration> {
        self.lead.as_ref().map(Lead::duration)
    }

    /// Returns the timer that this interval ticks from.
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.timer.backend()
    }
}
