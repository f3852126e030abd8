//! The monitor's CPU budget: its own CPU time, as a share of one core, and the periods of probes that
//! keep it. Does no I/O.

use std::time::Duration;

use cli::units::to_ns;
use files::window::TimeInWindow;

/// Minimum time over which the share is computed. Over less time it is mostly noise.
const MIN_WINDOW: Duration = Duration::from_secs(10);
/// Maximum period of a probe that is lengthened to keep the budget. At this period a probe costs
/// almost nothing, so any remaining excess has another cause.
const MAX_PROBE_PERIOD: Duration = Duration::from_secs(1);

/// Part of the budget that the probes may need, with shorter periods, for these to be restored.
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

/// Result of comparing the cost of a window with the budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BudgetFinding {
    /// The budget was kept, and there is nothing to change.
    Kept,
    /// The probes exceeded the budget.
    ProbesExceed { probes: f64 },
    /// The monitor exceeded the budget, and its probes did not.
    OthersExceed { monitor: f64, probes: f64 },
    /// The probes would keep the budget with half of their periods.
    ProbesHaveRoom { probes: f64 },
}

impl Budget {
    pub fn new(max_share: f64) -> Self {
        Self { max_share, monitor: TimeInWindow::default(), probes: TimeInWindow::default() }
    }

    /// Adds the cost of an interval. Returns a finding if this completes a window.
    ///
    /// Probes answer for the time of their own threads. If that is not known, they answer for all.
    pub fn record(&mut self, cpu: CpuTime) -> Option<BudgetFinding> {
        self.monitor = self.monitor + cpu.monitor;
        self.probes = self.probes + cpu.probes.unwrap_or(cpu.monitor);
        if self.monitor.window_ns() < to_ns(MIN_WINDOW) {
            return None;
        }
        let (monitor, probes) = (self.monitor.share()?, self.probes.share()?);
        let max_share = self.max_share;
        *self = Self::new(max_share);
        if probes > max_share {
            Some(BudgetFinding::ProbesExceed { probes })
        } else if monitor > max_share {
            Some(BudgetFinding::OthersExceed { monitor, probes })
        } else {
            let has_room = 2.0 * probes <= RESTORED_PART * max_share;
            Some(if has_room {
                BudgetFinding::ProbesHaveRoom { probes }
            } else {
                BudgetFinding::Kept
            })
        }
    }
}

/// Period of a probe that is lengthened to keep the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StretchedPeriod {
    requested: Duration,
    doublings: u32,
}

impl StretchedPeriod {
    pub fn new(requested: Duration) -> Self {
        Self { requested, doublings: 0 }
    }

    /// Returns the period: the requested one, doubled so often, up to [`MAX_PROBE_PERIOD`].
    pub fn period(self) -> Duration {
        let doubled = self.requested.saturating_mul(1_u32.checked_shl(self.doublings).unwrap_or(0));
        doubled.min(MAX_PROBE_PERIOD).max(self.requested)
    }

    /// Returns the next longer period, or `None` if it is at the maximum already.
    pub fn longer(self) -> Option<Self> {
        let longer = Self { doublings: self.doublings + 1, ..self };
        (self.period() < MAX_PROBE_PERIOD).then_some(longer)
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

    /// Returns the finding after an interval of 1,000 seconds, in which the monitor and its probes
    /// used so many seconds of CPU time.
    fn finding(monitor_s: u64, probes_s: Option<u64>) -> Option<BudgetFinding> {
        let time = |s: u64| TimeInWindow::new(s * 1_000_000_000, to_ns(SECOND * 1_000));
        let cpu = CpuTime { monitor: time(monitor_s), probes: probes_s.map(time) };
        Budget::new(0.01).record(cpu)
    }

    #[test]
    fn budget_checks_only_full_windows() {
        let mut budget = Budget::new(0.01);
        let time = |ns: u64| TimeInWindow::new(ns, to_ns(SECOND));
        let cpu = CpuTime { monitor: time(900_000_000), probes: Some(time(800_000_000)) };
        for _ in 0..9 {
            assert_eq!(budget.record(cpu), None);
        }
        let exceeded = Some(BudgetFinding::ProbesExceed { probes: 0.8 });
        assert_eq!(budget.record(cpu), exceeded);
        assert_eq!(budget.record(cpu), None, "a new window");
    }

    #[test]
    fn probes_answer_for_their_threads() {
        let others = BudgetFinding::OthersExceed { monitor: 0.05, probes: 0.005 };
        assert_eq!(finding(50, Some(5)), Some(others));
        assert_eq!(finding(50, Some(20)), Some(BudgetFinding::ProbesExceed { probes: 0.02 }));
        assert_eq!(finding(50, None), Some(BudgetFinding::ProbesExceed { probes: 0.05 }));
    }

    #[test]
    fn small_cost_restores_periods() {
        assert_eq!(finding(9, Some(3)), Some(BudgetFinding::ProbesHaveRoom { probes: 0.003 }));
        let kept = Some(BudgetFinding::Kept);
        assert_eq!(finding(9, Some(4)), kept, "with half of the period, 0.8 % of a core");
        // Probes that exceeded the budget do not return at once to the period with which they did.
        assert_eq!(finding(6, Some(6)), kept);
    }

    #[test]
    fn periods_double_up_to_the_maximum() {
        let first = StretchedPeriod::new(Duration::from_millis(300));
        let longer = |period: &StretchedPeriod| period.longer();
        let periods: Vec<StretchedPeriod> = std::iter::successors(Some(first), longer).collect();
        let periods_ms: Vec<u128> = periods.iter().map(|p| p.period().as_millis()).collect();
        assert_eq!(periods_ms, [300, 600, 1_000]);
        assert_eq!(periods[2].shorter(), Some(periods[1]));
        assert_eq!(first.shorter(), None);
        let slow = StretchedPeriod::new(SECOND * 5);
        assert_eq!((slow.period(), slow.longer()), (SECOND * 5, None));
    }
}
