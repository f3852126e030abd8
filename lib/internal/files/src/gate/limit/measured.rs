//! A measured number of a run, and its comparison with a limit.

use jitterstat::gate::decision::{self, Outcome, Reason};
use jitterstat::stats::{Interval, bootstrap};

/// A measured number of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Value over all rounds; `None` with too few ticks, or if the platform does not report it.
    pub value: Option<f64>,
    /// Interval over rounds, by default 99 %; `None` with fewer than 10 rounds, and for the minimum
    /// and the maximum.
    pub interval: Option<Interval<f64>>,
    /// Number of rounds.
    pub rounds: usize,
    /// Number of planned ticks in them.
    pub ticks: u64,
    /// Whether the number is the minimum or the maximum, which has no interval.
    pub(super) is_extreme: bool,
    /// Whether the number is a cost that was not measured.
    pub(super) is_unknown_cost: bool,
    /// Whether the number comes from a summary without samples, so that there is no interval.
    pub(super) is_from_summary: bool,
}

impl Measured {
    /// Returns the number of ticks that would probably decide an undecided limit, so that the
    /// interval no longer contains it. `None` if the limit is decided, or no number would decide
    /// it.
    #[must_use]
    pub fn ticks_to_decide(&self, limit: f64) -> Option<u64> {
        let (value, interval) = (self.value?, self.interval?);
        if self.judge(limit).1 != Some(Reason::TooNoisy) {
            return None;
        }
        let narrowing = if value <= limit {
            (interval.upper - value) / (limit - value)
        } else {
            (value - interval.lower) / (value - limit)
        };
        decision::count_to_narrow(self.ticks as f64, narrowing)
    }

    /// Compares the number with a limit.
    ///
    /// The minimum and the maximum have no interval, and neither has any number of a summary without
    /// samples. Their limit concerns the measured ticks, and a single stall of the machine breaks
    /// it.
    #[must_use]
    pub fn judge(&self, limit: f64) -> (Outcome, Option<Reason>) {
        let open = |reason| (Outcome::Inconclusive, Some(reason));
        let Some(value) = self.value else {
            return open(if self.is_unknown_cost {
                Reason::NotMeasured
            } else {
                Reason::TooFewTicks
            });
        };
        if !self.is_from_summary && self.rounds < bootstrap::MIN_ROUNDS {
            return open(Reason::TooFewRounds);
        }
        let interval = if self.is_extreme || self.is_from_summary {
            Some(Interval::point(value))
        } else {
            self.interval
        };
        match interval {
            None => open(Reason::TooFewTicks),
            Some(interval) if interval.lower > limit => (Outcome::LimitBroken, None),
            Some(interval) if interval.upper <= limit => (Outcome::Pass, None),
            Some(_) => open(Reason::TooNoisy),
        }
    }
}
