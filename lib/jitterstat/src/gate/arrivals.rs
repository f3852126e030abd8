//! Early and lost ticks of both sides, and those behind their stalls, which leave a verdict open:
//! percentiles do not show them.
//!
//! An early tick lowers the percentiles, and a tick that was never delivered has no lateness. A
//! candidate that drops its late ticks would look punctual. Ticks that a ticker skips after a stall
//! are no such loss: of one that delivers them late, only the first tick of the stall counts. The
//! other ones make a verdict doubtful only if one side has clearly more of them, because stalls of
//! the machine hit both.

use super::decision::{Look, NumberVerdict, Outcome, Reason};
use super::{Side, Sides};
use crate::stats::sign_test::rank_from_the_end;

/// Share of early ticks of which users are warned. A few are errors of a clock. If a side has by so
/// many more than the other one, the verdict is open.
pub const MAX_EARLY_SHARE: f64 = 0.01;
/// Share of lost ticks by which the sides may differ: a fifth of those above the 99th percentile.
const MAX_LOST_SHARE: f64 = 0.002;
/// Share of ticks behind stalls by which the sides may differ: more reach the 99th percentile.
const MAX_STALLED_SHARE: f64 = 0.01;
/// Probability with which a difference that stalls of the machine cause seems to be one of the sides.
const SIGNIFICANCE: f64 = 0.001;

const SIDES: Sides<Side> = Sides { base: Side::Base, candidate: Side::Candidate };

/// The arrivals of one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundArrivals {
    first: u64,
    last: u64,
    delivered: u64,
    counted: u64,
    early: u64,
    in_time: u64,
}

impl RoundArrivals {
    /// Counts the ticks of a round, given the index and lateness of each, in order of the index.
    /// `counted` is the number of those that count ([`CountedTicks::count`]). A tick is missed if it
    /// is late by a period or more. Returns `None` without a tick.
    ///
    /// [`CountedTicks::count`]: super::round::CountedTicks::count
    #[must_use]
    pub fn new(ticks: &[(u64, i64)], counted: u64, period_ns: u64) -> Option<Self> {
        let period_ns = i64::try_from(period_ns).unwrap_or(i64::MAX);
        let (&(first, _), &(last, _)) = (ticks.first()?, ticks.last()?);
        let early = ticks.iter().filter(|(_, lateness_ns)| *lateness_ns < 0).count() as u64;
        let in_time =
            ticks.iter().filter(|(_, lateness_ns)| *lateness_ns < period_ns).count() as u64;
        Some(Self { first, last, delivered: ticks.len() as u64, counted, early, in_time })
    }
}

/// The arrivals of all pairs of a gate.
///
/// ```
/// use jitterstat::gate::Sides;
/// use jitterstat::gate::arrivals::{Arrivals, RoundArrivals};
/// use jitterstat::gate::decision::Reason;
///
/// let all = RoundArrivals::new(&[(0, 9), (1, 9), (2, 9), (3, 9)], 4, 500).expect("four ticks");
/// let half = RoundArrivals::new(&[(0, 9), (2, 9)], 2, 500).expect("two ticks");
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
    /// Number of planned ticks of the longest round.
    round_ticks: u64,
    early: PairedCounts,
    lost: PairedCounts,
    /// The ticks that do not count: the lost ones, and the backlog of stalls.
    uncounted: PairedCounts,
    /// The ticks that were late by a period or more, and the lost ones.
    missed: PairedCounts,
}

/// Counts of one kind on each side of the pairs, such as early ticks.
///
/// ```
/// use jitterstat::gate::arrivals::PairedCounts;
/// use jitterstat::gate::{Side, Sides};
///
/// let mut counts = PairedCounts::default();
/// for _ in 0..24 {
///     counts.add(Sides { base: 0, candidate: 1 });
/// }
/// assert!(counts.is_clearly_larger(Side::Candidate));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairedCounts {
    /// The sums over all pairs.
    ticks: Sides<u64>,
    /// Number of pairs in which the side has more of them than the other one.
    larger: Sides<u64>,
}

impl PairedCounts {
    /// Adds the counts of a pair.
    pub fn add(&mut self, pair: Sides<u64>) {
        for side in SIDES {
            self.ticks[side] = self.ticks[side].saturating_add(pair[side]);
            self.larger[side] += u64::from(pair[side] > pair.swapped()[side]);
        }
    }

    /// Whether a side has more of these ticks than the other one, by more than `ticks`.
    fn exceeds_other_by(&self, side: Side, ticks: f64) -> bool {
        self.ticks[side].saturating_sub(self.ticks.swapped()[side]) as f64 > ticks
    }

