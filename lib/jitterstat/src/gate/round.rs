//! From the ticks of one round to the values the gate compares.

/// Ticks that a round must keep to carry a 99th percentile of its own.
pub const MIN_TICKS_FOR_P99: u64 = 180;
/// Ticks that a round must keep to carry a 95th percentile: five of them lie above it.
pub const MIN_TICKS_FOR_P95: u64 = 100;

/// The percentile that stands for the tail in rounds of so many ticks: 0.99, or 0.95 or 0.90 where
/// they do not carry that.
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

/// A percentile of a round, as natural logarithms of nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Late {
    /// Of the lateness: what is judged.
    pub ln: f64,
    /// Of the own parts: what it would be without stalls.
    pub ln_unstalled: f64,
}

impl Late {
    /// Of a percentile of the lateness and of the own parts; below 1 ns there is no logarithm.
    #[must_use]
    pub fn from_ns(late: i64, own: i64) -> Self {
        let ln = |ns: i64| (ns.max(1) as f64).ln();
        Self { ln: ln(late), ln_unstalled: ln(own) }
    }

    /// The lateness in nanoseconds.
    #[must_use]
    pub fn ns(self) -> i64 {
        self.ln.exp().round() as i64
    }

    /// The lateness without stalls, in nanoseconds.
    #[must_use]
    pub fn unstalled_ns(self) -> i64 {
        self.ln_unstalled.exp().round() as i64
    }
}

/// What one round of one side comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundValue {
    /// The median.
    pub median: Late,
    /// The percentile that stands for the tail.
    pub tail: Late,
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
