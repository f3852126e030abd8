//! `OsInterval`: an interval in the shape of tokio's, from the OS's own timer.

use std::future::poll_fn;
use std::io;
#[cfg(feature = "stream")]
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Instant;

use crate::backend::{Backend, Fallback};
use crate::clock::{is_shifted, tokio_now};
use crate::precision::{Lead, Precision};
use crate::queue::{QueuedWait, TimerQueue};
use crate::real_clock::spin_until;
use crate::runtime_queue::current_queue;
use crate::schedule::{Schedule, impl_schedule_methods};
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
    timer: IntervalTimer,
}

/// The owner of the timer that an interval ticks from. [`IntervalBuilder::timer`] sets it.
///
/// The shared timer suits any number of intervals: a few are as late and cost as much as with a
/// timer each, to within a tenth, and at periods of up to 2 ms one needs less CPU time in a virtual
/// machine, where arming is expensive. A thousand with a timer each saturate a core. The book of
/// osjitter has a table (Choosing a ticker). An own timer is independent of the other
/// intervals, sleeps and timeouts of the runtime.
///
/// # Examples
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use osinterval::{IntervalTimer, OsInterval};
/// let period = std::time::Duration::from_millis(1);
/// let mut interval = OsInterval::builder(period).timer(IntervalTimer::Own).build()?;
/// interval.tick().await;
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IntervalTimer {
    /// That of the runtime, which all its intervals, sleeps and timeouts share.
    #[default]
    Shared,
    /// A timer and a descriptor of the interval's own.
    Own,
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

    /// Sets whose timer of the OS the interval ticks from; [`IntervalTimer::Shared`] unless set. An
    /// interval with [`Precision::Spin`] always has its own.
    pub fn timer(mut self, timer: IntervalTimer) -> Self {
        self.timer = timer;
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
        if self.timer == IntervalTimer::Own || self.precision != Precision::Os {
            let deadline = self.start.unwrap_or_else(Instant::now);
            let timer = OwnTimer::new(&self, deadline.into_std())?;
            return Ok(self.build_with(deadline, IntervalSource::Own(Box::new(timer))));
        }
        let queue = match (current_queue(), self.fallback) {
            (Err(_), Fallback::TokioSleep) => {
                TimerQueue::new(Duration::from_nanos(1), Precision::Os, self.fallback)?
            }
            (queue, _) => queue?,
        };
        Ok(self.build_on(queue))
    }

    /// Creates the interval on a queue. The precision is that of the queue.
    pub(crate) fn build_on(self, queue: Arc<TimerQueue>) -> OsInterval {
        let deadline = self.start.unwrap_or_else(Instant::now);
        self.build_with(deadline, IntervalSource::Shared(QueuedWait::new(queue)))
    }

    fn build_with(self, deadline: Instant, source: IntervalSource) -> OsInterval {
        let Self { period, behavior, tolerance, .. } = self;
        OsInterval {
            source,
            schedule: Schedule {
                deadline: deadline.into_std(),
                period,
                behavior,
                tolerance,
                missed: 0,
                discipline: None,
            },
        }
    }
}

/// A periodic timer in the shape of [`tokio::time::Interval`], ticking from the OS's own timer.
///
/// Deadlines are absolute: tick k is due at start + k × period, however late the ticks before it
/// were, unless a missed-tick behaviour other than `Burst` moves the schedule. One system call
/// arms a timer for each tick, and the runtime waits in another.
///
/// All intervals, sleeps and timeouts of a runtime share its timer, which on Linux is two
/// descriptors and elsewhere at most one, however many they are. [`IntervalTimer::Own`] and the
/// precise mode have a descriptor for each interval. The intervals of an
/// [`IntervalGroup`](crate::IntervalGroup) share that of the group.
///
/// # Precision
/// On an idle Linux machine a tick is tens of microseconds late: the kernel's high-resolution
/// timer, the wake-up of the thread and the turn of the runtime together. With [`Precision::Spin`]
/// nine ticks in ten are tens of nanoseconds late, and the 99th percentile is microseconds or tens
/// of them. If the timer falls back to tokio's, ticks are one to two milliseconds late with
/// either precision.
///
/// # Thread safety
/// An `OsInterval` is `Send` and `Sync`. It may move to another thread or runtime, and ticks only
/// while the runtime on which it or its group was created is running.
///
/// # Cancel safety
/// Dropping the future of [`OsInterval::tick`] loses no tick. Dropping the interval frees its
/// timer, or its place in the shared one.
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
    source: IntervalSource,
    schedule: Schedule,
}

