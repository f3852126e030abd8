//! The files of `osjitter gate` and `osjitter calibrate`, and the decisions that use stored data.
//!
//! The paired test is in [`jitterstat::gate`]. If the base can no longer run, stored sessions of it
//! replace it, each with a control ([`baseline`], [`baseline_test`]). Limits on the numbers of one
//! run have a separate rule ([`limit`]).
//!
//! Verdicts are written as `osjitter.verdict/1` ([`verdict`]).

pub mod baseline;
pub mod baseline_test;
pub mod calibration;
pub mod limit;
pub mod round_record;
pub mod verdict;

#[cfg(test)]
mod simulation;
