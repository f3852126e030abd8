//! The counts of the ticks of a loop.

use std::ops::{Add, AddAssign};

use crate::counters::add_if_complete;
use crate::report::Summary;

/// The counts of the ticks of a loop. A count is `None` if it was not measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickCounts {
    /// Number of planned ticks: delivered + coalesced + skipped, as far as they are known.
    pub planned: u64,
    /// Number of ticks with a wake-up of their own.
    pub delivered: u64,
    /// Number of ticks that shared the wake-up of a later tick.
    pub coalesced: Option<u64>,
    /// Number of ticks that were never delivered.
    pub skipped: Option<u64>,
    /// Number of ticks that were not delivered before the next deadline.
    pub missed: Option<u64>,
    /// Number of ticks delivered before their deadline.
    pub early: Option<u64>,
}

/// The counts of a loop without a tick, in which every count is measured.
impl Default for TickCounts {
    fn default() -> Self {
        Self {
            planned: 0,
            delivered: 0,
            coalesced: Some(0),
            skipped: Some(0),
            missed: Some(0),
            early: Some(0),
        }
    }
}

/// Adds the ticks of two loops. A count that is unknown in one of them is unknown in the sum.
impl Add for TickCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            planned: self.planned.saturating_add(other.planned),
            delivered: self.delivered.saturating_add(other.delivered),
            coalesced: add_if_complete(self.coalesced, other.coalesced),
            skipped: add_if_complete(self.skipped, other.skipped),
            missed: add_if_complete(self.missed, other.missed),
            early: add_if_complete(self.early, other.early),
        }
    }
}

impl AddAssign for TickCounts {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl TickCounts {
    /// Returns the number of ticks that were delivered, with a wake-up of their own or not.
    #[must_use]
    pub fn came(&self) -> u64 {
        self.delivered.saturating_add(self.coalesced.unwrap_or(0))
    }
}

/// The counts in a summary, whose keys are those of the file format.
impl From<&Summary> for TickCounts {
    fn from(summary: &Summary) -> Self {
        Self {
            planned: summary.ticks,
            delivered: summary.delivered,
            coalesced: summary.coalesced,
            skipped: summary.skipped,
            missed: summary.missed,
            early: summary.early,
        }
    }
}

/// A summary that contains nothing but counts.
impl From<TickCounts> for Summary {
    fn from(counts: TickCounts) -> Self {
        Self {
            ticks: counts.planned,
            delivered: counts.delivered,
            coalesced: counts.coalesced,
            skipped: counts.skipped,
            missed: counts.missed,
            early: counts.early,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_counts_stay_unknown() {
        let known =
            TickCounts { planned: 5, delivered: 3, coalesced: Some(1), ..Default::default() };
        let unknown = TickCounts { planned: 2, delivered: 2, coalesced: None, ..known };
        assert_eq!((known + known).coalesced, Some(2));
        let sum = known + unknown;
        assert_eq!((sum.planned, sum.came(), sum.coalesced), (7, 5, None));
        assert_eq!(TickCounts::from(&Summary::from(sum)), sum);
    }
}
