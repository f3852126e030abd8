//! The decision of `osjitter gate`: has jitter become worse?
//!
//! Two sides, A (the base) and B (the candidate), run alternately in many short rounds, in an order
//! drawn at random for each pair. Each round gives one value per percentile ([`round`]). An exact
//! test judges the differences of their logarithms over the pairs at a few planned looks
//! ([`decision`]). Without a change, each look at each percentile raises a false alarm with at most
//! its share of alpha, and the shares add up to alpha: looking early does not raise the rate of
//! false alarms.
//!
//! This test also judges numbers of whole runs ([`metric`]), two functions inside a test
//! ([`in_turn`]), and the time of their calls ([`calls`]).

pub mod calls;
pub mod decision;
pub mod in_turn;
pub mod metric;
pub mod round;
mod sides;

pub use sides::{Side, Sides};
