//! The background thread that recalibrates at an interval. It starts at the first reading.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The recalibration interval of the background thread, unless the caller sets another.
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
    /// Zero if there should be no thread; `None` if no interval was set yet.
    interval: Option<Duration>,
    /// The id of the process in which the thread runs. The thread does not survive a fork.
    running_in: Option<u32>,
}

static RECALIBRATOR: Recalibrator = Recalibrator::new();

/// Sets the interval at which the thread calls `recalibrate`. Zero ends the thread.
///
/// # Errors
/// Returns an error if the thread cannot be started.
pub(crate) fn set_interval(interval: Duration, recalibrate: fn() -> bool) -> io::Result<()> {
    RECALIBRATOR.set_interval(interval, || start_thread(recalibrate))
}

/// Starts the thread with the default interval, unless the caller has set one. Called at the first
/// reading of a counter.
///
/// If the thread cannot be started, conversions still take anchors, and a call of
/// [`set_interval`] reports the error.
pub(crate) fn start_by_default(recalibrate: fn() -> bool) {
    let _ = RECALIBRATOR.start_by_default(|| start_thread(recalibrate));
}

fn start_thread(recalibrate: fn() -> bool) -> io::Result<()> {
    let builder = std::thread::Builder::new().name("tach-recalibrate".to_owned());
    builder.spawn(move || RECALIBRATOR.run(recalibrate))?;
    Ok(())
}

impl Recalibrator {
    const fn new() -> Self {
        Self {
            state: Mutex::new(RecalibratorState { interval: None, running_in: None }),
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
        let result = self.lock().set_interval(interval, start_thread);
        self.changed.notify_all();
        result
    }

    /// Sets the default interval unless an interval was set.
    fn start_by_default(&self, start_thread: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut state = self.lock();
        if state.interval.is_some() {
            return Ok(());
        }
        state.set_interval(DEFAULT_RECALIBRATION_INTERVAL, start_thread)
    }

    /// Calls `recalibrate` at every interval until the interval is zero.
    fn run(&self, recalibrate: impl Fn() -> bool) {
        let mut state = self.lock();
        while let Some(interval) = state.active_interval() {
            let (guard, result) =
                self.changed.wait_timeout(state, interval).unwrap_or_else(PoisonError::into_inner);
            state = guard;
            if result.timed_out() && state.active_interval().is_some() {
                drop(state);
                recalibrate();
                state = self.lock();
            }
        }
        state.running_in = None;
    }
}

impl RecalibratorState {
    /// Returns the interval of the thread; `None` if there should be no thread.
    fn active_interval(&self) -> Option<Duration> {
        self.interval.filter(|interval| !interval.is_zero())
    }

    fn set_interval(
        &mut self,
        interval: Duration,
        start_thread: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let is_zero = interval.is_zero();
        self.interval = Some(if is_zero { interval } else { interval.max(MIN_INTERVAL) });
        let process_id = std::process::id();
        if !is_zero && self.running_in != Some(process_id) {
            start_thread()?;
            self.running_in = Some(process_id);
        }
        Ok(())
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
    fn default_start_respects_set_interval() {
        let recalibrator = Recalibrator::new();
        recalibrator.set_interval(Duration::ZERO, || unreachable!("not needed")).unwrap();
        recalibrator.start_by_default(|| unreachable!("an interval is set")).unwrap();
        assert_eq!(recalibrator.lock().running_in, None);

        let recalibrator = Recalibrator::new();
        recalibrator.start_by_default(|| Ok(())).unwrap();
        recalibrator.start_by_default(|| unreachable!("already running")).unwrap();
        let state = recalibrator.lock();
        assert_eq!(state.interval, Some(DEFAULT_RECALIBRATION_INTERVAL));
        assert_eq!(state.running_in, Some(std::process::id()));
    }

    #[test]
    fn failed_start_is_repeated_on_request() {
        let recalibrator = Recalibrator::new();
        let error = || Err(io::ErrorKind::WouldBlock.into());
        assert!(recalibrator.start_by_default(error).is_err());
        let mut has_started = false;
        let start = || {
            has_started = true;
            Ok(())
        };
        recalibrator.set_interval(MIN_INTERVAL, start).unwrap();
        assert!(has_started);
    }

    #[test]
    fn public_call_starts_and_ends_thread() {
        crate::set_recalibration_interval(DEFAULT_RECALIBRATION_INTERVAL).unwrap();
        crate::set_recalibration_interval(Duration::ZERO).unwrap();
    }
}