    /// Returns whether a side has more than the other one in more pairs than chance explains, by the sign
    /// test.
    #[must_use]
    pub fn is_clearly_larger(&self, side: Side) -> bool {
        let (larger, smaller) = (self.larger[side], self.larger.swapped()[side]);
        smaller < rank_from_the_end((larger + smaller) as usize, SIGNIFICANCE) as u64
    }
}

impl Arrivals {
    /// Adds the rounds of a pair. Both plan the ticks from the first index of either to the last one.
    pub fn add(&mut self, pair: Sides<RoundArrivals>) {
        let Sides { base, candidate } = pair;
        let (first, last) = (base.first.min(candidate.first), base.last.max(candidate.last));
        let planned = last.saturating_sub(first).saturating_add(1);
        self.planned = self.planned.saturating_add(planned);
        self.round_ticks = self.round_ticks.max(planned);
        self.early.add(pair.map(|round| round.early));
        self.lost.add(pair.map(|round| planned.saturating_sub(round.delivered)));
        self.uncounted.add(pair.map(|round| planned.saturating_sub(round.counted)));
        self.missed.add(pair.map(|round| planned.saturating_sub(round.in_time)));
    }

    /// Adds a pair in which a side delivered none of its ticks, given the round of the other side.
    pub fn add_lost_round(&mut self, side: Side, other: RoundArrivals) {
        let lost = RoundArrivals { delivered: 0, counted: 0, early: 0, in_time: 0, ..other };
        let pair = Sides { base: lost, candidate: other };
        self.add(if side == Side::Base { pair } else { pair.swapped() });
    }

    /// Returns the number of planned ticks of each side.
    #[must_use]
    pub fn planned(&self) -> u64 {
        self.planned
    }

    /// Returns the number of planned ticks of a round, which is that of the longest one: rounds that
    /// lost ticks at their ends seem shorter.
    #[must_use]
    pub fn round_ticks(&self) -> u64 {
        self.round_ticks
    }

    /// Returns the number of early ticks of each side.
    #[must_use]
    pub fn early(&self) -> Sides<u64> {
        self.early.ticks
    }

    /// Returns the number of ticks of each side that were never delivered.
    #[must_use]
    pub fn lost(&self) -> Sides<u64> {
        self.lost.ticks
    }

    /// Returns the number of ticks of each side that do not count, because the first tick of their
    /// stall represents them, or because they were never delivered.
    #[must_use]
    pub fn uncounted(&self) -> Sides<u64> {
        self.uncounted.ticks
    }

    /// Whether more than half of the ticks of a side were early, or clearly more than of the other side.
    #[must_use]
    pub fn is_early(&self, side: Side) -> bool {
        let most_early = self.planned as f64 * MAX_EARLY_SHARE;
        are_mostly_early(self.early.ticks[side], self.planned)
            || (self.early.exceeds_other_by(side, most_early) && self.early.is_clearly_larger(side))
    }

    /// Whether clearly more ticks of a side than of the other one do not count. They were missed, so
    /// they cannot be those of a side that catches up earlier than one that stays late.
    fn is_stalled(&self, side: Side) -> bool {
        let most_stalled = self.planned as f64 * MAX_STALLED_SHARE;
        [&self.uncounted, &self.missed].into_iter().all(|counts| {
            counts.exceeds_other_by(side, most_stalled) && counts.is_clearly_larger(side)
        })
    }

    /// Returns the fault of each side that makes its percentiles too low: it is early, lost clearly
    /// more ticks than the other side, or has clearly more ticks behind stalls. Stalls of the machine,
    /// which hit both sides, are no fault.
    #[must_use]
    pub fn faults(&self) -> Sides<Option<Reason>> {
        let most_lost = self.planned as f64 * MAX_LOST_SHARE;
        SIDES.map(|side| {
            let has_lost = self.lost.exceeds_other_by(side, most_lost)
                && self.uncounted.exceeds_other_by(side, most_lost)
                && self.uncounted.is_clearly_larger(side);
            if self.is_early(side) {
                Some(Reason::EarlyTicks)
            } else if has_lost {
                Some(Reason::LostTicks)
            } else {
                self.is_stalled(side).then_some(Reason::UnequalStalls)
            }
        })
    }

