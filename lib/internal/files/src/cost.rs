//! What an operation costs, and how much more than another in the same rounds.

use serde::{Deserialize, Serialize};

use crate::model::model;
use jitterstat::stats::quantile::{is_supported, nearest_rank};
use jitterstat::stats::sign_test::median_interval;

const CONFIDENCE: f64 = 0.95;
/// Costs are fractions of a nanosecond; the statistics are of whole numbers.
const PS_PER_NS: f64 = 1e3;
/// Steps of a per cent that ratios are kept in.
const STEPS_PER_PERCENT: f64 = 1e4;

model! {
    /// A distribution of the cost of one operation, over batches of them.
    pub struct Costs {
        /// Batches.
        pub batches: u64,
        /// Smallest.
        pub min: f64,
        /// Median.
        pub p50: f64,
        /// 90th percentile; null where fewer than 5 batches lie above it, as with the next.
        pub p90: Option<f64>,
        /// 99th percentile.
        pub p99: Option<f64>,
        /// Largest.
        pub max: f64,
    }

    /// Median over rounds of the difference to the control in the same round.
    pub struct Overhead {
        /// In nanoseconds an operation.
        pub ns: f64,
        /// Its 95 % confidence interval; null with fewer than 6 rounds.
        pub ns_ci95: Option<[f64; 2]>,
        /// In per cent of the control.
        pub percent: f64,
        /// Its 95 % confidence interval.
        pub percent_ci95: Option<[f64; 2]>,
        /// What the interval says.
        pub verdict: Verdict,
    }
}

/// What the interval of an overhead says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It holds zero.
    NoDifference,
    /// It lies above zero.
    Dearer,
    /// It lies below zero.
    Cheaper,
    /// There is none.
    TooFewRounds,
}

impl Costs {
    /// Of the batches of all rounds; `None` without any.
    #[must_use]
    pub fn from_batches(batches: &[f64]) -> Option<Self> {
        let mut sorted: Vec<i64> = batches.iter().map(|&ns| ps(ns)).collect();
        sorted.sort_unstable();
        let n = sorted.len();
        let at = |q: f64| nearest_rank(&sorted, q).map(ns);
        let supported = |q: f64| at(q).filter(|_| is_supported(n, q));
        Some(Self {
            batches: n as u64,
            min: ns(*sorted.first()?),
            p50: at(0.5)?,
            p90: supported(0.9),
            p99: supported(0.99),
            max: ns(*sorted.last()?),
        })
    }
}

impl Overhead {
    /// Of `rounds` over the `control` in the same rounds; `None` without a round.
    #[must_use]
    pub fn from_rounds(control: &[f64], rounds: &[f64]) -> Option<Self> {
        let pairs = || control.iter().zip(rounds);
        let differences: Vec<i64> = pairs().map(|(c, r)| ps(r - c)).collect();
        let ratios: Vec<i64> = pairs()
            .map(|(c, r)| {
                ((r - c) / c.max(1.0 / PS_PER_NS) * 100.0 * STEPS_PER_PERCENT).round() as i64
            })
            .collect();
        let (difference, interval) = median_interval(&differences, CONFIDENCE)?;
        let (ratio, ratio_interval) = median_interval(&ratios, CONFIDENCE)?;
        let verdict = match interval {
            None => Verdict::TooFewRounds,
            Some(interval) if interval.lower > 0 => Verdict::Dearer,
            Some(interval) if interval.upper < 0 => Verdict::Cheaper,
            Some(_) => Verdict::NoDifference,
        };
        let percent = |steps: i64| steps as f64 / STEPS_PER_PERCENT;
        Some(Self {
            ns: ns(difference),
            ns_ci95: interval.map(|i| i.map(ns).into()),
            percent: percent(ratio),
            percent_ci95: ratio_interval.map(|i| i.map(percent).into()),
            verdict,
        })
    }
}

/// Median of the batches of one round; `None` without any.
#[must_use]
pub fn median(batches: &[f64]) -> Option<f64> {
    Costs::from_batches(batches).map(|c| c.p50)
}

fn ps(ns: f64) -> i64 {
    (ns * PS_PER_NS).round() as i64
}

fn ns(ps: i64) -> f64 {
    ps as f64 / PS_PER_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overhead_is_paired_and_says_no_difference_only_where_zero_is_inside() {
        // The machine doubles its speed half-way: unpaired, the medians would say nothing.
        let control: Vec<f64> = (0..20).map(|r| if r < 10 { 200.0 } else { 100.0 }).collect();
        let dearer: Vec<f64> =
            control.iter().zip(0..).map(|(b, r)| b + 4.0 + f64::from(r % 3)).collect();
        let overhead = Overhead::from_rounds(&control, &dearer).unwrap();
        assert_eq!((overhead.ns, overhead.verdict), (5.0, Verdict::Dearer));
        assert!(overhead.ns_ci95.unwrap()[0] >= 4.0 && (2.0..6.0).contains(&overhead.percent));
        let noise: Vec<f64> =
            control.iter().zip(0..).map(|(b, r)| b + f64::from(r % 5) - 2.0).collect();
        assert_eq!(Overhead::from_rounds(&control, &noise).unwrap().verdict, Verdict::NoDifference);
        let cheaper: Vec<f64> = control.iter().map(|b| b - 0.5).collect();
        assert_eq!(Overhead::from_rounds(&control, &cheaper).unwrap().verdict, Verdict::Cheaper);
        assert_eq!(
            Overhead::from_rounds(&control[..3], &dearer[..3]).unwrap().verdict,
            Verdict::TooFewRounds
        );
        assert_eq!(Overhead::from_rounds(&[], &[]), None);
    }

    #[test]
    fn costs_keep_fractions_and_give_no_percentile_they_cannot() {
        let costs = Costs::from_batches(&[1.25, 0.5, 3.0]).unwrap();
        assert_eq!((costs.min, costs.p50, costs.p90, costs.max), (0.5, 1.25, None, 3.0));
        let many: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(Costs::from_batches(&many).unwrap().p90, Some(90.0));
        assert_eq!(median(&[]), None);
    }
}
