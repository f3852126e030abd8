//! The costs of the rounds of a subject, and the windows in which they were counted.

use crate::counters::add_if_complete;
use crate::report::{Round, Subject, Summary};
use jitterstat::stats::Interval;
use jitterstat::stats::bootstrap;

/// The costs of a round over all of its instances.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RoundCosts {
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

impl RoundCosts {
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
