//! Periodic ticks for a thread without a runtime.
//!
//! Loops for audio, control and trading often have a thread of their own. An [`Interval`] of this
//! module blocks that thread until each deadline, and needs neither tokio nor any other runtime. It
//! has the schedule, the missed-tick behaviours and the precise mode of `OsInterval`. A [`Handle`]
//! ends its wait from another thread:
//!
//! ```
//! use std::time::Duration;
//!
//! let mut interval = osinterval::blocking::interval(Duration::from_micros(500));
//! let handle = interval.handle();
//! let control = std::thread::spawn(move || {
//!     let mut ticks = 0;
//!     while let Ok(_deadline) = interval.tick() {
//!         ticks += 1;
//!     }
//!     ticks
//! });
//! # #[allow(clippy::disallowed_methods)]
//! std::thread::sleep(Duration::from_millis(5));
//! handle.interrupt();
//! println!("stopped after {} ticks", control.join().unwrap());
//! ```
//!
//! To have this module without tokio, take it alone:
//! `osinterval = { version = "0.2", default-features = false, features = ["blocking"] }`.
//!
//! | Platform | The thread waits in | [`Backend`] |
//! |---|---|---|
//! | Linux, Android | an absolute `clock_nanosleep`; a futex once there is a handle | [`Backend::ThreadSleep`] |
//! | macOS, iOS and related systems | kqueue, absolute and critical | [`Backend::Kqueue`] |
//! | Windows 10 1803, Server 2019 and later | a high-resolution waitable timer | [`Backend::WaitableTimer`] |
//! | older Windows | a waitable timer | [`Backend::CoarseWaitableTimer`] |
//! | anything else | a condition variable of std | [`Backend::Condvar`] |
//!
//! No call allocates after the interval was created, except for the first one of
//! [`Interval::steer`].
//!
//! # Timer slack
//!
//! Linux may end a sleep of a thread later by its timer slack, which is 50 us unless it was set. A
//! wait of this module lowers the slack of its thread to 1 ns and restores it before `tick` returns,
//! so it is as punctual as `OsInterval`, whose timers have no slack. That costs three system calls
//! of about 0.2 us per tick. They are left out on a thread in a real-time class, which has no slack,
//! and on one whose slack is 1 ns already, which `prctl(PR_SET_TIMERSLACK, 1)` sets. On such a thread
//! the slack is read again after 200 ticks. If a sandbox denies `prctl`, the slack of the thread applies.
//!
//! # Clock
//!
//! Deadlines are on the clock of [`std::time::Instant`]: the kernel's monotonic clock, which stops
//! while the system is suspended. This module does not follow a clock that a test of tokio has
//! paused.

mod interrupt;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::backend::Backend;
use crate::precision::{Lead, Precision};
use crate::real_clock::{real_now, spin_until};
use crate::schedule::{Schedule, impl_schedule_methods};
use crate::sys::Sleeper;

pub use cadence::MissedTickBehavior;
pub use interrupt::{Handle, Interrupted};

use interrupt::InterruptState;

/// Creates an interval that ticks at once, then every `period`.
///
/// # Panics
/// Panics if `period` is zero, or if the OS has no timer left. Linux needs none.
/// [`Interval::builder`] returns an error for the latter.
///
/// # Examples
/// ```
/// let mut interval = osinterval::blocking::interval(std::time::Duration::from_millis(1));
/// let first = interval.tick()?;
/// let second = interval.tick()?;
/// assert_eq!(second - first, interval.period());
/// # Ok::<_, osinterval::blocking::Interrupted>(())
/// ```
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    unwrap_built(Interval::builder(period).build())
}

/// Creates an interval that ticks at `start`, then every `period`.
///
/// # Panics
/// Panics if [`interval`] would.
///
/// # Examples
/// ```
/// use std::time::{Duration, Instant};
/// let start = Instant::now() + Duration::from_millis(5);
/// let mut interval = osinterval::blocking::interval_at(start, Duration::from_millis(1));
/// assert_eq!(interval.tick(), Ok(start));
/// ```
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    unwrap_built(Interval::builder(period).start_at(start).build())
}

