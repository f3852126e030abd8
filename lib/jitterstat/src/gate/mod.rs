//! The decision of `osjitter gate`: has jitter become worse?
//!
//! Two sides, A (the base) and B (the candidate), run alternately in many short rounds, in an order
//! drawn at random for each pair. Each round gives one value per percentile ([`round`]). An exact
//! test judges the differences of their logarithms over the pairs at a few planned looks
//! ([`decision`]). Without a change, each look at each percentile raises a false alarm with at most
//! its share of alpha, and the shares add up to alpha: looking early does not raise the rate of
//! false alarms.
//!
//! From ticks to the verdict, with rounds that are already recorded ([`ticks::TickGate`] also runs
//! them):
//!
//! ```
//! use jitterstat::gate::Sides;
//! use jitterstat::gate::decision::{Outcome, Rules, look};
//! use jitterstat::gate::round::{CountedTicks, tail_quantile};
//! use jitterstat::stats::random::SplitMix64;
//!
//! // The index and the lateness in nanoseconds of each tick of 50 rounds of both sides.
//! let mut random = SplitMix64::new(1);
//! let mut record = |late_ns: i64| -> Vec<(u64, i64)> {
//!     (0..250).map(|tick| (tick, late_ns + (random.unit() * 2_000.0) as i64)).collect()
//! };
//! let rounds: Vec<Sides<Vec<(u64, i64)>>> =
//!     (0..50).map(|_| Sides { base: record(9_000), candidate: record(15_000) }).collect();
//!
//! let rules = Rules::new(500_000);
//! let value = |ticks: &Vec<(u64, i64)>| {
//!     let counted = CountedTicks::new(ticks.iter().copied(), rules.period_ns)?;
//!     Some(counted.value(tail_quantile(250), 1))
//! };
//! let pairs: Option<Vec<_>> = rounds
//!     .iter()
//!     .map(|round| Some(Sides { base: value(&round.base)?, candidate: value(&round.candidate)? }))
//!     .collect();
//! let verdict = look(&pairs.expect("every round has ticks"), &rules, true);
//! assert_eq!(verdict.outcome, Outcome::Regressed);
//! ```
//!
//! This test also judges numbers of whole runs ([`metric`]), two functions inside a test
//! ([`in_turn`]), and the time of their calls ([`calls`]).
//!
//! The test is that of Wilcoxon's signed ranks over the pairs, inverted to an interval
//! ([`crate::stats::signed_rank`]); alpha is shared among looks and percentiles as Bonferroni's
//! inequality allows.

pub mod arrivals;
pub mod calls;
pub mod decision;
pub mod in_turn;
pub mod metric;
pub mod round;
mod sides;
pub mod ticks;

pub use sides::{Side, Sides};
