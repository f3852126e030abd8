//! Interrupts: how another thread ends the wait of an interval.

use std::fmt;
use std::io;
use std::sync::Arc;

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering};

use crate::sys::Sleeper;

/// Ends the waits of one [`Interval`](super::Interval) from any thread. Clones end the waits of the
/// same interval.
///
/// An interrupt that comes while no tick is awaited ends the next call of
/// [`Interval::tick`](super::Interval::tick), so none is lost. Several interrupts before that are
/// one. A handle outlives its interval, and has no effect from then on.
///
/// # Thread safety
/// A `Handle` is `Send`, `Sync` and `Clone`.
///
/// # Examples
/// ```
/// use std::time::{Duration, Instant};
/// use osinterval::blocking::{Interrupted, Interval};
/// let hour = Duration::from_secs(3_600);
/// let mut interval = Interval::builder(hour).start_at(Instant::now() + hour).build()?;
/// let handle = interval.handle();
/// let waiting = std::thread::spawn(move || interval.tick());
/// handle.interrupt();
/// assert_eq!(waiting.join().unwrap(), Err(Interrupted));
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct Handle(pub(super) Arc<InterruptState>);

impl Handle {
    /// Ends the wait of the interval: [`Interval::tick`](super::Interval::tick) returns
    /// [`Interrupted`]. All that happened before this call is visible after that return.
    ///
    /// It costs one system call, or none if the last interrupt has not been returned yet. It is not
    /// meant for signal handlers: on some systems it takes a lock.
    pub fn interrupt(&self) {
        self.0.raise();
    }
}

/// The error of [`Interval::tick`](super::Interval::tick) if a [`Handle`] has ended the wait. No
/// tick is lost: the next call waits for the same deadline.
///
/// As an [`io::Error`] it has the kind [`io::ErrorKind::Interrupted`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the wait for a tick was interrupted")
    }
}

impl std::error::Error for Interrupted {}

impl From<Interrupted> for io::Error {
    fn from(error: Interrupted) -> Self {
        Self::new(io::ErrorKind::Interrupted, error)
    }
}

/// The state that an interval shares with its handles.
///
/// The waiting thread takes the interrupt before each sleep. A thread that interrupts sets it first
/// and wakes the sleeper then. So an interrupt after the last look of the waiting thread finds a
/// sleeper that compares the word itself, or that remembers the wake-up: see
/// [`sys`](crate::sys). `loom` runs this under every schedule.
#[derive(Debug)]
pub(super) struct InterruptState {
    /// One if there is an interrupt that was not taken yet, otherwise zero.
    pending: AtomicU32,
    pub(super) sleeper: Sleeper,
}

impl InterruptState {
    pub(super) fn new(sleeper: Sleeper) -> Self {
        Self { pending: AtomicU32::new(0), sleeper }
    }

    /// Returns the word that a sleep compares with zero.
    pub(super) fn word(&self) -> &AtomicU32 {
        &self.pending
    }

    /// Takes the interrupt, if there is one.
    pub(super) fn take(&self) -> bool {
        self.pending.load(Ordering::Relaxed) != 0 && self.pending.swap(0, Ordering::Acquire) != 0
    }

    fn raise(&self) {
        // Another thread that has set the word wakes the sleeper, or has done so.
        if self.pending.swap(1, Ordering::Release) == 0 {
            self.sleeper.wake(&self.pending);
        }
    }
}