#[track_caller]
fn unwrap_built(built: io::Result<Interval>) -> Interval {
    match built {
        Ok(interval) => interval,
        // Not in a closure: the panic would name its line instead of the caller's.
        Err(error) => panic!("cannot create the interval: {error}"),
    }
}

/// Settings for an [`Interval`], created by [`Interval::builder`]. It is `Send` and `Sync`.
///
/// # Examples
/// ```
/// use std::time::{Duration, Instant};
/// use osinterval::blocking::{Interval, MissedTickBehavior};
/// use osinterval::Precision;
/// let period = Duration::from_micros(500);
/// let mut interval = Interval::builder(period)
///     .start_at(Instant::now() + Duration::from_millis(2))
///     .missed_tick_behavior(MissedTickBehavior::Skip)
///     .tolerance(period / 2)
///     .precision(Precision::spin())
///     .build()?;
/// interval.tick()?;
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct IntervalBuilder {
    start: Option<Instant>,
    period: Duration,
    behavior: MissedTickBehavior,
    tolerance: Duration,
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

    /// Sets how late a tick must be observed to count as missed; tokio's 5 ms unless set. At a
    /// period of 500 us that is ten periods: a program that uses `Delay` or `Skip` may want less.
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

    /// Creates the interval. [`IntervalBuilder`] has an example.
    ///
    /// # Errors
    /// Returns an error if the OS refuses a timer: on macOS if no descriptor is left, on Windows if
    /// no handle is.
    pub fn build(self) -> io::Result<Interval> {
        let sleeper = Sleeper::new()?;
        let spinning = match self.precision {
            // The share of the period is applied at each tick, since the period may change.
            Precision::Spin(spin) => {
                Some(Spinning { lead: Lead::new(spin, Duration::MAX), share: spin.share() })
            }
            Precision::Os => None,
        };
        let schedule = Schedule {
            deadline: self.start.unwrap_or_else(real_now),
            period: self.period,
            behavior: self.behavior,
            tolerance: self.tolerance,
            missed: 0,
            discipline: None,
        };
        let interrupt = Arc::new(InterruptState::new(sleeper));
        Ok(Interval { schedule, spinning, interrupt, has_handle: false })
    }
}

/// A periodic timer that blocks its thread: `OsInterval` without a runtime.
///
/// Deadlines are absolute: tick k is due at start + k × period, however late the ticks before it
/// were, unless a missed-tick behaviour other than `Burst` moves the schedule. No tick is early: the
/// clock is compared with the deadline after every wake-up.
///
/// # Precision
/// On an idle Linux machine a tick is tens of microseconds late: the kernel's high-resolution timer
/// and the wake-up of the thread. With [`Precision::Spin`] nine ticks in ten are tens of nanoseconds
/// late, and one in a hundred is microseconds late or more. The lead follows the lateness of the
/// sleep, and is limited by [`Spin`](crate::Spin) as that of `OsInterval` is. On a busy CPU the
/// thread waits for its turn, and no lead helps against that. [`blocking`](self) has the systems and
/// the timer slack.
///
/// # Thread safety
/// An `Interval` is `Send` and `Sync`, and may move to another thread between ticks. A [`Handle`]
/// ends its wait from another thread.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use osinterval::blocking::{Interval, MissedTickBehavior};
/// use osinterval::Precision;
/// let mut interval = Interval::builder(Duration::from_millis(1)).precision(Precision::spin()).build()?;
/// interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
/// interval.set_tolerance(Duration::from_micros(100));
/// for _ in 0..10 {
///     let deadline = interval.tick()?;
///     println!("{:?} late; the thread wakes up {:?} early", deadline.elapsed(), interval.lead());
/// }
/// println!("{} ticks from {} were missed", interval.missed(), interval.backend());
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug)]
#[must_use = "intervals do nothing unless they are ticked"]
pub struct Interval {
    schedule: Schedule,
    spinning: Option<Spinning>,
    interrupt: Arc<InterruptState>,
    /// Whether another thread may interrupt a wait.
    has_handle: bool,
}

