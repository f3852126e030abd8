//! tokio's clock, which tests may pause, and the real clock, which native timers follow.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time between two readings above which a third one decides whether the clocks differ.
const MAX_READING_GAP: Duration = Duration::from_micros(5);

/// Whether tokio's clock has differed from the real one in this process. From then on no
/// difference is too small to be found.
static HAS_SEEN_SHIFT: AtomicBool = AtomicBool::new(false);

/// A reading of the real clock, and one of tokio's clock after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockReading {
    real: Instant,
    /// The time of tokio's clock.
    pub(crate) tokio: Instant,
}

impl ClockReading {
    pub(crate) fn take() -> Self {
        let real = real_now();
        Self { real, tokio: tokio_now() }
    }

    /// Whether tokio's clock is not the real one: it is paused, or was at some time.
    ///
    /// Reads the real clock again if `tokio` is so much later that it may have been advanced. In
    /// production that happens only if the thread was interrupted between the readings.
    #[inline]
    pub(crate) fn is_shifted(self) -> bool {
        match self.tokio.checked_duration_since(self.real) {
            Some(gap) if gap <= MAX_READING_GAP && !HAS_SEEN_SHIFT.load(Ordering::Relaxed) => false,
            gap => is_beyond_real_time(self.tokio, gap.is_none()),
        }
    }
}

#[cold]
fn is_beyond_real_time(tokio: Instant, is_behind: bool) -> bool {
    let is_shifted = is_behind || tokio > real_now();
    if is_shifted {
        HAS_SEEN_SHIFT.store(true, Ordering::Relaxed);
    }
    is_shifted
}

#[allow(clippy::disallowed_methods, reason = "a native timer follows the kernel's clock")]
pub(crate) fn real_now() -> Instant {
    Instant::now()
}

/// The time of tokio's clock, which is the clock of every deadline. Outside of a runtime it is the
/// real one.
#[inline]
pub(crate) fn tokio_now() -> Instant {
    tokio::time::Instant::now().into_std()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_clock_is_not_shifted() {
        for _ in 0..10_000 {
            assert!(!ClockReading::take().is_shifted());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn paused_clock_is_shifted() {
        assert!(ClockReading::take().is_shifted());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(ClockReading::take().is_shifted());
        tokio::time::resume();
        assert!(ClockReading::take().is_shifted());
    }
}
