//! The stored values of one round of a session.

use jitterstat::gate::round::{CountedTicks, RoundPercentile, RoundValue, tail_name};

use crate::model::model;

model! {
    /// The percentiles of one round, with each stall counted once, and the resources it used.
    pub struct RoundRecord {
        /// Median.
        pub p50_ns: i64,
        /// 90th percentile.
        pub p90_ns: i64,
        /// 95th percentile.
        pub p95_ns: i64,
        /// 99th percentile; judged only if the round has enough ticks.
        pub p99_ns: i64,
        /// Maximum.
        pub max_ns: i64,
        /// Percentiles without stalls; null in older files.
        pub own: Option<OwnPercentiles>,
        /// Number of ticks that count.
        pub kept: u64,
        /// Number of ticks that do not count, because the first tick of their stall represents
        /// them.
        pub same_stall: u64,
        /// Time over which the following were counted: from the runtime's readiness to the last
        /// tick; for a program, from its start to its end. Null in older files.
        #[serde(default)]
        pub window_ns: Option<u64>,
        /// Time stolen by the hypervisor, over all CPUs.
        pub steal_ns: Option<u64>,
        /// Time for which the threads were runnable and waited for a CPU.
        pub run_queue_ns: Option<u64>,
        /// Number of voluntary context switches. Those of an osjitter subject are counted from the
        /// first recorded tick to the last one.
        pub switches_voluntary: Option<u64>,
        /// Number of involuntary context switches.
        pub switches_involuntary: Option<u64>,
    }

    /// Percentiles of the lateness of a round without stalls.
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
    /// Creates a record from the index and lateness of the ticks of a round, in order of the index;
    /// `None` without a tick. The used resources are unknown.
    ///
    /// Each stall counts once ([`CountedTicks`]).
    #[must_use]
    pub fn from_ticks(ticks: impl IntoIterator<Item = (u64, i64)>, period_ns: u64) -> Option<Self> {
        let ticks = CountedTicks::new(ticks, period_ns)?;
        let [p50, p90, p95, p99] = [0.50, 0.90, 0.95, 0.99].map(|q| ticks.percentile(q));
        Some(Self {
            p50_ns: p50.late_ns,
            p90_ns: p90.late_ns,
            p95_ns: p95.late_ns,
            p99_ns: p99.late_ns,
            max_ns: ticks.max_ns(),
            own: Some(OwnPercentiles {
                p50_ns: p50.unstalled_ns,
                p90_ns: p90.unstalled_ns,
                p95_ns: p95.unstalled_ns,
                p99_ns: p99.unstalled_ns,
            }),
            kept: ticks.count(),
            same_stall: ticks.same_stall(),
            window_ns: None,
            steal_ns: None,
            run_queue_ns: None,
            switches_voluntary: None,
            switches_involuntary: None,
        })
    }

    /// Returns the values that a gate judges, as [`CountedTicks::value`] does, from the stored
    /// percentiles.
    #[must_use]
    pub fn value(&self, tail_quantile: f64, resolution_ns: i64) -> RoundValue {
        let unstalled = self.own.as_ref();
        let (tail_ns, unstalled_tail_ns) = match tail_name(tail_quantile) {
            "p99" => (self.p99_ns, unstalled.map(|percentiles| percentiles.p99_ns)),
            "p95" => (self.p95_ns, unstalled.map(|percentiles| percentiles.p95_ns)),
            _ => (self.p90_ns, unstalled.map(|percentiles| percentiles.p90_ns)),
        };
        // An older record without `own` shows no stalls.
        let late = |late_ns: i64, unstalled_ns: Option<i64>| {
            RoundPercentile { late_ns, unstalled_ns: unstalled_ns.unwrap_or(late_ns) }
                .late(resolution_ns)
        };
        RoundValue {
            median: late(self.p50_ns, unstalled.map(|percentiles| percentiles.p50_ns)),
            tail: late(tail_ns, unstalled_tail_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use jitterstat::gate::round::Late;

    use super::*;

    fn record(lateness_ns: &[i64]) -> RoundRecord {
        RoundRecord::from_ticks((0..).zip(lateness_ns.iter().copied()), 500_000).unwrap()
    }

    #[test]
    fn stalls_count_once() {
        // At 500 us: a stall of 1.7 ms makes four ticks late, the last of them by 200 us.
        let mut ticks = vec![10_000_i64; 200];
        ticks[50..54].copy_from_slice(&[1_700_000, 1_200_000, 700_000, 200_000]);
        let record = record(&ticks);
        assert_eq!((record.kept, record.same_stall), (197, 3));
        assert_eq!((record.p50_ns, record.p99_ns, record.max_ns), (10_000, 10_000, 1_700_000));
    }

    #[test]
    fn early_ticks_have_a_value() {
        let value = |resolution_ns| record(&[-40, 0, 3]).value(0.9, resolution_ns);
        assert_eq!(value(42).median, Late::from_ns(42, 42));
        assert_eq!((value(0).median.ln, value(0).tail.ln), (0.0, 3_f64.ln()));
        assert!(RoundRecord::from_ticks([], 500_000).is_none());
    }

    #[test]
    fn values_include_unstalled_percentiles() {
        // Tokio's Delay on its timer wheel: 5 ms behind from the eighth tick on.
        let late =
            [600, 1_100, 1_600, 2_100, 2_600, 3_100, 3_600, 9_100, 9_600, 10_100, 10_600, 11_100];
        let record = record(&late.map(|us| us * 1_000));
        let value = record.value(0.90, 1);
        assert_eq!((value.tail.ns(), value.tail.unstalled_ns()), (10_600_000, 5_600_000));
        assert!((value.tail.ln - value.tail.ln_unstalled - 0.638_1).abs() < 5e-5);
        assert_eq!((value.median.ns(), value.median.unstalled_ns()), (3_100_000, 3_100_000));
        // An older record shows no stalls.
        let old = RoundRecord { own: None, ..record };
        let tail = old.value(0.90, 1).tail;
        assert_eq!((tail.ns(), tail.unstalled_ns()), (10_600_000, 10_600_000));
    }
}
