//! A long wait of a bare thread, in slices: between them it can be interrupted.

use std::time::{Duration, Instant};

/// Waits are sliced at periods from here on. At shorter ones the next tick comes soon enough.
pub const LONG: Duration = Duration::from_secs(1);
const SLICE: Duration = Duration::from_millis(100);

/// Where to wait until first; `None` where the deadline is near: it is waited for as at any other
/// period.
#[allow(clippy::disallowed_methods, reason = "only at long periods, long before the deadline")]
pub fn first(period: Duration, deadline: Instant) -> Option<Instant> {
    if period < LONG {
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
        assert_eq!([first(LONG, soon), first(LONG / 2, far)], [None, None]);
        let until = first(LONG, far).unwrap();
        assert!(until > soon && until < far);
    }
}
