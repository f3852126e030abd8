//! Early and lost ticks of both sides, which leave a verdict open: percentiles do not show them.
//!
//! An early tick has no lateness, and a tick that was never delivered has none either. A candidate
//! that drops its late ticks would look punctual. Ticks that a ticker skips after a stall are no
//! such loss: of one that delivers them late, only the first tick of the stall counts.

use super::decision::{Look, Outcome, Reason};
use super::{Side, Sides};
use crate::stats::sign_test::rank_from_the_end;

/// Share of the ticks above which early or lost ones leave the verdict open. A few early ticks are
/// errors of a clock.
pub const MAX_SHARE: f64 = 0.01;
/// Probability with which stalls of the machine, which can make a ticker lose ticks on both sides,
/// seem to be on one side only.
const CHANCE: f64 = 0.001;

/// The arrivals of one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundArrivals {
    first: u64,
    last: u64,
    delivered: u64,
    counted: u64,
    early: u64,
}

impl RoundArrivals {
    /// Counts the ticks of a round, given the index and lateness of each, in order of the index.
    /// `counted` is the number of those that count ([`CountedTicks::count`]). Returns `None` without
    /// a tick.
    ///
    /// [`CountedTicks::count`]: super::round::CountedTicks::count
    #[must_use]
    pub fn new(ticks: &[(u64, i64)], counted: u64) -> Option<Self> {
        let (&(first, _), &(last, _)) = (ticks.first()?, ticks.last()?);
        let early = ticks.iter().filter(|(_, lateness_ns)| *lateness_ns < 0).count() as u64;
        Some(Self { first, last, delivered: ticks.len() as u64, counted, early })
    }
}

/// The arrivals of all pairs of a gate.
///
/// ```
/// use jitterstat::gate::Sides;
/// use jitterstat::gate::arrivals::{Arrivals, RoundArrivals};
/// use jitterstat::gate::decision::Reason;
///
/// let all = RoundArrivals::new(&[(0, 9), (1, 9), (2, 9), (3, 9)], 4).expect("four ticks");
/// let half = RoundArrivals::new(&[(0, 9), (2, 9)], 2).expect("two ticks");
/// let mut arrivals = Arrivals::default();
/// for _ in 0..50 {
///     arrivals.add(Sides { base: all, candidate: half });
/// }
/// assert_eq!(arrivals.lost(), Sides { base: 0, candidate: 100 });
/// assert_eq!(arrivals.faults().candidate, Some(Reason::LostTicks));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrivals {
    /// Number of planned ticks of each side.
    planned: u64,
    early: Sides<u64>,
    lost: Sides<u64>,
    /// Number of ticks that do not count: the lost ones, and the backlog of stalls.
    uncounted: Sides<u64>,
    /// Number of pairs in which more ticks of the side do not count than of the other one.
    more_uncounted: Sides<u64>,
}

impl Arrivals {
    /// Adds the rounds of a pair. Both plan the ticks from the first index of either to the last one.
    pub fn add(&mut self, pair: Sides<RoundArrivals>) {
        let Sides { base, candidate } = pair;
        let (first, last) = (base.first.min(candidate.first), base.last.max(candidate.last));
        let planned = last.saturating_sub(first).saturating_add(1);
        self.planned = self.planned.saturating_add(planned);
        for side in [Side::Base, Side::Candidate] {
            let RoundArrivals { delivered, counted, early, .. } = pair[side];
            for (sum, more) in [
                (&mut self.early, early),
                (&mut self.lost, planned.saturating_sub(delivered)),
                (&mut self.uncounted, planned.saturating_sub(counted)),
            ] {
                sum[side] = sum[side].saturating_add(more);
            }
        }
        self.more_uncounted.base += u64::from(base.counted < candidate.counted);
        self.more_uncounted.candidate += u64::from(candidate.counted < base.counted);
    }

    /// Returns the number of planned ticks of each side.
    #[must_use]
    pub fn planned(&self) -> u64 {
        self.planned
    }

    /// Returns the number of early ticks of each side.
    #[must_use]
    pub fn early(&self) -> Sides<u64> {
        self.early
    }

    /// Returns the number of ticks of each side that were never delivered.
    #[must_use]
    pub fn lost(&self) -> Sides<u64> {
        self.lost
    }

    /// Whether more than [`MAX_SHARE`] of the ticks of a side were early.
    #[must_use]
    pub fn is_early(&self, side: Side) -> bool {
        is_too_many(self.early[side], self.planned)
    }

    /// Returns for each side why its percentiles are lower than its ticks are late, if they are: more
    /// than [`MAX_SHARE`] of its ticks were early, or it clearly lost more ticks than the other side by
    /// more than that share, and not after stalls of the machine.
    #[must_use]
    pub fn faults(&self) -> Sides<Option<Reason>> {
        Sides { base: Side::Base, candidate: Side::Candidate }.map(|side| {
            if self.is_early(side) {
                Some(Reason::EarlyTicks)
            } else {
                self.lost_clearly_more(side).then_some(Reason::LostTicks)
            }
        })
    }

