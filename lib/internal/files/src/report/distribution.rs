//! A distribution of a report, with its percentiles.

use std::collections::BTreeMap;

use crate::model::model;
use jitterstat::stats::Interval;

model! {
    /// A distribution in nanoseconds, with nearest-rank percentiles.
    #[derive(Default)]
    pub struct Distribution {
        /// Minimum.
        pub min: i64,
        /// Arithmetic mean, truncated to a whole nanosecond; null if another tool measured the values
        /// and does not state it.
        pub mean: Option<i64>,
        /// Median.
        pub p50: Option<i64>,
        /// 90th percentile.
        pub p90: Option<i64>,
        /// 99th percentile. Like every percentile, it is null if fewer than 5 samples are above it.
        pub p99: Option<i64>,
        /// 99.9th percentile.
        pub p99_9: Option<i64>,
        /// 99.99th percentile.
        pub p99_99: Option<i64>,
        /// Maximum.
        pub max: i64,
        /// 95 % confidence intervals over rounds, by the name of the percentile; empty with fewer
        /// than 10 rounds.
        #[serde(default)]
        pub ci95: BTreeMap<String, [i64; 2]>,
    }

    /// A percentile of the median round.
    pub struct MedianRound {
        /// Median of the percentile over the rounds.
        pub value: i64,
        /// 95 % confidence interval of that median; null with fewer than 10 rounds.
        pub ci95: Option<[i64; 2]>,
    }
}

/// A percentile that reports contain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percentile {
    /// Name in files: `p99_9`.
    pub key: &'static str,
    /// Name in text: `p99.9`.
    pub label: &'static str,
    /// The quantile: 0.999.
    pub quantile: f64,
}

/// The percentiles of every distribution, in ascending order.
pub const PERCENTILES: [Percentile; 5] = [
    Percentile { key: "p50", label: "p50", quantile: 0.50 },
    Percentile { key: "p90", label: "p90", quantile: 0.90 },
    Percentile { key: "p99", label: "p99", quantile: 0.99 },
    Percentile { key: "p99_9", label: "p99.9", quantile: 0.999 },
    Percentile { key: "p99_99", label: "p99.99", quantile: 0.9999 },
];

impl Distribution {
    /// Creates a distribution of values in `range`, without confidence intervals. `at` returns the
    /// value of a quantile.
    pub fn new(range: Interval<i64>, mean: Option<i64>, at: impl Fn(f64) -> Option<i64>) -> Self {
        let Interval { lower: min, upper: max } = range;
        let [p50, p90, p99, p99_9, p99_99] = PERCENTILES.map(|percentile| at(percentile.quantile));
        Self { min, mean, p50, p90, p99, p99_9, p99_99, max, ci95: BTreeMap::new() }
    }

    /// Returns all of [`PERCENTILES`] with their values.
    #[must_use]
    pub fn percentiles(&self) -> [(Percentile, Option<i64>); 5] {
        let values = [self.p50, self.p90, self.p99, self.p99_9, self.p99_99];
        std::array::from_fn(|i| (PERCENTILES[i], values[i]))
    }

    /// Returns the percentiles that the number of ticks supports.
    pub fn supported_percentiles(&self) -> impl Iterator<Item = (Percentile, i64)> + use<> {
        self.percentiles().into_iter().filter_map(|(percentile, ns)| Some((percentile, ns?)))
    }

    /// Returns the value of the percentile with this key, if the number of ticks supports it.
    #[must_use]
    pub fn percentile(&self, key: &str) -> Option<i64> {
        self.supported_percentiles().find(|(percentile, _)| percentile.key == key).map(|(_, ns)| ns)
    }
}
