//! A stall is one event, however many ticks it makes late: a gap between two deliveries that is
//! half as long again as the round's own typical gap.
//!
//! What is typical is taken from the round itself. A timer wheel that delivers two ticks a turn, or
//! a handler that is longer than the period, makes every tick late and has no stall; a loop that
//! never catches up after a stall keeps its ticks, and each of them remembers how much of its
//! lateness the stall is.

/// Of this definition: what was computed by another one is not comparable.
pub const RULE: &str = "gap-1";
/// A tick that was due when its predecessor came belongs to the same stall; this much before the
/// deadline counts as due.
pub const ALREADY_DUE_NS: i64 = 20_000;
/// Beyond so much a gap is a stall, however long the typical one is; and later than so much is late
/// at any period.
pub const LONG_NS: i64 = 1_000_000;

/// A tick of a round, and what stalls did to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// As it was measured.
    pub lateness_ns: i64,
    /// How much of that stalls made: from 0 to the lateness.
    pub stall_ns: i64,
    /// Whether it counts. The others are the backlog of a stall, which its first tick stands for.
    pub kept: bool,
}

impl Tick {
    /// What is left without the stalls.
    #[must_use]
    pub fn unstalled_ns(&self) -> i64 {
        self.lateness_ns.saturating_sub(self.stall_ns)
    }
}

/// From this lateness on, a tick at such a period is as late as stalls make it.
///
/// ```
/// assert_eq!([500_000, 10_000_000].map(jitterstat::stall::late_ns), [250_000, 1_000_000]);
/// ```
#[must_use]
pub fn late_ns(period_ns: u64) -> i64 {
    whole(period_ns / 2).min(LONG_NS)
}

/// Finds the stalls of one round: its ticks as pairs of index and lateness, with rising indices.
///
/// ```
/// // At a period of 500 us, a stall of 1.7 ms makes the next three ticks late, too.
/// let ticks = [(0, 9_000), (1, 9_000), (2, 1_700_000), (3, 1_200_000), (4, 700_000), (5, 200_000), (6, 9_000)];
/// let ticks = jitterstat::stall::detect(&ticks, 500_000);
/// let kept: Vec<i64> = ticks.iter().filter(|t| t.kept).map(|t| t.lateness_ns).collect();
/// assert_eq!(kept, [9_000, 9_000, 1_700_000, 9_000]);
/// assert_eq!(ticks[2].unstalled_ns(), 9_000);
/// ```
#[must_use]
pub fn detect(ticks: &[(u64, i64)], period_ns: u64) -> Vec<Tick> {
    let Some(&(_, first)) = ticks.first() else { return Vec::new() };
    let mut sorted: Vec<i64> = ticks.iter().map(|t| t.1).collect();
    sorted.sort_unstable();
    let typical = typical_gap_ns(ticks, period_ns, &sorted);
    let long = (typical / 2).min(LONG_NS);
    let cut = |stall: i64, lateness: i64| {
        Some(stall.min(lateness)).filter(|&part| part >= long).unwrap_or(0)
    };
    let mut stall_ns = cut(first.saturating_sub(sorted[(sorted.len() - 1) / 2].max(0)), first);
    // Whether the tick before was made late by a stall, directly or as its backlog.
    let mut behind = stall_ns > 0;
    let mut found = Vec::with_capacity(ticks.len());
    found.push(Tick { lateness_ns: first, stall_ns, kept: true });
    for pair in ticks.windows(2) {
        let ((_, before), (_, lateness)) = (pair[0], pair[1]);
        let (change, gap) = (lateness.saturating_sub(before), gap_ns(pair, period_ns));
        let stalled = gap >= typical.saturating_add(long);
        let due = before >= apart_ns(pair, period_ns).saturating_sub(ALREADY_DUE_NS).max(1);
        let kept = !(behind && due && (change < 0 || stalled));
        stall_ns = cut(
            stall_ns.saturating_add(if stalled { gap - typical } else { change.min(0) }),
            lateness,
        );
        behind = stalled || !kept;
        found.push(Tick { lateness_ns: lateness, stall_ns, kept });
    }
    found
}

