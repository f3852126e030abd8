//! A stall is one event, however many ticks it makes late.

/// A tick that was due when its predecessor came belongs to the same stall; this much before the deadline counts as due.
pub const ALREADY_DUE_NS: i64 = 20_000;

/// The lateness of the ticks that did not fall due while the one before them was still late, in tick order: of a stall
/// of several periods, only the first tick.
///
/// `ticks` are pairs of index and lateness, with rising indices.
///
/// ```
/// // At a period of 500 us, a stall of 1.7 ms makes the next three ticks late, too.
/// let ticks = [(0, 9_000), (1, 1_700_000), (2, 1_200_000), (3, 700_000), (4, 200_000), (5, 9_000)];
/// let kept: Vec<i64> = jitterstat::stall::counted_once(ticks, 500_000).collect();
/// assert_eq!(kept, [9_000, 1_700_000, 9_000]);
/// ```
pub fn counted_once(ticks: impl IntoIterator<Item = (u64, i64)>, period_ns: u64) -> impl Iterator<Item = i64> {
    let period_ns = i64::try_from(period_ns).unwrap_or(i64::MAX);
    let mut previous: Option<(u64, i64)> = None;
    ticks.into_iter().filter_map(move |(tick, lateness)| {
        let already_due = previous.replace((tick, lateness)).is_some_and(|(before, late)| {
            let apart = i64::try_from(tick.saturating_sub(before)).unwrap_or(i64::MAX);
            late >= period_ns.saturating_mul(apart).saturating_sub(ALREADY_DUE_NS).max(1)
        });
        (!already_due).then_some(lateness)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_after_a_gap_belongs_to_the_stall_only_if_the_stall_reached_it() {
        let kept = |late: i64| counted_once([(0, late), (3, 7)], 500_000).count();
        assert_eq!([kept(1_479_999), kept(1_480_000)], [2, 1]);
    }

    #[test]
    fn at_a_period_shorter_than_the_grain_only_late_ticks_hide_their_successors() {
        let kept: Vec<i64> = counted_once([(0, 0), (1, 5), (2, 0), (3, -3), (4, 0)], 10_000).collect();
        assert_eq!(kept, [0, 5, -3, 0]);
    }
}
