//! Has jitter become worse? The decision of `osjitter gate`, from pairs of rounds.
//!
//! Two sides, A and B, run alternately in many short rounds, in an order drawn at random for each
//! pair. Each round gives one value a percentile ([`round`]); the differences of their logarithms
//! over the pairs are judged by an exact test at a few planned looks ([`look`]). Under no change,
//! each look of each percentile raises a false alarm with at most the share of alpha given to it,
//! and the shares add up to alpha: looking early costs nothing in honesty.
//!
//! Where the old side cannot be run any more, sessions of it that were stored beside a control
//! stand for it ([`baseline`], [`against`]).
//!
//! Whole runs of any program are judged by the same test, by any number ([`metric`]).
//!
//! So are two functions inside a test ([`in_turn`]).
//!
//! A limit on a number of one run is another question, and has a rule of its own ([`limit`]).
//!
//! The verdict is written as `osjitter.verdict/1` ([`verdict`]).

pub mod against;
pub mod baseline;
pub mod calibration;
pub mod in_turn;
pub mod limit;
pub mod look;
pub mod metric;
pub mod round;
pub mod verdict;

#[cfg(test)]
mod simulation;
