//! The costs of the rounds of a subject, and the windows in which they were counted.
//!
//! Files of version 0.2 state no window of a cost. What replaces it in each computation is here.

use std::ops::Add;

use crate::counters::add_if_complete;
use crate::fitness::SPIN_LEAD_NS;
use crate::report::{Round, Subject, Summary};
use jitterstat::stats::Interval;
use jitterstat::stats::bootstrap;

/// The cost of a round, in a window of whole ticks: in most rounds from the first recorded tick to
/// the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundCost {
    /// Ticks in the window, over which the cost is distributed.
    pub ticks: u64,
    /// Length of the window; `None` if it is unknown.
    pub window_ns: Option<u64>,
    /// CPU time of the whole process; `None` if the platform does not report it.
    pub cpu_ns: Option<u64>,
    /// Voluntary and involuntary context switches of the process; `None` if the platform does not
    /// report them.
    pub wakeups: Option<u64>,
}

impl RoundCost {
    /// Returns the cost of an entry of a report; `None` for files of version 0.2, which do not state
    /// its window.
    #[must_use]
    pub fn from_entry(entry: &Round, instances: u64) -> Option<Self> {
        let switches = entry.switches_voluntary.zip(entry.switches_involuntary);
        Some(Self {
            ticks: entry.cost_ticks?,
            // The entries of all instances contain the whole window.
            window_ns: entry.cost_window_ns.map(|window_ns| window_ns / instances.max(1)),
            cpu_ns: entry.cpu_ns,
            wakeups: switches.map(|(voluntary, others)| voluntary.saturating_add(others)),
        })
    }

    /// Returns a cost per tick of the window; `None` without a tick.
    pub(crate) fn per_tick(&self, total: Option<u64>) -> Option<f64> {
        if self.ticks == 0 { None } else { Some(total? as f64 / self.ticks as f64) }
    }

    /// Returns the CPU time as a share of the window, which is that of one core.
    pub(crate) fn core_share(&self) -> Option<f64> {
        let window_ns = self.window_ns.filter(|&window_ns| window_ns > 0)?;
        Some(self.cpu_ns? as f64 / window_ns as f64)
    }
}

/// Adds costs. A part that is unknown in one of them is unknown in the sum.
impl Add for RoundCost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            ticks: self.ticks.saturating_add(other.ticks),
            window_ns: add_if_complete(self.window_ns, other.window_ns),
            cpu_ns: add_if_complete(self.cpu_ns, other.cpu_ns),
            wakeups: add_if_complete(self.wakeups, other.wakeups),
        }
    }
}

impl Round {
    /// Returns the ticks over which the cost is distributed. In files of version 0.2, a cost
    /// includes the warm-up.
    pub(crate) fn ticks_of_cost(&self) -> u64 {
        let recorded = self.lateness_ns.len() as u64;
        self.cost_ticks.unwrap_or_else(|| self.first_tick.saturating_add(recorded))
    }

    /// Returns the window in which context switches were counted; `None` if they are unknown. In
    /// files of version 0.2, it is that of the whole round.
    pub(crate) fn window_of_switches_ns(&self) -> Option<u64> {
        self.switches_involuntary?;
        self.cost_window_ns.or(self.window_ns)
    }

    /// Returns the window in which the CPU time of the spinning control was counted, whose ticks
    /// have this lateness. In files of version 0.2, it includes the warm-up.
    pub(crate) fn window_of_spin_ns(&self, period_ns: u64, lateness_ns: &[i64]) -> u64 {
        self.cost_window_ns.unwrap_or_else(|| {
            let ticks = self.first_tick.saturating_add(lateness_ns.len() as u64);
            let gaps_ns = ticks.saturating_sub(1).saturating_mul(period_ns);
            let last_ns = lateness_ns.last().and_then(|&ns| u64::try_from(ns).ok()).unwrap_or(0);
            SPIN_LEAD_NS.saturating_add(gaps_ns).saturating_add(last_ns)
        })
    }
}

/// The costs of a round over all of its instances.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CostPerTick {
    /// CPU time per tick of the window.
    pub cpu_ns_per_tick: Option<f64>,
    /// Context switches per tick of the window.
    pub wakeups_per_tick: Option<f64>,
    /// Ticks of all instances in the window; 0 if the round was stopped before the window ended.
    pub ticks: u64,
    /// Length of the window.
    pub window_ns: f64,
}

