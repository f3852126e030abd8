//! The monitor's CPU budget: its own CPU time, as a share of one core, and the periods of probes
//! and of polls that keep it. Does no I/O.

use std::time::Duration;

use cli::units::to_ns;
use files::window::TimeInWindow;

/// Minimum time over which the share is computed. Over less time it is mostly noise.
const MIN_WINDOW: Duration = Duration::from_secs(10);
/// Maximum period of a probe that is lengthened to keep the budget. At this period a probe costs
/// almost nothing, so any remaining excess has another cause.
pub const MAX_PROBE_PERIOD: Duration = Duration::from_secs(1);

/// Part of the budget that the monitor may need, with shorter periods, for these to be restored.
const RESTORED_PART: f64 = 0.75;

/// CPU time of an interval.
#[derive(Clone, Copy, Debug)]
pub struct CpuTime {
    /// CPU time of the monitor, including its probes.
    pub monitor: TimeInWindow,
    /// CPU time of the probes' threads, if it is known.
    pub probes: Option<TimeInWindow>,
}

#[derive(Debug)]
pub struct Budget {
    /// Maximum share of one core.
    max_share: f64,
    /// CPU time used in the current window.
    monitor: TimeInWindow,
    probes: TimeInWindow,
}

/// CPU time of a window, as shares of one core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WindowShares {
    /// Everything: probes, reading and discovery of meters, metrics, files, flight records.
    pub monitor: f64,
    /// The threads of the probes.
    pub probes: f64,
}

impl WindowShares {
    /// Returns the share of everything but the probes.
    pub fn others(self) -> f64 {
        (self.monitor - self.probes).max(0.0)
    }

    pub fn exceeds(self, max_share: f64) -> bool {
        self.monitor > max_share
    }

    /// Returns whether the budget has room for twice the cost of the probes.
    pub fn has_room_for_probes(self, max_share: f64) -> bool {
        self.monitor + self.probes <= RESTORED_PART * max_share
    }

    /// Returns whether the budget has room for twice the cost of everything else.
    pub fn has_room_for_others(self, max_share: f64) -> bool {
        self.monitor + self.others() <= RESTORED_PART * max_share
    }
}

impl Budget {
    pub fn new(max_share: f64) -> Self {
        Self { max_share, monitor: TimeInWindow::default(), probes: TimeInWindow::default() }
    }

    /// Adds the cost of an interval. Returns the shares if this completes a window.
    ///
    /// If the time of the probes' threads is not known, all time counts as theirs.
    pub fn record(&mut self, cpu: CpuTime) -> Option<WindowShares> {
        self.monitor = self.monitor + cpu.monitor;
        self.probes = self.probes + cpu.probes.unwrap_or(cpu.monitor);
        if self.monitor.window_ns() < to_ns(MIN_WINDOW) {
            return None;
        }
        let shares = WindowShares { monitor: self.monitor.share()?, probes: self.probes.share()? };
        *self = Self::new(self.max_share);
        Some(shares)
    }

    pub fn max_share(&self) -> f64 {
        self.max_share
    }
}

/// Period of a probe or of polls that is lengthened to keep the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StretchedPeriod {
    requested: Duration,
    max: Duration,
    doublings: u32,
}

impl StretchedPeriod {
    /// Creates a period that is lengthened up to a maximum, unless it is longer already.
    pub fn new(requested: Duration, max: Duration) -> Self {
        Self { requested, max, doublings: 0 }
    }

    /// Returns the period: the requested one, doubled so often, up to the maximum.
    pub fn period(self) -> Duration {
        let doubled = self.requested.saturating_mul(1_u32.checked_shl(self.doublings).unwrap_or(0));
        doubled.min(self.max).max(self.requested)
    }

    /// Returns the next longer period, or `None` if it is at the maximum already.
    pub fn longer(self) -> Option<Self> {
        let longer = Self { doublings: self.doublings + 1, ..self };
        (self.period() < self.max).then_some(longer)
    }

    /// Returns the next shorter period, or `None` if it is the requested one already.
    pub fn shorter(self) -> Option<Self> {
        Some(Self { doublings: self.doublings.checked_sub(1)?, ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Returns the shares after an interval of 1,000 seconds, in which the monitor and its probes
    /// used so many seconds of CPU time.
    fn shares(monitor_s: u64, probes_s: Option<u64>) -> WindowShares {
        let time = |s: u64| TimeInWindow::new(s * 1_000_000_000, to_ns(SECOND * 1_000));
        let cpu = CpuTime { monitor: time(monitor_s), probes: probes_s.map(time) };
        Budget::new(0.01).record(cpu).unwrap()
    }

    #[test]
    fn budget_checks_only_full_windows() {
        let mut budget = Budget::new(0.01);
        let time = |ns: u64| TimeInWindow::new(ns, to_ns(SECOND));
        let cpu = CpuTime { monitor: time(900_000_000), probes: Some(time(800_000_000)) };
        for _ in 0..9 {
            assert_eq!(budget.record(cpu), None);
        }
        assert_eq!(budget.record(cpu), Some(WindowShares { monitor: 0.9, probes: 0.8 }));
        assert_eq!(budget.record(cpu), None, "a new window");
    }

    #[test]
    fn budget_counts_everything() {
        assert!(!shares(10, Some(1)).exceeds(0.01));
        for probes in [Some(0), Some(11), None] {
            assert!(shares(11, probes).exceeds(0.01), "{probes:?}");
        }
        assert_eq!(shares(50, None), WindowShares { monitor: 0.05, probes: 0.05 });
    }

    #[test]
    fn small_cost_restores_periods() {
        let room = |monitor, probes| {
            let shares = shares(monitor, Some(probes));
            (shares.has_room_for_probes(0.01), shares.has_room_for_others(0.01))
        };
        assert_eq!(room(4, 2), (true, true));
        // With half of the periods, 0.8 % of a core.
        assert_eq!(room(5, 3), (false, true));
        assert_eq!(room(5, 2), (true, false));
        // What exceeded the budget does not return at once to the period with which it did.
        assert_eq!((room(6, 6), room(6, 0)), ((false, true), (true, false)));
    }

    #[test]
    fn periods_double_up_to_the_maximum() {
        let first = StretchedPeriod::new(Duration::from_millis(300), SECOND);
        let longer = |period: &StretchedPeriod| period.longer();
        let periods: Vec<StretchedPeriod> = std::iter::successors(Some(first), longer).collect();
        let periods_ms: Vec<u128> = periods.iter().map(|p| p.period().as_millis()).collect();
        assert_eq!(periods_ms, [300, 600, 1_000]);
        assert_eq!(periods[2].shorter(), Some(periods[1]));
        assert_eq!(first.shorter(), None);
        let slow = StretchedPeriod::new(SECOND * 5, SECOND);
        assert_eq!((slow.period(), slow.longer()), (SECOND * 5, None));
    }
}
