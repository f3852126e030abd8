//! The search for the shortest period at which goals hold on a machine. Written as
//! `osjitter.find/1`.
//!
//! A look measures one period and compares the interval of each goal's number with its limit. The
//! goals are kept if all intervals are within the limits, broken if one is outside, and open
//! otherwise. An open period is measured again, in more and new rounds. The error of all looks of a
//! ticker together is at most 1 - [`CONFIDENCE`] (Bonferroni; no round counts in two looks). With
//! this confidence, the broken and the kept periods enclose the period from which the goals hold.

mod model;
mod search;
#[cfg(test)]
mod tests;

pub use model::{
    CONFIDENCE, Check, Find, Finding, Goal, Look, LookRules, MAX_GOALS, SCHEMA, StopReason, Ticker,
    least_ticks, look_confidence,
};
pub use search::{
    Bracket, COARSE, MAX_LOOKS, PeriodRange, Step, bracket, coarse_periods, next_step,
};
