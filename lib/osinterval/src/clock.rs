//! tokio's clock, which tests may pause, and the real clock, which native timers follow.

use std::time::{Duration, Instant};

use tokio::runtime::Builder;

use crate::real_clock::real_now;

/// Whether tokio is built with its feature `test-util`. Its clock can be paused only then, so other
/// builds contain no code for a paused clock.
///
/// The feature adds a method `start_paused` to tokio's builder. A method of a type takes precedence
/// over one of a trait, so the type of the result shows which of the two is called here.
pub(crate) const CAN_PAUSE: bool = has_test_util(|builder| builder.start_paused(true));

/// The result of a method `start_paused`.
trait StartPausedResult {
    const IS_TOKIO: bool;
}

impl StartPausedResult for &mut Builder {
    const IS_TOKIO: bool = true;
}

/// The result if tokio has no such method.
struct MissingMethod;

impl StartPausedResult for MissingMethod {
    const IS_TOKIO: bool = false;
}

#[allow(dead_code, reason = "called only if tokio has no such method")]
trait StartPaused {
    fn start_paused(&mut self, _: bool) -> MissingMethod {
        MissingMethod
    }
}

impl StartPaused for Builder {}

const fn has_test_util<T: StartPausedResult>(_: fn(&'static mut Builder) -> T) -> bool {
    T::IS_TOKIO
}

/// Returns whether tokio's clock is not the real one: it is paused, or was at some time.
#[inline]
pub(crate) fn is_shifted() -> bool {
    CAN_PAUSE && differs_from(real_now, tokio_now)
}

/// Returns whether a clock is not the real one: a reading of it is not between two readings of that.
///
/// A thread can lose its CPU between the two. A paused clock that is ahead by less than this pause
/// then seems to be the real one, so readings that are far apart are repeated.
fn differs_from(real: impl Fn() -> Instant, clock: impl Fn() -> Instant) -> bool {
    const MAX_READINGS: usize = 16;
    const MAX_BRACKET: Duration = Duration::from_micros(10);
    for _ in 0..MAX_READINGS {
        let before = real();
        let time = clock();
        let after = real();
        if time < before || time > after {
            return true;
        }
        if after - before <= MAX_BRACKET {
            break;
        }
    }
    false
}

/// Returns the time of tokio's clock, which is the clock of every deadline. Outside of a runtime it
/// is the real one.
#[inline]
pub(crate) fn tokio_now() -> Instant {
    tokio::time::Instant::now().into_std()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// The tests of this crate enable `test-util`.
    const _: () = assert!(CAN_PAUSE);

    #[test]
    fn real_clock_is_not_shifted() {
        for _ in 0..10_000 {
            assert!(!is_shifted());
        }
    }

    #[test]
    fn pause_between_readings_hides_no_shift() {
        const READINGS_US: [u64; 4] = [0, 4_000, 4_001, 4_002];
        let (start, read) = (real_now(), Cell::new(0));
        let real = || {
            let us = READINGS_US[read.replace(read.get() + 1)];
            start + Duration::from_micros(us)
        };
        let ahead = start + Duration::from_millis(1);
        assert!(differs_from(real, || ahead));
        assert!(!differs_from(|| ahead, || ahead));
    }

    #[tokio::test(start_paused = true)]
    async fn paused_clock_is_shifted() {
        assert!(is_shifted());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(is_shifted());
        tokio::time::resume();
        assert!(is_shifted());
    }
}