#[derive(Debug)]
enum IntervalSource {
    Shared(QueuedWait),
    Own(Box<OwnTimer>),
}

impl_schedule_methods!(OsInterval, Instant, tokio_now);

/// An endless stream of ticks; each item is the deadline of one.
#[cfg(feature = "stream")]
impl futures_core::Stream for OsInterval {
    type Item = Instant;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_tick(cx).map(Some)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX, None)
    }
}

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
            timer: IntervalTimer::default(),
        }
    }

    /// Waits for the next tick and returns its deadline, which has passed by then.
    ///
    /// # Panics
    /// Panics if the runtime on which the interval was created is shutting down, as
    /// `tokio::time::Interval` does. An interval with a timer of its own ([`IntervalTimer::Own`],
    /// or the precise mode) first delivers the ticks that are due, and panics when it has to wait.
    ///
    /// # Cancel safety
    /// This method is cancel safe. If the future is dropped before it is ready, the next
    /// call waits for the same tick.
    ///
    /// # Examples
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let mut interval = osinterval::interval(std::time::Duration::from_millis(1));
    /// let deadline = interval.tick().await;
    /// // `poll_tick` delivers the next tick like `tick`.
    /// let next = std::future::poll_fn(|cx| interval.poll_tick(cx)).await;
    /// assert_eq!(next, deadline + interval.period());
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    pub async fn tick(&mut self) -> Instant {
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// Moves the next tick to `deadline`; later ticks follow from there.
    ///
    /// A task that waits for the tick is woken at the new deadline, and within this call if that
    /// has passed. The call costs one system call if a polled, pending tick moves earlier.
    /// Postponing a tick costs none: the thread may be woken once at the old deadline.
    ///
    /// # Panics
    /// Panics if the OS fails to re-arm the timer. No supported OS is known to do that.
    ///
    /// # Examples
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use std::time::Duration;
    /// use tokio::time::Instant;
    /// let mut interval = osinterval::interval(Duration::from_secs(60));
    /// interval.tick().await; // the first, at once
    /// let soon = Instant::now() + Duration::from_millis(2);
    /// interval.reset_at(soon);
    /// assert_eq!(interval.tick().await, soon);
    /// interval.reset_after(Duration::from_millis(2));
    /// interval.tick().await;
    /// interval.reset_immediately();
    /// assert!(interval.tick().await <= Instant::now());
    /// interval.reset();
    /// assert!(interval.deadline() > Instant::now());
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    pub fn reset_at(&mut self, deadline: Instant) {
        self.schedule.deadline = deadline.into_std();
        if let Err(error) = self.rearm() {
            panic!("cannot arm the timer of an interval: {error}");
        }
    }

    /// Polls for the next tick. Returns its deadline once that has come. Otherwise the task is
    /// woken then, or earlier if a `reset` method moves it.
    ///
    /// A tick takes from tokio's cooperative budget, so that a task which is always behind lets
    /// others run.
    ///
    /// # Panics
    /// Panics if [`OsInterval::tick`] would.
    ///
    /// # Examples
    /// See [`OsInterval::tick`], which awaits it.
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        let budget = ready!(tokio::task::coop::poll_proceed(cx));
        let Self { source, schedule } = self;
        match source {
            IntervalSource::Shared(wait) => {
                let now = ready!(wait.poll_tick(schedule.deadline, schedule.period, cx));
                budget.made_progress();
                let now = now.unwrap_or_else(|error| panic_failed(&error));
                Poll::Ready(schedule.observe(now).into())
            }
            IntervalSource::Own(timer) => {
                ready!(timer.poll_wake_up(schedule, cx));
                budget.made_progress();
                // Dropping the budget takes time, so that is done before the deadline as well.
                drop(budget);
                Poll::Ready(timer.deliver(schedule).into())
            }
        }
    }

    fn rearm(&mut self) -> io::Result<()> {
        match &mut self.source {
            IntervalSource::Shared(wait) => wait.reset(self.schedule.deadline),
            IntervalSource::Own(timer) => {
                timer.update_wake_up_time(self.schedule.deadline);
                timer.timer.bring_forward(timer.end_of_wait(&self.schedule))
            }
        }
    }

    /// Returns how long before a deadline the timer wakes the task at present; `None` outside the
    /// precise mode.
    #[must_use]
    pub fn lead(&self) -> Option<Duration> {
        match &self.source {
            IntervalSource::Shared(wait) => wait.queue().lead(),
            IntervalSource::Own(timer) => timer.lead.as_ref().map(Lead::duration),
        }
    }

    /// Returns the timer that this interval ticks from.
    #[must_use]
    pub fn backend(&self) -> Backend {
        match &self.source {
            IntervalSource::Shared(wait) => wait.queue().backend(),
            IntervalSource::Own(timer) => timer.timer.backend(),
        }
    }
}

