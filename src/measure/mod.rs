//! Measures: the rounds of a plan, and what becomes a report.

pub mod child;
pub mod duet;
pub mod record;
pub mod round;
