//! Detection of stalls, so that each counts as one event however many ticks it makes late.
//!
//! A stall is a gap between two deliveries that exceeds the typical gap of the round by half. The
//! typical gap comes from the round itself. A timer wheel that delivers two ticks per turn, or a
//! handler that takes longer than the period, makes every tick late without a stall. If a loop
//! never catches up after a stall, all of its ticks count, and each has the part of its lateness
//! that the stall caused.

use crate::stats::quantile::nearest_rank;

/// Name of this definition. Values computed by another one are not comparable.
pub const RULE: &str = "gap-1";
/// Time before its deadline from which a tick counts as due. A tick that was due when its
/// predecessor was delivered belongs to the same stall.
pub const ALREADY_DUE_NS: i64 = 20_000;
/// Excess of a gap that is a stall however long the typical gap is, and lateness that is late at
/// any period.
pub const LONG_NS: i64 = 1_000_000;

/// A tick of a round with the effect of stalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// The measured lateness.
    pub lateness_ns: i64,
    /// Part of the lateness that stalls caused, from 0 to all of it.
    pub stall_ns: i64,
    /// Whether the tick counts. The backlog of a stall does not: its first tick represents it.
    pub kept: bool,
}

impl Tick {
    /// Returns the lateness without stalls.
    #[must_use]
    pub fn unstalled_ns(&self) -> i64 {
        self.lateness_ns.saturating_sub(self.stall_ns)
    }
}

/// Returns the lateness from which a tick is as late as stalls make it.
///
/// ```
/// assert_eq!([500_000, 10_000_000].map(jitterstat::stall::late_ns), [250_000, 1_000_000]);
/// ```
#[must_use]
pub fn late_ns(period_ns: u64) -> i64 {
    to_i64(period_ns / 2).min(LONG_NS)
}