    /// Returns the look with inconclusive outcomes instead of those that a fault could have caused
    /// ([`doubtful_side`]).
    #[must_use]
    pub fn check(&self, look: Look) -> Look {
        let faults = self.faults();
        let check = |number: NumberVerdict| {
            let fault = faults[doubtful_side(number.outcome)];
            fault.map_or(number, |reason| number.leave_open(reason))
        };
        let (median, tail) = (check(look.median), check(look.tail));
        Look { outcome: Outcome::worst_of([median.outcome, tail.outcome]), median, tail }
    }
}

/// Returns the side whose fault could have caused an outcome. The true percentiles of a side at fault
/// are higher, so a regression remains if the base has no fault, and a pass if the candidate has none.
#[must_use]
pub fn doubtful_side(outcome: Outcome) -> Side {
    if outcome == Outcome::Regressed { Side::Base } else { Side::Candidate }
}

/// Whether more than [`MAX_EARLY_SHARE`] of the ticks were early.
#[must_use]
pub fn are_many_early(early: u64, ticks: u64) -> bool {
    early as f64 > ticks as f64 * MAX_EARLY_SHARE
}

/// Whether more than half of the ticks were early, so that the median says nothing.
#[must_use]
pub fn are_mostly_early(early: u64, ticks: u64) -> bool {
    early > ticks / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::round::CountedTicks;
    use crate::stats::random::SplitMix64;

    fn round(ticks: impl IntoIterator<Item = (u64, i64)>) -> RoundArrivals {
        let ticks: Vec<(u64, i64)> = ticks.into_iter().collect();
        let counted = CountedTicks::new(ticks.iter().copied(), 500_000).unwrap();
        RoundArrivals::new(&ticks, counted.count(), 500_000).unwrap()
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
        // Two programs with a coarse timer are early alike, which half of the ticks may not be.
        for (count, fault) in [(125, None), (126, Some(Reason::EarlyTicks))] {
            let pair = Sides { base: early(count), candidate: early(count) };
            assert_eq!(faults([pair; 50]), Sides { base: fault, candidate: fault });
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
    fn lost_rounds_are_lost_ticks() {
        for (lost, fault) in [(9, None), (10, Some(Reason::LostTicks))] {
            for side in [Side::Base, Side::Candidate] {
                let mut arrivals = Arrivals::default();
                (0..90).for_each(|_| arrivals.add(Sides { base: on_time(), candidate: on_time() }));
                (0..lost).for_each(|_| arrivals.add_lost_round(side, on_time()));
                let mut expected = Sides::default();
                expected[side] = fault;
                assert_eq!(arrivals.faults(), expected, "{lost} of {side:?}");
            }
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

    /// A round with a backlog of this many ticks after a stall, which is delivered.
    fn stalled(backlog: i64) -> RoundArrivals {
        let late = |n: i64| (backlog - n) * 500_000;
        round((0..250).map(|n| (n, late(n as i64).max(9_000))))
    }

    #[test]
    fn longer_stalls_of_a_side_count() {
        // One stall in every third round is longer on one side, by 2 and by 3 % of its ticks.
        for (backlog, fault) in [(5 + 6, None), (5 + 9, Some(Reason::UnequalStalls))] {
            let pairs = (0..60).map(|n| Sides {
                base: stalled(5),
                candidate: stalled(if n % 3 == 0 { backlog } else { 5 }),
            });
            let expected = Sides { base: None, candidate: fault };
            assert_eq!(faults(pairs.clone()), expected);
            assert_eq!(faults(pairs.map(Sides::swapped)), expected.swapped());
        }
    }

    #[test]
    fn staying_late_is_no_fault() {
        // After a stall one side catches up, and the other one stays late for all of its ticks, which
        // count.
        let delayed = round((0..250).map(|n| (n, if n < 5 { 9_000 } else { 10_000_000 })));
        let pair = Sides { base: stalled(20), candidate: delayed };
        assert_eq!(faults([pair; 50]), Sides::default());
        assert_eq!(faults([pair.swapped(); 50]), Sides::default());
    }

    /// Stalls of the machine are no fault, however long and unequal they are.
    #[test]
    fn random_stalls_are_no_fault() {
        let mut random = SplitMix64::new(5);
        for share in [0.05, 0.3, 1.0] {
            let mut backlog = || {
                let (is_stalled, length) = (random.unit() < share, 3.0 / (0.02 + random.unit()));
                if is_stalled { length as i64 } else { 0 }
            };
            for gate in 0..200 {
                let mut side = || stalled(backlog());
                let pairs: Vec<_> =
                    (0..50).map(|_| Sides { base: side(), candidate: side() }).collect();
                assert_eq!(faults(pairs), Sides::default(), "gate {gate} at {share}");
            }
        }
    }
}
