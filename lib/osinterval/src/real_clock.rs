//! The real clock, which is that of `std::time::Instant`.

use std::time::{Duration, Instant};

/// Added to the current time for a deadline that never comes: longer than any program runs, and too
/// short to overflow a clock.
pub(crate) const FAR_FUTURE: Duration = Duration::from_secs(30 * 365 * 86_400);

#[allow(clippy::disallowed_methods, reason = "the clock of deadlines, or compared with it")]
#[inline]
pub(crate) fn real_now() -> Instant {
    Instant::now()
}

/// Adds `after` to `deadline`. Returns a time in the far future if no instant can represent the
/// sum.
pub(crate) fn add_or_far(deadline: Instant, after: Duration, now: Instant) -> Instant {
    deadline.checked_add(after).or_else(|| now.checked_add(FAR_FUTURE)).unwrap_or(deadline)
}

/// Reads a clock until it has reached `due`, and returns the last reading.
#[cfg(any(feature = "blocking", feature = "interval"))]
#[inline]
pub(crate) fn spin_until(due: Instant, clock: impl Fn() -> Instant) -> Instant {
    /// The last part of the spin, without pauses. A pause of the CPU between two readings helps its
    /// other hyperthread, but makes the time between them half as long again.
    const UNPAUSED_SPAN: Duration = Duration::from_micros(1);
    let pause_until = due.checked_sub(UNPAUSED_SPAN).unwrap_or(due);
    let mut now = clock();
    while now < due {
        if now < pause_until {
            std::hint::spin_loop();
        }
        now = clock();
    }
    now
}