/// Detects the stalls of one round, given the index and lateness of its ticks in order of the
/// index.
///
/// ```
/// // At a period of 500 us, a stall of 1.7 ms also makes the next three ticks late.
/// let lateness = [9_000, 9_000, 1_700_000, 1_200_000, 700_000, 200_000, 9_000];
/// let ticks: Vec<(u64, i64)> = (0..).zip(lateness).collect();
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
    let median = nearest_rank(&sorted, 0.5).unwrap_or(0);
    let mut stall_ns = cut(first.saturating_sub(median.max(0)), first);
    // Whether the previous tick is late because of a stall, directly or as part of its backlog.
    let mut behind = stall_ns > 0;
    let mut found = Vec::with_capacity(ticks.len());
    found.push(Tick { lateness_ns: first, stall_ns, kept: true });
    for pair in ticks.windows(2) {
        let ((_, before), (_, lateness)) = (pair[0], pair[1]);
        let (change, gap) = (lateness.saturating_sub(before), gap_ns(pair, period_ns));
        let stalled = gap >= typical.saturating_add(long);
        let due = before >= deadline_gap_ns(pair, period_ns).saturating_sub(ALREADY_DUE_NS).max(1);
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

/// Returns the lateness of the ticks that count, with and without stalls, each in ascending order.
#[must_use]
pub fn kept_lateness(ticks: &[(u64, i64)], period_ns: u64) -> (Vec<i64>, Vec<i64>) {
    let kept = detect(ticks, period_ns).into_iter().filter(|tick| tick.kept);
    let (mut late, mut unstalled): (Vec<i64>, Vec<i64>) =
        kept.map(|tick| (tick.lateness_ns, tick.unstalled_ns())).unzip();
    late.sort_unstable();
    unstalled.sort_unstable();
    (late, unstalled)
}

/// Returns by how much stalls raise a percentile, given its natural logarithm with and without
/// them; 0 if the percentile is less late than stalls make a tick.
#[must_use]
pub fn lift(ln: f64, ln_unstalled: f64, period_ns: u64) -> f64 {
    if ln >= (late_ns(period_ns) as f64).ln() { ln - ln_unstalled } else { 0.0 }
}

/// Returns the typical gap of a round: the median of its waits. If nine ticks in ten are late, it is
/// the time-weighted median of all gaps if that is longer, which happens when a handler spreads the
/// ticks of a timer wheel's turn.
fn typical_gap_ns(ticks: &[(u64, i64)], period_ns: u64, sorted: &[i64]) -> i64 {
    let period = to_i64(period_ns);
    let mut gaps: Vec<i64> = ticks.windows(2).map(|pair| gap_ns(pair, period_ns)).collect();
    gaps.sort_unstable();
    // A tick delivered together with the previous one did not wait.
    let waits = &gaps[gaps.partition_point(|gap| gap.saturating_mul(2) < period)..];
    let typical = nearest_rank(waits, 0.5).map_or(period, |median| median.max(period));
    if nearest_rank(sorted, 0.1).is_some_and(|late| late < late_ns(period_ns)) {
        return typical;
    }
    let positive = &gaps[gaps.partition_point(|&gap| gap <= 0)..];
    match time_weighted_median(positive) {
        Some(gap) => typical.max(gap.min(period.saturating_add(LONG_NS))),
        None => typical,
    }
}

/// Returns the median of sorted gaps, each of which counts by its length.
fn time_weighted_median(gaps: &[i64]) -> Option<i64> {
    let total: i128 = gaps.iter().copied().map(i128::from).sum();
    let mut sum = 0;
    for &gap in gaps {
        sum += i128::from(gap);
        if 2 * sum >= total {
            return Some(gap);
        }
    }
    None
}

/// Returns the time between the deadlines of two consecutive ticks.
fn deadline_gap_ns(pair: &[(u64, i64)], period_ns: u64) -> i64 {
    to_i64(pair[1].0.saturating_sub(pair[0].0)).saturating_mul(to_i64(period_ns))
}

/// Returns the time between the deliveries of two consecutive ticks.
fn gap_ns(pair: &[(u64, i64)], period_ns: u64) -> i64 {
    deadline_gap_ns(pair, period_ns).saturating_add(pair[1].1.saturating_sub(pair[0].1))
}

fn to_i64(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A round in microseconds.
    struct Round {
        period: u64,
        ticks: Vec<(u64, i64)>,
    }

    impl Round {
        fn new(period: u64, lateness: &[i64]) -> Self {
            Self { period, ticks: (0..).zip(lateness.iter().copied()).collect() }
        }

        fn ns(&self) -> Vec<(u64, i64)> {
            self.ticks.iter().map(|&(k, us)| (k, us * 1_000)).collect()
        }

        /// Checks the typical gap, the index and stalled part of each tick that has one, and the
        /// indices of dropped ticks.
        fn check(&self, typical: i64, stalls: &[(usize, i64)], dropped: &[usize]) {
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
            let found_dropped: Vec<usize> = (0..found.len()).filter(|&i| !found[i].kept).collect();
            assert_eq!(found_dropped, dropped);
        }

        /// A percentile of the lateness of the ticks that count, with and without stalls.
        fn quantile(&self, q: f64) -> (i64, i64) {
            let (late, unstalled) = kept_lateness(&self.ns(), self.period * 1_000);
            let quantile = |sorted: &[i64]| nearest_rank(sorted, q).unwrap() / 1_000;
            (quantile(&late), quantile(&unstalled))
        }
    }

    #[test]
    fn wheel_stalls_exceed_its_gap() {
        let turn = [1_200, 700].repeat(4);
        let backlog: Vec<i64> = (1..=12).rev().map(|k| 200 + 500 * k).collect();
        let round = Round::new(500, &[&turn[..], &backlog, &turn[..6]].concat());
        let parts: Vec<(usize, i64)> = (0..10).map(|i| (8 + i, 5_000 - 500 * i as i64)).collect();
        let dropped: Vec<usize> = (9..20).collect();
        round.check(1_000, &parts, &dropped);
        assert_eq!([0.5, 0.9].map(|q| round.quantile(q)), [(1_200, 1_200), (1_200, 1_200)]);
    }

    #[test]
    fn punctual_round_shows_one_stall() {
        let round = Round::new(500, &[&[10; 8][..], &[1_700, 1_200, 700, 200], &[10; 8]].concat());
        round.check(500, &[(8, 1_690), (9, 1_190), (10, 690)], &[9, 10, 11]);
        assert_eq!([0.5, 0.9].map(|q| round.quantile(q).0), [10, 10]);
    }

    #[test]
    fn delayed_loop_keeps_stalled_part() {
        let round = Round::new(
            500,
            &[600, 1_100, 1_600, 2_100, 2_600, 3_100, 3_600, 9_100, 9_600, 10_100, 10_600, 11_100],
        );
        // Tokio's Delay: each tick restarts the period, on a timer wheel that turns once per
        // millisecond.
        round.check(1_000, &[7, 8, 9, 10, 11].map(|i| (i, 5_000)), &[]);
        assert_eq!((round.quantile(0.5).0, round.quantile(0.9)), (3_100, (10_600, 5_600)));
    }

    #[test]
    fn skipped_ticks_alone_are_not_stalls() {
        let lateness = [900, 900, 900, 900, 900, 3_900, 900, 900, 900, 900];
        let indices = [0, 1, 2, 3, 4, 5, 9, 10, 11, 12];
        let round = Round { period: 1_000, ticks: indices.into_iter().zip(lateness).collect() };
        round.check(1_000, &[(5, 3_000)], &[]);
        assert_eq!(round.quantile(0.9).0, 900);
    }

    #[test]
    fn long_handler_is_not_a_stall() {
        let round = Round::new(500, &(0..12).map(|i| 100 * i).collect::<Vec<i64>>());
        round.check(600, &[], &[]);
        assert_eq!([0.5, 0.9].map(|q| round.quantile(q).0), [500, 1_000]);
        // On a timer wheel the handler spreads the two ticks of a turn.
        Round::new(500, &[1_200, 1_000].repeat(6)).check(700, &[], &[]);
    }

    #[test]
    fn stalls_may_start_before_the_round() {
        let coalesced =
            Round::new(500, &[&[10; 4][..], &[2_010, 1_510, 1_010, 510], &[10; 5]].concat());
        coalesced.check(500, &[(4, 2_000), (5, 1_500), (6, 1_000), (7, 500)], &[5, 6, 7, 8]);
        assert_eq!(coalesced.quantile(0.9), (2_010, 10));
        let begins = Round::new(500, &[&[2_300, 1_800, 1_300, 800, 300][..], &[10; 5]].concat());
        begins.check(500, &[(0, 2_290), (1, 1_790), (2, 1_290), (3, 790), (4, 290)], &[1, 2, 3, 4]);
    }

    #[test]
    fn ticks_due_later_are_kept() {
        let kept = |ticks: &[(u64, i64)]| detect(ticks, 500_000).iter().filter(|t| t.kept).count();
        assert_eq!([kept(&[(0, 479_999), (1, 5_000)]), kept(&[(0, 480_000), (1, 5_000)])], [2, 1]);
        assert_eq!(
            [kept(&[(0, 1_479_999), (3, 7_000)]), kept(&[(0, 1_480_000), (3, 7_000)])],
            [2, 1]
        );
    }

    #[test]
    fn short_periods_have_no_stalls() {
        let ticks = [(0, 0), (1, 5), (2, 0), (3, -3), (4, 0)];
        assert!(detect(&ticks, 10_000).iter().all(|t| t.kept && t.stall_ns == 0));
        assert!(detect(&[], 10_000).is_empty());
    }

    #[test]
    fn extreme_values_do_not_overflow() {
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
        fn only_long_gaps_grow_stalls(
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
            for (pair, found) in ticks.windows(2).zip(found.windows(2)) {
                let grown = found[1].stall_ns - found[0].stall_ns;
                let beyond = gap_ns(pair, period_ns) - i64::try_from(period_ns).unwrap();
                prop_assert!(grown <= 0 || 2 * beyond >= (i64::try_from(period_ns).unwrap()).min(2 * LONG_NS) - 2, "{:?}", pair);
                prop_assert!(grown <= beyond.max(0), "{:?} {:?}", pair, found);
                // A dropped tick is less late than the previous one, or follows another stall.
                prop_assert!(found[1].kept || pair[1].1 < pair[0].1 || grown > 0 || beyond > 0);
            }
        }

        #[test]
        fn constant_lateness_is_not_a_stall(level in 0_i64..50_000_000, n in 1_usize..300, period_ns in 1_000_u64..20_000_000) {
            let ticks: Vec<(u64, i64)> = (0..n as u64).map(|k| (k, level)).collect();
            prop_assert!(detect(&ticks, period_ns).iter().all(|t| t.kept && t.stall_ns == 0));
        }
    }
}
