//! The ticks of one round: each tick of the grid is exactly one of delivered, coalesced and
//! skipped.

use std::fmt;

/// A wake-up. Times are nanoseconds after the start of the grid, negative before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wakeup {
    /// Index of the last reported tick.
    pub tick: u64,
    /// Number of consecutive reported ticks, ending with `tick`; at least 1.
    pub expirations: u64,
    /// Time at which the waiting code ran again.
    pub wake_ns: i64,
    /// Time at which the runtime returned from its park; `None` if it had not parked for this tick.
    pub unpark_ns: Option<i64>,
}

/// The grid of a round. Tick k is due at `k * period_ns`; the ticks
/// `first_tick .. first_tick + ticks` are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Nominal period.
    pub period_ns: u64,
    /// Index of the first recorded tick, which is the number of warm-up ticks.
    pub first_tick: u64,
    /// Number of planned ticks.
    pub ticks: u64,
}

impl Grid {
    /// Returns the deadline of a tick, in nanoseconds after the start.
    #[must_use]
    pub fn deadline_ns(&self, tick: u64) -> i64 {
        i64::try_from(u128::from(tick) * u128::from(self.period_ns)).unwrap_or(i64::MAX)
    }

    fn end(&self) -> u64 {
        self.first_tick.saturating_add(self.ticks)
    }
}

/// The error of wake-ups that do not fit a grid, because the subject broke its contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WakeupError {
    /// A wake-up reports a tick that an earlier one has already reported.
    NotIncreasing {
        /// The first tick of the wake-up.
        tick: u64,
    },
    /// A wake-up reports no expiration, or more than are possible.
    BadCount {
        /// The last tick of the wake-up.
        tick: u64,
    },
}

impl fmt::Display for WakeupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotIncreasing { tick } => {
                write!(f, "tick {tick} was reported twice or out of order")
            }
            Self::BadCount { tick } => {
                write!(f, "the wake-up of tick {tick} reports an impossible number of expirations")
            }
        }
    }
}

impl std::error::Error for WakeupError {}

/// The delivered and coalesced ticks of one round with their lateness, in order of their index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundSamples {
    /// The grid of the round.
    pub grid: Grid,
    /// Indices of the ticks, strictly increasing.
    pub ticks: Vec<u64>,
    /// Lateness of each tick: wake time minus deadline; negative if early.
    pub lateness_ns: Vec<i64>,
    /// Time of the runtime's return from its park minus the deadline, for ticks with a park of
    /// their own.
    pub until_unpark_ns: Vec<Option<i64>>,
    /// Number of ticks that shared the wake-up of a later tick.
    pub coalesced: u64,
}

impl RoundSamples {
    /// Assigns the wake-ups of a round to the ticks of its grid. Ticks outside the grid, such as
    /// the warm-up, are ignored.
    ///
    /// # Errors
    /// Returns an error if a tick is reported twice, or a number of expirations is impossible.
    pub fn from_wakeups(grid: Grid, wakeups: &[Wakeup]) -> Result<Self, WakeupError> {
        let mut samples = Self {
            grid,
            ticks: Vec::with_capacity(wakeups.len()),
            lateness_ns: Vec::with_capacity(wakeups.len()),
            until_unpark_ns: Vec::with_capacity(wakeups.len()),
            coalesced: 0,
        };
        let mut next_free = 0_u64;
        for wakeup in wakeups {
            let first = wakeup.expirations.checked_sub(1).and_then(|n| wakeup.tick.checked_sub(n));
            let Some(first) = first else {
                return Err(WakeupError::BadCount { tick: wakeup.tick });
            };
            if first < next_free {
                return Err(WakeupError::NotIncreasing { tick: first });
            }
            next_free = wakeup.tick.saturating_add(1);
            for tick in first.max(grid.first_tick)..next_free.min(grid.end()) {
                let deadline_ns = grid.deadline_ns(tick);
                let is_last = tick == wakeup.tick;
                samples.ticks.push(tick);
                samples.lateness_ns.push(wakeup.wake_ns.saturating_sub(deadline_ns));
                samples
                    .until_unpark_ns
                    .push(wakeup.unpark_ns.map(|u| u.saturating_sub(deadline_ns)));
                samples.coalesced += u64::from(!is_last);
            }
        }
        Ok(samples)
    }

    /// Returns the number of ticks that were delivered or coalesced, which have a lateness.
    #[must_use]
    pub fn recorded(&self) -> u64 {
        self.lateness_ns.len() as u64
    }