/// The lateness of the ticks that are kept, and their own parts, each in ascending order.
#[must_use]
pub fn split_kept(ticks: &[(u64, i64)], period_ns: u64) -> (Vec<i64>, Vec<i64>) {
    let kept = detect(ticks, period_ns).into_iter().filter(|tick| tick.kept);
    let (mut late, mut own): (Vec<i64>, Vec<i64>) =
        kept.map(|tick| (tick.lateness_ns, tick.unstalled_ns())).unzip();
    late.sort_unstable();
    own.sort_unstable();
    (late, own)
}

/// By how much stalls raise a percentile, from the natural logarithms of it and of that of the own
/// parts; 0 where it is not as late as stalls make a tick, for there it is never asked.
#[must_use]
pub fn lift(ln: f64, ln_unstalled: f64, period_ns: u64) -> f64 {
    if ln >= (late_ns(period_ns) as f64).ln() { ln - ln_unstalled } else { 0.0 }
}

/// The gap that most waits of the round take: their median, or, where nine ticks in ten are late,
/// the one in which half of the time goes by if that is longer, as when a handler draws the ticks
/// of a wheel's turn apart.
fn typical_gap_ns(ticks: &[(u64, i64)], period_ns: u64, sorted: &[i64]) -> i64 {
    let period = whole(period_ns);
    let mut gaps: Vec<i64> = ticks.windows(2).map(|pair| gap_ns(pair, period_ns)).collect();
    gaps.sort_unstable();
    // What came together with the tick before is no wait.
    let waits = &gaps[gaps.partition_point(|gap| gap.saturating_mul(2) < period)..];
    let typical =
        waits.get(waits.len().saturating_sub(1) / 2).map_or(period, |&median| median.max(period));
    if sorted[(sorted.len() - 1) / 10] < late_ns(period_ns) {
        return typical;
    }
    let positive = &gaps[gaps.partition_point(|&gap| gap <= 0)..];
    let total: i128 = positive.iter().copied().map(i128::from).sum();
    let mut up_to = 0;
    let half_of_the_time = positive.iter().copied().find(|&gap| {
        up_to += i128::from(gap);
        2 * up_to >= total
    });
    half_of_the_time.map_or(typical, |gap| typical.max(gap.min(period.saturating_add(LONG_NS))))
}

/// Between the deadlines of two neighbours.
fn apart_ns(pair: &[(u64, i64)], period_ns: u64) -> i64 {
    whole(pair[1].0.saturating_sub(pair[0].0)).saturating_mul(whole(period_ns))
}

/// Between their deliveries.
fn gap_ns(pair: &[(u64, i64)], period_ns: u64) -> i64 {
    apart_ns(pair, period_ns).saturating_add(pair[1].1.saturating_sub(pair[0].1))
}

