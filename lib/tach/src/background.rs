//! A thread that takes an anchor whenever an interval of the caller's choice has passed.

use std::io;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::instant::recalibrate;

/// An interval that suits most programs that want the thread at all.
pub const DEFAULT_RECALIBRATION_INTERVAL: Duration = Duration::from_secs(60);
/// The thread never runs more often: an anchor costs microseconds, and the rate does not change in
/// less.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(1);

#[derive(Debug)]
struct Background {
    /// Zero while no thread is wanted.
    interval: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    interval: Duration,
    /// The process whose thread runs: a fork leaves it behind.
    running_in: Option<u32>,
}

static BACKGROUND: Background = Background {
    interval: Mutex::new(State { interval: Duration::ZERO, running_in: None }),
    changed: Condvar::new(),
};

/// Calls [`recalibrate`] every `interval` (at least a millisecond), from a thread that the first
/// call starts. Takes effect at once; zero ends the thread. Without a call there is no thread.
///
/// # Errors
/// If the thread cannot be started.
///
/// # Examples
/// ```
/// tach::set_recalibration_interval(tach::DEFAULT_RECALIBRATION_INTERVAL)?;
/// tach::set_recalibration_interval(std::time::Duration::ZERO)?; // no more
/// # std::io::Result::Ok(())
/// ```
pub fn set_recalibration_interval(interval: Duration) -> io::Result<()> {
    BACKGROUND.set(interval, || {
        std::thread::Builder::new()
            .name("tach-recalibrate".to_owned())
            .spawn(|| BACKGROUND.run(recalibrate))?;
        Ok(())
    })
}

impl Background {
    fn set(&self, interval: Duration, start: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut state = self.interval.lock().unwrap_or_else(PoisonError::into_inner);
        state.interval =
            if interval.is_zero() { interval } else { interval.max(SHORTEST_INTERVAL) };
        let here = std::process::id();
        if !interval.is_zero() && state.running_in != Some(here) {
            start()?;
            state.running_in = Some(here);
        }
        self.changed.notify_all();
        Ok(())
    }

    fn run(&self, recalibrate: impl Fn() -> bool) {
        let mut state = self.interval.lock().unwrap_or_else(PoisonError::into_inner);
        while !state.interval.is_zero() {
            let interval = state.interval;
            let (woken, result) =
                self.changed.wait_timeout(state, interval).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            if result.timed_out() && !state.interval.is_zero() {
                drop(state);
                recalibrate();
                state = self.interval.lock().unwrap_or_else(PoisonError::into_inner);
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
    fn it_runs_while_wanted_and_ends_when_told() {
        let background = Background {
            interval: Mutex::new(State { interval: Duration::ZERO, running_in: None }),
            changed: Condvar::new(),
        };
        let turns = AtomicU32::new(0);
        background.set(Duration::from_secs(3_600), || Ok(())).unwrap();
        std::thread::scope(|scope| {
            let thread =
                scope.spawn(|| background.run(|| turns.fetch_add(1, Ordering::Relaxed) > 0));
            // Takes effect although the thread is asleep for an hour.
            background.set(SHORTEST_INTERVAL, || unreachable!("it runs already")).unwrap();
            while turns.load(Ordering::Relaxed) < 3 {
                std::thread::yield_now();
            }
            background.set(Duration::ZERO, || unreachable!("none is wanted")).unwrap();
            thread.join().unwrap();
        });
        assert_eq!(background.interval.lock().unwrap().running_in, None);
    }

    #[test]
    fn the_public_call_starts_and_ends_it() {
        set_recalibration_interval(DEFAULT_RECALIBRATION_INTERVAL).unwrap();
        set_recalibration_interval(Duration::ZERO).unwrap();
    }
}
