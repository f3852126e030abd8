//! The stored values of one round.

use jitterstat::gate::round::{Late, RoundValue, tail_name};
use jitterstat::stall;
use jitterstat::stats::quantile;

use crate::model::model;

model! {
    /// One round: percentiles of the ticks that are left when each stall is counted once, and what
    /// the round used.
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
        /// The same percentiles of what stalls did not make; null in files from before they were
        /// known.
        pub own: Option<OwnPercentiles>,
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

    /// Percentiles of the own parts of a round's ticks: their lateness without what stalls made of
    /// it.
    pub struct OwnPercentiles {
        /// Median.
        pub p50_ns: i64,
        /// 90th percentile.
        pub p90_ns: i64,
        /// 95th percentile.
        pub p95_ns: i64,
        /// 99th percentile.
        pub p99_ns: i64,
    }
}

impl RoundRecord {
    /// Takes a round's ticks as pairs of index and lateness, with rising indices; `None` without a
    /// tick. What the round used is not known yet.
    ///
    /// A stall of several periods makes every tick that fell due in it late: one event, counted
    /// once, by its first tick ([`stall`]).
    #[must_use]
    pub fn from_ticks(ticks: impl IntoIterator<Item = (u64, i64)>, period_ns: u64) -> Option<Self> {
        let ticks: Vec<(u64, i64)> = ticks.into_iter().collect();
        let (late, own) = stall::kept_lateness(&ticks, period_ns);
        let at = |q: f64| quantile::nearest_rank(&late, q);
        let own_at = |q: f64| quantile::nearest_rank(&own, q);
        Some(Self {
            p50_ns: at(0.50)?,
            p90_ns: at(0.90)?,
            p95_ns: at(0.95)?,
            p99_ns: at(0.99)?,
            max_ns: at(1.0)?,
            own: Some(OwnPercentiles {
                p50_ns: own_at(0.50)?,
                p90_ns: own_at(0.90)?,
                p95_ns: own_at(0.95)?,
                p99_ns: own_at(0.99)?,
            }),
            kept: late.len() as u64,
            same_stall: (ticks.len() - late.len()) as u64,
            steal_ns: None,
            run_queue_ns: None,
            switches_voluntary: None,
            switches_involuntary: None,
        })
    }

    /// What is judged of it, with the tail at that quantile. Lateness below `resolution_ns`, the
    /// step of the clock that stamped the ticks, is that step: less has no meaningful logarithm.
    #[must_use]
    pub fn value(&self, tail_quantile: f64, resolution_ns: i64) -> RoundValue {
        let own = |of: fn(&OwnPercentiles) -> i64, late: i64| self.own.as_ref().map_or(late, of);
        let (tail_ns, own_tail_ns) = match tail_name(tail_quantile) {
            "p99" => (self.p99_ns, own(|o| o.p99_ns, self.p99_ns)),
            "p95" => (self.p95_ns, own(|o| o.p95_ns, self.p95_ns)),
            _ => (self.p90_ns, own(|o| o.p90_ns, self.p90_ns)),
        };
        let late =
            |all: i64, own: i64| Late::from_ns(all.max(resolution_ns), own.max(resolution_ns));
        RoundValue {
            median: late(self.p50_ns, own(|o| o.p50_ns, self.p50_ns)),
            tail: late(tail_ns, own_tail_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(lateness_ns: &[i64]) -> RoundRecord {
        RoundRecord::from_ticks((0..).zip(lateness_ns.iter().copied()), 500_000).unwrap()
    }

    #[test]
    fn a_stall_is_counted_once_by_its_first_tick() {
        // At 500 us: a stall of 1.7 ms makes four ticks late, the last of them by 200 us.
        let mut ticks = vec![10_000_i64; 200];
        ticks[50..54].copy_from_slice(&[1_700_000, 1_200_000, 700_000, 200_000]);
        let record = record(&ticks);
        assert_eq!((record.kept, record.same_stall), (197, 3));
        assert_eq!((record.p50_ns, record.p99_ns, record.max_ns), (10_000, 10_000, 1_700_000));
    }

    #[test]
    fn an_early_or_exact_tick_has_a_value() {
        let of = |resolution_ns| record(&[-40, 0, 3]).value(0.9, resolution_ns);
        assert_eq!(of(42).median, Late::from_ns(42, 42));
        assert_eq!((of(0).median.ln, of(0).tail.ln), (0.0, 3_f64.ln()));
        assert!(RoundRecord::from_ticks([], 500_000).is_none());
    }

    #[test]
    fn a_value_knows_what_a_percentile_would_be_without_stalls() {
        // Tokio's Delay on its wheel: 5 ms behind from the eighth tick on.
        let late =
            [600, 1_100, 1_600, 2_100, 2_600, 3_100, 3_600, 9_100, 9_600, 10_100, 10_600, 11_100];
        let record = record(&late.map(|us| us * 1_000));
        let value = record.value(0.90, 1);
        assert_eq!((value.tail.ns(), value.tail.unstalled_ns()), (10_600_000, 5_600_000));
        assert!((value.tail.ln - value.tail.ln_unstalled - 0.638_1).abs() < 5e-5);
        assert_eq!((value.median.ns(), value.median.unstalled_ns()), (3_100_000, 3_100_000));
        // A record from before own parts were known says nothing about stalls.
        let old = RoundRecord { own: None, ..record };
        let tail = old.value(0.90, 1).tail;
        assert_eq!((tail.ns(), tail.unstalled_ns()), (10_600_000, 10_600_000));
    }
}
