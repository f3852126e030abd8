//! The files of `osjitter gate` and `osjitter calibrate`, and the decisions that need stored data.
//!
//! The paired test itself is in [`jitterstat::gate`]. If the base can no longer run, stored sessions
//! of it, each next to a control, take its place ([`baseline`], [`baseline_test`]). A limit on a number of
//! one run has a rule of its own ([`limit`]).
//!
//! A verdict is written as `osjitter.verdict/1` ([`verdict`]).

pub mod baseline;
pub mod baseline_test;
pub mod calibration;
pub mod limit;
pub mod round_record;
pub mod verdict;

#[cfg(test)]
mod simulation;
