//! The background thread that recalibrates at an interval set by the caller.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::instant::recalibrate;

/// A recalibration interval that suits most programs that need the background thread.
pub const DEFAULT_RECALIBRATION_INTERVAL: Duration = Duration::from_secs(60);
/// The shortest interval of the thread. An anchor costs microseconds, and the rate does not change
/// within less time.
const MIN_INTERVAL: Duration = Duration::from_millis(1);

#[derive(Debug)]
struct Recalibrator {
    state: Mutex<RecalibratorState>,
    changed: Condvar,
}

#[derive(Debug)]
struct RecalibratorState {
    /// Zero if there should be no thread.
    interval: Duration,
    /// The id of the process in which the thread runs. The thread does not survive a fork.
    running_in: Option<u32>,
}

static RECALIBRATOR: Recalibrator = Recalibrator::new();

/// Calls [`recalibrate`] at every `interval` (at least a millisecond) from a background thread.
///
/// The first call starts the thread. A later call takes effect immediately, and an interval of zero
/// ends the thread. Without a call, no thread runs.
///
/// # Errors
/// Returns an error if the thread cannot be started.
///
/// # Examples
/// ```
/// tach::set_recalibration_interval(tach::DEFAULT_RECALIBRATION_INTERVAL)?;
/// tach::set_recalibration_interval(std::time::Duration::ZERO)?; // ends the thread
/// # std::io::Result::Ok(())
/// ```
pub fn set_recalibration_interval(interval: Duration) -> io::Result<()> {
    RECALIBRATOR.set_interval(interval, start_thread)
}

fn start_thread() -> io::Result<()> {
    let builder = std::thread::Builder::new().name("tach-recalibrate".to_owned());
    builder.spawn(|| RECALIBRATOR.run(recalibrate))?;
    Ok(())
}

impl Recalibrator {
    const fn new() -> Self {
        Self {
            state: Mutex::new(RecalibratorState { interval: Duration::ZERO, running_in: None }),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, RecalibratorState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the interval, and calls `start_thread` if the thread is needed and does not run.
    fn set_interval(
        &self,
        interval: Duration,
        start_thread: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let mut state = self.lock();
        state.interval = if interval.is_zero() { interval } else { interval.max(MIN_INTERVAL) };
        let process_id = std::process::id();
        if !interval.is_zero() && state.running_in != Some(process_id) {
            start_thread()?;
            state.running_in = Some(process_id);
        }
        self.changed.notify_all();
        Ok(())
    }

    /// Calls `recalibrate` at every interval until the interval is zero.
    fn run(&self, recalibrate: impl Fn() -> bool) {
        let mut state = self.lock();
        while !state.interval.is_zero() {
            let interval = state.interval;
            let (guard, result) =
                self.changed.wait_timeout(state, interval).unwrap_or_else(PoisonError::into_inner);
            state = guard;
            if result.timed_out() && !state.interval.is_zero() {
                drop(state);
                recalibrate();
                state = self.lock();
            }
        }
        state.running_in = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn thread_runs_until_interval_is_zero() {
        let recalibrator = Recalibrator::new();
        let calls = AtomicU32::new(0);
        recalibrator.set_interval(Duration::from_secs(3_600), || Ok(())).unwrap();
        std::thread::scope(|scope| {
            let thread =
                scope.spawn(|| recalibrator.run(|| calls.fetch_add(1, Ordering::Relaxed) > 0));
            // This takes effect although the thread sleeps for an hour.
            recalibrator.set_interval(MIN_INTERVAL, || unreachable!("already running")).unwrap();
            while calls.load(Ordering::Relaxed) < 3 {
                std::thread::yield_now();
            }
            recalibrator.set_interval(Duration::ZERO, || unreachable!("not needed")).unwrap();
            thread.join().unwrap();
        });
        assert_eq!(recalibrator.lock().running_in, None);
    }

    #[test]
    fn public_call_starts_and_ends_thread() {
        set_recalibration_interval(DEFAULT_RECALIBRATION_INTERVAL).unwrap();
        set_recalibration_interval(Duration::ZERO).unwrap();
    }
}