fn whole(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::quantile::nearest_rank;
    use proptest::prelude::*;

    /// A round in microseconds.
    struct Round {
        period: u64,
        ticks: Vec<(u64, i64)>,
    }

    impl Round {
        fn at(period: u64, lateness: &[i64]) -> Self {
            Self { period, ticks: (0..).zip(lateness.iter().copied()).collect() }
        }

        fn ns(&self) -> Vec<(u64, i64)> {
            self.ticks.iter().map(|&(k, us)| (k, us * 1_000)).collect()
        }

        /// The typical gap, where the parts of stalls stand and what they are, and which ticks are
        /// dropped.
        fn is(&self, typical: i64, stalls: &[(usize, i64)], dropped: &[usize]) {
            let ticks = self.ns();
            let mut sorted: Vec<i64> = ticks.iter().map(|t| t.1).collect();
            sorted.sort_unstable();
            assert_eq!(typical_gap_ns(&ticks, self.period * 1_000, &sorted), typical * 1_000);
            let found = detect(&ticks, self.period * 1_000);
            let parts: Vec<(usize, i64)> = found
                .iter()
                .enumerate()
                .filter(|(_, t)| t.stall_ns > 0)
                .map(|(i, t)| (i, t.stall_ns / 1_000))
                .collect();
            assert_eq!(parts, stalls);
            let gone: Vec<usize> = (0..found.len()).filter(|&i| !found[i].kept).collect();
            assert_eq!(gone, dropped);
        }

        /// A percentile of the lateness and of the own parts of the ticks that are kept.
        fn at_quantile(&self, q: f64) -> [i64; 2] {
            let (late, own) = split_kept(&self.ns(), self.period * 1_000);
            [late, own].map(|sorted| nearest_rank(&sorted, q).unwrap() / 1_000)
        }
    }

    #[test]
    fn a_wheel_has_a_stall_only_where_its_own_gap_is_exceeded() {
        let turn = [1_200, 700].repeat(4);
        let backlog: Vec<i64> = (1..=12).rev().map(|k| 200 + 500 * k).collect();
        let round = Round::at(500, &[&turn[..], &backlog, &turn[..6]].concat());
        let parts: Vec<(usize, i64)> = (0..10).map(|i| (8 + i, 5_000 - 500 * i as i64)).collect();
        let dropped: Vec<usize> = (9..20).collect();
        round.is(1_000, &parts, &dropped);
        assert_eq!([0.5, 0.9].map(|q| round.at_quantile(q)), [[1_200; 2]; 2]);
    }

    #[test]
    fn where_little_is_late_a_stall_is_what_it_always_was() {
        let round = Round::at(500, &[&[10; 8][..], &[1_700, 1_200, 700, 200], &[10; 8]].concat());
        round.is(500, &[(8, 1_690), (9, 1_190), (10, 690)], &[9, 10, 11]);
        assert_eq!([0.5, 0.9].map(|q| round.at_quantile(q)[0]), [10; 2]);
    }

    #[test]
    fn a_loop_that_never_catches_up_remembers_the_stall() {
        let round = Round::at(
            500,
            &[600, 1_100, 1_600, 2_100, 2_600, 3_100, 3_600, 9_100, 9_600, 10_100, 10_600, 11_100],
        );
        // Tokio's Delay: each tick starts the period anew, on a wheel that turns once a
        // millisecond.
        round.is(1_000, &[7, 8, 9, 10, 11].map(|i| (i, 5_000)), &[]);
        assert_eq!((round.at_quantile(0.5)[0], round.at_quantile(0.9)), (3_100, [10_600, 5_600]));
    }

    #[test]
    fn indices_that_are_skipped_are_no_stall_by_themselves() {
        let lateness = [900, 900, 900, 900, 900, 3_900, 900, 900, 900, 900];
        let indices = [0, 1, 2, 3, 4, 5, 9, 10, 11, 12];
        let round = Round { period: 1_000, ticks: indices.into_iter().zip(lateness).collect() };
        round.is(1_000, &[(5, 3_000)], &[]);
        assert_eq!(round.at_quantile(0.9)[0], 900);
    }

    #[test]
    fn a_handler_longer_than_the_period_is_no_stall() {
        let round = Round::at(500, &(0..12).map(|i| 100 * i).collect::<Vec<i64>>());
        round.is(600, &[], &[]);
        assert_eq!([0.5, 0.9].map(|q| round.at_quantile(q)[0]), [500, 1_000]);
        // On a wheel it draws the two ticks of a turn apart.
        Round::at(500, &[1_200, 1_000].repeat(6)).is(700, &[], &[]);
    }

    #[test]
    fn a_round_may_end_a_stall_or_begin_in_one() {
        let coalesced =
            Round::at(500, &[&[10; 4][..], &[2_010, 1_510, 1_010, 510], &[10; 5]].concat());
        coalesced.is(500, &[(4, 2_000), (5, 1_500), (6, 1_000), (7, 500)], &[5, 6, 7, 8]);
        assert_eq!(coalesced.at_quantile(0.9), [2_010, 10]);
        let begins = Round::at(500, &[&[2_300, 1_800, 1_300, 800, 300][..], &[10; 5]].concat());
        begins.is(500, &[(0, 2_290), (1, 1_790), (2, 1_290), (3, 790), (4, 290)], &[1, 2, 3, 4]);
    }

    #[test]
    fn a_tick_after_a_gap_belongs_to_the_stall_only_if_the_stall_reached_it() {
        let kept =
            |ticks: [(u64, i64); 2]| detect(&ticks, 500_000).iter().filter(|t| t.kept).count();
        assert_eq!([kept([(0, 479_999), (1, 5_000)]), kept([(0, 480_000), (1, 5_000)])], [2, 1]);
        assert_eq!(
            [kept([(0, 1_479_999), (3, 7_000)]), kept([(0, 1_480_000), (3, 7_000)])],
            [2, 1]
        );
    }

    #[test]
    fn at_a_period_shorter_than_the_grain_nothing_is_lost() {
        let ticks = [(0, 0), (1, 5), (2, 0), (3, -3), (4, 0)];
        assert!(detect(&ticks, 10_000).iter().all(|t| t.kept && t.stall_ns == 0));
        assert!(detect(&[], 10_000).is_empty());
    }

    #[test]
    fn numbers_at_the_ends_of_their_range_are_taken() {
        let ends = [
            (0, i64::MAX),
            (1, i64::MIN),
            (2, i64::MAX),
            (u64::MAX, i64::MIN),
            (u64::MAX, i64::MAX),
        ];
        for period_ns in [0, 1, 500_000, u64::MAX] {
            assert_eq!(detect(&ends, period_ns).len(), 5);
        }
    }

    proptest! {
        #[test]
        fn a_stall_is_a_part_of_the_lateness_and_only_long_gaps_add_to_it(
            ticks in proptest::collection::vec((1_u64..4, -50_000_i64..4_000_000), 1..120), period_ns in 1_000_u64..2_000_000
        ) {
            let mut at = 0;
            let ticks: Vec<(u64, i64)> = ticks.iter().map(|(apart, l)| { at += apart; (at, *l) }).collect();
            let found = detect(&ticks, period_ns);
            prop_assert_eq!(found.len(), ticks.len());
            prop_assert!(found[0].kept);
            for (tick, (_, lateness)) in found.iter().zip(&ticks) {
                prop_assert_eq!(tick.lateness_ns, *lateness);
                prop_assert!(0 <= tick.stall_ns && tick.stall_ns <= (*lateness).max(0), "{:?}", tick);
            }
            for (pair, of) in ticks.windows(2).zip(found.windows(2)) {
                let grown = of[1].stall_ns - of[0].stall_ns;
                let beyond = gap_ns(pair, period_ns) - i64::try_from(period_ns).unwrap();
                prop_assert!(grown <= 0 || 2 * beyond >= (i64::try_from(period_ns).unwrap()).min(2 * LONG_NS) - 2, "{:?}", pair);
                prop_assert!(grown <= beyond.max(0), "{:?} {:?}", pair, of);
                // What is dropped came less late than the one before, or after another stall.
                prop_assert!(of[1].kept || pair[1].1 < pair[0].1 || grown > 0 || beyond > 0);
            }
        }

        #[test]
        fn the_same_lateness_at_every_tick_is_no_stall(level in 0_i64..50_000_000, n in 1_usize..300, period_ns in 1_000_u64..20_000_000) {
            let ticks: Vec<(u64, i64)> = (0..n as u64).map(|k| (k, level)).collect();
            prop_assert!(detect(&ticks, period_ns).iter().all(|t| t.kept && t.stall_ns == 0));
        }
    }
}
