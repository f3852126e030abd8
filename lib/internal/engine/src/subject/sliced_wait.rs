//! Long waits of a bare thread, divided into slices so that they can be interrupted.

use std::time::{Duration, Instant};

/// Minimum period at which waits are sliced. At shorter periods the next tick comes soon enough.
pub const MIN_LONG_PERIOD: Duration = Duration::from_secs(1);
/// Length of a slice.
const SLICE: Duration = Duration::from_millis(100);

/// Returns the end of the next slice, or `None` if the deadline is near or the period is short.
#[allow(clippy::disallowed_methods, reason = "read only at long periods, long before the deadline")]
pub fn slice_end(period: Duration, deadline: Instant) -> Option<Instant> {
    if period < MIN_LONG_PERIOD {
        return None;
    }
    let now = Instant::now();
    if deadline.saturating_duration_since(now) > 2 * SLICE { Some(now + SLICE) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "deadlines from now")]
    fn long_waits_are_sliced() {
        let (soon, far) = (Instant::now() + SLICE, Instant::now() + Duration::from_secs(3600));
        assert_eq!(
            [slice_end(MIN_LONG_PERIOD, soon), slice_end(MIN_LONG_PERIOD / 2, far)],
            [None, None]
        );
        let until = slice_end(MIN_LONG_PERIOD, far).unwrap();
        assert!(until > soon && until < far);
    }
}