/// The state of the precise mode.
#[derive(Debug)]
struct Spinning {
    lead: Lead,
    /// The maximum of the lead as a share of the period.
    share: f64,
}

/// The end of a wait.
struct WakeUp {
    due: Instant,
    punctual_until: Instant,
    /// The time of the clock, which may be before the deadline in the precise mode.
    now: Instant,
}

impl_schedule_methods!(Interval, std::time::Instant, crate::real_clock::real_now);

impl Interval {
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
            precision: Precision::default(),
        }
    }

    /// Blocks the thread until the next tick is due, and returns its deadline. Returns at once if
    /// the deadline has passed. Signals do not end the wait.
    ///
    /// # Errors
    /// Returns [`Interrupted`] if a [`Handle`] has interrupted this call, or has done so since the
    /// last tick, even if a tick is due. No tick is lost: the next call waits for the same deadline.
    /// An interrupt that comes when the deadline has been reached, or while the precise mode spins,
    /// ends the next call. An interval without a handle returns no error.
    ///
    /// # Panics
    /// Panics if the OS fails to put the thread to sleep. That happens only if a sandbox denies the
    /// system call, or on macOS in a process that forked after it created the interval.
    // Inlined, so that the end of the spin is followed by the code of the caller. A return to code
    // that was called before the sleep would have to be predicted and fetched again.
    #[inline]
    pub fn tick(&mut self) -> Result<Instant, Interrupted> {
        let WakeUp { due, punctual_until, mut now } = self.wait()?;
        if now < due {
            now = spin_until(due, real_now);
        }
        self.schedule.apply_behavior(due, punctual_until, now);
        Ok(due)
    }

    /// Waits until the next tick is due, or until the lead before that, and advances to the tick
    /// after it.
    #[inline(never)]
    fn wait(&mut self) -> Result<WakeUp, Interrupted> {
        if self.interrupt.take() {
            return Err(Interrupted);
        }
        let due = self.schedule.deadline;
        let wake_up_time = self.lead().and_then(|lead| due.checked_sub(lead)).unwrap_or(due);
        let mut now = real_now();
        let has_to_wait = now < wake_up_time;
        if has_to_wait {
            let word = self.has_handle.then(|| self.interrupt.word());
            while now < wake_up_time {
                if let Err(error) = self.interrupt.sleeper.sleep_until(word, wake_up_time) {
                    panic!("cannot wait for a tick: {error}");
                }
                now = real_now();
                if now < wake_up_time && self.interrupt.take() {
                    return Err(Interrupted);
                }
            }
        }
        // The next tick is computed before the deadline of this one, so that little work remains
        // after it.
        let punctual_until = self.schedule.punctual_until();
        self.schedule.advance();
        if let Some(spinning) = self.spinning.as_mut().filter(|_| has_to_wait) {
            // The lead follows how late the thread is ready to spin.
            now = real_now();
            spinning.lead.observe(now - wake_up_time);
        }
        Ok(WakeUp { due, punctual_until, now })
    }

    /// Returns a handle that ends the waits of this interval from other threads. [`Handle`] has an
    /// example.
    ///
    /// On Linux, ticks cost a few per cent less CPU time before the first call.
    #[must_use]
    pub fn handle(&mut self) -> Handle {
        self.has_handle = true;
        Handle(Arc::clone(&self.interrupt))
    }

    /// Sets the time between deadlines, from the deadline of the next tick on: that one stays, and
    /// later ones follow it at the new period. [`Self::reset`] moves it as well.
    ///
    /// # Panics
    /// Panics if `period` is zero.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// let mut interval = osinterval::blocking::interval(Duration::from_millis(2));
    /// let first = interval.tick()?;
    /// interval.set_period(Duration::from_millis(1));
    /// assert_eq!(interval.tick()?, first + Duration::from_millis(2));
    /// assert_eq!(interval.tick()?, first + Duration::from_millis(3));
    /// # Ok::<_, osinterval::blocking::Interrupted>(())
    /// ```
    #[track_caller]
    pub fn set_period(&mut self, period: Duration) {
        assert!(!period.is_zero(), "`period` must be non-zero");
        self.schedule.period = period;
    }

    /// Moves the next tick to `deadline`; later ticks follow from there. It costs no system call.
    ///
    /// # Examples
    /// ```
    /// use std::time::{Duration, Instant};
    /// let mut interval = osinterval::blocking::interval(Duration::from_secs(60));
    /// interval.tick()?; // the first, at once
    /// let soon = Instant::now() + Duration::from_millis(2);
    /// interval.reset_at(soon);
    /// assert_eq!(interval.tick(), Ok(soon));
    /// interval.reset_after(Duration::from_millis(2));
    /// interval.tick()?;
    /// interval.reset_immediately();
    /// assert!(interval.tick()? <= Instant::now());
    /// interval.reset();
    /// assert!(interval.deadline() > Instant::now());
    /// # Ok::<_, osinterval::blocking::Interrupted>(())
    /// ```
    pub fn reset_at(&mut self, deadline: Instant) {
        self.schedule.deadline = deadline;
    }

    /// Returns how long before a deadline the thread wakes up at present; `None` outside the precise
    /// mode.
    #[must_use]
    pub fn lead(&self) -> Option<Duration> {
        let spinning = self.spinning.as_ref()?;
        let max_secs = self.schedule.period.as_secs_f64() * spinning.share;
        // As a float, a period close to the maximum of durations exceeds that.
        let max_lead = Duration::try_from_secs_f64(max_secs).unwrap_or(Duration::MAX);
        Some(spinning.lead.duration().min(max_lead))
    }

    /// Returns the kind of wait of this interval.
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.interrupt.sleeper.backend()
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use std::time::Duration;

    use loom::sync::Arc as LoomArc;
    use loom::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    /// Runs a test under every schedule, with both kinds of sleeper.
    fn model(test: impl Fn(Interval) + Send + Sync + Copy + 'static) {
        for remembers_wake in [false, true] {
            loom::model(move || {
                let mut interval = interval_at(real_now() + HOUR, HOUR);
                let sleeper = Sleeper::with_memory(remembers_wake);
                interval.interrupt = Arc::new(InterruptState::new(sleeper));
                test(interval);
            });
        }
    }

    /// The model of a sleep has no timeout, so a lost interrupt is a deadlock.
    #[test]
    fn no_interrupt_is_lost() {
        model(|mut interval| {
            let handle = interval.handle();
            let is_seen = LoomArc::new(AtomicU32::new(0));
            let is_set = LoomArc::clone(&is_seen);
            let thread = loom::thread::spawn(move || {
                is_set.store(1, Ordering::Relaxed);
                handle.interrupt();
            });
            assert_eq!(interval.tick(), Err(Interrupted));
            assert_eq!(is_seen.load(Ordering::Relaxed), 1);
            thread.join().unwrap();
        });
    }

    #[test]
    fn interrupt_ends_one_of_two_calls() {
        model(|mut interval| {
            let handle = interval.handle();
            interval.reset_immediately();
            let due = interval.deadline();
            let thread = loom::thread::spawn(move || handle.interrupt());
            let first = interval.tick();
            // If the due tick was delivered, the interrupt ends the wait for the next one.
            let second = interval.tick();
            match first {
                Ok(deadline) => assert_eq!((deadline, second), (due, Err(Interrupted))),
                Err(Interrupted) => assert_eq!(second, Ok(due)),
            }
            thread.join().unwrap();
        });
    }

    #[test]
    fn interrupts_of_two_threads_wake() {
        model(|mut interval| {
            let (handle, other) = (interval.handle(), interval.handle());
            let thread = loom::thread::spawn(move || handle.interrupt());
            let other_thread = loom::thread::spawn(move || other.interrupt());
            assert_eq!(interval.tick(), Err(Interrupted));
            thread.join().unwrap();
            other_thread.join().unwrap();
        });
    }
}