#[cold]
fn panic_failed(error: &io::Error) -> ! {
    panic!("the timer of an interval failed: {error}")
}

/// A timer that belongs to one interval, for which it may have a lead.
#[derive(Debug)]
struct OwnTimer {
    timer: Timer,
    lead: Option<Lead>,
    /// The time for which the timer is armed: the deadline, or the lead before it.
    wake_up_time: std::time::Instant,
    /// Whether the task has waited for the timer since `wake_up_time` was set. Only then its
    /// lateness is the timer's.
    has_waited: bool,
}

impl OwnTimer {
    fn new(settings: &IntervalBuilder, deadline: std::time::Instant) -> io::Result<Self> {
        let timer = Timer::new(settings.fallback)?;
        let lead = match settings.precision {
            Precision::Spin(spin) if timer.is_native() => Some(Lead::new(spin, settings.period)),
            _ => None,
        };
        let mut own = Self { timer, lead, wake_up_time: deadline, has_waited: false };
        own.update_wake_up_time(deadline);
        Ok(own)
    }

    /// Returns whether the task is woken before its deadline, and spins. A paused clock would never end
    /// that.
    fn is_spinning(&self) -> bool {
        self.lead.is_some() && !is_shifted()
    }

    /// Returns the time at which the task has to be woken for the next tick.
    fn end_of_wait(&self, schedule: &Schedule) -> std::time::Instant {
        if self.is_spinning() { self.wake_up_time } else { schedule.deadline }
    }

    fn poll_wake_up(&mut self, schedule: &Schedule, cx: &mut Context<'_>) -> Poll<()> {
        match self.timer.poll_until(cx, self.end_of_wait(schedule)) {
            Poll::Pending => {
                self.has_waited = true;
                Poll::Pending
            }
            Poll::Ready(result) => {
                result.unwrap_or_else(|error| panic_failed(&error));
                Poll::Ready(())
            }
        }
    }

    /// Delivers the tick that the task was woken for, and returns its deadline.
    fn deliver(&mut self, schedule: &mut Schedule) -> std::time::Instant {
        let spins = self.is_spinning();
        let (due, punctual_until) = (schedule.deadline, schedule.punctual_until());
        // The next tick is computed before the deadline of this one, so that little work remains
        // after it.
        schedule.advance();
        if let Some(lead) = self.lead.as_mut().filter(|_| spins && self.has_waited) {
            // The lead follows how late the task is ready to spin.
            lead.observe(tokio_now().saturating_duration_since(self.wake_up_time));
        }
        self.update_wake_up_time(schedule.deadline);
        // In the precise mode this spins for the rest of the lead.
        let now = if spins { spin_until(due, tokio_now) } else { tokio_now() };
        if schedule.apply_behavior(due, punctual_until, now) {
            self.update_wake_up_time(schedule.deadline);
        }
        due
    }

    /// Recomputes the wake-up time after the deadline or the lead has changed.
    fn update_wake_up_time(&mut self, deadline: std::time::Instant) {
        let lead = self.lead.as_ref().map(Lead::duration);
        self.wake_up_time = lead.and_then(|lead| deadline.checked_sub(lead)).unwrap_or(deadline);
        self.has_waited = false;
    }
}
