//! The values of a round that the gate compares.

use super::Sides;

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
