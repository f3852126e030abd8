//! What period can a machine hold? The shortest one at which goals hold, looked for with the
//! evidence of rounds at each period. Written as `osjitter.find/1`.
//!
//! A look measures one period and holds every goal against its interval: kept if all intervals lie
//! within the goals, broken if one lies outside, else open. What stays open is looked at again, in
//! more and fresh rounds. The error of all looks of a ticker together is at most 1 - [`CONFIDENCE`]
//! (Bonferroni; no round counts in two looks): so often as that, what was found broken and what was
//! found kept enclose the period from which on the goals hold.

mod model;
mod search;
#[cfg(test)]
mod tests;

pub use model::{
    CONFIDENCE, Check, Find, Finding, Goal, Look, MAX_GOALS, SCHEMA, StopReason, Ticker,
    least_ticks, look_confidence,
};
pub use search::{
    Bracket, COARSE, MAX_LOOKS, PeriodRange, Step, bracket, coarse_periods, next_step,
};
