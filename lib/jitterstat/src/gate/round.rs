//! From the ticks of one round to the values the gate compares.

use crate::model::model;
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

model! {
    /// One round: percentiles of the ticks that are left when each stall is counted once, and what the round used.
    pub struct RoundRecord {
        /// Median.
        pub p50_ns: i64,
        /// 90th percentile.
        pub p90_ns: i64,
        /// 95th percentile.
        pub p95_ns: i64,
        /// 99th percentile; judged only in rounds that carry one.
        pub p99_ns: i64,
        /// Largest.
        pub max_ns: i64,
        /// Ticks they are of.
        pub kept: u64,
        /// Ticks left out because their stall is counted by its first tick.
        pub same_stall: u64,
        /// Time stolen by the hypervisor, over all CPUs.
        pub steal_ns: Option<u64>,
        /// Time the threads were runnable and waited for a CPU.
        pub run_queue_ns: Option<u64>,
        /// Context switches by waiting.
        pub switches_voluntary: Option<u64>,
        /// Context switches by being preempted.
        pub switches_involuntary: Option<u64>,
    }
}

impl RoundRecord {
    /// Takes a round's ticks as pairs of index and lateness, with rising indices; `None` without a tick. What the
    /// round used is not known yet.
    ///
    /// A stall of several periods makes every tick that fell due in it late: one event, counted once, by its first tick.
    #[must_use]
    pub fn of(ticks: impl IntoIterator<Item = (u64, i64)>, period_ns: u64) -> Option<Self> {
        let mut all = 0_u64;
        let ticks = ticks.into_iter().inspect(|_| all += 1);
        let mut kept: Vec<i64> = stall::counted_once(ticks, period_ns).collect();
        kept.sort_unstable();
        let at = |q: f64| quantile::nearest_rank(&kept, q);
        Some(Self {
            p50_ns: at(0.50)?,
            p90_ns: at(0.90)?,
            p95_ns: at(0.95)?,
            p99_ns: at(0.99)?,
            max_ns: at(1.0)?,
            kept: kept.len() as u64,
            same_stall: all - kept.len() as u64,
            steal_ns: None,
            run_queue_ns: None,
            switches_voluntary: None,
            switches_involuntary: None,
        })
    }

    /// What is judged of it, with the tail at that quantile. Lateness below `resolution_ns`, the step of the clock that
    /// stamped the ticks, is that step: less has no meaningful logarithm.
    #[must_use]
    pub fn value(&self, tail_quantile: f64, resolution_ns: i64) -> RoundValue {
        let tail_ns = match tail_name(tail_quantile) {
            "p99" => self.p99_ns,
            "p95" => self.p95_ns,
            _ => self.p90_ns,
        };
        let ln = |ns: i64| (ns.max(resolution_ns).max(1) as f64).ln();
        RoundValue { ln_median: ln(self.p50_ns), ln_tail: ln(tail_ns), kept: self.kept, same_stall: self.same_stall }
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
    pub kept: u64,
    /// Ticks left out because their stall is counted by its first tick.
    pub same_stall: u64,
}

impl RoundValue {
    /// Takes the lateness of a round's ticks, from the first in order; see [`RoundRecord`].
    #[must_use]
    pub fn of(lateness_ns: &[i64], period_ns: u64, tail_quantile: f64, resolution_ns: i64) -> Option<Self> {
        let record = RoundRecord::of((0..).zip(lateness_ns.iter().copied()), period_ns)?;
        Some(record.value(tail_quantile, resolution_ns))
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

    #[test]
    fn a_record_keeps_the_percentiles_that_a_value_is_made_of() {
        let record = RoundRecord::of((0..).zip([9_000, 8_000, 700_000, 200_000, 7_000]), 500_000);
        let record = record.unwrap();
        assert_eq!((record.kept, record.same_stall), (4, 1));
        assert_eq!((record.p50_ns, record.p99_ns, record.max_ns), (8_000, 700_000, 700_000));
        assert_eq!(record.value(0.90, 1).ln_tail, 700_000_f64.ln());
        assert_eq!(record.value(0.99, 9_999).ln_median, 9_999_f64.ln());
        assert!(RoundRecord::of([], 500_000).is_none());
    }
}