/// A number and its confidence interval over rounds, each `None` if it is unknown.
pub type RatioEstimate = (Option<f64>, Option<Interval<f64>>);

impl CostPerTick {
    /// Collects the costs of each round of a subject.
    #[must_use]
    pub fn from_subject(subject: &Subject) -> Vec<Self> {
        // The entries of the instances of a round are consecutive.
        let rounds = subject.rounds.chunk_by(|a, b| a.index == b.index);
        rounds.map(|entries| Self::from_entries(subject, entries)).collect()
    }

    /// Adds up the costs of the instances of one round.
    ///
    /// In files of version 0.2, the cost was converted to the planned ticks. If the window is
    /// unknown, as for most programs, it is as many typical gaps between ticks as an instance has
    /// ticks in it: more than periods if the loop slips.
    fn from_entries(subject: &Subject, entries: &[Round]) -> Self {
        // The entry of the first instance contains the summary of the whole round.
        let whole = entries.first().and_then(|entry| entry.summary.as_ref());
        let planned = whole.map_or(0, |summary| summary.ticks);
        let counted = entries.iter().map(|entry| entry.cost_ticks);
        let ticks = counted.fold(Some(0), add_if_complete).unwrap_or(planned);
        let gaps = ticks as f64 / entries.len().max(1) as f64;
        let gap_ns = subject.period_ns as f64 * whole.map_or(1.0, slip_factor);
        let window_ns = entries.first().and_then(|entry| entry.cost_window_ns);
        Self {
            cpu_ns_per_tick: whole.and_then(|summary| summary.cpu_ns_per_tick),
            wakeups_per_tick: whole.and_then(|summary| summary.wakeups_per_tick),
            ticks,
            window_ns: window_ns.map_or(gaps * gap_ns, |ns| ns as f64),
        }
    }

    /// Estimates the CPU time per tick of the windows of all rounds.
    #[must_use]
    pub fn estimate_cpu_ns_per_tick(rounds: &[Self], confidence: f64) -> RatioEstimate {
        Self::estimate(rounds, confidence, |round| {
            Some((round.cpu_ns_per_tick? * round.ticks as f64, round.ticks as f64))
        })
    }

    /// Estimates the context switches per tick of the windows of all rounds.
    #[must_use]
    pub fn estimate_wakeups_per_tick(rounds: &[Self], confidence: f64) -> RatioEstimate {
        Self::estimate(rounds, confidence, |round| {
            Some((round.wakeups_per_tick? * round.ticks as f64, round.ticks as f64))
        })
    }

    /// Estimates the CPU time in per cent of one core, which is its share of the windows.
    #[must_use]
    pub fn estimate_core_percent(rounds: &[Self], confidence: f64) -> RatioEstimate {
        Self::estimate(rounds, confidence, |round| {
            Some((round.cpu_ns_per_tick? * round.ticks as f64 * 100.0, round.window_ns))
        })
    }

    /// Estimates the quotient of two sums over the rounds that have a window. It is unknown if the
    /// cost of any of them is.
    fn estimate(
        rounds: &[Self],
        confidence: f64,
        sums: impl Fn(&Self) -> Option<(f64, f64)>,
    ) -> RatioEstimate {
        let rounds = rounds.iter().filter(|round| round.ticks > 0);
        let Some(sums) = rounds.map(sums).collect::<Option<Vec<_>>>() else {
            return (None, None);
        };
        ratio_with_interval(&sums, confidence)
    }
}

/// Returns the quotient of two sums over rounds, and its interval.
pub(crate) fn ratio_with_interval(rounds: &[(f64, f64)], confidence: f64) -> RatioEstimate {
    let (over, under) = rounds.iter().fold((0.0, 0.0), |sum, r| (sum.0 + r.0, sum.1 + r.1));
    ((under > 0.0).then(|| over / under), bootstrap::ratio_interval(rounds, confidence))
}

/// Returns the time between the ticks of a summary relative to the time between their deadlines,
/// which is more than 1 for a loop that slips.
#[must_use]
pub fn slip_factor(summary: &Summary) -> f64 {
    if summary.ideal_ns <= 0 {
        return 1.0;
    }
    summary.elapsed_ns.max(0) as f64 / summary.ideal_ns as f64
}
