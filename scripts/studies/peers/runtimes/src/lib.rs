//! The contract between `osjitter run` and the programs of this package, each of which waits in the
//! timer of one runtime.
//!
//! A program starts the grid of deadlines of a [`Request`], waits for each deadline, and records
//! each wake-up in the [`Round`]:
//!
//! ```
//! use std::time::{Duration, Instant};
//! use peers_runtimes::Request;
//!
//! let request = Request { period: Duration::from_micros(100), warmup: 1, ticks: 2 };
//! let mut round = request.start();
//! while let Some(deadline) = round.next_deadline() {
//!     std::thread::sleep(deadline.saturating_duration_since(Instant::now()));
//!     round.record_wakeup();
//! }
//! assert_eq!(round.lateness_ns().len(), 2);
//! ```

use std::error::Error;
use std::fmt;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use jitterstat::series::{self, Writer};

/// Time from the start of the grid to the first possible deadline, in which the task begins to
/// wait.
const LEAD: Duration = Duration::from_millis(2);
/// Minimum width of the range of the random phase. Wheels of timers have slots of a millisecond.
const MIN_PHASE_RANGE: Duration = Duration::from_millis(1);

/// An error of a program.
pub type BoxError = Box<dyn Error>;

/// The ticks that `osjitter run` requests of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Time between two deadlines.
    pub period: Duration,
    /// Number of ticks before the recorded ones.
    pub warmup: usize,
    /// Number of ticks to record.
    pub ticks: usize,
}

impl Request {
    /// Reads the request from the environment.
    ///
    /// # Errors
    ///
    /// Returns an error if a variable is missing or is not a number.
    pub fn from_env() -> Result<Self, BoxError> {
        let period_ns = number(series::ENV_PERIOD)?;
        Ok(Self {
            period: Duration::from_nanos(period_ns),
            warmup: usize::try_from(number(series::ENV_WARMUP)?)?,
            ticks: usize::try_from(number(series::ENV_TICKS)?)?,
        })
    }

    /// Starts the grid of deadlines. The first deadline has a random phase, because the lateness of
    /// a timer with coarse slots depends on it.
    #[must_use]
    pub fn start(self) -> Round {
        let range = self.period.max(MIN_PHASE_RANGE);
        let total = self.warmup + self.ticks;
        Round {
            request: self,
            next_deadline: Instant::now() + LEAD + random_below(range),
            remaining: total,
            lateness_ns: Vec::with_capacity(total),
        }
    }
}

/// Reads a number from the environment.
fn number(name: &str) -> Result<u64, BoxError> {
    let text = std::env::var(name).map_err(|error| format!("{name}: {error}"))?;
    text.parse().map_err(|_| format!("invalid {name} {text:?}: expected a number").into())
}

/// Returns a random duration below `range`. The hasher of the standard library has random keys.
fn random_below(range: Duration) -> Duration {
    let random = RandomState::new().hash_one(());
    range.mul_f64(random as f64 / u64::MAX as f64)
}

/// A round: its grid of deadlines and the lateness of the ticks that were delivered.
///
/// The deadlines never shift. A program that falls behind is late for all deadlines that it missed.
#[derive(Debug)]
pub struct Round {
    request: Request,
    next_deadline: Instant,
    remaining: usize,
    lateness_ns: Vec<i64>,
}

impl Round {
    /// Returns the time between two deadlines.
    #[must_use]
    pub fn period(&self) -> Duration {
        self.request.period
    }

    /// Returns the deadline of the next tick; `None` after the last one.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        (self.remaining > 0).then_some(self.next_deadline)
    }

    /// Returns the deadline of the first tick, for an interval that ticks for the whole round.
    ///
    /// # Panics
    ///
    /// Panics if a tick was recorded already.
    #[must_use]
    pub fn first_deadline(&self) -> Instant {
        assert!(self.lateness_ns.is_empty(), "the first deadline is over");
        self.next_deadline
    }

    /// Returns the time until the next deadline, for a timer that does not accept deadlines; zero
    /// if it is over.
    #[must_use]
    pub fn remaining_time(&self) -> Duration {
        self.next_deadline.saturating_duration_since(Instant::now())
    }

    /// Records that the task woke up for the next deadline. Must be called immediately after the
    /// wait.
    pub fn record_wakeup(&mut self) {
        let now = Instant::now();
        self.lateness_ns.push(signed_ns(self.next_deadline, now));
        self.next_deadline += self.request.period;
        self.remaining = self.remaining.saturating_sub(1);
    }

    /// Returns the lateness of each tick after the warm-up.
    #[must_use]
    pub fn lateness_ns(&self) -> &[i64] {
        self.lateness_ns.get(self.request.warmup..).unwrap_or_default()
    }

    /// Writes the series of the ticks after the warm-up.
    fn write(&self) -> Result<(), BoxError> {
        let path = std::env::var(series::ENV_OUT)
            .map_err(|error| format!("{}: {error}", series::ENV_OUT))?;
        let mut series =
            Writer::new(File::create(path)?, u64::try_from(self.period().as_nanos())?)?;
        for &lateness in self.lateness_ns() {
            series.push(lateness)?;
        }
        Ok(series.finish()?)
    }
}

/// Returns the nanoseconds from one instant to another; negative if the other is earlier.
fn signed_ns(from: Instant, to: Instant) -> i64 {
    let after = to.saturating_duration_since(from).as_nanos();
    let before = from.saturating_duration_since(to).as_nanos();
    let limit = |ns: u128| i64::try_from(ns).unwrap_or(i64::MAX);
    limit(after) - limit(before)
}

/// Measures the requested round with `wait` and writes its series. An error is printed, with the
/// name of the runtime.
pub fn measure(runtime: &str, wait: impl FnOnce(Request) -> Result<Round, BoxError>) -> ExitCode {
    let measured = Request::from_env().and_then(wait).and_then(|round| round.write());
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: cannot wait in {runtime}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Explains an error of a runtime that waits in io_uring and could not be created.
pub fn ring_error(error: impl fmt::Display) -> BoxError {
    format!(
        "cannot create a ring: {error}; io_uring needs Linux 5.8 or later, and permission by the \
         sandbox and by kernel.io_uring_disabled"
    )
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: Request = Request { period: Duration::from_micros(100), warmup: 2, ticks: 3 };

    #[test]
    fn deadlines_are_on_the_grid() {
        let mut round = REQUEST.start();
        let first = round.first_deadline();
        let mut deadlines = Vec::new();
        while let Some(deadline) = round.next_deadline() {
            deadlines.push(deadline - first);
            round.record_wakeup();
        }
        assert_eq!(deadlines, [0, 100, 200, 300, 400].map(Duration::from_micros));
        assert_eq!(round.lateness_ns().len(), 3, "the warm-up is dropped");
    }

    #[test]
    fn early_wakeups_are_negative() {
        let mut round = Request { warmup: 0, ..REQUEST }.start();
        round.next_deadline += Duration::from_secs(3600);
        round.record_wakeup();
        assert!(round.lateness_ns()[0] < 0, "{:?}", round.lateness_ns());
    }

    #[test]
    fn phases_are_random_and_bounded() {
        let range = Duration::from_millis(1);
        let phases: Vec<Duration> = (0..100).map(|_| random_below(range)).collect();
        assert!(phases.iter().all(|&phase| phase <= range));
        assert!(phases.iter().any(|&phase| phase != phases[0]));
    }
}
