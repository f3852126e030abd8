//! The monitor's CPU budget: its own CPU time, as a share of one core. Does no I/O.

use std::time::Duration;

/// Minimum time over which the share is computed. Over less time it is mostly noise.
const MIN_WINDOW: Duration = Duration::from_secs(10);
/// Maximum period of a probe that is lengthened to keep the budget. At this period a probe costs
/// almost nothing, so any remaining excess has another cause.
pub const MAX_PROBE_PERIOD: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Budget {
    /// Maximum share of one core.
    max_share: f64,
    /// Length of the current window.
    window: Duration,
    /// CPU time used in the current window.
    cpu_ns: u64,
}

impl Budget {
    pub fn new(max_share: f64) -> Self {
        Self { max_share, window: Duration::ZERO, cpu_ns: 0 }
    }

    /// Adds the cost of an interval. Returns the share used if this completes a window that
    /// exceeded the budget.
    pub fn record(&mut self, time: Duration, cpu_ns: u64) -> Option<f64> {
        self.window += time;
        self.cpu_ns += cpu_ns;
        if self.window < MIN_WINDOW {
            return None;
        }
        let used = self.cpu_ns as f64 / self.window.as_nanos() as f64;
        *self = Self::new(self.max_share);
        (used > self.max_share).then_some(used)
    }
}

/// Doubles a period, up to [`MAX_PROBE_PERIOD`]. Returns `None` if it is at the maximum already.
pub fn longer_period(period: Duration) -> Option<Duration> {
    (period < MAX_PROBE_PERIOD).then(|| (period * 2).min(MAX_PROBE_PERIOD))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_checks_only_full_windows() {
        let mut budget = Budget::new(0.01);
        let second = Duration::from_secs(1);
        for _ in 0..9 {
            assert_eq!(budget.record(second, 900_000_000), None);
        }
        assert_eq!(budget.record(second, 900_000_000), Some(0.9));
        assert_eq!(budget.record(second * 300, 2_900_000_000), None, "a new window");
        assert_eq!(budget.record(second * 300, 6_000_000_000), Some(0.02));
    }

    #[test]
    fn periods_double_up_to_the_maximum() {
        let first = Duration::from_millis(300);
        let periods = std::iter::successors(Some(first), |period| longer_period(*period));
        let periods_ms: Vec<u128> = periods.map(|period| period.as_millis()).collect();
        assert_eq!(periods_ms, [300, 600, 1_000]);
    }
}