    fn lost_clearly_more(&self, side: Side) -> bool {
        let is_excess = |ticks: Sides<u64>| {
            let excess = ticks[side].saturating_sub(ticks.swapped()[side]);
            is_too_many(excess, self.planned)
        };
        let (more, less) = (self.more_uncounted[side], self.more_uncounted.swapped()[side]);
        let is_chance = less >= rank_from_the_end((more + less) as usize, CHANCE) as u64;
        is_excess(self.lost) && is_excess(self.uncounted) && !is_chance
    }

    /// Returns the look without outcomes that early or lost ticks could have caused. They are
    /// inconclusive instead. A regression remains if only the candidate is at fault, because its true
    /// percentiles would be even higher.
    #[must_use]
    pub fn check(&self, look: Look) -> Look {
        let faults = self.faults();
        let Some(reason) = faults.candidate.or(faults.base) else { return look };
        let is_proven = |outcome| outcome == Outcome::Regressed && faults.base.is_none();
        let [median, tail] = [look.median, look.tail].map(|number| match number.outcome {
            outcome if is_proven(outcome) => number,
            _ => number.leave_open(reason),
        });
        Look { outcome: Outcome::worst_of([median.outcome, tail.outcome]), median, tail }
    }
}

/// Whether early or lost ticks are more than [`MAX_SHARE`] of all.
#[must_use]
pub fn is_too_many(ticks: u64, all: u64) -> bool {
    ticks as f64 > all as f64 * MAX_SHARE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::round::CountedTicks;

    fn round(ticks: impl IntoIterator<Item = (u64, i64)>) -> RoundArrivals {
        let ticks: Vec<(u64, i64)> = ticks.into_iter().collect();
        let counted = CountedTicks::new(ticks.iter().copied(), 500_000).unwrap();
        RoundArrivals::new(&ticks, counted.count()).unwrap()
    }

    fn on_time() -> RoundArrivals {
        round((0..250).map(|n| (n, 9_000)))
    }

    fn faults(pairs: impl IntoIterator<Item = Sides<RoundArrivals>>) -> Sides<Option<Reason>> {
        let mut arrivals = Arrivals::default();
        pairs.into_iter().for_each(|pair| arrivals.add(pair));
        arrivals.faults()
    }

    #[test]
    fn early_side_is_named() {
        let early = |count| round((0..250).map(|n| (n, if n < count { -1 } else { 9_000 })));
        for (count, fault) in [(2, None), (3, Some(Reason::EarlyTicks))] {
            let pair = Sides { base: on_time(), candidate: early(count) };
            let expected = Sides { base: None, candidate: fault };
            assert_eq!(faults([pair; 50]), expected);
            assert_eq!(faults([pair.swapped(); 50]), expected.swapped());
        }
    }

    #[test]
    fn lost_ticks_are_found_anywhere() {
        let every_tenth = round((0..250).step_by(10).map(|n| (n, 9_000)));
        let first_half = round((0..125).map(|n| (n, 9_000)));
        let second_half = round((125..250).map(|n| (n, 9_000)));
        for candidate in [every_tenth, first_half, second_half] {
            let pair = Sides { base: on_time(), candidate };
            let found = faults([pair; 50]);
            assert_eq!(found, Sides { base: None, candidate: Some(Reason::LostTicks) });
            // Both lose as many, as two tickers do that skip missed ticks.
            assert_eq!(faults([Sides { base: candidate, candidate }; 50]), Sides::default());
        }
    }

    #[test]
    fn skipped_backlog_is_no_loss() {
        // A stall of 50 ms, after which one side delivers its backlog and the other one skips it.
        let late = |n: i64| if (100..200).contains(&n) { (200 - n) * 500_000 } else { 9_000 };
        let burst = round((0..250).map(|n| (n, late(n as i64))));
        let skip = round((0..=100).chain(200..250).map(|n| (n, late(n as i64))));
        assert_eq!(faults([Sides { base: burst, candidate: skip }; 50]), Sides::default());
    }

    #[test]
    fn stalls_are_no_fault() {
        // A stall takes 100 ticks of every fifth pair, from either side.
        let stalled = round((0..100).chain(200..250).map(|n| (n, 9_000)));
        let pairs = (0..50).map(|n| match n % 10 {
            0 | 1 => Sides { base: on_time(), candidate: stalled },
            2 => Sides { base: stalled, candidate: on_time() },
            _ => Sides { base: on_time(), candidate: on_time() },
        });
        assert_eq!(faults(pairs), Sides::default());
    }
}
