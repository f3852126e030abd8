//! A number of a run, and what it comes to against a limit.

use jitterstat::gate::decision::{self, Outcome, Reason};
use jitterstat::stats::{Interval, bootstrap};

/// A number of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Over all rounds; `None` where the ticks do not carry it or the platform does not tell it.
    pub value: Option<f64>,
    /// Interval over rounds, of 99 % unless asked for otherwise; `None` below 10 rounds, and for
    /// the least and the largest value.
    pub interval: Option<Interval<f64>>,
    /// Rounds it is of.
    pub rounds: usize,
    /// Ticks asked for in them.
    pub ticks: u64,
    /// The least or the largest value: a fact of the run, of which no interval can be had.
    pub(super) extreme: bool,
    pub(super) unknown_cost: bool,
}

impl Measured {
    /// Ticks that would probably decide a limit that these leave open; `None` if it is decided, or
    /// no number would.
    ///
    /// An interval narrows with the root of the rounds: how many until it no longer holds the
    /// limit?
    #[must_use]
    pub fn ticks_to_decide(&self, limit: f64) -> Option<u64> {
        let (value, interval) = (self.value?, self.interval?);
        if self.judge(limit).1 != Some(Reason::TooNoisy) {
            return None;
        }
        let room = if value <= limit {
            (interval.upper - value) / (limit - value)
        } else {
            (value - interval.lower) / (value - limit)
        };
        decision::count_to_narrow(self.ticks as f64, room)
    }

    /// Holds it against a limit.
    ///
    /// The least and the largest value have no interval: the limit holds for the ticks that were
    /// measured, and one stall of the machine breaks it.
    #[must_use]
    pub fn judge(&self, limit: f64) -> (Outcome, Option<Reason>) {
        let open = |reason| (Outcome::Inconclusive, Some(reason));
        let Some(value) = self.value else {
            return open(if self.unknown_cost { Reason::NotMeasured } else { Reason::TooFewTicks });
        };
        if self.rounds < bootstrap::MIN_ROUNDS {
            return open(Reason::TooFewRounds);
        }
        let interval = if self.extreme { Some(Interval::point(value)) } else { self.interval };
        match interval {
            None => open(Reason::TooFewTicks),
            Some(interval) if interval.lower > limit => (Outcome::LimitBroken, None),
            Some(interval) if interval.upper <= limit => (Outcome::Pass, None),
            Some(_) => open(Reason::TooNoisy),
        }
    }
}