    /// Returns the index and lateness of each recorded tick.
    pub fn pairs(&self) -> impl Iterator<Item = (u64, i64)> + '_ {
        self.ticks.iter().copied().zip(self.lateness_ns.iter().copied())
    }

    /// Returns the number of ticks with a wake-up of their own.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.recorded().saturating_sub(self.coalesced)
    }

    /// Returns the number of ticks that were never delivered; 0 if there are more ticks than the grid
    /// has.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.grid.ticks.saturating_sub(self.recorded())
    }

    /// Returns the number of ticks that were not delivered before the next deadline: those late by
    /// a period or more, and those never delivered. No hidden tolerance applies.
    #[must_use]
    pub fn missed(&self) -> u64 {
        let period_ns = i64::try_from(self.grid.period_ns).unwrap_or(i64::MAX);
        let late = self.lateness_ns.iter().filter(|&&l| l >= period_ns).count();
        late as u64 + self.skipped()
    }

    /// Returns the number of ticks delivered before their deadline. Each is a bug of the subject.
    #[must_use]
    pub fn early(&self) -> u64 {
        self.lateness_ns.iter().filter(|&&l| l < 0).count() as u64
    }

    /// Returns the sums of x·y and x² around the means of the round, where x is the deadline and y
    /// the lateness. Their quotient is the slope of lateness over time.
    #[must_use]
    pub fn drift_sums(&self) -> (f64, f64) {
        let n = self.ticks.len() as f64;
        let x = |k: u64| (k - self.grid.first_tick) as f64 * self.grid.period_ns as f64;
        let mean_x = self.ticks.iter().map(|&k| x(k)).sum::<f64>() / n;
        let mean_y = self.lateness_ns.iter().map(|&l| l as f64).sum::<f64>() / n;
        let (mut sxy, mut sxx) = (0.0, 0.0);
        for (tick, late) in self.pairs() {
            let deviation = x(tick) - mean_x;
            sxy += deviation * (late as f64 - mean_y);
            sxx += deviation * deviation;
        }
        (sxy, sxx)
    }

    /// Returns the differences in lateness between consecutive ticks. A skipped tick leaves out two
    /// differences.
    pub fn consecutive_ns(&self) -> impl Iterator<Item = i64> + '_ {
        let neighbours = self.ticks.windows(2).zip(self.lateness_ns.windows(2));
        neighbours.filter(|(t, _)| t[0] + 1 == t[1]).map(|(_, l)| l[1].saturating_sub(l[0]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GRID: Grid = Grid { period_ns: 500, first_tick: 2, ticks: 4 };

    fn wakeup(tick: u64, expirations: u64, wake_ns: i64) -> Wakeup {
        Wakeup { tick, expirations, wake_ns, unpark_ns: None }
    }

    #[test]
    fn warm_up_is_not_recorded() {
        let wakeups: Vec<_> = (0..6).map(|k| wakeup(k, 1, 500 * k as i64 + 7)).collect();
        let round = RoundSamples::from_wakeups(GRID, &wakeups).unwrap();
        assert_eq!(round.ticks, [2, 3, 4, 5]);
        assert_eq!(round.lateness_ns, [7; 4]);
        assert_eq!(
            (round.delivered(), round.coalesced, round.skipped(), round.missed()),
            (4, 0, 0, 0)
        );
    }

    #[test]
    fn coalesced_ticks_have_individual_lateness() {
        let round = RoundSamples::from_wakeups(GRID, &[wakeup(5, 6, 2_600)]).unwrap();
        assert_eq!(round.lateness_ns, [1_600, 1_100, 600, 100]);
        assert_eq!((round.delivered(), round.coalesced, round.missed()), (1, 3, 3));
    }

    #[test]
    fn skipped_ticks_count_as_missed() {
        let round =
            RoundSamples::from_wakeups(GRID, &[wakeup(2, 1, 1_000), wakeup(5, 1, 2_499)]).unwrap();
        assert_eq!((round.skipped(), round.missed(), round.early()), (2, 2, 1));
        assert_eq!(round.consecutive_ns().count(), 0);
    }

    #[test]
    fn surplus_ticks_are_not_skipped() {
        let wakeups: Vec<_> = (2..6).map(|k| wakeup(k, 1, 500 * k as i64)).collect();
        let mut round = RoundSamples::from_wakeups(GRID, &wakeups).unwrap();
        round.grid.ticks = 3;
        assert_eq!((round.skipped(), round.missed()), (0, 0));
    }

    #[test]
    fn contract_breaches_are_rejected() {
        let twice = [wakeup(2, 1, 1_000), wakeup(2, 1, 1_001)];
        assert_eq!(
            RoundSamples::from_wakeups(GRID, &twice),
            Err(WakeupError::NotIncreasing { tick: 2 })
        );
        assert_eq!(
            RoundSamples::from_wakeups(GRID, &[wakeup(2, 0, 0)]),
            Err(WakeupError::BadCount { tick: 2 })
        );
        assert_eq!(
            RoundSamples::from_wakeups(GRID, &[wakeup(2, 4, 0)]),
            Err(WakeupError::BadCount { tick: 2 })
        );
    }

    proptest! {
        #[test]
        fn every_tick_has_one_class(
            steps in proptest::collection::vec((1_u64..4, 1_u64..4), 0..60), first in 0_u64..9, ticks in 1_u64..90
        ) {
            let mut tick = 0;
            let wakeups: Vec<_> = steps.iter().map(|&(gap, n)| {
                tick += gap + n;
                wakeup(tick, n, 0)
            }).collect();
            let round = RoundSamples::from_wakeups(Grid { period_ns: 10, first_tick: first, ticks }, &wakeups).unwrap();
            prop_assert_eq!(round.delivered() + round.coalesced + round.skipped(), ticks);
            prop_assert!(round.ticks.windows(2).all(|w| w[0] < w[1]));
            prop_assert!(round.ticks.iter().all(|&t| (first..first + ticks).contains(&t)));
        }
    }
}
