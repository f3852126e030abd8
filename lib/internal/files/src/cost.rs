//! The cost of an operation, alone and relative to another operation in the same rounds.

use serde::{Deserialize, Serialize};

use crate::model::model;
use jitterstat::stats::quantile::{nearest_rank, supported_nearest_rank};
use jitterstat::stats::sign_test::median_interval;

const CONFIDENCE: f64 = 0.95;
/// Resolution of costs, because the statistics use whole numbers.
const PS_PER_NS: f64 = 1e3;
/// Resolution of ratios.
const STEPS_PER_PERCENT: f64 = 1e4;

model! {
    /// The distribution of the cost of one operation over batches.
    pub struct Costs {
        /// Number of batches.
        pub batches: u64,
        /// Minimum.
        pub min: f64,
        /// Median.
        pub p50: f64,
        /// 90th percentile; null if fewer than 5 batches are above it.
        pub p90: Option<f64>,
        /// 99th percentile; null if fewer than 5 batches are above it.
        pub p99: Option<f64>,
        /// Maximum.
        pub max: f64,
    }

    /// The median over rounds of the difference from the control in the same round.
    pub struct Overhead {
        /// Difference in nanoseconds per operation.
        pub ns: f64,
        /// 95 % confidence interval of the difference; null with fewer than 6 rounds.
        pub ns_ci95: Option<[f64; 2]>,
        /// Difference in per cent of the control.
        pub percent: f64,
        /// 95 % confidence interval of that; null with fewer than 6 rounds.
        pub percent_ci95: Option<[f64; 2]>,
        /// The conclusion from the interval.
        pub verdict: Verdict,
    }
}

/// The conclusion from the interval of an overhead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The interval contains zero.
    NoDifference,
    /// The interval is above zero.
    Dearer,
    /// The interval is below zero.
    Cheaper,
    /// There are too few rounds for an interval.
    TooFewRounds,
}

impl Costs {
    /// Computes the distribution over the batches of all rounds; `None` without a batch.
    #[must_use]
    pub fn from_batches(batches: &[f64]) -> Option<Self> {
        let mut sorted: Vec<i64> = batches.iter().map(|&ns| ps(ns)).collect();
        sorted.sort_unstable();
        Some(Self {
            batches: sorted.len() as u64,
            min: ns(*sorted.first()?),
            p50: nearest_rank(&sorted, 0.5).map(ns)?,
            p90: supported_nearest_rank(&sorted, 0.9).map(ns),
            p99: supported_nearest_rank(&sorted, 0.99).map(ns),
            max: ns(*sorted.last()?),
        })
    }
}

impl Overhead {
    /// Computes the overhead of `rounds` relative to the `control` in the same rounds; `None`
    /// without a round.
    #[must_use]
    pub fn from_rounds(control: &[f64], rounds: &[f64]) -> Option<Self> {
        let (mut differences, mut ratios) = (Vec::new(), Vec::new());
        for (control, cost) in control.iter().zip(rounds) {
            let percent = (cost - control) / control.max(1.0 / PS_PER_NS) * 100.0;
            differences.push(ps(cost - control));
            ratios.push((percent * STEPS_PER_PERCENT).round() as i64);
        }
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

/// Returns the median of the batches of one round; `None` without a batch.
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
    fn overhead_is_paired_by_round() {
        // The machine doubles its speed half-way, so that unpaired medians would be meaningless.
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
    fn costs_omit_unsupported_percentiles() {
        let costs = Costs::from_batches(&[1.25, 0.5, 3.0]).unwrap();
        assert_eq!((costs.min, costs.p50, costs.p90, costs.max), (0.5, 1.25, None, 3.0));
        let many: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(Costs::from_batches(&many).unwrap().p90, Some(90.0));
        assert_eq!(median(&[]), None);
    }
}
