//! The values of a round that the gate compares, and the step from its ticks to them.

use super::Sides;
use crate::stall;
use crate::stats::quantile::nearest_rank;

/// Minimum number of ticks of a round for a 99th percentile.
pub const MIN_TICKS_FOR_P99: u64 = 180;
/// Minimum number of ticks of a round for a 95th percentile: five of them are above it.
pub const MIN_TICKS_FOR_P95: u64 = 100;

/// Returns the quantile that represents the tail of a round: 0.99, or 0.95 or 0.90 if the round has
/// too few ticks for that.
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

/// Returns the name of a quantile that [`tail_quantile`] returned.
#[must_use]
pub fn tail_name(tail_quantile: f64) -> &'static str {
    match tail_quantile {
        q if q > 0.97 => "p99",
        q if q > 0.92 => "p95",
        _ => "p90",
    }
}

/// The ticks of one round that the gate counts. A stall of several periods makes every tick late that
/// was due in it; it counts once, by its first tick, as [`stall`] describes.
///
/// ```
/// use jitterstat::gate::round::{CountedTicks, tail_quantile};
///
/// // 200 ticks at a period of 500 us, of which a stall of 1.7 ms makes four late.
/// let mut lateness_ns = [10_000; 200];
/// lateness_ns[50..54].copy_from_slice(&[1_700_000, 1_200_000, 700_000, 200_000]);
/// let ticks = CountedTicks::new((0..).zip(lateness_ns), 500_000).expect("the round has ticks");
/// assert_eq!((ticks.count(), ticks.same_stall()), (197, 3));
/// assert_eq!((ticks.percentile(0.5).late_ns, ticks.max_ns()), (10_000, 1_700_000));
///
/// // The numbers that the gate compares, for a clock with a step of 1 ns.
/// let value = ticks.value(tail_quantile(200), 1);
/// assert_eq!((value.median.ns(), value.tail.ns()), (10_000, 10_000));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedTicks {
    /// In ascending order.
    lateness_ns: Vec<i64>,
    /// The lateness without stalls, in ascending order.
    unstalled_ns: Vec<i64>,
    same_stall: u64,
}

impl CountedTicks {
    /// Selects the ticks that count from all ticks of a round: the index of each on the grid of the
    /// round, in ascending order, and its lateness in nanoseconds, negative if it was early. Ticks
    /// that were never delivered are left out, so that the next index is larger by more than 1.
    /// Returns `None` without a tick.
    #[must_use]
    pub fn new(ticks: impl IntoIterator<Item = (u64, i64)>, period_ns: u64) -> Option<Self> {
        let ticks: Vec<(u64, i64)> = ticks.into_iter().collect();
        let (lateness_ns, unstalled_ns) = stall::kept_lateness(&ticks, period_ns);
        let same_stall = (ticks.len() - lateness_ns.len()) as u64;
        (!lateness_ns.is_empty()).then_some(Self { lateness_ns, unstalled_ns, same_stall })
    }

    /// Returns the number of ticks that count.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.lateness_ns.len() as u64
    }

    /// Returns the number of ticks that do not count, because the first tick of their stall represents
    /// them.
    #[must_use]
    pub fn same_stall(&self) -> u64 {
        self.same_stall
    }

    /// Returns the value at the nearest rank of a quantile from 0 to 1.
    ///
    /// # Panics
    /// Panics if the quantile is not from 0 to 1.
    #[must_use]
    pub fn percentile(&self, quantile: f64) -> RoundPercentile {
        assert!((0.0..=1.0).contains(&quantile), "invalid quantile {quantile}: expected 0 to 1");
        let at = |sorted_ns: &[i64]| nearest_rank(sorted_ns, quantile).unwrap_or(sorted_ns[0]);
        RoundPercentile { late_ns: at(&self.lateness_ns), unstalled_ns: at(&self.unstalled_ns) }
    }

    /// Returns the largest lateness in nanoseconds.
    #[must_use]
    pub fn max_ns(&self) -> i64 {
        self.percentile(1.0).late_ns
    }

    /// Returns the numbers that the gate compares: the median, and the tail at `tail_quantile`, which
    /// [`tail_quantile`] chooses by the number of ticks. `resolution_ns` is the step of the clock
    /// ([`RoundPercentile::late`]).
    ///
    /// # Panics
    /// Panics if the quantile is not from 0 to 1.
    #[must_use]
    pub fn value(&self, tail_quantile: f64, resolution_ns: i64) -> RoundValue {
        RoundValue {
            median: self.percentile(0.5).late(resolution_ns),
            tail: self.percentile(tail_quantile).late(resolution_ns),
        }
    }
}

/// A percentile of the lateness of a round in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundPercentile {
    /// The percentile of the lateness.
    pub late_ns: i64,
    /// The percentile of the lateness without stalls.
    pub unstalled_ns: i64,
}

impl RoundPercentile {
    /// Converts the percentile to logarithms. Lateness below `resolution_ns`, the step of the clock,
    /// counts as that step, because a smaller value has no meaningful logarithm; without a known step,
    /// give 1.
    #[must_use]
    pub fn late(self, resolution_ns: i64) -> Late {
        Late::from_ns(self.late_ns.max(resolution_ns), self.unstalled_ns.max(resolution_ns))
    }
}

/// A percentile of a round, as natural logarithms of nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Late {
    /// The percentile of the lateness, which is judged.
    pub ln: f64,
    /// The percentile of the lateness without stalls.
    pub ln_unstalled: f64,
}

impl Late {
    /// Converts a percentile of the lateness, with and without stalls. Less than 1 ns counts as 1
    /// ns.
    #[must_use]
    pub fn from_ns(late_ns: i64, unstalled_ns: i64) -> Self {
        let ln = |ns: i64| (ns.max(1) as f64).ln();
        Self { ln: ln(late_ns), ln_unstalled: ln(unstalled_ns) }
    }

    /// Returns the lateness in nanoseconds.
    #[must_use]
    pub fn ns(self) -> i64 {
        self.ln.exp().round() as i64
    }

    /// Returns the lateness without stalls in nanoseconds.
    #[must_use]
    pub fn unstalled_ns(self) -> i64 {
        self.ln_unstalled.exp().round() as i64
    }
}

/// The values of one round of one side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundValue {
    /// The median.
    pub median: Late,
    /// The percentile that represents the tail.
    pub tail: Late,
}

/// One round of each side, run one directly after the other.
pub type Pair = Sides<RoundValue>;
