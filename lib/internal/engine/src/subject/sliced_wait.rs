//! A long wait of a bare thread, in slices: between them it can be interrupted.

use std::time::{Duration, Instant};

/// WaitKind are sliced at periods from here on. At shorter ones the next tick comes soon enough.
pub const MIN_LONG_PERIOD: Duration = Duration::from_secs(1);
const SLICE: Duration = Duration::from_millis(100);

/// Where to wait until first; `None` where the deadline is near: it is waited for as at any other
/// period.
#[allow(clippy::disallowed_methods, reason = "only at long periods, long before the deadline")]
pub fn slice_end(period: Duration, deadline: Instant) -> Option<Instant> {
    if period < MIN_LONG_PERIOD {
        return None;
    }
    let now = Instant::now();
    (deadline.saturating_duration_since(now) > 2 * SLICE).then(|| now + SLICE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "deadlines from now")]
    fn only_a_long_wait_is_sliced() {
        let (soon, far) = (Instant::now() + SLICE, Instant::now() + Duration::from_secs(3600));
        assert_eq!(
            [slice_end(MIN_LONG_PERIOD, soon), slice_end(MIN_LONG_PERIOD / 2, far)],
            [None, None]
        );
        let until = slice_end(MIN_LONG_PERIOD, far).unwrap();
        assert!(until > soon && until < far);
    }
}
