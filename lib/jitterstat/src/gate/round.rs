//! From the ticks of one round to the values the gate compares.

use crate::stall;
use crate::stats::quantile;

/// Ticks that a round must keep to carry a 99th percentile of its own.
pub const MIN_TICKS_FOR_P99: u64 = 180;
/// Ticks that a round must keep to carry a 95th percentile: five of them lie above it.
pub const MIN_TICKS_FOR_P95: u64 = 100;

/// The percentile that stands for the tail in rounds of so many ticks: 0.99, or 0.95 or 0.90 where they do not carry
/// that.
///
/// ```
/// use jitterstat::gate::round::{tail_name, tail_quantile};
/// assert_eq!((tail_quantile(250), tail_quantile(179), tail_quantile(99)), (0.99, 0.95, 0.90));
/// assert_eq!(tail_name(tail_quantile(100)), "p95");
/// ```
#[must_use]
pub fn tail_quantile(round_ticks: u64) -> f64 {
    match round_ticks {
        MIN_TICKS_FOR_P99.. => 0.99,
        MIN_TICKS_FOR_P95.. => 0.95,
        _ => 0.90,
    }
}

/// What people call the percentile that [`tail_quantile`] chose.
#[must_use]
pub fn tail_name(tail_quantile: f64) -> &'static str {
    match tail_quantile {
        q if q > 0.97 => "p99",
        q if q > 0.92 => "p95",
        _ => "p90",
    }
}

/// What one round of one side comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundValue {
    /// Logarithm of the median lateness in nanoseconds.
    pub ln_median: f64,
    /// Logarithm of the tail percentile.
    pub ln_tail: f64,
    /// Ticks the percentiles are of.
    pub kept: usize,
    /// Ticks left out because their stall is counted by its first tick.
    pub same_stall: usize,
}

impl RoundValue {
    /// Takes the lateness of a round's ticks, from the first in order; see [`RoundValue::of_ticks`].
    #[must_use]
    pub fn of(lateness_ns: &[i64], period_ns: u64, tail_quantile: f64, resolution_ns: i64) -> Option<Self> {
        Self::of_ticks((0..).zip(lateness_ns.iter().copied()), period_ns, tail_quantile, resolution_ns)
    }

    /// Takes a round's ticks as pairs of index and lateness, with rising indices; `None` without a tick.
    ///
    /// A stall of several periods makes every tick that fell due in it late: one event, counted once, by its first
    /// tick. Lateness below `resolution_ns`, the step of the clock that stamped the ticks, is that step: less has no
    /// meaningful logarithm.
    #[must_use]
    pub fn of_ticks(
        ticks: impl IntoIterator<Item = (u64, i64)>,
        period_ns: u64,
        tail_quantile: f64,
        resolution_ns: i64,
    ) -> Option<Self> {
        let mut all = 0;
        let ticks = ticks.into_iter().inspect(|_| all += 1);
        let mut kept: Vec<i64> = stall::counted_once(ticks, period_ns).collect();
        kept.iter_mut().for_each(|ns| *ns = (*ns).max(resolution_ns.max(1)));
        kept.sort_unstable();
        let ln = |q: f64| quantile::nearest_rank(&kept, q).map(|ns| (ns as f64).ln());
        Some(Self { ln_median: ln(0.5)?, ln_tail: ln(tail_quantile)?, kept: kept.len(), same_stall: all - kept.len() })
    }
}

/// One round of each side, run one directly after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// The side compared against.
    pub a: RoundValue,
    /// The side that is judged.
    pub b: RoundValue,
}

impl Pair {
    /// The pair with its sides exchanged.
    #[must_use]
    pub fn swapped(self) -> Self {
        Self { a: self.b, b: self.a }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_is_counted_once_by_its_first_tick() {
        // At 500 us: a stall of 1.7 ms makes four ticks late, the last of them by 200 us.
        let mut ticks = vec![10_000_i64; 200];
        ticks[50..54].copy_from_slice(&[1_700_000, 1_200_000, 700_000, 200_000]);
        let value = RoundValue::of(&ticks, 500_000, 0.99, 1).unwrap();
        assert_eq!((value.kept, value.same_stall), (197, 3));
        assert_eq!(value.ln_median, 10_000_f64.ln());
        assert_eq!(value.ln_tail, 10_000_f64.ln());
    }

    #[test]
    fn a_tick_just_short_of_the_period_takes_the_next_one_with_it() {
        let kept = |lateness: i64| RoundValue::of(&[lateness, 5], 500_000, 0.9, 1).unwrap().kept;
        assert_eq!((kept(479_999), kept(480_000)), (2, 1));
    }

    #[test]
    fn an_early_or_exact_tick_has_a_value() {
        let value = RoundValue::of(&[-40, 0, 3], 500_000, 0.9, 42).unwrap();
        assert_eq!(value.ln_median, 42_f64.ln());
        let value = RoundValue::of(&[-40, 0, 3], 500_000, 0.9, 0).unwrap();
        assert_eq!((value.ln_median, value.ln_tail), (0.0, 3_f64.ln()));
        assert!(RoundValue::of(&[], 500_000, 0.9, 1).is_none());
    }
}
