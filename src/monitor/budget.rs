//! What the monitor may cost: its own CPU time, as a share of one core. Pure.

use std::time::Duration;

/// The share is taken over at least so long: a shorter one is mostly chance.
const MIN_WINDOW: Duration = Duration::from_secs(10);
/// Probes are not stretched beyond this: what is too much then is not theirs.
pub const MAX_POLL_PERIOD: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Budget {
    /// Of one core.
    share: f64,
    /// Of the window so far.
    time: Duration,
    cpu_ns: u64,
}

impl Budget {
    pub fn new(share: f64) -> Self {
        Self { share, time: Duration::ZERO, cpu_ns: 0 }
    }

    /// Takes what an interval cost. The share of a window that is full and over the budget.
    pub fn exceeded(&mut self, time: Duration, cpu_ns: u64) -> Option<f64> {
        self.time += time;
        self.cpu_ns += cpu_ns;
        if self.time < MIN_WINDOW {
            return None;
        }
        let used = self.cpu_ns as f64 / self.time.as_nanos() as f64;
        *self = Self::new(self.share);
        (used > self.share).then_some(used)
    }
}

/// Twice the period, up to [`MAX_POLL_PERIOD`]; `None` where it is as long already.
pub fn stretched(period: Duration) -> Option<Duration> {
    (period < MAX_POLL_PERIOD).then(|| (period * 2).min(MAX_POLL_PERIOD))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_full_window_is_judged() {
        let mut budget = Budget::new(0.01);
        let second = Duration::from_secs(1);
        for _ in 0..9 {
            assert_eq!(budget.exceeded(second, 900_000_000), None);
        }
        assert_eq!(budget.exceeded(second, 900_000_000), Some(0.9));
        assert_eq!(budget.exceeded(second * 300, 2_900_000_000), None, "a new window");
        assert_eq!(budget.exceeded(second * 300, 6_000_000_000), Some(0.02));
    }

    #[test]
    fn a_period_doubles_up_to_an_end() {
        let all: Vec<u128> =
            std::iter::successors(Some(Duration::from_millis(300)), |p| stretched(*p))
                .map(|p| p.as_millis())
                .collect();
        assert_eq!(all, [300, 600, 1_000]);
    }
}
